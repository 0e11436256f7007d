"""The mean of a few independent units whose values may be skewed, as of windows of a text, with an interval.

Student's t, corrected for skewness by Hall's transformation (J. R. Stat. Soc. B 54, 221, 1992): of skewed units the plain interval misses
a mean above it too often. Assumption: units are independent of each other and alike; how a unit's own values depend on each other is no
matter. Values that are all above 0 may be taken as lognormal beside that (Cox's interval as modified by Olsson, J. Stat. Educ. 13(1),
2005), and the outer ends count: Hall's alone are too short where few of them are very uneven.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hotlap.core.stats import student

FEWEST = 6  # units from which skewness is looked at; of fewer it says nothing


class MeanOfUnits(NamedTuple):
    """`error`: standard error of the mean."""

    mean: float
    low: float
    high: float
    error: float
    units: int


def mean(
    values: ArrayLike, weights: ArrayLike | None = None, confidence: float = 0.95, positive: bool = False
) -> MeanOfUnits | None:
    """Of the values of units; `weights`: the size of each, where they differ. `positive`: of distances, whose interval is as wide as that
    of lognormal ones. None for fewer than two. Raises ValueError for values that are not finite.

    With weights it is the ratio of sums, and what scatters are its residuals (Cochran, Sampling Techniques, 3rd ed. 1977, 6.3).
    """
    x = np.asarray(values, float)
    if not np.isfinite(x).all():
        raise ValueError("a unit's value is not finite")
    if len(x) < 2:
        return None
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    centre = float((w * x).sum() / w.sum())
    scaled = (x - centre) * w / w.mean()
    n, spread = len(x), float(scaled.std(ddof=1))
    reach = student.quantile((1 + confidence) / 2, n - 1) / math.sqrt(n)
    skew = _skewness(scaled, spread) if n >= FEWEST else 0.0
    low, high = centre - spread * _back(reach, skew, n), centre - spread * _back(-reach, skew, n)
    if positive and (x > 0).all():
        least, most = _lognormal(np.log(x), confidence)
        scale = centre / float(x.mean())  # units of other sizes
        low, high = min(low, least * scale), max(high, most * scale)
    return MeanOfUnits(centre, low, high, spread / math.sqrt(n), n)


def _lognormal(logs: np.ndarray, confidence: float) -> tuple[float, float]:
    """Ends of the mean of lognormal values."""
    n, variance = len(logs), float(logs.var(ddof=1))
    centre = float(logs.mean()) + variance / 2
    reach = student.quantile((1 + confidence) / 2, n - 1) * math.sqrt(variance / n + variance**2 / (2 * (n - 1)))
    return math.exp(centre - reach), math.exp(min(centre + reach, 700.0))


def _skewness(x: np.ndarray, spread: float) -> float:
    return float(((x - x.mean()) ** 3).mean()) / spread**3 if spread > 0 else 0.0


def _back(deviate: float, skew: float, n: int) -> float:
    """Hall's transformation, inverted."""
    return 3 / skew * (math.cbrt(1 + skew * (deviate - skew / (6 * n))) - 1) if abs(skew) > 1e-6 else deviate
