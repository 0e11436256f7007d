"""Runs in the files of other tools, for their dashboards; `hotlap import` reads name, parameters, unit and value again as they were.

What a format cannot hold is left out and named: google-benchmark and pytest-benchmark hold times. JUnit is one-way. Of a case with
several rounds its rounds leave, each as its median; of one that a single process measured, its samples.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import hotlap
from hotlap.core import stand_in
from hotlap.core.errors import Unavailable
from hotlap.core.record import Judgement, Result, Row
from hotlap.core.show import junit
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.readers.exported import COLUMNS
from hotlap.core.store.readers.google_benchmark import HOTLAP
from hotlap.core.store.readers.source import written

Analysed = Sequence[tuple[Bundle, Sequence[Row]]]


class Exported(NamedTuple):
    """The file's content, and cases that the format cannot hold."""

    content: bytes
    left_out: list[str]


def google_benchmark(runs: Analysed) -> Exported:
    bundle = runs[0][0]
    machine, build = bundle.run.machine, bundle.run.labels.get("build")
    context = {
        "date": bundle.run.began, "host_name": machine.host, "executable": "hotlap", "caches": [], "load_avg": [],
        **({"num_cpus": machine.cpu.threads} if machine.cpu.threads else {}), **({"library_build_type": build} if build else {}),
        HOTLAP: hotlap.__version__,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for result in _results(runs):
        name, seconds, values = "/".join([_name(result), *_parameters(result)]), _seconds(result), _values(result)
        shared = {"name": name, "run_name": name, "run_type": "iteration", "threads": 1, "time_unit": "s"}
        if result.status != "measured" or not result.values:
            times = {"iterations": 1, "real_time": 0.0, "cpu_time": 0.0}
            rows.append({**shared, **times, "error_occurred": True, "error_message": result.reason or result.status})
        elif not seconds:
            left_out.append(name)
        else:
            cpu = cpu_seconds(result)
            rate = {"B/s": "bytes_per_second", "1/s": "items_per_second"}.get(result.unit)
            rows += [
                {**shared, "repetitions": len(seconds), "repetition_index": number, "iterations": 1, "real_time": time,
                 "cpu_time": cpu[number] if cpu else time, **({rate: value} if rate else {}),
                 "hotlap": {**_own(result), "value": value, "cpu_time_measured": bool(cpu)}}
                for number, (time, value) in enumerate(zip(seconds, values, strict=True))
            ]  # fmt: skip
    return Exported(_json({"context": context, "benchmarks": rows}), left_out)


def pytest_benchmark(runs: Analysed) -> Exported:
    run = runs[0][0].run
    cpu = {"brand_raw": run.machine.cpu.name, "count": run.machine.cpu.threads}
    machine = {"node": run.machine.host, "release": run.machine.os, "system": "", "cpu": cpu}
    commit = {"id": run.labels.get("commit", "unversioned"), "branch": run.labels.get("branch", "(unknown)")}
    benchmarks: list[dict[str, Any]] = []
    left_out: list[str] = []
    for result in _results(runs):
        seconds, name = _seconds(result), _name(result)
        if result.status != "measured" or not seconds:
            left_out.append(" ".join([name, *_parameters(result)]))
            continue
        params = dict(pair.split("=", 1) for pair in _parameters(result) if "=" in pair)
        benchmarks.append({
            "group": None, "name": name, "fullname": name, "params": params or None, "param": None, "options": {},
            "extra_info": {"hotlap": {**_own(result), "values": _values(result)}}, "stats": _stats(seconds),
        })  # fmt: skip
    document = {"machine_info": machine, "commit_info": commit, "benchmarks": benchmarks, "datetime": run.began, "version": "hotlap"}
    return Exported(_json(document), left_out)


def _stats(seconds: Sequence[float]) -> dict[str, Any]:
    """What pytest-benchmark writes of a test."""
    quarters = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
    mean, deviation = statistics.fmean(seconds), statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    low, high = (quarters[place] + sign * 1.5 * (quarters[2] - quarters[0]) for place, sign in ((0, -1), (2, 1)))
    near = [value for value in seconds if low <= value <= high]
    far, beyond = len(seconds) - len(near), sum(abs(value - mean) > deviation for value in seconds)
    return {
        "min": min(seconds), "max": max(seconds), "mean": mean,
        "stddev": deviation,
        "rounds": len(seconds), "median": statistics.median(seconds),
        "iqr": quarters[2] - quarters[0], "q1": quarters[0], "q3": quarters[2],
        "ops": 1 / mean if mean else 0.0, "total": sum(seconds), "iterations": 1, "data": list(seconds),
        "iqr_outliers": far, "stddev_outliers": beyond, "outliers": f"{beyond};{far}", "ld15iqr": min(near), "hd15iqr": max(near),
    }  # fmt: skip


def conbench(runs: Analysed) -> Exported:
    results: list[dict[str, Any]] = []
    for bundle, rows in runs:
        run = bundle.run
        machine = {"name": run.machine.host, "os_name": run.machine.os, "cpu_model_name": run.machine.cpu.name}
        github = {"repository": run.labels.get("repository", ""), "commit": run.labels.get("commit", "")}
        for result in (row.result for row in rows):
            tags = {"name": _name(result), **dict(pair.split("=", 1) for pair in _parameters(result) if "=" in pair)}
            shared = {
                "run_id": run.id, "batch_id": run.id, "timestamp": run.began, "tags": tags, "context": {"benchmark_language": "hotlap"},
                "info": {"hotlap": _own(result)}, "github": github,
                "machine_info": {key: value or "unknown" for key, value in machine.items()},
            }  # fmt: skip
            if result.status == "measured" and result.values:
                results.append({**shared, "stats": {"data": (data := _values(result)), "unit": result.unit, "iterations": len(data)}})
            else:
                results.append({**shared, "error": {"message": result.reason or result.status}})
    return Exported(_json(results), [])


def junit_xml(runs: Analysed) -> Exported:
    judged = [Judgement(run=bundle.run.id, state="measured", reason="", against="", rows=list(rows)) for bundle, rows in runs]
    return Exported(junit.junit(judged).encode(), [])


def csv_table(runs: Analysed) -> Exported:
    """A line per round, in base units and with all digits."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "value": repr(row["value"]) if row["value"] is not None else ""} for row in _lines(runs))
    return Exported(out.getvalue().encode(), [])


def parquet(runs: Analysed) -> Exported:
    """The same table as columns. Raises Unavailable without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise Unavailable(f"Parquet is written by pyarrow, which cannot be imported ({error})", "pip install pyarrow") from None
    lines, sink = list(_lines(runs)), pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table({name: [line[name] for line in lines] for name in COLUMNS}), sink)
    return Exported(sink.getvalue().to_pybytes(), [])


FORMATS: Mapping[str, Callable[[Analysed], Exported]] = {
    "google-benchmark": google_benchmark, "pytest-benchmark": pytest_benchmark, "conbench": conbench, "junit": junit_xml, "csv": csv_table,
    "parquet": parquet,
}  # fmt: skip
ENDINGS = {"csv": "csv", "parquet": "parquet", "junit": "xml"}


def _lines(runs: Analysed) -> Iterable[dict[str, Any]]:
    for bundle, rows in runs:
        run = bundle.run
        devices = {device.key: device for device in run.machine.devices}
        for result in (row.result for row in rows):
            device = devices.get(result.device)
            shared = {
                "hotlap_run": run.id, "time": run.began, "host": run.machine.host, "device": device.name if device else "",
                "uuid": device.uuid if device else "", "index": device.index if device else 0,
                "labels": json.dumps(run.labels, sort_keys=True),
                "case": _name(result), "parameters": json.dumps(_parameters(result)), "unit": result.unit, "better": result.better,
            }  # fmt: skip
            measured = result.values if result.status == "measured" else []
            yield from ({**shared, "round": number, "value": float(value), "failed": ""} for number, value in enumerate(measured))
            if not measured:
                yield {**shared, "round": 0, "value": None, "failed": result.reason or result.status}


def _results(runs: Analysed) -> Iterable[Result]:
    return (row.result for _, rows in runs for row in rows)


def _name(result: Result) -> str:
    return str(result.case.params["name"]) if "name" in result.case.params else result.case.workload


def _parameters(result: Result) -> list[str]:
    """NAME=value, those of an imported case as they were; of a stand-in they say so, and `hotlap import` reads it."""
    given = result.case.params.get("parameters")
    if isinstance(given, list):
        return given
    pairs = {name: value for name, value in result.case.params.items() if name not in ("name", "unit", "better")}
    pairs |= {"implementation": result.case.implementation} if result.case.implementation else {}
    pairs |= {"stand_in": True} if stand_in.has(result) else {}
    return [f"{name}={written(value)}" for name, value in pairs.items()]


def _own(result: Result) -> dict[str, Any]:
    own = {"name": _name(result), "parameters": _parameters(result), "unit": result.unit, "better": result.better}
    return {**own, "one_process": True} if one_process(result) else own


def one_process(result: Result) -> list[float]:
    """The samples of a case that one process measured, in its unit; [] of all others, whose rounds say more."""
    known = result.used
    alone = len(known) == 1 and len(known[0].values) > 1 and known[0].unit in ("", result.unit)
    return list(known[0].values) if alone else []


def _values(result: Result) -> list[float]:
    return one_process(result) or list(result.values)


def _seconds(result: Result) -> list[float]:
    """Seconds per call, as many as `_values`; [] where they are not known."""
    if result.unit == "s":
        return _values(result)
    return list(result.seconds) if len(result.seconds) == len(_values(result)) else []


def cpu_seconds(result: Result) -> list[float]:
    """Processor time per call, as many as `_values`; [] where it is not known of each."""
    each = [one.metrics for one in result.used]
    known = [one["user_s"] + one["system_s"] if {"user_s", "system_s"} <= one.keys() else one.get("cpu_time_s") for one in each]
    values = [float(one) for one in known if one is not None]
    return values if len(values) == len(known) == len(_values(result)) else []


def copied(name: str, runs: Analysed) -> list[str]:
    """Cases whose processor time was not measured, in a format that must have one."""
    timed = (result for result in _results(runs) if result.status == "measured" and _seconds(result))
    return [_name(result) for result in timed if not cpu_seconds(result)] if name == "google-benchmark" else []


def condensed(name: str, runs: Analysed) -> list[str]:
    """Cases that one process measured and that leave as the median of their samples, where a format holds a line per round."""
    return [_name(result) for result in _results(runs) if one_process(result)] if name in ("csv", "parquet") else []


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
