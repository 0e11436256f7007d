"""The same requests by another tool's definitions, so that its numbers can be compared with ours.

vLLM's client (`vllm bench serve`, 0.32: vllm/benchmarks/serve.py, calculate_metrics) counts from when a request was sent, whatever it
waited in the client before; its E2E ends with the last chunk; its ITL is the gap between two chunks, however many tokens they have; its
TPOT of an answer of one token is 0 for goodput and left out else; what failed is in no latency; percentiles are linear between order
statistics. Its own client takes chat's first event, which has a role alone, for the first token too; that event is not kept here, and
vLLM's server sends it with the first token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hotlap.core import objectives
from hotlap.core.objectives import Objective
from hotlap.core.record import Record
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import Request
from hotlap.serving.summary import METRICS

PERCENTILES = (50.0, 90.0, 99.0)
TOOLS = ("vllm",)


class DefinedLatency(Record, frozen=True, kw_only=True):
    """One metric in seconds; `percentiles` at PERCENTILES."""

    name: str
    count: int
    mean_s: float
    std_s: float  # of the population
    percentiles_s: list[float]


class DefinedNumbers(Record, frozen=True, kw_only=True):
    """What a tool would say of a run. Rates are a second; None: it cannot be said from what was kept."""

    tool: str
    completed: int
    failed: int  # errors, refusals, time-outs
    cut: int = 0  # by the run's end, which that tool waits for: left out
    duration_s: float  # from the first that was due to the last end
    request_rate: float | None
    output_rate: float | None = None  # tokens
    total_rate: float | None = None  # tokens, input and output
    goodput: float | None = None  # requests; None without objectives, or with one that the tool does not have
    latencies: list[DefinedLatency] = []


def vllm(serving: ServingRun) -> DefinedNumbers:
    """By vLLM's definitions; requests of the warm-up are left out, as its own are."""
    asked = serving.served.asked
    requests = [request for request in serving.requests if request.index >= asked.warm_up]
    ok = [request for request in requests if request.outcome == "ok" and request.first_s is not None and request.sent_s is not None]
    cut = sum(request.outcome == "censored" for request in requests)
    duration_s = max((r.ended_s or r.due_s for r in requests), default=0.0) - min((r.due_s for r in requests), default=0.0)
    per_s = 1 / duration_s if duration_s > 0 else None
    e2e_s = [_from_sent(request, request.last_s) for request in ok]
    latencies = [_latency("E2EL", e2e_s)]
    output = sum(request.output_tokens or 0 for request in ok)
    whole = sum(request.input_tokens or 0 for request in ok) + output
    counted = per_s is not None and all(request.output_tokens for request in ok) and asked.api != "embeddings"
    if asked.api != "embeddings":
        ttft_s = [_from_sent(request, request.first_s) for request in ok]
        gaps_s = [gap for request in ok for gap in serving.gaps_s.get(request.index, np.empty(0)).tolist()]
        tpot_s = [value for request in ok if (value := _tpot(request)) is not None]
        latencies = [_latency("TTFT", ttft_s), *([_latency("TPOT", tpot_s)] if counted else []), _latency("ITL", gaps_s), *latencies]
    return DefinedNumbers(
        tool="vllm", completed=len(ok), failed=len(requests) - len(ok) - cut, cut=cut, duration_s=duration_s,
        request_rate=len(ok) * per_s if per_s else None, output_rate=output * per_s if counted and per_s else None,
        total_rate=whole * per_s if per_s and (counted or asked.api == "embeddings") else None,
        goodput=_goodput(ok, objectives.parse(asked.objectives, METRICS), per_s) if asked.objectives and counted else None,
        latencies=[latency for latency in latencies if latency.count],
    )  # fmt: skip


def _from_sent(request: Request, time_s: float | None) -> float:
    return (time_s or 0.0) - (request.sent_s or 0.0)


def _tpot(request: Request) -> float | None:
    tokens = request.output_tokens or 0
    return (_from_sent(request, request.last_s) - _from_sent(request, request.first_s)) / (tokens - 1) if tokens > 1 else None


def _goodput(ok: Sequence[Request], limits: Sequence[Objective], per_s: float | None) -> float | None:
    """Good requests a second; None for an objective on what vLLM has no name for."""
    if per_s is None or any(limit.metric not in ("ttft", "tpot", "e2e") for limit in limits):
        return None

    def value(request: Request, metric: str) -> float:
        if metric == "tpot":
            return _tpot(request) or 0.0
        return _from_sent(request, request.first_s if metric == "ttft" else request.last_s)

    return sum(all(limit.limit_s >= value(request, limit.metric) for limit in limits) for request in ok) * per_s


def _latency(name: str, values: Sequence[float]) -> DefinedLatency:
    every = np.asarray(values if len(values) else [0.0])
    return DefinedLatency(
        name=name, count=len(values), mean_s=float(np.mean(every)), std_s=float(np.std(every)),
        percentiles_s=np.percentile(every, PERCENTILES).tolist(),
    )  # fmt: skip
