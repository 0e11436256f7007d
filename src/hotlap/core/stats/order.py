"""The interval of a median from order statistics: no distribution is assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hotlap.core.stats.series import finite

CONFIDENCE = 0.95


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float] | None:
    """The narrowest symmetric pair of order statistics that holds the median with at least `confidence`: low, high and
    the confidence attained. None when there are too few values (under 6 for 95 %).

    Conover, Practical Nonparametric Statistics, 3rd ed. 1999, 3.2; David and Nagaraja, Order Statistics, 3rd ed. 2003, 7.1.
    Raises ValueError for values that are not finite and for a confidence outside 0 to 1.
    """
    x = sorted(finite(values).tolist())
    rank, attained = ranks(len(x), confidence)
    return (x[rank - 1], x[len(x) - rank], attained) if rank else None


def whole_range(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Smallest and largest of few values, and the confidence with which they hold the median: 1 − 2^(1−n), 93.75 % for 5.
    None for a single value or none. Raises ValueError for values that are not finite."""
    x = finite(values)
    return (float(x.min()), float(x.max()), 1 - 2.0 ** (1 - len(x))) if len(x) > 1 else None


@lru_cache(maxsize=1024)
def ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, float]:
    """The largest rank r for which the r-th smallest and the r-th largest of n values hold the median with at least
    `confidence`, and the confidence attained: 1 − 2·P(Binomial(n, ½) < r). (0, 0.0) when there is none."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    rank, attained, below = 0, 0.0, 0.0
    for chance in _chances(n):
        below += chance
        if 1 - 2 * below < confidence:
            break
        rank, attained = rank + 1, 1 - 2 * below
    return rank, attained


def _chances(n: int) -> list[float]:
    """P(Binomial(n, ½) = k) for k below n/2; exact where integers are cheap, by logarithms of factorials beyond."""
    if n <= 1000:
        whole = 2**n
        return [math.comb(n, k) / whole for k in range((n + 1) // 2)]
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    k = np.arange((n + 1) // 2)
    chances: list[float] = np.exp(log_factorial[n] - log_factorial[k] - log_factorial[n - k] - n * math.log(2)).tolist()
    return chances
