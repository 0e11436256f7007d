"""Peaks, holders, growth and what the allocator keeps, on hand-made allocations."""

from __future__ import annotations

import numpy as np
import pytest
from made_events import Made

from hotlap.traces import events as ev
from hotlap.traces import memory
from hotlap.traces.advice import trace as advising
from hotlap.traces.study import Study

MIB = 1 << 20


def allocate(made: Made, at: float, change: int, address: int, total: int = -1, reserved: int = -1) -> None:
    made.host(ev.MEMORY, "[memory]", at, 0, device=0, bytes=change, sequence=address, external=total, correlation=reserved)


def test_peak_holders_and_what_was_there_before() -> None:
    made = Made()
    made.operator("aten::conv2d", 0, 10)
    made.operator("aten::add", 20, 10)
    allocate(made, 1, 6 * MIB, 100)
    allocate(made, 2, 1 * MIB, 200)
    allocate(made, 5, -1 * MIB, 200)
    allocate(made, 21, 3 * MIB, 300)
    allocate(made, 40, -3 * MIB, 300)
    allocate(made, 50, -8 * MIB, 999)  # allocated before the trace began
    (found,) = memory.of(made.events())
    assert not found.whole
    assert found.peak == 11 * MIB  # the 2 MiB more than were seen allocated had been there
    assert [(one.operator, one.bytes, one.allocations) for one in found.holders] == [("aten::conv2d", 6 * MIB, 1), ("aten::add", 3 * MIB, 1)]
    assert memory.levels(found, 4, (0, 60_000)).max() == found.peak
    assert found.unused is None


def leaking(leak: int, reserved: int = 120 * MIB) -> Made:
    made, total, address = Made(), 50 * MIB, 1
    for step in range(8):
        made.marker(f"ProfilerStep#{step}", step * 1000, 1000)
        made.launch("k", step * 1000 + 10, step * 1000 + 20, 900)
        for change in (20 * MIB, -20 * MIB + leak):
            total += change
            allocate(made, step * 1000 + 100 + (change < 0) * 400, change, address, total, reserved)
            address += 1
    return made


def test_what_every_step_leaves_behind_is_growth() -> None:
    (found,) = memory.of(leaking(MIB).events())
    assert found.whole
    assert found.growth_per_step == MIB
    (steady,) = memory.of(leaking(0).events())
    assert steady.growth_per_step == 0
    rules = {one.rule for one in advising.advise(Study(leaking(MIB).events())).findings}
    assert "memory-growth" in rules
    assert "memory-growth" not in {one.rule for one in advising.advise(Study(leaking(0).events())).findings}


def test_what_the_allocator_keeps_unused() -> None:
    (found,) = memory.of(leaking(0, reserved=140 * MIB).events())
    assert found.unused is not None
    assert np.isclose(found.unused, 0.5)


def test_a_trace_without_memory_has_none() -> None:
    made = Made()
    made.operator("aten::add", 0, 5)
    assert memory.of(made.events()) == []


@pytest.mark.slow("traces of many events")
def test_growth_counts_steps_without_changes_and_takes_no_square_of_them() -> None:
    for count, every in ((12, 3), (20_000, 1)):
        made = Made()
        for i in range(count):
            made.marker(f"step {i}", i * 10, 10)
            if i % every == 0:
                made.host(ev.MEMORY, "[memory]", i * 10 + 1, 0, bytes=10, external=10 * i, device=0, sequence=i)
        assert memory.of(made.events())[0].growth_per_step == 10
