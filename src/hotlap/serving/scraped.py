"""What a server says of itself: counters of its /metrics that serving uses, in the names of vLLM, by how much they grew."""

from __future__ import annotations

from collections.abc import Mapping

NAMES = {  # of ours → of the server, summed over its labels
    "queue_s": "vllm:request_queue_time_seconds_sum", "queue_count": "vllm:request_queue_time_seconds_count",
    "prefill_s": "vllm:request_prefill_time_seconds_sum", "prefill_count": "vllm:request_prefill_time_seconds_count",
    "ttft_s": "vllm:time_to_first_token_seconds_sum", "ttft_count": "vllm:time_to_first_token_seconds_count",
    "cache_queries": "vllm:prefix_cache_queries_total", "cache_hits": "vllm:prefix_cache_hits_total",
    "prompt_tokens": "vllm:prompt_tokens_total", "generation_tokens": "vllm:generation_tokens_total",
}  # fmt: skip


def read(document: bytes | None) -> dict[str, float]:
    """The counters that are there, of the text format of Prometheus; {} where there is none."""
    wanted = {theirs: ours for ours, theirs in NAMES.items()}
    counters: dict[str, float] = {}
    for line in (document or b"").decode("utf-8", "replace").splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in wanted:
            try:
                value = float(line.rpartition("}")[2].split()[0] if "}" in line else line.split()[1])
            except (ValueError, IndexError):
                continue
            counters[wanted[name]] = counters.get(wanted[name], 0.0) + value
    return counters


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each grew; one that fell was begun anew, as when a server starts again, and says nothing."""
    return {name: after[name] - value for name, value in before.items() if after.get(name, -1.0) >= value}
