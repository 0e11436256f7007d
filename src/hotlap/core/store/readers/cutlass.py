"""The CSV of the CUTLASS profiler: a line per problem and kernel, runtime in milliseconds."""

from __future__ import annotations

import csv
from pathlib import Path

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import FileTime
from hotlap.core.store.readers.table import TableRow

NEEDED = ("Operation", "Runtime")
SIZES = ("m", "n", "k", "batch_count")


def is_one(path: Path) -> bool:
    """Whether the first line has the profiler's columns."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            head = next(csv.reader(file), [])
    except OSError:
        return False
    return all(name in head for name in NEEDED)


def read(path: Path) -> list[TableRow]:
    """A row per kernel that ran; those whose disposition is not right keep it as their value, which is no number. Raises InputError."""
    when = FileTime(path.stat().st_mtime)
    rows = []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for number, line in enumerate(csv.DictReader(file), 2):
            sizes = " ".join(f"{name}={line[name]}" for name in SIZES if line.get(name))
            types = " ".join((line.get(name) or "").partition(":")[0] for name in ("A", "B", "C") if line.get(name))
            right = (line.get("Disposition") or "passed").lower() in ("passed", "not_verified", "")
            value = (line.get("Runtime") or "") if right else str(line.get("Disposition"))
            name = " ".join(part for part in (line["Operation"], sizes, types) if part)
            rows.append(TableRow(number, when, name, value, "ms", labels={"provider": line.get("Provider") or "CUTLASS"}))
    if not rows:
        raise InputError(f"{path} has no kernels: its first line is all there is")
    return rows
