"""Baselines under the home: what is normal for a case on a device, learnt from runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import hotlap
from hotlap.core import stand_in, units
from hotlap.core.errors import InputError, MachineError, SchemaError, nearest
from hotlap.core.record import SCHEMA, Baseline, Reference, Result, encode, machine_class
from hotlap.core.stats import busy
from hotlap.core.store import files, lines, paths, select
from hotlap.core.store.bundle import Bundle

PROMOTED = "promoted"  # a file that holds the name of the one that is used where none is named
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def learn(
    name: str, bundles: Iterable[Bundle], before: Baseline | None = None, beside: list[Result] | None = None,
    empty: bool = False,
) -> Baseline:  # fmt: skip
    """A baseline of these runs, added to `before` where there is one. A run counts once, however often it is given.
    `beside`: takes the results during which other programs ran. `empty`: it may have no case.

    Raises InputError for a name that is none and for runs without a measured case.
    """
    if not NAME.fullmatch(name):
        raise InputError(f"'{name}' is no name for a baseline; valid: letters, digits, '.', '_' and '-', as in nightly-h200")
    references = {_key(one): one for one in before.references} if before else {}
    learnt = runs = 0
    for bundle in bundles:
        runs += 1
        stand_in.refuse([bundle.run], "a baseline")
        devices = {d.key: d for d in bundle.run.machine.devices}
        for result in select.results(bundle):
            if result.status == "measured" and result.values:
                device = devices.get(result.device)
                reference = Reference(
                    case=result.case, device=result.device, serial=device.serial if device else "", model=device.model if device else "",
                    target=result.target, host=bundle.run.machine.host, machine_class=machine_class(bundle.run.machine, device),
                    metric=result.metric, unit=result.unit, better=result.better, timing=result.timing,
                    runs={bundle.run.id: result.values},
                )
                known = references.get(_key(reference))
                references[_key(reference)] = (
                    msgspec.structs.replace(reference, runs={**known.runs, **reference.runs}) if known else reference
                )
                learnt += 1
                if beside is not None and busy.beside(result.notices):
                    beside.append(result)
    if not learnt and not empty:
        raise InputError(f"no case of {units.counted(runs, 'run')} was measured, so there is nothing to learn; 'hotlap show' says why")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Baseline(name=name, saved=now, hotlap=hotlap.__version__, references=list(references.values()))


def _key(reference: Reference) -> tuple[str, ...]:
    seen = reference.machine_class.text if reference.machine_class else ""
    one = reference
    return one.case.id, one.identity, one.serial, one.target, one.metric, one.unit, seen, one.timing


def save(baseline: Baseline, home: Path) -> Path:
    """Writes it whole, then in place. Raises MachineError."""
    return write(baseline, _folder(home) / f"{baseline.name}.json")


def write(baseline: Baseline, path: Path) -> Path:
    """The same as a file of the user's. Raises MachineError."""
    try:
        files.write_whole(path, msgspec.json.format(encode(baseline), indent=1) + b"\n")
    except OSError as error:
        raise MachineError(f"the baseline '{path}' cannot be written: {error.strerror or error}; nothing was changed") from None
    return path


def load(name: str, home: Path) -> Baseline:
    """By name; "" is the promoted one. Raises InputError when there is none, SchemaError for one that cannot be read."""
    if not name:
        name = promoted(home)
        if not name:
            raise InputError("no baseline is promoted: 'hotlap baseline save RUN --name N' learns one, then promote it")
    path = _folder(home) / f"{name}.json"
    if not path.is_file():
        have = names(home)
        hint = f"a file is given without 'baseline:', as {name}" if Path(name).is_file() else nearest(name, have)
        raise InputError(f"there is no baseline '{name}'; {hint or 'none is saved yet: hotlap baseline save RUN --name N'}")
    return read(path)


class _Head(msgspec.Struct):
    """What is read of any version."""

    schema: int = 0
    hotlap: str = "of another version"
    references: list[msgspec.Raw] | None = None


def read(path: Path) -> Baseline:
    """A baseline from its file. Raises SchemaError for one that cannot be read, InputError for a file that is none."""
    try:
        content = path.read_bytes()
        head = msgspec.json.decode(content, type=_Head)
        if head.references is None:
            raise InputError(f"'{path}' is JSON but no baseline; 'hotlap baseline save RUN --to FILE' writes one")
        if head.schema > SCHEMA:
            raise SchemaError(f"{path} is of schema {head.schema}, written by Hotlap {head.hotlap}; this Hotlap reads up to {SCHEMA}")
        return msgspec.json.decode(content, type=Baseline)
    except lines.UNREADABLE as error:
        raise SchemaError(f"{path}: not a baseline that can be read: {error}; save it again from its runs") from None


def names(home: Path) -> list[str]:
    return sorted(path.stem for path in _folder(home).glob("*.json"))


def promoted(home: Path) -> str:
    """The name of the baseline used where none is named; "" when there is none."""
    path = _folder(home) / PROMOTED
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def promote(name: str, home: Path) -> None:
    """Makes a baseline the one that is used where none is named."""
    load(name, home)
    files.write_whole(_folder(home) / PROMOTED, f"{name}\n".encode())


def _folder(home: Path) -> Path:
    return paths.create(home / "baselines")
