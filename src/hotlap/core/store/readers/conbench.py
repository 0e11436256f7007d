"""Conbench: a benchmark result as it is posted, alone, in a list or a line each; results of one run_id are one run."""

from __future__ import annotations

from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, exported, has, moment, numbers, parameters, texts
from hotlap.core.where import Cpu

NAME = "conbench"
BRINGS = "data as samples of one process, unit, tags as parameters, commit and repository, machine; a result with an error as not run"
ORIGIN = "conbench/conbench at 002a2d683f92ba5f7fcbb0da9e576cff370b5e62: benchadapt/python/benchadapt/result.py"
UNITS = {"b": "B", "b/s": "B/s", "i/s": "1/s"}
KEYS = ("tags", "context")


def detect(source: Source) -> bool:
    rows = _rows(source)
    return bool(rows) and all(has(row, *KEYS) and ("stats" in row or "error" in row) for row in rows)


def read(source: Source) -> list[ReadRun]:
    return [_run(row, f"{source.path}: result {place}", source) for place, row in enumerate(_rows(source), 1)]


def _rows(source: Source) -> list[Fields]:
    document = source.json
    return document if isinstance(document, list) else [document] if isinstance(document, dict) else source.lines


def _run(row: Fields, place: str, source: Source) -> ReadRun:
    github, machine, run_id = row.get("github") or {}, row.get("machine_info") or {}, str(row.get("run_id") or "")
    threads, cores = str(machine.get("cpu_thread_count", "")), str(machine.get("cpu_core_count", ""))
    facts = {"commit": github.get("commit"), "repository": github.get("repository"), "reason": row.get("run_reason")}
    return ReadRun(
        [_case(row, place)], moment(row["timestamp"], f"{place}, timestamp") if row.get("timestamp") else source.modified_s,
        host=str(machine.get("name", "")), os=f"{machine.get('os_name', '')} {machine.get('os_version', '')}".strip(),
        cpu=Cpu(name=str(machine.get("cpu_model_name", "")), cores=int(cores) if cores.isdigit() else None,
                threads=int(threads) if threads.isdigit() else None),
        labels=texts({**facts, "conbench_run": run_id}), group=run_id,
    )  # fmt: skip


def _case(row: Fields, place: str) -> ReadCase:
    tags, stats = row["tags"], row.get("stats")
    if not isinstance(tags, dict) or not tags.get("name"):
        raise InputError(f"{place}: its tags have no name")
    name = str(tags["name"])
    given = parameters({key: value for key, value in tags.items() if key not in ("name", "id") and value is not None})
    if row.get("error") or not isinstance(stats, dict):
        error = row.get("error")
        reason = next((str(value) for value in error.values() if value), "error") if isinstance(error, dict) else str(error)
        return ReadCase(name, "s", [ReadRound([], reason[:200])], given, "lower", place)
    unit = str(stats.get("unit") or "")
    values = [value for value in stats.get("data") or [] if value is not None]
    info: Any = row.get("info")
    if has(info, "hotlap"):
        return exported(info["hotlap"], values, place)
    rounds = [ReadRound(numbers(values, f"{place}, data"))] if values else [ReadRound([], "no data")]
    return ReadCase(name, UNITS.get(unit.lower(), unit), rounds, given, place=place)
