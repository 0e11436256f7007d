"""google-benchmark --benchmark_format=json, and its CSV: iterations rows only, aggregates never beside them."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, exported, has, moment, number, objects, texts
from hotlap.core.units import base as base_unit
from hotlap.core.where import Cpu

NAME = "google-benchmark"
BRINGS = (
    "real time of each repetition (of one process), or the aggregate where only that was kept, with its repetitions and spread; rates, CPU "
    "time and counters as metrics; benchmarks with an error as not run"
)
ORIGIN = "google-benchmark 1.7.1, run here: --benchmark_repetitions=3 --benchmark_format=json and =csv"
CSV = b"name,iterations,real_time,cpu_time,time_unit"
UNITS = ("ns", "us", "ms", "s")
HOTLAP = "hotlap_version"  # of a file that Hotlap exported, where how many processors there were may not be known
PREFERRED = ("median", "mean")
NO_METRIC = (
    "real_time", "cpu_time", "family_index", "per_family_instance_index", "repetition_index", "repetitions", "threads", "iterations",
)  # fmt: skip


def detect(source: Source) -> bool:
    return source.data.startswith(CSV) or b"\n" + CSV in source.data[:4096] or (
        has(source.json, "context", "benchmarks") and isinstance(context := source.json["context"], dict)
        and not {"num_cpus", HOTLAP}.isdisjoint(context)
    )


def read(source: Source) -> list[ReadRun]:
    if source.json is None:
        return [ReadRun(_cases(_csv(source), str(source.path)), source.modified_s)]
    context = source.json["context"]
    rows = objects(source.json["benchmarks"], f"{source.path}: benchmarks")
    cpus = context.get("num_cpus")
    return [ReadRun(
        _cases(rows, str(source.path)), moment(context["date"], f"{source.path}: date") if context.get("date") else source.modified_s,
        host=str(context.get("host_name", "")), cpu=Cpu(threads=cpus if isinstance(cpus, int) and cpus > 0 else None),
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
    metrics = _metrics([row for _, row in chosen], str(unit))
    if not measured:
        metrics |= _aggregated(by_name, values[0])
    return ReadCase(name, str(unit), [ReadRound(values, metrics=metrics, aggregate=not measured)], better="lower", place=place)


def _metrics(rows: Sequence[Fields], unit: str) -> dict[str, float]:
    """What else the rows say in numbers, the median of each: rates, CPU time, a benchmark's own counters."""
    names = dict.fromkeys(name for row in rows for name in row if name not in NO_METRIC)
    known = {name: [value for row in rows if (value := _finite(row.get(name))) is not None] for name in names}
    scale = (base_unit(unit) or (unit, 1.0))[1]
    timed = [row for row in rows if not isinstance(own := row.get("hotlap"), dict) or own.get("cpu_time_measured", True)]
    known["cpu_time_s"] = [value * scale for row in timed if (value := _finite(row.get("cpu_time"))) is not None]
    return {name: statistics.median(values) for name, values in known.items() if values}


def _aggregated(by_name: Mapping[Any, tuple[str, Fields]], value: float) -> dict[str, float]:
    """Of an aggregate: of how many repetitions, and by how much of the value they vary (standard deviation)."""
    rows = [row for _, row in by_name.values()]
    repetitions = next((count for row in rows if (count := _finite(row.get("repetitions") or row.get("iterations")))), None)
    stddev = _finite(by_name["stddev"][1].get("real_time")) if "stddev" in by_name else None
    noise = _finite(by_name["cv"][1].get("real_time")) if "cv" in by_name else stddev / value if stddev is not None and value else None
    return {name: number for name, number in (("samples", repetitions), ("noise", noise)) if number is not None}


def _finite(value: Any) -> float | None:
    """A number, also one of CSV; None for what is none."""
    try:
        return float(value) if not isinstance(value, bool) and math.isfinite(float(value)) else None
    except (TypeError, ValueError):
        return None
