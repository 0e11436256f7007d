"""The engine of the simulated server on a clock of its own, against closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotlap.serving.simulated import faults
from hotlap.serving.simulated.engine import BatchEngine, Chunk, EngineJob, play
from hotlap.serving.simulated.memory import BLOCK, KVMemory

RNG = np.random.default_rng(20)
ROOM = 10**6


class Linear:
    """A cost that can be added up by hand, and the steps that it was asked for."""

    def __init__(self, step_s: float = 0.01, decode_s: float = 0.001, context_s: float = 1e-6, token_s: float = 1e-4, past_s: float = 1e-5) -> None:
        self.rates = step_s, decode_s, context_s, token_s, past_s
        self.steps: list[tuple[int, int, list[Chunk]]] = []

    def seconds(self, decodes: int, context: int, chunks: Sequence[Chunk]) -> float:
        self.steps.append((decodes, context, list(chunks)))
        step, decode, looked, token, past = self.rates
        return step + decode * decodes + looked * context + sum(token * c.tokens + past * c.past for c in chunks)


def engine(cost: Linear, room: int = ROOM, batch: int = 256, chunk: int = 2048, whole: bool = False) -> BatchEngine:
    return BatchEngine(cost, KVMemory(room), batch, chunk, whole)


def test_one_request_alone_takes_its_prefill_steps_then_a_decode_step_a_token() -> None:
    cost = Linear()
    job = EngineJob("a", 5000, 4, arrived_s=3.0)
    end = play(engine(cost), [job])
    prefill = 3 * 0.01 + 5000 * 1e-4 + (2048 + 4096) * 1e-5  # chunks of 2048, 2048 and 904 after 0, 2048 and 4096
    decode = [0.01 + 0.001 + 1e-6 * (5000 + place) for place in (1, 2, 3)]
    assert cost.steps == [(0, 0, [Chunk(2048, 0)]), (0, 0, [Chunk(2048, 2048)]), (0, 0, [Chunk(904, 4096)]), *((1, 5000 + i, []) for i in (1, 2, 3))]
    assert job.admitted_s == 3.0
    assert job.first_s == pytest.approx(3.0 + prefill, abs=1e-12)
    assert job.ended_s == end == pytest.approx(3.0 + prefill + sum(decode), abs=1e-12)


def test_full_batches_give_tokens_at_the_rate_of_their_steps() -> None:
    cost = Linear(context_s=0.0)
    jobs = [EngineJob(f"{i}", 32, 50) for i in range(64)]
    end = play(engine(cost, batch=16), jobs)
    wave = (0.01 + 16 * 32 * 1e-4) + 49 * (0.01 + 16 * 0.001)  # the prompts of 16 in a step, then 49 steps of 16 tokens each
    assert end == pytest.approx(4 * wave, abs=1e-9)
    assert sum(job.emitted for job in jobs) / end == pytest.approx(16 * 50 / wave)


def test_one_at_a_time_is_the_recursion_of_lindley() -> None:
    """Prompts of one token's answer, served one after the other in the order in which they come: each waits for those before."""
    cost = Linear()
    arrivals, sizes = np.cumsum(RNG.exponential(0.05, 500)), RNG.integers(1, 1000, 500)
    jobs = [EngineJob(f"{i}", int(size), 1, arrived_s=float(at)) for i, (at, size) in enumerate(zip(arrivals, sizes, strict=True))]
    play(engine(cost, batch=1), jobs)
    free = 0.0
    for job in jobs:
        free = max(free, job.arrived_s) + 0.01 + job.input_tokens * 1e-4
        assert job.ended_s == pytest.approx(free, abs=1e-9)
    assert max(job.admitted_s - job.arrived_s for job in jobs if job.admitted_s) > 0.1  # it did queue


SOME_JOBS = st.lists(
    st.tuples(st.integers(1, 4000), st.integers(0, 20), st.floats(0, 2), st.integers(0, 3)), min_size=1, max_size=25,
)  # fmt: skip


@given(SOME_JOBS, st.integers(1, 6), st.integers(4096, 20000))
def test_work_is_conserved_memory_kept_and_the_order_that_of_arrival(drawn: list[tuple[int, int, float, int]], batch: int, room: int) -> None:
    cost = Linear()
    ran = engine(cost, room, batch, chunk=512)
    jobs = [EngineJob(f"{i}", size, out, tuple(1000 * family + b for b in range(size // BLOCK)), arrived_s=at) for i, (size, out, at, family) in enumerate(drawn)]
    begun: list[tuple[float, float]] = []
    used: list[int] = []
    plan = ran.plan

    def planned(now_s: float):  # type: ignore[no-untyped-def]
        step = plan(now_s)
        if step is not None:
            begun.append((step.start_s, step.start_s + step.seconds))
            used.append(ran.memory.used)
            assert len(step.decodes) + sum(chunk.tokens for _, chunk in step.chunks) <= 512
            assert len(ran.running) <= batch
        return step

    ran.plan = planned  # type: ignore[method-assign]
    jobs = [job for job in jobs if job.tokens <= room]
    play(ran, jobs)
    assert all(job.ended_s is not None and job.emitted == job.output_tokens for job in jobs)
    assert sum(c.tokens for _, _, chunks in cost.steps for c in chunks) == sum(job.input_tokens - job.cached_tokens for job in jobs)
    assert sum(decodes for decodes, _, _ in cost.steps) == sum(max(job.output_tokens - 1, 0) for job in jobs)
    assert all(tokens <= room for tokens in used)
    assert ran.memory.reserved == 0
    assert not ran.memory.pinned
    order = sorted(jobs, key=lambda job: job.arrived_s)
    assert [job.admitted_s for job in order] == sorted(job.admitted_s or 0.0 for job in jobs)
    for (_, end), (start, _) in pairwise(begun):  # idle only while there is nobody
        assert start == end or not any(job.arrived_s < start and (job.ended_s or 0.0) > end for job in jobs)


def test_a_prefix_that_was_computed_before_shortens_prefill_by_exactly_its_blocks() -> None:
    cost = Linear()
    ran = engine(cost, chunk=8192)
    first, again, longer = EngineJob("a", 2000, 1, (1, 2, 3)), EngineJob("b", 2000, 1, (1, 2, 3), 10.0), EngineJob("c", 3000, 1, (1, 2, 9, 8, 7), 20.0)
    play(ran, [first, again, longer])
    assert [job.cached_tokens for job in (first, again, longer)] == [0, 3 * BLOCK, 2 * BLOCK]
    assert [chunks for _, _, chunks in cost.steps] == [[Chunk(2000, 0)], [Chunk(2000 - 3 * BLOCK, 3 * BLOCK)], [Chunk(3000 - 2 * BLOCK, 2 * BLOCK)]]
    assert again.first_s is not None
    assert again.first_s - 10.0 == pytest.approx(0.01 + (2000 - 3 * BLOCK) * 1e-4 + 3 * BLOCK * 1e-5, abs=1e-9)


def test_of_a_prompt_of_whole_blocks_the_last_is_computed_again() -> None:
    jobs = [EngineJob("a", 2 * BLOCK, 1, (1, 2)), EngineJob("b", 2 * BLOCK, 1, (1, 2), 5.0)]
    play(engine(Linear()), jobs)
    assert jobs[1].cached_tokens == BLOCK


def test_blocks_are_shared_as_soon_as_they_are_computed_and_not_before() -> None:
    together = [EngineJob("a", 2000, 1, (1, 2, 3)), EngineJob("b", 2000, 1, (1, 2, 3))]
    play(engine(Linear(), chunk=8192), together)
    assert [job.cached_tokens for job in together] == [0, 0]
    later = [EngineJob("a", 2000, 1, (1, 2, 3)), EngineJob("b", 2000, 1, (1, 2, 3), 0.05)]  # the first is in its second step of four
    play(engine(Linear(), chunk=512), later)
    assert [job.cached_tokens for job in later] == [0, 3 * BLOCK]


def test_blocks_that_nobody_holds_make_room_the_longest_unused_first() -> None:
    ran = engine(Linear(), room=2100)
    play(ran, [EngineJob("a", 600, 1, (1,)), EngineJob("b", 600, 1, (2,), 1.0), EngineJob("c", 600, 1, (1,), 2.0), EngineJob("d", 1200, 1, (5, 6), 3.0)])
    assert set(ran.memory.idle) == {1, 5, 6}  # 2 was used before 1 was used again
    assert ran.memory.used <= 2100


def test_a_request_waits_until_there_is_memory_for_all_of_it() -> None:
    cost = Linear()
    jobs = [EngineJob("a", 600, 400), EngineJob("b", 600, 400), EngineJob("c", 10, 1)]
    play(engine(cost, room=1500), jobs)
    assert jobs[1].admitted_s == jobs[0].ended_s  # and the small one behind it, too: first come, first served
    assert jobs[2].admitted_s == jobs[1].admitted_s


def test_what_is_left_by_its_client_gives_back_what_it_holds() -> None:
    ran = engine(Linear(), room=1000, chunk=512)
    held, waits, next_ = EngineJob("a", 600, 100, (1,)), EngineJob("b", 600, 100), EngineJob("c", 600, 100)
    for job in (held, waits, next_):
        ran.add(job)
    step = ran.plan(0.0)
    assert step is not None
    ran.abort(waits)
    ran.abort(held)
    ran.abort(held)  # twice is once
    assert ran.complete(step, 1.0) == []
    assert ran.memory.reserved == 0
    after = ran.plan(1.0)
    assert after is not None
    assert [job for job, _ in after.chunks] == [next_]


def test_what_never_fits_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="memory for 100"):
        engine(Linear(), room=100).add(EngineJob("a", 90, 11))
    with pytest.raises(ValueError, match="a step takes 2048"):
        engine(Linear(), whole=True).add(EngineJob("a", 2049, 0))
    with pytest.raises(ValueError, match="a token at least"):
        engine(Linear()).add(EngineJob("a", 0, 1))


def test_prompts_of_an_encoder_are_not_cut() -> None:
    cost = Linear()
    jobs = [EngineJob(f"{i}", 300, 0) for i in range(3)]
    play(engine(cost, chunk=512, whole=True), jobs)
    assert [chunks for _, _, chunks in cost.steps] == [[Chunk(300, 0)]] * 3
    assert [job.emitted for job in jobs] == [0, 0, 0]


def test_nothing_is_admitted_before_it_came() -> None:
    """A process that is late plans a step of the past: what came meanwhile is of the next."""
    ran = engine(Linear())
    ran.add(EngineJob("a", 10, 1, arrived_s=5.0))
    assert ran.plan(4.0) is None
    assert ran.plan(5.0) is not None


def test_a_slow_start_ends_when_its_work_is_done() -> None:
    slow = faults.SlowStart(Linear(0.01, 0.0, 0.0, 0.0, 0.0), times=3.0, until_s=0.1)
    assert [round(slow.seconds(1, 1, []), 6) for _ in range(6)] == [0.03, 0.03, 0.03, 0.03, 0.01, 0.01]


def test_a_cache_that_claims_half_of_every_prompt_shortens_it_by_that() -> None:
    cost = Linear()
    job = EngineJob("a", 1001, 1)
    play(BatchEngine(cost, KVMemory(ROOM), 8, 2048, phantom=0.5), [job])
    assert (job.cached_tokens, cost.steps[0][2]) == (500, [Chunk(501, 500)])
