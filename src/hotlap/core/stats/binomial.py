"""The share of events among many, with its exact interval: of independent ones, and of those that come in rounds which differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hotlap.core.stats import student

HALVINGS = 60


class BinomialShare(NamedTuple):
    """`effective`: as many independent ones as they are worth; their number where rounds do not differ more than chance has it."""

    share: float
    low: float
    high: float
    effective: float


def interval(events: float, count: float, confidence: float = 0.95) -> tuple[float, float]:
    """Both ends for the share of `events` in `count` independent ones; whole numbers or not. Raises ValueError outside 0 to count.

    Clopper and Pearson, Biometrika 26, 404 (1934): each tail has at most half of 1 − confidence.
    """
    if not 0 <= events <= count or count <= 0:
        raise ValueError(f"{events} events of {count}")
    tail = (1 - confidence) / 2
    low = _quantile(tail, events, count - events + 1) if events > 0 else 0.0
    high = _quantile(1 - tail, events + 1, count - events) if events < count else 1.0
    return low, high


def over_rounds(events: Sequence[int], counts: Sequence[int], confidence: float = 0.95) -> BinomialShare:
    """The share over rounds of unequal length, from the events and the count of each, none of which is 0.

    Events of one round are alike, so that all together are worth fewer independent ones: Korn and Graubard, Survey Methodology 24, 193
    (1998): the exact interval of `effective` ones, whose number is the variance of one over that between rounds, reduced by what few
    rounds do not know of it, and never more than there are. Of a single round, and where all or none are events, rounds show nothing:
    then all are taken as independent.
    """
    total, rounds = sum(counts), len(counts)
    share = sum(events) / total
    effective = float(total)
    if rounds > 1 and 0 < share < 1:
        spread = sum((one - share * count) ** 2 for one, count in zip(events, counts, strict=True))
        variance = rounds / (rounds - 1) * spread / total**2
        if variance > 0:
            known = (student.quantile((1 + confidence) / 2, total - 1) / student.quantile((1 + confidence) / 2, rounds - 1)) ** 2
            effective = min(share * (1 - share) / variance * known, effective)
    low, high = interval(share * effective, effective, confidence)
    return BinomialShare(share, low, high, effective)


def _quantile(p: float, a: float, b: float) -> float:
    """The point below which a Beta(a, b) lies with probability p."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if student.incomplete_beta(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return math.fsum((low, high)) / 2
