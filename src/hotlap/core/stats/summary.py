"""A result condensed: median, interval, spread, quantiles, and notices that say what to do.

Nothing here assumes a distribution. Rounds are fresh processes and independent; samples inside a round are not, so the
interval is over rounds alone (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.record import Notice, Summary
from hotlap.core.stats import order, series, stopping
from hotlap.core.stats.series import LARGEST, MAD_TO_SD, RESOLUTION, finite
from hotlap.core.units import show

QUANTILES = (1, 5, 25, 50, 75, 95, 99)
DEPENDENT = 0.5  # effective ÷ samples below which a reader is told
MANY_OUTLIERS = 0.05  # share of samples
FEW_SAMPLES = 5  # in a round


def autocorrelation(x: ArrayLike) -> float | None:
    """Lag 1, −1 to 1; None for fewer than 3 values or when all are the same. Outliers beyond 3 robust standard deviations
    are drawn in to that first: one spike would hide a slow wave.

    Box, Jenkins and Reinsel, Time Series Analysis, 2.1.5. Raises ValueError for values that are not finite.
    """
    return series.lag1(x)


def effective(n: float, r: float) -> float:
    """How many independent samples n samples with lag-1 autocorrelation r are worth: n(1 − r)/(1 + r), from 1 to n.

    Exact for long first-order autoregressive series (Bayley and Hammersley, 1946). A negative r earns nothing.
    """
    if n <= 1:
        return max(n, 0.0)
    r = min(max(r, 0.0), 1.0)
    return min(max(n * (1 - r) / (1 + r), 1.0), n)


def outliers(x: ArrayLike, fence: float = 3.0) -> NDArray[np.bool_]:
    """True where a value lies more than `fence` interquartile ranges beyond the quartiles: Tukey's "far out" at 3
    (Exploratory Data Analysis, 1977, 2C), 2 in a million of normal data. Fewer than 5 values have none.

    The range counts as at least 0.1 % of the median, so that the ticks of a timer are not outliers of each other.
    Raises ValueError for values that are not finite.
    """
    values = finite(x)
    if len(values) < 5:
        return np.zeros(len(values), dtype=bool)
    low, middle, high = _quantiles(np.sort(values), (0.25, 0.5, 0.75))
    reach = fence * max(high - low, RESOLUTION * abs(middle))
    return np.asarray((values < low - reach) | (values > high + reach))


def _quantiles(ordered: NDArray[np.float64], shares: Sequence[float]) -> list[float]:
    """As np.quantile gives them, to the last bit, of values in order; that takes ten times as long for few values."""
    values = []
    for share in shares:
        place = (len(ordered) - 1) * share
        below = min(int(place), len(ordered) - 1)
        a, b, part = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)]), place - below
        values.append(b - (b - a) * (1 - part) if part >= 0.5 else a + (b - a) * part)
    return values


def summarize(
    values: Sequence[float], samples: Sequence[ArrayLike] = (), precision: float | None = None, better: str = "",
) -> Summary:
    """`values`: one number per round. `samples`: those of each round in order of time, in the same unit as `values`. `precision`:
    the half-width asked for, as a share of the median. `better`, "higher" or "lower", says which round is the best.

    Values that are not finite are left out and a notice says so; whatever cannot be known from the rest is None.
    Outliers are counted inside each round, or over `values` when there are no samples. Quantiles are of all samples
    (linear between order statistics: type 7 of Hyndman and Fan, 1996).
    """
    x, lost = _clean(values)
    cleaned = [_clean(one) for one in samples]
    rounds = [kept for kept, _ in cleaned if len(kept)]
    lost_samples = sum(count for _, count in cleaned)
    fields: dict[str, Any] = {"rounds": len(x), "samples": sum(map(len, rounds))}
    if len(x):
        fields |= centre(x.tolist(), precision)
        fields["best"] = {"higher": float(x.max()), "lower": float(x.min())}.get(better)
    if rounds:
        pooled = np.sort(np.concatenate(rounds))
        fields |= {
            "mad_within_rounds": _within(rounds),
            "quantiles": dict(zip((f"p{q}" for q in QUANTILES), _quantiles(pooled, [q / 100 for q in QUANTILES]), strict=True)),
            "effective": sum(_effective(one) for one in rounds),
        }
    fields["outliers"] = sum(int(outliers(one).sum()) for one in (rounds or [x]))
    summary = Summary(**fields)
    notices = _lost(lost, "rounds", len(values)) + _lost(lost_samples, "samples", summary.samples + lost_samples)
    return Summary(**fields, notices=notices + _notices(summary, x, rounds))


def _clean(values: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """The finite values, and how many were not."""
    x = np.asarray(values, dtype=float).ravel()
    keep = np.abs(x) <= LARGEST
    return x[keep], int(len(x) - np.count_nonzero(keep))


def centre(values: Sequence[float], precision: float | None) -> dict[str, Any]:
    """Median, interval and spread over rounds, as fields of a Summary; with a precision, what it takes. All values are finite."""
    median = statistics.median(values)
    fields: dict[str, Any] = {"median": median}
    if precision:
        need = stopping.need(values, precision)
        fields |= {"expected": _finite(need.expected), "reached": need.reached, "needed": need.needed}
    if found := order.interval(values) or order.whole_range(values):
        low, high, attained = found
        wide = stopping.widening(fields.get("expected"), precision, fields.get("reached"))
        low, high = median - (median - low) * wide, median + (high - median) * wide
        fields |= {"low": low, "high": high, "confidence": attained, "half_width": _share((high - low) / 2, median)}
    if len(values) > 1:
        fields["mad_between_rounds"] = _share(MAD_TO_SD * statistics.median(abs(value - median) for value in values), median)
    return fields


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _share(part: float, whole: float) -> float | None:
    """part ÷ |whole|; None where that says nothing."""
    ratio = part / abs(whole) if whole else math.inf
    return ratio if math.isfinite(ratio) else None


def _within(rounds: Sequence[NDArray[np.float64]]) -> float | None:
    """Spread inside rounds: each sample against its own round's median, all rounds together."""
    deviations: list[NDArray[np.float64]] = []
    for one in rounds:
        median = series.median_of(one)
        if len(one) > 1 and median:
            with np.errstate(over="ignore"):
                deviations.append(np.abs(one / median - 1))
    if not deviations:
        return None
    spread = MAD_TO_SD * series.median_of(np.concatenate(deviations))
    return spread if math.isfinite(spread) else None


def _effective(values: NDArray[np.float64]) -> float:
    """Of one round. Where the autocorrelation is unknown a round is sure to be worth one sample, and no more is claimed."""
    r = series.lag1(values)
    return 1.0 if r is None else effective(len(values), r)


def _lost(lost: int, what: str, of: int) -> list[Notice]:
    seen = f"{lost} of {of} {what} gave no finite number and are left out"
    return [Notice("not_finite", seen, "look at them with 'hotlap show'")] if lost else []


def _notices(s: Summary, x: NDArray[np.float64], rounds: Sequence[NDArray[np.float64]]) -> list[Notice]:
    """What to know about a summary, each with what to do."""
    if not len(x):
        return [Notice("nothing_measured", "nothing was measured: the reason stands with the case", "mend it and run again")]
    return [*_of_rounds(s, x), *_of_samples(s, rounds)]


def _of_rounds(s: Summary, x: NDArray[np.float64]) -> list[Notice]:
    notices, enough = [], len(x) >= stopping.FEWEST
    if not enough:
        seen = f"{stopping.FEWEST} rounds needed for a 95 % interval, there {_are(len(x))}"
        notices.append(Notice("few_rounds", seen, f"run with --rounds {stopping.FEWEST}"))
    if s.median == 0:
        seen = "the median is zero, so widths have no meaning as a share of it"
        notices.append(Notice("zero_median", seen, "measure something that takes longer"))
    between, within = s.mad_between_rounds, s.mad_within_rounds
    if enough and between is not None and within is not None and between > max(3 * within, 0.005):
        seen = f"rounds differ by {show(between, '%')}, their samples by {show(within, '%')}: processes differ"
        notices.append(Notice("rounds_differ", seen, "raise --rounds"))
    if enough and series.drifting(x):
        notices.append(Notice("drift", "the rounds drift in one direction", "let the machine reach its temperature, then run again"))
    if len(x) >= 20 and series.bimodal(x):
        notices.append(Notice("bimodal", "the rounds fall into two groups", "look for what differs between processes with 'hotlap show'"))
    return notices


def _of_samples(s: Summary, rounds: Sequence[NDArray[np.float64]]) -> list[Notice]:
    notices = []
    if few := [len(one) for one in rounds if len(one) < FEW_SAMPLES]:
        seen = f"{len(few)} of {len(rounds)} {'rounds have' if len(rounds) > 1 else 'round has'} fewer than {FEW_SAMPLES} samples"
        notices.append(Notice("few_samples", seen, "give a round more time with --round-time"))
    if s.samples >= 20 and s.mad_within_rounds and s.effective is not None and s.effective < DEPENDENT * s.samples:
        seen = f"{s.samples} samples are worth {s.effective:.0f} independent ones"
        notices.append(Notice("autocorrelated", seen, "more rounds narrow the interval, more samples do not"))
    if s.samples >= 20 and s.outliers > MANY_OUTLIERS * s.samples:
        seen = f"{s.outliers} of {s.samples} samples lie far from the others"
        notices.append(Notice("outliers", seen, "stop other programs and run again"))
    return notices


def _are(n: int) -> str:
    return "is 1" if n == 1 else f"are {n}"
