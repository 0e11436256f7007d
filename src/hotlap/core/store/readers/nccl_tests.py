"""nccl-tests and rccl-tests: the printed table, and the JSON of -J; a row's time and bus bandwidth, out of place and in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, ReadCase, ReadRound, ReadRun, Source, has, moment, number

NAME = "nccl-tests"
BRINGS = "time and bus bandwidth of each size, out of place and in place, as nccl-tests defines them: the mean of a program's iterations"
ORIGIN = "NVIDIA/nccl-tests src/util.cu at 0fdb00a3f433 (table, and JSON_FILE_VERSION 2); ROCm/rccl-tests prints the same table"
ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+\d+\s+(?P<type>[a-z]\w*)\s+(?P<redop>\w+)\s+(?P<root>-?\d+)"
    r"((?:\s+[\d.]+){3}\s+(?:\d[\d.e+]*|N/A)){2}(?:\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?\s*$"
)
RANK = re.compile(r"^#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S+\]\s*(?P<device>.*?)\s*$")
STARTING = re.compile(r"^# Collective test starting: (\w+)")
HEADING = "#wrong"
PLACES = ("out of place", "in place")


def detect(source: Source) -> bool:
    if source.json is not None:
        return has(source.json, "results", "out_of_bounds") and has(source.json, "config")
    text = source.data[: 1 << 20].decode(errors="replace")
    return HEADING in text and "algbw" in text and "busbw" in text


def read(source: Source) -> list[ReadRun]:
    return [_document(source)] if source.json is not None else [_table(source)]


def _table(source: Source) -> ReadRun:
    test, ranks, cases = "", list[re.Match[str]](), list[ReadCase]()
    for place_in, line in enumerate(source.decoded.splitlines(), 1):
        if starting := STARTING.match(line):
            test = starting[1]
        elif rank := RANK.match(line):
            ranks.append(rank)
        elif row := ROW.match(line):
            words = line.split()[5:13]
            for at, where in ((0, PLACES[0]), (4, PLACES[1])):
                time, _, bus, wrong = words[at : at + 4]
                given = (f"size={row['size']}", f"type={row['type']}", f"redop={row['redop']}", f"root={row['root']}")
                cases += _cases(test, where, given, (time, bus, "0" if wrong == "N/A" else wrong), f"{source.path}:{place_in}")
    if not cases:
        raise InputError(f"{source.path}: the table of nccl-tests has no row")
    first = ranks[0] if ranks else None
    labels = {"ranks": str(len(ranks))} if ranks else {}
    return ReadRun(cases, source.modified_s, host=first["host"] if first else "", device=first["device"] if first else "", labels=labels)


def _document(source: Source) -> ReadRun:
    given = source.json
    devices, cases = given["config"].get("devices") or [{}], list[ReadCase]()
    for place_in, row in enumerate(given["results"], 1):
        known = (f"size={row['size']}", f"type={row['type']}", f"redop={row['redop']}", f"root={str(row['root']).strip()}")
        for key, where in zip(("out_of_place", "in_place"), PLACES, strict=True):
            one = row.get(key)
            if one:
                values = (one["time"], one["bus_bw"], one.get("nwrong") or 0)
                cases += _cases(str(row.get("experiment_name", "")), where, known, values, f"{source.path}: result {place_in}, {key}")
    began = str(given.get("start_time") or "")
    time_s = moment(began, f"{source.path}, start_time") if began else source.modified_s
    version = {"NCCL": str(given["nccl_version"])} if given.get("nccl_version") else {}
    return ReadRun(
        cases, time_s, host=str(devices[0].get("hostname", "")), device=str(devices[0].get("device_info", "")), software=version,
        labels={"ranks": str(len(devices))} if devices[0] else {},
    )  # fmt: skip


def _cases(test: str, where: str, given: tuple[str, ...], values: tuple[Any, Any, Any], place: str) -> Iterator[ReadCase]:
    """Its time, and its bus bandwidth where that is not rounded to nothing."""
    time, bus, wrong = (number(value, place) for value in values)
    failed = f"{wrong:g} elements are wrong" if wrong else ""
    name = test.removesuffix("_perf") or "collective"
    units: tuple[tuple[str, float, str, Better], ...] = (("time", time, "us", "lower"), ("busbw", bus, "GB/s", "higher"))
    for what, value, unit, better in units:
        if value > 0:
            yield ReadCase(f"{name} {where}: {what}", unit, [ReadRound([] if failed else [value], failed)], given, better, place)
