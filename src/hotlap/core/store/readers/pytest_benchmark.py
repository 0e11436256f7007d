"""pytest-benchmark --benchmark-json: all samples of a test are of one process."""

from __future__ import annotations

from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import (
    Fields,
    ReadCase,
    ReadRound,
    ReadRun,
    Source,
    exported,
    has,
    moment,
    number,
    numbers,
    objects,
    parameters,
    texts,
)
from hotlap.core.where import Cpu

NAME = "pytest-benchmark"
BRINGS = "samples, else the median; parameters, machine, commit, branch; a failed test stands there like a passed one"
ORIGIN = "pytest-benchmark 5.3.1, run here: pytest --benchmark-json, with and without --benchmark-save-data"


def detect(source: Source) -> bool:
    return has(source.json, "machine_info", "benchmarks", "datetime")


def read(source: Source) -> list[ReadRun]:
    document, where = source.json, str(source.path)
    machine, commit = (document.get(name) if isinstance(document.get(name), dict) else {} for name in ("machine_info", "commit_info"))
    cpu = machine.get("cpu") if isinstance(machine.get("cpu"), dict) else {}
    cases = [_case(item, f"{where}: benchmark {place}") for place, item in enumerate(objects(document["benchmarks"], where), 1)]
    known = {"commit": commit.get("id"), "branch": commit.get("branch"), "project": commit.get("project")}
    return [ReadRun(
        cases, moment(document["datetime"], f"{source.path}: datetime"), host=str(machine.get("node", "")),
        os=f"{machine.get('system', '')} {machine.get('release', '')}".strip(),
        cpu=Cpu(name=str(cpu.get("brand_raw", "")), threads=cpu.get("count") if isinstance(cpu.get("count"), int) else None),
        software=texts({"python": machine.get("python_version"), "pytest-benchmark": document.get("version")}),
        labels={name: value for name, value in texts(known).items() if value not in ("unversioned", "(unknown)")},
    )]  # fmt: skip


def _case(item: Fields, place: str) -> ReadCase:
    stats: Any = item.get("stats")
    if not isinstance(stats, dict):
        raise InputError(f"{place}: it has no stats")
    data = stats.get("data")
    own = item.get("extra_info", {}).get("hotlap") if isinstance(item.get("extra_info"), dict) else None
    if isinstance(own, dict):  # what `hotlap export` wrote: the numbers in their own unit
        return exported(own, own.get("values"), place)
    values = numbers(data, f"{place}, data") if data else [number(stats.get("median"), f"{place}, median")]
    name = str(item.get("fullname") or item.get("name") or "")
    return ReadCase(name, "s", [ReadRound(values)], parameters(item.get("params")), "lower", place)
