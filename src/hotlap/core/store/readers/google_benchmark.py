"""google-benchmark --benchmark_format=json, and its CSV: iterations rows only, aggregates never beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, exported, has, moment, number, objects, texts
from hotlap.core.where import Cpu

NAME = "google-benchmark"
BRINGS = "real time of each repetition (of one process), or the aggregate where only that was kept; benchmarks with an error as not run"
ORIGIN = "google-benchmark 1.7.1, run here: --benchmark_repetitions=3 --benchmark_format=json and =csv"
CSV = b"name,iterations,real_time,cpu_time,time_unit"
UNITS = ("ns", "us", "ms", "s")
PREFERRED = ("median", "mean")


def detect(source: Source) -> bool:
    return source.data.startswith(CSV) or b"\n" + CSV in source.data[:4096] or (
        has(source.json, "context", "benchmarks") and isinstance(source.json["context"], dict) and "num_cpus" in source.json["context"]
    )


def read(source: Source) -> list[ReadRun]:
    if source.json is None:
        return [ReadRun(_cases(_csv(source), str(source.path)), source.modified_s)]
    context = source.json["context"]
    rows = objects(source.json["benchmarks"], f"{source.path}: benchmarks")
    cpus = context.get("num_cpus")
    return [ReadRun(
        _cases(rows, str(source.path)), moment(context["date"], f"{source.path}: date") if context.get("date") else source.modified_s,
        host=str(context.get("host_name", "")), cpu=Cpu(threads=cpus if isinstance(cpus, int) else None),
        labels=texts({"build": context.get("library_build_type")}),
    )]  # fmt: skip


def _csv(source: Source) -> list[Fields]:
    """Rows of the CSV; those of a benchmark with an error have fewer fields."""
    text = source.decoded
    return list(csv.DictReader(io.StringIO(text[text.index("name,iterations") :])))


def _cases(rows: Iterable[Fields], where: str) -> list[ReadCase]:
    groups: dict[str, list[tuple[str, Fields]]] = {}
    for place, row in enumerate(rows, 1):
        groups.setdefault(str(row.get("run_name") or row.get("name") or ""), []).append((f"{where}: benchmark {place}", row))
    return [_case(name, members) for name, members in groups.items()]


def _case(name: str, members: list[tuple[str, Fields]]) -> ReadCase:
    """Repetitions of one benchmark; of aggregates alone the median, else the mean."""
    place, first = members[0]
    measured = [member for member in members if member[1].get("run_type", "iteration") == "iteration"]
    by_name = {row.get("aggregate_name"): (where, row) for where, row in members}
    chosen = measured or [by_name[kind] for kind in PREFERRED if kind in by_name][:1]
    if not chosen:
        raise InputError(f"{place}: '{name}' has neither repetitions nor a median")
    own = chosen[0][1].get("hotlap")
    if isinstance(own, dict):  # what `hotlap export` wrote: the numbers in their own unit
        return exported(own, [row["hotlap"].get("value") for _, row in chosen], place)
    failed = next((str(row.get("error_message") or "error") for _, row in chosen if row.get("error_occurred") in (True, "true")), "")
    if failed:
        return ReadCase(name, "s", [ReadRound([], failed)], better="lower", place=place)
    unit = first.get("time_unit")
    if unit not in UNITS or any(row.get("time_unit") != unit for _, row in chosen):
        raise InputError(f"{place}: time_unit is '{unit}'; valid: {', '.join(UNITS)}, the same for all repetitions")
    values = [number(row.get("real_time"), f"{where}, real_time") for where, row in chosen]
    return ReadCase(name, str(unit), [ReadRound(values)], better="lower", place=place)
