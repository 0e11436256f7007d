"""By how much the level of unchanged code moves from one time to another: what two sides that were measured one after the other may
differ by without any change.

    learnt     from the earlier runs of a series: what differs from day to day, or within one
    allowed    from a figure
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.stats.series import MAD_TO_SD

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

NORMAL = NormalDist()
FEWEST_RUNS, FEWEST_DAYS = 10, 3  # of a history from which drift is learnt
CLIP = 3.0  # robust standard deviations at which a step of the level is drawn in: a history holds changes of the code too
FEWEST_STEPS = 6  # from which a robust scale of them is known
SHARED = 0.75  # as how many independent steps one counts that shares a day with its neighbour
HALVINGS = 60
ERF = np.vectorize(math.erf, otypes=[float])


class Drift(NamedTuple):
    """What the level does between two sides, on logarithms: of one series, or of many at once."""

    reach: Floats  # 95 % of drifts, up or down, stay under it
    inner: Floats  # 90 %
    noise: Floats  # variance of what the noise of single runs has added to it; infinite: more than that of any two sides
    steps: float = math.inf  # how many earlier ones it was learnt from; infinite for a figure

    def widen(self, reach: Floats, confidence: float) -> Floats:
        """Half an interval between sides, with the drift: independent of their noise, so both add in quadrature, but for the
        noise that is in the drift already. `confidence` is 0.95 or 0.90."""
        own = self.reach if confidence > 0.925 else self.inner
        counted = np.minimum(reach, NORMAL.inv_cdf(0.5 + confidence / 2) * np.sqrt(self.noise))
        return np.asarray(np.maximum(reach, np.sqrt(own**2 + reach**2 - counted**2)))


def allowed(share: float) -> Drift:
    """Of a figure that 95 % of drifts stay under, as a share; taken as normal for 90 %."""
    reach = math.log1p(share)
    return Drift(np.array(reach), np.array(reach * NORMAL.inv_cdf(0.95) / NORMAL.inv_cdf(0.975)), np.array(0.0))


def enough(days: ArrayLike) -> bool:
    """Whether runs on these days are a history."""
    return np.size(days) >= FEWEST_RUNS and len(np.unique(days)) >= FEWEST_DAYS


def learnt(logs: ArrayLike, days: ArrayLike, gap: int = 0) -> Drift | None:
    """From runs in order of time, shape (series, runs) or (runs,), and the day of each, an integer.

    `gap`: days between the two sides. 0: both lie within one day, and it is what the halves of earlier days differ by; None where
    fewer than three days have two runs, since days with a single run do not show what happens within one. Else it is what days
    differ by that lie as far apart as the sides, or as far as half of the history allows. A further step stays under the k-th of m
    such steps, k = ⌈0.95 (m + 1)⌉, with 95 % whatever their distribution; with fewer than 19 under the largest times a factor, were they
    normal (`factor`). A steady step, such as a warm-up in each session, is not centred away. With six steps or more they are drawn in
    at 3 robust standard deviations. None where `enough` is false.
    """
    y, day = np.atleast_2d(np.asarray(logs, dtype=float)), np.asarray(days)
    if not enough(day):
        return None
    groups = [np.flatnonzero(day == one) for one in np.unique(day)]
    several = [group for group in groups if len(group) >= 2]
    if gap == 0:
        halves = [(group[: len(group) // 2], group[(len(group) + 1) // 2 :]) for group in several]
        return _spread(y, halves, several, len(halves)) if len(halves) >= FEWEST_DAYS else None
    spacing = float(np.median(np.diff(np.unique(day))))
    lag = min(max(round(gap / spacing), 1), max((len(groups) - 1) // 2, 1))
    return _spread(y, list(zip(groups[:-lag], groups[lag:], strict=True)), several, SHARED * (len(groups) - 1) / lag)


def _spread(y: Floats, pairs: list[tuple[Places, Places]], several: list[Places], count: float) -> Drift:
    steps = np.abs(np.stack([y[:, late].mean(axis=1) - y[:, early].mean(axis=1) for early, late in pairs], axis=1))
    if steps.shape[1] >= FEWEST_STEPS:
        steps = np.minimum(steps, CLIP * MAD_TO_SD * np.median(steps, axis=1, keepdims=True))
    share = float(np.mean([1 / len(early) + 1 / len(late) for early, late in pairs]))
    noise = share * _noise(y, several) if several else np.full(len(y), math.inf)
    return Drift(_bound(steps, count, 0.95), _bound(steps, count, 0.90), noise, count)


def _bound(steps: Floats, count: float, confidence: float) -> Floats:
    """Of a further step; `count`: as how many independent ones these count."""
    rank = math.ceil(confidence * (count + 1))
    if rank > count:
        return np.asarray(steps.max(axis=1) * max(factor(count, confidence), 1.0))
    return np.asarray(np.quantile(steps, rank / count, axis=1, method="inverted_cdf"))


def _noise(y: Floats, groups: list[Places]) -> Floats:
    """Variance of one run, from neighbours within a day, which no slow drift reaches (von Neumann)."""
    squares = [np.diff(y[:, group], axis=1) ** 2 for group in groups]
    return np.asarray(np.concatenate(squares, axis=1).mean(axis=1) / 2)


@lru_cache(maxsize=256)
def factor(count: float, confidence: float) -> float:
    """What the largest of so many absolute values is multiplied with to bound a further one with this confidence, all of one normal law
    about zero: by quadrature over the largest."""
    x = np.linspace(1e-6, 8.0, 4001)
    below = ERF(x / math.sqrt(2))
    weight = np.diff(below**count)
    middle = (x[1:] + x[:-1]) / 2
    low, high = 0.0, 100.0
    for _ in range(HALVINGS):
        times = (low + high) / 2
        held = float((weight * ERF(times * middle / math.sqrt(2))).sum())
        low, high = (times, high) if held < confidence else (low, times)
    return (low + high) / 2
