"""What the model expects of the same requests on the GPU that serves them, beside what was measured, and the gap between them split.

The requests are played again through the engine of the simulated server (`simulated.engine`), whose steps take what `hotlap predict net`
expects: at the moments when they were sent, of a closed loop when a place becomes free. So what the model expects includes the queue and
the batch of this load. Its intervals are those of the prompt's and of a token's step in `predict net`. Time on the host beside kernels is
not in it: a real engine's scheduler, sampling and HTTP are above the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.model import kept, machines
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.networks import predict
from hotlap.core.model.networks.result import StepEstimate
from hotlap.core.record import Record
from hotlap.core.work.networks import calls, sources, steps
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.shape import Network
from hotlap.serving import arrivals, quantiles, steady
from hotlap.serving.quantiles import Quantile
from hotlap.serving.reading import ServingRun
from hotlap.serving.record import Request, ServedOn
from hotlap.serving.simulated.engine import BatchEngine, EngineJob
from hotlap.serving.simulated.memory import KVMemory
from hotlap.serving.simulated.steptime import StepTable, capacity
from hotlap.serving.summary import ServingSummary

SHORT = 1024  # tokens of a context
TURN_S = 1e-4  # from an end to the next request at the server
MOST = 1000  # requests that are played again, the first ones
Answer = Literal["as expected", "slower", "faster", "unknown"]  # unknown: the measured median has no whole interval that could say it


class ExpectedFigure(Record, frozen=True, kw_only=True):
    """One metric, medians in seconds of so many `requests`. `alone`: of one request that has the GPU for itself. `low_s`, `high_s`: the
    model's 90 % interval."""

    name: str
    alone_s: float
    expected_s: float
    low_s: float
    high_s: float
    measured: Quantile
    answer: Answer
    requests: int = 0  # both medians are of


class ExpectedServing(Record, frozen=True, kw_only=True):
    """`figures`: of the steady part, where there is one. `ttft_gap`, `tpot_gap`: means of the whole run in seconds, which add up to the one
    measured: of a request alone, by the model's queue and batch, and what is above the model."""

    on: ServedOn
    requests: int  # that were played
    figures: list[ExpectedFigure]
    ttft_gap: dict[str, float] = {}
    tpot_gap: dict[str, float] = {}


class _Engine(NamedTuple):
    table: StepTable
    tokens: int  # that the cache holds
    calibration: Calibration | None


@lru_cache(maxsize=4)
def engine(on: ServedOn, context: int) -> _Engine:
    """Raises InputError for a network, GPU or setting that cannot be."""
    source, spec = sources.read(on.network), machines.load(on.gpu)
    if not isinstance(source, Network):
        raise InputError(f"'{on.network}' is no stack of transformer layers: nothing is expected of its server")
    if not source.causal:
        raise InputError(f"'{on.network}' is an encoder: what its server takes is not expected yet")
    base = Setting("decode", tp=on.tp, dtype=on.dtype, kv_dtype=on.kv_dtype)
    steps.check_dtype(source, on.dtype)
    calls.check(source, base)
    tokens = capacity(source, base, spec, on.chunk)
    known = kept.chosen(on.gpu, "", False, kept.place())
    return _Engine(StepTable(source, base, spec, (on.batch, on.chunk, min(context, tokens)), known), tokens, known)


def of(serving: ServingRun, summary: ServingSummary) -> ExpectedServing | None:
    """None where it is not known what serves, and where nothing was answered in tokens. Raises InputError as `engine`."""
    on, asked = serving.served.on, serving.served.asked
    played = [one for one in serving.requests if one.first_s is not None and one.sent_s is not None and one.chunks][:MOST]
    if on is None or asked.api == "embeddings" or not any(request.index >= asked.warm_up for request in played):
        return None
    jobs = [_job(request) for request in played]
    known = engine(on, 1 << (max(job.tokens for job in jobs) - 1).bit_length())
    batch = _play(known, on, jobs, arrivals.kept(asked.arrivals).concurrency)
    both = list(zip(jobs, played, strict=True))
    every = [(job, one) for job, one in both if job.ended_s is not None and one.outcome == "ok" and one.index >= asked.warm_up]
    window = summary.steady.window if summary.steady else None
    held = {one.index for one in (steady.within(played, window) if window else played)}
    some = [(job, one) for job, one in every if one.index in held]
    if not some:
        return None
    begun = [(job, one) for job, one in both if one.index >= asked.warm_up and one.index in held and job.first_s is not None and _came(one)]
    figures = [_ttft(known, on, begun)]
    decoded = [(job, one) for job, one in some if one.tpot_s is not None]
    if decoded:
        figures.append(_tpot(known, on, decoded, batch))
    return ExpectedServing(
        on=on, requests=len(jobs), figures=figures, ttft_gap=_ttft_gap(known, every, summary), tpot_gap=_tpot_gap(known, every)
    )


def _came(request: Request) -> bool:
    """Whether its first token counts, as in the table of latencies: of what was answered, and of what the run's end cut later."""
    return request.outcome in ("ok", "censored")


def _job(request: Request) -> EngineJob:
    """As the server did it: what it says that it found in its cache is not computed."""
    computed = (request.input_tokens or request.asked_input) - (request.cached_tokens or 0)
    output = request.output_tokens or request.chunks
    return EngineJob(str(request.index), max(computed, 1), max(output, 1), arrived_s=request.sent_s or 0.0)


def _play(known: _Engine, on: ServedOn, jobs: Sequence[EngineJob], places: int) -> float:
    """All jobs; sequences of a step on average. `places`: of a closed loop, where the next comes TURN_S after an end: so it misses the step
    that begins at once. 0: each comes at its time."""
    batch = BatchEngine(known.table, KVMemory(known.tokens), on.batch, on.chunk)
    later, now_s, weighted, busy_s = deque(jobs), 0.0, 0.0, 0.0
    coming = deque(later.popleft() for _ in range(min(places or len(later), len(later))))
    for job in coming if places else ():
        job.arrived_s = 0.0
    while True:
        while coming and coming[0].arrived_s <= now_s:
            job = coming.popleft()
            if job.tokens <= known.tokens:
                batch.add(job)
        step = batch.plan(now_s)
        if step is None:
            if not coming:
                return weighted / busy_s if busy_s else 1.0
            now_s = coming[0].arrived_s
            continue
        now_s, busy_s = now_s + step.seconds, busy_s + step.seconds
        weighted += step.seconds * max(len(step.decodes), 1)
        for came in batch.complete(step, now_s):
            if came.last and later:
                later[0].arrived_s = now_s + TURN_S
                coming.append(later.popleft())


def _ttft(known: _Engine, on: ServedOn, jobs: Sequence[tuple[EngineJob, Request]]) -> ExpectedFigure:
    tokens = round(float(np.median([job.input_tokens for job, _ in jobs])))
    step = predict.predict(on.network, on.gpu, known.calibration, phase="prefill", context=tokens, **_setting(on))
    expected = float(np.median([(job.first_s or 0.0) - job.arrived_s for job, _ in jobs]))
    measured = [request.ttft_s for _, request in jobs if request.ttft_s is not None]
    return _figure("TTFT", known.table.prompt_s(tokens), expected, step, measured)


def _tpot(known: _Engine, on: ServedOn, jobs: Sequence[tuple[EngineJob, Request]], batch: float) -> ExpectedFigure:
    context = round(float(np.median([job.input_tokens + job.output_tokens / 2 for job, _ in jobs])))
    step = predict.predict(
        on.network, on.gpu, known.calibration, phase="decode", context=context, batch=max(round(batch), 1), **_setting(on)
    )
    expected = float(np.median([_tpot_s(job) for job, _ in jobs]))
    measured = [request.tpot_s for _, request in jobs if request.tpot_s is not None]
    return _figure("TPOT", known.table.seconds(1, context, []), expected, step, measured)


def _setting(on: ServedOn) -> dict[str, Any]:
    return {"tp": on.tp, "dtype": on.dtype, "kv_dtype": on.kv_dtype}


def _tpot_s(job: EngineJob) -> float:
    return ((job.ended_s or 0.0) - (job.first_s or 0.0)) / max(job.output_tokens - 1, 1)


def _figure(name: str, alone_s: float, expected_s: float, step: StepEstimate, values: Sequence[float]) -> ExpectedFigure:
    """The interval is as wide as that of the step."""
    low_s, high_s = expected_s * step.low_s / step.seconds, expected_s * step.high_s / step.seconds
    measured = quantiles.quantile(values, 0.5)
    answer: Answer = "as expected"
    if measured.low is not None and measured.low > high_s:
        answer = "slower"
    elif measured.high is not None and measured.high < low_s:
        answer = "faster"
    elif measured.low is None or measured.high is None:
        answer = "unknown"
    return ExpectedFigure(
        name=name, alone_s=alone_s, expected_s=expected_s, low_s=low_s, high_s=high_s, measured=measured, answer=answer,
        requests=len(values),
    )


def _ttft_gap(known: _Engine, jobs: Sequence[tuple[EngineJob, Request]], summary: ServingSummary) -> dict[str, float]:
    """Of the mean TTFT: a prompt alone, what the model's queue and batch add, and above the model what is known of it."""
    alone = float(np.mean([known.table.prompt_s(job.input_tokens) for job, _ in jobs]))
    queue = float(np.mean([(job.admitted_s or 0.0) - job.arrived_s for job, _ in jobs]))
    expected = float(np.mean([(job.first_s or 0.0) - job.arrived_s for job, _ in jobs]))
    measured = float(np.mean([request.ttft_s or 0.0 for _, request in jobs]))
    client = float(np.mean([(request.sent_s or 0.0) - request.due_s for _, request in jobs]))
    gap = {"alone": alone, "batch": expected - queue - alone, "queue": queue, "client": client}
    parts = summary.ttft_parts
    if not parts or len(jobs) != summary.outcomes["ok"]:  # the server's counters are of all of them
        return {**gap, "unexplained": measured - expected - client}
    above = {"queue_above": parts["server_queue"] - queue, "prefill_above": parts["prefill"] - (expected - queue), "outside": parts["rest"]}
    if min(above["queue_above"], above["prefill_above"]) < 0:  # it lets them wait at another place than the model
        above = {"server_above": above["queue_above"] + above["prefill_above"], "outside": parts["rest"]}
    return {**gap, **above, "unexplained": measured - expected - client - sum(above.values())}


def _tpot_gap(known: _Engine, jobs: Sequence[tuple[EngineJob, Request]]) -> dict[str, float]:
    decoded = [(job, took_s) for job, request in jobs if (took_s := request.tpot_s) is not None]
    if not decoded:
        return {}
    alone = float(np.mean([known.table.seconds(1, job.input_tokens + job.output_tokens // 2, []) for job, _ in decoded]))
    expected = float(np.mean([_tpot_s(job) for job, _ in decoded]))
    return {"alone": alone, "batch": expected - alone, "unexplained": float(np.mean([took_s for _, took_s in decoded])) - expected}
