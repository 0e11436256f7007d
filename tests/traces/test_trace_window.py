"""Parts of a trace: steps by number, and of one that is too large some steps around the middle."""

from __future__ import annotations

import pytest
from made_events import Made

from hotlap.core.errors import InputError
from hotlap.traces import window
from hotlap.traces.study import Study


def stepped(steps: int = 10) -> Made:
    made = Made()
    for i in range(steps):
        made.marker(f"ProfilerStep#{i + 5}", i * 100, 100)
        made.launch("k", i * 100 + 10, i * 100 + 20, 30)
    return made


def test_steps_by_number() -> None:
    part = window.numbered(stepped().events(), 7, 8)
    assert len(part) == 6
    assert Study(part).steps.number.tolist() == [7, 8]
    assert len(Study(part).tasks.start) == 4
    with pytest.raises(InputError, match="5 to 14"):
        window.numbered(stepped().events(), 90, 91)


def test_a_small_trace_is_whole_and_a_large_one_is_cut_to_whole_steps() -> None:
    events = stepped().events()
    assert window.bounded(events) == (events, "")
    part, words = window.bounded(events, most=15)
    assert Study(part).steps.number.tolist() == [7, 8, 9, 10, 11]
    assert words.startswith("steps 7 to 11 of 10 are looked at (15 of 30 events")


def test_without_steps_a_stretch_of_time_is_taken() -> None:
    made = Made()
    for i in range(100):
        made.operator("aten::add", i * 10, 5)
    part, words = window.bounded(made.events(), most=20)
    assert 15 <= len(part) <= 25
    assert "around the middle" in words
