"""criterion.rs: target/criterion/…/new/sample.json with benchmark.json beside it; times are divided by iterations."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import ReadCase, ReadRound, ReadRun, Source, has, numbers

NAME = "criterion"
BRINGS = "samples of new/ and of saved baselines (base/ repeats the last run), time per iteration, of one process; name from benchmark.json"
ORIGIN = "bheisler/criterion.rs at c057b740d248be1cf8d48b87d7319db99d8dc73b: book/src/user_guide/html_report/Fibonacci/Recursive/new"
BESIDE = ("benchmark.json",)
REPEATED = ("base", "change")  # folders that hold no run of their own


def detect(source: Source) -> bool:
    return has(source.json, "iters", "times") and source.path.parent.name not in REPEATED


def read(source: Source) -> list[ReadRun]:
    iterations, times = (numbers(source.json[name], f"{source.path}: {name}") for name in ("iters", "times"))
    if len(iterations) != len(times) or not times:
        raise InputError(f"{source.path}: {len(iterations)} iters for {len(times)} times")
    if min(iterations) <= 0:
        raise InputError(f"{source.path}: iters are above zero")
    beside = source.beside("benchmark.json")
    if beside is None or not has(beside.json, "full_id"):
        raise InputError(f"{source.path}: the benchmark's name stands in benchmark.json beside it, which is missing")
    values = [time / count for time, count in zip(times, iterations, strict=True)]
    folder = source.path.parent.name
    case = ReadCase(str(beside.json["full_id"]), "ns", [ReadRound(values)], better="lower", place=str(source.path))
    return [ReadRun([case], source.modified_s, labels={} if folder == "new" else {"baseline": folder}, group=folder)]
