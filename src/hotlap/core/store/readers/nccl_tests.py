"""nccl-tests and rccl-tests: the printed table, and the JSON of -J; a row's time and bus bandwidth, out of place and in place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, ReadCase, ReadRound, ReadRun, Source, has, moment, number

NAME = "nccl-tests"
BRINGS = "time and bus bandwidth of each size, out of place and in place, as nccl-tests defines them: the mean of a program's iterations"
ORIGIN = (
    "NVIDIA/nccl-tests src/util.cu at 0fdb00a3f433 (table, and JSON_FILE_VERSION 2); ROCm/rccl-tests prints the same table; "
    "before #wrong the table had the largest error, and no root or redop: NVIDIA/deepops docs/slurm-cluster, slurm-perf-cluster"
)
HEAD = re.compile(r"#\s+size\s+count\s+type\s+(?P<more>(?:(?:redop|root)\s+)*)time\s+algbw\s+busbw\s+(?P<last>#wrong|error)\s")
NUMBERS = 8  # of a row, behind what it is of: time, algbw, busbw and the last, out of place and in place
ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
RANK = re.compile(r"^#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S+\]\s*(?P<device>.*?)\s*$")
STARTING = re.compile(r"^# Collective test starting: (\w+)")
BOUNDS = re.compile(r"^# Out of bounds values\s*:\s*(\d+)")
TAG = re.compile(r"^\[\d+,\d+\](?:<std\w+>)?:? ?|^\s*\d+: (?=[# ])", re.MULTILINE)  # of a rank, by mpirun --tag-output or srun --label
SOME = 4  # hosts that stand in a run's host by name
PLACES = ("out of place", "in place")
CUT = "the log ends here without its last lines: the program did not end, or the file is cut off"


def detect(source: Source) -> bool:
    if source.json is not None:
        return has(source.json, "results", "out_of_bounds") and has(source.json, "config")
    return HEAD.search(source.data[: 1 << 20].decode(errors="replace")) is not None


def read(source: Source) -> list[ReadRun]:
    return [_document(source)] if source.json is not None else [_table(source)]


def _table(source: Source) -> ReadRun:
    test, ranks, cases, head, ended, last = "", list[re.Match[str]](), list[ReadCase](), HEAD.search(""), False, ""
    for place_in, line in enumerate(TAG.sub("", source.decoded).splitlines(), 1):
        place = f"{source.path}:{place_in}"
        if starting := STARTING.match(line):
            test = starting[1]
        elif rank := RANK.match(line):
            ranks.append(rank)
        elif bounds := BOUNDS.match(line):
            ended = True
            cases = _out_of_bounds(cases, int(bounds[1])) if head and head["last"] == "error" else cases
        elif found := HEAD.search(line):
            head = found
        elif head and ROW.match(line):
            words, names = line.split(), ["size", "count", "type", *head["more"].split()]
            given = [f"{name}={word}" for name, word in zip(names, words, strict=False) if name != "count"]
            last = given[0]
            cases += _row(test, given, words[len(names) : len(names) + NUMBERS], head["last"] == "error", place)
    if not cases:
        raise InputError(f"{source.path}: the table of nccl-tests has no row")
    if not ended:
        cases.append(ReadCase(f"{_named(test)} after {last}", "us", [ReadRound([], CUT)], place=str(source.path)))
    hosts = list(dict.fromkeys(rank["host"] for rank in ranks))
    labels = {"ranks": str(len(ranks))} if ranks else {}
    return ReadRun(cases, source.modified_s, device=ranks[0]["device"] if ranks else "", labels=labels | _several(hosts), host=_host(hosts))


def _row(test: str, given: Sequence[str], numbers: Sequence[str], largest: bool, place: str) -> list[ReadCase]:
    """`largest`: the last number of each place is the largest error, whose bound the table does not have."""
    if len(numbers) < NUMBERS:
        return [ReadCase(f"{_named(test)} {where}: time", "us", [ReadRound([], "the row is cut off")], tuple(given)) for where in PLACES]
    cases = list[ReadCase]()
    for at, where in ((0, PLACES[0]), (4, PLACES[1])):
        time, _, bus, wrong = numbers[at : at + 4]
        cases += _cases(test, where, tuple(given), (time, bus, "0" if largest or wrong == "N/A" else wrong), place)
    return cases


def _out_of_bounds(cases: Sequence[ReadCase], count: int) -> list[ReadCase]:
    """Without the column of wrong elements nobody knows of which row they are."""
    why = f"{count} values are out of bounds, and the table does not say in which row"
    return [replace(case, rounds=[ReadRound([], why)]) for case in cases] if count else list(cases)


def _host(hosts: Sequence[str]) -> str:
    """Of several nodes all names, or how many."""
    return ",".join(hosts) if len(hosts) <= SOME else f"{hosts[0]} and {len(hosts) - 1} more"


def _several(hosts: Sequence[str]) -> dict[str, str]:
    return {"hosts": ",".join(hosts)} if len(hosts) > 1 else {}


def _named(test: str) -> str:
    return test.removesuffix("_perf") or "collective"


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
    hosts = list(dict.fromkeys(str(each["hostname"]) for each in devices if each.get("hostname")))
    began = str(given.get("start_time") or "")
    time_s = moment(began, f"{source.path}, start_time") if began else source.modified_s
    version = {"NCCL": str(given["nccl_version"])} if given.get("nccl_version") else {}
    return ReadRun(
        cases, time_s, host=_host(hosts), device=str(devices[0].get("device_info", "")), software=version,
        labels=({"ranks": str(len(devices))} if devices[0] else {}) | _several(hosts),
    )  # fmt: skip


def _cases(test: str, where: str, given: tuple[str, ...], values: tuple[Any, Any, Any], place: str) -> Iterator[ReadCase]:
    """Its time, and its bus bandwidth where that is not rounded to nothing."""
    time, bus, wrong = (number(value, place) for value in values)
    failed = f"{wrong:g} elements are wrong" if wrong else ""
    name = _named(test)
    units: tuple[tuple[str, float, str, Better], ...] = (("time", time, "us", "lower"), ("busbw", bus, "GB/s", "higher"))
    for what, value, unit, better in units:
        if value > 0:
            yield ReadCase(f"{name} {where}: {what}", unit, [ReadRound([] if failed else [value], failed)], given, better, place)
