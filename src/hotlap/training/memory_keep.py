"""Answers of `training memory` in a bundle: what was asked, each account, and what it was compared with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from hotlap.core.errors import SchemaError
from hotlap.core.measure import runs
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import IMPORTED, METHOD, Device, Machine, MeasureOptions, Plan, Stop, encode
from hotlap.core.store import files, labels
from hotlap.core.store.bundle import Bundle
from hotlap.training.memory_record import KIND, MEMORY, MemoryReport


def keep(report: MemoryReport, marks: Mapping[str, object], home: Path) -> Path:
    """A bundle's folder. No device is held meanwhile: bytes do not change with what else runs. Raises MachineError."""
    recorded = report.accounts[0].how == "snapshot"
    device = _elsewhere(report) if recorded else host.describe()
    machine = Machine(host=Path(report.target).name, os="", devices=[device]) if recorded else fingerprint([device])
    about, measure = f"peak memory of {Path(report.target).name}", MeasureOptions(readings_hz=0)
    plan = Plan(name="memory", about=about, source="hotlap training memory", measure=measure)
    checked = labels.check(dict(marks))
    record = runs.record(plan, device.target, [device], machine, kind=KIND, method=METHOD, labels=checked, seed=0)
    with runs.begin(record, [device], home, held=True) as kept:
        files.write_whole(kept.writer.path / MEMORY, msgspec.json.format(encode(report), indent=2) + b"\n")
        kept.finish([Stop("imported" if recorded else "rounds_max")])
    return kept.writer.path


def _elsewhere(report: MemoryReport) -> Device:
    """The GPU of a snapshot, which does not say what it is."""
    index = report.accounts[0].device or 0
    return Device(target=IMPORTED, index=index, name=f"GPU {index}", kind="other")


def read(bundle: Bundle) -> MemoryReport | None:
    """None where the run was killed before its answer was written. Raises SchemaError for a file that is none."""
    contents = files.long(bundle.path, (MEMORY,))
    if MEMORY not in contents:
        return None
    try:
        return msgspec.json.decode(contents[MEMORY], type=MemoryReport)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{MEMORY}: {error}") from None
