"""Student's t distribution, for intervals of few replicates. Assumption of its users: normal data, or logarithms that are."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300


def two_sided(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|), from 0 to 1; 1 for NaN. `freedom`: degrees of freedom, above 0.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.1 with 26.5.8 (continued fraction).
    """
    if math.isnan(t):
        return 1.0
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5) if math.isfinite(t) else 0.0


@lru_cache(maxsize=1024)
def quantile(p: float, freedom: float) -> float:
    """The point below which T lies with probability `p`, above 0 and under 1. Raises ValueError outside."""
    if not 0 < p < 1:
        raise ValueError(f"p must be between 0 and 1, not {p}")
    if p < 0.5:
        return -quantile(1 - p, freedom)
    low, high = 0.0, 1.0
    while two_sided(high, freedom) / 2 > 1 - p:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if two_sided(middle, freedom) / 2 > 1 - p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    # The continued fraction by Lentz's method.
    f, c, d = 1.0, 1.0, 0.0
    for step in range(400):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or _TINY)
        c = 1 + term / c or _TINY
        f *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (f - 1)
