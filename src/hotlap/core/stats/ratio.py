"""Whether two sides differ, by how much, and how small a difference could have been seen.

One value per run: the run is the unit of replication, so samples inside a run never count as repeats (Kalibera and Jones,
ISMM 2013). All is done on logarithms, so that a ratio and its inverse get the same answer.

    estimate    of many series at once, on logarithms: centre, interval, p
    ratio       of one comparison, with its notices
    beyond      whether an interval lies beyond a practical margin: the one rule of `compare`, `ab` and `judge`
    verdict     larger, smaller, same or inconclusive, by that margin
    widened     by what the level of unchanged code does from one time to another
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.record import Notice
from hotlap.core.stats import series, student
from hotlap.core.stats.drift import Drift
from hotlap.core.stats.series import MAD_TO_SD, finite

Floats = NDArray[np.float64]
Assume = Literal["nothing", "normal", "exact"]
Answer = Literal["larger", "smaller", "same", "inconclusive"]

FEWEST = 4  # runs a side, or pairs, below which no interval is given
FEWEST_FLIPS = 6  # pairs whose 2^n changes of sign reach p < 0.05; fewer go by Student's t
CLIP = 2.0  # robust standard deviations at which a value is drawn in: nearly all the power on normal data, little moved by spikes
KNOWN = 10  # pairs, or runs a side, from which the autocorrelation of runs is estimated
BELIEVED = 1.8  # standard errors by which an autocorrelation must exceed zero to count
SERIAL_FEW = 1.1  # widening of a variance over fewer ABBA pairs: midway between none and the most there is, 1.207
POWER = 0.8
UNLIKE = 0.01  # p from which on that one side is noisier is chance
NORMAL = NormalDist()
HALVINGS = 36  # of the range searched for an end of an interval
ROUNDING = 1e-13  # logarithms closer than this are of equal values


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Side B against side A; 1.02 means that B is 2 % larger, and None is what cannot be known."""

    ratio: float | None  # centre of B ÷ centre of A
    low: float | None = None  # interval of the ratio, with `confidence`
    high: float | None = None
    low_90: float | None = None  # interval with 2·confidence − 1, so 90 % beside 95 %: equivalence is read from it
    high_90: float | None = None
    p: float | None = None  # two-sided, of a ratio of 1
    confidence: float | None = None
    n_a: int
    n_b: int
    pairs: int = 0  # 0: not paired
    method: str = ""
    mde: float | None = None  # smallest change that this many runs with this noise find with 80 % power
    notices: tuple[Notice, ...] = ()


class Estimates(NamedTuple):
    """Of many series at once, on logarithms; NaN where an end cannot be had."""

    centre: Floats
    low: Floats
    high: Floats
    low_90: Floats
    high_90: Floats
    p: Floats
    variance_inflation: Floats  # of the variance, by autocorrelation


# ---------------------------------------------------------------- one comparison


def ratio(
    a: ArrayLike, b: ArrayLike, *, paired: bool = False, assume: Assume = "nothing", confidence: float = 0.95, drift: Drift | None = None
) -> Ratio:
    """B ÷ A with its interval, from one value per run, in order of time.

    `paired`: a[i] and b[i] are neighbours of an interleaving A B, B A, A B …; what both share (drift, machine) cancels.
    `assume` *nothing*: `estimate` says how little that is; *normal*: Student's t on logarithms, Welch's when not paired;
    *exact*: values without noise, such as counts, so that any difference is real. Exact values that differ within a side
    are taken as noisy, with a warning. Fewer than 4 runs a side, or a value of zero or less, give no interval; the first warning
    says why there is none. `drift`: what the level does between sides that were measured one after the other. Raises
    ValueError for values that are not finite, pairs of unequal number, and a confidence not between 0.5 and 1.
    """
    x, y = finite(a), finite(b)
    _check(x, y, paired, assume, confidence)
    plain = Ratio(ratio=_plain(x, y), n_a=len(x), n_b=len(y), pairs=len(x) if paired else 0, method="none")
    notices: tuple[Notice, ...] = ()
    if assume == "exact":
        if _constant(x) and _constant(y):
            return _exact(x, y, plain, confidence)
        notices = (Notice("not_exact", "values of one side differ among themselves, so they are not exact: taken as noisy"),)
    unknown = _unknown(x, y, paired)
    if unknown:
        return msgspec.structs.replace(plain, notices=(*notices, unknown))
    normal: Literal["nothing", "normal"] = "normal" if assume == "normal" else "nothing"
    found = estimate(np.log(x)[None], np.log(y)[None], paired=paired, assume=normal, confidence=confidence)
    found = widened(found, drift, confidence) if drift else found
    notices += _notices(np.log(x), np.log(y), found, paired, normal)
    return msgspec.structs.replace(plain, method=_method(len(x), len(y), paired, normal), notices=notices, **_shares(found, confidence))


def beyond(low: float | None, high: float | None, margin: float) -> Literal["larger", "smaller", ""]:
    """Which way a whole interval of a ratio lies beyond 1 and beyond the margin, a share: at 1 + margin or above, at 1 ÷ (1 + margin)
    or below; "" where part of it lies within, or where there is none.

    The one rule by which `compare`, `ab` and `judge` call a change: the interval decides, not its centre.
    """
    if low is not None and low > 1 and low >= (1 + margin) * (1 - ROUNDING):
        return "larger"
    if high is not None and high < 1 and high <= (1 + ROUNDING) / (1 + margin):
        return "smaller"
    return ""


def verdict(r: Ratio, *, margin: float = 0.02, p: float | None = None) -> Answer:
    """What a ratio means: larger, smaller, same, or inconclusive.

    *larger* and *smaller* need two things: the test (p at most 1 − confidence) and an interval `beyond` the margin; a margin of 0
    asks only that it leaves out 1. *same* needs the inner interval strictly between 1 ÷ (1 + margin) and 1 + margin: two one-sided
    tests (Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987), so a difference can be significant and yet *same*. All
    else is *inconclusive*: also a difference that is significant and may be smaller or larger than the margin. `p` replaces the
    ratio's own, when it was adjusted for many tests. Raises ValueError for a negative margin.
    """
    if not (math.isfinite(margin) and margin >= 0):
        raise ValueError(f"a margin is a share of 0 or more, not {margin}")
    if r.ratio is None or r.low is None or r.high is None or r.confidence is None:
        return "inconclusive"
    way = beyond(r.low, r.high, margin)
    if way and significant(r, p):
        return way
    if r.low_90 is not None and r.high_90 is not None and 1 / (1 + margin) < r.low_90 and r.high_90 < 1 + margin:
        return "same"
    return "inconclusive"


def allowing(estimate: Ratio, drift: Drift) -> Ratio:
    """The same, widened by what the level of unchanged code does between the sides."""
    if estimate.ratio is None or not (
        estimate.low and estimate.high and estimate.low_90 and estimate.high_90 and estimate.confidence
    ):
        return estimate
    logs = [np.array([math.log(end)]) for end in (estimate.ratio, estimate.low, estimate.high, estimate.low_90, estimate.high_90)]
    chance = np.array([1.0 if estimate.p is None else estimate.p])
    centre, low, high, low_90, high_90 = logs
    wide = widened(Estimates(centre, low, high, low_90, high_90, chance, np.ones(1)), drift, estimate.confidence)
    return msgspec.structs.replace(estimate, **_shares(wide, estimate.confidence))


def significant(r: Ratio, p: float | None = None) -> bool:
    """Whether the test rejects a ratio of 1 at 1 − confidence; `p` replaces the ratio's own."""
    chance = r.p if p is None else p
    return chance is not None and r.confidence is not None and chance <= 1 - r.confidence + 1e-12


# ---------------------------------------------------------------- many series at once


def estimate(
    x: Floats, y: Floats, *, paired: bool, assume: Literal["nothing", "normal"] = "nothing", confidence: float = 0.95
) -> Estimates:
    """Of logarithms, shape (series, runs): the shift from x to y, its intervals, and p of no shift.

    *nothing*, paired: that a difference is as likely up as down about the centre, whatever its distribution. Differences
    are drawn in at 2 robust standard deviations (Huber, Annals of Math. Stat. 35, 1964) and their sum is compared with its
    distribution under all changes of sign, which needs no enumeration: its variance and fourth cumulant are known. The
    interval holds the shifts that the test lets pass (Maritz, Biometrika 66, 1979). Ties and zeros need no care.
    *nothing*, not paired: that both sides have one shape; the same with permutations of drawn-in values.
    With fewer than 6 pairs no test by signs reaches 5 %, so Student's t stands in.

    Runs next to each other in time may be alike. Over ABBA pairs a first-order autocorrelation φ of runs widens the
    variance of the mean difference by (1 + φ) ÷ (1 + φ²), by 1.207 at most: estimated from 10 pairs on, where it is clear
    of zero, and taken as 1.1 with fewer. Without pairs it is (1 + φ) ÷ (1 − φ), estimated from 10 runs a side on.
    """
    variance_inflation = serial_pairs(x, y) if paired else serial_sides(x, y)
    if assume == "normal" or (paired and x.shape[1] < FEWEST_FLIPS):
        return _student(x, y, paired, confidence, variance_inflation)
    if paired:
        d = y - x
        return _inverted(lambda shift: _sign_flips(d - shift[:, None]), d.min(axis=1), d.max(axis=1), confidence, variance_inflation)
    lowest, highest = y.min(axis=1) - x.max(axis=1), y.max(axis=1) - x.min(axis=1)
    return _inverted(lambda shift: _permutations(x, y - shift[:, None]), lowest, highest, confidence, variance_inflation)


def widened(estimate: Estimates, drift: Drift, confidence: float = 0.95) -> Estimates:
    """With what the level of unchanged code does between the sides; p is of the widened interval."""
    centre, ends = estimate.centre, []
    for low, high, level in ((estimate.low, estimate.high, confidence), (estimate.low_90, estimate.high_90, 2 * confidence - 1)):
        ends += [centre - drift.widen(centre - low, level), centre + drift.widen(high - centre, level)]
    reach = np.where(centre > 0, centre - ends[0], ends[1] - centre)
    score = np.abs(centre) * NORMAL.inv_cdf(0.5 + confidence / 2) / np.where(reach > 0, reach, 1.0)
    p = np.where(np.isfinite(reach) & (drift.reach > 0), np.maximum(_two_sided(score), estimate.p), estimate.p)
    return estimate._replace(low=ends[0], high=ends[1], low_90=ends[2], high_90=ends[3], p=p)


def _sign_flips(d: Floats) -> Floats:
    """The test of a centre of 0 under changes of sign, as a normal score: Cornish and Fisher's expansion with the fourth
    cumulant (the third is zero), and never more than 2^−n allows. Values of exactly 0 have no sign and do not count."""
    d = np.where(np.abs(d) > ROUNDING, d, 0.0)
    psi = _drawn_in(d, CLIP * MAD_TO_SD * np.median(np.abs(d), axis=1, keepdims=True))
    squares = psi**2
    total = squares.sum(axis=1)
    safe = np.where(total > 0, total, 1.0)
    z = psi.sum(axis=1) / np.sqrt(safe)
    excess = -2 * (squares**2).sum(axis=1) / safe**2
    most = _most(np.ldexp(1.0, -np.count_nonzero(d, axis=1)))
    return np.asarray(np.clip(z - (z**3 - 3 * z) * excess / 24, -most, most))


def _permutations(x: Floats, y: Floats) -> Floats:
    """The test of one centre under exchange between the sides, as a normal score: the difference of means of drawn-in
    values, its permutation variance, and Cornish and Fisher's expansion with the fourth cumulant of sampling without
    replacement to order 1/N. Exchange has no third cumulant for equal sides; for unequal ones it is left out."""
    n, total = y.shape[1], x.shape[1] + y.shape[1]
    share = n / total
    z = np.concatenate([x, y], axis=1)
    z = z - np.median(z, axis=1, keepdims=True)
    z = np.where(np.abs(z) > ROUNDING, z, 0.0)
    u = _drawn_in(z, CLIP * MAD_TO_SD * np.median(np.abs(z), axis=1, keepdims=True))
    u = u - u.mean(axis=1, keepdims=True)
    squares = u**2
    second = squares.sum(axis=1)
    safe = np.where(second > 0, second, 1.0)
    z = u[:, x.shape[1] :].mean(axis=1) / np.sqrt(safe / (total - 1) * (1 / n - 1 / total))
    tails = total * (squares**2).sum(axis=1) / safe**2
    excess = -6 / (total + 1) + (1 - 6 * share * (1 - share)) / (share * (1 - share)) * (tails - 3) / total
    most = float(_most(np.array(_one_in_combinations(total, n))))
    return np.asarray(np.clip(z - (z**3 - 3 * z) * excess / 24, -most, most))


def _drawn_in(d: Floats, reach: Floats) -> Floats:
    """Values no farther from 0 than `reach`; where it is 0 (more than half are equal) none is moved."""
    reach = np.where(reach > 0, reach, np.inf)
    return np.asarray(np.clip(d, -reach, reach))


def _inverted(
    score: Callable[[Floats], Floats], lowest: Floats, highest: Floats, confidence: float, variance_inflation: Floats
) -> Estimates:
    """The centre, where a falling score crosses 0, and the intervals of all shifts whose score is not too large. All shifts
    lie from `lowest` to `highest`."""
    wide = np.sqrt(variance_inflation)
    margin = 4 * (highest - lowest) + 10 * ROUNDING  # beyond it all values lie on one side, about equally far
    still = highest - lowest < ROUNDING
    centre = np.where(still, (lowest + highest) / 2, _crossing(score, lowest, highest, 0 * wide))
    ends = []
    for level in (confidence, 2 * confidence - 1):
        target = NORMAL.inv_cdf(0.5 + level / 2) * wide
        for outer, aim in ((lowest - margin, target), (highest + margin, -target)):
            end = np.where(still, centre, _crossing(score, np.minimum(outer, centre), np.maximum(outer, centre), aim))
            ends.append(np.where(np.abs(score(outer)) >= target, end, np.nan))
    low, high, low_90, high_90 = ends
    p = _two_sided(score(0 * wide) / wide)
    # where the score is not quite monotone the interval must not contradict its own test
    passed = p > 1 - confidence
    low, high = np.where(passed, np.minimum(low, 0.0), low), np.where(passed, np.maximum(high, 0.0), high)
    return Estimates(centre, low, high, low_90, high_90, p, variance_inflation)


def _crossing(score: Callable[[Floats], Floats], low: Floats, high: Floats, target: Floats) -> Floats:
    """Where a score that falls from low to high passes the target."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        above = score(middle) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


def _student(x: Floats, y: Floats, paired: bool, confidence: float, variance_inflation: Floats) -> Estimates:
    """Student's t of differences, or Welch's of two sides. Without any spread the chance is what
    signs or permutations allow, and there is an interval, of no width, only where that is small enough."""
    n, m = x.shape[1], y.shape[1]
    if paired:
        d = y - x
        centre, variance, df = d.mean(axis=1), d.var(axis=1, ddof=1) / n, np.full(len(x), n - 1.0)
        one_in = 2.0**-n
    else:
        centre, variance, df = welch(x, y)
        one_in = _one_in_combinations(n + m, m)
    df = np.floor(20 * df) / 20  # so that few quantiles are needed for many series
    noisy = variance > ROUNDING**2
    error = np.sqrt(np.where(noisy, variance, 0.0) * variance_inflation)
    t = np.abs(centre) / np.where(noisy, error, 1.0)
    still = np.where(np.abs(centre) > ROUNDING, min(1.0, 2 * one_in), 1.0)
    p = np.where(noisy, _tail(t, df), still)
    ends = []
    for level in (confidence, 2 * confidence - 1):
        reach = np.where(noisy | (2 * one_in <= 1 - level), _point((1 + level) / 2, df) * error, np.nan)
        ends += [centre - reach, centre + reach]
    low, high, low_90, high_90 = ends
    return Estimates(centre, low, high, low_90, high_90, p, variance_inflation)


def welch(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The shift of the mean from x to y, shape (series, values), its variance and that variance's degrees of freedom (Biometrika 34, 1947).
    At least two values a side."""
    n, m = x.shape[1], y.shape[1]
    first, second = x.var(axis=1, ddof=1) / n, y.var(axis=1, ddof=1) / m
    variance, shares = first + second, first**2 / (n - 1) + second**2 / (m - 1)
    freedom = np.where(shares > 0, variance**2 / np.where(shares > 0, shares, 1.0), n + m - 2.0)
    return y.mean(axis=1) - x.mean(axis=1), variance, freedom


# ---------------------------------------------------------------- runs that resemble their neighbours


def serial_pairs(x: Floats, y: Floats) -> Floats:
    """The widening of the variance over pairs that were run A B, B A, A B …"""
    if x.shape[1] < KNOWN:
        return np.full(len(x), SERIAL_FEW)
    x, y = (side - np.median(side, axis=1, keepdims=True) for side in (x, y))
    runs = np.empty((len(x), 2 * x.shape[1]))
    swapped = np.arange(x.shape[1]) % 2 == 1
    runs[:, 0::2], runs[:, 1::2] = np.where(swapped, y, x), np.where(swapped, x, y)
    phi = _believed(_lag1(runs), runs.shape[1])
    return (1 + phi) / (1 + phi**2)


def serial_sides(x: Floats, y: Floats) -> Floats:
    """The widening of the variance of sides that were run one after the other; none where too few runs can tell."""
    if min(x.shape[1], y.shape[1]) < KNOWN:
        return np.ones(len(x))
    total = x.shape[1] + y.shape[1]
    phi = _believed((_lag1(x) * x.shape[1] + _lag1(y) * y.shape[1]) / total, total)
    return (1 + phi) / (1 - phi)


def wandering(values: ArrayLike) -> bool:
    """Whether values, in order of time, resemble their neighbours by more than chance; False of fewer than 10, or with one not above 0."""
    x = finite(values)
    return len(x) >= KNOWN and bool(x.min() > 0) and bool(_believed(_lag1(np.log(x)[None]), len(x))[0] > 0)


def _lag1(runs: Floats) -> Floats:
    """Autocorrelation at lag 1, values drawn in to 3 robust standard deviations, corrected for its bias at small n
    (Marriott and Pope, Biometrika 41, 1954)."""
    n = runs.shape[1]
    d = runs - np.median(runs, axis=1, keepdims=True)
    d = _drawn_in(d, 3 * MAD_TO_SD * np.median(np.abs(d), axis=1, keepdims=True))
    d = d - d.mean(axis=1, keepdims=True)
    total = (d**2).sum(axis=1)
    r = (d[:, 1:] * d[:, :-1]).sum(axis=1) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, r + (1 + 3 * r) / n, 0.0)


def _believed(r: Floats, n: int) -> Floats:
    """An autocorrelation of n runs where it is clear of zero, else 0: chance alone must not widen every interval."""
    return np.where(r > BELIEVED / math.sqrt(n), np.minimum(r, 0.9), 0.0)


# ---------------------------------------------------------------- distributions


_tail = np.vectorize(student.two_sided, otypes=[float])
_point = np.vectorize(student.quantile, otypes=[float])


def _two_sided(z: Floats) -> Floats:
    return np.asarray(np.vectorize(math.erfc, otypes=[float])(np.abs(z) / math.sqrt(2)), dtype=float)


def _most(one_sided: Floats) -> Floats:
    """The normal score of the smallest chance there is, given for one side."""
    distinct, where = np.unique(one_sided, return_inverse=True)
    scores = np.array([NORMAL.inv_cdf(1 - max(float(chance), 1e-16)) if chance < 0.5 else 0.0 for chance in distinct])
    return np.asarray(scores[where].reshape(np.shape(one_sided)), dtype=float)


def _one_in_combinations(total: int, part: int) -> float:
    return math.exp(math.lgamma(part + 1) + math.lgamma(total - part + 1) - math.lgamma(total + 1))


# ---------------------------------------------------------------- from logarithms to a reader


def _check(x: Floats, y: Floats, paired: bool, assume: str, confidence: float) -> None:
    if assume not in ("nothing", "normal", "exact"):
        raise ValueError(f"assume is nothing, normal or exact, not {assume!r}")
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must lie between 0.5 and 1, not {confidence}")
    if paired and len(x) != len(y):
        raise ValueError(f"pairs need as many values on both sides, not {len(x)} and {len(y)}")


def _constant(x: Floats) -> bool:
    return len(x) > 0 and bool(np.all(x == x[0]))


def _plain(x: Floats, y: Floats) -> float | None:
    """Median ÷ median, where both are above zero."""
    if not (len(x) and len(y)):
        return None
    a, b = float(np.median(x)), float(np.median(y))
    return _finite(b / a) if a > 0 and b > 0 else None


def _exact(x: Floats, y: Floats, plain: Ratio, confidence: float) -> Ratio:
    """Values without noise: the interval has no width, and equal or not is all there is to know."""
    same = bool(x[0] == y[0])
    share = 1.0 if same else plain.ratio
    if share is None:
        notice = Notice("zero_values", "a value is zero or negative: there is no ratio")
        return msgspec.structs.replace(plain, p=0.0, method="exact", notices=(notice,))
    fields = dict.fromkeys(("ratio", "low", "high", "low_90", "high_90"), share)
    return msgspec.structs.replace(plain, **fields, p=float(same), confidence=confidence, method="exact", mde=0.0)


def _unknown(x: Floats, y: Floats, paired: bool) -> Notice | None:
    """Why there is no interval."""
    lost = int(np.count_nonzero(x <= 0) + np.count_nonzero(y <= 0))
    if lost:
        return Notice("zero_values", f"{lost} of {len(x) + len(y)} values are zero or negative: there is no interval of a ratio")
    if paired and len(x) < FEWEST:
        return Notice("few_values", f"{FEWEST} pairs are needed for an interval, there are {len(x)}")
    if min(len(x), len(y)) < FEWEST:
        return Notice("few_values", f"{FEWEST} values are needed on each side for an interval, there are {len(x)} and {len(y)}")
    return None


def _method(n: int, m: int, paired: bool, assume: str) -> str:
    if paired:
        return "t of pairs" if assume == "normal" or n < FEWEST_FLIPS else "sign flips of pairs"
    return "Welch" if assume == "normal" else "permutations"


def _shares(estimate: Estimates, confidence: float) -> dict[str, float | None]:
    """One series of estimates as ratios."""
    centre, low, high, low_90, high_90, p = (float(field[0]) for field in estimate[:6])
    known = math.isfinite(low) and math.isfinite(high)
    fields: dict[str, float | None] = {"ratio": exponential(centre), "p": p}
    if not known:
        return fields
    more = NORMAL.inv_cdf(POWER) / NORMAL.inv_cdf(0.5 + confidence / 2)
    return fields | {
        "low": exponential(low),
        "high": exponential(high),
        "low_90": exponential(low_90),
        "high_90": exponential(high_90),
        "confidence": confidence,
        "mde": _finite(math.expm1(min((high - low) / 2 * (1 + more), 700.0))),
    }


def _unlike(x: Floats, y: Floats) -> float:
    """p of equal spreads: Welch's t of the distances from the medians (Brown and Forsythe, JASA 69 (1974) 364)."""
    far = [np.abs(side - np.median(side)) for side in (x, y)]
    parts = [float(side.var(ddof=1)) / len(side) for side in far]
    if not sum(parts):
        return 1.0
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, far, strict=True))
    return student.two_sided(float(far[0].mean() - far[1].mean()) / math.sqrt(sum(parts)), freedom)


def _notices(x: Floats, y: Floats, estimate: Estimates, paired: bool, assume: str) -> tuple[Notice, ...]:
    n = min(len(x), len(y))
    variance_inflation = float(estimate.variance_inflation[0])
    spreads = sorted(float(np.median(np.abs(side - np.median(side)))) for side in (x, y))
    notices = [] if math.isfinite(float(estimate.low[0])) else [_no_interval(x, y, paired)]
    if paired and n < FEWEST_FLIPS and assume != "normal":
        seen = f"with {n} pairs their differences are taken to be normal; {FEWEST_FLIPS} pairs need no such assumption"
        notices.append(Notice("taken_as_normal", seen))
    if variance_inflation > 1 and n >= KNOWN:
        widened = 100 * (math.sqrt(variance_inflation) - 1)
        seen = f"neighbouring values are alike (autocorrelation): the interval is widened by {widened:.0f} %"
        notices.append(Notice("autocorrelated", seen))
    if not paired and n >= 8 and 3 * spreads[0] < spreads[1] and _unlike(x, y) < UNLIKE:
        notices.append(Notice("unlike_noise", "one side is over 3 times as noisy as the other", "look for what differs"))
    if not paired and any(_drifts(side) for side in (x, y)):
        seen = "a side drifts while it is measured, which can look like a difference"
        notices.append(Notice("drift", seen, "measure the sides in turns"))
    return tuple(notices)


def _no_interval(x: Floats, y: Floats, paired: bool) -> Notice:
    """Why a test of enough positive values gives none."""
    still = np.ptp(y - x) < ROUNDING if paired else max(np.ptp(x), np.ptp(y)) < ROUNDING
    if still:
        seen = "no noise was seen: the values of each side are equal, which so few can be by chance"
        return Notice("no_noise", seen, "add runs or rounds")
    return Notice("few_values", f"{len(x)} and {len(y)} values are too few for an interval of this confidence", "add runs or rounds")


def _drifts(logs: Floats) -> bool:
    return len(logs) >= series.FEWEST and series.drifting(np.exp(logs - np.median(logs)))


def exponential(x: float) -> float | None:
    """Of a logarithm; None where it would overflow or vanish."""
    return math.exp(x) if abs(x) < 700 else None


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
