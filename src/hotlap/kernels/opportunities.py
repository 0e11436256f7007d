"""Where work on kernels pays: each case's time against what is expected and what is possible, weighed by the networks that call it.

A difference that lies within the intervals is no opportunity: the measured interval must lie wholly above that of the expected time.
Where nothing is expected, the bound and then the run's own ceiling stand in, and what is won is then *at most*. A bound for which most
bytes would have to come from a cache, whose rate nobody publishes, is no goal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.model import causes, expect, limits
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case, Gap, Readings, Record, Row
from hotlap.kernels import numbers, signs
from hotlap.kernels.coverage.usage import Needed, network_of
from hotlap.kernels.numbers import Span, seconds, span, stands
from hotlap.kernels.similar import Peer, similar

Against = Literal["expected", "bound", "ceiling"]


class OpportunityPlace(Record, frozen=True, kw_only=True):
    """A step that calls the case, and what is to be won there by all its kernels that do."""

    step: str
    kernels: dict[str, float]  # calls of each, by name
    calls: float  # of all
    win_s: float
    share: float  # of the step's time


class Opportunity(Record, frozen=True, kw_only=True):
    """One case of the run beside what it could be. Times are of one call."""

    case: Case
    label: str
    implementation: str = ""  # as the case or the device's variant names it
    measured: Span
    expected: Span | None = None
    bound_s: float | None = None
    against: Against
    goal_s: float  # what it is compared with
    win: Span  # to the goal; both ends count the interval of the goal too
    most_s: float | None = None  # to the bound: the ceiling
    cached_share: float = 0.0  # of the bytes, that the bound takes to come from a cache, where it is most of them: it tells little then
    sure: bool  # the intervals lie apart
    score: float  # what is won as a share of the steps' time, weighed over networks
    places: list[OpportunityPlace] = []  # the largest first
    cause: str = ""
    gap: Gap = Gap()  # with the numbers behind the cause
    part: str = ""  # the model's name of where most of the time above the bound goes
    signs: dict[str, str] = {}
    rule: str = ""  # of opportunities.toml
    change: str = ""  # what would have to change
    source: str = ""
    similar: list[Peer] = []
    power_w: float | None = None
    energy_j: float | None = None  # to win in one call: power × time
    step_energy_j: float | None = None  # the same in one step of the first place

    @property
    def share(self) -> float:
        """Of the goal: 1 is there."""
        return self.goal_s / self.measured.s

    @property
    def to_bound_s(self) -> float:
        """By how much it misses its bound in the step that calls it most; 0 where the bound tells little."""
        return max(((self.most_s or 0.0) * place.calls for place in self.places if not self.cached_share), default=0.0)


class Missing(Record, frozen=True, kw_only=True):
    """A kernel of a step that has no number."""

    step: str
    kernel: str
    label: str
    calls: float
    reason: str
    seconds: float | None = None  # expected in one step; None where nothing is expected


class StepOpportunities(Record, frozen=True, kw_only=True):
    """One step: its time, what of it was measured, and what is to be won."""

    name: str
    weight: float  # of all steps together 1
    seconds: float  # of one step: measured, and expected where nothing was
    measured_s: float
    win_s: float  # by opportunities that are sure
    most: bool  # nothing is expected of some of their kernels: it is the most that could be won
    win_low_s: float
    win_high_s: float
    kernels: int
    without: int  # kernels that have no time at all: neither measured nor expected


class Opportunities(Record, frozen=True, kw_only=True, rename={"ranked": "found"}):
    """What a run says on one device."""

    run: str
    device: str
    name: str  # of the device
    steps: list[StepOpportunities]
    ranked: list[Opportunity]  # sure ones by score, those compared with an expected time first
    within: list[Opportunity]  # what is expected, or cannot be determined from it; by how far the bound is
    unheld: list[str]  # labels of cases with nothing to hold them against: no expected time, no bound, no other case like them
    missing: list[Missing]
    left_out: list[str] = []  # of the steps asked for: what cannot be, in words


@dataclass(frozen=True)
class On:
    """Where the rows come from."""

    run: str  # RunRecord.id
    device: str = ""  # Device.selector
    name: str = ""  # of the device
    spec: Spec | None = None
    readings: Sequence[Readings] = ()  # of the device
    weighed_on: str = ""  # machine of the expected times of the plan's uses


def find(rows: Sequence[Row], needed: Sequence[Needed], on: On, weights: Mapping[str, float] = {}) -> Opportunities:
    """Of one device's rows. `needed`: what the networks' steps call; `weights`: of networks, 1 where none is given.

    Raises InputError for a weight of a network that is not there, and where no case of the run is called.
    """
    shares = _weights(needed, weights)
    taken = {one.case.id: _row_for(one.case, rows) for one in needed}
    if not any(taken.values()):
        first = needed[0].network if needed else ""
        raise InputError(
            f"no case of the run {on.run} that was measured is called by {', '.join(shares) or 'a network'}; "
            f"hotlap plan from {first} writes a plan of its kernels"
        )
    each = {one.case.id: _seconds(row) if (row := taken[one.case.id]) else expected_s(one, on) for one in needed}
    steps = _times(needed, each)
    called = {row.case.id: row for row in taken.values() if row}
    opportunities = {key: _opportunity(row, rows, on) for key, row in called.items()}
    placed = [_placed(one, needed, taken, steps, shares) for one in opportunities.values() if one]
    ranked = sorted((one for one in placed if one.sure and one.score > 0), key=lambda one: (one.against != "expected", -one.score))
    within = sorted((one for one in placed if not one.sure), key=lambda one: -one.to_bound_s)
    summed = [_step(name, needed, each, taken, shares[name], ranked) for name in steps]
    return Opportunities(
        run=on.run, device=on.device, name=on.name, steps=summed, ranked=ranked, within=within,
        unheld=[called[key].label for key, one in opportunities.items() if one is None],
        missing=_missing(needed, each, taken, rows),
    )


# ---------------------------------------------------------------- weights and steps


def _weights(needed: Sequence[Needed], given: Mapping[str, float]) -> dict[str, float]:
    """By step: networks equal or as given, the steps of one network equal; together 1."""
    steps = {step: network_of(step) for step in dict.fromkeys(one.step for one in needed)}
    networks = set(steps.values())
    for name in given:
        if name not in networks:
            raise InputError(f"--weight of '{name}', which is none of the networks here; {nearest(name, networks)}")
    total = sum(given.get(name, 1.0) for name in networks)
    if needed and total <= 0:
        raise InputError("all weights are 0; give at least one network a weight above 0")
    return {step: given.get(name, 1.0) / total / list(steps.values()).count(name) for step, name in steps.items()}


def _row_for(case: Case, rows: Sequence[Row]) -> Row | None:
    """The case's own number, else that of the fastest implementation of the same work."""
    standing = [row for row in rows if row.case.workload == case.workload and stands(row)]
    own = next((row for row in standing if row.case.id == case.id), None)
    same = [row for row in standing if row.case.params == case.params] if own is None and not case.implementation else []
    return own or min(same, key=_seconds, default=None)


def _seconds(row: Row) -> float:
    return seconds(row) or 0.0


def _times(needed: Sequence[Needed], each: Mapping[str, float | None]) -> dict[str, float]:
    """Seconds of each step, as far as they are known. `each`: of one call, by case."""
    found: dict[str, float] = {}
    for one in needed:
        found[one.step] = found.get(one.step, 0.0) + one.calls * (each[one.case.id] or 0.0)
    return found


def expected_s(needed: Needed, on: On) -> float | None:
    """Of one call on this device, by the model, else as the plan weighs it where that is of the same machine."""
    if on.spec is None:
        return None
    try:
        return float(expect.expect(needed.case.workload, needed.case.params, on.spec, needed.case.implementation).seconds[0])
    except (HotlapError, KeyError):
        return needed.expected_s if on.weighed_on == on.spec.slug else None


def _step(
    name: str, needed: Sequence[Needed], each: Mapping[str, float | None], taken: Mapping[str, Row | None], weight: float,
    opportunities: Sequence[Opportunity],
) -> StepOpportunities:
    own = [one for one in needed if one.step == name]
    parts = [(place, one) for one in opportunities for place in one.places if place.step == name]
    seen = [one for one in own if taken[one.case.id]]
    return StepOpportunities(
        name=name, weight=weight, seconds=_times(own, each)[name], measured_s=_times(seen, each).get(name, 0.0),
        most=any(one.against != "expected" for _, one in parts), win_s=sum(place.win_s for place, _ in parts),
        win_low_s=sum(place.calls * one.win.lower_s for place, one in parts),
        win_high_s=sum(place.calls * one.win.upper_s for place, one in parts), kernels=len(own),
        without=sum(each[one.case.id] is None for one in own),
    )


def _missing(
    needed: Sequence[Needed], each: Mapping[str, float | None], taken: Mapping[str, Row | None], rows: Sequence[Row]
) -> list[Missing]:
    """Kernels without a number, the longest first."""
    by_case = {row.case.id: row for row in rows}
    missing = [
        Missing(
            step=one.step, kernel=one.kernel, label=work.label(one.case), calls=one.calls, reason=_why(by_case.get(one.case.id)),
            seconds=None if (known := each[one.case.id]) is None else known * one.calls,
        )
        for one in needed if taken[one.case.id] is None
    ]
    return sorted(missing, key=lambda one: -(one.seconds or 0.0))


def _why(row: Row | None) -> str:
    if row is None:
        return "not in the run's plan"
    state = row.verdict.state.replace("_", " ")
    return f"{state}: {row.verdict.reason}" if row.verdict.reason else state


# ---------------------------------------------------------------- one case


def _opportunity(row: Row, rows: Sequence[Row], on: On) -> Opportunity | None:
    """A case beside what it is compared with; None where there is nothing to compare it with."""
    measured, limit = span(row), row.gap.limit
    bound = float(limit.bound_s) if limit and limit.bound_s else None
    expected = Span(s=float(limit.expected_s), low_s=limit.low_s, high_s=limit.high_s) if limit and limit.expected_s else None
    cached = limits.cached_share(row.case, bound, on.spec)
    cached = cached if cached > causes.MOSTLY else 0.0
    goal = _goal(row, measured, expected, None if cached else bound) if measured else None
    if goal is None or measured is None:
        return None
    against, aim = goal
    win = Span(s=measured.s - aim.s, low_s=measured.lower_s - aim.upper_s, high_s=measured.upper_s - aim.lower_s)
    seen, part = signs.of_sizes(row, on.spec.compute_units if on.spec else None), signs.part(row)
    peers = similar(row, rows)
    if peers and peers[0].kind == "implementation":
        seen = {"other implementation": peers[0].label, **seen}
    rule = signs.rule(row.case, list(seen), row.gap.cause, part)
    power = numbers.power_w(row, on.readings)
    return Opportunity(
        case=row.case, label=row.label, implementation=row.case.implementation or _variant(row), measured=measured, expected=expected,
        bound_s=bound, against=against, goal_s=aim.s, win=win, most_s=measured.s - bound if bound else None,
        cached_share=cached,
        sure=measured.low_s is not None and win.lower_s > 0, score=0.0, cause=row.gap.cause, part=part, signs=seen,
        gap=replace(row.gap, limit=None),
        rule=rule.name, change=rule.change, source=rule.source, similar=peers, power_w=power,
        energy_j=power * win.s if power and win.s > 0 else None,
    )


def _goal(row: Row, measured: Span, expected: Span | None, bound: float | None) -> tuple[Against, Span] | None:
    """The expected time where there is one, else the bound, else the run's best."""
    if expected is not None:
        return "expected", expected
    if bound is not None:
        return "bound", Span(s=bound)
    if row.gap.reference_kind == "ceiling" and row.gap.share:
        return "ceiling", Span(s=row.gap.share * measured.s)
    return None


def _variant(row: Row) -> str:
    return next((one.variant for one in row.result.rounds if one.variant), "")


def _placed(
    opportunity: Opportunity,
    needed: Sequence[Needed],
    taken: Mapping[str, Row | None],
    steps: Mapping[str, float],
    shares: Mapping[str, float],
) -> Opportunity:
    """With where the networks call it, and what is won there."""
    steps_of: dict[str, dict[str, float]] = {}
    for n in needed:
        if (row := taken[n.case.id]) and row.case.id == opportunity.case.id:
            kernels = steps_of.setdefault(n.step, {})
            kernels[n.kernel] = kernels.get(n.kernel, 0.0) + n.calls
    places = [_place(step, kernels, opportunity.win.s, steps[step]) for step, kernels in steps_of.items()]
    places.sort(key=lambda place: -place.share * shares[place.step])
    joules = None if opportunity.energy_j is None or not places else opportunity.energy_j * places[0].calls
    return replace(opportunity, places=places, score=sum(place.share * shares[place.step] for place in places), step_energy_j=joules)


def _place(step: str, kernels: dict[str, float], win_s: float, whole_s: float) -> OpportunityPlace:
    """`win_s`: of one call; `whole_s`: what the step takes."""
    calls = sum(kernels.values())
    return OpportunityPlace(step=step, kernels=kernels, calls=calls, win_s=calls * win_s, share=calls * win_s / whole_s)
