"""Networks: their parameters and caches as published, what a step runs, and what cannot be."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.networks import memory
from hotlap.core.model.networks import predict as networks
from hotlap.core.model.networks.step import StepTimes, check_counts, operations_of, step
from hotlap.core.show import network as network_text
from hotlap.core.work.networks import calls, shape
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.replicas import held

H200 = machines.load("h200-sxm")


def microsecond(workload: str, params: dict[str, Any]) -> StepTimes:
    return StepTimes(1e-6, 0.9e-6, 1.2e-6, 500.0)


@pytest.mark.parametrize("name", shape.names())
def test_matrices_have_the_published_number_of_parameters(name: str) -> None:
    network = shape.load(name)
    assert network.counted == pytest.approx(network.parameters, rel=0.006)


@pytest.mark.parametrize(
    ("name", "values"),
    [("llama-3-8b", 131_072 // 2), ("llama-3-70b", 327_680 // 2), ("deepseek-v3", 70_272 // 2), ("llama-3-405b", 516_096 // 2)],
)
def test_a_token_leaves_the_published_cache(name: str, values: int) -> None:
    """Bytes in bf16 over 2: 70 KB a token is DeepSeek-V3's published figure, 516 KB Llama 405B's (arXiv 2505.09343, table 1)."""
    assert shape.load(name).cached_per_token == values


def test_operations_are_those_of_the_paper() -> None:
    """Narayanan and others, arXiv 2104.04473, equation 2: 96·B·s·l·h²·(1 + s/6h + V/16lh) with recomputing, so 72·… without; full
    attention, so a causal one is a little less."""
    gpt, batch, s = shape.load("gpt-3-175b"), 4, 2048
    found = operations_of(gpt, Setting("train", batch=batch, context=s))
    h, layers = gpt.hidden, gpt.layers
    published = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + gpt.vocabulary / (12 * layers * h))
    assert found == pytest.approx(published, rel=0.02)


def test_a_decoded_token_costs_two_operations_a_parameter() -> None:
    llama = shape.load("llama-3-70b")
    used = llama.counted - llama.vocabulary * llama.hidden  # a row of the embedding is only looked up
    assert operations_of(llama, Setting("decode", batch=1, context=1)) == pytest.approx(2 * used, rel=0.001)


def test_tensor_parallel_gpus_share_matrices_and_exchange() -> None:
    llama = shape.load("llama-3-70b")
    alone, shared = (calls.stage(llama, Setting("decode", batch=8, context=100, tp=tp)) for tp in (1, 8))
    assert not any(call.group == "communication" for call in alone)
    assert sum(call.times for call in shared if call.group == "communication") == 160
    columns = {tp: next(c.params["n"] for c in found if c.name == "gate and up") for tp, found in ((1, alone), (8, shared))}
    assert columns[1] == 8 * columns[8]


def test_serving_memory_is_weights_and_cache() -> None:
    """Llama 70B in bf16 is 141 GB; 32 sequences of 8,192 tokens are 86 GB more; eight GPUs share both."""
    found = memory.needed(shape.load("llama-3-70b"), Setting("decode", batch=32, context=8192, tp=8))
    assert found["weights"] == pytest.approx(141.1e9 / 8, rel=0.01)
    assert found["cache of keys and values"] == pytest.approx(327_680 * 32 * 8192 / 8)


@pytest.mark.parametrize(("name", "gib"), [("gpt-oss-20b", 12.8), ("gpt-oss-120b", 60.8)])
def test_weights_as_stored_take_what_was_published(name: str, gib: float) -> None:
    """Size of the checkpoint: gpt-oss model card, arXiv 2508.10925, table 1."""
    network = shape.load(name)
    assert memory.needed(network, Setting("decode", dtype="mxfp4"))["weights"] == pytest.approx(gib * 2**30, rel=0.01)
    assert network.taken_as("mxfp4") == ""
    assert "--dtype mxfp4 takes them as they are" in network.taken_as("bf16")


def test_experts_alone_are_of_4_bits() -> None:
    found = calls.stage(shape.load("gpt-oss-20b"), Setting("decode", dtype="mxfp4"))
    assert {call.params["dtype"] for call in found if call.workload == "gemm"} == {"bf16"}
    assert {call.params["dtype"] for call in found if call.workload == "moe"} == {"mxfp4"}
    seconds = [networks.predict("gpt-oss-20b", "h100-sxm", phase="decode", batch=64, dtype=dtype).seconds for dtype in ("bf16", "mxfp4")]
    assert seconds[1] < 0.7 * seconds[0]


def test_training_memory_is_that_of_the_paper() -> None:
    """Korthikanti and others, arXiv 2205.05198, section 4: 34·s·b·h ÷ t a layer with sequence parallelism and no scores kept."""
    gpt = shape.load("gpt-22b")
    found = memory.needed(gpt, Setting("train", batch=4, context=2048, tp=8, micro_batch=4))
    assert found["activations"] == pytest.approx(34 * 2048 * 4 * 6144 / 8 * 48)
    assert found["weights, gradients, optimizer"] == pytest.approx(22.06e9 / 8 * 18, rel=0.01)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "llama-3-8b"])
def test_gpus_hold_every_parameter_as_often_as_there_are_replicas(name: str) -> None:
    network = shape.load(name)
    spreads = (1, 2, 4, 8) if network.experts else (1,)
    for tp, dp, ep in itertools.product((1, 2, 4), (2, 4, 8), spreads):
        if tp * dp % ep == 0:
            setting = Setting("train", tp=tp, dp=dp, ep=ep)
            assert setting.gpus * sum(one.parameters / one.replicas for one in held(network, setting)) == pytest.approx(network.counted)


def test_experts_of_one_gpu_each_need_as_much_as_tensor_parallel_ones() -> None:
    """5.64 G parameters of one of Mixtral's experts over 32 layers at 18 bytes alone: more than an H100 has."""
    spread = Setting("train", dp=8, ep=8)
    found = memory.needed(shape.load("mixtral-8x7b"), spread)["weights, gradients, optimizer"]
    assert found == pytest.approx(32 * 3 * 4096 * 14336 * 18 + (46.7e9 - 45.1e9) * (6 + 12 / 8), rel=0.01)
    assert not networks.predict("mixtral-8x7b", "h100-sxm", phase="train", dp=8, ep=8).fits


def test_a_step_is_the_sum_of_its_parts() -> None:
    found = step(shape.load("mixtral-8x7b"), Setting("prefill", batch=2, context=512, tp=2, ep=2), H200, microsecond)
    assert sum(part.total_s for part in found.parts) == pytest.approx(found.seconds)
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    assert found.low_s < found.seconds < found.high_s
    assert found.energy_j == pytest.approx(500 * found.seconds * 2)


def test_a_pipeline_has_its_bubble() -> None:
    """(p − 1)/m of the work: Narayanan and others, arXiv 2104.04473, section 2.2.1."""
    found = step(shape.load("gpt-3-175b"), Setting("train", batch=64, context=2048, tp=8, pp=8), H200, microsecond)
    bubble = next(part.total_s for part in found.parts if part.group == "bubble")
    after = sum(part.total_s for part in found.parts if part.group == "optimizer")
    assert bubble / (found.seconds - bubble - after) == pytest.approx(7 / 64)


def test_recomputing_passes_forward_twice() -> None:
    plain, again = (step(shape.load("gpt-22b"), Setting("train", batch=4, context=2048, tp=8, recompute=r), H200, microsecond) for r in (False, True))
    assert again.seconds > 1.2 * plain.seconds
    assert again.memory_total_bytes < plain.memory_total_bytes
    assert again.operations == plain.operations


def test_experts_that_are_not_chosen_cost_nothing_but_memory() -> None:
    deepseek = shape.load("deepseek-v3")
    one = operations_of(deepseek, Setting("decode", batch=1, context=1)) / 2
    assert one == pytest.approx(37e9, rel=0.05)  # 37 B active: the model card
    assert memory.needed(deepseek, Setting("decode", batch=1, context=1, dtype="fp8"))["weights"] == pytest.approx(671e9, rel=0.01)


def test_latent_attention_of_a_step_has_its_own_widths() -> None:
    """Decode: 512 + 64 elements a token for all heads; prefill: keys of 128 + 64, values of 128. arXiv 2412.19437, section 4.2."""
    deepseek = shape.load("deepseek-v3")
    for setting, widths in (
        (Setting("decode", context=4096, tp=8), (1, 576, 512, 576)), (Setting("prefill", context=4096, tp=8), (16, 192, 128, None)),
    ):  # fmt: skip
        params = next(call.params for call in calls.stage(deepseek, setting) if call.workload == "attention")
        assert tuple(params.get(name) for name in ("kv_heads", "head_dim", "value_dim", "latent")) == widths


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("llama-3-70b", {"phase": "decode", "tp": 3}, "64 heads cannot be cut into 3"),
        ("llama-3-70b", {"phase": "decode", "ep": 2}, "no experts: leave --ep out"),
        ("llama-3-70b", {"phase": "decode", "dtype": "mxfp4"}, "llama-3-70b has none; take bf16, fp8 or fp8_block"),
        ("gpt-oss-20b", {"phase": "train", "dtype": "mxfp4"}, "no weights are trained in it"),
        ("bert-large", {"phase": "decode"}, "an encoder"),
        ("gpt-22b", {"phase": "train", "batch": 5, "micro_batch": 2}, "cannot be cut into micro-batches of 2"),
        ("gpt-22b", {"phase": "train", "pp": 49}, "48 layers"),
        ("gpt-22b", {"phase": "decode", "batch": 0}, "--batch is a whole number from 1"),
    ],
)
def test_what_cannot_be_is_said(name: str, given: dict[str, Any], message: str) -> None:
    def estimated() -> None:
        check_counts(given)
        step(shape.load(name), Setting(**given), H200, microsecond)

    with pytest.raises(InputError, match=message):
        estimated()


def test_a_step_of_layers_is_the_sum_of_its_parts() -> None:
    """Replicas exchange gradients beside the backward pass; what activations need is not known, so what fits so far is no answer."""
    alone, spread = (networks.predict("jamba-v0.1", "h200-sxm", phase="train", batch=2, context=512, dp=dp) for dp in (1, 2))
    for found in (alone, spread):
        assert sum(part.total_s for part in found.parts) == pytest.approx(found.seconds)
        assert found.tokens_s == pytest.approx(2 * 512 * found.gpus / found.seconds)
        assert found.fits is False
    assert [part.name for part in spread.parts if part.group == "communication"] == ["gradients between replicas, not hidden"]
    assert not [part for part in alone.parts if part.group == "communication"]
    assert spread.operations == 2 * alone.operations
    assert spread.memory_total_bytes < alone.memory_total_bytes
    pass_ = networks.predict("resnet-50", "h200-sxm", batch=4)
    assert (pass_.phase, pass_.tokens_s, pass_.fits) == ("forward", None, None)
    assert pass_.operations == pytest.approx(4 * 8.18e9, rel=0.02)
    said = " ".join(network_text.step(pass_).split())
    assert "runtime 1.50 GB, of 151 GB a GPU; activations not known" in said


def test_the_prefill_of_layers_is_their_forward_pass() -> None:
    asked, usual = (networks.predict("mamba-130m", "h200-sxm", phase=phase) for phase in ("prefill", "forward"))
    assert (asked.phase, asked.seconds) == ("forward", usual.seconds)
    assert "prefill_is_forward" in {notice.code for notice in asked.notices}
    assert "prefill_is_forward" not in {notice.code for notice in usual.notices}
    with pytest.raises(InputError, match="resnet-50 has no phase 'prefill'; valid: forward, train"):
        networks.predict("resnet-50", "h200-sxm", phase="prefill")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("resnet-50", {"context": 64}, "resnet-50 has no context: leave --context out"),
        ("resnet-50", {"phase": "decode"}, "resnet-50 has no phase 'decode'; valid: forward, train"),
        ("resnet-50", {"tp": 2}, "resnet-50 is not cut over GPUs"),
        ("resnet-50", {"batch": 0}, "--batch is a whole number from 1, not 0"),
        ("jamba-v0.1", {"recompute": True}, "--recompute is of stacks of transformer layers"),
        ("jamba-v0.1", {"dtype": "fp32"}, "experts are described in bf16 and fp16, not fp32"),
        ("bert-base", {"context": 1024}, "bert-base takes a context of at most 512, not 1024"),
        ("llama-3-8b", {"dtype": "fp16"}, "llama-3-8b is described in bf16, fp8, fp8_block, not fp16"),
        ("llama-3-9b", {}, "there is no network 'llama-3-9b'; did you mean 'llama-3-8b'"),
        ("gone.json", {}, "there is no file 'gone.json'"),
    ],
)
def test_what_cannot_be_predicted_is_named(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        networks.predict(name, "h200-sxm", **given)


def test_experts_and_matrices_share_gpus_evenly() -> None:
    """Experts over 6 GPUs of replicas of 4 each would lie on one replica and a half."""
    odd = replace(shape.load("mixtral-8x7b"), experts=12)
    with pytest.raises(InputError, match="experts over 6 GPUs and tp 4: one is a multiple of the other"):
        calls.check(odd, Setting("train", tp=4, dp=3, ep=6))


def test_an_unknown_network_has_a_nearest_one() -> None:
    with pytest.raises(InputError, match="did you mean 'llama-3-70b'"):
        shape.load("llama3-70b")


def test_aliases_are_the_same_network() -> None:
    assert shape.load("llama-3.1-70b") is shape.load("llama-3-70b")


@pytest.mark.parametrize(
    ("name", "setting", "seconds"),
    [
        ("gpt-22b", {"batch": 4, "micro_batch": 4, "tp": 8}, 1.10),
        ("gpt-3-175b", {"batch": 64, "tp": 8, "pp": 8}, 13.75),
        ("gpt-530b", {"batch": 280, "tp": 8, "pp": 35}, 37.83),
    ],
)
def test_training_steps_take_about_what_was_published(name: str, setting: dict[str, Any], seconds: float) -> None:
    """Korthikanti and others, arXiv 2205.05198, table 5, A100 80 GB, sequence parallel with selective recomputing, which is not counted
    here: what is expected is a little less."""
    found = networks.predict(name, "a100-sxm-80gb", phase="train", context=2048, **setting)
    assert 0.79 * seconds < found.seconds < 1.05 * seconds
    assert found.fits


def test_activations_take_what_was_published() -> None:
    """The same paper, figure 1, in GiB: 9.5625 for 22B, 12.35 for 175B; 45.56 for its weights, gradients and optimizer at 18 B."""
    found = networks.predict("gpt-22b", "a100-sxm-80gb", phase="train", batch=4, micro_batch=4, context=2048, tp=8)
    assert found.memory_bytes["activations"] / 2**30 == pytest.approx(9.5625)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("llama-3-70b", {"phase": "decode", "batch": 32, "context": 8192, "tp": 8}),
        ("deepseek-v3", {"phase": "decode", "batch": 64, "context": 4096, "tp": 8, "ep": 8, "dtype": "fp8_block"}),
        ("gpt-oss-120b", {"phase": "prefill", "batch": 2, "context": 4096, "tp": 4}),
        ("bert-large", {"phase": "prefill", "batch": 64, "context": 512}),
    ],
)
def test_steps_of_any_network_can_be_expected(name: str, setting: dict[str, Any]) -> None:
    found = networks.predict(name, "h200-sxm", **setting)
    assert 0 < found.low_s < found.seconds < found.high_s
    assert {part.limiter for part in found.parts} > {"DRAM"}
