"""inference-perf: per_request_lifecycle_metrics.json has each request, summary_ and stage_N_lifecycle_metrics.json statistics."""

from __future__ import annotations

from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers import latencies
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRun, Source, has, number, numbers, objects

NAME = "inference-perf"
BRINGS = (
    "of the file per request TTFT, TPOT without the first token and with it (called normalized), E2E to the answer's end; of stages "
    "and summaries means and percentiles of these and of ITL (tokens of a chunk are 0 s apart), rates; failed requests; clock from "
    "sent, tokens as its client counts them"
)
ORIGIN = "kubernetes-sigs/inference-perf at 010d12fb62cc3157b6bd228ef93dd865c7a05194: inference_perf/reportgen/base.py, docs/metrics.md"
NAMES = {
    "time_to_first_token": latencies.TTFT, "time_per_output_token": latencies.TPOT,
    "normalized_time_per_output_token": latencies.TPOT_ALL_END, "request_latency": latencies.E2E_END,
}  # fmt: skip
SUMMARY = {**NAMES, "inter_token_latency": latencies.ITL_ZEROS}
RATES = {
    "requests_per_sec": (latencies.REQUESTS, "1/s"), "input_tokens_per_sec": (latencies.INPUT, latencies.TOKENS),
    "output_tokens_per_sec": (latencies.OUTPUT, latencies.TOKENS), "total_tokens_per_sec": (latencies.TOTAL, latencies.TOKENS),
}  # fmt: skip


def detect(source: Source) -> bool:
    document = source.json
    if isinstance(document, list):
        known = all(has(row, "start_time", "end_time", "error") and ("info" in row or "computed_metrics" in row) for row in document)
        return bool(document) and known
    return has(document, "load_summary", "successes", "failures") and has(document["successes"], "count", "latency", "throughput")


def read(source: Source) -> list[ReadRun]:
    cases = _requests(source) if isinstance(source.json, list) else _summary(source.json, str(source.path))
    return [ReadRun(cases, source.modified_s)]  # its times are of a clock that does not say when it began


def _requests(source: Source) -> list[ReadCase]:
    rows = objects(source.json, str(source.path))
    values: dict[str, list[float]] = {name: [] for name in NAMES}
    for at, row in enumerate(rows, 1):
        place = f"{source.path}: request {at}"
        measured = _measured(row, place) if not row["error"] else {}
        for name in NAMES:
            if measured.get(name) is not None:
                values[name].append(number(measured[name], f"{place}, {name}"))
    cases = [case for name, label in NAMES.items() for case in latencies.samples(label, values[name], (), str(source.path))]
    return cases + latencies.failed(sum(bool(row["error"]) for row in rows), len(rows), (), str(source.path))


def _measured(row: Fields, place: str) -> Fields:
    """As it computed them; else what the moments alone give: TPOT needs a count of tokens that its early reports do not name."""
    if row.get("computed_metrics"):
        measured: dict[str, Any] = row["computed_metrics"]
        return measured
    start, end = (number(row[name], f"{place}, {name}") for name in ("start_time", "end_time"))
    if end < start:
        raise InputError(f"{place}: it ends at {end:g} s, before it starts at {start:g} s")
    info = row.get("info") or {}
    times = (info.get("response_metrics") or info).get("output_token_times") or []
    first = {"time_to_first_token": numbers(times, f"{place}, output_token_times")[0] - start} if len(times) > 1 else {}
    return {"request_latency": end - start, **first}


def _summary(document: Fields, place: str) -> list[ReadCase]:
    """Of one stage, which has a rate or a concurrency, or of all together."""
    load, good, bad = document["load_summary"], document["successes"], document["failures"]
    given = latencies.parameters(load, {"requested_rate": "rate", "concurrency": "concurrency"}) or ("stages=all",)
    count, lost = (number(part.get("count") or 0, f"{place}, count") for part in (good, bad))
    cases: list[ReadCase] = []
    for name, label in SUMMARY.items():
        stats = dict(good["latency"].get(name) or {})
        stats |= {"p50": stats.get("median")} | ({"count": count} if name == "request_latency" else {})
        cases += latencies.stated(label, "s", stats, given, place)
    if count + lost:
        cases += latencies.failed(lost, count + lost, given, place)
    for name, (label, unit) in RATES.items():
        cases += latencies.rate(label, unit, good["throughput"].get(name), given, place)
    return cases
