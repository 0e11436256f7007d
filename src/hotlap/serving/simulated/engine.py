"""Continuous batching with chunked prefill, step by step, on any clock: what is run next, how long it takes, and what comes of it.

A step brings every running sequence a token forward and fills what is left of its tokens with prompts, first come first served
(Sarathi-Serve, arXiv 2403.02310; vLLM's scheduler V1). The step that ends a prompt gives the first token of its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hotlap.serving.simulated.memory import Held, KVMemory


class Chunk(NamedTuple):
    """A part of a prompt that one step computes, after `past` tokens that are in memory."""

    tokens: int
    past: int


class StepCost(Protocol):
    """What a step takes."""

    def seconds(self, decodes: int, context: int, chunks: Sequence[Chunk]) -> float:
        """`decodes`: sequences that get a token; `context`: tokens that they look back on, all together."""
        ...


@dataclass(slots=True, eq=False)
class EngineJob:
    """One request in the engine. `output_tokens` 0: its prompt is only embedded. `blocks`: of its prompt, each of the whole before it."""

    id: str
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    arrived_s: float = 0.0
    admitted_s: float | None = None
    first_s: float | None = None  # its first token
    last_s: float | None = None  # its newest token
    ended_s: float | None = None
    cached_tokens: int = 0
    computed: int = 0  # tokens of its prompt, those cached with them
    emitted: int = 0
    held: Held | None = None
    aborted: bool = False

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def decodes(self) -> bool:
        return self.computed >= self.input_tokens


class EngineStep(NamedTuple):
    """What runs together."""

    start_s: float
    seconds: float
    decodes: list[EngineJob]
    chunks: list[tuple[EngineJob, Chunk]]


class Emitted(NamedTuple):
    """A token of a job, or the end of one that has none. `gap_s`: since the token before."""

    job: EngineJob
    last: bool
    gap_s: float | None


class BatchEngine:
    """`batch`: sequences at most; `chunk`: tokens of a step at most. `whole`: prompts are never cut, as of an encoder. `phantom`: share of
    every prompt that counts as cached though it is not."""

    def __init__(self, cost: StepCost, memory: KVMemory, batch: int, chunk: int, whole: bool = False, phantom: float = 0.0) -> None:
        self.cost, self.memory, self.batch, self.chunk, self.whole, self.phantom = cost, memory, batch, chunk, whole, phantom
        self.waiting: deque[EngineJob] = deque()
        self.running: list[EngineJob] = []

    def add(self, job: EngineJob) -> None:
        """Raises ValueError for what never fits."""
        if job.tokens > self.memory.capacity:
            raise ValueError(f"{job.tokens} tokens, and there is memory for {self.memory.capacity}")
        if self.whole and job.input_tokens > self.chunk:
            raise ValueError(f"a prompt of {job.input_tokens} tokens, and a step takes {self.chunk}")
        if job.input_tokens < 1:
            raise ValueError("a prompt has a token at least")
        self.waiting.append(job)

    def abort(self, job: EngineJob) -> None:
        """It is wanted no more; what it did so far is lost."""
        if job.ended_s is not None or job.aborted:
            return
        job.aborted = True
        if job.held is None:
            self.waiting.remove(job)
        else:
            self.running.remove(job)
            self._give(job)

    def plan(self, now_s: float) -> EngineStep | None:
        """The next step; None where there is nothing to do at that time."""
        left, decodes, chunks = self.chunk, list[EngineJob](), list[tuple[EngineJob, Chunk]]()
        for job in self.running:
            if left <= 0:
                break
            if job.decodes:
                decodes.append(job)
                left -= 1
            else:
                chunks.append((job, self._chunk(job, left)))
                left -= chunks[-1][1].tokens
        while left > 0 and self.waiting and len(self.running) < self.batch and self._admit(self.waiting[0], left, now_s):
            job = self.waiting.popleft()
            self.running.append(job)
            chunks.append((job, self._chunk(job, left)))
            left -= chunks[-1][1].tokens
        if not decodes and not chunks:
            return None
        context = sum(job.input_tokens + job.emitted for job in decodes)
        return EngineStep(now_s, self.cost.seconds(len(decodes), context, [chunk for _, chunk in chunks]), decodes, chunks)

    def _chunk(self, job: EngineJob, left: int) -> Chunk:
        return Chunk(min(left, job.input_tokens - job.computed), job.computed)

    def _admit(self, job: EngineJob, left: int, now_s: float) -> bool:
        if job.arrived_s > now_s or (self.whole and job.input_tokens > left):
            return False
        job.held = self.memory.take(job.blocks, job.input_tokens, job.tokens)
        if job.held is None:
            return False
        in_memory = len(job.held.shared) * self.memory.block
        job.cached_tokens = job.computed = min(max(in_memory, int(job.input_tokens * self.phantom)), job.input_tokens - 1)
        job.admitted_s = now_s
        return True

    def complete(self, step: EngineStep, end_s: float) -> list[Emitted]:
        """The step is over: tokens that came of it, in the order of the jobs."""
        came = [self._emit(job, end_s) for job in step.decodes if not job.aborted]
        for job, chunk in step.chunks:
            if job.aborted:
                continue
            job.computed += chunk.tokens
            assert job.held is not None
            self.memory.enter(job.held, job.blocks, job.computed)
            if job.decodes:
                came.append(self._emit(job, end_s))
        if any(token.last for token in came):
            self.running = [job for job in self.running if job.ended_s is None]
        return came

    def _emit(self, job: EngineJob, end_s: float) -> Emitted:
        gap_s = None if job.last_s is None else end_s - job.last_s
        job.first_s = end_s if job.first_s is None else job.first_s
        job.last_s = end_s
        job.emitted += job.output_tokens > 0
        last = job.emitted >= job.output_tokens
        if last:
            job.ended_s = end_s
            self._give(job)
        return Emitted(job, last, gap_s)

    def _give(self, job: EngineJob) -> None:
        assert job.held is not None
        self.memory.give(job.held)


def play(engine: BatchEngine, jobs: Iterable[EngineJob]) -> float:
    """All jobs at their times of arrival, on a clock of its own; the time of the last step's end. Steps follow each other without a gap
    while there is something to do."""
    coming = deque(sorted(jobs, key=lambda job: job.arrived_s))
    now_s = 0.0
    while True:
        while coming and coming[0].arrived_s <= now_s:
            engine.add(coming.popleft())
        step = engine.plan(now_s)
        if step is not None:
            now_s += step.seconds
            engine.complete(step, now_s)
        elif coming:
            now_s = coming[0].arrived_s
        else:
            return now_s
