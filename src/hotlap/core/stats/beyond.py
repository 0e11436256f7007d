"""How many cases of a plan may lie beyond a stated interval before a healthy device is an unlikely explanation.

Of n cases of one kind the number beyond is taken as beta-binomial: each lies beyond with the share that the interval leaves out, and
cases of a kind go beyond together by their intraclass correlation (Skellam, J. R. Stat. Soc. B 10, 1948, 257). Kinds are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CHANCE = 0.01  # of plans of a healthy device that have more cases beyond


class Beyond(NamedTuple):
    """Cases of one kind."""

    cases: int
    share: float  # that lie beyond the interval where all is well, 0 to 1
    alike: float  # intraclass correlation; at most 0: independent


def most(kinds: Sequence[Beyond], chance: float = CHANCE) -> int:
    """The most cases beyond that a healthy device has: more come in at most `chance` of its plans."""
    total = np.ones(1)
    for kind in kinds:
        total = np.convolve(total, distribution(kind))
    more = 1.0 - np.cumsum(total)
    return int(np.argmax(more <= chance + 1e-12))


def distribution(kind: Beyond) -> Floats:
    """The chance of 0, 1, … all cases beyond."""
    n, count = kind.cases, range(kind.cases + 1)
    if not 0 < kind.share < 1:
        return np.array([float(k == (n if kind.share >= 1 else 0)) for k in count])
    if kind.alike <= 0:
        return np.array([math.comb(n, k) * kind.share**k * (1 - kind.share) ** (n - k) for k in count])
    scale = 1 / min(kind.alike, 1 - 1e-9) - 1
    a, b = kind.share * scale, (1 - kind.share) * scale
    return np.array([math.comb(n, k) * math.exp(_log_beta(k + a, n - k + b) - _log_beta(a, b)) for k in count])


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def alike(beyond: Sequence[bool] | NDArray[np.bool_], group: Sequence[str] | NDArray[np.str_]) -> float:
    """Intraclass correlation of going beyond within groups, by analysis of variance (Fisher); NaN for fewer than 2 groups.

    Raises ValueError where no group has two members.
    """
    values = np.asarray(beyond, dtype=float)
    _, place, size = np.unique(np.asarray(group), return_inverse=True, return_counts=True)
    n, groups = len(values), len(size)
    if groups < 2:
        return math.nan
    if n == groups:
        raise ValueError("no group has two members")
    mean = np.bincount(place, values) / size
    between = float(size @ (mean - values.mean()) ** 2) / (groups - 1)
    within = float(np.sum((values - mean[place]) ** 2)) / (n - groups)
    usual = (n - float(size @ size) / n) / (groups - 1)
    spread = between + (usual - 1) * within
    return (between - within) / spread if spread else 0.0
