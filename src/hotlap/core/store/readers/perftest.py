"""perftest (ib_write_bw and its like): the printed tables of bandwidths and latencies, and the JSON of --out_json."""

from __future__ import annotations

import re

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRound, ReadRun, Source, has, number

NAME = "perftest"
BRINGS = "average bandwidth, or typical latency, of each size of message; peak and rate of messages beside it; one number a program"
ORIGIN = "linux-rdma/perftest src/perftest_parameters.h at 00b55b6 (RESULT_FMT, RESULT_FMT_LAT); its issue 322 for keys of the JSON"
BANDWIDTH = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(?P<unit>\w+/sec)\]\s+BW average\[")
LATENCY = re.compile(r"^\s*#bytes\s+#iterations\s+t_min\[usec\]")
TITLE = re.compile(r"^\s*(?P<test>\w[\w ]*?(?:BW|Latency)) Test\s*$")
FACT = re.compile(r"(Device|Transport type|Connection type|Link type|Mtu|Number of qps)\s*:\s*(\S+)")
ROW = re.compile(r"^\s*\d+\s+\d+(?:\s+[\d.]+){2,}\s*$")
UNITS = {"MB/sec": "MiB/s", "MiB/sec": "MiB/s", "Gb/sec": "Gbit/s"}  # MB of older versions is 0x100000 bytes: print_report_bw
MATCHES = 0.02  # by which a rate of messages, of six digits, tells the unit


def detect(source: Source) -> bool:
    if source.json is not None:
        return has(source.json, "test_info", "results") and has(source.json["results"], "MsgSize", "BW_average")
    lines = source.data[: 1 << 20].decode(errors="replace").splitlines()
    return any(BANDWIDTH.match(line) or LATENCY.match(line) for line in lines)


def read(source: Source) -> list[ReadRun]:
    return [_document(source)] if source.json is not None else [_tables(source)]


def _tables(source: Source) -> ReadRun:
    test, unit, cases, facts = "perftest", "", list[ReadCase](), dict[str, str]()
    for place_in, line in enumerate(source.decoded.splitlines(), 1):
        place = f"{source.path}:{place_in}"
        if title := TITLE.match(line):
            test = title["test"]
        elif heading := BANDWIDTH.match(line):
            unit = UNITS.get(heading["unit"], "")
            if not unit:
                raise InputError(f"{place}: '{heading['unit']}' is no unit of perftest; valid: {', '.join(UNITS)}")
        elif LATENCY.match(line):
            unit = "us"
        elif unit and ROW.match(line):
            cases.append(_row(test, unit, [number(word, place) for word in line.split()], place))
        else:
            facts |= dict(FACT.findall(line))
    return ReadRun(cases, source.modified_s, device=facts.pop("Device", ""), labels={f"ib {name.lower()}": facts[name] for name in facts})


def _row(test: str, unit: str, values: list[float], place: str) -> ReadCase:
    given = (f"size={values[0]:.0f}", f"iterations={values[1]:.0f}")
    if unit == "us":
        metrics = {"fastest_us": values[2], "slowest_us": values[3]}
        return ReadCase(f"{test}: typical", unit, [ReadRound([values[4]], metrics=metrics)], given, "lower", place)
    metrics = {name: value for name, value in (("peak", values[2]), ("messages_per_us", values[4] if len(values) > 4 else 0.0)) if value}
    return ReadCase(f"{test}: average", unit, [ReadRound([values[3]], metrics=metrics)], given, "higher", place)


def _document(source: Source) -> ReadRun:
    info, results = source.json["test_info"], source.json["results"]
    place = f"{source.path}, results"
    size, average = (number(results[name], f"{place}, {name}") for name in ("MsgSize", "BW_average"))
    unit = _unit(results, size, average, place)
    metrics = {name: number(results[key], place) for name, key in (("peak", "BW_peak"), ("messages_per_us", "MsgRate")) if results.get(key)}
    given = (f"size={size:.0f}", *((f"iterations={results['n_iterations']}",) if results.get("n_iterations") else ()))
    test = str(info.get("test", "perftest")).replace("_Test", "").replace("_", " ")
    case = ReadCase(f"{test}: average", unit, [ReadRound([average], metrics=metrics)], given, "higher", place)
    return ReadRun([case], source.modified_s, device=str(info.get("Device", "")))


def _unit(results: Fields, size: float, average: float, place: str) -> str:
    """The file says none: that in which average and rate of messages agree. Raises InputError where neither does."""
    rate = number(results.get("MsgRate", 0), f"{place}, MsgRate") * 1e6 * size
    for unit, scale in (("Gbit/s", 1e9 / 8), ("MiB/s", 1 << 20)):
        if rate and abs(average * scale / rate - 1) < MATCHES:
            return unit
    why = "no unit stands in the file, and BW_average and MsgRate agree in none"
    raise InputError(f"{place}: {why}; import a table of it, with its unit")
