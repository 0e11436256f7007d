"""Sets of intervals against sets of whole numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hotlap.traces import intervals
from hotlap.traces.intervals import NONE, Intervals

PAIRS = st.lists(st.tuples(st.integers(-30, 30), st.integers(-3, 12)), max_size=12)


def made(pairs: list[tuple[int, int]]) -> Intervals:
    start = np.array([s for s, _ in pairs], np.int64)
    return intervals.union(start, start + np.array([n for _, n in pairs], np.int64))


def points(given_: Intervals) -> set[int]:
    return {x for s, e in zip(given_.start.tolist(), given_.end.tolist(), strict=True) for x in range(s, e)}


def is_a_set(found: Intervals) -> bool:
    return bool(
        (found.end > found.start).all() and (found.start[1:] >= found.end[:-1]).all() and found.start.dtype == found.end.dtype == np.int64
    )


@given(PAIRS)
def test_union(pairs: list[tuple[int, int]]) -> None:
    found = made(pairs)
    assert points(found) == {x for s, n in pairs for x in range(s, s + n)}
    assert is_a_set(found)
    assert found.length == len(points(found))


@given(PAIRS, PAIRS, st.integers(-35, 45), st.integers(0, 40))
def test_intersection_difference_gaps_and_clipping(
    first: list[tuple[int, int]], second: list[tuple[int, int]], start: int, length: int
) -> None:
    a, b, window = made(first), made(second), set(range(start, start + length))
    for found, expected in (
        (intervals.intersection(a, b), points(a) & points(b)), (intervals.difference(a, b), points(a) - points(b)),
        (intervals.gaps(a, start, start + length), window - points(a)), (intervals.clipped(a, start, start + length), points(a) & window),
    ):  # fmt: skip
        assert points(found) == expected
        assert is_a_set(found)


@given(PAIRS, PAIRS)
def test_covered(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a = made(first)
    start = np.array([s for s, _ in second], np.int64)
    end = start + np.array([max(n, 0) for _, n in second], np.int64)
    found = intervals.covered(a, start, end)
    assert found.tolist() == [len(points(a) & set(range(s, e))) for s, e in zip(start.tolist(), end.tolist(), strict=True)]


def test_nothing() -> None:
    assert NONE.length == 0
    assert intervals.difference(NONE, made([(0, 5)])).length == 0
    assert intervals.intersection(made([(0, 5)]), NONE) is NONE
