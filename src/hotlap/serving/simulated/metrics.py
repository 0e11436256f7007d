"""What a simulated server says of itself at /metrics: vLLM's names, in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hotlap.serving.simulated.engine import BatchEngine, EngineJob

TIMES_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
COUNTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0)
HISTOGRAMS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "time_to_first_token_seconds": ("from a request's arrival to its first token", TIMES_S),
    "inter_token_latency_seconds": ("from a token to the next", TIMES_S),
    "request_time_per_output_token_seconds": ("of a request, mean", TIMES_S),
    "e2e_request_latency_seconds": ("from a request's arrival to its end", TIMES_S),
    "request_queue_time_seconds": ("that a request waited", TIMES_S),
    "request_prefill_time_seconds": ("from a request's first step to its first token", TIMES_S),
    "request_decode_time_seconds": ("from a request's first token to its last", TIMES_S),
    "request_inference_time_seconds": ("from a request's first step to its end", TIMES_S),
    "request_prompt_tokens": ("of a request's prompt", COUNTS),
    "request_generation_tokens": ("of a request's answer", COUNTS),
}
COUNTERS: Mapping[str, str] = {
    "prompt_tokens": "of prompts that were computed or found",
    "generation_tokens": "that were given",
    "prefix_cache_queries": "tokens of prompts that were looked up",
    "prefix_cache_hits": "tokens of prompts that were found",
}
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Histogram:
    """Counts by upper bound, the last without one."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def observe(self, value: float) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        below = 0
        for bound, count in zip([*self.bounds, None], self.counts or [0] * (len(self.bounds) + 1), strict=True):
            below += count
            yield f'{name}_bucket{{{labels},le="{"+Inf" if bound is None else bound}"}} {below}'
        yield f"{name}_sum{{{labels}}} {self.total!r}"
        yield f"{name}_count{{{labels}}} {below}"


class ServerMetrics:
    """`clock`: what its seconds are multiplied by; 1 is honest."""

    def __init__(self, model: str, clock: float = 1.0) -> None:
        self.labels, self.clock = f'engine="0",model_name="{model}"', clock
        self.histograms = {name: Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.finished = {"stop": 0, "length": 0, "abort": 0}

    def token(self, job: EngineJob, gap_s: float | None) -> None:
        """One token came."""
        self.counters["generation_tokens"] += job.output_tokens > 0
        if gap_s is not None:
            self._time("inter_token_latency_seconds", gap_s)
            return
        assert job.first_s is not None
        self._time("time_to_first_token_seconds", job.first_s - job.arrived_s)
        self.counters["prompt_tokens"] += job.input_tokens
        self.counters["prefix_cache_queries"] += job.input_tokens
        self.counters["prefix_cache_hits"] += job.cached_tokens

    def ended(self, job: EngineJob, finish: str) -> None:
        self.finished[finish] += 1
        if job.ended_s is None or job.admitted_s is None or job.first_s is None:
            return
        self._time("e2e_request_latency_seconds", job.ended_s - job.arrived_s)
        self._time("request_queue_time_seconds", job.admitted_s - job.arrived_s)
        self._time("request_prefill_time_seconds", job.first_s - job.admitted_s)
        self._time("request_decode_time_seconds", job.ended_s - job.first_s)
        self._time("request_inference_time_seconds", job.ended_s - job.admitted_s)
        if job.emitted > 1:
            self._time("request_time_per_output_token_seconds", (job.ended_s - job.first_s) / (job.emitted - 1))
        self.histograms["request_prompt_tokens"].observe(job.input_tokens)
        self.histograms["request_generation_tokens"].observe(job.emitted)

    def _time(self, name: str, seconds: float) -> None:
        self.histograms[name].observe(seconds * self.clock)

    def text(self, engine: BatchEngine, behind_s: float) -> str:
        return "\n".join([*self._lines(engine, behind_s), ""])

    def _lines(self, engine: BatchEngine, behind_s: float) -> Iterator[str]:
        gauges = {
            "vllm:num_requests_running": ("requests in a batch", len(engine.running)),
            "vllm:num_requests_waiting": ("requests that wait", len(engine.waiting)),
            "vllm:kv_cache_usage_perc": ("share of the cache of keys and values in use, from 0 to 1", engine.memory.share),
            "hotlap:simulated_behind_seconds": ("by how much this process is later than the GPU that it simulates", behind_s),
        }
        for name, (about, value) in gauges.items():
            yield from _heading(name, about, "gauge")
            yield f"{name}{{{self.labels}}} {value}"
        for name, about in COUNTERS.items():
            yield from _heading(f"vllm:{name}_total", about, "counter")
            yield f"vllm:{name}_total{{{self.labels}}} {self.counters[name]}"
        yield from _heading("vllm:request_success_total", "requests that ended, by why", "counter")
        for reason, count in self.finished.items():
            yield f'vllm:request_success_total{{{self.labels},finished_reason="{reason}"}} {count}'
        for name, (about, _) in HISTOGRAMS.items():
            yield from _heading(f"vllm:{name}", about, "histogram")
            yield from self.histograms[name].lines(f"vllm:{name}", self.labels)


def _heading(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
