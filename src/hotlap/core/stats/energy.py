"""Energy of a window: from the counter where there is one, compared with the integral of power, with a bound on its error.

A counter that steps every u seconds lags by less than u at either end, so that their difference is wrong by less than u × the highest
power; u is taken from the stretch in which the counter was read most often. Where the window ends between two readings of the counter,
a share x of the way, the truth is within x (1 − x) × their distance × that power of the straight line between them.
The integral is trapezoidal; its bound is half the difference of power between neighbours × their distance, what a value
between them can hide if power is monotonic there, plus the highest power × time that no sample covers.
Source: Yang et al., "Part-time power measurements", SC24, for why the sampled share is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.record import Notice

GAP = 3.0  # samples further apart than this × their median distance leave the time between them unsampled
STEPS = 5  # of a counter, whose mean distance tells how often it steps
AGREE = 0.03  # share by which counter and integral may differ beyond their bounds
Series = tuple[Sequence[float], Sequence[float | None]]
"""Times in s, and values; None where a reading failed."""


@dataclass(frozen=True)
class Energy:
    """In J, over `seconds`. `source` is counter, integral or none."""

    joules: float | None
    error_j: float | None  # at most this much, either way
    source: str
    seconds: float
    sampled: float  # share of the window that samples of power cover
    integral_j: float | None = None  # of power, where both are known
    difference: float | None = None  # integral ÷ counter − 1
    notices: tuple[Notice, ...] = ()


def window(begin_s: float, end_s: float, power_w: Series = ((), ()), energy_j: Series = ((), ()), averaged_s: float = 0.0) -> Energy:
    """Energy between two times. `averaged_s`: the share of its period that the power sensor sees is min(1, averaged_s ÷ period)
    where it is not 0. Raises InputError for an empty window."""
    if not (math.isfinite(begin_s) and math.isfinite(end_s) and end_s > begin_s):
        raise InputError(f"a window from {begin_s:g} s to {end_s:g} s is empty; end it after its beginning")
    times, watts = _clean(power_w)
    integral, integral_error, sampled = _integral(times, watts, begin_s, end_s)
    peak = float(watts.max()) if watts.size else math.nan
    counted, counter_error, notices = _counted(*_clean(energy_j), begin_s, end_s, peak)
    if averaged_s and times.size > 1:
        sampled *= min(1.0, averaged_s / float(np.median(np.diff(times))))
    seconds = end_s - begin_s
    if counted is None:
        return Energy(integral, integral_error, "none" if integral is None else "integral", seconds, sampled, notices=tuple(notices))
    difference = integral / counted - 1 if integral is not None and counted > 0 else None
    if (
        difference is not None
        and integral is not None
        and abs(integral - counted) > (integral_error or 0) + (counter_error or 0) + AGREE * counted
    ):
        seen = f"the counter gives {counted:.4g} J, the integral of power {integral:.4g} J: {100 * difference:+.1f} %; one of them is wrong"
        notices.append(Notice("energy_differs", seen))
    return Energy(counted, counter_error, "counter", seconds, sampled, integral, difference, tuple(notices))


def _clean(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Without failed readings, in order of time, each time once."""
    kept = [(t, v) for t, v in zip(*series, strict=True) if v is not None and math.isfinite(v) and math.isfinite(t)]
    times, first = np.unique([t for t, _ in kept], return_index=True)
    return times, np.asarray([v for _, v in kept], dtype=float)[first]


def _integral(times: np.ndarray, watts: np.ndarray, begin: float, end: float) -> tuple[float | None, float | None, float]:
    if times.size < 2 or times[-1] <= begin or times[0] >= end:
        return None, None, 0.0
    inside = times[(times > begin) & (times < end)]
    edges = [max(begin, float(times[0])), *inside.tolist(), min(end, float(times[-1]))]
    at = np.unique(edges)
    if at.size < 2:
        return None, None, 0.0
    values, gaps = np.interp(at, times, watts), np.diff(at)
    joules = float(np.sum((values[1:] + values[:-1]) / 2 * gaps))
    held = gaps <= GAP * float(np.median(np.diff(times)))
    peak = float(values.max())
    error = float(np.sum(np.where(held, np.abs(np.diff(values)) / 2 * gaps, peak * gaps)))
    outside = (end - begin) - float(gaps.sum())
    mean = joules / float(gaps.sum())
    return joules + mean * outside, error + peak * outside, float(gaps[held].sum()) / (end - begin)


def _counted(
    times: np.ndarray, joules: np.ndarray, begin: float, end: float, peak_w: float
) -> tuple[float | None, float | None, list[Notice]]:
    if times.size < 2 or times[-1] <= begin or times[0] >= end:
        return None, None, []
    if bool(np.any(np.diff(joules) < 0)):
        return None, None, [Notice("energy_counter", "the energy counter went back within the window; power is integrated instead")]
    low, high = max(begin, float(times[0])), min(end, float(times[-1]))
    counted = float(np.interp(high, times, joules) - np.interp(low, times, joules))
    if counted <= 0:
        return None, None, [Notice("energy_counter", "the energy counter did not change; power is integrated instead")]
    watts = max(peak_w, counted / (high - low)) if math.isfinite(peak_w) else float((np.diff(joules) / np.diff(times)).max())
    outside = (end - begin) - (high - low)
    scaled = counted * (end - begin) / (high - low)
    lag = min(step(times, joules) or math.inf, high - low)
    return scaled, (lag + _between(times, low) + _between(times, high) + outside) * watts, []


def step(times: np.ndarray, values: np.ndarray) -> float | None:
    """The longest that a counter which grows steadily can take to its next step, in s: the mean distance of five steps where it was read
    most often, and the distance of two readings there, unless it stepped at each of them. None where it never moved twice."""
    changed = np.flatnonzero(np.diff(values) != 0) + 1
    if changed.size < 2:
        return None
    many = min(STEPS, changed.size - 1)
    spans = (times[changed[many:]] - times[changed[:-many]]) / many
    best = int(np.argmin(spans))
    first, last = int(changed[best]), int(changed[best + many])
    gap = float(np.max(np.diff(times[first - 1 : last + 1])))
    return float(spans[best]) + (0.0 if last - first == many else gap)


def _between(times: np.ndarray, edge: float) -> float:
    """What a straight line between the readings around `edge` can hide there, as time."""
    after = int(np.searchsorted(times, edge))
    if times[after] == edge:
        return 0.0
    gap = float(times[after] - times[after - 1])
    share = float(edge - times[after - 1]) / gap
    return share * (1 - share) * gap
