"""BenchmarkDotNet's JSON exporters, full and brief: a launch is a process."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, number, numbers, objects, texts
from hotlap.core.where import Cpu

NAME = "benchmarkdotnet"
BRINGS = "actual workload iterations by launch (a launch is a round), parameters, machine; a report without measurements gives its median"
ORIGIN = "dotnet/BenchmarkDotNet at 0f5b12e3141541c291c1b1795614afeee1512cae: src/BenchmarkDotNet/Exporters/Json/JsonExporterBase.cs"
STAGES = ("Result", "Actual")  # of mode Workload (once Result or Main): the overhead is taken off in Result


def detect(source: Source) -> bool:
    return has(source.json, "Title", "HostEnvironmentInfo", "Benchmarks")


def read(source: Source) -> list[ReadRun]:
    document = source.json
    machine = document["HostEnvironmentInfo"] if isinstance(document["HostEnvironmentInfo"], dict) else {}
    items = objects(document["Benchmarks"], f"{source.path}: Benchmarks")
    cases = [_case(item, f"{source.path}: benchmark {place}") for place, item in enumerate(items, 1)]
    cores, threads = machine.get("PhysicalCoreCount"), machine.get("LogicalCoreCount")
    return [ReadRun(
        cases, source.modified_s, os=str(machine.get("OsVersion", "")),
        cpu=Cpu(name=str(machine.get("ProcessorName", "")), cores=cores if isinstance(cores, int) else None,
                threads=threads if isinstance(threads, int) else None),
        software=texts({"BenchmarkDotNet": machine.get("BenchmarkDotNetVersion"), "runtime": machine.get("RuntimeVersion")}),
    )]  # fmt: skip


def _case(item: Fields, place: str) -> ReadCase:
    name = str(item.get("FullName") or f"{item.get('Type', '')}.{item.get('Method', '')}")
    given = tuple(part.strip() for part in str(item.get("Parameters") or "").replace("&", ",").split(",") if "=" in part)
    rounds = _launches(item, place) or _summary(item, place)
    return ReadCase(name, "ns", rounds, given, "lower", place)


def _launches(item: Fields, place: str) -> list[ReadRound]:
    rows = objects(item.get("Measurements") or [], f"{place}, Measurements")
    for stage in STAGES:
        launches: dict[int, list[float]] = {}
        for row in rows:
            if (row.get("IterationMode"), row.get("IterationStage")) in (("Workload", stage), (stage, stage)):
                operations = number(row.get("Operations"), f"{place}, Operations")
                if operations <= 0:
                    raise InputError(f"{place}: Operations is above zero")
                time = number(row.get("Nanoseconds"), f"{place}, Nanoseconds") / operations
                launches.setdefault(int(number(row.get("LaunchIndex", 1), place)), []).append(time)
        if launches:
            return [ReadRound(launches[index]) for index in sorted(launches)]
    return []


def _summary(item: Fields, place: str) -> list[ReadRound]:
    statistics = item.get("Statistics")
    if not isinstance(statistics, dict):
        return [ReadRound([], "the benchmark gave no statistics: it failed")]
    values = statistics.get("OriginalValues")
    return [ReadRound(numbers(values, f"{place}, OriginalValues") if values else [number(statistics.get("Median"), f"{place}, Median")])]
