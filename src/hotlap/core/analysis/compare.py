"""Two groups of runs, case by case: which differ, by how much, how sure that is, and what could explain it.

The replicate is the run where both sides have at least 4 of them; else the rounds of the runs, which are fresh processes, and
then the answer says that what differs from run to run is not in it. Levels after Kalibera and Jones, ISMM 2013. Where both sides
have the same devices they are matched (see `matching`), and a device that differs from the others is named (see `peers`). Runs that
`ab` measured in turns are compared pair by pair. Where all of one side is older than all of the other, intervals are widened by what the
level of unchanged code does in between (see `drift`).
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec.structs import replace

from hotlap.core import stand_in
from hotlap.core.analysis import drift, environment, matching
from hotlap.core.analysis import turns as turned
from hotlap.core.analysis.doubts import busy_run, doubted
from hotlap.core.analysis.matching import FEWEST_RUNS, Unit, Values
from hotlap.core.analysis.peers import Peers, judged, peers
from hotlap.core.record import (
    IMPORTED,
    Allowance,
    Case,
    Comparison,
    Difference,
    Notice,
    Result,
    RunRecord,
    Samples,
    Summary,
    Turns,
    identity,
)
from hotlap.core.stats import multiple_testing
from hotlap.core.stats.components import components
from hotlap.core.stats.drift import Drift
from hotlap.core.stats.ratio import Ratio, significant, verdict
from hotlap.core.stats.summary import outliers, summarize
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.select import results
from hotlap.core.units import RATES, percent, show

MIN_EFFECT = 0.02  # smallest change that is reported, unless the caller says so
TAIL, TAIL_SAMPLES = 0.95, 20  # the quantile that stands for the slow tail, and the samples a round needs for it
Answer = Literal["faster", "slower", "same", "inconclusive", "not comparable"]
InBetween = Callable[["ComparedSide", "ComparedSide"], tuple[Drift | None, Allowance | None]]
"""What the level of a case may have done between two sides that were measured one after the other."""


@dataclass(frozen=True)
class ComparedSide:
    """One case in one group: a value per round, by run and device, in order of time."""

    case: Case
    results: tuple[Result, ...]
    units: Values
    clocks: Values  # Hz of each round; empty unless every round knows it
    tails: Values  # the slow 95 % quantile of each round; empty unless every round has enough samples

    def only(self, devices: Sequence[str]) -> ComparedSide:
        """What is of these devices; why the rest gave no value stays known."""
        units, clocks, tails = (matching.only(one, devices) for one in (self.units, self.clocks, self.tails))
        return ComparedSide(self.case, self.results, units, clocks, tails)

    @property
    def values(self) -> list[float]:
        return [v for values in self.units.values() for v in values]


@dataclass(frozen=True)
class _Weighed:
    """A case with what is known of it before all cases together decide."""

    base: Comparison
    raw: Ratio | None = None
    cycles: Ratio | None = None
    clocks: tuple[float, float] = (0.0, 0.0)
    peers: Peers | None = None


def compare(
    a: Sequence[Bundle], b: Sequence[Bundle], min_effect: float | None = None, force: bool = False, past: drift.Past | None = None,
    stable: bool = False,
) -> list[Comparison]:
    """Cases of either side, in the order of the first; those on one side alone are not comparable, with the reason.

    `min_effect`: the smallest change that is reported, as a share; unless given 2 %, and of runs of `ab` its own. Groups of
    other targets or models of device are not comparable unless `force`d, and every answer then says so. `past`: what is known of the
    level before, of sides that were measured one after the other (`drift.past`). `stable`: nothing is allowed for between them.
    """
    stands_in = stand_in.refuse_mixed([one.run for one in (*a, *b)])
    compared = _compared(a, b, min_effect, force, past or {}, stable)
    return [stand_in.noted_pair(one) for one in compared] if stands_in else compared


def _compared(
    a: Sequence[Bundle], b: Sequence[Bundle], min_effect: float | None, force: bool, past: drift.Past, stable: bool
) -> list[Comparison]:
    left, right = sides(a), sides(b)
    runs = [one.run for one in a], [one.run for one in b]
    apart, differences = environment.apart(*runs), environment.differences(*runs)
    if turns := _in_turns(a, b, left, right):
        return [turned.comparison(x, y, one, next(iter(a[0].run.stops), None), min_effect) for x, y, one in turns]
    pairs = [(left.get(key), right.get(key)) for key in dict.fromkeys([*left, *right])]
    if apart and not force:
        return [_unlike(x, y, apart) for x, y in pairs]
    between = _between(a, b, past, stable) if drift.one_after_the_other(*runs) else None
    weighed = weigh(pairs, MIN_EFFECT if min_effect is None else min_effect, apart, differences, between)
    measured = {name: [one for each in side.values() for one in each.results if one.values] for name, side in (("A", left), ("B", right))}
    busy_runs = [name for name, known in measured.items() if busy_run(known)]
    weighed = [doubted(one, x.results, y.results, busy_runs) if x and y else one for one, (x, y) in zip(weighed, pairs, strict=True)]
    notice = _methods(*runs)
    return [replace(one, notices=[*one.notices, notice]) if notice and one.ratio is not None else one for one in weighed]


def _methods(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> Notice | None:
    """What to know where Hotlap's own way of making numbers changed from one side to the other."""
    one, two = (sorted({run.method for run in side if run.kind != IMPORTED}) for side in (a, b))
    if not one or not two or one == two:
        return None
    ways = " and ".join(f"{name} by method {', '.join(map(str, side))}" for name, side in (("A", one), ("B", two)))
    seen = f"measured in two ways, {ways} (docs/method.md): a small difference may be the method's"
    return Notice("two_methods", seen, "measure both by one version to be sure")


def _between(a: Sequence[Bundle], b: Sequence[Bundle], past: drift.Past, stable: bool) -> InBetween:
    if stable:
        return lambda _a, _b: (None, Allowance(basis="stable"))
    runs = [one.run for one in a], [one.run for one in b]
    return lambda one, _: drift.between(*runs, one.case, past)


def _in_turns(
    a: Sequence[Bundle], b: Sequence[Bundle], left: Mapping[str, ComparedSide], right: Mapping[str, ComparedSide]
) -> list[tuple[Result, Result, Turns]]:
    """The sides of one run of `ab`, case by case in the order of their plans: the cases may have other parameters, as two commands have.
    Empty for all others."""
    turns = [bundle.run.turns for bundle in (*a, *b)]
    if len(turns) != 2 or not turns[0] or not turns[1] or turns[0].id != turns[1].id or turns[0].side == turns[1].side:
        return []
    plans = [[side.get(one.id) for one in bundle.run.plan.cases] for side, bundle in ((left, a[0]), (right, b[0]))]
    return [(x.results[0], y.results[0], turns[0]) for x, y in zip(*plans, strict=False) if x and y]


def weigh(
    pairs: Sequence[tuple[ComparedSide | None, ComparedSide | None]],
    min_effect: float = MIN_EFFECT,
    forced: str = "",
    differences: Sequence[Difference] = (),
    between: InBetween | None = None,
) -> list[Comparison]:
    """An answer for each pair of sides, at one error rate over all of them; `found` is what differs between their environments,
    `between` what the level may have done from one side to the other."""
    weighed = [_weighed(x, y, min_effect, between) for x, y in pairs]
    adjusted = multiple_testing.benjamini_hochberg([one.base.p for one in weighed])
    apart = judged([one.peers for one in weighed], [one.base.min_effect or 0.0 for one in weighed])  # a family of its own
    weighed = [dataclasses.replace(one, base=replace(one.base, devices=devices)) for one, devices in zip(weighed, apart, strict=True)]
    return [_answered(one, q, forced, differences) for one, q in zip(weighed, adjusted, strict=True)]


def sides(bundles: Sequence[Bundle]) -> dict[str, ComparedSide]:
    """Results by case; each run and device keeps its own rounds."""
    found: dict[str, list[tuple[Unit, Result]]] = {}
    for bundle in sorted(bundles, key=lambda one: one.run.began):
        for result in results(bundle):
            who = identity(result.device, result.target, bundle.run.machine.host)
            found.setdefault(result.case.id, []).append(((bundle.run.id, who), result))
    return {key: _side(kept) for key, kept in found.items()}


def _side(kept: Sequence[tuple[Unit, Result]]) -> ComparedSide:
    good = {unit: r for unit, r in kept if r.status == "measured" and r.values}
    return ComparedSide(
        kept[0][1].case, tuple(r for _, r in kept), {unit: tuple(r.values) for unit, r in good.items()},
        _known({unit: _clocks(r) for unit, r in good.items()}), _known({unit: _tails(r) for unit, r in good.items()}),
    )


def _known(values: Values) -> Values:
    return values if all(values.values()) else {}


def _rounds(result: Result) -> list[Samples]:
    return result.used


def _clocks(result: Result) -> tuple[float, ...]:
    clocks = [statistics.median(one.clocks_hz) for one in _rounds(result) if one.clocks_hz]
    return tuple(clocks) if len(clocks) == len(result.values) and all(clocks) else ()


def _tails(result: Result) -> tuple[float, ...]:
    """In the metric's unit: the time that 95 % of a round's samples stay under, or the rate that they stay above."""
    rounds = _rounds(result)
    if len(rounds) != len(result.values) or any(len(one.values) < TAIL_SAMPLES for one in rounds):
        return ()
    middles = [statistics.median(one.values) for one in rounds]
    if min(middles, default=0.0) <= 0:
        return ()
    stretched = [float(np.quantile(one.values, TAIL)) / middle for one, middle in zip(rounds, middles, strict=True)]
    return tuple(v * s if result.better == "lower" else v / s for v, s in zip(result.values, stretched, strict=True))


# ---------------------------------------------------------------- one case


def _unlike(a: ComparedSide | None, b: ComparedSide | None, reason: str) -> Comparison:
    case, unit = _named(a, b)
    return Comparison(case=case, a=summary(a), b=summary(b), answer="not comparable", reason=reason, unit=unit)


def _named(a: ComparedSide | None, b: ComparedSide | None) -> tuple[Case, str]:
    side = a or b
    assert side is not None
    first = next((r for one in (a, b) if one for r in one.results if r.values), side.results[0])
    return side.case, first.unit


def summary(side: ComparedSide | None) -> Summary:
    return _counted(summarize(side.values), side) if side else summarize([])


def _counted(summary: Summary, side: ComparedSide) -> Summary:
    """With the samples behind the values, and the outliers among those of each round."""
    rounds = [np.array(one.values) for result in side.results if result.values for one in _rounds(result)]
    turned = [1 / one if side.results[0].better == "higher" and one.min() > 0 else one for one in rounds]
    return replace(summary, samples=sum(map(len, rounds)), outliers=sum(int(outliers(one).sum()) for one in turned))


def _weighed(a: ComparedSide | None, b: ComparedSide | None, min_effect: float, between: InBetween | None) -> _Weighed:
    if not any(side and side.values for side in (a, b)):
        why = next((r.reason for side in (a, b) if side for r in side.results if r.reason), "")
        return _Weighed(_unlike(a, b, f"measured in neither{f': {why}' if why else ''}"))
    for name, side in (("A", a), ("B", b)):
        if not side or not side.values:
            why = next((r.reason for r in side.results if r.reason), "") if side else ""
            return _Weighed(_unlike(a, b, f"not measured in {name}{f': {why}' if why else ''}"))
    assert a is not None
    assert b is not None
    meanings = {(r.metric, r.unit, r.better) for r in (*a.results, *b.results) if r.values}
    if len(meanings) > 1:
        said = " and ".join(sorted(f"{metric} in {unit}, {better} is better" for metric, unit, better in meanings))
        return _Weighed(_unlike(a, b, f"one case with different meanings: {said}"))
    one_way, other_way = ("+".join(sorted({r.timing for r in side.results if r.values})) for side in (a, b))
    if one_way != other_way:
        return _Weighed(_unlike(a, b, environment.method_changed(one_way, other_way, "in A", "in B")))
    case, unit = _named(a, b)
    devices = matching.common(a.units, b.units)
    a, b = (side.only(devices) if devices else side for side in (a, b))
    reps = matching.replicates(a.units, b.units, devices)
    one, two = (_counted(summarize(matching.typical(side.units, devices)), side) for side in (a, b))
    metric, _, better = next(iter(meanings))
    moved, allowance = between(a, b) if between else (None, None)
    base = Comparison(
        case=case, a=one, b=two, answer="inconclusive", metric=metric, unit=unit, better=better, min_effect=min_effect,
        replicates=reps.kind, n_a=len(reps.x), n_b=len(reps.y), allowance=allowance,
    )
    if min(*reps.x, *reps.y) <= 0:
        return _Weighed(replace(base, reason="a value is zero or negative, and a ratio says nothing then"))
    lower = better == "lower"
    raw, tail = reps.better(lower, moved), _of(a.tails, b.tails, devices, lower)
    imported = all(one.imported for side in (a, b) for one in side.results)
    full = replace(with_ratio(base, raw), notices=[replace(one, action="") for one in raw.notices] if imported else list(raw.notices))
    if tail:
        full = replace(full, tail=tail.ratio, tail_low=tail.low, tail_high=tail.high)
    full = replace(full, noise="" if imported else _noise(a, b))  # it says what to repeat
    clocks = (_middle(a.clocks), _middle(b.clocks)) if a.clocks and b.clocks else (0.0, 0.0)
    cycles = _of(_per_clock(a, lower), _per_clock(b, lower), devices, lower) if all(clocks) else None
    return _Weighed(full, raw, cycles, clocks, peers(a.units, b.units, devices, lower, moved))


def with_ratio(base: Comparison, raw: Ratio) -> Comparison:
    return replace(base, ratio=raw.ratio, low=raw.low, high=raw.high, p=raw.p, mde=raw.mde)


def _noise(a: ComparedSide, b: ComparedSide) -> str:
    """The largest component of variance over both sides, each about its own centre; "" where samples are not times above zero."""
    sides = [
        [[one.values for one in _rounds(result)] for result in side.results if result.values and result.device == key]
        for side in (a, b) for key in dict.fromkeys(result.device for result in side.results if result.values)
    ]
    try:
        return components(sides).largest
    except ValueError:
        return ""


def _of(a: Values, b: Values, devices: Sequence[str], lower: bool) -> Ratio | None:
    return matching.replicates(a, b, devices).better(lower) if a and b else None


def _per_clock(side: ComparedSide, lower: bool) -> Values:
    """What a clock cycle gives of a rate, or the cycles that a time takes."""
    pairs = {unit: zip(values, side.clocks[unit], strict=True) for unit, values in side.units.items()}
    return {unit: tuple(v * hz if lower else v / hz for v, hz in both) for unit, both in pairs.items()}


def _middle(clocks: Values) -> float:
    return statistics.median(hz for values in clocks.values() for hz in values)


def _answered(weighed: _Weighed, q: float | None, forced: str, differences: Sequence[Difference]) -> Comparison:
    """With the answer, once the error rate over all cases is held."""
    base = weighed.base
    if weighed.raw is None:
        return replace(base, forced=forced)
    answer = ANSWERS[verdict(weighed.raw, margin=base.min_effect or 0.0, p=q)]
    could = environment.explaining(differences, RATES.get(base.unit, "latency")) if answer in ("faster", "slower") else []
    reason = _joined(_reason(base, weighed.raw, answer, q), _clock(weighed, answer))
    notices = base.notices[base.low is None :]  # the first is the reason where there is no interval
    return replace(base, q=q, answer=answer, reason=reason, forced=forced, environment_suspects=could, notices=notices)


ANSWERS: Mapping[str, Answer] = {"larger": "faster", "smaller": "slower", "same": "same", "inconclusive": "inconclusive"}


def _clock(weighed: _Weighed, answer: Answer) -> str:
    """A difference in time that vanishes in cycles is one of clocks."""
    cycles, raw = weighed.cycles, weighed.raw
    if answer not in ("faster", "slower") or cycles is None or raw is None:
        return ""
    if cycles.ratio is None or raw.ratio is None or cycles.low is None or cycles.high is None:
        return ""
    a, b = (show(hz, "Hz") for hz in weighed.clocks)
    moved = abs(math.log(cycles.ratio)) < abs(math.log(raw.ratio)) / 2
    if moved and (cycles.low <= 1 <= cycles.high or abs(cycles.ratio - 1) < (weighed.base.min_effect or 0.0)):
        return f"the clock differs, {a} and {b}: in cycles they are the same"
    return "" if moved else f"in cycles too ({cycles.ratio:.3f} ×): the clock is not the cause"


def _reason(comparison: Comparison, raw: Ratio, answer: Answer, q: float | None) -> str:
    min_effect = comparison.min_effect or 0.0
    if answer == "same":
        return f"the 90 % interval is within ± {percent(min_effect)}"
    if answer in ("faster", "slower"):
        return ""
    if comparison.low is None or comparison.high is None:
        if min(comparison.n_a, comparison.n_b) < FEWEST_RUNS:
            return (
                f"{FEWEST_RUNS} {comparison.replicates} a side are needed for an interval, there are {comparison.n_a} and {comparison.n_b}"
            )
        return raw.notices[0].text if raw.notices else "there is no interval"
    _, low, high = comparison.change
    if comparison.low <= 1 <= comparison.high or low is None or high is None:
        return (
            f"no significant difference; minimum detectable effect {percent(comparison.mde_of_answer)}"
            if comparison.mde_of_answer is not None
            else ""
        )
    if not significant(raw, q):
        return "of so many cases one may differ so much by chance; more runs or rounds would tell"
    ends = sorted((abs(low), abs(high)))
    return f"differs, by at least {percent(ends[0])} and at most {percent(ends[1])}; the threshold is {percent(min_effect)}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
