"""Numbers measured elsewhere, as runs: one bundle for each time and set of labels, so that every verb works on them."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import hotlap
from hotlap.core import units
from hotlap.core.errors import HotlapError, InputError, MachineError, nearest
from hotlap.core.record import IMPORTED, Case, Device, Machine, Plan, Run, Samples, Stop, encode
from hotlap.core.store import bundle, labels, lines, paths
from hotlap.core.store.files import READINGS, RUN, SAMPLES
from hotlap.core.store.readers import table
from hotlap.core.store.readers.table import TableRow
from hotlap.core.work import program

LOWER = ("s", "W", "J", "°C", "V")
Better = Literal["lower", "higher"]
NO: Mapping[str, Better] = {}


@dataclass(frozen=True)
class Imported:
    """What came of a file: runs made, runs that were there, cases, and numbers that are none."""

    created: list[str]
    there: list[str]
    cases: dict[str, str]  # name → unit
    unreadable: int
    reasons: list[str]  # one for each of them, with its line
    otherwise: list[str]  # runs that were there with other numbers, units or directions; they are kept as they were


@dataclass(frozen=True)
class Meaning:
    """What the numbers of one case are."""

    unit: str
    better: Better


def bring_in(
    rows: Sequence[TableRow], name: str, home: Path, better: Mapping[str, Better] = NO, unit: str = "", dry: bool = False
) -> Imported:
    """Keeps rows as runs under `home`; `name` is the plan's. A group that was brought in before is left as it is. `better`: which
    way, by the case's name; "" is for those not named.

    Raises InputError for a case of mixed units and for one of which nobody says which way is better; nothing is written then.
    """
    meanings = _meanings(rows, better, unit)
    groups: dict[tuple[object, ...], list[TableRow]] = {}
    for row in rows:
        groups.setdefault((row.time_s, row.host, row.device, tuple(sorted(row.labels.items()))), []).append(row)
    places = _places(rows)
    bundles = [_bundle(members, name, meanings, unit, places[members[0].host, members[0].device]) for members in groups.values()]
    folder = paths.runs(home)
    there = [run.id for run, _ in bundles if (folder / run.id).exists()]
    known = set(there)
    fresh = [(run, samples) for run, samples in bundles if run.id not in known]
    if not dry:
        paths.create(folder)
        for run, samples in fresh:
            keep(folder, run, samples)
    reasons = [one.reason for _, samples in bundles for one in samples if one.status == "error"]
    otherwise = [run.id for run, samples in bundles if run.id in known and _meant_otherwise(folder, run, samples)]
    cases = {case: one.unit for case, one in meanings.items()}
    return Imported([run.id for run, _ in fresh], there, cases, len(reasons), reasons, otherwise)


def _meant_otherwise(folder: Path, run: Run, samples: Sequence[Samples]) -> bool:
    """Whether the run that is there holds other cases, of which unit and direction are part, or other numbers."""
    try:
        kept = bundle.load(folder / run.id)
    except HotlapError:
        return False
    return {(one.case, *one.seconds) for one in kept.samples} != {(one.case, *one.seconds) for one in samples}


def _meanings(rows: Sequence[TableRow], better: Mapping[str, Better], unit: str) -> dict[str, Meaning]:
    cases = {row.case for row in rows}
    for name in better:
        if name and name not in cases:
            raise InputError(f"nothing is called '{name}' (--better); {nearest(name, cases)}")
    first: dict[str, tuple[str, int]] = {}
    meanings: dict[str, Meaning] = {}
    for row in rows:
        base = _base(row.unit or unit)[0]
        known, line = first.setdefault(row.case, (base, row.line))
        if known != base:
            said = f"in {known or 'no unit'} in line {line} and in {base or 'no unit'} in line {row.line}"
            raise InputError(f"'{row.case}' is {said}: give each its own name")
        if row.case not in meanings:
            meanings[row.case] = Meaning(base, better.get(row.case) or better.get("") or _guess(row.case, base))
    return meanings


def _places(rows: Iterable[TableRow]) -> dict[tuple[str, str], int]:
    """A device's place in its host, in the order of their names; GPU-10 comes after GPU-9."""
    hosts: dict[str, set[str]] = {}
    for row in rows:
        hosts.setdefault(row.host, set()).add(row.device)
    ordered = {host: sorted(devices, key=lambda one: (len(one), one)) for host, devices in hosts.items()}
    return {(host, device): place for host, devices in ordered.items() for place, device in enumerate(devices)}


def _base(unit: str) -> tuple[str, float]:
    """Base unit and scale; a unit of one's own stays as it is."""
    return units.base(unit) or (unit, 1.0)


def _guess(case: str, unit: str) -> Better:
    if unit.endswith("/s") or unit.lower() in table.BITS:
        return "higher"
    if unit in LOWER:
        return "lower"
    said = f"which way is '{case}' better{f', in {unit}' if unit else ''}?"
    raise InputError(f"{said} give --better lower or higher, --better {case}=lower for it alone, or a unit such as ms or GB/s")


def _bundle(rows: Sequence[TableRow], name: str, meanings: Mapping[str, Meaning], unit: str, place: int) -> tuple[Run, list[Samples]]:
    """One run: several rows of one case are rounds, in the order they stood."""
    first = rows[0]
    cases = {row.case: _case(row.case, meanings[row.case]) for row in rows}
    device = Device(target=IMPORTED, index=place, name=first.device or "not said", kind="other", uuid=first.device)
    rounds: dict[str, int] = {}
    samples = []
    for row in rows:
        samples.append(_sample(row, cases[row.case], device, rounds.get(row.case, 0), unit))
        rounds[row.case] = rounds.get(row.case, 0) + 1
    moment = datetime.fromtimestamp(first.time_s, UTC)
    began = moment.isoformat(timespec="milliseconds")
    run = Run(
        id=f"{moment:%Y%m%dT%H%M%S}-{_hash(first, name)}", began=began, ended=began, stops=[Stop("imported")], kept=len(samples),
        hotlap=hotlap.__version__, plan=Plan(name=name, cases=list(cases.values()), source="hotlap import"), kind=IMPORTED, target=IMPORTED,
        machine=Machine(host=first.host or "not said", devices=[device]), devices=[device.key],
        labels=labels.check({_label(k): v.replace(",", " ") for k, v in first.labels.items()}),
    )
    return run, samples


def _case(name: str, meaning: Meaning) -> Case:
    given = {"name": name, "unit": meaning.unit, "better": meaning.better}
    return program.IMPORTED.case(given)


def _label(name: str) -> str:
    """A label's name that no selector hides."""
    try:
        return next(iter(labels.check({name: ""})))
    except InputError:
        return f"imported_{name}"


def _hash(row: TableRow, name: str) -> str:
    text = repr((name, row.time_s, row.host, row.device, sorted(row.labels.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _sample(row: TableRow, case: Case, device: Device, number: int, unit: str) -> Samples:
    base, scale = _base(row.unit or unit)
    value = table.number(row.value) * scale
    said = "" if math.isfinite(value) else f"'{row.value[:40]}' is not a number" if row.value else "no number"
    if not said and base == "s" and value <= 0:
        said = f"'{row.value[:40]}' is no duration, which is above zero"
    if said:
        return Samples(case=case.id, device=device.key, round=number, status="error", reason=f"{said}, in line {row.line}")
    return Samples(case=case.id, device=device.key, round=number, seconds=[value], method="program")


def keep(folder: Path, run: Run, samples: Sequence[Samples]) -> None:
    """The bundle whole or not at all. Not synced one by one: what is lost can be brought in again."""
    beside = folder / f".{run.id}"
    try:
        beside.mkdir(exist_ok=True)
        (beside / RUN).write_bytes(encode(run) + b"\n")
        (beside / SAMPLES).write_bytes(b"".join(lines.line(one) for one in samples))
        (beside / READINGS).write_bytes(b"")
        beside.rename(folder / run.id)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        said = f"the run '{folder / run.id}' cannot be written: {error.strerror}"
        raise MachineError(f"{said}; those before it are kept, run the import again") from None
