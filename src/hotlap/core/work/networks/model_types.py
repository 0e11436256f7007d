"""What the keys of a Hugging Face config.json mean, for each model_type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotlap.core.errors import InputError

Config = Mapping[str, Any]
LISTED = 8  # values of a list in a message


@dataclass(frozen=True)
class NetworkKind:
    """A model_type: keys that it must have by our field, keys that it may have, and what is always so."""

    needs: Mapping[str, str]
    may: Mapping[str, str] = field(default_factory=dict)
    always: Mapping[str, Any] = field(default_factory=dict)
    more: Callable[[ConfigReader], dict[str, Any]] = lambda _: {}  # fields that several keys make
    base: str = ""  # the layered network that it is, with other widths


@dataclass(frozen=True)
class ConfigReader:
    """The keys of one config, each checked as it is read."""

    config: Config
    where: str

    def whole(self, key: str, default: int | None = None, low: int = 1) -> int:
        """A whole number; `default` where the key is missing or null."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value < 2**31:
            raise InputError(f"{self.where}: '{key}' is a whole number from {low}, not {_quoted(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.config.get(key, default)
        return default if value is None else bool(value)

    def each(self, key: str, valid: Sequence[str], length: int) -> None:
        """Raises InputError where a key is no list of that length of valid values."""
        given = self.config[key]
        if len(given) != length:
            raise InputError(f"{self.where}: '{key}' is a list of {length}, one for each layer, not of {len(given)}")
        if stray := [one for one in given if one not in valid]:
            raise InputError(f"{self.where}: {key} with {_quoted(stray[0])} is not described here, only {' and '.join(valid)}")

    def only(self, key: str, value: object, default: object) -> None:
        """Raises InputError where a key has another value than the one that is described here."""
        given = self.config.get(key, default)
        if given not in (value, None):
            raise InputError(f"{self.where}: {key} = {_quoted(given)} is not described here, only {value!r}")


def _quoted(value: object) -> str:
    """As it is written; of a long list its first values, none of them cut."""
    if not isinstance(value, list) or len(value) <= LISTED:
        return f"{value!r:.200}"
    return f"[{', '.join(f'{one!r:.40}' for one in value[:LISTED])}, … {len(value) - LISTED} more]"


# ---------------------------------------------------------------- what several keys make


def _windows(r: ConfigReader, windowed: Callable[[int], int] = int) -> dict[str, Any]:
    """Layers with a window: by `layer_types`, else `windowed` of the number of layers; as it is, all."""
    if r.config.get("sliding_window") is None or r.config.get("use_sliding_window") is False:
        return {}
    layers, types = r.whole("num_hidden_layers"), r.config.get("layer_types")
    if isinstance(types, list) and types:
        r.each("layer_types", ("sliding_attention", "full_attention"), layers)
        count = types.count("sliding_attention")
    else:
        count = windowed(layers)
    return {"window": r.whole("sliding_window"), "windowed_layers": count} if count else {}


def _all_but_every(nth: int) -> Callable[[int], int]:
    """Every nth layer has no window."""
    return lambda layers: layers - layers // nth


def _llama(r: ConfigReader) -> dict[str, Any]:
    return {**_windows(r), "bias": _bias(r)}


def _bias(r: ConfigReader) -> str:
    attention, rest = r.flag("attention_bias", False), r.flag("mlp_bias", False)
    return "all" if attention and rest else "qkv" if attention else ""


def _qwen2(r: ConfigReader) -> dict[str, Any]:
    return {**_late_windows(r), "bias": "qkv"}


def _late_windows(r: ConfigReader) -> dict[str, Any]:
    """From the layer `max_window_layers` on."""
    first = r.whole("max_window_layers", 28, low=0)
    return _windows(r, lambda layers: max(layers - first, 0)) if r.flag("use_sliding_window", False) else {}


def _qwen3(r: ConfigReader) -> dict[str, Any]:
    return {**_late_windows(r), "bias": _bias(r), "head_dim": r.whole("head_dim", 128)}


def _every_layer_mixed(r: ConfigReader) -> None:
    r.only("decoder_sparse_step", 1, 1)
    r.only("mlp_only_layers", [], [])


def _qwen2_moe(r: ConfigReader) -> dict[str, Any]:
    _every_layer_mixed(r)
    shared, inter = r.whole("shared_expert_intermediate_size", 0, low=0), r.whole("moe_intermediate_size")
    if shared % inter:
        raise InputError(f"{r.where}: a shared expert of {shared} is no multiple of an expert's {inter}")
    end = r.whole("max_window_layers", 28, low=0)
    windows = _windows(r, lambda layers: -(-min(layers, end) // 2)) if r.flag("use_sliding_window", False) else {}
    return {**windows, "bias": "qkv", "shared_experts": shared // inter}


def _qwen3_moe(r: ConfigReader) -> dict[str, Any]:
    _every_layer_mixed(r)
    return {**(_windows(r) if r.flag("use_sliding_window", False) else {}), "bias": _bias(r)}


def _gemma(r: ConfigReader) -> dict[str, Any]:
    return {"head_dim": r.whole("head_dim", 256), "tied": r.flag("tie_word_embeddings", True)}


def _gemma2(r: ConfigReader) -> dict[str, Any]:
    return {**_windows(r, _all_but_every(2)), **_gemma(r)}


def _gemma3(r: ConfigReader) -> dict[str, Any]:
    return {**_windows(r, _all_but_every(r.whole("sliding_window_pattern", 6))), **_gemma(r)}


def _cohere(r: ConfigReader) -> dict[str, Any]:
    """One norm and attention beside the inner layers; cohere2 has windows in all but every fourth layer."""
    windows = _windows(r, _all_but_every(r.whole("sliding_window_pattern", 4)))
    return {**windows, "bias": _bias(r), "tied": r.flag("tie_word_embeddings", True), "qk_norm": r.flag("use_qk_norm", False)}


def _granite_moe(r: ConfigReader) -> dict[str, Any]:
    r.only("shared_intermediate_size", 0, 0)
    return {"bias": _bias(r)}


def _mamba(r: ConfigReader) -> dict[str, Any]:
    return {
        "rank": _time_step_rank(r, "time_step_rank"), "inner": r.whole("expand", 2) * r.whole("hidden_size"),
        "inner_bias": int(r.flag("use_bias", False)), "tied": int(r.flag("tie_word_embeddings", True)),
        "filter_bias": int(r.flag("use_conv_bias", True)),
    }  # fmt: skip


def _time_step_rank(r: ConfigReader, key: str) -> int:
    return -(-r.whole("hidden_size") // 16) if r.config.get(key, "auto") in ("auto", None) else r.whole(key)


def _jamba(r: ConfigReader) -> dict[str, Any]:
    """Which layers have attention and which have experts: by a period and an offset each."""
    hidden, heads = r.whole("hidden_size"), r.whole("num_attention_heads")
    if hidden % heads:
        raise InputError(f"{r.where}: a hidden size of {hidden} cannot be cut into {heads} heads")
    experts = _every(r, "expert_layer", 2, 1) if r.whole("num_experts") > 1 else 0
    return {
        "attention_layers": _every(r, "attn_layer", 8, 4), "expert_layers": experts, "head_dim": hidden // heads,
        "rank": _time_step_rank(r, "mamba_dt_rank"), "inner": r.whole("mamba_expand", 2) * hidden,
        "inner_bias": int(r.flag("mamba_proj_bias", False)), "filter_bias": int(r.flag("mamba_conv_bias", True)),
        "tied": int(r.flag("tie_word_embeddings", False)),
    }  # fmt: skip


def _every(r: ConfigReader, key: str, period: int, offset: int) -> int:
    """Layers whose number, divided by `KEY_period`, leaves `KEY_offset`."""
    period, offset = r.whole(f"{key}_period", period), r.whole(f"{key}_offset", offset, low=0)
    if offset >= period:
        raise InputError(f"{r.where}: '{key}_offset' is {offset}, and must be below '{key}_period', which is {period}")
    return len(range(offset, r.whole("num_hidden_layers"), period))


def _unet(r: ConfigReader) -> dict[str, Any]:
    """diffusers' UNet2DConditionModel in the form of Stable Diffusion XL."""
    r.only("down_block_types", ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], [])
    for key, value in (("layers_per_block", 2), ("addition_embed_type", "text_time"), ("use_linear_projection", True)):
        r.only(key, value, None)
    widths, depths = r.config.get("block_out_channels"), r.config.get("transformer_layers_per_block")
    for key, given in (("block_out_channels", widths), ("transformer_layers_per_block", depths)):
        if not isinstance(given, list) or len(given) != 3 or not all(isinstance(one, int) and one > 0 for one in given):
            raise InputError(f"{r.where}: '{key}' is a list of 3 whole numbers, not {_quoted(given)}")
    assert widths
    assert depths
    named = dict(zip(("width1", "width2", "width3"), widths, strict=True))
    return {**named, "depth2": depths[1], "depth3": depths[2], "time": 4 * widths[0]}


def _gpt2(r: ConfigReader) -> dict[str, Any]:
    positions = r.whole("n_positions", 1024)
    return {"inter": r.whole("n_inner", 4 * r.whole("n_embd")), "positions": positions, "longest": positions}


def _opt(r: ConfigReader) -> dict[str, Any]:
    r.only("word_embed_proj_dim", r.whole("hidden_size"), None)
    longest = r.whole("max_position_embeddings", 2048)
    return {"positions": longest + 2, "longest": longest, "bias": "all" if r.flag("enable_bias", True) else ""}


def _falcon(r: ConfigReader) -> dict[str, Any]:
    heads, new = r.whole("num_attention_heads"), r.flag("new_decoder_architecture", False)
    kv_heads = r.whole("num_kv_heads", heads) if new else 1 if r.flag("multi_query", True) else heads
    return {
        "kv_heads": kv_heads, "inter": r.whole("ffn_hidden_size", 4 * r.whole("hidden_size")), "rotary": not r.flag("alibi", False),
        "bias": "all" if r.flag("bias", False) else "", "norms": 1 if r.flag("parallel_attn", True) and not new else 2,
    }  # fmt: skip


def _bert(r: ConfigReader) -> dict[str, Any]:
    longest = r.whole("max_position_embeddings", 512)
    return {"positions": longest + r.whole("type_vocab_size", 2, low=0), "longest": longest}


def _roberta(r: ConfigReader) -> dict[str, Any]:
    """Its positions begin behind that of padding."""
    return {**(found := _bert(r)), "longest": found["longest"] - r.whole("pad_token_id", 1, low=0) - 1}


def _deepseek(r: ConfigReader) -> dict[str, Any]:
    r.only("moe_layer_freq", 1, 1)
    nope, rope = r.whole("qk_nope_head_dim"), r.whole("qk_rope_head_dim")
    straight = r.config.get("q_lora_rank", "") is None  # null: queries without a latent
    q_rank = 0 if straight else r.whole("q_lora_rank")
    return {"head_dim": nope + rope, "rope_dim": rope, "kv_heads": r.whole("num_attention_heads"), "q_rank": q_rank}


def _gpt_oss(r: ConfigReader) -> dict[str, Any]:
    return {**_windows(r, _all_but_every(2)), "head_dim": r.whole("head_dim", 64)}


def _t5(r: ConfigReader) -> dict[str, Any]:
    return {
        "decoder_layers": r.whole("num_decoder_layers", r.whole("num_layers")),
        "gated": int(str(r.config.get("feed_forward_proj", "relu")).startswith("gated")), "tied": int(r.flag("tie_word_embeddings", True)),
    }  # fmt: skip


def _whisper(r: ConfigReader) -> dict[str, Any]:
    text = r.whole("max_target_positions", 448)
    frames = 2 * r.whole("max_source_positions", 1500)
    return dict(frames=frames, positions=text, context=text, longest=text)  # noqa: C408 - as a string it would name a kind of run


def _vit(r: ConfigReader) -> dict[str, Any]:
    image, patch, labels = r.whole("image_size", 224), r.whole("patch_size", 16), r.config.get("id2label")
    if image % patch:
        raise InputError(f"{r.where}: an image of {image} cannot be cut into patches of {patch}")
    classes = len(labels) if isinstance(labels, dict) and labels else r.whole("num_labels", 2)
    return {"image": image, "patch": patch, "classes": classes, "colours": r.whole("num_channels", 3)}


_USUAL = {
    "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "inter": "intermediate_size",
    "vocabulary": "vocab_size",
}  # fmt: skip
_KV = {"kv_heads": "num_key_value_heads", "head_dim": "head_dim"}
_PLAIN = {"gated": False, "bias": "all"}  # up alone, with biases
_ENCODER = {**_PLAIN, "tied": True, "causal": False, "rotary": False, "pooled": True}
_DENSE = {name: key for name, key in _USUAL.items() if name != "inter"}
_QWEN_MOE = {**_USUAL, "experts": "num_experts|num_local_experts", "topk": "num_experts_per_tok", "expert_inter": "moe_intermediate_size"}
_MIXTRAL = {**_USUAL, "experts": "num_local_experts", "topk": "num_experts_per_tok", "expert_inter": "intermediate_size"}
_DEEPSEEK = {
    **_USUAL, "kv_rank": "kv_lora_rank", "value_dim": "v_head_dim", "experts": "n_routed_experts",
    "topk": "num_experts_per_tok", "expert_inter": "moe_intermediate_size",
}  # fmt: skip
_DEEPSEEK_MAY = {"shared_experts": "n_shared_experts", "dense_layers": "first_k_dense_replace"}

_T5 = NetworkKind(
    {"layers": "num_layers", "hidden": "d_model", "heads": "num_heads", "head_dim": "d_kv", "inter": "d_ff", "vocabulary": "vocab_size"},
    {"buckets": "relative_attention_num_buckets"}, more=_t5, base="t5-base",
)


KINDS: Mapping[str, NetworkKind] = {
    "llama": NetworkKind(_USUAL, _KV, more=_llama),
    "mistral": NetworkKind(_USUAL, _KV, more=_windows),
    "mixtral": NetworkKind(_MIXTRAL, _KV, more=_windows),
    "qwen2": NetworkKind(_USUAL, _KV, more=_qwen2),
    "qwen2_vl": NetworkKind(_USUAL, _KV, more=_qwen2),
    "qwen2_vl_text": NetworkKind(_USUAL, _KV, more=_qwen2),
    "qwen2_moe": NetworkKind(_QWEN_MOE, _KV, more=_qwen2_moe),
    "qwen3": NetworkKind(_USUAL, _KV, {"qk_norm": True}, _qwen3),
    "qwen3_moe": NetworkKind(_QWEN_MOE, _KV, {"qk_norm": True}, _qwen3_moe),
    "gemma": NetworkKind(_USUAL, _KV, {"activation": "gelu_mul"}, _gemma),
    "gemma2": NetworkKind(_USUAL, _KV, {"activation": "gelu_mul", "norms": 4}, _gemma2),
    "gemma3_text": NetworkKind(_USUAL, _KV, {"activation": "gelu_mul", "norms": 4, "qk_norm": True}, _gemma3),
    "phi": NetworkKind(_USUAL, _KV, {**_PLAIN, "norms": 1}),
    "phi3": NetworkKind(_USUAL, _KV, more=_windows),
    "cohere": NetworkKind(_USUAL, _KV, {"norms": 1, "norm": "layernorm"}, _cohere),
    "cohere2": NetworkKind(_USUAL, _KV, {"norms": 1, "norm": "layernorm"}, _cohere),
    "granite": NetworkKind(_USUAL, _KV, more=_llama),
    "granitemoe": NetworkKind(_MIXTRAL, _KV, more=_granite_moe),
    "mamba": NetworkKind(
        {"layers": "num_hidden_layers", "hidden": "hidden_size", "state": "state_size", "vocabulary": "vocab_size"},
        {"filter": "conv_kernel"}, more=_mamba, base="mamba-130m",
    ),
    "jamba": NetworkKind(
        {**_USUAL, "experts": "num_experts", "topk": "num_experts_per_tok"},
        {"kv_heads": "num_key_value_heads", "state": "mamba_d_state", "filter": "mamba_d_conv", "longest": "max_position_embeddings"},
        more=_jamba, base="jamba-v0.1",
    ),
    "unet2dconditionmodel": NetworkKind(
        {"latent": "sample_size", "said": "cross_attention_dim"}, {"added": "projection_class_embeddings_input_dim"},
        more=_unet, base="stable-diffusion-xl",
    ),
    "gpt2": NetworkKind(
        {"layers": "n_layer", "hidden": "n_embd", "heads": "n_head", "vocabulary": "vocab_size"},
        always={**_PLAIN, "tied": True, "rotary": False, "in_out": True}, more=_gpt2,
    ),
    "gpt_neox": NetworkKind(_USUAL, always=_PLAIN),
    "opt": NetworkKind(
        {**_DENSE, "inter": "ffn_dim"}, always={**_PLAIN, "tied": True, "rotary": False, "activation": "relu"}, more=_opt,
    ),
    "falcon": NetworkKind(_DENSE, always={"gated": False, "tied": True}, more=_falcon),
    "bert": NetworkKind(_USUAL, always=_ENCODER, more=_bert),
    "roberta": NetworkKind(_USUAL, always=_ENCODER, more=_roberta),
    "xlm_roberta": NetworkKind(_USUAL, always=_ENCODER, more=_roberta),
    "deepseek_v2": NetworkKind(_DEEPSEEK, _DEEPSEEK_MAY, more=_deepseek),
    "deepseek_v3": NetworkKind(_DEEPSEEK, _DEEPSEEK_MAY, more=_deepseek),
    "gpt_oss": NetworkKind(_MIXTRAL, _KV, {"bias": "all"}, _gpt_oss),
    "t5": _T5,
    "mt5": _T5,
    "whisper": NetworkKind(
        {
            "mels": "num_mel_bins", "layers": "encoder_layers", "decoder_layers": "decoder_layers", "hidden": "d_model",
            "heads": "encoder_attention_heads", "inter": "encoder_ffn_dim", "decoder_heads": "decoder_attention_heads",
            "decoder_inter": "decoder_ffn_dim", "vocabulary": "vocab_size",
        },
        more=_whisper, base="whisper-large-v3",
    ),
    "vit": NetworkKind(
        {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "inter": "intermediate_size"},
        more=_vit, base="vit-b-16",
    ),
}  # fmt: skip


def _sizes(vocabulary: int, hidden: int, inter: int, layers: int, heads: int, kv_heads: int = 0, **more: int) -> dict[str, int]:
    """Defaults of transformers' configuration classes."""
    usual = {"vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": inter, "num_hidden_layers": layers}
    return {**usual, "num_attention_heads": heads, **({"num_key_value_heads": kv_heads} if kv_heads else {}), **more}


DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "llama": _sizes(32000, 4096, 11008, 32, 32),
    "mistral": _sizes(32000, 4096, 14336, 32, 32, 8, sliding_window=4096),
    "mixtral": _sizes(32000, 4096, 14336, 32, 32, 8, num_experts_per_tok=2, num_local_experts=8),
    "qwen2": _sizes(151936, 4096, 22016, 32, 32, 32, sliding_window=4096),
    "qwen2_vl_text": _sizes(152064, 8192, 29568, 80, 64, 8, sliding_window=4096),
    "qwen3": _sizes(151936, 4096, 22016, 32, 32, 32, sliding_window=4096),
    "gemma": _sizes(256000, 3072, 24576, 28, 16, 16),
    "gemma2": _sizes(256000, 2304, 9216, 26, 8, 4, sliding_window=4096),
    "gemma3_text": _sizes(262208, 2304, 9216, 26, 8, 4, sliding_window=4096),
    "phi3": _sizes(32064, 3072, 8192, 32, 32),
}  # fmt: skip
"""By model_type what transformers 5.23 takes where a text_config has no such key; its files leave out what is as usual."""
