"""Steps of the simulated server against what `predict net` expects of the same."""

from __future__ import annotations

from functools import cache

import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.networks.predict import predict
from hotlap.core.work.networks import steps
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.shape import Network
from hotlap.serving.simulated.engine import BatchEngine, Chunk, EngineJob, play
from hotlap.serving.simulated.memory import KVMemory
from hotlap.serving.simulated.steptime import StepTable, capacity, coarse, grid, pasts

GPU = "h200-sxm"
LLAMA = "llama-3-8b"


@cache
def table(name: str, tp: int = 1, batch: int = 64, chunk: int = 2048, context: int = 8192) -> StepTable:
    return StepTable(network(name), Setting("decode", tp=tp), machines.load(GPU), (batch, chunk, context))


def network(name: str) -> Network:
    source = steps.find(name)
    assert isinstance(source, Network)
    return source


CAUSAL = [(LLAMA, 1), ("qwen3-30b-a3b", 2), ("deepseek-v3", 16), ("gpt-oss-20b", 1), ("gpt-2", 1)]


@pytest.mark.parametrize(("name", "tp"), CAUSAL)
def test_a_step_of_one_kind_is_what_is_predicted_of_it(name: str, tp: int) -> None:
    """On the points of the grid: to 1e-6, for times of whole arrays of kernels are interpolated in another order than single ones."""
    of = table(name, tp, context=1024 if name == "gpt-2" else 8192)
    for batch, context in ((1, 1), (8, 128), (64, 1024)):
        expected = predict(name, GPU, tp=tp, phase="decode", batch=batch, context=context).seconds
        assert of.seconds(batch, batch * context, []) == pytest.approx(expected, rel=1e-6)
    for tokens in (1, 128, 1024):
        expected = predict(name, GPU, tp=tp, phase="prefill", context=tokens).seconds
        assert of.seconds(0, 0, [Chunk(tokens, 0)]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("name", "tp"), CAUSAL[:4])
def test_between_the_points_it_is_near(name: str, tp: int) -> None:
    of = table(name, tp)
    for batch, context in ((3, 700), (29, 3000), (50, 6000)):
        assert of.seconds(batch, batch * context, []) == pytest.approx(predict(name, GPU, tp=tp, batch=batch, context=context).seconds, rel=0.05)
    for tokens in (77, 257, 700, 1025, 1900):
        expected = predict(name, GPU, tp=tp, phase="prefill", context=tokens).seconds
        assert of.seconds(0, 0, [Chunk(tokens, 0)]) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("name", "tp"), CAUSAL[:4])
def test_prompts_beside_answers_cost_less_than_apart_and_more_than_either(name: str, tp: int) -> None:
    of, prompt = table(name, tp), [Chunk(512, 1024)]
    answers, alone, both = of.seconds(32, 32 * 2048, []), of.seconds(0, 0, prompt), of.seconds(32, 32 * 2048, prompt)
    assert max(answers, alone) < both < answers + alone


def test_a_chunk_looks_back_on_what_is_in_memory() -> None:
    of = table(LLAMA)
    times = [of.seconds(0, 0, [Chunk(1024, past)]) for past in (0, 1024, 4096)]
    assert times == sorted(times)
    assert times[0] < times[-1]
    assert of.prompt_s(4096) == pytest.approx(of.seconds(0, 0, [Chunk(2048, 0)]) + of.seconds(0, 0, [Chunk(2048, 2048)]))


def test_one_request_on_the_virtual_clock_has_the_times_that_are_predicted() -> None:
    of = table(LLAMA)
    job = EngineJob("a", 1023, 3)
    play(BatchEngine(of, KVMemory(10**5), 64, 2048), [job])
    assert job.first_s == of.seconds(0, 0, [Chunk(1023, 0)])
    assert job.first_s == pytest.approx(predict(LLAMA, GPU, phase="prefill", context=1023).seconds, rel=0.02)
    assert job.ended_s is not None
    assert job.ended_s - job.first_s == pytest.approx(of.seconds(1, 1024, []) + of.seconds(1, 1025, []), abs=1e-12)
    assert of.seconds(1, 1024, []) == pytest.approx(predict(LLAMA, GPU, phase="decode", context=1024).seconds, rel=1e-9)


def test_an_encoder_has_prompts_alone() -> None:
    of = StepTable(network("bert-base"), Setting("prefill"), machines.load(GPU), (64, 512, 512))
    assert of.seconds(0, 0, [Chunk(512, 0)]) == pytest.approx(predict("bert-base", GPU, context=512).seconds, rel=1e-6)


def test_memory_is_what_the_gpu_has_less_weights_and_the_rest() -> None:
    """Llama 3 8B keeps 2 × 8 × 128 × 32 elements of a token in 16 bits: 128 KiB."""
    spec, base = machines.load(GPU), Setting("decode")
    tokens = capacity(network(LLAMA), base, spec, 8192)
    prompt = predict(LLAMA, GPU, phase="prefill", context=8192).memory_bytes
    taken = sum(prompt.values()) - prompt["cache of keys and values"] + tokens * 2**17
    assert spec.memory_bytes is not None
    assert 0 <= spec.memory_bytes * 0.9 - taken < 2**17
    two = capacity(network(LLAMA), Setting("decode", tp=2), spec, 8192)
    assert two > 2 * tokens  # half the cache of a token, and half the weights
    with pytest.raises(InputError, match=r"does not fit: weights .* take a larger --tp"):
        capacity(network("llama-3-405b"), base, spec, 8192)


def test_grids() -> None:
    assert grid(1) == coarse(1) == [1]
    assert grid(20) == [1, 2, 4, 8, 16, 20]
    assert [point for point in grid(600) if point > 480] == [480 + 1, 512, 513, 576, 577, 600]
    assert {248, 256, 257, 288, 289} <= set(grid(600))
    assert 121 not in grid(600)
    assert coarse(300) == [1, 2, 4, 32, 64, 96, 128, 160, 192, 224, 256, 288, 300]
    assert pasts(1000) == [0, 128, 256, 512, 1000]
