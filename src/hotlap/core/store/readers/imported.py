"""Numbers measured elsewhere, as runs: a bundle for each time, host, device and set of labels, so that every verb works on them."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

import hotlap
from hotlap.core import stand_in, units
from hotlap.core.errors import HotlapError, InputError, MachineError, nearest
from hotlap.core.record import IMPORTED, UNNAMED, Case, Device, Machine, Plan, RunRecord, Samples, Stop, encode
from hotlap.core.store import bundle, labels, lines, paths
from hotlap.core.store.files import READINGS, RUN, SAMPLES
from hotlap.core.store.readers import table
from hotlap.core.store.readers.source import FileTime, ReadCase, ReadRound, ReadRun
from hotlap.core.store.readers.table import ReadTable, TableRow
from hotlap.core.timing import AGGREGATE
from hotlap.core.work import program

LOWER = ("s", "W", "J", "°C", "V", "B")
Better = Literal["lower", "higher"]
LONG, SHORT = 12, 6  # digits that the id of an imported run ends in; fewer where no other run has them
COPIES_OF = 64  # new runs at most of which it is looked whether their numbers are there under other labels
MANY = 9  # devices from which runs of several days are a fleet, whose last run of each is judged
FLEET_OVER = 4  # devices: fewer are no fleet to compare one of them with
NO: Mapping[str, Better] = {}
Bundle = tuple[RunRecord, list[Samples]]


@dataclass(frozen=True)
class Imported:
    """What came of files: runs that are new, runs that were there, cases, and numbers that are none."""

    added: list[str]
    present: list[str]
    cases: dict[str, str]  # name → unit
    unreadable: int
    reasons: list[str]  # one for each of them, with its line
    conflicting: list[str]  # runs that were there with other numbers, units or directions; they are kept as they were
    not_run: list[str] = field(default_factory=list)  # cases that failed or were skipped, with the reason
    ignored: list[str] = field(default_factory=list)  # numbers whose meaning is not known
    columns: dict[str, str] = field(default_factory=dict)  # of a table: device and model → the column that was taken by its name
    not_model: str = ""  # of a table: a column called like the devices' model that is not taken for it
    of_file: list[str] = field(default_factory=list)  # new runs whose time is when their file was last written: the results say none
    copies: dict[str, str] = field(default_factory=dict)  # new runs whose numbers are there under other labels: which run has them
    beside: dict[str, str] = field(default_factory=dict)  # new runs, of whose time, host and device other numbers are there: in which run
    is_numbered: bool = False  # of a table: devices are called by their numbers in their hosts, and nothing says their model
    fleet: str = ""  # selects the runs, where they are of a fleet
    usable: int = 0  # results with a number that can be used


@dataclass(frozen=True)
class Meaning:
    """What the numbers of one case are."""

    unit: str
    better: Better


def bring_in(
    read: ReadTable, name: str, home: Path, better: Mapping[str, Better] = NO, unit: str = "", dry: bool = False
) -> Imported:
    """Keeps a table's rows as runs under `home`; `name` is the plan's. A group that was brought in before is left as it is. `better`:
    which way, by the case's name; "" is for those not named.

    Raises InputError for a case of mixed units and for one of which nobody says which way is better; nothing is written then.
    """
    rows = read.rows
    meanings = _meanings(read, better, unit)
    groups: dict[tuple[object, ...], list[TableRow]] = {}
    for row in rows:
        groups.setdefault((row.time_s, row.host, row.device, tuple(sorted(row.labels.items()))), []).append(row)
    places = _places(rows)
    names = {row.device for row in rows}
    real, numbered = all(UUID.fullmatch(name) for name in names), all(PLACE.fullmatch(name) for name in names)
    bundles = []
    for members in groups.values():
        first = members[0]
        device = _device(first, places[first.host, first.device], (first.device if real else "", numbered))
        bundles.append(_bundle(members, name, meanings, unit, device))
    cases = {case: meaning.unit for case, meaning in meanings.items()}
    columns = {what: column for what in ("device", "model") if (column := getattr(read, what))}
    undated = [isinstance(members[0].time_s, FileTime) for members in groups.values()]
    columns |= {"case": " and ".join(read.crossed)} if read.crossed else {}
    result = _keep_by_content(bundles, undated, home, cases, dry)
    is_numbered = numbered and not any(row.model for row in rows)
    return dataclasses.replace(result, columns=columns, not_model=read.not_model, is_numbered=is_numbered)


def bring_in_runs(runs: Sequence[ReadRun], name: str, home: Path, better: Mapping[str, Better] = NO, dry: bool = False) -> Imported:
    """Keeps what a reader made of files, as `bring_in` does. `name` is the format's: the plan is called after it."""
    cases: dict[str, str] = {}
    bundles = []
    for run in runs:
        bundles.append(_of_run(run, name, better))
        cases |= {str(case.params["name"]): str(case.params["unit"]) for case in bundles[-1][0].plan.cases}
    if unknown := next((name for name in better if name and name not in cases), ""):
        raise InputError(f"nothing is called '{unknown}' (--better); {nearest(unknown, cases)}")
    ignored = sorted({name for run in runs for name in run.ignored})
    undated = [isinstance(run.time_s, FileTime) for run in runs]
    return dataclasses.replace(_keep_by_content(bundles, undated, home, cases, dry), ignored=ignored)


def _keep_by_content(bundles: Sequence[Bundle], undated: Sequence[bool], home: Path, cases: dict[str, str], dry: bool) -> Imported:
    """`_keep_all`; a run without a time of its own is the one of the same content, whenever that file was written."""
    first: dict[str, str] = {}
    known: list[Bundle] = []
    bundles = _shortened(bundles, paths.runs(home))
    for (run, samples), of_file in zip(bundles, undated, strict=True):
        end = run.id.rpartition("-")[2]
        if of_file and end not in first:
            first[end] = present_id(paths.runs(home), run, samples)
        known.append((replace(run, id=first[end]) if of_file else run, samples))
    known, beside = _of_other_plans(known, paths.runs(home))
    result = _keep_all(known, home, cases, dry)
    dated_by_file = [run_id for run_id in result.added if run_id in first.values()]
    added_beside = {run_id: there for run_id, there in beside.items() if run_id in result.added}
    return dataclasses.replace(result, of_file=dated_by_file, beside=added_beside)


def _of_other_plans(bundles: Sequence[Bundle], folder: Path) -> tuple[list[Bundle], dict[str, str]]:
    """A plan is called after its file. Rows that a file of another name brought in before, as a copy or an earlier export, are the runs
    that are there. Those of other numbers are new: each with the run that is there."""
    times = {_time(run.id) for run, _ in bundles if not (folder / run.id).exists()}
    there: dict[object, dict[str, set[tuple[str | float, ...]]]] = {}
    for name in sorted(os.listdir(folder)) if times and folder.is_dir() else ():
        if _time(name) in times and (known := _loaded(folder / name)) and known.run.kind == IMPORTED:
            there.setdefault(_row(known.run), {})[name] = _numbers(known.samples)
    beside: dict[str, str] = {}
    kept = []
    for run, samples in bundles:
        alike = there.get(_row(run), {}) if not (folder / run.id).exists() else {}
        own, cases = _numbers(samples), {line.case for line in samples}
        same = next((name for name, numbers in alike.items() if numbers == own), "")
        other = next((name for name, numbers in alike.items() if not cases.isdisjoint(case for case, *_ in numbers)), "")
        if other and not same:
            beside[run.id] = other
        kept.append((replace(run, id=same or run.id), samples))
    return kept, beside


def _time(run_id: str) -> str:
    return run_id.rpartition("-")[0]


def _numbers(samples: Sequence[Samples]) -> set[tuple[str | float, ...]]:
    return {(line.case, *line.values) for line in samples}


def _shortened(bundles: Sequence[Bundle], folder: Path) -> list[Bundle]:
    """Ids end in as few digits as runs of Hotlap's do, unless another run, of these or in the home, has that id: of 4,000 two are alike in
    every other import."""
    short: dict[str, str] = {}
    whose: dict[str, str] = {}
    for run, _ in bundles:
        if run.id not in short:
            fewer = run.id[: SHORT - LONG]
            is_free = not (folder / fewer).exists() and not (folder / run.id).exists()
            is_own = whose.setdefault(fewer, run.id) == run.id if is_free else _is_same(folder / fewer, run)
            short[run.id] = fewer if is_own else run.id
    return [(replace(run, id=short[run.id]), samples) for run, samples in bundles]


def _is_same(folder: Path, run: RunRecord) -> bool:
    """Whether no other run lies there: one of another moment, device or labels."""
    try:
        there = bundle.read_run(folder)
    except HotlapError:
        return folder.exists()  # what cannot be read is refused later, by its name
    return _identity(there) == _identity(run)


def _identity(run: RunRecord) -> object:
    return run.plan.name, _row(run)


def _row(run: RunRecord) -> object:
    """What a row says beside its numbers; not which place its device has among others of a file."""
    called = [device.facts.get("called", device.uuid or device.name) for device in run.machine.devices]
    return run.began, run.machine.host, tuple(sorted(run.labels.items())), tuple(called)


def present_id(folder: Path, run: RunRecord, samples: Sequence[Samples]) -> str:
    """The id of an imported run of the same content that is there, of whatever time; the run's own where there is none."""
    if (folder / run.id).exists():
        return run.id
    there = sorted(folder.glob(f"[0-9]*T*-{run.id.rpartition('-')[2]}*"))
    return next((one.name for one in there if not _differs(folder / one.name, samples)), run.id)


def _keep_all(bundles: Sequence[Bundle], home: Path, cases: dict[str, str], dry: bool = False) -> Imported:
    """Writes the runs that are not there yet; those that are stay as they are, and are named where their content is another."""
    folder = paths.runs(home)
    known = {run.id for run, _ in bundles if (folder / run.id).exists()}
    fresh: dict[str, Bundle] = {}
    for run, samples in bundles:
        if run.id not in known:
            fresh.setdefault(run.id, (run, samples))
    copies = _copies(folder, fresh)
    if not dry:
        paths.create(folder)
        for run, samples in fresh.values():
            keep(folder, run, samples)
    failed = [line.reason for _, samples in bundles for line in samples if line.status == "error"]
    not_run = [
        f"{_name(run, line.case)}: {line.reason}" for run, samples in bundles for line in samples if line.status == "not_run"
    ]
    conflicting = [run.id for run, samples in bundles if run.id in known and _differs(folder / run.id, samples)]
    present = [run.id for run, _ in bundles if run.id in known]
    fleet = _fleet([run for run, _ in fresh.values()])
    usable = sum(bool(line.values) for _, samples in bundles for line in samples)
    return Imported(
        list(fresh), present, cases, len(failed), failed, conflicting,
        not_run=list(dict.fromkeys(not_run)), copies=copies, fleet=fleet, usable=usable,
    )  # fmt: skip


def _copies(folder: Path, fresh: Mapping[str, Bundle]) -> dict[str, str]:
    """New runs with the numbers of a run of the same time that is there: which one."""
    copies: dict[str, str] = {}
    for run_id, (run, samples) in fresh.items() if len(fresh) <= COPIES_OF else ():
        for there in sorted(folder.glob(f"{_time(run_id)}-*")):
            if (known := _loaded(there)) and known.run.kind == IMPORTED and _content(known.run, known.samples) == _content(run, samples):
                copies[run_id] = there.name
                break
    return copies


def distinct(bundles: Sequence[bundle.Bundle]) -> tuple[list[bundle.Bundle], dict[str, str]]:
    """Without imported runs whose time and numbers an earlier one of them has, as of one file that was brought in under several labels;
    and those, each with the run that is kept."""
    first: dict[object, str] = {}
    kept, copies = [], dict[str, str]()
    for one in bundles:
        own = one.run.id if one.run.kind != IMPORTED else first.setdefault((one.run.began, _content(one.run, one.samples)), one.run.id)
        if own == one.run.id:
            kept.append(one)
        else:
            copies[one.run.id] = own
    return kept, copies


def _content(run: RunRecord, samples: Sequence[Samples]) -> object:
    """What was measured, whatever it is called: devices and numbers."""
    names = {device.key: (device.name, device.uuid, device.index) for device in run.machine.devices}
    return run.machine.host, frozenset((names.get(line.device, line.device), line.case, line.round, *line.values) for line in samples)


def _fleet(runs: Sequence[RunRecord]) -> str:
    """Selects runs by their days, where they are of more than FLEET_OVER devices, and each of another one or the devices many; else ""."""
    devices = {(run.machine.host, key) for run in runs for key in run.devices}
    if len(devices) <= FLEET_OVER or len(devices) < min(len(runs), MANY):
        return ""
    days = sorted(run.began[:10] for run in runs)
    return days[0] if days[0] == days[-1] else f"{days[0]}..{days[-1]}"


def _name(run: RunRecord, case: str) -> str:
    return next((str(known.params.get("name", case)) for known in run.plan.cases if known.id == case), case)


def _differs(folder: Path, samples: Sequence[Samples]) -> bool:
    """Whether the run that is there holds other cases, of which unit and direction are part, or other numbers."""
    kept = _loaded(folder)
    return kept is not None and _numbers(kept.samples) != _numbers(samples)


def _loaded(folder: Path) -> bundle.Bundle | None:
    try:
        return bundle.load(folder)
    except HotlapError:
        return None


# ---------------------------------------------------------------- what a reader made


def _of_run(read: ReadRun, name: str, better: Mapping[str, Better]) -> Bundle:
    device = Device(target=IMPORTED, index=read.index, name=read.device or UNNAMED, kind="other", uuid=read.uuid)
    if device.name.endswith(stand_in.SUFFIX) or any(stand_in.PARAMETER in given.parameters for given in read.cases):
        device = stand_in.mark(device)
    cases: list[Case] = []
    samples: list[Samples] = []
    for given in _apart(read.cases):
        unit, scale = _base(given.unit)
        way = better.get(given.name) or better.get("") or given.better or _guess(given.name, unit)
        case = program.IMPORTED.case({"name": given.name, "unit": unit, "better": way, "parameters": list(given.parameters)})
        cases.append(case)
        how = [f"{AGGREGATE}{name}" if part.aggregate else "program" for part in given.rounds]
        rounds = enumerate(zip(given.rounds, how, strict=True))
        samples += [_round(part, case, device, (number, scale, method)) for number, (part, method) in rounds]
    content = repr([(line.case, line.round, line.status, line.values) for line in samples])
    text = repr((name, read.host, read.device, read.uuid, read.index, sorted(read.labels.items()), content))
    machine = Machine(host=read.host or UNNAMED, os=read.os, cpu=read.cpu, devices=[device], software=dict(read.software))
    return _run((read.time_s, hashlib.sha256(text.encode()).hexdigest()[:LONG]), name, cases, machine, read.labels), samples


def _apart(cases: Sequence[ReadCase]) -> list[ReadCase]:
    """Cases of one name and parameters get a number behind the name: which is which only their order says."""
    seen: dict[tuple[object, ...], int] = {}
    apart = []
    for case in cases:
        key = (case.name, case.parameters)
        seen[key] = seen.get(key, 0) + 1
        suffix = f" ({seen[key]})" if seen[key] > 1 else ""
        apart.append(ReadCase(f"{case.name or 'unnamed'}{suffix}", case.unit, case.rounds, case.parameters, case.better, case.place))
    return apart


def _round(part: ReadRound, case: Case, device: Device, how: tuple[int, float, str]) -> Samples:
    """A process's samples in the base unit; a failed one has none. `how`: its number, the unit's scale, the method."""
    number, scale, method = how
    values = [value * scale for value in part.values]
    if part.failed or not values:
        reason = part.failed or "no number"
        return Samples(case=case.id, device=device.key, round=number, status="not_run", reason=reason)
    least = min(values)
    if kind := _impossible(least, case):
        reason = f"{case.params['name']}: {least:g} is no {kind}"
        return Samples(case=case.id, device=device.key, round=number, status="error", reason=reason)
    return Samples(
        case=case.id, device=device.key, round=number, values=values, unit=str(case.params["unit"]), method=method,
        metrics=dict(part.metrics),
    )


# ---------------------------------------------------------------- what a table holds


def _meanings(read: ReadTable, better: Mapping[str, Better], unit: str) -> dict[str, Meaning]:
    cases = {name for row in read.rows for name in (row.case, row.column) if name}
    for name in better:
        if name and name not in cases:
            raise InputError(f"nothing is called '{name}' (--better); {nearest(name, cases)}")
    first: dict[str, tuple[str, str, int]] = {}
    meanings: dict[str, Meaning] = {}
    for row in read.rows:
        if row.case in first and first[row.case][0] == row.unit:
            continue
        base = _base(row.unit or unit)[0]
        _, known, line = first.setdefault(row.case, (row.unit, base, row.line))
        if known != base:
            both = f"in {known or 'no unit'} in line {line} and in {base or 'no unit'} in line {row.line}"
            raise InputError(f"'{row.case}' is {both}: give each its own name")
        if row.case not in meanings:
            way = better.get(row.case) or better.get(row.column) or better.get("")
            meanings[row.case] = Meaning(base, way or _guess(row.column or row.case, base, row.column != ""))
    return meanings


UUID = re.compile(r"(?:GPU-|MIG-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


_NUMBER = r"(?:(?:gpu|card|cuda|dev|device|rank|slot|accelerator|oam|nvidia|hip)[\s:_#-]*)?\d{1,4}"
PLACE = re.compile(rf"{_NUMBER}|[\da-f]{{4,8}}:[\da-f]{{2}}:[\da-f]{{2}}\.\d", re.IGNORECASE)


def _device(row: TableRow, place: int, known_by: tuple[str, bool]) -> Device:
    """`known_by`: a UUID only where the whole column holds real ones, and whether all names are numbers or PCI addresses in their hosts:
    then they are of one model, whose name nobody gave. Else a device is its place and its name, which is the model's where no other is."""
    uuid, numbered = known_by
    own = "" if uuid else f"device {row.device}" if row.device.isdigit() else row.device
    name = row.model or own or UNNAMED
    facts = {"called": row.device} if row.device and not uuid and row.device != name else {}
    machine = UNNAMED if numbered and not row.model else ""
    return Device(target=IMPORTED, index=place, name=name, kind="other", uuid=uuid, serial=row.serial, machine=machine, facts=facts)


def _places(rows: Iterable[TableRow]) -> dict[tuple[str, str], int]:
    """A device's place in its host, in the order of their names; GPU-10 comes after GPU-9."""
    hosts: dict[str, set[str]] = {}
    for row in rows:
        hosts.setdefault(row.host, set()).add(row.device)
    ordered = {host: sorted(devices, key=lambda name: (len(name), name)) for host, devices in hosts.items()}
    return {(host, device): place for host, devices in ordered.items() for place, device in enumerate(devices)}


def _base(unit: str) -> tuple[str, float]:
    """Base unit and scale; a unit of one's own stays as it is."""
    return units.base(unit) or (unit, 1.0)


def _guess(case: str, unit: str, column: bool = False) -> Better:
    if unit.endswith("/s") or unit.lower() in table.BITS:
        return "higher"
    if unit in LOWER:
        return "lower"
    question = f"which way is '{case}' better{f', in {unit}' if unit else ''}?"
    quoted = shlex.quote(case)
    setting = f"; a setting is --case {quoted}, or where a whole run has one --label-column {quoted}" if column and not unit else ""
    if setting and re.split(r"[\W_]+", case.lower())[-1] in ("index", "idx", "id", "num", "rank", "slot"):
        setting = f"; which device of its host a row is of is --device {shlex.quote(case)}{setting}"
    alone = f"--better {shlex.quote(f'{case}=lower')} for it alone"
    raise InputError(f"{question} give --better lower or higher, {alone}, or a unit such as ms or GB/s{setting}")


def _bundle(rows: Sequence[TableRow], name: str, meanings: Mapping[str, Meaning], unit: str, device: Device) -> Bundle:
    """One run: several rows of one case are rounds, in the order they stood."""
    first = rows[0]
    cases = {row.case: _case(row.case, meanings[row.case]) for row in rows}
    rounds: dict[str, int] = {}
    samples = []
    for row in rows:
        samples.append(_sample(row, cases[row.case], device, rounds.get(row.case, 0), unit))
        rounds[row.case] = rounds.get(row.case, 0) + 1
    machine = Machine(host=first.host or UNNAMED, devices=[device])
    known_by = ("", [(line.case, line.values) for line in samples]) if isinstance(first.time_s, FileTime) else (name, first.time_s)
    return _run((first.time_s, _hash(first, *known_by)), name, list(cases.values()), machine, first.labels), samples


def _run(when: tuple[float, str], name: str, cases: list[Case], machine: Machine, marks: Mapping[str, str]) -> RunRecord:
    """`when`: the time, and what tells runs of one time apart."""
    moment = datetime.fromtimestamp(when[0], UTC)
    began = moment.isoformat(timespec="milliseconds")
    return RunRecord(
        id=f"{moment:%Y%m%dT%H%M%S}-{when[1]}", began=began, ended=began, stops=[Stop("imported")], hotlap=hotlap.__version__,
        plan=Plan(name=name, cases=cases, source="hotlap import"), kind=IMPORTED, target=IMPORTED, machine=machine,
        devices=[device.key for device in machine.devices],
        labels=labels.check({_label(k): v.replace(",", " ").replace("\n", " ") for k, v in marks.items()}),
    )


def _case(name: str, meaning: Meaning) -> Case:
    return program.IMPORTED.case({"name": name, "unit": meaning.unit, "better": meaning.better})


def _label(name: str) -> str:
    """A label's name that no selector hides."""
    try:
        return next(iter(labels.check({name: ""})))
    except InputError:
        return f"imported_{name}"


def _hash(row: TableRow, name: str, content: object) -> str:
    """`content`: the time; of rows without a time of their own what they hold, whatever their file is called."""
    text = repr((name, content, row.host, row.device, sorted(row.labels.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:LONG]


def _sample(row: TableRow, case: Case, device: Device, number: int, unit: str) -> Samples:
    base, scale = _base(row.unit or unit)
    value = table.number(row.value) * scale
    fault = "" if math.isfinite(value) else f"'{row.value[:40]}' is not a number" if row.value else "no number"
    if not fault and (kind := _impossible(value, case)):
        fault = f"'{row.value[:40]}' is no {kind}"
    if fault:
        return Samples(case=case.id, device=device.key, round=number, status="error", reason=f"{fault}, in line {row.line}")
    return Samples(case=case.id, device=device.key, round=number, values=[value], unit=base, method="program")


def _impossible(value: float, case: Case) -> str:
    """What a number is not, for it is too small: a rate of which more is better is above zero, or nothing was done."""
    unit, lower = case.params["unit"], case.params["better"] == "lower"
    if unit == "s":
        return "duration, which is above zero" if value <= 0 else ""
    if unit in units.RATES and (value < 0 or (value == 0 and not lower)):
        return f"rate, which is {'not below' if lower else 'above'} zero"
    return ""


def keep(folder: Path, run: RunRecord, samples: Sequence[Samples]) -> None:
    """The bundle whole or not at all. Not synced one by one: what is lost can be brought in again."""
    beside = folder / f".{run.id}"
    try:
        beside.mkdir(exist_ok=True)
        (beside / RUN).write_bytes(encode(replace(run, kept=len(samples))) + b"\n")
        (beside / SAMPLES).write_bytes(b"".join(lines.line(line) for line in samples))
        (beside / READINGS).write_bytes(b"")
        beside.rename(folder / run.id)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        refused = f"the run '{folder / run.id}' cannot be written: {error.strerror}"
        raise MachineError(f"{refused}; those before it are kept, run the import again") from None
