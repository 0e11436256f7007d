"""Clocks of ranks, set by each other: a collective ends on all of its ranks at once, so its ends tell how far their clocks are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.meeting import Met

Floats = NDArray[np.float64]
DRIFT_LEAST = 20  # collectives, to tell a drift
DRIFT_MOST = 5e-4  # of clocks that are not broken: crystals keep 1e-4
GAIN = 0.5  # a drift is believed where it leaves at most this share of the deviation without it
WAITED = 0.25  # of what ranks wait (90th percentile), that ends may differ by for the order of arrivals to be known
WAITED_SET = 0.05  # the same where clocks had to be set by these very ends
LEAST_NS = 20_000  # ends within this agree whatever ranks wait
MOST_NS = 5_000_000  # ends further apart than this are no common moment
SET_LEAST = 5  # collectives of a rank, to set its clock
POINTS = 400  # of which pairs make a slope
ROUNDS = 4
QUANTILE = 0.75


class Clocks(NamedTuple):
    """What to add to each rank's time, and how well ends agree after that (ns)."""

    ranks: NDArray[np.int64]
    offset: Floats  # at `origin`
    drift: Floats  # ns for each ns
    origin: int  # ns; times are counted from it
    used: int  # collectives
    raw_ns: float  # three of four ends lie no further from their collective's median end, as recorded
    residual_ns: float  # the same after setting
    waited_ns: float  # 90th percentile over collectives of the time between first and last arrival
    least_used: int  # collectives of the rank that took part in fewest, but in some

    @property
    def agree(self) -> bool:
        """Whether arrival order is known."""
        return bool(self.used) and self.residual_ns <= self.limit_ns

    @property
    def limit_ns(self) -> float:
        """What ends may differ by."""
        if self.corrected and self.least_used < SET_LEAST:
            return -1.0
        return min(max((WAITED_SET if self.corrected else WAITED) * self.waited_ns, LEAST_NS), MOST_NS)

    @property
    def corrected(self) -> bool:
        """Whether any clock is set."""
        return bool(np.any(self.offset) or np.any(self.drift))

    def true(self, rank_rows: NDArray[np.int64], time: NDArray[np.int64]) -> Floats:
        """Times of ranks (rows) by the common clock, ns since `origin`."""
        local = (time - self.origin).astype(np.float64)
        rows = np.searchsorted(self.ranks, rank_rows)
        return local + self.offset[rows][:, None] + self.drift[rows][:, None] * local


def clocks(ranks: Sequence[int], groups: Sequence[Met]) -> Clocks:
    """Offsets and drifts from the ends of collectives, by medians: a few odd ends do not matter."""
    order = np.array(sorted(ranks), np.int64)
    origin = min((int(one.start.min()) for one in groups), default=0)
    ends = [(np.searchsorted(order, one.ranks), (one.end - origin).astype(np.float64)) for one in groups]
    zero = np.zeros(len(order))
    used = sum(one.end.shape[1] for one in groups)
    if not used:
        return Clocks(order, zero, zero, origin, 0, 0.0, 0.0, 0.0, 0)
    raw = _residual(zero, zero, ends)
    offset, root = _spanned(len(order), ends)
    straight, _, left = _settled(offset, ends, root, False)
    bent, slope, less = _settled(offset, ends, root, True)
    drift = slope if less <= GAIN * left else zero
    straight, left = (bent, less) if less <= GAIN * left else (straight, left)
    took = np.zeros(len(order), np.int64)
    for one in groups:
        took[np.searchsorted(order, one.ranks)] += one.end.shape[1]
    least_used = int(took[took > 0].min())
    # As they are: one clock, or clocks that were set; and ends that agree, of which there are too few to set clocks by.
    if raw <= max(1.5 * left, LEAST_NS if least_used < SET_LEAST else 1_000.0):
        straight, drift, left = zero, zero, raw
    done = Clocks(order, straight, drift, origin, used, raw, left, 0.0, least_used)
    spans = np.concatenate([np.ptp(done.true(one.ranks, one.start), axis=0) for one in groups])
    return done._replace(waited_ns=float(np.quantile(spans, 0.9)))


def _spanned(count: int, ends: list[tuple[NDArray[np.int64], Floats]]) -> tuple[Floats, NDArray[np.int64]]:
    """First offsets, from group to group, those with most collectives and ranks first; and for each rank the one it is set by: ranks
    that share a collective, at first or second hand, have the same."""
    offset, root = np.zeros(count), np.full(count, -1)
    left = sorted(range(len(ends)), key=lambda i: -ends[i][1].size)
    while left:
        at = next((i for i in left if (root[ends[i][0]] >= 0).any()), left[0])
        left.remove(at)
        rows, times = ends[at]
        if not (root[rows] >= 0).any():
            root[rows[0]] = rows[0]
        known = root[rows] >= 0
        moment = np.median(times[known] + offset[rows[known]][:, None], axis=0)
        fresh = rows[~known]
        offset[fresh] = np.median(moment - times[~known], axis=1)
        root[fresh] = root[rows[known][0]]
    return offset, root


def _settled(
    offset: Floats, ends: list[tuple[NDArray[np.int64], Floats]], root: NDArray[np.int64], drifting: bool
) -> tuple[Floats, Floats, float]:
    """Offsets and drifts after some rounds, each against the clock of its root, and what is left."""
    drift = np.zeros(len(offset))
    for _ in range(ROUNDS):
        offset, drift = _refined(offset, drift, ends, drifting)
    at = np.where(root >= 0, root, np.arange(len(offset)))
    offset, drift = offset - offset[at], drift - drift[at]
    return offset, drift, _residual(offset, drift, ends)


def _refined(
    offset: Floats, drift: Floats, ends: list[tuple[NDArray[np.int64], Floats]], drifting: bool
) -> tuple[Floats, Floats]:
    """One round: the moment of each collective is the median of its ranks' ends; each rank is set to the moments of all of its."""
    local: list[list[Floats]] = [[] for _ in offset]
    apart: list[list[Floats]] = [[] for _ in offset]
    for rows, times in ends:
        moment = np.median(times * (1 + drift[rows][:, None]) + offset[rows][:, None], axis=0)
        for row, own in zip(rows, times, strict=True):
            local[row].append(own)
            apart[row].append(moment - own)
    new_offset, new_drift = offset.copy(), drift.copy()
    for row in range(len(offset)):
        if not local[row]:
            continue
        x, y = np.concatenate(local[row]), np.concatenate(apart[row])
        slope = _slope(x, y) if drifting and len(x) >= DRIFT_LEAST else 0.0
        new_drift[row] = slope if abs(slope) <= DRIFT_MOST else 0.0
        new_offset[row] = np.median(y - new_drift[row] * x)
    return new_offset, new_drift


def _slope(x: Floats, y: Floats) -> float:
    """Theil's slope from pairs half the points apart: no more than a quarter of wild points matter."""
    order = np.argsort(x)
    if len(order) > POINTS:
        order = order[np.linspace(0, len(order) - 1, POINTS).astype(np.int64)]
    x, y = x[order], y[order]
    half = len(x) // 2
    run = x[half : 2 * half] - x[:half]
    rise = y[half : 2 * half] - y[:half]
    return float(np.median(rise[run > 0] / run[run > 0])) if (run > 0).any() else 0.0


def _residual(offset: Floats, drift: Floats, ends: list[tuple[NDArray[np.int64], Floats]]) -> float:
    """How far three of four ends lie, at most, from the median end of their collective: a thread that is late to see an end is no clock."""
    parts = []
    for rows, times in ends:
        set_to = times * (1 + drift[rows][:, None]) + offset[rows][:, None]
        count = len(set_to)  # of two, the median lies between them: what they differ by counts
        parts.append(np.abs(set_to - np.median(set_to, axis=0)).ravel() * (count / (count - 1)))
    return float(np.quantile(np.concatenate(parts), QUANTILE))
