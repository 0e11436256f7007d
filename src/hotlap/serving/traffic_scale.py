"""A trace at another rate, with its burstiness. Two ways, for a trace cannot keep its duration and its number of requests both:

- `time`: every time is divided by the factor. The intervals' CV is the same to the digit; the trace is as much shorter, and the rate
  changes as much faster.
- `requests`: each stretch of one rate keeps its duration, and its rate is scaled; requests are thinned or merged. Plain thinning and
  merging pull any traffic towards Poisson (of a renewal process with CV², thinning to p leaves 1 + p (CV² − 1): Cox, Renewal Theory, 1962).
  So a stretch is replaced by a run of its own requests and intervals from a random place on, as many as the factor asks, brought to its
  duration. Where a request comes a second time it has hash ids of its own, so that copies do not find each other in a cache.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Literal

import numpy as np

from hotlap.core.errors import InputError
from hotlap.serving.traffic import Counts, Floats, TrafficTrace
from hotlap.serving.traffic_fit import steady

Way = Literal["time", "requests"]
FACTORS = (1e-3, 1e3)


def scaled(trace: TrafficTrace, factor: float, way: Way = "time", seed: int = 0) -> TrafficTrace:
    """The same trace, factor and seed give the same result. Raises InputError for a trace without times, a factor out of range, and where
    nothing is left."""
    if trace.times_s is None:
        raise InputError(f"{trace.name}: {trace.format} holds no times, so it has no rate; give the rate by --arrivals")
    if not FACTORS[0] <= factor <= FACTORS[1]:
        raise InputError(f"--factor {factor:g}: the rate is scaled by {FACTORS[0]:g} to {FACTORS[1]:g}")
    if way == "time":
        return _picked(trace, np.arange(len(trace.times_s)), np.zeros(len(trace.times_s), dtype=np.int64), trace.times_s / factor)
    return _resampled(trace, trace.times_s, factor, np.random.default_rng(seed))


def _resampled(trace: TrafficTrace, times: Floats, factor: float, rng: np.random.Generator) -> TrafficTrace:
    """Stretch by stretch; how many requests one gets is rounded at random, so that the mean is exact."""
    gaps = np.diff(times, prepend=times[0])
    gaps[0] = gaps[1:].mean() if len(gaps) > 1 else 0.0  # the first request has no interval before it: where it comes again, a usual one
    picked, passes, moments = [], [], []
    for start, end in steady(times):
        size = end - start
        alone = not start and size > 1 and times[-1] > times[0]  # the first of all has no interval before it, and the rate is of intervals
        count = int(np.floor(factor * (size - alone) + rng.random())) + alone
        if not count:
            continue
        at = (rng.integers(size) + np.arange(count)) % size
        own = gaps[start:end]
        run = own[at]
        if not start:
            run = np.concatenate([[0.0], run[1:]])  # the first of all is at once
        before = float(times[start - 1]) if start else float(times[0])
        whole, total = float(times[end - 1]) - before, float(run.sum())
        moments.append(before + np.cumsum(run) * (whole / total if total else 0.0))
        picked.append(start + at)
        passes.append(np.arange(count) // size)
    if not picked:
        raise InputError(f"{trace.name}: at a rate × {factor:g} none of {len(times)} requests is left")
    return _picked(trace, np.concatenate(picked), np.concatenate(passes), np.concatenate(moments))


def _picked(trace: TrafficTrace, at: Counts, passes: Counts, times: Floats) -> TrafficTrace:
    """Requests by place. `passes`: how often each came before; its hash ids are moved past all others by that."""
    every = [number for ids in trace.prefix for number in ids]
    step = 1 + max(every) - min(every) if every else 0
    turns = zip(at.tolist(), passes.tolist(), strict=True) if every else ()
    prefix = tuple(tuple(number + step * turn for number in trace.prefix[place]) for place, turn in turns)
    asked, wanted = trace.input_tokens[at], trace.output_tokens[at]
    return replace(trace, times_s=times - times[0], input_tokens=asked, output_tokens=wanted, prefix=prefix, left_out=0)


def lines(trace: TrafficTrace) -> str:
    """In Mooncake's format, times to 100 ns: tools that take whole milliseconds lose the rest."""
    times = [0.0] * len(trace.input_tokens) if trace.times_s is None else trace.times_s.tolist()
    rows = []
    for at, (time_s, asked, wanted) in enumerate(zip(times, trace.input_tokens.tolist(), trace.output_tokens.tolist(), strict=True)):
        row = {"timestamp": round(time_s * 1e3, 4), "input_length": asked, "output_length": wanted}
        rows.append(json.dumps(row | ({"hash_ids": list(trace.prefix[at])} if trace.prefix else {})))
    return "\n".join(rows) + "\n"
