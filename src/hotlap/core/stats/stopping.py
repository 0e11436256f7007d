"""How many rounds a precision takes, and whether it was reached: the one function behind stopping and behind the state of a case.

To stop when the interval is narrow, or to show only narrow intervals, picks the lucky ones: of those shown, "95 %" then holds
in 80 to 90 %. So neither looks at the interval. Both look at the noise between rounds, from which the half-width to be expected
follows; it is looked at few times (`LOOKS`), and a run stops early only with room to spare (`EARLY`). Where the noise is about
what the precision allows, being called *reached* is partly luck, and the interval is widened for it (`widening`): what remains
of the selection is measured by `benchmarks/intervals.py`.

Two-stage plans: Stein, Annals of Math. Stat. 16 (1945) 243. What looking at a result does to its interval: Wittes and Brittain,
Statistics in Medicine 9 (1990) 65. Scale from outer quantiles: David and Nagaraja, Order Statistics, 3rd ed. 2003, 9.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from hotlap.core.stats.order import CONFIDENCE, ranks
from hotlap.core.stats.series import finite

FEWEST = 6  # rounds below which no distribution-free interval reaches 95 %
LOOKS = (6, 12, 20, 30, 45, 70, 100, 150, 220, 320, 460, 680, 1000)  # rounds after which the noise is looked at
EARLY = 0.8  # share of the precision that the expected half-width must keep to at a look before the last
REACHED = 0.93  # the same for *reached*: noise is underestimated as often as it is overestimated
TAIL = 0.1  # of the quantiles whose distance is the scale: one round of six may be odd, three of thirty
WIDEN_FROM, WIDEN_TO, WIDEST = 0.4, 0.8, 1.4  # of the precision, where widening begins and ends; the factor there
NORMAL = NormalDist()


class Need(NamedTuple):
    """What a precision takes. Half-widths are shares of the median."""

    expected: float  # half-width to be expected of so many rounds; inf where they say nothing
    reached: bool
    rounds: int  # good rounds to have in all before the next look; those at hand: no more are needed, or more would not help
    needed: int | None  # rounds, more than those at hand, with which the precision would be reached; None: it is, or not with a thousand


def need(values: Sequence[float], precision: float, fewest: int = FEWEST, most: int = 30) -> Need:
    """Of the metric, one value per good round. `precision`: asked half-width, a share of the median, above 0.

    `rounds` never exceeds `most`; where not even `most` rounds would do, it is `most`: more rounds still narrow the interval.
    Raises ValueError for values that are not finite.
    """
    n, scale = len(values), noise(values)
    expected = scale * half_width(n)
    reached = n >= FEWEST and expected <= REACHED * precision
    needed = None if reached else _first(scale, REACHED * precision, max(FEWEST, n + 1))
    if n < fewest:
        return Need(expected, reached, min(fewest, most), needed)
    if n >= most or expected <= EARLY * precision:
        return Need(expected, reached, n, needed)
    return Need(expected, reached, min(_first(scale, EARLY * precision, n + 1) or most, most), needed)


def _first(scale: float, width: float, fewest: int) -> int | None:
    """The first look from `fewest` rounds on after which so wide an interval is to be expected."""
    return next((n for n in LOOKS if n >= fewest and scale * half_width(n) <= width), None)


def widening(expected: float | None, precision: float | None, reached: bool | None) -> float:
    """By how much both ends of the interval of a case that is *reached* move away from its median: 1 with room to spare, up to 1.4."""
    if not reached or not precision or expected is None:
        return 1.0
    place = (expected / precision - WIDEN_FROM) / (WIDEN_TO - WIDEN_FROM)
    return 1 + (WIDEST - 1) * min(max(place, 0.0), 1.0)


def noise(values: Sequence[float]) -> float:
    """Standard deviation between rounds as a share of the median, from the distance of the 10 % and 90 % quantiles; inf below
    2 values and about a median of zero."""
    x = sorted(finite(values).tolist())
    middle = abs(_quantile(x, 0.5)) if len(x) > 1 else 0.0
    return (_quantile(x, 1 - TAIL) - _quantile(x, TAIL)) / _distance(len(x)) / middle if middle else math.inf


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between order statistics: type 7 of Hyndman and Fan, 1996."""
    place = share * (len(ordered) - 1)
    low = min(int(place), len(ordered) - 2)
    return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])


@lru_cache(maxsize=1024)
def half_width(n: int, confidence: float = CONFIDENCE) -> float:
    """Expected half-width of the order-statistic interval of n standard normal values; of their whole range below 6."""
    rank, _ = ranks(n, confidence)
    return _score(n - max(rank, 1) + 1, n) if n > 1 else math.inf


@lru_cache(maxsize=1024)
def _distance(n: int) -> float:
    """Expected distance of the two quantiles of n standard normal values."""
    scores = [_score(i, n) for i in range(1, n + 1)]
    return _quantile(scores, 1 - TAIL) - _quantile(scores, TAIL)


def _score(i: int, n: int) -> float:
    """Expected i-th smallest of n standard normal values (Blom, Statistical Estimates and Transformed Beta-Variables, 1958)."""
    return NORMAL.inv_cdf((i - 0.375) / (n + 0.25))
