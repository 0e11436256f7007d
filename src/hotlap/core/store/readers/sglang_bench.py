"""sglang.bench_serving: a JSON object per run, one a line; values of requests with --output-details."""

from __future__ import annotations

from hotlap.core.errors import InputError
from hotlap.core.store.readers import latencies
from hotlap.core.store.readers.source import Fields, ReadCase, ReadRun, Source, has, number, texts

NAME = "sglang-bench"
BRINGS = (
    "TTFT, TPOT, E2E of each request with --output-details, else means and percentiles (of which TPOT and E2E end with the answer, "
    "not with the last token); its ITL is a chunk's gap over its tokens with the backend sglang, a gap between chunks with others; "
    "rates; the clock begins when sent; failed requests with --output-details"
)
ORIGIN = "sgl-project/sglang at 00f9ec472ffef82714c0407b842ccb5bd254d130: python/sglang/benchmark/serving.py"
KEYS = ("backend", "dataset_name", "completed", "duration", "total_output_tokens_retokenized")
TRAFFIC = {"dataset_name": "dataset", "request_rate": "rate", "max_concurrency": "concurrency"}
PARTS = {"mean": "mean", "std": "std", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
NATIVE = ("sglang", "sglang-native")  # streams say how many tokens came, so a gap is shared among them


def detect(source: Source) -> bool:
    rows = _rows(source)
    return bool(rows) and all(has(row, *KEYS) for row in rows)


def read(source: Source) -> list[ReadRun]:
    return [_run(row, f"{source.path}:{line}", source) for line, row in enumerate(_rows(source), 1)]


def _rows(source: Source) -> list[Fields]:
    return [source.json] if isinstance(source.json, dict) else source.lines


def _run(row: Fields, place: str, source: Source) -> ReadRun:
    given = latencies.parameters(row, TRAFFIC)
    duration, ended = number(row["duration"], f"{place}, duration"), number(row["completed"], f"{place}, completed")
    if duration <= 0:
        raise InputError(f"{place}, duration: {duration:g} s is no duration")
    cases = _detailed(row, given, place) if row.get("ttfts") is not None else _means(row, given, place)
    cases += latencies.rate(latencies.REQUESTS, "1/s", row.get("request_throughput", ended / duration), given, place)
    cases += latencies.rate(latencies.INPUT, latencies.TOKENS, row.get("input_throughput"), given, place)
    cases += latencies.rate(latencies.OUTPUT, latencies.TOKENS, row.get("output_throughput"), given, place)
    cases += latencies.rate(latencies.TOTAL, latencies.TOKENS, row.get("total_throughput"), given, place)
    return ReadRun(cases, source.modified_s, labels=texts({"backend": row["backend"], "tag": row.get("tag")}))


def _itl(row: Fields) -> str:
    return latencies.ITL if row["backend"] in NATIVE else latencies.CHUNK_GAP


def _detailed(row: Fields, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """Of requests that did not fail, from TTFT and gaps: how long the answer went on after the last token was not kept."""
    first = latencies.column(row, "ttfts", None, place) or []
    between = latencies.gaps(row, len(first), place)
    tokens = latencies.column(row, "output_lens", len(first), place)
    errors = row.get("errors") or [""] * len(first)
    if not isinstance(errors, list) or len(errors) != len(first) or tokens is None:
        raise InputError(f"{place}: errors and output_lens need one entry for each of {len(first)} requests")
    good = [at for at, error in enumerate(errors) if not error]
    several = [at for at in good if tokens[at] > 1]
    cases = latencies.samples(latencies.TTFT, [first[at] for at in good], given, place)
    cases += latencies.samples(latencies.TPOT, [sum(between[at]) / (tokens[at] - 1) for at in several], given, place)
    cases += latencies.samples(_itl(row), [gap for at in good for gap in between[at]], given, place)
    cases += latencies.samples(latencies.E2E, [first[at] + sum(between[at]) for at in good], given, place)
    return cases + (latencies.failed(len(first) - len(good), len(first), given, place) if first else [])


def _means(row: Fields, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """In ms, as its console shows them."""
    names = {"ttft": latencies.TTFT, "tpot": latencies.TPOT_END, "itl": _itl(row), "e2e_latency": latencies.E2E_END}
    cases: list[ReadCase] = []
    for theirs, name in names.items():
        stats = {ours: row.get(f"{part}_{theirs}_ms") for part, ours in PARTS.items()}
        stats |= {"count": row["completed"]} if theirs not in ("itl", "tpot") else {}  # a request of one token has no TPOT
        cases += latencies.stated(name, "ms", stats, given, place)
    return cases
