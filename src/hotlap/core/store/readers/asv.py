"""airspeed velocity: results/MACHINE/COMMIT-ENV.json of version 2; units and parameters stand in ../benchmarks.json."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, Fields, ReadCase, ReadRound, ReadRun, Source, has, number, numbers, texts
from hotlap.core.where import Cpu

NAME = "asv"
BRINGS = "samples, else the result; parameters, machine, commit; units from benchmarks.json; failed and skipped ones as not run"
ORIGIN = "asv 0.6.6, run here: asv run --set-commit-hash, results and benchmarks.json"
BESIDE = ("benchmarks.json", "machine.json")  # its results have what the second says
UNITS = {"time": "s", "timeraw": "s", "mem": "B", "peakmem": "B"}  # by how a benchmark's name begins, where benchmarks.json is missing


def detect(source: Source) -> bool:
    return has(source.json, "commit_hash", "result_columns", "results", "params")


def read(source: Source) -> list[ReadRun]:
    document = source.json
    if document.get("version") != 2:
        raise InputError(f"{source.path}: results of asv's version {document.get('version')}; 2 is read (asv update rewrites them)")
    beside = source.beside("..", "benchmarks.json")
    benchmarks = beside.json if beside and isinstance(beside.json, dict) else {}
    columns, machine = document["result_columns"], document["params"]
    cases = [
        case for name, row in document["results"].items()
        for case in _cases(name, _named(row, columns, f"{source.path}: {name}"), benchmarks.get(name) or {}, f"{source.path}: {name}")
    ]
    threads = str(machine.get("num_cpu", ""))
    return [ReadRun(
        cases, number(document.get("date"), f"{source.path}: date") / 1e3,
        host=str(machine.get("machine", "")), os=str(machine.get("os", "")),
        cpu=Cpu(name=str(machine.get("cpu", "")), threads=int(threads) if threads.isdigit() else None),
        software=texts(document.get("requirements") or {}) | texts({"python": document.get("python")}),
        labels=texts({"commit": document["commit_hash"], "environment": document.get("env_name")}),
    )]  # fmt: skip


def _named(row: Any, columns: Sequence[str], place: str) -> Fields:
    """A row of results by column; rows end where the rest is unknown."""
    if row is None or isinstance(row, (int, float)):
        return {"result": None if row is None else [row]}
    if not isinstance(row, list) or len(row) > len(columns):
        raise InputError(f"{place}: a list of at most {len(columns)} columns is needed")
    return dict(zip(columns, row, strict=False))


def _cases(name: str, row: Fields, about: Fields, place: str) -> list[ReadCase]:
    """A case for each combination of parameters, in their order."""
    unit = {"seconds": "s", "bytes": "B"}.get(str(about.get("unit", "")), str(about.get("unit", ""))) or _unit(name, place)
    values, axes = row.get("result"), row.get("params") or []
    names = about.get("param_names") or [f"param{n + 1}" for n in range(len(axes))]
    combinations = list(product(*axes))
    results = [None] * len(combinations) if values is None else values
    if len(results) != len(combinations):
        raise InputError(f"{place}: {len(results)} results for {len(combinations)} combinations of parameters")
    kept = row.get("samples") or [None] * len(results)
    better: Better = "higher" if unit.endswith("/s") else "lower"
    return [
        ReadCase(name, unit, [_round(result, kept[at] if at < len(kept) else None, f"{place}, result {at + 1}")],
                 tuple(f"{axis}={value}" for axis, value in zip(names, combination, strict=False)), better, place)
        for at, (combination, result) in enumerate(zip(combinations, results, strict=True))
    ]  # fmt: skip


def _round(result: Any, samples: Any, place: str) -> ReadRound:
    if result is None:
        return ReadRound([], "the benchmark failed")
    if isinstance(result, float) and math.isnan(result):
        return ReadRound([], "skipped for these parameters")
    return ReadRound(numbers(samples, place) if samples else [number(result, place)])


def _unit(name: str, place: str) -> str:
    kind = name.rpartition(".")[2].partition("_")[0].lower()
    if kind not in UNITS:
        raise InputError(f"{place}: its unit stands in benchmarks.json, a folder above, which is missing")
    return UNITS[kind]
