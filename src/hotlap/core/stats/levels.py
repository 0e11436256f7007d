"""A window of a series taken apart into levels: where they change, what its noise is made of, whether it drifts instead.

The window is divided at its best split, each part again, and every split is then tested once more between its neighbours
alone, so that one that only stood for others falls (binary segmentation, Vostrikova, Soviet Math. Dokl. 24, 1981; the second
look as in Olshen et al., 2004). Autocorrelation is estimated with the levels taken off, or a step would pass for it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats import split
from hotlap.core.stats.split import EDGE, Floats, Noise, Split, median, winsorized

# Each constant's origin and sensitivity: docs/change-points.md.
PACE = 32  # the noise is estimated from a multiple of this many points, so that it stays the same while a series grows
RECENT = 12  # points after a split up to which it can raise a provisional alarm
FEWEST_AFTER, FEWEST_BEFORE = 2, 8  # points that a provisional alarm needs
PROVISIONAL = 5e-4  # chance of one split, not searched for, to be as strong
ENOUGH = 150  # points that tell autocorrelation from a step; with fewer, more is taken for autocorrelation
DEPENDENT = 1.65  # standard errors of no autocorrelation, up to which it is taken for none: one-sided 5 %
CAUTION = 0.25  # standard errors by which autocorrelation is raised: an error down costs more than one up
STEP_ROOM = 2.5  # standard errors that autocorrelation may lie above what differences show: a step left in is none
CUT_COST = 4.0  # times log n, of each cut
FAR = 20.0  # median differences of neighbours, beyond which an innovation counts no more
HINT = 0.05  # a slope on both sides of one step that would come by chance this often is not worth taking off
DRIFT_POINTS = 30  # fewer say too little of a slope
LINE_POINTS = 64  # the most that enter the slope of a window, as medians of blocks
PASSES = 5  # of estimating noise and cuts in turn; slope and cuts one fewer


Known = dict[tuple[int, int], tuple[Floats, Split | None]]
"""Statistics and best split of parts of a window that were looked at, by their ends."""


class WindowResult(NamedTuple):
    """What one window shows: its splits in order, its noise, and a split too recent to be confirmed."""

    splits: tuple[Split, ...] = ()
    noise: Noise = Noise()
    provisional: Split | None = None


def look(x: Floats, alpha: float, provisional: bool = False) -> WindowResult:
    """At one window, of at least one point. `alpha` is the chance of a false change in it."""
    n = len(x)
    if n < 2 * EDGE:
        return WindowResult()
    z = split.statistics(x[None])
    below = not split.suspicious(z, alpha)[0]
    if below and not (provisional and _alarming(z[0], 1.0)):
        return WindowResult()
    noise = estimate(x[: _paced(n)], alpha)
    splits = [] if below else segment(level(x, noise), noise, alpha)
    start, recent = splits[-1].at if splits else 0, None
    if provisional and n - start >= FEWEST_BEFORE + FEWEST_AFTER:
        part = x if below else level(x, noise)[start:]
        recent = _provisional(part, split.statistics(part[None])[0], noise)
    if below:
        return WindowResult((), noise, recent and _placed(x, [recent])[0])
    everything = _placed(level(x, noise), [*splits, *([recent._replace(at=recent.at + start)] if recent else [])])
    return WindowResult(tuple(everything[: len(splits)]), noise, everything[-1] if recent else None)


def _paced(n: int) -> int:
    """Of n points, how many the noise is estimated from: a multiple of 32 (8 below 64, 1 below 32)."""
    pace = PACE if n >= 2 * PACE else PACE // 4 if n >= PACE else 1
    return n // pace * pace


def level(x: Floats, noise: Noise) -> Floats:
    """A window with its drift taken off."""
    return x - noise.slope * np.arange(len(x)) if noise.slope else x


def segment(x: Floats, noise: Noise, alpha: float) -> list[Split]:
    """All splits of a window, each significant between its neighbours."""
    known: Known = {}
    cuts: list[int] = []
    waiting = [(0, len(x))]
    while waiting:
        low, high = waiting.pop()
        found = _divide(x, low, high, noise, alpha, known)
        if found is not None:
            cuts.append(found)
            waiting += [(low, found), (found, high)]
    return _kept(x, sorted(cuts), noise, alpha, known)


def _divide(x: Floats, low: int, high: int, noise: Noise, alpha: float, known: Known) -> int | None:
    """Where x[low:high] is best split, or None. Where no single split stands out but a stretch does, its ends are tried."""
    z, found = _best(x, low, high, noise, alpha, known)
    if found is None:
        return None
    if found.p < alpha:
        return low + found.at
    ends = split.arc(z, alpha, noise)
    if ends:
        for a, b in ((low, low + ends[1]), (low + ends[0], high)):
            _, inner = _best(x, a, b, noise, alpha, known) if (a, b) != (low, high) else (z, None)
            if inner is not None and inner.p < alpha:
                return a + inner.at
    return None


def _best(x: Floats, low: int, high: int, noise: Noise, alpha: float, known: Known) -> tuple[Floats, Split | None]:
    """Statistics and best split of x[low:high]; no split where independent values would not stand out either."""
    if high - low < 2 * EDGE:
        return x[:0], None
    if (low, high) not in known:
        part = x[low:high]
        z = split.statistics(part[None])
        some = bool(split.suspicious(z, alpha)[0])
        known[low, high] = z[0], split.best(part, z[0], noise) if some else None
    return known[low, high]


def _kept(x: Floats, cuts: list[int], noise: Noise, alpha: float, known: Known) -> list[Split]:
    """The cuts that hold between their neighbours, put where they fit best there; the weakest that does not is dropped, and
    the rest looked at again."""
    while cuts:
        ends = [0, *cuts, len(x)]
        found = [_best(x, low, high, noise, alpha, known)[1] for low, high in zip(ends, ends[2:], strict=False)]
        chances = [one.p if one else 1.0 for one in found]
        weakest = int(np.argmax(chances))
        if chances[weakest] < alpha:
            placed = [Split(one.at + low, one.z, one.p) for one, low in zip(found, ends, strict=False) if one]
            gaps = np.diff([0, *(one.at for one in placed), len(x)])
            return placed if gaps.min() >= EDGE else [one._replace(at=cut) for one, cut in zip(placed, cuts, strict=True)]
        cuts = cuts[:weakest] + cuts[weakest + 1 :]
    return []


def _placed(x: Floats, splits: list[Split]) -> list[Split]:
    """Splits that were found, moved to where they part the points best, by at most the fewest points of a level: a test by ranks
    says that levels differ, but not which of them a point next to the split is nearer to."""
    placed: list[Split] = []
    ends = [0, *(one.at for one in splits), len(x)]
    for low, one, high in zip(ends, splits, ends[2:], strict=False):
        first = max(one.at - EDGE, placed[-1].at + 1 if placed else 1)
        places = range(first - low, min(one.at + EDGE, high - 1) - low + 1)
        placed.append(one._replace(at=split.nearest(x[low:high], one.at - low, places) + low))
    return placed


def _alarming(z: Floats, variance_inflation: float) -> bool:
    """Whether any of the last splits is strong by itself."""
    n = len(z) + 1
    return n >= 2 * EDGE and bool(np.max(np.abs(z[_late(n)])) >= split.one_limit(n, PROVISIONAL) * math.sqrt(variance_inflation))


def _late(n: int) -> slice:
    return slice(max(n - RECENT, FEWEST_BEFORE) - 1, n - FEWEST_AFTER)


def _provisional(x: Floats, z: Floats, noise: Noise) -> Split | None:
    """The strongest split in the last few points when it is strong enough to ask for more."""
    if not _alarming(z, noise.innovation_inflation):
        return None
    n = len(x)
    if noise.phi:
        z = split.whitened(x, noise.phi)[0]
    last = z[_late(n)]
    at = int(np.argmax(np.abs(last)))
    value = float(last[at]) / math.sqrt(noise.innovation_inflation)
    if abs(value) < split.one_limit(n, PROVISIONAL):
        return None
    return Split(_late(n).start + at + 1, value, min(1.0, RECENT * split.chance_of_one(abs(value), n)))


def residuals(x: Floats, cuts: list[int]) -> Floats:
    """Values minus the median of their level."""
    ends = [0, *cuts, len(x)]
    return np.concatenate([x[a:b] - median(x[a:b]) for a, b in pairwise(ends)])


def estimate(x: Floats, alpha: float) -> Noise:
    """The noise of a window: flat levels, or a drift with levels on it where that says the same with less."""
    if len(x) < 2 * EDGE:
        return Noise()
    noise, cuts = _fit_noise(x, alpha)
    if not cuts or len(x) < DRIFT_POINTS:
        return noise
    if len(cuts) == 1 and line(x, cuts, noise).p > HINT:
        return noise
    return _tilted(x, cuts, noise, alpha) or noise


def _tilted(x: Floats, cuts: list[int], noise: Noise, alpha: float) -> Noise | None:
    """The noise about a drift, when one is significant within levels and makes some of the cuts needless. Slope and cuts are
    found in turn: a staircase of cuts hides part of a slope, a slope too small leaves steps."""
    slope, others = 0.0, cuts
    for _ in range(PASSES - 1):
        steeper = line(x, others, noise).slope
        if steeper == slope:
            break
        slope = steeper
        noise, others = _fit_noise(x - slope * np.arange(len(x)), alpha)
    if slope and len(others) < len(cuts) and line(x, others, noise).p < alpha:
        return noise._replace(slope=slope)
    return None


def _fit_noise(x: Floats, alpha: float) -> tuple[Noise, list[int]]:
    """Noise and cuts that explain a window best. Many cuts and independent noise, or few cuts and dependent noise, may both
    be consistent: from independence on, the noise is taken as dependent as it looks between the cuts, which leaves fewer
    cuts, until nothing changes. Of what was passed on the way the one with the lowest cost is taken."""
    noise, least = Noise(), math.inf
    answer: tuple[Noise, list[int]] = noise, []
    reach = FAR * median(np.abs(x[1:] - x[:-1])) or math.inf
    for _ in range(PASSES):
        cuts = [one.at for one in segment(x, noise, alpha)]
        dependence = _dependence(x, cuts, noise)
        cost = _cost(residuals(x, cuts), len(cuts), dependence.phi, reach)
        if cost < least or cuts == answer[1]:  # of those with the same cuts the most dependent: more points are to come
            of_values = dependence.innovation_inflation * (1 + dependence.phi) / (1 - dependence.phi)
            least, answer = cost, (noise._replace(variance_inflation=of_values), cuts)
        if dependence == noise:
            break
        noise = dependence
    return answer


def _cost(residual: Floats, cuts: int, phi: float, reach: float) -> float:
    """Minus twice the log-likelihood of innovations with Laplace's distribution, none counted beyond `reach`, and 4·log n for
    each cut: one for its size, and for its place as much as separates real steps from those that chance makes of
    autocorrelation (in simulation)."""
    spread = float(np.mean(np.minimum(np.abs(residual[1:] - phi * residual[:-1]), reach)))
    return 2 * len(residual) * math.log(spread) + CUT_COST * cuts * math.log(len(residual)) if spread else -math.inf


def _dependence(x: Floats, cuts: list[int], noise: Noise) -> Noise:
    """Noise at least as dependent as `noise`, and as what is left between the cuts."""
    residual, n = residuals(x, cuts), len(x)
    r, phi = autocorrelation(residual), noise.phi
    few = min(n / ENOUGH, 1.0)
    if r > few * DEPENDENT / math.sqrt(n):  # independent values keep the test that assumes nothing
        mended = r + (len(cuts) + 1) * (1 + 3 * r) / n  # Kendall, Biometrika 41 (1954), for each level that was taken off
        mended += CAUTION / few * math.sqrt(max(1 - mended * mended, 0.02) / n)
        most = max(_differenced(x), 0.0) + STEP_ROOM / math.sqrt(n)  # a step that no cut has taken off is no autocorrelation
        mended = round(min(mended, most, split.STATIONARY), 2)
        phi = mended if mended > phi + 0.01 else phi
    left, before = _left_over(residual, phi), noise.innovation_inflation
    return Noise(phi, left if left > before + 0.05 else before)


def autocorrelation(residual: Floats) -> float:
    """At lag 1, outliers winsorized."""
    deviation = winsorized(residual)
    top = float(np.max(np.abs(deviation), initial=0.0))
    if not top:
        return 0.0
    deviation = deviation / top
    deviation = deviation - deviation.mean()
    total = float(deviation @ deviation)
    return float(deviation[1:] @ deviation[:-1]) / total if total else 0.0


def _differenced(x: Floats) -> float:
    """Autocorrelation from differences at lags 1 and 2, which a few steps hardly touch: D₂ ÷ D₁ − 1, where Dₕ is the mean
    square, outliers winsorized. Chakar, Lebarbier, Lévy-Leduc and Robin, Bernoulli 23 (2017) 1408, with medians there."""
    if len(x) < 4:
        return 0.0
    top = float(np.max(np.abs(x - x[0]))) or 1.0
    one, two = winsorized((x[1:] - x[:-1]) / top), winsorized((x[2:] - x[:-2]) / top)
    first = float(np.mean(one * one))
    return float(np.mean(two * two)) / first - 1 if first else 0.0


def _left_over(residual: Floats, phi: float) -> float:
    """The long-run variance of the innovations' scores ÷ their variance, at least 1: Bartlett's weights after prewhitening
    (Andrews and Monahan, Econometrica 60, 1992)."""
    if len(residual) < 4 * split.LAGS:
        return 1.0
    score = split.scores((residual[1:] - phi * residual[:-1])[None])[0]
    total = float(score @ score)
    if not total:
        return 1.0
    lags = range(1, split.LAGS + 1)
    return max(1.0, 1 + 2 * sum((1 - k / (split.LAGS + 1)) * float(score[k:] @ score[:-k]) / total for k in lags))


class Line(NamedTuple):
    """A slope per point with its 95 % interval, and the chance of one as steep without drift."""

    slope: float
    low: float
    high: float
    p: float


def line(x: Floats, cuts: list[int], noise: Noise) -> Line:
    """Theil–Sen slope within levels, with Sen's interval (J. Am. Stat. Assoc. 63, 1968), and the Mann–Kendall test over the
    same pairs, ties corrected (Hirsch and Slack, Water Resour. Res. 20, 1984, for strata), the variance widened for
    autocorrelation. Longer windows enter as medians of at most 64 blocks."""
    step = max(1, math.ceil(len(x) / LINE_POINTS))
    ends = [0, *cuts, len(x)]
    rises, runs, variance = [], [], 0.0
    for a, b in pairwise(ends):
        points = x[a + (b - a) % step : b]
        points = np.median(points.reshape(-1, step), axis=1) if step > 1 else points
        first, last = _pairs(len(points))
        rises.append(points[last] - points[first])
        runs.append((last - first) * step)
        variance += _kendall_variance(points)
    rise = np.concatenate(rises)
    slopes = np.sort(rise / np.concatenate(runs))
    if not len(slopes):
        return Line(0.0, 0.0, 0.0, 1.0)
    phi = noise.phi**step  # blocks depend less on each other than points
    spread = math.sqrt(variance * noise.innovation_inflation * (1 + phi) / (1 - phi))
    z = max(abs(float(np.sum(np.sign(rise)))) - 1, 0.0) / spread if spread else 0.0
    reach = math.ceil(1.96 * spread)
    low, high = max(0, (len(slopes) - reach) // 2), min(len(slopes) - 1, (len(slopes) + reach) // 2)
    return Line(median(slopes), float(slopes[low]), float(slopes[high]), math.erfc(z / math.sqrt(2)))


@lru_cache(maxsize=128)
def _pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, last = np.triu_indices(n, 1)
    return first.astype(np.int64), last.astype(np.int64)


def _kendall_variance(points: Floats) -> float:
    """Of the sum of the signs of all differences, when the order means nothing."""
    n, ordered = len(points), np.sort(points)
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if n else np.zeros(0, dtype=int)
    ties = np.diff(starts, append=n) if len(starts) < n else np.ones(0)  # of one value each count nothing: 1·0·7
    return max(0.0, (n * (n - 1) * (2 * n + 5) - float(np.sum(ties * (ties - 1) * (2 * ties + 5)))) / 18)
