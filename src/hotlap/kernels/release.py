"""Two releases compared with each other, kernel by kernel: new, missing, fixed, broken, slower, faster, the same or not determined."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hotlap.core import stand_in, work
from hotlap.core.analysis import compare as comparing
from hotlap.core.analysis import environment, peers, revisions
from hotlap.core.analysis.compare import ComparedSide
from hotlap.core.analysis.matching import Unit
from hotlap.core.model.ceilings import seconds
from hotlap.core.record import Case, Comparison, Difference, OnDevice, Record, Result
from hotlap.core.stats import multiple_testing, pooled_t
from hotlap.core.stats.drift import allowed
from hotlap.core.stats.ratio import Ratio, allowing, ratio, verdict
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.sides import REVISIONS
from hotlap.kernels.coverage import usage
from hotlap.kernels.coverage.usage import Needed
from hotlap.kernels.track import Cost, costs, shares

Kind = Literal["broken", "slower", "missing", "fixed", "new", "faster", "inconclusive", "same", "not run"]
KINDS: tuple[Kind, ...] = ("broken", "slower", "missing", "fixed", "new", "faster", "inconclusive", "same", "not run")
REGRESSIONS = ("broken", "slower")


class ReleasedKernel(Record, frozen=True, kw_only=True):
    """One case on both sides."""

    comparison: Comparison
    label: str
    kind: Kind
    reason: str = ""
    time_ratio: float | None = None  # time in B ÷ time in A, with its 95 % interval
    low: float | None = None
    high: float | None = None
    error_a: float | None = None  # largest error as a share of its tolerance
    error_b: float | None = None
    costs: list[Cost] = []
    next: str = ""  # the command that would find out more


class KernelSum(Record, frozen=True, kw_only=True):
    """A step of a network on both sides, by the kernels that both sides have."""

    step: str
    kernels: int
    of: int
    a_s: float
    b_s: float
    low_s: float | None  # 95 % interval of b − a, from sums of whole runs; None with too few rounds
    high_s: float | None


class Release(Record, frozen=True, kw_only=True):
    """The whole report."""

    a: str  # what --from was taken for
    b: str
    a_runs: list[str]
    b_runs: list[str]
    kernels: list[ReleasedKernel]  # regressions first
    steps: list[KernelSum] = []
    suspects: list[Difference] = []  # what differs and could explain a change, revisions first
    apart: str = ""  # why the two are not comparable at all

    def counted(self) -> dict[str, int]:
        """Kernels of each kind that there is."""
        return {kind: n for kind in KINDS if (n := sum(one.kind == kind for one in self.kernels))}

    @property
    def code(self) -> int:
        """The exit code: 1 for a regression, 3 where a case is lost or most cannot be determined, else 0."""
        kinds = {one.kind for one in self.kernels}
        if kinds & set(REGRESSIONS):
            return 1
        told = sum(one.kind not in ("inconclusive", "not run") for one in self.kernels)
        return 3 if "missing" in kinds or not told or told < sum(one.kind == "inconclusive" for one in self.kernels) else 0


def release(
    a: tuple[str, Sequence[Bundle]], b: tuple[str, Sequence[Bundle]], min_effect: float = comparing.MIN_EFFECT, network: str = "",
    table: Sequence[Needed] = (),
) -> Release:
    """Side b, newer, against side a; each with its name. `network`: only what it calls, by the plans' uses, else by `table`."""
    (a_name, a_runs), (b_name, b_runs) = a, b
    stand_in.refuse([one.run for one in (*a_runs, *b_runs)], "a release report")
    left, right = comparing.sides(a_runs), comparing.sides(b_runs)
    compared = _with_few(comparing.compare(a_runs, b_runs, min_effect), left, right)
    calls = usage.of_plans((one.run.plan for one in (*a_runs, *b_runs)), network) or list(table)
    by_work = usage.by_work(calls)
    kernels = [
        _kernel(one, left.get(one.case.id), right.get(one.case.id), by_work.get(usage.work_of(one.case), []))
        for one in compared if not network or usage.work_of(one.case) in by_work
    ]
    broken = {one.comparison.case.id for one in kernels if one.kind == "broken"}
    ends = tuple(_revision(runs) for runs in (a_runs, b_runs))
    kernels = [_with_next(one, ends, (a_runs, b_runs)) for one in kernels]
    return Release(
        a=a_name, b=b_name, a_runs=[one.run.id for one in a_runs], b_runs=[one.run.id for one in b_runs],
        kernels=sorted(kernels, key=_order), steps=_sums(left, right, calls, broken), suspects=_suspects(a_runs, b_runs),
        apart=environment.apart([one.run for one in a_runs], [one.run for one in b_runs]),
    )


def _order(kernel: ReleasedKernel) -> tuple[int, float]:
    """Regressions first; within a kind by what a network pays most, then by the ratio."""
    most = max((abs(cost.seconds) for cost in kernel.costs), default=0.0)
    return KINDS.index(kernel.kind), -most if most else -abs(math.log(kernel.time_ratio)) if kernel.time_ratio else 0.0


# ---------------------------------------------------------------- one case


def _with_few(compared: Sequence[Comparison], left: Mapping[str, ComparedSide], right: Mapping[str, ComparedSide]) -> list[Comparison]:
    """What was not determined, once more: a few runs or rounds free of assumptions cannot be sure of one case in many, or of runs whose
    rounds are alike. Normal noise is assumed then, and the answer says so."""
    seen = {
        one.case.id: found for one in compared
        if one.answer == "inconclusive" and (found := _normal(one, left[one.case.id], right[one.case.id]))
    }
    chances = [seen[one.case.id].p if one.case.id in seen else one.p for one in compared]
    adjusted = multiple_testing.benjamini_hochberg(chances)
    return [_retold(one, seen[one.case.id], q) if one.case.id in seen else one for one, q in zip(compared, adjusted, strict=True)]


def _normal(comparison: Comparison, a: ComparedSide, b: ComparedSide) -> Ratio | None:
    """Above 1: b is better. By whole runs where there are two on each side, else by rounds. None where there are several devices."""
    if len({device for side in (a, b) for _, device in side.units}) > 1 or not a.values or not b.values:
        return None
    if min(*a.values, *b.values) <= 0:
        return None
    found = _by_replicates(a, b, a.results[0].better == "lower")
    return allowing(found, allowed(comparison.allowance.drift)) if found and comparison.allowance else found


def _by_replicates(a: ComparedSide, b: ComparedSide, lower: bool) -> Ratio | None:
    x, y = ([statistics.median(values) for values in side.units.values()] for side in (a, b))
    if min(len(x), len(y)) >= pooled_t.FEWEST:
        return pooled_t.pooled_t_ratio(y, x) if lower else pooled_t.pooled_t_ratio(x, y)
    x, y = a.values, b.values
    return ratio(y, x, assume="normal") if lower else ratio(x, y, assume="normal")


def _retold(comparison: Comparison, seen: Ratio, q: float | None) -> Comparison:
    answer = comparing.ANSWERS[verdict(seen, margin=comparison.min_effect or 0.0, p=q)]
    if answer == "inconclusive" or seen.low is None:
        return comparison
    reason = "normal noise assumed: more runs would need no assumption"
    return replace(comparing.with_ratio(comparison, seen), q=q, answer=answer, reason=reason)


def _kernel(comparison: Comparison, a: ComparedSide | None, b: ComparedSide | None, calls: Sequence[Needed]) -> ReleasedKernel:
    alone = _worse(comparison) if comparison.answer != "slower" else []
    kind, reason = _kind(comparison, a, b, alone)
    shown = min(alone, key=lambda d: d.ratio or 1.0) if alone and kind == "slower" else comparison
    times, low, high = (None if end is None or end <= 0 else 1 / end for end in (shown.ratio, shown.high, shown.low))
    before, after = (seconds(comparison.case, comparison.unit, side.median) for side in (comparison.a, comparison.b))
    found = costs(calls, after - before) if before is not None and after is not None and kind != "broken" else []
    return ReleasedKernel(
        comparison=comparison, label=work.label(comparison.case), kind=kind, reason=reason, time_ratio=times, low=low, high=high,
        error_a=_error(a), error_b=_error(b), costs=found,
    )


def _kind(comparison: Comparison, a: ComparedSide | None, b: ComparedSide | None, alone: Sequence[OnDevice]) -> tuple[Kind, str]:
    """By what either side has: no number at all, none any more, one for the first time, or two that are compared. `alone`: devices that
    are slower, where not all of them together are."""
    had, has = bool(a and a.values), bool(b and b.values)
    if has and (wrong := _wrong(b)) and not _wrong(a):
        return "broken", wrong
    if had and has:
        if comparison.answer in ("slower", "faster", "same", "inconclusive"):
            return ("slower", f"only {', '.join(d.device for d in alone)}") if alone else (comparison.answer, comparison.reason)
        return "inconclusive", comparison.reason
    if had:
        if b is None:
            return "missing", "not in the plan of B"
        return ("broken", _wrong(b)) if _wrong(b) else ("missing", _why(b))
    if has:
        return ("new", "not in the plan of A") if a is None else ("fixed", f"in A: {_why(a)}")
    return "not run", _why(b or a)


def _worse(comparison: Comparison) -> list[OnDevice]:
    """Devices that are slower than they were, and than the others are: each is a regression, whatever all together say."""
    return [device for device in comparison.devices if peers.slower(device, comparison.min_effect or 0.0)]


def _wrong(side: ComparedSide | None) -> str:
    """Why its results cannot stand; "" where they do."""
    bad = [one for one in side.results if one.status in ("invalid", "error")] if side else []
    return f"{bad[-1].status}: {bad[-1].reason}" if bad else ""


def _why(side: ComparedSide | None) -> str:
    last = side.results[-1] if side else None
    return f"{last.status.replace('_', ' ')}: {last.reason}".rstrip(": ") if last else ""


def _error(side: ComparedSide | None) -> float | None:
    """The largest error of its checks, as a share of the tolerance."""
    results: Sequence[Result] = side.results if side else ()
    return max((share for one in results for share in shares(one)), default=None)


# ---------------------------------------------------------------- steps and suspects


def _sums(
    left: Mapping[str, ComparedSide], right: Mapping[str, ComparedSide], calls: Sequence[Needed], broken: Collection[str]
) -> list[KernelSum]:
    """Each step on both sides, summed within each run, so that what moves all its kernels alike is in the interval once. Without cases
    whose results are wrong."""
    sums = []
    for step in dict.fromkeys(one.step for one in calls):
        members = [one for one in calls if one.step == step]
        right_ones = [one for one in members if one.case.id not in broken]
        known = [one for one in right_ones if _timed(left.get(one.case.id)) and _timed(right.get(one.case.id))]
        a, b = (_whole(side, known) for side in (left, right)) if known else ([], [])
        if a and b:
            ours, theirs = ([statistics.median(one) for one in side] for side in (a, b))
            rounds = ([v for one in side for v in one] for side in (a, b))
            seen = pooled_t.pooled_t_ratio(ours, theirs) or ratio(*rounds, assume="normal")
            a_s, b_s = (statistics.median(v for one in side for v in one) for side in (a, b))
            low, high = (None if end is None else a_s * (end - 1) for end in (seen.low, seen.high))
            sums.append(KernelSum(step=step, kernels=len(known), of=len(members), a_s=a_s, b_s=b_s, low_s=low, high_s=high))
    return sorted(sums, key=lambda one: one.a_s / one.b_s)


def _timed(side: ComparedSide | None) -> bool:
    return side is not None and bool(side.values) and seconds(side.case, _unit(side), side.values[0]) is not None


def _unit(side: ComparedSide) -> str:
    return next((one.unit for one in side.results if one.values), "")


def _whole(sides: Mapping[str, ComparedSide], known: Sequence[Needed]) -> list[list[float]]:
    """Seconds of the step in each round, by run and device, of those that have all its kernels."""
    own = [sides[one.case.id] for one in known]
    units = [unit for unit in own[0].units if all(unit in side.units for side in own)]
    columns = [[_rounds(one, side, unit) for one, side in zip(known, own, strict=True)] for unit in units]
    return [[sum(parts) for parts in zip(*kernels, strict=False)] for kernels in columns]


def _rounds(needed: Needed, side: ComparedSide, unit: Unit) -> list[float]:
    return [needed.calls * (seconds(side.case, _unit(side), value) or 0.0) for value in side.units[unit]]


def _suspects(a: Sequence[Bundle], b: Sequence[Bundle]) -> list[Difference]:
    """What differs between the sides and may matter; labels of the code's revision first."""
    left, right = ([one.run for one in side] for side in (a, b))
    labels = dict.fromkeys(name for run in (*left, *right) for name in run.labels)
    marks = []
    for name in labels:
        ours, theirs = (", ".join(sorted({run.labels[name] for run in side if name in run.labels})) for side in (left, right))
        if ours != theirs:
            marks.append(Difference(name=f"label {name}", a=ours, b=theirs, matters="unknown"))
    marks.sort(key=lambda one: one.name.removeprefix("label ") not in REVISIONS)
    return marks + [one for one in environment.differences(left, right) if one.matters != "no"]


# ---------------------------------------------------------------- what to run next


def _revision(bundles: Sequence[Bundle]) -> str:
    """The one revision of a side; "" where it has none or several."""
    found = {revisions.revision(one.run) for one in bundles}
    return next(iter(found)) if len(found) == 1 else ""


def _with_next(kernel: ReleasedKernel, ends: Sequence[str], sides: Sequence[Sequence[Bundle]]) -> ReleasedKernel:
    if kernel.kind not in REGRESSIONS:
        return kernel
    good, bad = ends
    case = kernel.comparison.case
    plan = _plan(case, sides[1])
    if work.traits(case.workload).source == "program" and good and bad and good != bad and plan:
        words = ["hotlap", "history", "bisect", "--good", good, "--bad", bad, "--plan", plan, "--case", case.id]
        return replace(kernel, next=shlex.join(words))
    runs = [sides[0][-1].run.id, sides[1][-1].run.id]
    return replace(kernel, next=f"hotlap explain {runs[1]} --where case={case.id}" if kernel.kind == "slower" else f"hotlap show {runs[1]}")


def _plan(case: Case, bundles: Sequence[Bundle]) -> str:
    """The file of the plan that measured it; "" where there is none to give to bisect."""
    plans: Mapping[str, str] = {c.id: bundle.run.plan.source for bundle in bundles for c in bundle.run.plan.cases}
    source = plans.get(case.id, "")
    return source if source.endswith(".toml") and Path(source).name else ""
