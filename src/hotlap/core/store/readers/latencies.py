"""Latencies of requests to servers of models: one name for each definition, whatever a tool calls it.

Every tool's clock begins when the request is sent, so none but `E2E_QUEUED` and `E2E_DUE_END` holds the client's own queue. A TPOT without
the first token and one with it differ by the prefill; a chunk gap is a token's time only where a chunk holds one token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.store.readers.source import Better, ReadCase, ReadRound, number, numbers

TTFT = "TTFT (from sent)"  # the first chunk, of reasoning too
TTFT_ANSWER = "TTFT of the answer (from sent)"  # the first chunk that is not reasoning
TPOT = "TPOT (after the first token)"  # (last − first) ÷ (tokens − 1) of a request
TPOT_END = "TPOT (after the first token, to the answer's end)"  # (end − first) ÷ (tokens − 1)
TPOT_ALL = "TPOT (with the first token)"  # E2E to the last token ÷ tokens of a request
TPOT_ALL_END = "TPOT (with the first token, to the answer's end)"
ITL = "ITL (chunk gap ÷ its tokens)"  # each token of a chunk has its share
ITL_ZEROS = "ITL (tokens of one chunk 0 s apart)"
CHUNK_GAP = "chunk gap"  # between chunks, whatever they hold
E2E = "E2E (from sent to the last token)"
E2E_END = "E2E (from sent to the answer's end)"
E2E_QUEUED = "E2E (with the client's queue, to the last token)"  # the wait for a place, not a client that sends late
E2E_DUE_END = "E2E (from scheduled to the answer's end)"
FAILED = "failed requests"  # share of all that were sent
REQUESTS, GOODPUT = "requests that ended", "goodput"  # each second
INPUT, OUTPUT, TOTAL = "input tokens", "output tokens", "input and output tokens"  # each second
TOKENS = "tokens/s"
STATED = ("mean", "p50", "p90", "p95", "p99")  # of values that a file does not hold


def samples(
    name: str, values: Sequence[float], given: tuple[str, ...], place: str, metrics: Mapping[str, float] | None = None
) -> list[ReadCase]:
    """A case of values in seconds, one per request or chunk. No case where there is none; those of 0 s are left out and counted, for a
    duration is above zero. Raises InputError for a negative one."""
    if any(value < 0 for value in values):
        raise InputError(f"{place}, {name}: {min(values):g} s is no duration")
    kept = [value for value in values if value > 0]
    more = dict(metrics or {}) | ({"left_out_of_0_s": float(len(values) - len(kept))} if len(kept) < len(values) else {})
    return [ReadCase(name, "s", [ReadRound(kept, metrics=more)], given, "lower", place)] if kept else []


def stated(name: str, unit: str, stats: Mapping[str, Any], given: tuple[str, ...], place: str) -> list[ReadCase]:
    """Cases of what a file states of values that it does not hold: `NAME, mean`, `NAME, p50` …, each an aggregate by the tool's own
    definition. `stats`: what is known of mean, p50, p90, p95, p99, count, std. No case of a number of 0, which is no duration."""
    known = {part: number(stats[part], f"{place}, {name}, {part}") for part in STATED if stats.get(part) is not None}
    count = {} if stats.get("count") is None else {"samples": number(stats["count"], f"{place}, {name}, count")}
    noise = {}
    if stats.get("std") is not None and known.get("mean", 0.0) > 0:
        noise = {"noise": number(stats["std"], f"{place}, {name}, std") / known["mean"]}
    more = {"mean": {**count, **noise}}
    return [
        ReadCase(f"{name}, {part}", unit, [ReadRound([value], metrics=more.get(part, count), aggregate=True)], given, "lower", place)
        for part, value in known.items() if value > 0
    ]  # fmt: skip


def rate(name: str, unit: str, value: Any, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """A case of a number each second of the whole run; no case where the file has none, for a run without answers has no rate."""
    if value is None:
        return []
    return [ReadCase(name, unit, [ReadRound([number(value, f"{place}, {name}")])], given, "higher", place)]


def failed(count: float, of: float, given: tuple[str, ...], place: str) -> list[ReadCase]:
    """A case of the share that failed, so that a gate sees it. Raises InputError for more than were sent."""
    if not 0 <= count <= of or of <= 0:
        raise InputError(f"{place}: {count:g} of {of:g} requests failed; is the file whole?")
    better: Better = "lower"
    return [ReadCase(FAILED, "", [ReadRound([count / of], metrics={"requests": of, "failed": count})], given, better, place)]


def column(row: Mapping[str, Any], name: str, length: int | None, place: str) -> list[float] | None:
    """A list with a number for each request; None where the file has none. Raises InputError for another length."""
    if row.get(name) is None:
        return None
    values = numbers(row[name], f"{place}, {name}")
    if length is not None and len(values) != length:
        raise InputError(f"{place}: {len(values)} {name}, but {length} requests")
    return values


def gaps(row: Mapping[str, Any], length: int, place: str) -> list[list[float]]:
    """`itls`: a list for each request. Raises InputError."""
    rows = row.get("itls")
    if not isinstance(rows, list) or len(rows) != length:
        raise InputError(f"{place}: itls is no list with a list for each of {length} requests")
    return [numbers(values, f"{place}, itls of request {place_in}") for place_in, values in enumerate(rows, 1)]


def parameters(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, ...]:
    """NAME=value of what is set; `names`: the file's → ours."""
    return tuple(f"{ours}={row[theirs]}" for theirs, ours in names.items() if row.get(theirs) not in (None, ""))
