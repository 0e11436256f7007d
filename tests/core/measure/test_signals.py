"""Ctrl-C while something goes on that must be kept."""

from __future__ import annotations

import signal

import pytest

from hotlap.core.measure import signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_and_the_next_raises(number: int) -> None:
    before, stopped = signal.getsignal(number), list[str]()
    with signals.stopping(lambda: stopped.append("stop")):
        signal.raise_signal(number)
        assert stopped == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert stopped == ["stop"]
    assert signal.getsignal(number) is before
