"""aiperf profile: profile_export.jsonl has a line for each request, profile_export_aiperf.json statistics of the run."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers import latencies
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRun, Source, has, moment, number, numbers, texts
from hotlap.core.units import base as base_unit

NAME = "aiperf"
BRINGS = (
    "of profile_export.jsonl each request's TTFT, TPOT (called ITL there), E2E and gaps between chunks, and how many failed; of "
    "profile_export_aiperf.json rates, and means and percentiles where the other file is not beside it; the clock begins when sent; "
    "nothing of a warm-up"
)
ORIGIN = "ai-dynamo/aiperf at 13992dbd96879c76e9584f2e8dc05db49bee6cf2: docs/tutorials; aiperf 0.13.0: metrics/types, exporters"
RECORDS = "profile_export.jsonl"
NAMES = {
    "time_to_first_token": latencies.TTFT, "time_to_first_output_token": latencies.TTFT_ANSWER, "inter_token_latency": latencies.TPOT,
    "inter_chunk_latency": latencies.CHUNK_GAP, "request_latency": latencies.E2E,
}  # fmt: skip
RATES = {
    "request_throughput": (latencies.REQUESTS, "1/s", "requests/sec"), "goodput": (latencies.GOODPUT, "1/s", "requests/sec"),
    "output_token_throughput": (latencies.OUTPUT, latencies.TOKENS, "tokens/sec"),
    "total_token_throughput": (latencies.TOTAL, latencies.TOKENS, "tokens/sec"),
}  # fmt: skip


def detect(source: Source) -> bool:
    rows = _records(source)
    records = all(has(row, "metadata", "metrics", "error") and has(row["metadata"], "request_start_ns") for row in rows)
    return _summary(source) or (bool(rows) and records)


def read(source: Source) -> list[ReadRun]:
    group = str(source.path.parent)
    if _summary(source):
        row = source.json
        when = moment(row["start_time"], f"{source.path}: start_time") if row.get("start_time") else source.modified_s
        return [ReadRun(_of_summary(row, source), when, software=texts({"aiperf": row.get("aiperf_version")}), group=group)]
    rows = [row for row in _records(source) if row["metadata"].get("benchmark_phase", "profiling") == "profiling"]
    if not rows:
        raise InputError(f"{source.path}: it holds no request of the phase 'profiling'")
    starts = [number(row["metadata"]["request_start_ns"], f"{source.path}: request {at}, its start") for at, row in enumerate(rows, 1)]
    return [ReadRun(_of_records(rows, str(source.path)), min(starts) / 1e9, group=group)]


def _summary(source: Source) -> bool:
    return has(source.json, "request_latency", "request_throughput") and has(source.json["request_latency"], "unit", "avg")


def _records(source: Source) -> list[Fields]:
    return [source.json] if isinstance(source.json, dict) else source.lines


def _of_records(rows: list[Fields], place: str) -> list[ReadCase]:
    values: dict[str, list[float]] = {name: [] for name in NAMES}
    for at, row in enumerate(rows, 1):
        for name in NAMES if not row["error"] else ():
            if metric := row["metrics"].get(name):
                where = f"{place}: request {at}, {name}"
                several = metric["value"] if isinstance(metric["value"], list) else [metric["value"]]
                values[name] += [value * _seconds(metric, where) for value in numbers(several, where)]
    cases = [case for name, label in NAMES.items() for case in latencies.samples(label, values[name], (), place)]
    return cases + latencies.failed(sum(bool(row["error"]) for row in rows), len(rows), (), place)


def _seconds(metric: Fields, place: str) -> float:
    """How many seconds its unit is. Raises InputError for one that is no time."""
    unit, scale = base_unit(str(metric.get("unit"))) or ("", 1.0)
    if unit != "s":
        raise InputError(f"{place}: its unit is '{metric.get('unit')}', which is no time")
    return scale


def _of_summary(row: Fields, source: Source) -> list[ReadCase]:
    place = str(source.path)
    cases: list[ReadCase] = []
    if source.beside(RECORDS) is None:
        for name, label in NAMES.items():
            if isinstance(metric := row.get(name), dict):
                _seconds(metric, f"{place}: {name}")
                cases += latencies.stated(label, str(metric["unit"]), {**metric, "mean": metric.get("avg")}, (), place)
        lost, ended = ((row.get(name) or {}).get("avg") or 0.0 for name in ("error_request_count", "request_count"))
        cases += latencies.failed(number(lost, place), number(lost, place) + number(ended, place), (), place)
    for name, (label, unit, theirs) in RATES.items():
        if isinstance(metric := row.get(name), dict):
            if metric.get("unit") != theirs:
                raise InputError(f"{place}: {name}: its unit is '{metric.get('unit')}', not {theirs}")
            cases += latencies.rate(label, unit, metric.get("avg"), (), place)
    return cases
