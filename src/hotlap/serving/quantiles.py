"""Quantiles and shares of what requests in a queue took: neighbours are alike, so many requests say less than as many independent ones.

How much less is seen from means of blocks of neighbours: `effective` is the number of independent requests that would scatter as much.
Quantiles are order statistics with the interval of Conover 3.2 (no distribution is assumed); where requests were cut by the run's end,
those of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958) with the interval of Brookmeyer and Crowley (Biometrics 38, 1982) on log(−log S).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z = 1.959964  # 95 %
BLOCKS, IN_BLOCK, FEWEST = 30, 10, 6


class Quantile(NamedTuple):
    """`value`: the smallest that a share `p` does not exceed; None where fewer than that ever ended. `low`, `high`: 95 %; None where so few
    requests cannot say."""

    p: float
    value: float | None
    low: float | None
    high: float | None


def effective(marks: ArrayLike) -> float:
    """Independent values whose mean would scatter as that of these shares, in order of time: at most as many as there are, at least 2."""
    x = np.asarray(marks, float)
    share, blocks = float(x.mean()) if len(x) else 0.0, min(BLOCKS, len(x) // IN_BLOCK)
    if blocks < FEWEST or not 0 < share < 1:
        return float(len(x))
    means = np.array([part.mean() for part in np.array_split(x, blocks)])
    scatter = float(means.var(ddof=1)) / blocks
    return float(min(max(share * (1 - share) / scatter, 2.0), len(x))) if scatter > 0 else float(len(x))


def share(marks: ArrayLike) -> tuple[float, float, float] | None:
    """The share of marks that are 1, and its interval (Wilson's, over `effective` values); None of none."""
    x = np.asarray(marks, float)
    if not len(x):
        return None
    p, n = float(x.mean()), effective(x)
    middle, spread = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return p, max((middle - spread) / (1 + Z * Z / n), 0.0), min((middle + spread) / (1 + Z * Z / n), 1.0)


def quantile(values: ArrayLike, p: float, cut: ArrayLike | None = None) -> Quantile:
    """`values` in order of time, inf where one never came; `cut`: those that were known only to be longer when the run ended."""
    x = np.asarray(values, float)
    censored = np.zeros(len(x), bool) if cut is None else np.asarray(cut, bool)
    if not len(x):
        return Quantile(p, None, None, None)
    return _kaplan_meier(x, censored, p) if censored.any() else _order(x, p)


def _order(x: NDArray[np.float64], p: float) -> Quantile:
    n, ordered = len(x), np.sort(x)
    value = ordered[max(math.ceil(p * n - 1e-9), 1) - 1]
    independent = effective(x <= value)
    low, high = _ranks(max(round(independent), 1), p)
    stretch = n / max(round(independent), 1)
    at_low = ordered[max(math.floor(low * stretch), 1) - 1] if low else None
    at_high = ordered[min(math.ceil(high * stretch), n) - 1] if high else None
    return Quantile(p, _finite(value), _finite(at_low), _finite(at_high))


def _ranks(n: int, p: float) -> tuple[int, int]:
    """Ranks of the order statistics that hold the p-quantile with 95 %; 0 where there is none."""
    k = np.arange(n + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    below = np.cumsum(np.exp(logs[n] - logs[k] - logs[n - k] + k * math.log(p) + (n - k) * math.log1p(-p)))
    low = int(np.searchsorted(below, 0.025, side="right"))  # P(B ≤ low − 1) ≤ 2.5 %
    high = int(np.searchsorted(below, 0.975)) + 1  # P(B ≤ high − 1) ≥ 97.5 %
    return low, high if high <= n else 0


def _kaplan_meier(x: NDArray[np.float64], censored: NDArray[np.bool_], p: float) -> Quantile:
    times, events = np.unique(x[~censored], return_counts=True)
    if not len(times):
        return Quantile(p, None, None, None)
    at_risk = len(x) - np.searchsorted(np.sort(x), times)
    surviving = np.cumprod(1 - events / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(np.where(at_risk > events, events / (at_risk * (at_risk - events)), 0.0))
        value = times[np.argmax(surviving <= 1 - p + 1e-12)] if (surviving <= 1 - p + 1e-12).any() else math.inf
        loss = len(x) / max(effective((x <= value) & ~censored), 1.0)
        spread = Z * np.sqrt(variance * loss) / np.abs(np.log(surviving))
        bounds = [np.where(surviving > 0, surviving ** np.exp(sign * spread), 0.0) for sign in (1, -1)]
    if not surviving[-1]:  # all of the last few at risk ended: what a longer look would have shown is not known (exact binomial bound)
        before = bounds[1][-2] if len(times) > 1 else 1.0
        bounds[1][-1] = before * (1 - 0.025 ** (1 / at_risk[-1]))
    low, high = (times[np.argmax(bound <= 1 - p)] if (bound <= 1 - p).any() else math.inf for bound in bounds)
    return Quantile(p, _finite(value), _finite(low), _finite(high))


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
