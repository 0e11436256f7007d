"""Steps by their markers."""

from __future__ import annotations

import numpy as np
import pytest
from made_events import Made

from hotlap.traces import calls, steps
from hotlap.traces import events as ev
from hotlap.traces.study import Study


@pytest.mark.parametrize("names", [["ProfilerStep#3", "ProfilerStep#4"], ["step 3", "step 4"], ["iteration_3", "iteration_4"]])
def test_steps_are_found_and_work_belongs_to_the_step_that_launched_it(names: list[str]) -> None:
    made = Made()
    for i, name in enumerate(names):
        made.marker(name, i * 100, 100)
    made.launch("k", 90, 120, 10)  # launched in the first step, runs in the second
    made.launch("k", 150, 160, 10)
    events = made.events()
    found = steps.steps(events)
    assert found.number.tolist() == [3, 4]
    assert steps.of_work(events, found, calls.links(events)).tolist() == [0, 1]
    assert Study(events).window == (0, 200_000)


def test_without_markers_there_are_no_steps_and_the_window_is_from_launch_to_end() -> None:
    made = Made()
    made.operator("stepwise", 0, 10)
    made.launch("k", 20, 30, 10)
    events = made.events()
    assert len(steps.steps(events)) == 0
    assert steps.of_times(steps.NO_STEPS, np.array([5])).tolist() == [-1]
    assert Study(events).window == (20_000, 40_000)


def test_steps_within_iterations_are_not_mixed_with_them_and_endless_numbers_are_no_steps() -> None:
    made = Made()
    made.marker("step 99999999999999999999999", 0, 10)
    for i in range(3):
        made.marker(f"iteration {i}", 100 + i * 100, 100)
        for j in range(2):
            made.marker(f"step {2 * i + j}", 100 + i * 100 + 50 * j, 45)
    found = steps.steps(made.events())
    assert found.number.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.marker == "step"


def test_the_window_begins_with_the_first_operator_and_may_lie_before_the_origin() -> None:
    made = Made()
    made.add(ev.OVERHEAD, "o", 0, 1)
    made.operator("aten::mm", 5000, 10)
    assert Study(made.events()).window == (5_000_000, 5_010_000)
    made = Made()
    made.launch("k", -100, -90, 5)
    made.launch("k", -80, -70, 5)
    assert Study(made.events()).window == (-100_000, -65_000)
    assert Study(made.events()).breakdown().idle_share == 15 / 25
