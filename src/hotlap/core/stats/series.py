"""A series in order of time: when it is steady, whether it drifts, jumps, or falls into two groups.

All tests are by ranks and medians, so a few outliers change nothing. Values that are not finite raise ValueError.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAD_TO_SD = 1.4826
"""1 ÷ the 75 % point of the standard normal: makes the median absolute deviation of normal data its standard deviation."""
POINTS = 300  # the most that enter a test of all pairs; longer series enter as medians of blocks
NEGLIGIBLE = 0.005  # a change of level under this share of the median is not worth mentioning
RESOLUTION = 1e-3  # differences under this share are the timer's
LARGEST = 1e300  # beyond it sums and differences overflow; no measurement gets there
FEWEST = 6  # values that can show a steady state


def lag1(x: ArrayLike) -> float | None:
    """Autocorrelation at lag 1, values beyond 3 robust standard deviations drawn in; None when it cannot be known."""
    values = finite(x)
    if len(values) < 3:
        return None
    middle = median_of(values)
    reach = 3 * MAD_TO_SD * median_of(np.abs(values - middle))
    if reach:
        values = np.clip(values, middle - reach, middle + reach)
    top = float(np.max(np.abs(values - middle)))
    if not top:
        return None
    values = (values - middle) / top  # so that squares neither overflow nor vanish
    values = values - values.mean()
    total = float(values @ values)
    return float(values[:-1] @ values[1:]) / total if total else None


def steady_from(x: ArrayLike, negligible: float = NEGLIGIBLE) -> int | None:
    """The index from which the series is steady: no start that differs from the rest, and no change of level anywhere
    after. At most half may be dropped; None when that is not enough, or for fewer than 6 values.

    The earliest cut is taken that two tests let pass: sums from the start against the level of the second half (short
    transients), and Pettitt's change point (Applied Statistics 28, 1979; long ones, and drift), both widened for
    autocorrelation. A change below `negligible` of the median is steady.
    """
    values = finite(x)
    values = values / (float(np.max(np.abs(values), initial=0.0)) or 1.0)  # so that squares neither overflow nor vanish
    for cut in _cuts(len(values)):
        rest = values[cut:]
        if not _starts_apart(rest, negligible) and not _level_changes(rest, negligible):
            return cut
    return None


def _cuts(n: int) -> list[int]:
    """Every place up to 20, then 10 % further each time, to half; at least 6 values stay, or 5 of 6."""
    if n < FEWEST:
        return []
    last = min(n // 2, max(n - FEWEST, 1))
    cuts = [*range(min(20, last) + 1)]
    while cuts[-1] < last:
        cuts.append(min(cuts[-1] + max(cuts[-1] // 10, 1), last))
    return cuts


def _starts_apart(x: Floats, negligible: float) -> bool:
    """Whether the mean of the first 1, 2, 3 … values (outliers drawn in) lies outside the level of the second half."""
    late = x[len(x) // 2 :]
    early, n = x[: len(x) // 2], len(late)
    level = median_of(late)
    residual = _about_line(late) if n > 9 else late - level  # fewer cannot tell noise from slope
    noise = MAD_TO_SD * median_of(np.abs(residual)) if n > 9 else float(np.std(late, ddof=1))
    noise = max(noise, RESOLUTION * abs(level) / 3)
    if not noise:
        return bool(np.any(early != level))
    limit = 4 + 12 / n  # wider where few values give the noise; see the tests for how often a steady series loses its start
    usual = np.clip(residual / noise, -limit, limit)
    scale = max(1.0, float(usual.std()))
    reach = limit * scale * math.sqrt(1 + 1 / n) + abs(float(usual.mean())) + 1  # one value alone can be too far …
    reach = max(reach, 2 * negligible * abs(level) / noise)  # … and worth mentioning
    distance = np.clip((early - level) / noise, -reach, reach) - usual.mean()
    count = np.arange(1, len(early) + 1)
    mean = np.cumsum(distance) / count
    width = scale * np.sqrt((1 / count + 1 / n) * np.where(count > 1, _variance_inflation(lag1(usual)), 1.0))
    return bool(np.any((np.abs(mean) > limit * width) & (np.abs(mean) * noise > negligible * abs(level))))


def _level_changes(x: Floats, negligible: float) -> bool:
    """Pettitt's test at 0.1 % for a change that is worth mentioning; a test of drift at 1 % where it has too few values."""
    n = len(x)
    if n < 50 and drifting(x, negligible):
        return True
    if n < 8:
        return False
    sums = np.cumsum(n + 1 - 2 * ranked(x))[:-1]
    split = int(np.argmax(np.abs(sums))) + 1
    before, after = median_of(x[:split]), median_of(x[split:])
    if abs(after - before) <= negligible * abs(median_of(x)):
        return False
    step = np.concatenate([x[:split] - before, x[split:] - after])
    variance_inflation = min(_variance_inflation(lag1(step)), _variance_inflation(lag1(_about_line(x))))
    chance = 2 * math.exp(-6 * float(sums[split - 1]) ** 2 / variance_inflation / (n**3 + n**2))
    return chance < 1e-3


def _about_line(x: Floats) -> Floats:
    """What is left of a series when its Theil–Sen line is taken off."""
    rest = x - _slope(x, 60) * np.arange(len(x))  # 60 points: this runs for every cut
    rest = rest - median_of(rest)
    return np.where(np.abs(rest) > 1e-12 * np.max(np.abs(x)), rest, 0.0)  # rounding is no noise


def median_of(x: Floats) -> float:
    """As NumPy's, which takes some times as long for few values."""
    if len(x) > 500:
        return float(np.median(x))
    ordered, half = np.sort(x), len(x) // 2
    return float(ordered[half]) if len(x) % 2 else float(ordered[half - 1] + ordered[half]) / 2


@functools.lru_cache(maxsize=16)
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The earlier and the later of each pair of n values."""
    earlier, later = np.triu_indices(n, 1)
    return earlier, later


def _variance_inflation(r: float | None) -> float:
    """Of the variance of a mean, by lag-1 autocorrelation."""
    r = min(max(r or 0.0, 0.0), 0.98)
    return (1 + r) / (1 - r)


def drift(x: ArrayLike) -> float:
    """The change from first to last value along the Theil–Sen line, as a share of the median; NaN where there is none
    (fewer than 2 values, or a median of zero).

    Sen, J. Am. Stat. Assoc. 63 (1968) 1379: the median slope over all pairs, unmoved by up to 29 % of outliers.
    """
    values = finite(x)
    middle = median_of(values) if len(values) > 1 else 0.0
    return _slope(values) * (len(values) - 1) / abs(middle) if middle else math.nan


def first_to_last(x: ArrayLike) -> float:
    """The last value ÷ the first − 1, along the Theil–Sen line of logarithms, so never below −1; NaN for fewer than 2 values. As `drift`
    where a value is not above zero."""
    values = finite(x)
    if np.any(values <= 0):
        return drift(values)
    return math.expm1(_slope(np.log(values)) * (len(values) - 1)) if len(values) > 1 else math.nan


ONE_WAY = 0.9  # Kendall's tau; noise with a lag-1 autocorrelation of 0.95 has more in less than 1 of 300 series of 24


def drifting(x: ArrayLike, negligible: float = NEGLIGIBLE, chance: float = 0.01) -> bool:
    """Whether the drift is larger than `negligible` and would come by chance less often than `chance`: Mann–Kendall test
    with ties and continuity, its variance widened for autocorrelation about the line (Hamed and Rao, J. Hydrology 204,
    1998). A series of which nearly all pairs go one way is one whatever its autocorrelation: a drift that is no line leaves
    a curve about it. False for fewer than 6 values: there is no telling."""
    values = finite(x)
    change = drift(values) if len(values) >= FEWEST else math.nan
    if not abs(change) > negligible:
        return False
    points, _ = _blocks(values)
    n = len(points)
    above, later = _pairs(n)
    score = float(np.sum(np.sign(points[later] - points[above])))
    if n > 10 and abs(score) > ONE_WAY * n * (n - 1) / 2:
        return True
    ties = np.unique(points, return_counts=True)[1].astype(float)
    variance = (n * (n - 1) * (2 * n + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18
    variance *= _variance_inflation(lag1(_about_line(points))) if n > 10 else 1.0  # fewer say nothing of autocorrelation
    z = max(abs(score) - 1, 0) / math.sqrt(variance) if variance > 0 else 0.0
    return math.erfc(z / math.sqrt(2)) < chance


def _slope(x: Floats, most: int = POINTS) -> float:
    """Theil–Sen slope per step."""
    points, step = _blocks(x, most)
    if len(points) < 2:
        return 0.0
    first, last = _pairs(len(points))
    return median_of((points[last] - points[first]) / (last - first)) / step


def _blocks(x: Floats, most: int = POINTS) -> tuple[Floats, int]:
    """At most `most` values, each the median of as many of `x`, and how many that is; what is over is left out in front."""
    step = max(1, math.ceil(len(x) / most))
    if step == 1:
        return x, 1
    return np.median(x[len(x) % step :].reshape(-1, step), axis=1), step


def bimodal(x: ArrayLike) -> bool:
    """Whether the values fall into two groups, each a tenth of them at least, with a valley between. False for fewer than
    20 values: there is no telling.

    Of 1000 simulated series with one group (normal, lognormal, Student t, Cauchy, rounded to ticks) at most 20 are taken
    for two; of shifted exponentials 70 at 20 values and 20 at 50, of uniform ones 140. Groups 5 standard deviations apart,
    30 to 70, are found in 70 % of series of 20 values, 95 % of 50.

    The best cut into two (least squares) must part the groups by more standard deviations than cuts of one group do
    (Ashman's D, Astron. J. 108, 1994, with limits by size from simulation) and leave the middle between them nearly
    empty, in the values and in their logarithms. Exact atoms closer than 5 % may be ticks of a timer and count as one.
    """
    values = np.sort(finite(x))
    if len(values) < 20 or values[0] == values[-1]:
        return False
    values = _smeared(values)
    return _two_groups(values) and (bool(values[0] <= 0) or _two_groups(np.log(values)))


def _two_groups(x: Floats) -> bool:
    """Of sorted values."""
    n = len(x)
    fewest = max(3, math.ceil(n / 10))
    x = (x - x[n // 2]) / (x[-1] - x[0])
    size = np.arange(fewest, n - fewest + 1)
    left = np.cumsum(x)[size - 1] / size
    right = (x.sum() - left * size) / (n - size)
    cut = int(size[np.argmax(size * (n - size) * (right - left) ** 2)])  # least squares within = most between
    low, high = x[:cut], x[cut:]
    a, b = float(low.mean()), float(high.mean())
    apart = (b - a) / math.sqrt((float(low.var(ddof=1)) + float(high.var(ddof=1))) / 2 or 1e-300)
    third = (b - a) / 3
    middle = np.count_nonzero((x > a + third) & (x < b - third))
    peak = min(int(np.count_nonzero(np.abs(x - centre) <= third / 2)) for centre in (a, b))
    return apart > 3.55 + 19 / n and bool(middle < min(0.5 + 25 / n, 1.0) * max(peak, 1))


def _smeared(x: Floats) -> Floats:
    """Sorted values with those that are the same spread over one tick, the smallest distance between two that differ:
    ticks then make no gaps."""
    middle = abs(median_of(x))
    grain = 1e-6 * middle or 1e-300  # differences below are rounding
    start = np.concatenate([[True], np.diff(x) > grain])
    group = np.cumsum(start) - 1
    count = np.bincount(group)
    if len(count) < 2 or len(count) > 0.9 * len(x):
        return x
    tick = float(np.min(np.diff(x[start])))
    tick = min(tick, 0.05 * middle) if middle else tick
    place = np.arange(len(x)) - np.concatenate([[0], np.cumsum(count)[:-1]])[group]
    return np.asarray(np.sort(x[start][group] + ((place + 0.5) / count[group] - 0.5) * tick), dtype=float)


def ranked(x: Floats) -> Floats:
    """1 to n, ties sharing their mean."""
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray((ends - (count - 1) / 2)[group], dtype=float)


def finite(x: ArrayLike) -> Floats:
    """As an array. Raises ValueError when a value is not finite: it has no place in an order."""
    values = np.asarray(x, dtype=float).ravel()
    lost = len(values) - np.count_nonzero(np.abs(values) <= LARGEST)
    if lost:
        raise ValueError(f"{lost} of {len(values)} values are not finite; leave them out and say so")
    return values
