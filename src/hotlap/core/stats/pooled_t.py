"""Two or three runs a side: their ratio by Student's t on logarithms, with one variance for both sides.

Fewer runs than a test free of assumptions needs. Assumes normal logarithms and one noise on both sides, so an answer from it says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hotlap.core.stats import student
from hotlap.core.stats.ratio import Ratio

FEWEST = 2  # runs a side
LEAST_SD = 1e-6  # of logarithms: numbers without any noise


def pooled_t_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio | None:
    """B ÷ A of one value per run, above zero; None with fewer than two runs a side or a value that is not above zero."""
    if min(len(a), len(b)) < FEWEST or min(*a, *b) <= 0:
        return None
    x, y = np.log(a), np.log(b)
    freedom = len(a) + len(b) - 2
    pooled = math.sqrt((float(x.var()) * len(a) + float(y.var()) * len(b)) / freedom)
    error = max(pooled, LEAST_SD) * math.sqrt(1 / len(a) + 1 / len(b))
    return t_ratio(float(y.mean() - x.mean()), error, freedom, (len(a), len(b)), confidence)


def t_ratio(shift: float, error: float, freedom: float, counts: tuple[int, int], confidence: float = 0.95) -> Ratio:
    """The ratio of a shift of logarithms with its standard error, above zero, and that error's degrees of freedom. `counts`: values of each
    side."""
    reach, inner = (student.quantile(p, freedom) * error for p in ((1 + confidence) / 2, confidence))
    return Ratio(
        ratio=math.exp(shift), low=math.exp(shift - reach), high=math.exp(shift + reach), low_90=math.exp(shift - inner),
        high_90=math.exp(shift + inner), p=student.two_sided(shift / error, freedom), confidence=confidence, n_a=counts[0], n_b=counts[1],
        method="normal",
    )
