"""A low clock as the cause of a gap."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.model import causes


@pytest.mark.parametrize(("share", "found"), [(0.9, True), (0.5, False), (1.0, False), (1.2, False), (None, False)])
def test_a_low_clock_explains_a_gap_and_nothing_where_there_is_none(monkeypatch: pytest.MonkeyPatch, share: float | None, found: bool) -> None:
    """At exactly its limit a number has no gap: the logarithm of 1 is 0."""
    monkeypatch.setattr(causes, "_clock_ratio", lambda _: 0.9)
    limit, context = SimpleNamespace(limiter="arithmetic unit"), SimpleNamespace(clock_max_hz=2e9)
    seen: Any = SimpleNamespace(share=share, name="compute", limit=limit, context=context)
    assert (causes._low_clock(seen) is not None) is found
