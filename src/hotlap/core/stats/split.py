"""One split of a series into two levels: where it is best put, and how often chance alone would put one there.

Everything is by normal scores of ranks, so a spike counts no more than the largest of its neighbours and no distribution is
assumed. A series with autocorrelation is taken as steps plus a first-order autoregression and tested on its innovations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.series import MAD_TO_SD

Floats = NDArray[np.float64]

EDGE = 5  # fewest points on either side of a split
GRID = 48  # ends that an arc may have
FEW_ORDERS = 64  # points, beyond which two levels of 5 and more can part in over a million ways
LAGS = 8  # of the innovations that still widen the test when they are not independent
WINSORIZED = 3.0  # robust standard deviations beyond which a value tells no more about autocorrelation
CLEAR = 4.0  # robust standard deviations between levels from which on each point surely belongs to the nearer one
STATIONARY = 0.97  # the largest autocorrelation that is corrected for


class Noise(NamedTuple):
    """What is not level, as the tests take it."""

    phi: float = 0.0  # lag-1 autocorrelation
    innovation_inflation: float = 1.0  # of the variance of a mean of innovations by what dependence is left, ≥ 1
    slope: float = 0.0  # of a drift, per point
    variance_inflation: float = 1.0  # of the variance of a mean of values between the changes found, against independent ones


class Split(NamedTuple):
    """The first point after it, its standardised statistic (positive: up), and the chance of one as large anywhere."""

    at: int
    z: float
    p: float


def scores(rows: Floats) -> Floats:
    """Normal scores of each row (van der Waerden, 1952): Φ⁻¹(rank ÷ (n + 1)), ties sharing their mean, scaled to variance 1 as
    far as no score then exceeds the largest without ties.

    Shape (series, points) in and out; a row whose values are all the same is all zeros.
    """
    count, n = rows.shape
    order = np.argsort(rows, axis=1)
    if count > 1:
        order += (np.arange(count) * n)[:, None]
    flat = order.ravel()
    values = rows.ravel()[flat]
    first = np.empty(count * n, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    first[::n] = True
    table = _table(n) if count == 1 else np.tile(_table(n), count)
    out = np.empty(count * n)
    if first.all():
        out[flat] = table
        return out.reshape(count, n)
    starts = np.flatnonzero(first)
    size = np.diff(starts, append=count * n)
    out[flat] = np.repeat(np.add.reduceat(table, starts) / size, size)
    out = out.reshape(count, n)
    scale = np.sqrt((out * out).sum(axis=1, keepdims=True) / (n - 1))
    # where nearly all are tied, a few others would get scores so large that two together look like a level
    scale = np.maximum(scale, np.abs(out).max(axis=1, keepdims=True) / _table(n)[-1])
    return np.asarray(np.divide(out, scale, out=np.zeros_like(out), where=scale > 1e-9))


def statistics(rows: Floats) -> Floats:
    """Of every split of every row: difference of the mean scores after and before, over its standard deviation under all
    orders of the same values. Column k − 1 is the split before point k. Shape (series, points − 1)."""
    return np.asarray(np.cumsum(scores(rows), axis=1)[:, :-1] * _weights(rows.shape[1]))


def suspicious(z: Floats, alpha: float, tolerance: float = 0.0) -> NDArray[np.bool_]:
    """Rows of `statistics` in which independent values would make a split, or an arc, this strong less often than alpha."""
    n = z.shape[1] + 1
    split = np.abs(z[:, EDGE - 1 : n - EDGE]).max(axis=1) >= limit(n, alpha) - tolerance
    if n < 4 * EDGE:
        return np.asarray(split)
    return np.asarray(split | (_arcs(z).reshape(len(z), -1).max(axis=1) >= _arc_limit(n, alpha) - tolerance))


def arc(z: Floats, alpha: float, noise: Noise) -> tuple[int, int] | None:
    """The stretch [a, b) whose level differs most from that of all the rest, on a grid; None when chance would do as much.

    Olshen, Venkatraman, Lucito and Wigler, Biostatistics 5 (2004) 557 (circular binary segmentation); the chance by
    Bonferroni over the pairs of the grid. It finds up-and-back changes that no single split shows.
    """
    n = len(z) + 1
    if n < 4 * EDGE:
        return None
    found = _arcs(z[None])[0]
    best = int(np.argmax(found))
    if found.flat[best] < _arc_limit(n, alpha) * math.sqrt(noise.innovation_inflation * (1 + noise.phi) / (1 - noise.phi)):
        return None
    ends = _ends(n)
    a, b = divmod(best, len(ends))
    return int(ends[min(a, b)]), int(ends[max(a, b)])


def best(x: Floats, z: Floats, noise: Noise) -> Split:
    """The best split of one series with at least 5 points on either side; `z` is `statistics` of it.

    With autocorrelation φ the regressor of a split at k is 1 at k and 1 − φ after (an autoregression started by a step), and
    the statistic the correlation of the scores of innovations with it, as in generalised least squares.
    """
    n = len(x)
    if n < 2 * EDGE:
        raise ValueError(f"a split needs at least {2 * EDGE} points, not {n}")
    inside = slice(EDGE - 1, n - EDGE)
    apart = _apart(n)
    if noise.phi:
        z, apart = whitened(x, noise.phi)
        apart = apart[inside]
    at = int(np.argmax(np.abs(z[inside])))
    value = float(z[inside][at]) / math.sqrt(noise.innovation_inflation)
    orders = 2 / math.comb(n, at + EDGE) if n < FEW_ORDERS else 0.0  # of all, the share in which the levels part as clearly
    return Split(at + EDGE, value, max(chance(abs(value), n, apart), orders))


def whitened(x: Floats, phi: float) -> tuple[Floats, Floats]:
    """Statistics of every split of a series with autocorrelation φ, from its innovations, and 1 − the correlation of each
    statistic with the next. Shape (points − 1,) both."""
    centred = x - x[len(x) // 2]  # so that a large level costs no digits
    score = scores((centred[1:] - phi * centred[:-1])[None])[0]
    regressor = _regressor(len(x), phi)
    return (score - (1 - phi) * np.cumsum(score)) * regressor[0], regressor[1]


@lru_cache(maxsize=64)
def _regressor(n: int, phi: float) -> tuple[Floats, Floats]:
    """1 ÷ the norm of the regressor of every split, centred, and how far each is from the next."""
    count, rest = n - 1, np.arange(n - 2, -1, -1.0)
    later = 1 - phi
    total = 1 + later * rest
    norm = np.sqrt(np.maximum(1 + later * later * rest - total * total / count, 1e-12))
    shared = later + later * later * rest[1:] - total[:-1] * total[1:] / count
    apart = 1 - np.append(shared / (norm[:-1] * norm[1:]), 1.0)
    return 1 / norm, np.clip(apart, 0.0, 2.0)


def chance(z: float, n: int, apart: Floats) -> float:
    """Of the largest |statistic| over many splits being ≥ z when there is no change, 0 to 1.

    The tail for the maximum of a Gaussian process with independent increments (Siegmund, Sequential Analysis, 1985, ch. X;
    James, James and Siegmund, Biometrika 74, 1987), with the exact density of a correlation of n normal values in place of
    the normal one, so that few points are treated as what they are. `apart` is 1 − the correlation of neighbouring splits.
    Against simulation it is 5 to 15 % too large near 1 %, more in the far tail: never too small.
    """
    density = _density(z, n)
    if z < 1:
        return 1.0
    crossings = float(np.sum(apart * _overshoot(z * np.sqrt(2 * apart))))
    return min(1.0, 2 * density * (1 / z + z * crossings))


@lru_cache(maxsize=4096)
def limit(n: int, alpha: float) -> float:
    """Of the largest |statistic| over the splits of n independent values: exceeded by chance less often than alpha."""
    return math.inf if n < 2 * EDGE else _solve(lambda z: chance(z, n, _apart(n)), n, alpha)


@lru_cache(maxsize=4096)
def one_limit(n: int, alpha: float) -> float:
    """The same for one split that was not searched for, both signs together."""
    return math.inf if n < 2 * EDGE else _solve(lambda z: chance_of_one(z, n), n, alpha)


def chance_of_one(z: float, n: int) -> float:
    """Of |statistic| ≥ z > 0 at a split that was not searched for, from the tail's leading term: never too small."""
    return min(1.0, 2 * _density(z, n) / z)


@lru_cache(maxsize=4096)
def _arc_limit(n: int, alpha: float) -> float:
    pairs = len(_ends(n)) * (len(_ends(n)) - 1) / 2
    return _solve(lambda z: 2 * pairs * _density(z, n) / z, n, alpha)


def _solve(falling: Callable[[float], float], n: int, alpha: float) -> float:
    """Where a chance falls to alpha; infinite when it never does."""
    low, high = 1.0, math.sqrt(n - 1)
    if falling(high * (1 - 1e-9)) > alpha:
        return math.inf
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > alpha else (low, middle)
    return high


def _density(z: float, n: int) -> float:
    """Of √(n − 1) times the correlation of n normal values with a fixed regressor."""
    share = z * z / (n - 1)
    if share >= 1:
        return 0.0
    scale = math.exp(math.lgamma((n - 1) / 2) - math.lgamma((n - 2) / 2)) / math.sqrt(math.pi * (n - 1))
    return float(scale * (1 - share) ** ((n - 4) / 2))


def _overshoot(x: Floats) -> Floats:
    """Siegmund's ν(x), which corrects a continuous boundary for points that jump over it."""
    return np.interp(x, *_overshoots())


@lru_cache(maxsize=1)
def _overshoots() -> tuple[Floats, Floats]:
    """ν as approximated in Siegmund and Yakir, The Statistics of Gene Mapping, 2007, (5.3)."""
    normal = NormalDist()
    x = np.linspace(0, 20, 2001)
    values = [1.0] + [(2 / v) * (normal.cdf(v / 2) - 0.5) / (v / 2 * normal.cdf(v / 2) + normal.pdf(v / 2)) for v in x[1:].tolist()]
    return x, np.array(values)


@lru_cache(maxsize=1024)
def _table(n: int) -> Floats:
    """Normal scores of n different values, variance 1."""
    normal = NormalDist()
    score = np.array([normal.inv_cdf((i + 1) / (n + 1)) for i in range(n)])
    scale = math.sqrt(float(score @ score) / max(n - 1, 1))
    return score / scale if scale else score


@lru_cache(maxsize=1024)
def _weights(n: int) -> Floats:
    """Minus 1 ÷ the standard deviation of the sum of the first k of n scores, k = 1 to n − 1: a rise comes out positive."""
    k = np.arange(1, n)
    return np.asarray(-np.sqrt(n / (k * (n - k))))


@lru_cache(maxsize=1024)
def _apart(n: int) -> Floats:
    """1 − the correlation of the statistics of neighbouring splits of independent values, for the splits that are allowed."""
    k = np.arange(EDGE, n - EDGE + 1)
    return np.asarray(0.5 * n / (k * (n - k)))


@lru_cache(maxsize=1024)
def _ends(n: int) -> NDArray[np.int64]:
    step = max(1, math.ceil((n - 1) / (GRID - 1)))
    return np.append(np.arange(0, n, step), n) if step > 1 else np.arange(n + 1)


@lru_cache(maxsize=1024)
def _arc_weights(n: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """For the inner ends of the grid: their columns in `statistics`, what turns those into sums, and 1 ÷ the standard
    deviation of the sum between each two, 0 where too few points lie inside or outside."""
    ends = _ends(n)
    length = np.abs(ends[:, None] - ends[None, :])
    enough = (length >= EDGE) & (length <= n - EDGE)
    weight = np.where(enough, np.sqrt(n / np.maximum(length * (n - length), 1)), 0.0)
    return ends[1:-1] - 1, 1 / _weights(n)[ends[1:-1] - 1], weight


def _arcs(z: Floats) -> Floats:
    """|Statistic| of every arc between two ends of the grid. Shape (series, ends, ends)."""
    columns, back, weight = _arc_weights(z.shape[1] + 1)
    sums = np.zeros((len(z), len(weight)))
    sums[:, 1:-1] = z[:, columns] * back
    apart = sums[:, :, None] - sums[:, None, :]
    apart *= weight
    return np.abs(apart, out=apart)


def nearest(x: Floats, at: int, places: range) -> int:
    """Of `places`, the split of x with the least absolute deviations from the medians on either side of `at`, its rough place;
    of equal ones the nearest to it: with its neighbours a point goes to the level that it is nearer to. `at` where the levels are
    less than 4 robust standard deviations apart: there a point may well be nearer to the other."""
    before, after = median(x[:at]), median(x[at:])
    one, other, apart = np.abs(x - before), np.abs(x - after), abs(after - before)
    if apart <= CLEAR * MAD_TO_SD * median(np.concatenate([one[:at], other[at:]])):
        return at
    cost = np.concatenate([[0.0], np.cumsum(one - other)])[places.start : places.stop]
    return places[int(np.argmin(cost + np.abs(np.array(places) - at) * 1e-9 * apart))]


def winsorized(x: Floats) -> Floats:
    """Deviations with those beyond 3 robust standard deviations brought in to that."""
    reach = WINSORIZED * MAD_TO_SD * median(np.abs(x))
    return np.clip(x, -reach, reach) if reach else x


def median(x: Floats) -> float:
    """Of at least one value; a fifth of the time of NumPy's, which looks for NaN and handles axes."""
    ordered, middle = np.sort(x), len(x) // 2
    return float(ordered[middle] if len(x) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
