"""Two answers to the same items, right or wrong: how much more often the second is wrong, by an exact test of pairs.

Of `count` items, `lost` are right by A and wrong by B, `gained` the other way round; all others say nothing. The loss is the difference of
both shares. Whether it is at least `margin` is tested by the score of Tango (Statistics in Medicine 17, 891, 1998; McNemar's at a margin of
0), whose distribution is summed exactly at each share of items that differ which the data allow (Berger and Boos, J. Am. Stat. Assoc. 89,
1012, 1994); the largest chance counts. Items that are not independent of each other are none of this.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats import binomial

BEYOND = 5e-4  # chance that the share of items that differ lies outside of what is looked at; it is added
POINTS, MOST_CELLS = 24, 100_000  # shares looked at; sums larger than this are taken as normal
HALVINGS = 34
Floats = NDArray[np.float64]


class PairedLoss(NamedTuple):
    """`loss`, and both ends of its interval: shares of all items, below 0 where B is right more often. `exact`: False where the interval
    takes the score as normal, of very many items that differ."""

    loss: float
    low: float
    high: float
    exact: bool


def loss(lost: int, gained: int, count: int, confidence: float = 0.95) -> PairedLoss:
    """The loss with its interval: margins that the test rejects from neither side. Raises ValueError for counts that are none."""
    _check(lost, gained, count)
    tail = (1 - confidence) / 2
    high, low = _upper(lost, gained, count, tail), -_upper(gained, lost, count, tail)
    return PairedLoss((lost - gained) / count, low, high, _cells(lost, gained, count, high) <= MOST_CELLS)


@lru_cache(maxsize=4096)
def below(lost: int, gained: int, count: int, margin: float = 0.0) -> float:
    """P value of *the loss is at least `margin`*, which may be below 0: small, it is surely less. Raises ValueError for counts and margins
    that are none."""
    _check(lost, gained, count)
    if not -1 < margin < 1:
        raise ValueError(f"a margin lies between -1 and 1, not {margin}")
    seen = float(score(lost, gained, count, margin))
    if _cells(lost, gained, count, margin) > MOST_CELLS:
        return 0.5 * math.erfc(-seen / math.sqrt(2))
    shares = _shares(lost + gained, count, margin)
    b, c = _grid(shares, count, margin)
    inside = (score(b, c, count, margin) <= seen + 1e-9) & (b + c <= count)
    b, c = b[inside], c[inside]
    ways = _log_ways(b, c, count)
    most = max((_chance(ways, b, c, count, share, margin) for share in shares), default=0.0)
    return min(most + BEYOND, 1.0)


def above(lost: int, gained: int, count: int, margin: float = 0.0) -> float:
    """P value of *the loss is at most `margin`*: small, it is surely more."""
    return below(gained, lost, count, -margin)


def unpaired(right_a: int, right_b: int, count: int) -> float:
    """P value of *B is right as often*, as if the items of the two were others: the z test of two shares, against B being worse."""
    both = (right_a + right_b) / (2 * count)
    spread = math.sqrt(2 * both * (1 - both) / count)
    return 0.5 * math.erfc((right_a - right_b) / count / spread / math.sqrt(2)) if spread else 1.0


def visible(differ: float, count: int, power: float = 0.8) -> float:
    """The smallest loss that would be seen in `power` of such comparisons, where this share of `count` items differs, by the normal
    distribution: a loss cannot be larger than the share that differs, so that this grows with it."""
    z = 1.959964 + _normal(power)
    return max(z * math.sqrt(differ / count), min(z * z / count, 1.0))


def score(b: Any, c: Any, count: int, margin: float) -> Any:
    """Tango's score of `b` items lost and `c` gained against a loss of `margin`, as a normal deviate."""
    b, c = np.asarray(b, float), np.asarray(c, float)
    middle = (2 * count - b + c) * margin - b - c
    share = (np.sqrt(np.maximum(middle * middle + 8 * count * c * margin * (1 - margin), 0.0)) - middle) / (4 * count)
    spread = np.sqrt(np.maximum(count * (2 * share + margin * (1 - margin)), 0.0))
    apart = b - c - count * margin
    return np.divide(apart, spread, out=np.where(np.abs(apart) < 1e-9, 0.0, np.copysign(np.inf, apart)), where=spread > 1e-12)


def _check(lost: int, gained: int, count: int) -> None:
    if count <= 0 or lost < 0 or gained < 0 or lost + gained > count:
        raise ValueError(f"{lost} items lost and {gained} gained, of {count}")


def _upper(lost: int, gained: int, count: int, tail: float) -> float:
    """The smallest margin that is rejected."""
    low, high = (lost - gained) / count, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if high - low < 1e-3 / count:
            break
        if middle >= 1 or below(lost, gained, count, middle) <= tail:
            high = middle
        else:
            low = middle
    return high


def _shares(differ: int, count: int, margin: float) -> Floats:
    """Of items that differ: those that their number allows, none of which can be below the margin."""
    low, high = binomial.interval(differ, count, 1 - BEYOND)
    low, high = max(low, abs(margin)), max(high, abs(margin))
    return np.linspace(low, high, POINTS) if high > low else np.array([low])


def _reach(share: float, count: int) -> tuple[int, int]:
    spread = 8 * math.sqrt(count * share * (1 - min(share, 1.0))) + 12
    return max(math.floor(count * share - spread), 0), min(math.ceil(count * share + spread), count)


def _ends(shares: Floats, count: int, margin: float) -> tuple[int, int, int, int]:
    first, last = float(shares[0]), float(shares[-1])
    lost, gained = ((first + margin) / 2, (last + margin) / 2), ((first - margin) / 2, (last - margin) / 2)
    return _reach(lost[0], count)[0], _reach(lost[1], count)[1], _reach(gained[0], count)[0], _reach(gained[1], count)[1]


def _cells(lost: int, gained: int, count: int, margin: float) -> int:
    b_low, b_high, c_low, c_high = _ends(_shares(lost + gained, count, margin), count, margin)
    return (b_high - b_low + 1) * (c_high - c_low + 1)


def _grid(shares: Floats, count: int, margin: float) -> tuple[Floats, Floats]:
    b_low, b_high, c_low, c_high = _ends(shares, count, margin)
    b, c = np.meshgrid(np.arange(b_low, b_high + 1, dtype=float), np.arange(c_low, c_high + 1, dtype=float), indexing="ij")
    return b, c


@lru_cache(maxsize=8)
def _log_factorials(count: int) -> Floats:
    logs: Floats = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    return logs


def _log_ways(b: Floats, c: Floats, count: int) -> Floats:
    logs = _log_factorials(count)
    rest = (count - b - c).astype(int)
    ways: Floats = logs[count] - logs[b.astype(int)] - logs[c.astype(int)] - logs[rest]
    return ways


def _chance(ways: Floats, b: Floats, c: Floats, count: int, share: float, margin: float) -> float:
    """Of all these counts, where so large a share of items differs and the loss is the margin."""
    parts = ways + _times(b, (share + margin) / 2) + _times(c, (share - margin) / 2) + _times(count - b - c, 1 - share)
    return float(np.exp(parts).sum())


def _times(counts: Floats, chance: float) -> Floats:
    """Logarithm of chance to the power of counts."""
    logs: Floats = counts * math.log(chance) if chance > 1e-300 else np.where(counts > 0, -np.inf, 0.0)
    return logs


def _normal(p: float) -> float:
    """The quantile of the normal distribution."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(-middle / math.sqrt(2)) < p else (low, middle)
    return (low + high) / 2
