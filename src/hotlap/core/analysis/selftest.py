"""A/A: one thing compared with itself, as often as the rounds of a run allow. Does the harness cry wolf here, and what can it see?

A run's rounds are taken in turns as A B B A, in windows that do not overlap; each window is a comparison whose true answer is
*no difference*. How often it is called different at 5 % is the error rate that this machine really gives. Beside it, the same
rounds with all of A before all of B, which a drift fools: why `ab` measures in turns.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from hotlap.core import work
from hotlap.core.record import Result
from hotlap.core.stats import series
from hotlap.core.stats.components import components
from hotlap.core.stats.ratio import ratio
from hotlap.core.stats.student import quantile

NOMINAL = 0.05
FEWEST_ROUNDS = 8  # one window: four pairs, the fewest that give an interval
MOST_PAIRS = 6  # of a window: more windows say more about the rate than longer ones
SIZES = (6, 12, 24)  # rounds a side for which the smallest difference that shows is told


class CaseNoise(msgspec.Struct, frozen=True, kw_only=True):
    """What the noise of one case is made of. Shares of the median; None where it cannot be known."""

    label: str
    rounds: int
    between: float | None  # standard deviation from round to round, beyond what samples explain
    within: float | None  # within a round, from sample to sample
    drift: float | None  # from the first round to the last; None when there is none to speak of
    mde: dict[int, float]  # rounds a side, measured in turns → smallest difference found with 80 % power
    called: int  # A/A comparisons called different
    comparisons: int


class Selftest(msgspec.Struct, frozen=True, kw_only=True):
    """The error rate of this machine and the noise of each case."""

    cases: list[CaseNoise]
    called: int
    comparisons: int
    low: float | None  # 95 % interval of the rate, as if comparisons were independent
    high: float | None
    blocked: int  # called different when all of A comes before all of B
    left_out: dict[str, str] = {}  # cases that gave no number, and why
    state: str  # pass: the rate is not above the nominal one; fail; inconclusive: too few comparisons

    @property
    def rate(self) -> float | None:
        return self.called / self.comparisons if self.comparisons else None


def selftest(results: Sequence[Result]) -> Selftest:
    """From the results of one run; cases with fewer than 8 rounds give no comparison."""
    good = [one for one in results if one.status == "measured" and one.values and min(one.values) > 0]
    cases = [_case(one) for one in good]
    blocked = sum(_called(*_halves(window), paired=False) for one in good for window in _windows(one.values))
    called, comparisons = sum(one.called for one in cases), sum(one.comparisons for one in cases)
    low, high = binomial_interval(called, comparisons) if comparisons else (None, None)
    state = "inconclusive" if low is None or comparisons < 1 / NOMINAL else "fail" if low > NOMINAL else "pass"
    left_out = {work.label(one.case): _why(one) for one in results if one not in good}
    return Selftest(
        cases=cases, called=called, comparisons=comparisons, low=low, high=high, blocked=blocked, state=state, left_out=left_out,
    )


def _why(result: Result) -> str:
    if result.status == "measured":
        return "zero or negative values have no ratio"
    return f"{result.status.replace('_', ' ')}: {result.reason or 'no reason was kept'}"


def _case(result: Result) -> CaseNoise:
    values = result.values
    windows, parts = _windows(values), components([[one.values for one in result.used]])
    drifting = len(values) >= 6 and series.drifting(values)
    return CaseNoise(
        label=work.label(result.case), rounds=len(values), between=parts.between_rounds, within=parts.within_rounds,
        drift=series.first_to_last(values) if drifting else None, mde=_mde(values),
        called=sum(_called(*_turns(window), paired=True) for window in windows), comparisons=len(windows),
    )


def _windows(values: Sequence[float]) -> list[Sequence[float]]:
    """Stretches of the same even length that do not overlap; none when there are too few rounds for one."""
    if len(values) < FEWEST_ROUNDS:
        return []
    size = 2 * min(MOST_PAIRS, len(values) // 2)
    count = len(values) // size
    return [values[n * size : (n + 1) * size] for n in range(count)]


def _turns(window: Sequence[float]) -> tuple[list[float], list[float]]:
    """A B B A A B B A: pairs of neighbours, the first of each in turns A and B."""
    pairs = [(window[n], window[n + 1]) for n in range(0, len(window) - 1, 2)]
    ordered = [pair if n % 2 == 0 else pair[::-1] for n, pair in enumerate(pairs)]
    return [a for a, _ in ordered], [b for _, b in ordered]


def _halves(window: Sequence[float]) -> tuple[list[float], list[float]]:
    return list(window[: len(window) // 2]), list(window[len(window) // 2 :])


def _called(a: Sequence[float], b: Sequence[float], paired: bool) -> bool:
    found = ratio(a, b, paired=paired)
    return found.p is not None and found.p < NOMINAL


def _mde(values: Sequence[float]) -> dict[int, float]:
    """By Student's t over pairs in turns, with 80 % power."""
    if len(values) < FEWEST_ROUNDS:
        return {}
    a, b = _turns(values[: len(values) // 2 * 2])
    spread = statistics.stdev(math.log(y / x) for x, y in zip(a, b, strict=True))
    return {n: math.expm1((quantile(0.975, n - 1) + quantile(0.8, n - 1)) * spread / math.sqrt(n)) for n in SIZES}


def binomial_interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Of a rate: Wilson's score interval (J. Am. Stat. Assoc. 22, 1927)."""
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    share, width = count / of, z * z / of
    middle = (share + width / 2) / (1 + width)
    reach = z / (1 + width) * math.sqrt(share * (1 - share) / of + width / (4 * of))
    return max(middle - reach, 0.0), min(middle + reach, 1.0)
