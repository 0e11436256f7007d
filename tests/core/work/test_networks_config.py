"""Configurations of Hugging Face as networks: counted against transformers' own modules, and what is said of those that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hotlap.core.errors import InputError
from hotlap.core.work.networks import config, shape, steps, walk
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.steps import Choice

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip


def usual(layers: int, hidden: int, heads: int, inter: int, vocabulary: int) -> dict[str, Any]:
    return {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": inter, "vocab_size": vocabulary}


# model_type, keys, parameters of transformers 5.23's module of this configuration on the meta device
COUNTED: list[tuple[str, dict[str, Any], int]] = [
    ("llama", usual(32, 4096, 32, 11008, 32000), 6_738_415_616),
    ("mistral", {**usual(32, 4096, 32, 14336, 32000), "num_key_value_heads": 8, "sliding_window": 4096}, 7_241_732_096),
    ("mixtral", {**usual(4, 4096, 32, 14336, 32000), "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2}, 6_067_228_672),
    ("qwen2", usual(32, 4096, 32, 22016, 151936), 12_049_846_272),
    ("qwen3", {**usual(32, 4096, 32, 22016, 151936), "head_dim": 128, "use_sliding_window": False, "sliding_window": 4096}, 12_049_461_248),
    ("qwen2_moe", {**usual(4, 2048, 16, 5632, 151936), "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}, 2_904_573_952),
    ("qwen3_moe", {**usual(4, 2048, 32, 6144, 151936), "num_local_experts": 128, "num_key_value_heads": 4, "num_experts_per_tok": 8, "moe_intermediate_size": 768}, 3_077_065_216),
    ("gemma", {**usual(28, 3072, 16, 24576, 256000), "num_key_value_heads": 16, "head_dim": 256}, 8_537_680_896),
    ("gemma2", {**usual(26, 2304, 8, 9216, 256000), "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096}, 2_614_341_888),
    ("cohere", usual(40, 8192, 64, 22528, 256000), 34_980_831_232),
    ("cohere2", {**usual(32, 4096, 32, 14336, 256000), "num_key_value_heads": 8, "sliding_window": 4096}, 8_028_033_024),
    ("granite", {**usual(40, 4096, 32, 12800, 49155), "num_key_value_heads": 8, "tie_word_embeddings": True}, 8_170_848_256),
    ("granitemoe", {**usual(24, 1024, 16, 512, 49155), "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 8, "tie_word_embeddings": True}, 1_334_628_352),
    ("mamba", {"num_hidden_layers": 64, "hidden_size": 2560, "state_size": 16, "vocab_size": 50280, "time_step_rank": 160}, 2_768_345_600),
    ("jamba", {**usual(8, 1024, 16, 2816, 65536), "num_key_value_heads": 8, "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_offset": 3, "mamba_expand": 3, "tie_word_embeddings": True}, 313_299_616),
    ("jamba", {**usual(6, 512, 8, 1408, 65536), "num_key_value_heads": 4, "num_experts": 1, "num_experts_per_tok": 1, "attn_layer_period": 3, "attn_layer_offset": 0, "mamba_proj_bias": True, "mamba_conv_bias": False, "mamba_dt_rank": 40}, 88_515_360),
    ("phi", usual(24, 2048, 32, 8192, 51200), 1_418_270_720),
    ("phi3", usual(32, 3072, 32, 8192, 32064), 3_821_079_552),
    ("gpt2", {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}, 124_439_808),
    ("gpt_neox", usual(44, 6144, 64, 24576, 50432), 20_554_567_680),
    ("opt", {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "ffn_dim": 3072, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 768}, 125_239_296),
    ("falcon", {"num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "vocab_size": 65024}, 6_921_720_704),
    ("bert", usual(12, 768, 12, 3072, 30522), 109_482_240),
    ("roberta", {**usual(12, 768, 12, 3072, 50265), "max_position_embeddings": 512}, 124_644_864),
    ("gpt_oss", {**usual(4, 2880, 64, 2880, 201088), "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128}, 14_010_590_528),
    ("t5", {"num_layers": 6, "d_model": 512, "num_heads": 8, "d_kv": 64, "d_ff": 2048, "vocab_size": 32128}, 60_506_624),
    ("mt5", {"num_layers": 8, "d_model": 512, "num_heads": 6, "d_kv": 64, "d_ff": 1024, "vocab_size": 250112, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": True}, 172_119_424),
    ("whisper", {"num_mel_bins": 80, "encoder_layers": 4, "decoder_layers": 4, "d_model": 384, "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "vocab_size": 51865}, 37_760_640),
    ("vit", {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}, 85_800_194),
]  # fmt: skip


def made(folder: Path, keys: dict[str, Any]) -> Network | Layered:
    file = folder / "config.json"
    file.write_text(json.dumps(keys), encoding="utf-8")
    return config.read(file)


@pytest.mark.parametrize(("model_type", "keys", "counted"), COUNTED, ids=[name for name, _, _ in COUNTED])
def test_a_configuration_has_the_parameters_of_its_module(tmp_path: Path, model_type: str, keys: dict[str, Any], counted: int) -> None:
    """Transformers without norms and biases, so a little less; those that are written layer by layer exactly."""
    network = made(tmp_path, {"model_type": model_type, **keys})
    if isinstance(network, Layered):
        assert walk.walk(network, "layers", 1).parameters == counted
    else:
        assert network.counted == pytest.approx(counted, rel=0.0015)
    assert all(steps.step(network, Choice(phase, batch=2, context=64)) for phase in steps.phases(network))


def test_cohere_has_layer_norms(tmp_path: Path) -> None:
    """CohereLayerNorm takes the mean off, also of queries and keys; its weights have no bias."""
    network = made(tmp_path, {"model_type": "cohere", **usual(40, 8192, 64, 22528, 256000), "use_qk_norm": True})
    assert isinstance(network, Network)
    assert network.gated
    norms = {call.name: call.params["op"] for call in steps.step(network, Choice("decode", context=64)) if "norm" in call.name}
    assert set(norms.values()) == {"layernorm"}
    assert "query and key norm" in norms


def test_it_is_the_network_of_the_same_shape(tmp_path: Path) -> None:
    assert made(tmp_path, LLAMA_8B).__dict__.items() >= {
        name: value for name, value in shape.load("llama-3-8b").__dict__.items() if name not in ("name", "about", "source", "aliases", "parameters")
    }.items()  # fmt: skip


def test_latent_attention_is_read(tmp_path: Path) -> None:
    network = made(tmp_path, {
        "model_type": "deepseek_v3", **usual(61, 7168, 128, 18432, 129280), "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
        "n_shared_experts": 1, "first_k_dense_replace": 3,
    })  # fmt: skip
    assert isinstance(network, Network)
    assert network.counted == shape.load("deepseek-v3").counted


def test_queries_need_no_latent(tmp_path: Path) -> None:
    """DeepSeek-V2-Lite's config.json; 15.7 B parameters, 2.4 B active: DeepSeek-V2's report, arXiv 2405.04434, appendix B."""
    network = made(tmp_path, {
        "model_type": "deepseek_v2", **usual(27, 2048, 16, 10944, 102400), "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
        "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1,
    })  # fmt: skip
    assert isinstance(network, Network)
    assert network.counted == pytest.approx(15.7e9, rel=0.003)
    found = {call.name: call for call in steps.step(network, Choice("decode", batch=4))}
    assert {name: found["queries"].params[name] for name in ("m", "n", "k")} == {"m": 4, "n": 16 * 192, "k": 2048}
    assert found["latents down"].params["n"] == 512 + 64
    active = walk.multiply_adds(steps.step(network, Choice("prefill", context=1)))
    assert active == pytest.approx(2.4e9, rel=0.03)


def test_a_text_config_leaves_out_what_transformers_has_as_usual(tmp_path: Path) -> None:
    """Gemma 3 4B as published: 3,209 M parameters beside 675 M of embeddings; Gemma 3 Technical Report, arXiv 2503.19786, table 1."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    network = made(tmp_path, {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}})
    assert isinstance(network, Network)
    assert network.counted - network.embedding_parameters == pytest.approx(3209e6, rel=0.001)
    assert network.embedding_parameters == pytest.approx(675e6, rel=0.01)
    calls = [(call.params["window"], call.times) for call in steps.step(network, Choice("decode")) if call.workload == "attention"]
    assert calls == [(1024, 29), (0, 5)]
    llava = {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}}
    assert made(tmp_path, llava).parameters == pytest.approx(6.74e9, rel=0.001)


WINDOWS = [
    ("qwen2", {"use_sliding_window": True, "max_window_layers": 21}, 3), ("qwen2", {"use_sliding_window": True}, 0),
    ("qwen2", {"max_window_layers": 21}, 0), ("qwen3", {"use_sliding_window": True, "max_window_layers": 0}, 24),
    ("mistral", {}, 24), ("mistral", {"sliding_window": None}, 0), ("gemma2", {"num_hidden_layers": 25}, 13),
    ("gemma3_text", {}, 20), ("gemma3_text", {"sliding_window_pattern": 5}, 20),
    ("qwen2_moe", {"use_sliding_window": True, "max_window_layers": 21, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}, 11),
    ("gpt_oss", {"num_local_experts": 8, "num_experts_per_tok": 2}, 12),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "keys", "layers"), WINDOWS)
def test_the_layers_with_a_window_are_those_of_transformers(tmp_path: Path, model_type: str, keys: dict[str, Any], layers: int) -> None:
    """As each configuration class of transformers 5.23 fills layer_types."""
    network = made(tmp_path, {"model_type": model_type, **usual(24, 1024, 16, 2816, 1000), "sliding_window": 128, **keys})
    assert isinstance(network, Network)
    assert (network.windowed_layers, bool(network.window)) == (layers, layers > 0)


def test_how_weights_are_stored_is_known(tmp_path: Path) -> None:
    for how, said in (({"quant_method": "mxfp4"}, "mxfp4"), ({"quant_method": "gptq", "bits": 4}, "gptq, 4 bits"), (None, "")):
        network = made(tmp_path, {**LLAMA_8B, "quantization_config": how})
        assert isinstance(network, Network)
        assert network.stored == said
    network = made(tmp_path, {"model_type": "seen", "text_config": LLAMA_8B, "quantization_config": {"quant_method": "fp8"}})
    assert isinstance(network, Network)
    assert "are stored in fp8; taken as bf16" in network.taken_as("bf16")
    assert network.taken_as("fp8_block") == ""


def test_the_folder_names_the_network_and_the_class_its_type(tmp_path: Path) -> None:
    folder = tmp_path / "my net"
    folder.mkdir()
    made(folder, {key: value for key, value in LLAMA_8B.items() if key != "model_type"})
    assert config.read(folder).name == "my-net"


def test_layers_with_windows_are_counted(tmp_path: Path) -> None:
    types = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"] * 8
    network = made(tmp_path, {**LLAMA_8B, "sliding_window": 512, "layer_types": types})
    assert isinstance(network, Network)
    assert (network.window, network.windowed_layers) == (512, 24)


def test_the_language_part_of_a_model_of_several_kinds_is_taken(tmp_path: Path) -> None:
    network = made(tmp_path, {"model_type": "seeing_llama", "text_config": LLAMA_8B})
    assert isinstance(network, Network)
    assert network.layers == 32


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model_type": "llama", "hidden_size": 8}', "llama needs 'num_hidden_layers', 'num_attention_heads', 'intermediate_size', 'vocab_size', which are missing; its keys:"),
        ('{"model_type": "lama"}', "the model_type 'lama' is not known, and its fields are of no kind that is; did you mean 'llama'? known model types: llama"), ("[]", "is no config.json"),
        ('{"hidden_size": 8}', "no 'model_type' and no 'architectures'; valid model types: llama"), ("{", "is not JSON"),
        (json.dumps({**LLAMA_8B, "hidden_size": "big"}), "'hidden_size' is a whole number from 1, not 'big'"),
        (json.dumps({**LLAMA_8B, "sliding_window": 8, "layer_types": ["full_attention"]}), "'layer_types' is a list of 32, one for each layer, not of 1"),
        (json.dumps({**LLAMA_8B, "sliding_window": 8, "layer_types": ["chunked_attention"] * 32}), "layer_types with 'chunked_attention' is not described here"),
        (json.dumps({**LLAMA_8B, "num_key_value_heads": 5}), "32 heads cannot share 5 key-value heads"),
        (json.dumps({**LLAMA_8B, "hidden_size": 4097}), "a hidden size of 4097 cannot be cut into 32 heads"),
        ('{"architectures": ["SpecialForCausalLM"]}', "the model_type 'SpecialForCausalLM' is not known"),
        (json.dumps({"model_type": "vit", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "patch_size": 15}), "an image of 224 cannot be cut into patches of 15"),
        (json.dumps({"model_type": "qwen3_moe", **usual(4, 2048, 32, 6144, 1000), "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "decoder_sparse_step": 2}), "decoder_sparse_step = 2 is not described here, only 1"),
        (json.dumps({"model_type": "jamba", **usual(4, 64, 4, 128, 1000), "num_experts": 2, "num_experts_per_tok": 1, "attn_layer_period": 4}), "'attn_layer_offset' is 4, and must be below 'attn_layer_period', which is 4"),
    ],
)  # fmt: skip
def test_a_configuration_that_is_wrong_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as error:
        config.read(file)
    assert str(file) in str(error.value)
    assert message in str(error.value)


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        config.read(tmp_path)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({"model_type": "olmo9", "rms_norm_eps": 1e-5, **usual(2, 64, 4, 128, 1000)}, "llama"),
        ({"model_type": "mixed", **usual(2, 64, 4, 128, 1000), "num_local_experts": 4, "num_experts_per_tok": 2}, "mixtral"),
    ],
)
def test_an_unknown_type_is_read_by_its_fields_and_that_is_said(tmp_path: Path, keys: dict[str, Any], kind: str) -> None:
    network = made(tmp_path, keys)
    assert isinstance(network, Network)
    assert tuple(remark.text for remark in network.remarks) == (f"{network.name}: the model_type {keys['model_type']} is not known; read as {kind} by its fields",)
    assert bool(network.experts) == (kind == "mixtral")


def test_one_that_fits_several_asks_which(tmp_path: Path) -> None:
    unclear = {"model_type": "new", "layer_norm_eps": 1e-5, **usual(2, 64, 4, 128, 1000)}
    with pytest.raises(InputError, match="its fields fit llama and bert: say which with --as"):
        made(tmp_path, unclear)
    as_bert = config.read(tmp_path / "config.json", "bert")
    assert isinstance(as_bert, Network)
    assert not as_bert.causal
    assert tuple(remark.text for remark in as_bert.remarks) == (f"{as_bert.name}: read as bert, as was asked; its model_type is new",)
    with pytest.raises(InputError, match="--as takes a known model_type, not 'berd'; did you mean 'bert'"):
        config.read(tmp_path / "config.json", "berd")
    with pytest.raises(InputError, match="its fields are of no kind that is; known model types: llama, mistral"):
        made(tmp_path, {"model_type": "zamba", **usual(2, 64, 4, 128, 1000), "mamba_d_state": 16, "rms_norm_eps": 1e-5})


def test_a_type_of_weights_that_steps_are_not_of_is_said(tmp_path: Path) -> None:
    usual_one = {"model_type": "llama", **usual(2, 64, 4, 128, 1000)}
    for given, said in (("float16", "of float16: --dtype fp16"), ("float32", "of float32: --dtype fp32"), ("float64", "unless --dtype says otherwise")):
        (remark,) = made(tmp_path, {**usual_one, "torch_dtype": given}).remarks
        assert f"its weights are kept in {given}; steps are of bf16" in remark.text
        assert remark.text.endswith(said)
    for given in ("bfloat16", None, 7):
        assert made(tmp_path, {**usual_one, "torch_dtype": given}).remarks == ()


def test_parts_that_are_not_described_are_named(tmp_path: Path) -> None:
    flat = {"model_type": "qwen2_vl", **usual(28, 3584, 28, 18944, 152064), "num_key_value_heads": 4, "vision_config": {"depth": 32}}
    nested = {"model_type": "qwen2_vl", "text_config": {**flat, "model_type": "qwen2_vl_text"}, "vision_config": {"depth": 32}}
    for keys in (flat, nested):
        network = made(tmp_path, keys)
        assert tuple(remark.text for remark in network.remarks) == (f"left out of {network.name}: its vision part; only the language model is described",)
        assert isinstance(network, Network)
        # transformers' Qwen2VLForConditionalGeneration on the meta device, without its 675,759,104 of the vision tower
        assert network.counted == pytest.approx(8_291_375_616 - 675_759_104, rel=0.001)
    scan = made(tmp_path, {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "vocab_size": 50280})
    assert isinstance(scan, Layered)
    (missing,) = steps.remarks(scan)
    assert (missing.code, missing.text) == (
        "no_workload",
        f"not counted: the selective scan of {scan.name} (no model yet); the true time is higher",
    )


def test_the_unet_of_stable_diffusion_xl_has_the_parameters_of_diffusers_own(tmp_path: Path) -> None:
    """unet/config.json of stable-diffusion-xl-base-1.0; parameters of diffusers' UNet2DConditionModel on the meta device."""
    keys: dict[str, Any] = {
        "_class_name": "UNet2DConditionModel", "sample_size": 128, "block_out_channels": [320, 640, 1280], "layers_per_block": 2,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], "transformer_layers_per_block": [1, 2, 10],
        "cross_attention_dim": 2048, "use_linear_projection": True, "addition_embed_type": "text_time", "projection_class_embeddings_input_dim": 2816,
    }
    network = made(tmp_path, keys)
    assert isinstance(network, Layered)
    assert walk.walk(network, "layers", 1).parameters == 2_567_463_684
    assert steps.step(network, Choice("forward", batch=2))
    for blocks in (["DownBlock2D"], ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"]):
        with pytest.raises(InputError) as refused:
            made(tmp_path, {**keys, "down_block_types": blocks})
        assert f"down_block_types = {blocks} is not described here" in str(refused.value)  # no name is cut


@pytest.mark.parametrize(("model_type", "longest"), [("bert", 514), ("roberta", 512), ("xlm_roberta", 512), ("xlm-roberta", 512)])
def test_positions_of_a_roberta_begin_behind_that_of_padding(tmp_path: Path, model_type: str, longest: int) -> None:
    network = made(tmp_path, {"model_type": model_type, **usual(12, 768, 12, 3072, 50265), "max_position_embeddings": 514})
    assert isinstance(network, Network)
    assert network.longest == longest
