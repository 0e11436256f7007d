"""Good's level, bad's level, and which of the two a commit's is like: the statistics of a search, on logarithms of measured values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.order import interval
from hotlap.core.stats.series import MAD_TO_SD

ALPHA = 0.05  # chance of a wrong answer: of the comparison of the ends, of all decisions of the search together, of the check
LOOKS = (8, 12, 18, 27, 40, 60)  # pairs after which a comparison may end; the level is shared equally, and 8 are the fewest that reach it
TAILS = 4.0  # degrees of freedom of the noise assumed: an outlier is one of its tails and says little
QUIETEST = 1e-6  # smallest noise assumed, as a share
ROUNDING = 1e-12  # of a logarithm
THIRD = 0.2  # of the way from good to bad: nearer to one of them is no level of its own
THIRD_SURE, THIRD_MAYBE = 3.5, 2.5  # standard errors from the nearer level: a level of its own; not yet determined
THIRD_BLOCKS = 4  # fewest blocks that show one


class LevelStep(msgspec.Struct, frozen=True, kw_only=True):
    """Between two commits: 1.05 means that the later one's number is 5 % larger."""

    ratio: float  # median over pairs
    low: float
    high: float
    pairs: int


class Weighed(NamedTuple):
    """What the blocks of one commit say so far."""

    like: Literal["good", "bad", ""]
    position: float  # of its level: 0 is good's, 1 is bad's
    error: float  # standard, of the position
    third: bool


def weigh(u: Sequence[float], d: Sequence[float], limit: float) -> Weighed:
    """Like good, like bad, or not yet known.

    `u`: per block, the logarithm of the commit's value less the mean of good's and bad's; `d`: of each pair so far, the logarithm of
    bad's value less good's. A sequential probability ratio test (Wald, Annals of Math. Stat. 16, 1945) between −δ/2 and +δ/2 with
    δ and the noise taken robustly from `d`. Noise is assumed to be of Student's t with 4 degrees of freedom, so that a far outlier
    weighs little, and no block adds more than half of `limit` (after Huber, Annals of Math. Stat. 36, 1965), so that none
    decides alone. A level that is surely neither is like the nearer one.
    """
    delta, noise = level(d)
    blocks, scale = np.asarray(u, dtype=np.float64), noise * math.sqrt(0.75)  # d has the noise of 2 rounds, u that of 1½
    weights = np.log1p(((blocks + delta / 2) / scale) ** 2 / TAILS) - np.log1p(((blocks - delta / 2) / scale) ** 2 / TAILS)
    score = float(np.clip((TAILS + 1) / 2 * weights, -limit / 2, limit / 2).sum())
    position = float(np.median(blocks)) / delta + 0.5
    spread = max(scale, MAD_TO_SD * float(np.median(np.abs(blocks - np.median(blocks)))))
    of_median, of_delta = spread * math.sqrt(math.pi / 2 / len(u)), noise / math.sqrt(len(d)) * (position - 0.5)
    error = math.hypot(of_median, of_delta) / abs(delta)
    away = abs(position - (position >= 0.5))
    if away > max(THIRD, THIRD_SURE * error) and len(u) >= THIRD_BLOCKS:
        return Weighed("bad" if position >= 0.5 else "good", position, error, True)
    open_ = away > max(THIRD, THIRD_MAYBE * error) or abs(score) < limit - ROUNDING
    return Weighed("" if open_ else "bad" if score > 0 else "good", position, error, False)


def level(d: Sequence[float]) -> tuple[float, float]:
    """The difference between bad and good and the noise of one such difference, by median and MAD.

    Differences are drawn in at 2 robust standard deviations before their mean is taken (Huber 1964); the MAD of few values is
    corrected as Croux and Rousseeuw (1992) do for many of 10 and more.
    """
    x: NDArray[np.float64] = np.asarray(d, dtype=np.float64)
    middle = float(np.median(x))
    noise = max(MAD_TO_SD * float(np.median(np.abs(x - middle))) * len(x) / (len(x) - 0.8), QUIETEST)
    return float(np.clip(x, middle - 2 * noise, middle + 2 * noise).mean()), noise


def threshold(number: int, commits: int) -> float:
    """What the evidence must reach at the decision of this number, from 1: Wald's limit for both errors equal.

    Nine tenths of the level are shared equally (Bonferroni) among as many decisions as halving and a neighbour on either side take;
    the rest is for those that skipped commits add, however many.
    """
    usual = math.ceil(math.log2(max(commits, 2))) + 2
    more = number - usual
    alpha = 0.9 * ALPHA / usual if more <= 0 else 0.1 * ALPHA / (more * (more + 1))
    return math.log((1 - alpha) / alpha)


def differ(ratios: Sequence[float], margin: float) -> tuple[Literal["differ", "same", ""], LevelStep]:
    """Whether the later of two commits differs, from its number ÷ the other's in each pair; 8 pairs at least.

    The interval is of the median ratio, by order statistics (`stats.order.interval`), and holds at all looks together. No
    distribution is assumed, and outliers among many pairs move it little. *differ*: the interval leaves out 1 and the median lies beyond
    the margin; *same*: the interval lies within the margin.
    """
    ends = interval(ratios, 1 - ALPHA / len(LOOKS))
    assert ends is not None
    found = LevelStep(ratio=float(np.median(ratios)), low=ends[0], high=ends[1], pairs=len(ratios))
    if (found.low > 1 or found.high < 1) and not 1 / (1 + margin) < found.ratio < 1 + margin:
        return "differ", found
    return "same" if 1 / (1 + margin) < found.low and found.high < 1 + margin else "", found
