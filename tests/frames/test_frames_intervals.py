"""Intervals over captures hold; intervals over frames, as if they were independent, do not."""

from __future__ import annotations

import pytest

import draws
from benchmarks import frames_intervals


@pytest.mark.slow("simulated scenes of six captures")
def test_intervals_over_captures_hold_where_those_over_frames_do_not() -> None:
    scenes = draws.draws(1000)
    held = {(row.metric, row.kind): row for row in frames_intervals.measure(scenes, 6, 1500, 3)}
    for metric in ("average", "p99", "1 % low"):
        assert held[metric, "over runs"].held >= 0.92
        assert held[metric, "bootstrap of runs"].held < held[metric, "over runs"].held
        assert held[metric, "bootstrap of runs"].width < held[metric, "over runs"].width
    assert held["average", "over frames"].held < 0.6
