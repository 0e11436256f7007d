"""pyperf -o: each run with values is a worker process, thus a round; values are seconds a loop turn. Calibration runs have none."""

from __future__ import annotations

from typing import Any

from hotlap.core.store.readers.source import (
    Better,
    Fields,
    ReadCase,
    ReadRound,
    ReadRun,
    Source,
    has,
    moment,
    numbers,
    objects,
    parameters,
    texts,
)
from hotlap.core.where import Cpu

NAME = "pyperf"
BRINGS = "values of each worker process as a round, the statement of timeit, machine; without warm-up values and calibration runs"
ORIGIN = "pyperf 2.11.0, run here: python -m pyperf timeit -o, and --append with a second benchmark"
UNITS: dict[str, tuple[str, Better]] = {"second": ("s", "lower"), "byte": ("B", "lower"), "integer": ("1", "")}


def detect(source: Source) -> bool:
    document = source.json
    listed = document["benchmarks"] if has(document, "version", "benchmarks") else None
    return isinstance(listed, list) and bool(listed) and all(has(one, "runs") and isinstance(one["runs"], list) for one in listed)


def read(source: Source) -> list[ReadRun]:
    """What all benchmarks have in common stands in the file once, what all runs of one have in common once with it."""
    shared = _of(source.json)
    benchmarks = objects(source.json["benchmarks"], f"{source.path}: benchmarks")
    places = [f"{source.path}: benchmark {number}" for number in range(1, len(benchmarks) + 1)]
    cases = [_case(one, shared, place) for one, place in zip(benchmarks, places, strict=True)]
    known = {**_of(benchmarks[0]), **shared}
    dates = [moment(date, f"{place}: date") for one, place in zip(benchmarks, places, strict=True) if (date := _date(one, shared))]
    return [ReadRun(
        cases, min(dates, default=source.modified_s), host=str(known.get("hostname", "")), os=str(known.get("platform", "")),
        cpu=Cpu(name=str(known.get("cpu_model_name", "")), threads=count if isinstance(count := known.get("cpu_count"), int) else None),
        software=texts({"python": known.get("python_version"), "pyperf": known.get("perf_version")}),
    )]  # fmt: skip


def _case(benchmark: Fields, shared: Fields, place: str) -> ReadCase:
    runs = [run for run in objects(benchmark["runs"], f"{place}: runs") if run.get("values")]
    known = {**_of(runs[0] if runs else None), **shared, **_of(benchmark)}
    rounds = [ReadRound(numbers(run["values"], f"{place}, run {number}, values")) for number, run in enumerate(runs, 1)]
    unit, better = UNITS.get(str(known.get("unit", "second")), (str(known.get("unit")), ""))
    stated = known.get("timeit_stmt")
    given = parameters({"stmt": str(stated).strip("'\"")} if stated else None)
    return ReadCase(str(known.get("name") or f"benchmark {place.rpartition(' ')[2]}"), unit, rounds, given, better, place)


def _date(benchmark: Fields, shared: Fields) -> Any:
    """When its first run began; the local time of the machine, without a zone."""
    return next((date for each in (*map(_of, benchmark["runs"]), _of(benchmark), shared) if (date := each.get("date"))), None)


def _of(value: Any) -> Fields:
    """The metadata of a file, benchmark or run."""
    known = value.get("metadata") if isinstance(value, dict) else None
    return known if isinstance(known, dict) else {}
