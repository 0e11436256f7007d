"""What the model expects of a server before it is measured: the engine of the simulated server run without HTTP, on a clock of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace

from hotlap.core import objectives
from hotlap.core.objectives import Objective
from hotlap.core.record import Record
from hotlap.serving import arrivals, capacity, steady, summary
from hotlap.serving.capacity import Capacity, CapacityOptions, CapacitySearch
from hotlap.serving.record import ServingAsked
from hotlap.serving.simulated.engine import BatchEngine, EngineJob
from hotlap.serving.simulated.http import SimulatedServer
from hotlap.serving.simulated.memory import KVMemory
from hotlap.serving.simulated.options import ServerOptions

TOKENS = 1_500_000  # of answers in a search: seconds of this process
LEAST, MOST = 6_000, 20_000  # requests of a search
START = 4.0  # a second
AGAIN_S = 0.001  # until a place of a closed loop asks again: by then the next step has begun


class Played(Record, frozen=True, kw_only=True):
    """One request of an engine, in seconds of its clock."""

    due_s: float
    first_s: float
    ended_s: float
    tokens: int
    stall_s: float

    def value(self, metric: str) -> float | None:
        """As of a request to a server; TPOT of a single token is none."""
        tpot_s = (self.ended_s - self.first_s) / (self.tokens - 1) if self.tokens > 1 else None
        return {"ttft": self.first_s - self.due_s, "e2e": self.ended_s - self.due_s, "tpot": tpot_s, "stall": self.stall_s}[metric]

    def good(self, limits: Sequence[Objective]) -> bool:
        return all((value := self.value(limit.metric)) is None or value <= limit.limit_s for limit in limits)


class ServerModel:
    """A server that is honest, as `options` say. Raises InputError for one that cannot be."""

    def __init__(self, options: ServerOptions, asked: ServingAsked) -> None:
        self.options, self.asked = options, asked
        self.server = SimulatedServer(replace(options, faults=()))
        self.output = 0 if asked.api == "embeddings" else asked.output_tokens

    def engine(self) -> BatchEngine:
        built = self.server.engine
        return BatchEngine(built.cost, KVMemory(built.memory.capacity), built.batch, built.chunk, built.whole)

    def play(self, process: str, requests: int, seed: int) -> list[Played]:
        """So many requests, in the order in which they were due. Of a closed loop one is due when another ends."""
        parsed, engine = arrivals.parse(process), self.engine()
        coming = deque(islice(arrivals.due_s(parsed, seed), requests) if parsed.open else [0.0] * min(parsed.concurrency, requests))
        more = 0 if parsed.open else requests - len(coming)
        now_s, stalls, ended, count = 0.0, dict[EngineJob, float](), list[EngineJob](), 0
        while True:
            while coming and coming[0] <= now_s:
                engine.add(EngineJob(str(count), self.asked.input_tokens, self.output, (), coming.popleft()))
                count += 1
            step = engine.plan(now_s)
            if step is None and not coming:
                break
            if step is None:
                now_s = coming[0]
                continue
            now_s += step.seconds
            for job, last, gap_s in engine.complete(step, now_s):
                stalls[job] = max(stalls.get(job, 0.0), gap_s or 0.0)
                if last:
                    ended.append(job)
                    if more > 0:
                        more -= 1
                        coming.append(now_s + AGAIN_S)
        return [
            Played(due_s=job.arrived_s, first_s=job.first_s or 0.0, ended_s=job.ended_s or 0.0, tokens=job.emitted, stall_s=stalls[job])
            for job in sorted(ended, key=lambda job: (job.arrived_s, job.ended_s))
        ]  # fmt: skip

    def capacity(self, process: str, attain: float, seed: int = 0) -> Capacity:
        """By the same search as of a real server. `process`: arrivals with {} in place of the rate."""
        limits = objectives.parse(self.asked.objectives, summary.METRICS)

        def measure(rate: float, requests: int) -> Sequence[bool]:
            every = self.play(process.format(f"{rate:.6g}"), requests, seed + search.visited)
            search.took(float(np.median([played.ended_s - played.due_s for played in every])))
            due_s, first_s, ended_s = ([getattr(played, time) for played in every] for time in ("due_s", "first_s", "ended_s"))
            outrun = steady.outrun(due_s, first_s)
            search.answered(rate, outrun, steady.answered(due_s, first_s, ended_s, outrun))
            if outrun:
                return [False] * len(every)
            return [played.good(limits) for played in every]

        least = max(LEAST, 3 * capacity.least_requests(attain))
        requests = max(least, min(MOST, TOKENS // max(self.output, 16)))
        search = CapacitySearch(measure, CapacityOptions(attain=attain, start=START, requests=requests))
        search.run()
        return search.answer()
