"""Arithmetic of sets of intervals: union, intersection, difference, length. Times are int64 nanoseconds.

A set is a pair of arrays (start, end) of one length, sorted, without overlaps and without empty intervals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


class Intervals(NamedTuple):
    """A set: half-open [start, end), sorted, apart from each other."""

    start: Times
    end: Times

    @property
    def length(self) -> int:
        """Nanoseconds in all."""
        return int(np.sum(self.end - self.start, dtype=np.int64))


NONE = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: NDArray[Any], end: NDArray[Any]) -> Intervals:
    """The set covered by any of the given intervals, in any order; empty and negative ones are left out."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if not len(start):
        return NONE
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.empty(len(start), bool)
    first[0] = True
    np.greater(start[1:], reach[:-1], out=first[1:])
    begins = np.flatnonzero(first)
    ends = np.append(begins[1:] - 1, len(start) - 1)
    return Intervals(start[begins].astype(np.int64, copy=False), reach[ends].astype(np.int64, copy=False))


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """What both cover."""
    if not len(a.start) or not len(b.start):
        return NONE
    low = np.searchsorted(b.end, a.start, "right")  # first of b that ends after a's start
    high = np.searchsorted(b.start, a.end, "left")  # first of b that starts at or after a's end
    count = np.maximum(high - low, 0)
    total = int(count.sum())
    if not total:
        return NONE
    of_a = np.repeat(np.arange(len(a.start)), count)
    of_b = np.arange(total) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return Intervals(np.maximum(a.start[of_a], b.start[of_b]), np.minimum(a.end[of_a], b.end[of_b]))


def together(*sets: Intervals) -> Intervals:
    """What any of them covers."""
    return union(np.concatenate([one.start for one in sets]), np.concatenate([one.end for one in sets]))


def gaps(a: Intervals, start: int, end: int) -> Intervals:
    """What `a` leaves free between `start` and `end`."""
    inside = intersection(a, Intervals(np.array([start], np.int64), np.array([end], np.int64)))
    begins = np.append(np.int64(start), inside.end)
    ends = np.append(inside.start, np.int64(end))
    keep = ends > begins
    return Intervals(begins[keep], ends[keep])


def difference(a: Intervals, b: Intervals) -> Intervals:
    """What `a` covers and `b` does not."""
    if not len(a.start) or not len(b.start):
        return a
    return intersection(a, gaps(b, int(a.start[0]), int(a.end[-1])))


def clipped(a: Intervals, start: int, end: int) -> Intervals:
    """The part between `start` and `end`."""
    if end <= start:
        return NONE
    return intersection(a, Intervals(np.array([start], np.int64), np.array([end], np.int64)))


def covered(a: Intervals, start: Times, end: Times) -> Times:
    """For each of any intervals, nanoseconds of it that `a` covers."""
    if not len(a.start):
        return np.zeros(len(start), np.int64)
    before = np.concatenate([[0], np.cumsum(a.end - a.start)])

    def up_to(time: Times) -> Times:
        at = np.searchsorted(a.start, time, "right")
        last = np.maximum(at - 1, 0)
        return before[last] * (at > 0) + np.where(at > 0, np.minimum(time, a.end[last]) - a.start[last], 0)

    return up_to(end) - up_to(start)
