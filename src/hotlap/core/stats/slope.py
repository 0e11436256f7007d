"""Slopes of many short series at once: Theil–Sen with intervals by Kendall's score, right under autocorrelation."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.series import MAD_TO_SD

Floats = NDArray[np.float64]

DAY_S = 86_400.0
MONTH_S = 30.44 * DAY_S
FEWEST_POINTS = 6  # below it ranks show nothing
FEWEST_DAYS = 14.0  # a slope per month is not made up from hours
POOL, POOLED = 20, 2000  # series whose autocorrelations together say more than each alone; the most that are looked at
ROWS = 4096  # series whose slopes are taken in one go
NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)
POWER = 1 + NORMAL.inv_cdf(0.8) / Z  # smallest slope found with 80 % power, in half-widths of the 95 % interval


class Slopes(NamedTuple):
    """Relative changes per month (negative is worse) with 95 % intervals; NaN where too little is known. Arrays of one shape."""

    slope: Floats
    low: Floats
    high: Floats
    p: Floats  # chance of such a trend in a series without one


def unknown(*shape: int) -> Slopes:
    return Slopes(*(np.full(shape, np.nan) for _ in Slopes._fields))


def slopes(times: Floats, logs: NDArray[np.float32], pool: bool = True) -> Slopes:
    """Of series × points."""
    months = (times - times[0]) / MONTH_S
    fit = unknown(len(logs))
    if len(months) < FEWEST_POINTS:
        return fit
    finite = np.isfinite(logs)
    span = months[-1 - finite[:, ::-1].argmax(axis=1)] - months[finite.argmax(axis=1)]
    known = np.flatnonzero((finite.sum(axis=1) >= FEWEST_POINTS) & (span * MONTH_S >= FEWEST_DAYS * DAY_S))
    shared = None
    if pool and len(known) >= POOL:
        some = logs[known[:: math.ceil(len(known) / POOLED)]]
        shared = min(max(float(np.median(_lag1(months, some, _pairs(months, some)[1]))), 0.0), 0.95)
    for start in range(0, len(known), ROWS):
        rows = known[start : start + ROWS]
        for whole, one in zip(fit, _theil_sen(months, logs[rows], shared), strict=True):
            whole[rows] = one
    return fit


def _pairs(months: Floats, logs: NDArray[np.float32]) -> tuple[NDArray[np.float32], Floats]:
    """Slopes of all pairs in order (NaN last), and their median."""
    first, last = np.triu_indices(len(months), 1)
    slopes = np.asarray((logs[:, last] - logs[:, first]) / (months[last] - months[first]), dtype=np.float32)
    slopes.sort(axis=1)
    count = np.isfinite(slopes).sum(axis=1)[:, None]
    middle = [np.take_along_axis(slopes, place, axis=1)[:, 0].astype(float) for place in ((count - 1) // 2, count // 2)]
    return slopes, (middle[0] + middle[1]) / 2


def _lag1(months: Floats, logs: NDArray[np.float32], slope: Floats) -> Floats:
    """Autocorrelation of neighbouring points about the line, far ones drawn in; the loss by fitting the line is made good."""
    rest = logs - slope[:, None] * months
    rest -= median(rest)[:, None]
    reach = 3 * MAD_TO_SD * median(np.abs(rest))[:, None]
    rest = np.clip(rest, -reach, reach)
    finite = np.isfinite(rest)
    count = finite.sum(axis=1)
    rest = np.where(finite, rest, 0.0)
    pairs = np.maximum((finite[:, 1:] & finite[:, :-1]).sum(axis=1), 1)
    total = (rest**2).sum(axis=1)
    raw = (rest[:, 1:] * rest[:, :-1]).sum(axis=1) / pairs * count / np.where(total > 0, total, 1.0)
    return np.asarray((count * raw + 2) / np.maximum(count - 4, 8))  # a fitted line takes (2 + 4 r)/n off (Kendall, 1954)


def _theil_sen(months: Floats, logs: NDArray[np.float32], shared: float | None) -> Slopes:
    """Of series with enough points. `shared`: autocorrelation of the metric, where it is known from many devices."""
    slopes, slope = _pairs(months, logs)
    count = np.isfinite(logs).sum(axis=1)
    own = _lag1(months, logs, slope)
    r = own if shared is None else np.maximum(shared, own - 2 / np.sqrt(count))  # a device's own where it is surely more
    widened = _widened(count, np.clip(r, 0.0, 0.95))
    sd = np.sqrt(count * (count - 1) * (2 * count + 5) / 18 * widened)
    pairs = count * (count - 1) // 2
    low, high = (np.floor((pairs - Z * sd) / 2).astype(int) - 1, np.ceil((pairs + Z * sd) / 2).astype(int))
    ends = [np.take_along_axis(slopes, np.clip(place, 0, pairs - 1)[:, None], axis=1)[:, 0].astype(float) for place in (low, high)]
    ends = [np.where(low < 0, -np.inf, ends[0]), np.where(high >= pairs, np.inf, ends[1])]
    towards = np.where(slope > 0, slope - ends[0], ends[1] - slope)  # zero: p is below 5 % only where the interval leaves it out
    p = _two_sided(slope, towards, np.maximum(count / widened - 2, 2.0))
    return Slopes(np.expm1(slope), np.expm1(ends[0]), np.expm1(ends[1]), p)


def _two_sided(slope: Floats, half: Floats, freedom: Floats) -> Floats:
    """5 % where the 95 % interval's half towards zero reaches to it, and beyond as Student's t falls, turned into a normal deviate
    (Wallace, Ann. Math. Stat. 30, 1959, 1124). Kendall's score itself would not do: of 26 points it never gets beyond 7 standard
    deviations, and half a million series ask for 5."""
    near = (8 * freedom + 1) / (8 * freedom + 3)
    t_half = np.sqrt(freedom * np.expm1((Z / near) ** 2 / freedom))
    t = t_half * np.where(slope == 0, 0.0, np.abs(slope) / np.maximum(half, 1e-12))
    z = near * np.sqrt(freedom * np.log1p(t**2 / freedom))
    return np.fromiter(map(math.erfc, (z / math.sqrt(2)).tolist()), dtype=float, count=len(z))


def _widened(count: NDArray[np.int64], r: Floats) -> Floats:
    """Of the variance of Kendall's score, where neighbours correlate by r, those k apart by rᵏ (Hamed and Rao, 1998)."""
    factors = np.ones(len(r))
    for n in np.unique(count).tolist():
        k = np.arange(1, n)
        weight = 2 * (n - k) * (n - k - 1) * (n - k - 2) / (n * (n - 1) * (n - 2))
        rows = count == n
        factors[rows] += (6 / math.pi * np.arcsin(r[rows, None] ** k / 2)) @ weight
    return factors


def median(x: NDArray[Any]) -> Floats:
    """Along the last axis; NaN does not count, and none is NaN."""
    ordered = np.sort(x, axis=-1)
    count = np.isfinite(x).sum(axis=-1)[..., None]
    places = ((count - 1) // 2, np.minimum(count // 2, count - 1))
    low, high = (np.take_along_axis(ordered, np.maximum(place, 0), axis=-1)[..., 0].astype(float) for place in places)
    return np.asarray((low + high) / 2)
