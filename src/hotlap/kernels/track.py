"""The life of each kernel over revisions, libraries, drivers and devices: its levels, what brought each change, what that costs a network,
and whether its results stayed right."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hotlap.core import work
from hotlap.core.analysis import history, revisions
from hotlap.core.analysis.history import Key
from hotlap.core.analysis.series import Series
from hotlap.core.model.ceilings import seconds
from hotlap.core.record import Case, Change, Difference, Record, Result, RunRecord
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.sides import REVISIONS
from hotlap.kernels.coverage import usage
from hotlap.kernels.coverage.usage import Needed

LEVEL = 20  # points at most that make the level at the beginning and the end of a life
GROWN, NOTABLE = 2.0, 0.05  # times by which an error must have grown, and the share of its tolerance it must have reached
FEW = 3  # first and last checks that are compared with each other


class KernelLevel(Record, frozen=True, kw_only=True):
    """What a kernel reached in one stretch of its life."""

    value: float  # in the metric's unit
    run: str  # the first of the stretch
    revision: str = ""


class Cost(Record, frozen=True, kw_only=True):
    """What a change costs a network: seconds in one step, above zero where it is slower."""

    step: str
    kernel: str
    calls: float
    seconds: float


class LevelChange(Record, frozen=True, kw_only=True):
    """A change of level in a kernel's life."""

    change: Change
    time_s: float
    run: str  # the first one after it
    time_ratio: float  # time after ÷ time before; NaN where it is not known
    before: str = ""  # revisions
    after: str = ""
    suspects: list[Difference] = []  # what changed there, the revision first
    costs: list[Cost] = []  # the largest first


class Checks(Record, frozen=True, kw_only=True):
    """Correctness beside speed."""

    runs: int
    wrong: list[str] = []  # runs whose result was invalid or an error, oldest first
    reason: str = ""  # of the last of them
    last_wrong: bool = False  # the newest run is one of them
    first_error: float | None = None  # as a share of the tolerance, median of the first checks
    now_error: float | None = None

    @property
    def grown(self) -> bool:
        """Whether the error came nearer to its tolerance than chance makes it."""
        return grown(self.first_error, self.now_error)


class KernelHistory(Record, frozen=True, kw_only=True):
    """One kernel: a case on one device of one host."""

    series: Series
    revisions: list[str]  # of each point, "" where the run was not labelled
    first: KernelLevel
    best: KernelLevel
    now: KernelLevel
    since_first: float  # time now ÷ time at first; NaN where it is not known
    since_best: float
    turns: list[LevelChange] = []
    checks: Checks
    absent: int = 0  # runs of its plan on this device since it was last asked for
    costs: list[Cost] = []  # now against its best, in one step of each network that calls it


class NeverMeasured(Record, frozen=True, kw_only=True):
    """A case that no run measured."""

    case: Case
    label: str
    runs: int
    reason: str  # of the last


class Total(Record, frozen=True, kw_only=True):
    """All kernels of one step on one device together; only those that were measured."""

    step: str
    device: str
    kernels: int  # measured, of those that the step calls
    of: int
    first_s: float
    best_s: float
    now_s: float


class Tracked(Record, frozen=True, kw_only=True):
    """What is known of all kernels."""

    lives: list[KernelHistory]
    never: list[NeverMeasured] = []
    totals: list[Total] = []
    runs: int = 0
    kernels: int = 0  # all, also where only some lives are kept


@dataclass
class _Seen:
    """What passes by while the series are made."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    results: dict[Key, list[tuple[str, Result]]] = field(default_factory=dict)
    there: dict[tuple[str, ...], list[str]] = field(default_factory=dict)  # plan, host, target and place → runs, in order

    def __call__(self, key: Key, run: RunRecord, result: Result) -> None:
        self.runs.setdefault(run.id, run)
        self.results.setdefault(key, []).append((run.id, result))
        there = self.there.setdefault((run.plan.name, *key[1:]), [])
        if run.id not in there[-1:]:
            there.append(run.id)

    def since(self, key: Key) -> int:
        """Runs of the plan of a case's newest run, on the same device, since that run."""
        newest = self.results[key][-1][0]
        there = self.there[self.runs[newest].plan.name, *key[1:]]
        return len(there) - 1 - there.index(newest)


def track(
    bundles: Iterable[Bundle], where: Mapping[str, str] = {}, min_effect: float = 0.0, network: str = "", table: Sequence[Needed] = ()
) -> Tracked:
    """The lives of all kernels of these runs, weighed by the uses that the newest run of each plan keeps. `network`: only what it calls,
    by those uses, else by `table`. `min_effect`: the smallest change to report, as a share."""
    seen = _Seen()
    by_place = history.by_place(bundles, where, min_effect, seen)
    calls = usage.of_plans((run.plan for run in seen.runs.values()), network) or list(table)
    by_work = usage.by_work(calls)
    lives = [_life(series, seen, key, by_work.get(usage.work_of(series.case), [])) for key, series in by_place.items()]
    if network:
        lives = [one for one in lives if usage.work_of(one.series.case) in by_work]
    never = [_never(kept) for key, kept in seen.results.items() if key not in by_place]
    return Tracked(lives=lives, never=never, totals=_totals(lives, calls), runs=len(seen.runs), kernels=len(lives))


def _life(series: Series, seen: _Seen, key: Key, calls: Sequence[Needed]) -> KernelHistory:
    marks = [revisions.revision(seen.runs[point.run], series.case) for point in series.points]
    since = max(series.boundaries, default=0)  # what was measured before is another device, or another thing
    edges = sorted({since, len(series.points), *(one.index for one in series.changes if one.index > since)})
    stretches = [(start, end) for start, end in pairwise(edges) if end > start]
    (start, end), (last, stop) = stretches[0], stretches[-1]
    most = LEVEL if len(stretches) > 1 else min(LEVEL, max((end - start) // 2, 1))  # one stretch: its beginning and its end do not overlap
    first = _level(series, marks, start, min(end, start + most))
    now = _level(series, marks, max(last, stop - most), stop)
    levels = [_level(series, marks, a, b) for a, b in stretches]
    best = (max if series.better == "higher" else min)([*levels, first, now], key=lambda one: one.value)
    return KernelHistory(
        series=series, revisions=marks, first=first, best=best, now=now, since_first=_times(series, first.value, now.value),
        since_best=_times(series, best.value, now.value), turns=[_turn(series, one, marks, calls) for one in series.changes],
        checks=_checks(seen.results[key]), absent=seen.since(key), costs=_costs(series, best.value, now.value, calls),
    )


def _level(series: Series, marks: Sequence[str], start: int, end: int) -> KernelLevel:
    middle = statistics.median(point.value for point in series.points[start:end])
    return KernelLevel(value=middle, run=series.points[start].run, revision=marks[start])


def _times(series: Series, before: float, after: float) -> float:
    """Time after ÷ time before."""
    if before <= 0 or after <= 0:
        return math.nan
    return before / after if series.better == "higher" else after / before


def _turn(series: Series, change: Change, marks: Sequence[str], calls: Sequence[Needed]) -> LevelChange:
    point = series.points[change.index]
    before = marks[change.index - 1] if change.index else ""
    found = [one for one in series.differences.get(change.index, []) if revisions.concerns(one.name, series.case)]
    there = [one for one in found if ", " not in f"{one.a}{one.b}"]  # the others differ between the runs about it, not right there
    suspects = sorted(there or found, key=_rank)
    return LevelChange(
        change=change, time_s=point.time_s, run=point.run, time_ratio=_times(series, change.before, change.after), before=before,
        after=marks[change.index], suspects=suspects, costs=_costs(series, change.before, change.after, calls),
    )


def _rank(difference: Difference) -> tuple[int, str]:
    """Revisions of the code and of the kernel first, then libraries and the driver, then what else matters."""
    kinds = (tuple(f"label {name}" for name in REVISIONS), (f"software.{revisions.KERNEL}",), ("software.",), ("device.driver",))
    return next((n for n, starts in enumerate(kinds) if difference.name.startswith(starts)), len(kinds)), difference.name


def _costs(series: Series, before: float, after: float, calls: Sequence[Needed]) -> list[Cost]:
    """What networks pay in one step, where the case's numbers are times."""
    a, b = (seconds(series.case, series.unit, value) for value in (before, after))
    if a is None or b is None:
        return []
    return costs(calls, b - a)


def costs(calls: Sequence[Needed], each_s: float) -> list[Cost]:
    """What `each_s` more of one call is in a step of each network, the largest first: all of the step's kernels that are this case."""
    steps: dict[str, list[Needed]] = {}
    for one in calls:
        steps.setdefault(one.step, []).append(one)
    costs_ = []
    for step, theirs in steps.items():
        names, times = list(dict.fromkeys(one.kernel for one in theirs)), sum(one.calls for one in theirs)
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        named = f"{', '.join(names[:2])}{more}" if more else " and ".join(names)
        costs_.append(Cost(step=step, kernel=named, calls=times, seconds=times * each_s))
    return sorted(costs_, key=lambda one: -abs(one.seconds))


# ---------------------------------------------------------------- correctness


def _checks(kept: Sequence[tuple[str, Result]]) -> Checks:
    wrong = [(run, one) for run, one in kept if one.status in ("invalid", "error")]
    errors = [max(known) for _, one in kept if (known := shares(one))]
    enough = len(errors) >= 2
    return Checks(
        runs=len(kept), wrong=[run for run, _ in wrong], reason=wrong[-1][1].reason if wrong else "",
        last_wrong=bool(wrong) and wrong[-1][0] == kept[-1][0], first_error=statistics.median(errors[:FEW]) if enough else None,
        now_error=statistics.median(errors[-FEW:]) if enough else None,
    )


def grown(before: float | None, after: float | None) -> bool:
    """Whether an error, as a share of its tolerance, came nearer to it than chance makes it."""
    return before is not None and after is not None and after >= max(GROWN * before, NOTABLE)


def shares(result: Result) -> list[float]:
    """The errors of its checks as shares of their tolerances."""
    return [c.error / c.tolerance for c in result.checks if c.error is not None and c.tolerance]


def _never(kept: Sequence[tuple[str, Result]]) -> NeverMeasured:
    last = kept[-1][1]
    state = last.status.replace("_", " ")
    reason = f"{state}: {last.reason}" if last.reason else state
    return NeverMeasured(case=last.case, label=work.label(last.case), runs=len(kept), reason=reason)


# ---------------------------------------------------------------- steps


def _totals(lives: Sequence[KernelHistory], calls: Sequence[Needed]) -> list[Total]:
    """Steps by device, the largest loss against the best first."""
    devices: dict[tuple[str, str, str], dict[str, KernelHistory]] = {}
    for one in lives:
        devices.setdefault((one.series.host, one.series.selector, one.series.model), {})[one.series.case.id] = one
    places = Counter((host, selector) for host, selector, _ in devices)
    totals = []
    for (host, selector, model), own in devices.items():
        for step in dict.fromkeys(one.step for one in calls):
            members = [one for one in calls if one.step == step]
            known = [(one.calls, own[one.case.id]) for one in members if one.case.id in own and not own[one.case.id].checks.last_wrong]
            if known:
                sums = [_sum(known, which) for which in ("first", "best", "now")]
                place = f"{host} {selector}" + (f" {model}" if places[host, selector] > 1 else "")
                totals.append(Total(
                    step=step, device=place, kernels=len(known), of=len(members), first_s=sums[0], best_s=sums[1], now_s=sums[2],
                ))
    return sorted(totals, key=lambda one: one.best_s - one.now_s)


def _sum(known: Sequence[tuple[float, KernelHistory]], which: str) -> float:
    levels = [(calls, seconds(life.series.case, life.series.unit, getattr(life, which).value)) for calls, life in known]
    return sum(calls * each for calls, each in levels if each is not None)
