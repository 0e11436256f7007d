"""What a server says of itself: counters of its /metrics that serving uses, in the names of vLLM or SGLang, by how much they grew.

vLLM: docs.vllm.ai, Production Metrics; SGLang, with --enable-metrics: docs.sglang.io, Production Metrics. SGLang has the time of a prefill
as a stage of its requests.
"""

from __future__ import annotations

from collections.abc import Mapping

TIMES = ("queue", "prefill", "ttft", "e2e")  # of ours: each NAME_s over NAME_count
_HISTOGRAMS: Mapping[str, Mapping[str, str]] = {
    "vLLM": {
        "queue": "vllm:request_queue_time_seconds", "prefill": "vllm:request_prefill_time_seconds",
        "ttft": "vllm:time_to_first_token_seconds", "e2e": "vllm:e2e_request_latency_seconds",
    },
    "SGLang": {
        "queue": "sglang:queue_time_seconds", "prefill": 'sglang:per_stage_req_latency_seconds{stage="prefill_forward"}',
        "ttft": "sglang:time_to_first_token_seconds", "e2e": "sglang:e2e_request_latency_seconds",
    },
}  # fmt: skip
_COUNTERS: Mapping[str, Mapping[str, str]] = {
    "vLLM": {
        "cache_queries": "vllm:prefix_cache_queries_total", "cache_hits": "vllm:prefix_cache_hits_total",
        "prompt_tokens": "vllm:prompt_tokens_total", "generation_tokens": "vllm:generation_tokens_total",
    },
    "SGLang": {
        "cache_queries": "sglang:prompt_tokens_total", "cache_hits": "sglang:cached_tokens_total",
        "prompt_tokens": "sglang:prompt_tokens_total", "generation_tokens": "sglang:generation_tokens_total",
    },
}  # fmt: skip


def _wanted() -> dict[str, list[tuple[str, str]]]:
    """Name of the server's → what it is here, and a label that it must have. Summed over all other labels."""
    wanted: dict[str, list[tuple[str, str]]] = {}
    for named in _HISTOGRAMS.values():
        for ours, theirs in named.items():
            name, _, label = theirs.partition("{")
            for ending, unit in (("_sum", "_s"), ("_count", "_count")):
                wanted.setdefault(name + ending, []).append((ours + unit, label.rstrip("}")))
    for named in _COUNTERS.values():
        for ours, theirs in named.items():
            wanted.setdefault(theirs, []).append((ours, ""))
    return wanted


WANTED = _wanted()


def read(document: bytes | None) -> dict[str, float]:
    """The counters that are there, of the text format of Prometheus; {} where there is none."""
    counters: dict[str, float] = {}
    for line in (document or b"").decode("utf-8", "replace").splitlines():
        name, _, labels = line.partition(" ")[0].partition("{") if "{" not in line else line.partition("{")
        try:
            value = float(labels.rpartition("}")[2].split()[0] if labels else line.split()[1])
        except (ValueError, IndexError):
            continue
        for ours, label in WANTED.get(name, ()):
            if label in labels:
                counters[ours] = counters.get(ours, 0.0) + value
    return counters


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each grew; one that fell was begun anew, as when a server starts again, and says nothing. One that was not there yet
    began at 0: a histogram with labels appears with its first value."""
    return {name: value - before.get(name, 0.0) for name, value in after.items() if value >= before.get(name, 0.0)}


def missing(server: Mapping[str, float]) -> list[str]:
    """Which of the times that take TTFT apart it does not have; both where nothing of it is known."""
    return [name for name in ("queue", "prefill") if not server.get(f"{name}_count")]


def mean_s(server: Mapping[str, float], name: str) -> float | None:
    """Of one of TIMES; None where it does not say."""
    count = server.get(f"{name}_count", 0.0)
    return server[f"{name}_s"] / count if count > 0 and f"{name}_s" in server else None
