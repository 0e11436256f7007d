"""JMH -rf json: a list of benchmarks; rawData has a list of iterations per fork, which is a process."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, number, numbers, objects, parameters, texts

NAME = "jmh"
BRINGS = "iterations by fork (a fork is a round), mode, parameters, unit; the score where no raw data was kept"
ORIGIN = "jzillmann/jmh-visualizer at 84878d32ecfd76dc2286a35f3a47c4dabf058a77: src/javascript/exampleBenchmark1.jsx"


def detect(source: Source) -> bool:
    document = source.json
    return isinstance(document, list) and bool(document) and all(has(item, "benchmark", "mode", "primaryMetric") for item in document)


def read(source: Source) -> list[ReadRun]:
    items = objects(source.json, str(source.path))
    cases = [_case(item, f"{source.path}: benchmark {place}") for place, item in enumerate(items, 1)]
    first = items[0]
    return [ReadRun(cases, source.modified_s, software=texts({name: first.get(name) for name in ("jmhVersion", "jdkVersion", "vmName")}))]


def _case(item: Fields, place: str) -> ReadCase:
    metric = item["primaryMetric"]
    if not isinstance(metric, dict) or not isinstance(metric.get("scoreUnit"), str):
        raise InputError(f"{place}: primaryMetric has no scoreUnit")
    raw = metric.get("rawData")
    forks = raw if isinstance(raw, list) else []
    values = [numbers(fork, f"{place}, rawData of fork {number_of}") for number_of, fork in enumerate(forks, 1)]
    rounds = [ReadRound(fork) for fork in values if fork] or [ReadRound([number(metric.get("score"), f"{place}, score")])]
    amount, _, per = metric["scoreUnit"].partition("/")
    given = (*parameters(item.get("params")), f"mode={item['mode']}", f"threads={item.get('threads', 1)}")
    if amount == "ops":
        scale, unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "min": 1 / 60}.get(per), "1/s"
        if scale is None:
            raise InputError(f"{place}: its scoreUnit is '{metric['scoreUnit']}'; ops per s, ms, us, ns or min are known")
        rounds = [ReadRound([value * scale for value in one_round.values]) for one_round in rounds]
        return ReadCase(str(item["benchmark"]), unit, rounds, given, "higher", place)
    unit = amount if per == "op" and amount in ("s", "ms", "us", "ns", "min", "B") else metric["scoreUnit"]
    return ReadCase(str(item["benchmark"]), unit, rounds, given, "lower", place)
