"""The tables of `hotlap export --as csv` and `--as parquet`: a line per round, nothing lost."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from hotlap.core.errors import InputError, Unavailable
from hotlap.core.store.readers.source import ReadCase, ReadRound, ReadRun, Source, moment, number

NAME = "hotlap"
BRINGS = "the tables that hotlap export writes, as CSV or Parquet: runs as they were, but for samples within a round"
ORIGIN = "run here: hotlap export --as csv and --as parquet"
COLUMNS = (
    "hotlap_run", "time", "host", "device", "uuid", "index", "labels", "case", "parameters", "unit", "better", "round", "value", "failed",
)  # fmt: skip
MAGIC = b"PAR1"


def detect(source: Source) -> bool:
    return source.data.startswith(",".join(COLUMNS).encode()) or (source.data[:4] == MAGIC and b"hotlap_run" in source.data[-65536:])


def read(source: Source) -> list[ReadRun]:
    runs: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in _rows(source):
        runs.setdefault((str(row["hotlap_run"]), str(row["uuid"]), str(row["index"])), []).append(row)
    return [_run(rows, source) for rows in runs.values()]


def _rows(source: Source) -> Iterable[Mapping[str, Any]]:
    if source.data[:4] != MAGIC:
        rows = list(csv.DictReader(io.StringIO(source.decoded)))
        for place, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise InputError(f"{source.path}:{place}: {len(COLUMNS)} fields are needed; is the file whole?")
        return rows
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(f"Parquet is read by pyarrow, which cannot be imported ({error})", "pip install pyarrow") from None
    try:
        return list(pyarrow.parquet.read_table(pyarrow.BufferReader(source.data), use_threads=False).to_pylist())
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{source.path}: not Parquet that can be read: {str(error)[:100]}") from None


def _run(rows: list[Mapping[str, Any]], source: Source) -> ReadRun:
    first, place = rows[0], str(source.path)
    cases: dict[tuple[str, ...], list[ReadRound]] = {}
    for row in rows:
        key = tuple(str(row[name]) for name in ("case", "parameters", "unit", "better"))
        failed = str(row["failed"] or "")
        cases.setdefault(key, []).append(ReadRound([] if failed else [number(row["value"], f"{place}, {row['case']}")], failed))
    kept = [
        ReadCase(name, unit, rounds, tuple(json.loads(given)), "higher" if better == "higher" else "lower", place)
        for (name, given, unit, better), rounds in cases.items()
    ]
    return ReadRun(
        kept, moment(first["time"], place), host=str(first["host"]), device=str(first["device"]), uuid=str(first["uuid"]),
        index=int(first["index"]), labels=json.loads(first["labels"]),
    )  # fmt: skip
