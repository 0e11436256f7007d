"""hyperfine --export-json: each time is a process of its own, thus a round."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, numbers, objects, parameters

NAME = "hyperfine"
BRINGS = "each run's time as a round, parameters; runs that ended with another exit code than 0 as not run"
ORIGIN = "hyperfine 1.15.0, run here: hyperfine -N --runs 12 --export-json --parameter-list"
CSV = b"command,mean,stddev,median,"


def detect(source: Source) -> bool:
    document = source.json
    if source.data.startswith(CSV):
        return True
    results = document["results"] if has(document, "results") else None
    if not isinstance(results, list) or not all(has(item, "command") for item in results):
        return False
    return any(has(item, "times") for item in results)


def read(source: Source) -> list[ReadRun]:
    if source.data.startswith(CSV):
        raise InputError(f"{source.path}: hyperfine's CSV holds no single times; export them with hyperfine --export-json")
    results = objects(source.json["results"], f"{source.path}: results")
    return [ReadRun([_case(item, f"{source.path}: result {number}") for number, item in enumerate(results, 1)], source.modified_s)]


def _case(item: Fields, place: str) -> ReadCase:
    if "times" not in item:
        raise InputError(f"{place}, '{item['command']}', has no times; export it with hyperfine --export-json")
    times = numbers(item["times"], f"{place}, times")
    codes = item.get("exit_codes") or [0] * len(times)
    if len(codes) != len(times):
        raise InputError(f"{place}: {len(times)} times, but {len(codes)} exit codes")
    rounds = [ReadRound([time], _failure(code)) for time, code in zip(times, codes, strict=True)]
    return ReadCase(str(item["command"]), "s", rounds, parameters(item.get("parameters")), "lower", place)


def _failure(code: object) -> str:
    return "" if code == 0 else "the command was ended by a signal" if code is None else f"the command ended with exit code {code}"
