"""Many devices of a model judged together: who is slower than the others, in one case or in all, with one error rate for the whole fleet.

`analysis.fleet` judges one run by the others; here all runs are judged at once, so that 500 nodes cost one look, and the verdict has a
stated rate: of fleets without a bad device at most RATE have one named. Half of that goes to the level over all cases (how much healthy
devices differ in it is learnt from the devices), half to single cases, their levels and tails.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from hotlap.core import stand_in, units, work
from hotlap.core.analysis import absent
from hotlap.core.analysis.compare import MIN_EFFECT
from hotlap.core.analysis.history import SIMULATED
from hotlap.core.analysis.verdicts import EXIT_CODES, with_missing
from hotlap.core.record import Notice, Result, Row, State
from hotlap.core.stats import fleet
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle

RATE = 0.02  # of fleets without a bad device in which one is named
ALL_SHARE, CASE_SHARE = 0.5, 0.125  # of the rate: for the level over all cases, and for single cases (their tails take three times as much)
MANY = 8  # devices, above which they are judged and shown together
ALIKE = 0.9  # share of the devices whose last runs have one value of a label, below which runs of other work may be mixed
Code = Literal["", "slow", "slow_case", "tail", "slight", "fast", "broken", "missing"]


@dataclass(frozen=True)
class OffCase:
    """A case in which a device stands out: its difference to the others as a share, negative is worse."""

    case: str
    label: str
    size: float
    low: float
    high: float
    tail: float = 0.0  # share of its samples in the fleet's slowest hundredth, where that is what stands out


@dataclass(frozen=True)
class DeviceFacts:
    """When and with what a device was measured, and which one it is; "" where that is not known."""

    began: str = ""  # UTC, ISO 8601
    hotlap: str = ""
    driver: str = ""
    serial: str = ""
    uuid: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class FleetDevice:
    """One device in its fleet. `code`: why it stands out; "" where it does not. `level`: over all cases, as a share, negative is worse."""

    run: str
    host: str
    device: str
    model: str
    state: State
    code: Code = ""
    labels: dict[str, str] = field(default_factory=dict)
    level: float | None = None
    low: float | None = None
    high: float | None = None
    off: list[OffCase] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # cases that others measured and it did not, with the reason
    broken: list[str] = field(default_factory=list)  # cases that are invalid or failed, with the reason
    facts: DeviceFacts = DeviceFacts()


@dataclass(frozen=True)
class FleetCase:
    """One case over the devices of a model, in base units. `spread` between devices, `noise` within: shares. `reach`: the smallest loss
    that is named; None where the fleet cannot be its own reference."""

    case: str
    label: str
    model: str
    unit: str
    better: Literal["higher", "lower"]
    values: dict[str, float]  # by host and device, the median of its rounds
    spread: float | None = None
    noise: float | None = None
    reach: float | None = None
    notices: list[Notice] = field(default_factory=list)

    @property
    def ends(self) -> tuple[float, float, float]:
        """Least, median, most."""
        return min(self.values.values()), statistics.median(self.values.values()), max(self.values.values())


@dataclass(frozen=True)
class FleetVerdict:
    """`devices`: the worst first. `reach`: the smallest loss in all cases that is named, by model; None where nothing can be said."""

    state: State
    devices: list[FleetDevice]
    cases: list[FleetCase]
    min_effect: float
    reach: dict[str, float | None]
    rounds: int  # usual number in a case
    runs: int
    fewest: int | None = None  # rounds of a case that has some
    interrupted: list[str] = field(default_factory=list)  # runs that can be resumed
    missing: dict[str, dict[str, str]] = field(default_factory=dict)  # by run: who was asked for a result and has none → why
    mixed: dict[str, list[str]] = field(default_factory=dict)  # labels of which devices have several values → those of their last runs

    @property
    def measured(self) -> int:
        """Devices with a number in at least one case."""
        return sum(any(f"{one.host} {one.device}" in case.values for case in self.cases) for one in self.devices)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.state, 3)

    @property
    def judged_runs(self) -> int:
        """Runs whose numbers count: of a device with several runs the last."""
        return len({device.run for device in self.devices})

    @property
    def counts(self) -> Counter[State]:
        return Counter(device.state for device in self.devices)

    @property
    def named(self) -> list[FleetDevice]:
        """Those that stand out, the worst first."""
        return [device for device in self.devices if device.code]

    @property
    def absent(self) -> dict[str, str]:
        """Who has no result → why, over all runs."""
        return {name: why for lost in self.missing.values() for name, why in lost.items()}


@dataclass(frozen=True)
class _Member:
    run: str
    host: str
    labels: dict[str, str]
    device: str
    model: str
    results: list[Result]
    facts: DeviceFacts = DeviceFacts()

    @property
    def key(self) -> str:
        """Which very device: host and device, as far as it is known."""
        return f"{self.host} {self.device}"


def judge(bundles: Iterable[Bundle], where: dict[str, str] | None = None, min_effect: float = MIN_EFFECT) -> FleetVerdict:
    """All devices of these runs; of a device with several runs the last counts."""
    return _of_runs(((bundle, select.results(bundle, where or {})) for bundle in bundles), min_effect)


def of_runs(runs: Iterable[tuple[Bundle, Sequence[Row]]]) -> FleetVerdict:
    """The same of runs whose rows are known."""
    return _of_runs(((bundle, [row.result for row in rows]) for bundle, rows in runs), MIN_EFFECT)


def _of_runs(runs: Iterable[tuple[Bundle, Sequence[Result]]], min_effect: float) -> FleetVerdict:
    members: dict[tuple[str, str], _Member] = {}
    count, stopped, bundles = 0, list[str](), list[Bundle]()
    labels: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for bundle, results in sorted(runs, key=lambda pair: pair[0].run.began):
        count += 1
        bundles.append(bundle)
        stand_in.refuse([bundle.run], "a fleet")
        stopped += [bundle.run.id] * (bundle.run.stopped_by("interrupted") and not bundle.run.part_of)
        for member in _members(bundle, results):
            members[member.key, member.model] = member
            labels.setdefault((member.key, member.model), []).append(bundle.run.labels)
    judged = _judged(list(members.values()), min_effect, count)
    stopped = [run for run in stopped if any(device.run == run for device in judged.devices)]
    lost = absent.of_runs(bundles)
    mixed = _mixed(list(labels.values()))
    state = with_missing(judged.state) if lost or mixed else judged.state
    return replace(judged, state=state, interrupted=stopped, missing=lost, mixed=mixed)


def _mixed(labels: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, list[str]]:
    """Labels of which most devices have runs of several values, with the values of the last runs where these differ on more than a few
    devices. `labels`: of each run of each device, oldest first."""
    several = [own for own in labels if len(own) > 1]
    names = dict.fromkeys(name for own in several for run in own for name in run)
    last = {name: Counter(own[-1].get(name, "") for own in labels) for name in names}
    changing = {name: sum(len({run.get(name, "") for run in own}) > 1 for own in several) for name in names}
    differ = [name for name in names if last[name].most_common(1)[0][1] < ALIKE * len(labels) and 2 * changing[name] > len(several)]
    return {name: sorted(last[name]) for name in differ}


def of_rows(rows: Sequence[Row], min_effect: float = MIN_EFFECT) -> FleetVerdict:
    """The devices of one run, whose rows are known."""
    results: dict[str, list[Result]] = {}
    for row in rows:
        results.setdefault(row.device, []).append(row.result)
    return _judged([_Member("", "", {}, device, "", found) for device, found in results.items()], min_effect, 1)


def _judged(members: Sequence[_Member], min_effect: float, runs: int) -> FleetVerdict:
    groups: dict[tuple[str, str], list[_Member]] = {}
    for member in members:
        groups.setdefault((member.model, member.results[0].target), []).append(member)
    devices: list[FleetDevice] = []
    cases: list[FleetCase] = []
    reach: dict[str, float | None] = {}
    for (model, _), group in groups.items():
        judged, seen, least = _group(group, min_effect)
        devices += judged
        cases += seen
        reach[model] = least
    devices.sort(key=_badness)
    counted = [len(result.values) for member in members for result in member.results if result.values]
    rounds = int(statistics.median(counted)) if counted else 0
    return FleetVerdict(_state(devices), devices, cases, min_effect, reach, rounds, runs, min(counted, default=None))


def _members(bundle: Bundle, results: Sequence[Result]) -> list[_Member]:
    run, models, facts = bundle.run, dict[str, str](), dict[str, DeviceFacts]()
    for device in run.machine.devices:
        models[device.key] = device.model
        uuid = "" if device.target == SIMULATED else device.uuid  # which is its name there
        facts[device.key] = DeviceFacts(run.began, run.hotlap, device.driver, device.serial, uuid, device.target == SIMULATED)
    by_device: dict[str, list[Result]] = {}
    for result in results:
        by_device.setdefault(result.device, []).append(result)
    whose = run.id, run.machine.host, dict(run.labels)
    return [
        _Member(*whose, key, models.get(key, ""), own, facts.get(key, DeviceFacts(run.began, run.hotlap))) for key, own in by_device.items()
    ]


ORDER: Sequence[State] = ("fail", "invalid", "error", "inconclusive", "pass", "measured", "not_run")


def _badness(device: FleetDevice) -> tuple[int, bool, bool, float]:
    """Worst state first, then those that stand out in all cases, by how far, then those that do in one."""
    size = device.level if device.code in ("slow", "fast") else min([case.size for case in device.off] or [0.0])
    return ORDER.index(device.state), not device.code, device.code != "slow", size if size is not None else 0.0


def _state(devices: Sequence[FleetDevice]) -> State:
    states = {device.state for device in devices}
    return next((state for state in ORDER[:5] if state in states), "not_run")


def _group(members: Sequence[_Member], min_effect: float) -> tuple[list[FleetDevice], list[FleetCase], float | None]:
    """Devices, cases and reach of one model on one target."""
    known = {result.case.id: result for member in members for result in member.results if _usable(result)}
    ids = list(known)
    rows, columns = range(len(members)), {case: place for place, case in enumerate(ids)}
    most = max((len(result.values) for member in members for result in member.results if _usable(result)), default=1)
    values = np.full((len(members), len(ids), most), np.nan)
    for row, member in zip(rows, members, strict=True):
        for result in member.results:
            if _usable(result) and result.unit == known[result.case.id].unit:
                values[row, columns[result.case.id], : len(result.values)] = result.values
    ways = [known[case].better for case in ids]
    answer = fleet.odd(values, ways, rate=RATE * CASE_SHARE / len(members)) if ids else _nothing(0)
    if len(members) >= fleet.FEWEST_NODES and ids:
        levels, all_cases = fleet.together(values, ways, answer, RATE * ALL_SHARE / len(members))
    else:
        levels, all_cases = np.full(len(members), np.nan), _nothing(1)
    off_all = {one.node: one for one in all_cases.odd}
    by_case: dict[int, list[fleet.Odd]] = {}
    for one in answer.odd:
        by_case.setdefault(one.node, []).append(one)
    wide = _slow_in_the_rest(values, ways, answer, off_all)
    judgeable = any(spread is not None for spread in answer.spread)
    labels = {case: work.label(known[case].case) for case in ids}
    devices = [
        _device(member, (off_all.get(row), float(levels[row])), [_off(one, ids, labels) for one in by_case.get(row, [])],
                (judgeable, min_effect, set(ids)), row in wide)
        for row, member in zip(rows, members, strict=True)
    ]  # fmt: skip
    medians = _medians(members)
    seen = [_case(known[case], labels[case], (members[0].model, medians[case]), (answer, place)) for place, case in enumerate(ids)]
    return devices, seen, all_cases.reach[0] if all_cases.reach else None


def _slow_in_the_rest(
    values: fleet.Floats, ways: Sequence[fleet.Better], answer: fleet.Fleet, off_all: Mapping[int, fleet.Odd]
) -> set[int]:
    """Of devices whose level over all cases is low those that are slower without the cases which are named by themselves too: one very
    slow case pulls the level down, and the device is not slower in all. One of which every case is named counts as well."""
    named = [one for one in answer.odd if one.node in off_all and one.kind == "shift"]
    if not off_all or not named:
        return set(off_all)
    rest = values.copy()
    for one in named:
        rest[one.node, one.metric] = np.nan
    _, others = fleet.together(rest, ways, answer, RATE * ALL_SHARE / len(values), least=0.0)
    none_left = {node for node in off_all if np.isnan(rest[node]).all()}
    return none_left | {one.node for one in others.odd if one.size < 0}


def _nothing(metrics: int) -> fleet.Fleet:
    return fleet.Fleet(odd=[], spread=[None] * metrics, noise=[None] * metrics, notices=[], reach=[None] * metrics)


def _usable(result: Result) -> bool:
    return result.status == "measured" and bool(result.values) and min(result.values) > 0


def _nothing_done(result: Result) -> bool:
    """A rate of zero: the worst there is, and no ratio says so."""
    rate = result.status == "measured" and result.better == "higher" and result.unit in units.RATES
    return rate and bool(result.values) and min(result.values) <= 0


def _off(odd: fleet.Odd, ids: Sequence[str], labels: dict[str, str]) -> OffCase:
    case = ids[odd.metric]
    return OffCase(case, labels[case], odd.size, odd.low, odd.high, odd.tail if odd.kind == "tail" else 0.0)


def _device(
    member: _Member, level: tuple[fleet.Odd | None, float], off: list[OffCase], rules: tuple[bool, float, set[str]], wide: bool
) -> FleetDevice:
    """`wide`: its level over all cases is not that of a few alone."""
    judgeable, min_effect, ids = rules
    whole, mean = level
    broken = [f"{work.label(r.case)}: {r.reason or r.status}" for r in member.results if r.status in ("invalid", "error")]
    broken += [f"{work.label(r.case)}: {units.show(min(r.values), r.unit)}" for r in member.results if _nothing_done(r)]
    measured = {result.case.id for result in member.results if _usable(result)}
    missing = [f"{work.label(r.case)}: {r.reason}" for r in member.results if r.status == "not_run" and r.case.id in ids]
    missing += ["a case that others measured is not in its run"] * bool(ids - measured - {r.case.id for r in member.results})
    if missing and not any(r.rounds for r in member.results):
        missing = ["no case was measured"]
    worse = sorted((case for case in off if case.size < 0 or case.tail), key=lambda case: case.size)
    state, code = _verdict(whole, worse, min_effect)
    if code == "slow" and worse and not wide:
        code = "slow_case"
    if state == "pass" and broken:
        state, code = "invalid" if any(r.status == "invalid" for r in member.results) else "error", "broken"
    elif state == "pass" and (missing or not judgeable or not measured):
        state, code = "inconclusive", "missing" if missing else ""
    if not code and (whole is not None or off):
        code = "fast"
    return FleetDevice(
        member.run, member.host, member.device, member.model, state, code, member.labels, None if np.isnan(mean) else mean,
        whole.low if whole else None, whole.high if whole else None, worse or off, missing, broken, member.facts,
    )  # fmt: skip


def _verdict(whole: fleet.Odd | None, worse: Sequence[OffCase], min_effect: float) -> tuple[State, Code]:
    """Fails where a loss is surely beyond the threshold; a loss that is surely within it passes, and is named."""
    if whole is not None and whole.size < 0 and whole.high < -min_effect:
        return "fail", "slow"
    if any(case.high < -min_effect and not case.tail for case in worse):
        return "fail", "slow_case"
    if whole is not None and whole.size < 0:
        return ("pass", "slight") if whole.low >= -min_effect else ("inconclusive", "slow")
    if worse:
        tails = all(case.tail for case in worse)
        slight = all(case.low >= -min_effect and not case.tail for case in worse)
        return ("pass", "slight") if slight else ("inconclusive", "tail" if tails else "slow_case")
    return "pass", ""


def _medians(members: Sequence[_Member]) -> dict[str, dict[str, float]]:
    """Of each case of each device: Case.id → key of the member → median."""
    found: dict[str, dict[str, float]] = {}
    for member in members:
        for result in member.results:
            if _usable(result):
                found.setdefault(result.case.id, {})[member.key] = statistics.median(result.values)
    return found


def _case(first: Result, label: str, of: tuple[str, dict[str, float]], answer: tuple[fleet.Fleet, int]) -> FleetCase:
    """`of`: the model, and the median of each of its devices."""
    (model, values), (known, place) = of, answer
    notices = [notice for notice in known.notices if notice.index == place]
    spread, noise, reach = (each[place] if place < len(each) else None for each in (known.spread, known.noise, known.reach))
    return FleetCase(first.case.id, label, model, first.unit, first.better, values, spread, noise, reach, notices)


def furthest_behind(runs: Iterable[tuple[Bundle, Sequence[Row]]], judged: FleetVerdict) -> list[tuple[Bundle, Row, float]]:
    """The case in which each device is slowest against the median of its model, and the share by which it is; the worst device first. Of a
    device that is named, the case and the share are those of its verdict."""
    named = {(one.host, one.device): one.off[0] for one in judged.named if one.off}
    groups: dict[tuple[str, str], list[tuple[Bundle, Row, float]]] = {}
    for bundle, rows in runs:
        models = {one.key: one.name for one in bundle.run.machine.devices}
        for row in rows:
            if row.summary.median and row.verdict.state not in ("invalid", "error"):
                groups.setdefault((row.case.id, models.get(row.device, "")), []).append((bundle, row, row.summary.median))
    worst: dict[tuple[str, str], tuple[Bundle, Row, float]] = {}
    for members in groups.values():
        middle = statistics.median(value for _, _, value in members)
        for bundle, row, value in members:
            behind = 1 - (value / middle if row.result.better == "higher" else middle / value)
            key = bundle.run.machine.host, row.device
            if off := named.get(key):
                behind = -off.size if off.case == row.case.id else 0.0
            if behind > 0 and (key not in worst or behind > worst[key][2]):
                worst[key] = bundle, row, behind
    return sorted(worst.values(), key=lambda one: -one[2])
