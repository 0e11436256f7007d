"""GuideLLM's benchmarks.json: a benchmark per strategy, with its requests unless they were sampled or stripped."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers import latencies
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRun, Source, has, number, objects, texts

NAME = "guidellm"
BRINGS = (
    "of each request TTFT, TPOT without the first token (called inter token latency there) and with it (called time per output "
    "token), E2E from sent and, where the strategy has a schedule, from scheduled; means and percentiles where not all requests were "
    "kept; rates; failed requests"
)
ORIGIN = "vllm-project/guidellm at 0.8.1 (the wheel): schemas/base/request_stats.py, benchmark/schemas"
NAMES = {  # its own → ours, seconds of its unit
    "time_to_first_token_ms": (latencies.TTFT, "ms"), "time_to_first_output_token_ms": (latencies.TTFT_ANSWER, "ms"),
    "inter_token_latency_ms": (latencies.TPOT, "ms"), "time_per_output_token_ms": (latencies.TPOT_ALL, "ms"),
    "request_latency": (latencies.E2E_END, "s"), "request_scheduled_latency": (latencies.E2E_DUE_END, "s"),
}  # fmt: skip
SCALE = {"ms": 1e-3, "s": 1.0}
SCHEDULED = ("constant", "poisson", "trace")  # strategies whose targeted start is not "as soon as possible"
TRAFFIC = {"type_": "strategy", "rate": "rate", "streams": "concurrency", "max_concurrency": "concurrency_max"}


def detect(source: Source) -> bool:
    document = source.json
    if has(document, "metadata") and has(document["metadata"], "guidellm_version"):
        return True
    rows = document["benchmarks"] if has(document, "benchmarks") else None
    return isinstance(rows, list) and bool(rows) and all(has(row, "metrics", "requests") and _of_ours(row["metrics"]) for row in rows)


def _of_ours(metrics: object) -> bool:
    """Of any version."""
    return has(metrics, "request_totals") or has(metrics, "time_to_first_token_ms")


def read(source: Source) -> list[ReadRun]:
    rows = objects(source.json.get("benchmarks") or [], f"{source.path}: benchmarks")
    if not rows or not all(has(row, "metrics", "requests") for row in rows):
        raise InputError(
            f"{source.path} says that GuideLLM {source.json['metadata']['guidellm_version']} wrote it, and has no benchmarks with metrics "
            "and requests, as 0.8.1 writes them: export it again as JSON with all of it"
        )
    if not has(source.json, "metadata") or not all(has(row["metrics"], "request_totals") for row in rows):
        raise InputError(
            f"{source.path} is of an older GuideLLM, whose form is not read: no metadata, or no request_totals among the metrics. Read "
            "are files with both, as 0.8.1 writes them: TTFT, TPOT, E2E, failures and rates; run the benchmark with a newer one"
        )
    cases = [case for at, row in enumerate(rows, 1) for case in _benchmark(row, f"{source.path}: benchmark {at}")]
    start = rows[0].get("start_time")
    software = texts({"guidellm": source.json["metadata"].get("guidellm_version")})
    return [ReadRun(cases, number(start, f"{source.path}: start_time") if start else source.modified_s, software=software)]


def _benchmark(row: Fields, place: str) -> list[ReadCase]:
    strategy = (row.get("config") or {}).get("strategy") or {}
    given = latencies.parameters(strategy, TRAFFIC)
    counts = row["metrics"]["request_totals"]
    ended, lost = (number(counts.get(name) or 0, f"{place}, request_totals") for name in ("successful", "errored"))
    kept = objects(row["requests"].get("successful") or [], f"{place}, requests.successful")
    names = {name: both for name, both in NAMES.items() if both[0] != latencies.E2E_DUE_END or strategy.get("type_") in SCHEDULED}
    cases: list[ReadCase] = []
    for name, (label, unit) in names.items():
        if len(kept) == ended:
            known = [(at, request[name]) for at, request in enumerate(kept, 1) if request.get(name) is not None]
            values = [number(value, f"{place}, {name} of request {at}") * SCALE[unit] for at, value in known]
            cases += latencies.samples(label, values, given, place)
        else:
            cases += latencies.stated(label, unit, _statistics(row["metrics"].get(name)), given, place)
    cases += latencies.failed(lost, ended + lost, given, place) if ended + lost else []
    return cases + _rates(row, ended, given, place)


def _statistics(breakdown: Fields | None) -> Fields:
    stats = (breakdown or {}).get("successful") or {}
    return {"mean": stats.get("mean"), "std": stats.get("std_dev"), "count": stats.get("count"), **(stats.get("percentiles") or {})}


def _rates(row: Fields, ended: float, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """Counts over the measured stretch: its own rates are means over moments."""
    duration = number(row.get("duration") or 0, f"{place}, duration")
    if duration <= 0:
        return []
    tokens = ((row["metrics"].get("output_token_count") or {}).get("successful") or {}).get("total_sum")
    cases = latencies.rate(latencies.REQUESTS, "1/s", ended / duration, given, place)
    per_s = None if tokens is None else number(tokens, f"{place}, output_token_count") / duration
    return cases + latencies.rate(latencies.OUTPUT, latencies.TOKENS, per_s, given, place)
