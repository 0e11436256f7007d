"""Delays of launches and the depth of the queue, counted by hand."""

from __future__ import annotations

from made_events import Made

from hotlap.traces import calls, launching


def test_delays_and_depth() -> None:
    made = Made()
    made.launch("a", 0, 10, 20)  # waits from 0 to 10
    made.launch("b", 5, 30, 10)  # from 5 to 30
    made.launch("c", 60, 70, 5)  # from 60 to 70
    events = made.events()
    found = launching.launches(events, calls.links(events), 0)
    assert found is not None
    assert (found.delay / 1000).tolist() == [10, 25, 10]
    assert found.most_depth == 2
    assert found.empty == 30 / 70  # from 30 to 60
    assert found.median_depth == 1


def test_without_calls_there_is_nothing_to_tell() -> None:
    made = Made()
    made.add(0, "k", 0, 5, device=0, stream=7)
    events = made.events()
    assert launching.launches(events, calls.links(events), 0) is None
