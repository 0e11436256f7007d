"""Networks against what is published of them: parameters, operations, and single layers by hand."""

from __future__ import annotations

import pytest

from hotlap.core import work
from hotlap.core.work.networks import layered, shape, steps, walk
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.steps import Choice


def of(name: str) -> Layered:
    found = layered.load(name)
    assert found is not None
    return found


def calls(name: str, phase: str, **how: int) -> list[Call]:
    return steps.step(steps.find(name), Choice(phase, **how))


def only(found: list[Call], kernel: str) -> Call:
    (one,) = [call for call in found if call.name == kernel]
    return one


@pytest.mark.parametrize("name", layered.names())
def test_layers_have_the_published_number_of_parameters(name: str) -> None:
    """Norms, biases and embeddings counted. RetinaNet's is published with frozen batch norms, T5's and wav2vec's are rounded."""
    assert walk.walk(of(name), "layers", 1).parameters == pytest.approx(of(name).parameters, rel=0.015)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("resnet-50", 25_557_032), ("convnext-tiny", 28_589_128), ("efficientnet-b0", 5_288_548), ("vit-b-16", 86_567_656),
        ("stable-diffusion-1.5", 859_520_964), ("stable-diffusion-vae", 49_490_199), ("clip-l-text", 123_060_480),
        ("whisper-large-v3", 1_543_490_560), ("t5-base", 222_903_552), ("wav2vec2-base", 94_371_712), ("jamba-v0.1", 51_570_323_328),
    ],
)  # fmt: skip
def test_layers_have_every_parameter_of_the_reference(name: str, exact: int) -> None:
    """torchvision 0.28's, diffusers 0.42's and transformers 5.23's modules, counted on the meta device."""
    assert walk.walk(of(name), "layers", 1).parameters == exact


@pytest.mark.parametrize("name", [name for name in layered.names() if of(name).macs])
def test_layers_have_the_published_operations(name: str) -> None:
    network = of(name)
    found = walk.multiply_adds(walk.walk(network, "layers", 1).calls, network.uncounted)
    assert found == pytest.approx(network.macs, rel=0.01)


def test_most_networks_have_published_operations() -> None:
    assert [name for name in layered.names() if not of(name).macs] == ["dlrm", "jamba-v0.1", "mamba-130m", "rnn-t", "stable-diffusion-xl"]


@pytest.mark.parametrize(
    ("name", "active"),
    [("deepseek-v3", 37e9), ("gpt-oss-120b", 5.13e9), ("gpt-oss-20b", 3.61e9), ("mixtral-8x7b", 12.9e9), ("qwen3-30b-a3b", 3.3e9), ("qwen3-235b-a22b", 22e9)],
)
def test_a_token_meets_the_active_parameters(name: str, active: float) -> None:
    """As published: DeepSeek-V3's report, the model cards of gpt-oss, Mixtral's and Qwen3's. Some count the embedding's table, too."""
    network = shape.load(name)
    met = walk.multiply_adds(calls(name, "prefill", context=1))
    table = network.vocabulary * network.hidden
    assert min(abs(met - active), abs(met + table - active)) < 0.02 * active


def test_there_are_networks_of_every_domain() -> None:
    domains = {of(name).domain for name in layered.names()}
    assert domains == {"images", "detection", "speech", "language", "large language", "diffusion", "recommenders"}
    assert len(steps.names()) >= 30


@pytest.mark.parametrize("name", steps.names())
def test_every_kernel_of_every_phase_is_a_case(name: str) -> None:
    for phase in steps.phases(steps.find(name)):
        found = calls(name, phase, batch=2)
        assert found
        for call in found:
            work.find(call.workload).parse(call.params)
            assert call.times > 0


def test_a_decoder_looks_at_its_source_and_at_itself() -> None:
    found = calls("whisper-large-v3", "decode", batch=3, context=200)
    itself, source = only(found, "decoder self-attention"), only(found, "decoder cross-attention")
    assert (itself.params["query"], itself.params["kv"], itself.times) == (1, 200, 32)
    assert (source.params["query"], source.params["kv"], source.times) == (1, 1500, 32)
    assert not [call for call in found if "cross key" in call.name]  # kept since the first token
    whole = calls("whisper-large-v3", "forward", batch=3, context=200)
    assert only(whole, "decoder cross key").params["m"] == 3 * 1500
    assert only(whole, "encoder attention").params["query"] == 1500
    assert only(whole, "decoder self-attention").params["mask"] == "causal"


def test_t5_decodes_against_its_source() -> None:
    whole = calls("t5-base", "forward", batch=2, context=512)
    assert only(whole, "decoder cross-attention").params | {"dtype": ""} == {
        "batch": 2, "query": 128, "kv": 512, "heads": 12, "kv_heads": 12, "head_dim": 64, "mask": "full", "dtype": "", "kv_dtype": "bf16",
        "cache_write": 0,
    }  # fmt: skip
    assert "cache_write" not in only(whole, "decoder self-attention").params
    assert only(whole, "encoder up").params["m"] == 2 * 512
    assert only(whole, "head").params["m"] == 2 * 128


@pytest.mark.parametrize(("name", "phase", "written"), [
    ("bert-large", "prefill", False), ("llama-3-8b", "prefill", True), ("llama-3-8b", "decode", True), ("llama-3-8b", "train", False),
    ("deepseek-v3", "decode", True), ("vit-b-16", "forward", False), ("clip-l-text", "forward", False), ("jamba-v0.1", "decode", True),
    ("stable-diffusion-xl", "forward", False), ("t5-base", "train", False), ("whisper-large-v3", "decode", True),
])  # fmt: skip
def test_a_cache_of_keys_and_values_is_written_by_who_has_one(name: str, phase: str, written: bool) -> None:
    network = steps.find(name)
    phases = steps.phases(network)
    kernels = [call for call in steps.step(network, Choice(phase if phase in phases else phases[0])) if call.workload == "attention"]
    assert kernels
    assert any(call.params.get("cache_write", 1) for call in kernels) == written


def test_a_u_net_goes_down_and_up_again() -> None:
    """The widest product of skips: 1280 and 1280 channels side by side at 16 × 16, as in diffusers' up_blocks.1.resnets.0."""
    found = calls("stable-diffusion-1.5", "forward")
    first = [call for call in found if call.name == "up 3 3 × 3 convolution" and call.params["channels"] == 2560]
    assert [(call.params["height"], call.params["filters"], call.times) for call in first] == [(16, 1280, 2)]
    assert only(found, "last").params["channels"] == 320
    assert only(found, "last").params["height"] == 64


def test_the_first_layer_has_no_data_gradient() -> None:
    found = [call.name for call in calls("resnet-50", "train", batch=4)]
    assert "stem, weight gradient" in found
    assert "stem, data gradient" not in found
    assert "classifier, data gradient" in found


def test_batch_norm_is_one_kernel_of_statistics_while_training() -> None:
    training, serving = calls("resnet-50", "train", batch=4), calls("resnet-50", "forward", batch=4)
    assert only(training, "stem norm").params | {"dtype": ""} == {"op": "batchnorm", "rows": 64, "columns": 4 * 112 * 112, "dtype": ""}
    assert only(serving, "stem norm").params["op"] == "scale"
