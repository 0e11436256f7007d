"""The devices of one model against each other: which of a run are outliers in which case, and whether the fleet can be its own reference.

A run is compared with the latest run of each other device. What is said of the fleet is said from the same verdicts as the run's
table, so that the two cannot contradict each other: the fleet's own test (`stats.fleet`) can only make a verdict worse.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.analysis import changes
from hotlap.core.analysis.compare import MIN_EFFECT
from hotlap.core.analysis.matching import FEWEST_RUNS
from hotlap.core.analysis.reference import ReferenceRatio, against, decided, device_of
from hotlap.core.analysis.standards import unmeasured
from hotlap.core.record import UNNAMED, Finding, Machine, Notice, Reference, Row, Verdict, identity
from hotlap.core.stats import fleet
from hotlap.core.units import percent, show

APART, LEAST = 3.0, 0.05  # of two groups: their gap by what they differ within, and as a logarithm
ENOUGH_RUNS = 10  # of a device, for runs to be its samples
LOOK = "look at its clocks, power, temperature and link beside a healthy one"
Where = tuple[str, str, str]
"""Reference.identity, Reference.target, Case.id."""


class FleetPeer(NamedTuple):
    """What is known of one case on one device, with what is asked of it again for every run that is judged."""

    reference: Reference
    identity: str  # Reference.identity
    case: str  # Case.id
    usable: bool  # a ratio says something: it is better one way, and all values are above zero

    @property
    def where(self) -> Where:
        return self.identity, self.reference.target, self.case


def peers(references: Iterable[Reference]) -> list[FleetPeer]:
    """References as the fleet's test takes them."""
    return [FleetPeer(one, one.identity, one.case.id, _usable(one)) for one in references]


def _usable(reference: Reference) -> bool:
    return reference.better in ("higher", "lower") and all(v > 0 for values in reference.runs.values() for v in values)


class Latest:
    """Each device by its latest run; `by` a run that is judged: the devices of that run as it saw them. `order`: Run.ids, oldest first."""

    def __init__(self, known: Iterable[Reference], order: Sequence[str]) -> None:
        age = {one: n for n, one in enumerate(order)}
        self._of: dict[str, dict[tuple[str, ...], Reference]] = {}
        newest: dict[tuple[str, ...], tuple[int, Reference]] = {}
        for reference in known:
            key = (reference.identity, reference.target, reference.case.id, reference.unit)
            for run in reference.runs:
                self._of.setdefault(run, {}).setdefault(key, reference)
            chosen = max(reference.runs, key=lambda name: age.get(name, -1))
            if key not in newest or age.get(chosen, -1) > newest[key][0]:
                newest[key] = age.get(chosen, -1), _by(reference, chosen)
        self._newest = dict(zip(newest, peers(one for _, one in newest.values()), strict=True))

    def by(self, run: str) -> list[FleetPeer]:
        own = self._of.get(run, {})
        return list({**self._newest, **dict(zip(own, peers(_by(one, run) for one in own.values()), strict=True))}.values())


def _by(reference: Reference, run: str) -> Reference:
    return reference if len(reference.runs) == 1 else replace(reference, runs={run: reference.runs[run]})


class _Survey(NamedTuple):
    """What the fleet's own test says of all devices."""

    odd: dict[Where, fleet.Odd]
    sizes: dict[Where, int]  # devices that measured the case of an odd one
    unsure: dict[tuple[str, str, str], Notice]  # model, target, Case.id: why the fleet cannot be its own reference
    notices: list[Finding]


@dataclass(frozen=True)
class AgainstFleet:
    """The other devices of the same model. `fleet`: every device by one run (see `Latest`), those of the run that is judged too."""

    fleet: Sequence[FleetPeer]
    machine: Machine
    min_effect: float = MIN_EFFECT
    also: frozenset[str] = frozenset()  # RunRecord.ids that are judged as well, and speak for themselves
    cases: frozenset[str] | None = None  # Case.ids of the rows, where only they are to be looked at; None: all are

    @property
    def name(self) -> str:
        return "fleet"

    def judge(self, rows: Sequence[Row]) -> list[Verdict]:
        found = decided([unmeasured(row) or self._held(row) for row in rows], self.name, self.min_effect)
        return [self._doubted(row, one) for row, one in zip(rows, found, strict=True)]

    @cached_property
    def _by_case(self) -> dict[str, list[Reference]]:
        found: dict[str, list[Reference]] = {}
        for one in self.fleet:
            if self.cases is None or one.case in self.cases:
                found.setdefault(one.case, []).append(one.reference)
        return found

    @cached_property
    def _survey(self) -> _Survey:
        return survey(self.fleet, self.cases)

    def _where(self, row: Row) -> Where:
        return identity(row.device, row.result.target, self.machine.host), row.result.target, row.case.id

    def _held(self, row: Row) -> ReferenceRatio | Verdict:
        device, wanted = device_of(self.machine, row), self._where(row)[0]
        same = [
            one for one in self._by_case.get(row.case.id, [])
            if one.target == row.result.target and one.unit == row.result.unit
            and one.identity != wanted and device is not None and one.model == device.model and _usable(one)
        ]
        medians = [statistics.median(statistics.median(values) for values in one.runs.values()) for one in same]
        if len(medians) < FEWEST_RUNS:
            others = f"{len(medians)} other device{'s' * (len(medians) != 1)}"
            reason = f"{others} {_of_model(device.model if device else '')} measured this case; {FEWEST_RUNS} are needed for a fleet"
            return Verdict(state="inconclusive", reason=reason, against=self.name)
        whose = f"{len(medians)} other devices {_of_model(device.model if device else '')}"
        return against(row, medians, [[v for values in one.runs.values() for v in values] for one in same], whose, self.name)

    def _doubted(self, row: Row, verdict: Verdict) -> Verdict:
        """A verdict that the fleet's own test does not bear out: nobody that it names passes, unless surely within the threshold."""
        device, where = device_of(self.machine, row), self._where(row)
        unsure = self._survey.unsure.get((device.model if device else "", where[1], where[2]))
        if unsure and verdict.state in ("pass", "fail"):
            return replace(verdict, state="inconclusive", reason=unsure.text, code=unsure.code)
        if verdict.state in ("inconclusive", "fail") and verdict.ratio is not None and (groups := self._groups(row, where)):
            return replace(verdict, state="inconclusive", reason=groups, code="two_groups")
        odd = self._survey.odd.get(where)
        if verdict.state != "pass" or odd is None or (odd.kind == "shift" and (odd.size > 0 or self._slight(verdict))):
            return verdict
        if odd.kind == "tail":
            return replace(verdict, state="inconclusive", reason=_tailed(odd, self._survey.sizes[where]))
        reason = f"{_worse(row, verdict)} than the others: the interval holds the threshold of {percent(self.min_effect)}"
        return replace(verdict, state="inconclusive", reason=reason)

    def _groups(self, row: Row, where: Where) -> str:
        """Where devices of the row's model fall into two groups, so that each is no reference for the other, which; else ""."""
        model = self._model(where)
        same = [one for one in self._by_case.get(where[2], []) if (one.model, one.target, one.unit) == (model, where[1], row.result.unit)]
        parts = parted([statistics.median(statistics.median(values) for values in one.runs.values()) for one in same])
        if not parts:
            return ""
        sizes = " and ".join(f"{len(part)} near {show(statistics.median(part), row.result.unit)}" for part in parts)
        return f"the devices form two groups, {sizes}: the fleet cannot be its own reference; give a limit, or a baseline"

    def _slight(self, verdict: Verdict) -> bool:
        return verdict.low is not None and verdict.low >= 1 - self.min_effect

    def _model(self, where: Where) -> str:
        return next((one.model for one in self._by_case.get(where[2], []) if (one.identity, one.target) == where[:2]), "")

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        """A finding for each judged row whose device is an outlier, the worst first; devices of other runs that are; and cases for which
        the fleet cannot be its own reference."""
        ordered = sorted(rows, key=lambda row: (row.verdict.state != "fail", row.verdict.ratio if row.verdict.ratio is not None else 1.0))
        own = [found for row in ordered if (found := self._finding(row))]
        cases = {row.case.id for row in rows}
        here = {self._where(row)[:2] for row in rows}
        here |= {one.where[:2] for one in self.fleet if not self.also.isdisjoint(one.reference.runs)}
        others = [
            Finding(
                title=f"{where[0]} is an outlier in {(label := work.label(self._by_case[where[2]][0].case))}", severity="info",
                cases=[where[2]],
                detail=f"{_level(odd, self._survey.sizes[where], self._by_case[where[2]][0], self._model(where))}; "
                "its latest run, which is not judged here",
                action=_action(rows[0]), where=where[0], evidence={"case": label},
            )
            for where, odd in self._survey.odd.items()
            if where[:2] not in here and where[2] in cases and (odd.kind == "tail" or odd.low < -self.min_effect)
        ]
        open_ones = {row.case.id for row in rows if row.verdict.state == "inconclusive"}
        return own + others + [one for one in self._survey.notices if set(one.cases) & open_ones]

    def _finding(self, row: Row) -> Finding | None:
        verdict, where = row.verdict, self._where(row)
        odd = self._survey.odd.get(where)
        worse = verdict.state in ("fail", "inconclusive") and verdict.high is not None and verdict.high < 1
        if verdict.ratio is None or verdict.code or not (odd or worse):
            return None
        size = self._survey.sizes.get(where, 0)
        tailed = odd is not None and odd.kind == "tail" and verdict.state != "fail"
        detail = _tailed(odd, size) if odd and tailed else f"{_worse(row, verdict)} than the others {_of_model(self._model(where))}"
        if verdict.state == "pass":
            detail += "" if verdict.ratio > 1 else f", less than the threshold of {percent(self.min_effect)}"
        severity = {"fail": "error", "inconclusive": "warning"}.get(verdict.state, "info")
        title = f"{where[0]} is {'an outlier' if severity != 'info' else 'unlike the others'} in {row.label}"
        return Finding(
            title=title, cases=[row.case.id], severity=severity, detail=detail, action=_action(row),  # type: ignore[arg-type]
            where=where[0], evidence={"case": row.label},
        )


def parted(values: Sequence[float]) -> tuple[list[float], list[float]] | None:
    """Two groups of two or more, each at least a quarter of all, further from each other than `APART` times what either differs within, and
    than `LEAST`; None: there are not."""
    ordered = sorted(values)
    if len(ordered) < 4 or ordered[0] <= 0:
        return None
    logs = [math.log(value) for value in ordered]
    few = max(2, math.ceil(fleet.RIVAL * len(logs)))
    place = max(range(few, len(logs) - few + 1), key=lambda at: logs[at] - logs[at - 1])
    gap, within = logs[place] - logs[place - 1], max(logs[place - 1] - logs[0], logs[-1] - logs[place])
    return (ordered[:place], ordered[place:]) if gap > max(APART * within, LEAST) else None


def _action(row: Row) -> str:
    return LOOK if row.result.imported else f"measure it again; {LOOK}"


def _worse(row: Row, verdict: Verdict) -> str:
    """The same numbers as in the table."""
    assert verdict.ratio is not None
    way = "worse" if verdict.ratio < 1 else "better"
    return f"{changes.subject(row.result)} {changes.sized(row.result, verdict.ratio, verdict.low, verdict.high)}, {way}"


def _of_model(model: str) -> str:
    return "of unknown model" if model in ("", UNNAMED) else "of its model"


def _level(odd: fleet.Odd, devices: int, of: Reference, model: str) -> str:
    if odd.kind == "tail":
        return _tailed(odd, devices)
    size = changes.sized(of, 1 + odd.size, 1 + odd.low, 1 + odd.high)
    return f"{changes.subject(of)} {size}, {'worse' if odd.size < 0 else 'better'} than {devices - 1} other devices {_of_model(model)}"


def _tailed(odd: fleet.Odd, devices: int) -> str:
    return f"{100 * odd.tail:.0f} % of its samples lie in the slowest hundredth of {devices} devices, though its level is usual"


# ---------------------------------------------------------------- the fleet's own test


def survey(known: Sequence[FleetPeer], cases: Collection[str] | None = None) -> _Survey:
    """Outliers, by model and target. Fleets of fewer than 5 devices say nothing. `cases`: only of these Case.ids, by the rate that is
    theirs among all."""
    surveyed = _Survey({}, {}, {}, [])
    groups: dict[tuple[str, str], list[FleetPeer]] = {}
    for one in known:
        if one.usable:
            groups.setdefault((one.reference.model, one.reference.target), []).append(one)
    for group, members in groups.items():
        if len({one.identity for one in members}) >= fleet.FEWEST_NODES:
            _surveyed(surveyed, group, members, cases)
    return surveyed


def _surveyed(surveyed: _Survey, group: tuple[str, str], members: Sequence[FleetPeer], only: Collection[str] | None) -> None:
    devices = list(dict.fromkeys(one.identity for one in members))
    every = {one.case: one.reference for one in members}
    cases = {case: of for case, of in every.items() if only is None or case in only}
    if not cases:
        return
    ids = list(cases)
    answer = fleet.odd(_table(members, devices, ids), [one.better for one in cases.values()], of=len(every))
    for one in answer.odd:
        where = devices[one.node], group[1], ids[one.metric]
        surveyed.odd[where] = one
        surveyed.sizes[where] = len({member.identity for member in members if member.case == where[2]})
    for notice in answer.notices:
        if notice.index is None:
            continue
        case, unknown = cases[ids[notice.index]].case, answer.spread[notice.index] is None
        if unknown:
            surveyed.unsure[(*group, case.id)] = notice
        title = "cannot be judged" if unknown else "less certain"
        surveyed.notices.append(Finding(title=title, rule=notice.code, cases=[case.id], detail=f"{work.label(case)}: {notice.text}"))


def _table(members: Sequence[FleetPeer], devices: Sequence[str], cases: Sequence[str]) -> NDArray[np.float64]:
    """Devices × cases × samples; NaN where there is none, up to the most samples of any case."""
    by_run = statistics.median(len(one.reference.runs) for one in members) >= ENOUGH_RUNS
    most = max(len(runs) if by_run else sum(map(len, runs.values())) for runs in (one.reference.runs for one in members))
    values = np.full((len(devices), len(cases), most), np.nan)
    rows = {name: n for n, name in enumerate(devices)}
    columns = {case: n for n, case in enumerate(cases)}
    for one in members:
        if (column := columns.get(one.case)) is not None:
            own = _samples(one.reference, by_run)
            values[rows[one.identity], column, : len(own)] = own
    return values


def _samples(reference: Reference, by_run: bool) -> list[float]:
    """Rounds of one run are alike: taken for samples of their own, a slow run or two make a slow tail. `by_run`: there are enough runs."""
    runs = reference.runs.values()
    return [statistics.median(values) for values in runs] if by_run else [value for values in runs for value in values]
