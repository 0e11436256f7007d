"""Steps by their markers."""

from __future__ import annotations

import numpy as np
import pytest
from made_events import Made

from hotlap.trace import calls, steps
from hotlap.trace.study import Study


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
