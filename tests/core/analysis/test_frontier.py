"""Which points no other surely beats, on any axes; and the frontier of time against energy, whose bounds may overlap."""

from __future__ import annotations

import pytest

from hotlap.core.analysis.frontier import FrontierPoint, FrontierSpan, Sense, front, frontier
from hotlap.tuning import power_show as show


def exact(*values: float) -> list[FrontierSpan]:
    return [FrontierSpan(value, value) for value in values]


def test_numbers_without_a_width_are_the_usual_front() -> None:
    points = [exact(1, 10), exact(2, 9), exact(3, 9.5), exact(4, 6), exact(4, 7)]
    assert front(points, ("least", "least")) == [True, True, False, True, False]
    assert front(points, ("most", "most")) == [True, False, True, False, True]
    assert front(points, ("least", "most")) == [True, False, False, False, False]


@pytest.mark.parametrize(("low", "high", "kept"), [(10.5, 11.5, False), (10.0, 11.5, False), (9.9, 11.5, True), (8.0, 20.0, True)])
def test_a_point_is_beaten_only_where_intervals_separate(low: float, high: float, kept: bool) -> None:
    better = [FrontierSpan(1, 1.2), FrontierSpan(9, 10)]
    assert front([better, [FrontierSpan(1.3, 1.4), FrontierSpan(low, high)]], ("least", "least")) == [True, kept]
    mirrored = [[FrontierSpan(-span.high, -span.low) for span in point] for point in (better, [FrontierSpan(1.3, 1.4), FrontierSpan(low, high)])]
    senses: tuple[Sense, Sense] = ("most", "most")
    assert front(mirrored, senses) == [True, kept]


def test_on_the_other_axis_too() -> None:
    assert front([[FrontierSpan(1, 2), FrontierSpan(1, 2)], [FrontierSpan(1.9, 3), FrontierSpan(5, 6)]], ("least", "least")) == [True, True]


def test_of_the_same_point_twice_the_first_counts() -> None:
    assert front([exact(1, 1), exact(1, 1), exact(2, 2)], ("least", "least")) == [True, False, False]
    wide = [FrontierSpan(1, 2), FrontierSpan(1, 2)]
    assert front([wide, wide], ("least", "least")) == [True, True]  # the same interval is not the same number


def test_energies_within_each_others_bounds_are_both_on_the_frontier() -> None:
    """A slower setting whose energy may be lower or higher is not dominated; before, its middle alone decided."""
    free = FrontierPoint(name="free", seconds=1.0, joules=10.0, low_j=9.5, high_j=10.5)
    near = FrontierPoint(name="near", seconds=1.1, joules=10.2, low_j=9.7, high_j=10.7)
    far = FrontierPoint(name="far", seconds=1.2, joules=12.0, low_j=11.5, high_j=12.5)
    kept = frontier([free, near, far])
    assert {point.name: point.front for point in kept.points} == {"free": True, "near": True, "far": False}
    assert "takes less energy by more than their bounds" in show.frontier(kept)
    modelled = frontier([FrontierPoint(name="free", seconds=1.0, joules=10.0), FrontierPoint(name="near", seconds=1.1, joules=10.2)])
    assert [point.front for point in modelled.points] == [True, False]
    assert "by more than their bounds" not in show.frontier(modelled)
