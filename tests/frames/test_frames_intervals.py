"""Intervals over captures hold; intervals over frames, as if they were independent, do not."""

from __future__ import annotations

import pytest

import draws
from benchmarks import frames_intervals


@pytest.mark.slow("simulated scenes of six captures")
@pytest.mark.parametrize("scene", frames_intervals.SCENES)
def test_intervals_over_captures_hold_where_those_over_frames_do_not(scene: str) -> None:
    rows = frames_intervals.measure(draws.draws(1000), 6, frames_intervals.SCENES[scene], 3)
    held = {(row.metric, row.kind): row for row in rows}
    for metric in ("average", "p99", "1 % low"):
        assert held[metric, "over runs"].held >= 0.92 - draws.room(0.96, 1000)
        assert held[metric, "bootstrap of runs"].held < held[metric, "over runs"].held
        assert held[metric, "bootstrap of runs"].width < held[metric, "over runs"].width
    assert held["average", "over frames"].held < 0.6 + draws.room(0.5, 1000)
    if frames_intervals.SCENES[scene].slow > 1:  # where each slow frame is independent of the others, those of a low hold better
        assert held["p99", "over frames"].held < 0.6 + draws.room(0.5, 1000)
        assert held["1 % low", "over frames"].held < 0.6 + draws.room(0.5, 1000)
