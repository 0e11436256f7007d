"""Operations per token by the conventions of others, against numbers that were published or counted otherwise."""

from __future__ import annotations

import importlib.util

import pytest

from hotlap.core.errors import InputError
from hotlap.core.work.networks import shape
from hotlap.training import conventions
from hotlap.training.conventions import FORMULAS, network_of
from hotlap.training.record import TrainingAsked, TrainingProcess

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")


def test_parameters_are_those_of_the_published_checkpoints() -> None:
    assert conventions.parameters(shape.load("llama-3-8b")) == 8_030_261_248  # its safetensors index: 16,060,522,496 bytes in bf16
    assert conventions.parameters(shape.load("llama-3-70b")) == 70_553_706_496
    assert conventions.parameters(shape.load("gpt-2")) == 124_439_808
    assert conventions.parameters(shape.load("mixtral-8x7b")) == 46_702_792_704


def test_six_conventions_of_one_network_differ_as_their_sources_do() -> None:
    network, tokens = shape.load("llama-3-8b"), 8192
    attention = 32 * 32 * 128 * tokens  # L·H·Q·T
    matrices = 8_030_261_248 - 128_256 * 4096
    by = {name: formula.per_token(network, tokens) for name, formula in FORMULAS.items()}
    assert by["torchtitan"] == 6 * matrices + 12 * attention
    assert by["palm"] == 6 * 8_030_261_248 + 12 * attention
    assert by["nanogpt"] == by["palm"]  # it has no table of positions
    assert by["causal"] == 6 * matrices + 6 * attention
    assert by["transformers"] == 6 * matrices
    norms = 6 * 4096 * 65
    assert by["megatron"] == pytest.approx(by["torchtitan"] - norms, rel=1e-12)  # the same but for the norms
    assert by["counted"] == pytest.approx(by["causal"] - norms + 6 * attention / tokens, rel=1e-9)  # the diagonal is not masked
    gpt = shape.load("gpt-2")
    assert FORMULAS["nanogpt"].per_token(gpt, 1024) == 6 * (124_439_808 - 1024 * 768) + 12 * 12 * 12 * 64 * 1024
    assert len({round(value) for name, value in by.items() if name != "6N"}) == 6


def test_experts_count_as_far_as_a_token_meets_them() -> None:
    network = shape.load("mixtral-8x7b")
    assert conventions.active(network) == 12_879_925_248  # as published: 12.9 billion
    assert FORMULAS["torchtitan"].per_token(network, 4096) == 6 * (12_879_925_248 - 32_000 * 4096) + 12 * 32 * 32 * 128 * 4096


@torch
@pytest.mark.slow("imports PyTorch")
@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-2", "mixtral-8x7b", "bert-base", "gpt-oss-20b"])
def test_a_module_has_the_parameters_and_the_count_of_its_network(name: str) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from hotlap.training.network_module import NetworkModule

    small = {"layers": "2", "hidden": "64", "heads": "4", "head_dim": "16", "inter": "96", "vocabulary": "128", "context": "32", "batch": "2"}
    experts = {"experts": "4", "topk": "2", "expert_inter": "48"} if shape.load(name).experts else {}
    network, batch, context = network_of(name, {**small, **experts})
    module = NetworkModule(network)
    assert sum(one.numel() for one in module.parameters()) == conventions.parameters(network)
    flash = torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(False)  # the counter does not know the processor's kernel of attention
    try:
        with FlopCounterMode(display=False) as counter:
            module(torch.randint(network.vocabulary, (batch, context))).sum().backward()
    finally:
        torch.backends.cuda.enable_flash_sdp(flash)
    counted = conventions.counted(network, context, masked=False) * batch * context
    assert counter.get_total_flops() == pytest.approx(counted, rel=0.005)


def test_widths_that_cannot_be_are_refused_in_one_line() -> None:
    for name, given, words in (
        ("llama-3-8b", {"depth": "2"}, "no parameter 'depth'"), ("llama-3-8b", {"layers": "0"}, "whole number"),
        ("llama-3-8b", {"heads": "6", "kv_heads": "4"}, "6 heads cannot share 4"), ("mixtral-8x7b", {"topk": "9"}, "9 of 8 experts"),
        ("deepseek-v3", {}, "measure a script"), ("resnet-50", {}, "measure a script"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            network_of(name, given)
        assert "\n" not in str(caught.value)


def test_a_program_is_known_by_its_parameters_alone() -> None:
    asked = TrainingAsked(program="a.py", kind="script")
    assert conventions.of_run(asked, TrainingProcess(number=0, parameters={"float32": 10, "bfloat16": 5})) == {"6N": 90.0}
    assert conventions.of_run(asked, TrainingProcess(number=0)) == {}
