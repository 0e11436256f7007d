"""How many pairs `hotlap ab` needs, when it may stop, and what it may say then: a group-sequential test of a ratio.

    needed    pairs for a test of fixed size
    noise     the noise of one run, from a pilot
    design    looks and their boundaries, so that peeking at every look keeps the level
    decide    what the pairs so far say
    trial     all of it, from the pairs alone
    wanted    pairs that would answer, by those there are
    fixed     the same of a number of pairs that was fixed beforehand

Pairs are run A B, B A, A B …, and values are compared on logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.record import Notice
from hotlap.core.stats.ratio import HALVINGS, NORMAL, ROUNDING, exponential, serial_pairs
from hotlap.core.stats.series import finite
from hotlap.core.stats.student import quantile, two_sided
from hotlap.core.units import percent

Floats = NDArray[np.float64]
Answer = Literal["continue", "larger", "smaller", "same", "inconclusive"]

FEWEST = 6  # pairs before a first look
PILOT = 10  # pairs from which the noise is taken; with fewer the power falls under the 80 % promised (benchmarks/ab.py)
QUIETEST = 1e-5  # relative noise below which no plan is needed
POWER, ALPHA = 0.8, 0.05
MOST = 100_000  # pairs; a design that needs more is refused
SLACK = 1.05  # most pairs ÷ pairs of the fixed-size test
LOOKS = 8
EARLY = 3.5  # no look asks for a larger normal score (after Haybittle, 1971): a large difference may end the test at once
SHAPES = (-0.5, -0.25, 0.0)  # of the boundary, flat is 0.5: the later it may stop, the less it costs at the end
SPARE = 0.01  # power that the corrections for autocorrelation and stops for sameness may cost …
GAINED = 0.01  # … and that pilot pairs bring: a plan from a noisy pilot has more power than was asked for
CAREFUL = 0.98  # share of the level that is spent: Student's t is not exact for values drawn in
REUSED = (0.91, 0.95)  # the same when pilot pairs are part of the test
CLIP = 2.5  # robust standard deviations at which a difference is drawn in
OUTER = 0.8  # the quantile of absolute differences that gives their scale …
OUTER_TO_SD = 1 / 1.2816  # … and 1 ÷ that of standard normal ones
NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)
ERFC = np.vectorize(math.erfc, otypes=[float])


class SequentialDesign(msgspec.Struct, frozen=True, kw_only=True):
    """When to look and how far out a normal score must lie there. Shares are of the ratio: 0.01 is 1 %."""

    pairs: int  # the most that will be run
    fixed: int  # what a test of fixed size needs
    looks: tuple[int, ...]  # pairs at each look; the last is `pairs`
    bounds: tuple[float, ...]  # normal score at each look, two-sided, for a difference
    inner: tuple[float, ...]  # the same at twice the level, for sameness
    sd: float  # relative, of one run
    difference: float  # to be found with `power`, and the margin of sameness
    min_effect: float  # the whole interval must be beyond it for a difference to be reported
    power: float
    alpha: float
    average: float  # pairs to expect when the difference is real
    attained: float  # power that the bounds give at `pairs`
    notices: tuple[Notice, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether its pairs give the power asked, as nearly as `design` asks for; not where that is not known."""
        return self.attained >= self.power - GAINED


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What the pairs so far say; None is what cannot be known."""

    answer: Answer
    look: int  # looks reached so far, 0 before the first
    pairs: int
    ratio: float | None = None  # B ÷ A
    low: float | None = None  # repeated confidence interval: right whenever one stops
    high: float | None = None
    p: float | None = None  # of this look alone, not adjusted for the others
    mde: float | None = None  # smallest change that the full number of pairs finds, with the noise seen so far
    reason: str = ""


# ---------------------------------------------------------------- planning


def needed(sd: float, difference: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Pairs with which a paired t test of fixed size finds `difference` (a share, of either sign) with `power`.

    `sd`: relative standard deviation of one run, as pairs see it. At least 4. Assumes normal logarithms; power from the
    noncentral t (Johnson and Welch, Biometrika 31, 1940). Raises ValueError for numbers out of range or over 100,000 pairs.
    """
    _check(sd, difference, power, alpha)
    step = _step(sd, difference)
    low, high = 3, 4
    while high <= MOST and fixed_power(high, step, alpha) < power:
        low, high = high, 2 * high
    if high > MOST:
        noise = f"at a noise of {100 * sd:.3f} %"
        raise ValueError(f"over {MOST} pairs are needed for {100 * difference:.3f} % {noise}: ask for a larger difference")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fixed_power(middle, step, alpha) >= power else (middle, high)
    return high


def noise(a: ArrayLike, b: ArrayLike) -> float:
    """Relative standard deviation of one run from pilot pairs, run A B, B A, …: from differences within pairs about their
    mean and between neighbours of one side, so that drift does not count. Raises ValueError for fewer than 3 pairs,
    unequal numbers, and values that are not above zero."""
    d, e = _differences(*_logs(a, b))
    if d.shape[1] < 3:
        raise ValueError(f"a pilot needs 3 pairs or more, there are {d.shape[1]}")
    squares = float(((d - d.mean()) ** 2).sum() + (e**2).sum())
    return math.sqrt(squares / (2 * (2 * d.shape[1] - 2)))


def design(
    sd: float, difference: float, *, min_effect: float | None = None, pilot: int = 0, most: int = MOST, level: float = ALPHA
) -> SequentialDesign:
    """The plan with the fewest pairs on average that has 80 % power, within 1.05 × the pairs of the fixed-size test, or the one of
    `most` pairs with the largest power where that is not enough.

    A difference counts once its whole interval is beyond `min_effect` (a quarter of the difference unless given), so that the plan is for
    what is left of the difference beyond it. Boundaries of Wang and Tsiatis (Biometrics 43, 1987), c·(n/N)^(Δ−½), at most 3.5, with c
    by recursive integration (Armitage, McPherson and Rowe, J. Royal Stat. Soc. A 132, 1969) so that all looks together raise a false
    alarm with 0.98 × 5 %: the rest is kept for what `located` adds. Stopping for sameness is not counted on: the level holds
    whether or not one stops. `pilot`: how many of the pairs that will be decided on gave `sd`. A pilot that happens to be quiet then
    ends the test early, with a noise that is too small, so (0.91 − 0.95 ÷ pilot) × 5 % is spent (Wittes, Schabenberger, Zucker,
    Brittain and Proschan, Statistics in Medicine 18, 1999; `benchmarks/ab.py` shows the level). Raises ValueError for numbers out of
    range, and where more than 100,000 pairs are needed and `most` allows for them. `level` stands for 5 %: less of it for one of many.
    """
    min_effect = difference / 4 if min_effect is None else min_effect
    if not 0 <= min_effect < difference:
        raise ValueError(f"min_effect is a share from 0 to below the difference of {difference}, not {min_effect}")
    spent = level * (REUSED[0] - REUSED[1] / max(pilot, 2) if pilot else CAREFUL)
    clear = (1 + difference) / (1 + min_effect) - 1
    step, fewest = _step(sd, clear), max(FEWEST, pilot)
    cut = most < MOST and fixed_power(max(most, fewest), step, spent) < POWER
    fixed = max(most, fewest) if cut else max(needed(sd, clear, POWER, spent if pilot else level), fewest)
    sizes = {fixed} if cut else {fixed, math.floor(SLACK * fixed), round((1 + SLACK) / 2 * fixed)}
    options = []
    for pairs in sorted(min(size, max(most, fewest)) for size in sizes):
        for shape in SHAPES:
            places = _looks(pairs, fewest)
            effect, average = characteristics(places, boundary(places, shape, spent, EARLY), step)
            enough = effect >= POWER + (-GAINED if pilot else SPARE)
            options.append((not enough, average if enough else -effect, pairs, shape, effect, average))
    _, _, pairs, shape, effect, average = min(options)
    plan = _planned(sd, difference, min_effect, _looks(pairs, fewest), (shape, spent, level))
    plan = msgspec.structs.replace(plan, fixed=fixed, average=average, attained=effect)
    return plan if plan.enough else msgspec.structs.replace(plan, notices=(_low_power(plan, most),))


def _low_power(plan: SequentialDesign, most: int) -> Notice:
    pairs = f"the limit of runs and of time allows {plan.pairs} pairs" if plan.pairs >= most else f"{plan.pairs} pairs are planned"
    found = f"find a true change of {percent(plan.difference)} in {percent(plan.attained, 2)} of cases, not in {percent(plan.power, 2)}"
    return Notice("low_power", f"{pairs}: at this noise they would {found}")


def _planned(sd: float, difference: float, min_effect: float, places: tuple[int, ...], how: tuple[float, float, float]) -> SequentialDesign:
    """With boundaries of a shape that spend so much of a level; what it attains is not known yet."""
    shape, spent, level = how
    outer, inner = (boundary(places, shape, times * spent, EARLY) for times in (1, 2))
    return SequentialDesign(
        pairs=places[-1], fixed=places[-1], looks=places, bounds=outer, inner=inner, sd=sd, difference=difference, min_effect=min_effect,
        power=POWER, alpha=level, average=places[-1], attained=math.nan,
    )  # fmt: skip


def _looks(pairs: int, fewest: int) -> tuple[int, ...]:
    """Evenly spaced, none before the fewest: a look that nobody takes would cost level."""
    return tuple(sorted({n for k in range(1, LOOKS + 1) if (n := math.ceil(pairs * k / LOOKS)) >= fewest}))


@lru_cache(maxsize=256)
def boundary(looks: tuple[int, ...], shape: float, alpha: float, most: float = math.inf) -> tuple[float, ...]:
    """Normal scores c·(n/N)^(shape−½), none above `most`, whose crossing at any look has probability `alpha` without a
    difference."""
    factors = [(n / looks[-1]) ** (shape - 0.5) for n in looks]
    low, high = NORMAL.inv_cdf(1 - alpha / 2) - 1e-9, NORMAL.inv_cdf(1 - alpha / 2 / len(looks)) + 1e-9
    for _ in range(HALVINGS):
        c = (low + high) / 2
        too_often = sum(crossings(looks, [min(c * f, most) for f in factors], 0.0)) > alpha
        low, high = (c, high) if too_often else (low, c)
    return tuple(min(high * f, most) for f in factors)


def crossings(looks: Sequence[int], bounds: Sequence[float], step: float) -> tuple[float, ...]:
    """Chance to cross ± the boundary first at each look, for a score that grows by `step`·√n: the density of the score
    among those still inside is carried from look to look by Gauss–Legendre quadrature (Armitage, McPherson and Rowe)."""
    chances: list[float] = []
    z, weight = np.zeros(1), np.ones(1)
    before = 0
    for n, bound in zip(looks, bounds, strict=True):
        spread = math.sqrt((n - before) / n)
        centre = (z * math.sqrt(before) + step * (n - before)) / math.sqrt(n)
        outside = ERFC((bound - centre) / spread / math.sqrt(2)) / 2 + ERFC((bound + centre) / spread / math.sqrt(2)) / 2
        chances.append(float(outside @ weight))
        points = bound * NODES
        density = np.exp(-(((points[:, None] - centre) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        z, weight, before = points, (density @ weight) * bound * WEIGHTS, n
    return tuple(chances)


def characteristics(looks: Sequence[int], bounds: Sequence[float], step: float) -> tuple[float, float]:
    """Power and the average number of pairs at a difference of `step` standard deviations, of a score with as many degrees
    of freedom as `decide` has: the step is shortened so that the last look alone has the power of its t test."""
    n = looks[-1]
    alone = fixed_power(n, step, 2 * (1 - NORMAL.cdf(bounds[-1])), df=_freedom(n))
    short = (bounds[-1] + NORMAL.inv_cdf(min(max(alone, 1e-12), 1 - 1e-12))) / math.sqrt(n)
    chances = crossings(looks, bounds, max(short, 0.0))
    average = sum(k * chance for k, chance in zip(looks, chances, strict=True)) + n * (1 - sum(chances))
    return sum(chances), average


def fixed_power(n: int, step: float, alpha: float, df: float | None = None) -> float:
    """Power of a two-sided t test of n differences whose mean is `step` standard deviations: the noncentral t by
    quadrature over the estimated standard deviation."""
    df = n - 1.0 if df is None else df
    if df > 2000:
        return 1 - NORMAL.cdf(NORMAL.inv_cdf(1 - alpha / 2) - step * math.sqrt(n))
    t = quantile(1 - alpha / 2, df)
    spread = 8 / math.sqrt(2 * df)
    u = np.clip(1 + spread * NODES, 1e-9, None) if spread < 1 else (1 + spread) / 2 * (NODES + 1)
    width = spread if spread < 1 else (1 + spread) / 2
    log_density = df / 2 * math.log(df / 2) + math.log(2) - math.lgamma(df / 2) + (df - 1) * np.log(u) - df * u**2 / 2
    beyond = ERFC((t * u - step * math.sqrt(n)) / math.sqrt(2)) / 2 + ERFC((t * u + step * math.sqrt(n)) / math.sqrt(2)) / 2
    return float((np.exp(log_density) * beyond * WEIGHTS).sum() * width)


def _step(sd: float, difference: float) -> float:
    """The difference in standard deviations of one pair."""
    return math.log1p(difference) / (sd * math.sqrt(2))


def _check(sd: float, difference: float, power: float, alpha: float) -> None:
    if not (math.isfinite(sd) and sd > 0):
        raise ValueError(f"the noise must be a share above 0, not {sd}")
    if not (math.isfinite(difference) and difference > 0):
        raise ValueError(f"the difference to find must be a share above 0, not {difference}")
    if not (0 < alpha < power < 1):
        raise ValueError(f"0 < alpha < power < 1 is needed, not alpha {alpha} and power {power}")


# ---------------------------------------------------------------- deciding


class SequentialOptions(NamedTuple):
    """What a trial is planned for: shares of the ratio, and the pairs that there is time for."""

    difference: float
    min_effect: float
    most: int = MOST
    level: float = ALPHA


def trial(a: ArrayLike, b: ArrayLike, asked: SequentialOptions, ended: bool = False) -> tuple[SequentialDesign | None, Decision | None]:
    """The plan that the first 10 pairs lead to, and what all pairs so far say; a[i] and b[i] of pair i, run A B, B A, A B …

    Both follow from the pairs, so whoever reads them later gets the same answer. None before there are 10 pairs, for values that are
    not above zero, and for a noise that takes more than 100,000 pairs. `ended`: there will be no more; 6 to 9 pairs are then tested once.
    """
    x, y = finite(a), finite(b)
    if len(x) < (FEWEST if ended else PILOT) or min(x.min(), y.min()) <= 0:
        return None, None
    sd = max(noise(x[:PILOT], y[:PILOT]), QUIETEST)
    if len(x) < PILOT:
        plan = _planned(sd, asked.difference, asked.min_effect, (len(x),), (0.0, asked.level * CAREFUL, asked.level))
        return plan, decide(plan, x, y)
    try:
        plan = design(sd, asked.difference, min_effect=asked.min_effect, pilot=PILOT, most=asked.most, level=asked.level)
    except ValueError:
        return None, None
    return plan, decide(plan, x, y)


def fixed(a: ArrayLike, b: ArrayLike, asked: SequentialOptions) -> tuple[SequentialDesign | None, Decision | None]:
    """What pairs say whose number was fixed beforehand: one look, at the last of them. None below 6, and for values not above zero."""
    x, y = finite(a), finite(b)
    if len(x) < FEWEST or min(x.min(), y.min()) <= 0:
        return None, None
    plan = _planned(max(noise(x, y), QUIETEST), asked.difference, asked.min_effect, (len(x),), (0.0, asked.level * CAREFUL, asked.level))
    return plan, decide(plan, x, y)


def wanted(a: ArrayLike, b: ArrayLike, asked: SequentialOptions) -> int | None:
    """Pairs of a new trial that would answer with 80 % power if the change were the one seen, with the noise of all pairs so far: larger or
    smaller where it is above `min_effect`, same where it is below the difference, whichever takes fewer. Both are estimates, so at least as
    many. None below 6 pairs, for values not above zero, where neither can be answered, and beyond 100,000."""
    x, y = finite(a), finite(b)
    if len(x) < FEWEST or min(x.min(), y.min()) <= 0:
        return None
    centre, error = (float(field[0]) for field in located(*_logs(x, y)))
    sd, seen = max(error * math.sqrt(len(x) / 2), QUIETEST), math.expm1(min(abs(centre), 700.0))
    counts = []
    with suppress(ValueError):
        if seen - asked.min_effect > QUIETEST:
            counts.append(design(sd, seen, min_effect=asked.min_effect, pilot=PILOT, level=asked.level).pairs)
    with suppress(ValueError):
        if asked.difference - seen > QUIETEST:
            counts.append(max(PILOT, needed(sd, (1 + asked.difference) / (1 + seen) - 1, POWER, 2 * CAREFUL * asked.level)))
    return min(counts, default=None)


def change(a: ArrayLike, b: ArrayLike) -> float:
    """B ÷ A − 1 over pairs, as `decide` estimates it. Raises ValueError for unequal numbers and values that are not above zero."""
    return math.expm1(float(located(*_logs(a, b))[0][0]))


def decide(plan: SequentialDesign, a: ArrayLike, b: ArrayLike) -> Decision:
    """What the pairs so far say, a[i] and b[i] of pair i, run A B, B A, A B …, at the last look that they reach.

    The first look that gives an answer ends the test: later pairs do not change it.

    *larger*, *smaller*: the whole repeated confidence interval lies beyond the threshold (`ratio.beyond`). *same*: the repeated confidence
    interval with twice the level lies within ± the difference, so a true change of that size is called same with at most
    `alpha`. *continue* before the last look, *inconclusive* at it. The interval is the repeated confidence interval
    (Jennison and Turnbull, J. Royal Stat. Soc. B 51, 1989): it holds the ratio with 1 − alpha whenever one stops, and is
    wide when one stops early. Raises ValueError for unequal numbers and values that are not above zero.
    """
    x, y = _logs(a, b)
    reached = [k for k, n in enumerate(plan.looks) if n <= x.shape[1]]
    decision = Decision(answer="continue", look=0, pairs=x.shape[1], reason=_reason(plan, "continue", x.shape[1]))
    for k in reached:
        decision = _decision(plan, k, x[:, : plan.looks[k]], y[:, : plan.looks[k]])
        if decision.answer != "continue":
            return decision
    return msgspec.structs.replace(decision, pairs=x.shape[1], reason=_reason(plan, "continue", x.shape[1]))


def _decision(plan: SequentialDesign, k: int, x: Floats, y: Floats) -> Decision:
    """At look k, from 0."""
    n = x.shape[1]
    centre, error, low, high, found = (float(field[0]) for field in at_look(plan, k, x, y))
    answer = ANSWERS[int(found)]
    fields: dict[str, float | None] = {"ratio": exponential(centre)}
    if math.isfinite(low):
        late = _reach(plan.bounds[-1], plan.pairs) + NORMAL.inv_cdf(plan.power)
        chance = two_sided(centre / error, _freedom(n)) if error else min(1.0, 2.0 ** (1 - n) if abs(centre) > ROUNDING else 1.0)
        mde = math.expm1(min(late * error * math.sqrt(n / plan.pairs), 700.0))
        fields |= {"low": exponential(low), "high": exponential(high), "p": chance, "mde": mde}
    return Decision(answer=answer, look=k + 1, pairs=n, reason=_reason(plan, answer, n), **fields)


ANSWERS: tuple[Answer, ...] = ("continue", "larger", "smaller", "same", "inconclusive")


class Followed(NamedTuple):
    """How each of many experiments ended."""

    answers: NDArray[np.int64]  # index into ANSWERS
    pairs: NDArray[np.int64]
    low: Floats  # interval on logarithms, NaN where unknown
    high: Floats


def follow(plan: SequentialDesign, x: Floats, y: Floats) -> Followed:
    """What `decide` does for many experiments, given logarithms of shape (experiments, plan.pairs)."""
    answers, used = np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=np.int64)
    low, high = np.empty(len(x)), np.empty(len(x))
    for k, n in enumerate(plan.looks):
        still = np.flatnonzero(answers == 0)
        _, _, low[still], high[still], answers[still] = at_look(plan, k, x[still, :n], y[still, :n])
        used[still] = n
    return Followed(answers, used, low, high)


def at_look(plan: SequentialDesign, k: int, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.int64]]:
    """Of many experiments that have reached look k (from 0): centre, its standard error, the repeated confidence interval,
    all on logarithms and NaN where unknown, and the answer as an index into ANSWERS."""
    centre, error = located(x, y)
    n, last = x.shape[1], k == len(plan.looks) - 1
    outer, inner = (_reach(bounds[k], n) for bounds in (plan.bounds, plan.inner))
    # without any noise seen, signs alone speak: n equal ones come by chance once in 2^(n−1)
    known = (error > 0) | (2.0 ** (1 - n) <= math.erfc(plan.bounds[k] / math.sqrt(2)))
    nearest = np.abs(centre) - outer * error  # end of the interval, to no change
    beyond = known & (nearest > ROUNDING) & (nearest >= math.log1p(plan.min_effect) - ROUNDING)
    same = known & (np.abs(centre) + inner * error < math.log1p(plan.difference))
    answers = np.where(beyond, np.where(centre > 0, 1, 2), np.where(same, 3, 4 if last else 0))
    reach = np.where(known, outer * error, np.nan)
    return centre, error, centre - reach, centre + reach, answers


def located(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The centre of y − x over pairs run A B, B A, A B …, and its standard error; 0 where no noise shows.

    Huber's estimate (Annals of Math. Stat. 35, 1964), differences drawn in at 2.5 robust standard deviations. The noise is
    taken from differences within pairs about the centre and from differences between neighbouring runs of one side, which
    no effect of a side and no slow drift reach: 4/3 of the degrees of freedom of the pairs alone, as for von Neumann's
    successive differences. Assumes that runs are as alike across a boundary of pairs as within a pair; where pairs differ
    more, the error comes out too large, not too small.
    """
    d, e = _differences(x, y)
    n = d.shape[1]
    centre = np.median(d, axis=1, keepdims=True)
    size = np.abs(np.concatenate([d - centre, e], axis=1))
    # not the median: of values on ticks half can be on one, and all the others would be drawn in to it
    reach = CLIP * OUTER_TO_SD * np.quantile(size, OUTER, axis=1, keepdims=True)
    reach = np.maximum(np.maximum(reach, size.mean(axis=1, keepdims=True) / 20), ROUNDING)
    for _ in range(20):
        centre = centre + np.clip(d - centre, -reach, reach).mean(axis=1, keepdims=True)
    rest = np.concatenate([d - centre, e], axis=1)
    inside = (np.abs(rest) < reach).mean(axis=1)
    variance = (np.clip(rest, -reach, reach) ** 2).sum(axis=1) / (2 * n - 2) / n * serial_pairs(x, y)
    error = np.sqrt(variance) / np.maximum(inside, 0.5)
    return centre[:, 0], np.where(error > ROUNDING, error, 0.0)


def _differences(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Within pairs, y − x; and between the runs of one side that meet where pair i and pair i + 1 do: B B, A A, B B …"""
    meets_b = np.arange(x.shape[1] - 1) % 2 == 0
    return y - x, np.where(meets_b, np.diff(y, axis=1), np.diff(x, axis=1))


def _freedom(n: int) -> float:
    return 4 / 3 * (n - 1)


def _reach(score: float, n: int) -> float:
    """The t that is as rare as a normal score, with the freedom of n pairs."""
    return quantile(1 - math.erfc(score / math.sqrt(2)) / 2, _freedom(n))


def _logs(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    x, y = finite(a), finite(b)
    if len(x) != len(y):
        raise ValueError(f"pairs need as many values on both sides, not {len(x)} and {len(y)}")
    lost = int(np.count_nonzero(x <= 0) + np.count_nonzero(y <= 0))
    if lost:
        raise ValueError(f"{lost} of {2 * len(x)} values are zero or negative: there is no ratio")
    return np.log(x)[None], np.log(y)[None]


def _reason(plan: SequentialDesign, answer: Answer, n: int) -> str:
    if answer == "continue":
        upcoming = next((k for k in plan.looks if k > n), plan.pairs)
        return f"{n} of {plan.pairs} pairs, next look at {upcoming}"
    when = f"after {n} of at most {plan.pairs} pairs"
    if answer == "same":
        return f"the 90 % interval is within ± {percent(plan.difference)} {when}"
    return f"no answer {when}" if answer == "inconclusive" else f"the whole interval is beyond {_threshold(plan.min_effect)} {when}"


def _threshold(min_effect: float) -> str:
    return f"the threshold of {percent(min_effect)}" if min_effect else "no change"
