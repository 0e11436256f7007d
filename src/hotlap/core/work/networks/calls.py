"""What one step of a network runs on one GPU: a list of kernels and exchanges with how often each is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hotlap.core.errors import InputError
from hotlap.core.work import traits
from hotlap.core.work.networks.shape import Network

Phase = Literal["prefill", "decode", "train"]
PHASES: tuple[Phase, ...] = ("prefill", "decode", "train")
ACTIVATION_BYTES = 2  # between kernels: bf16
GPUS_A_NODE = 8
PRODUCT_DTYPES = ("bf16", "fp8", "fp8_block")
EXPERTS_ONLY = "mxfp4"  # a type of experts' weights: everything else is in bf16 beside it
DTYPES = (*PRODUCT_DTYPES, EXPERTS_ONLY)
UNCACHED: Mapping[str, int] = {"cache_write": 0}  # attention without a cache of keys and values: of encoders, pictures, and in training


@dataclass(frozen=True)
class Setting:
    """How a network is run. `batch`: sequences of one replica in a step; `context`: tokens of a prompt, or in the cache."""

    phase: Phase
    batch: int = 1
    context: int = 2048
    tp: int = 1  # tensor parallel
    pp: int = 1  # pipeline stages
    dp: int = 1  # replicas that train together
    ep: int = 1  # GPUs that experts are spread over
    dtype: str = "bf16"
    kv_dtype: str = "bf16"
    micro_batch: int = 1  # sequences that pass a pipeline together
    recompute: bool = False  # forward again in the backward pass, to keep fewer activations

    @property
    def product_dtype(self) -> str:
        """Of every product but those of experts."""
        return "bf16" if self.dtype == EXPERTS_ONLY else self.dtype

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def sequences(self) -> int:
        """That pass a stage together."""
        return self.micro_batch if self.phase == "train" else max(self.batch // self.micro_batches, 1)

    @property
    def micro_batches(self) -> int:
        """That a step is cut into: as many as stages while serving, where there are sequences for it."""
        return self.batch // self.micro_batch if self.phase == "train" else min(self.pp, self.batch)

    @property
    def tokens(self) -> int:
        """That pass a stage together."""
        return self.sequences * (1 if self.phase == "decode" else self.context)


@dataclass(frozen=True)
class Call:
    """One kernel of a step."""

    name: str
    group: str  # attention, feed-forward, experts, norms, head, communication
    workload: str
    params: dict[str, Any]
    times: float = 1.0
    leaf: bool = False  # nothing before it learns: its input needs no gradient


def check(network: Network, setting: Setting) -> None:
    """Raises InputError for what cannot be: widths and layers that cannot be cut, an encoder that decodes."""
    if setting.phase == "decode" and not network.causal:
        raise InputError("is an encoder: it has no decode phase", "valid: prefill, train", f"{network.name} ")
    most, fewest = max(network.kv_heads, setting.tp), min(network.kv_heads, setting.tp)
    for what, value, ways in (
        ("heads", network.heads, setting.tp), ("inner width", network.inter, setting.tp), ("experts", network.experts, setting.ep),
        ("key-value heads and tensor-parallel GPUs", most, fewest),
    ):  # fmt: skip
        if value % ways:
            raise InputError(f"{value} {what} cannot be cut into {ways}", "take a divisor", f"{network.name}: ")
    if setting.pp > network.layers:
        raise InputError(f"{network.layers} layers cannot be cut into {setting.pp} stages", "take fewer", f"{network.name}: ")
    if setting.ep > 1 and not network.experts:
        raise InputError("has no experts: leave --ep out", about=f"{network.name} ")
    if setting.tp * setting.dp % setting.ep:
        there = setting.tp * setting.dp
        raise InputError(f"experts over {setting.ep} GPUs, but tp × dp is {there}: --ep is a divisor of it, for experts lie on those GPUs")
    if max(setting.tp, setting.ep) % min(setting.tp, setting.ep):
        raise InputError(f"experts over {setting.ep} GPUs and tp {setting.tp}: one is a multiple of the other, for they share those GPUs")
    if setting.dtype == EXPERTS_ONLY and (setting.phase == "train" or not network.experts):
        why = "no weights are trained in it" if network.experts else f"{network.name} has none"
        *others, last = PRODUCT_DTYPES
        raise InputError(f"{EXPERTS_ONLY} is how experts' weights are stored, and {why}", f"take {', '.join(others)} or {last}")
    if setting.phase == "train" and setting.batch % setting.micro_batch:
        raise InputError(f"a batch of {setting.batch} cannot be cut into micro-batches of {setting.micro_batch}", "take a divisor")


def of_stage(network: Network, setting: Setting) -> float:
    """What the longest stage has of the layers, each kind of them alike."""
    return -(-network.layers // setting.pp) / network.layers


def stage(network: Network, setting: Setting) -> list[Call]:
    """Forward through the longest pipeline stage, which sets the pace; embedding and head with the share of the stage that has them."""
    share = of_stage(network, setting)
    layers, experts = network.layers * share, network.expert_layers * share
    found = [*_attention(network, setting), *_scaled(_norms(network, setting), layers)]
    found += _scaled(_dense(network, setting), layers - experts)
    if experts:
        found += _scaled(_experts(network, setting), experts)
    return [*found, *_scaled(_ends(network, setting), 1 / setting.pp), *_hand_over(network, setting)]


def _scaled(calls: Iterator[Call], times: float) -> list[Call]:
    return [replace(call, times=call.times * times) for call in calls if times]


def gemm(m: int, n: int, k: int, dtype: str, batch: int = 1) -> dict[str, Any]:
    return {"m": max(m, 1), "n": max(n, 1), "k": max(k, 1), "dtype": dtype, "batch": max(batch, 1)}


def _attention(network: Network, setting: Setting) -> Iterator[Call]:
    """Of a stage. A network with windows has them in some of its layers."""
    share = of_stage(network, setting)
    windows = {network.window: network.windowed_layers, 0: network.layers - network.windowed_layers}
    for call in _attention_layer(network, setting):
        if traits(call.workload).model == "attention":
            for window, layers in windows.items():
                if layers:
                    yield replace(call, params={**call.params, "window": window}, times=layers * share)
        else:
            yield replace(call, times=network.layers * share)


def _attention_layer(network: Network, setting: Setting) -> Iterator[Call]:
    if network.latent:
        yield from _latent(network, setting)
    else:
        tokens, tp, dtype = setting.tokens, setting.tp, setting.product_dtype
        heads, kv_heads = network.heads // tp, max(network.kv_heads // tp, 1)
        width = network.head_dim
        yield Call("query, key, value", "attention", "gemm", gemm(tokens, (heads + 2 * kv_heads) * width, network.hidden, dtype))
        if network.qk_norm:
            normed = {"op": network.norm or "rmsnorm", "rows": tokens * (heads + kv_heads), "columns": width}
            yield Call("query and key norm", "attention", "rowwise", normed)
        if network.rotary:
            yield Call("rotary embedding", "attention", "pointwise", {"op": "rope", "elements": tokens * (heads + kv_heads) * width})
        yield Call("attention", "attention", "attention", _kernel(network, setting, heads, kv_heads, width))
        yield Call("output", "attention", "gemm", gemm(tokens, network.hidden, heads * width, dtype))
    yield from _reduced(network, setting, "attention")


def _kernel(network: Network, setting: Setting, heads: int, kv_heads: int, width: int) -> dict[str, Any]:
    decode = setting.phase == "decode"
    kept = network.causal and setting.phase != "train"  # keys and values, in a cache that a kernel of its own writes
    return {
        **({} if kept else UNCACHED), "batch": setting.sequences, "query": 1 if decode else setting.context, "kv": setting.context,
        "heads": heads, "kv_heads": kv_heads, "head_dim": width, "mask": "causal" if network.causal else "full",
        "kv_dtype": setting.kv_dtype,
    }  # fmt: skip


def _latent(network: Network, setting: Setting) -> Iterator[Call]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): decode works on the latent itself, its up-projections absorbed
    into queries and output; prefill widens the latent to keys and values of every head."""
    tokens, dtype, heads = setting.tokens, setting.product_dtype, network.heads // setting.tp
    nope, latent = network.head_dim - network.rope_dim, network.kv_rank
    yield Call("latents down", "attention", "gemm", gemm(tokens, network.q_rank + latent + network.rope_dim, network.hidden, dtype))
    queries = "queries up" if network.q_rank else "queries"
    yield Call(queries, "attention", "gemm", gemm(tokens, heads * network.head_dim, network.q_rank or network.hidden, dtype))
    yield Call("rotary embedding", "attention", "pointwise", {"op": "rope", "elements": tokens * (heads + 1) * network.rope_dim})
    if setting.phase == "decode":
        row = latent + network.rope_dim
        one = _kernel(network, setting, heads, 1, row) | {"value_dim": latent, "latent": row}
        yield Call("keys absorbed", "attention", "gemm", gemm(tokens, latent, nope, "bf16", batch=heads))
        yield Call("attention", "attention", "attention", one)
        yield Call("values absorbed", "attention", "gemm", gemm(tokens, network.value_dim, latent, "bf16", batch=heads))
    else:
        yield Call("keys and values up", "attention", "gemm", gemm(tokens, heads * (nope + network.value_dim), latent, dtype))
        many = _kernel(network, setting, heads, heads, network.head_dim) | {"value_dim": network.value_dim}
        yield Call("attention", "attention", "attention", many)
    yield Call("output", "attention", "gemm", gemm(tokens, network.hidden, heads * network.value_dim, dtype))


def _reduced(network: Network, setting: Setting, after: str) -> Iterator[Call]:
    """Partial sums of the tensor-parallel GPUs, added up."""
    if setting.tp > 1:
        yield _exchange(f"all-reduce after {after}", "all_reduce", setting.tp, setting.tokens * network.hidden)


def _exchange(name: str, op: str, gpus: int, elements: int, times: float = 1.0) -> Call:
    return Call(
        name, "communication", "collective", {"op": op, "gpus": gpus, "size": elements * ACTIVATION_BYTES, "nodes": nodes(gpus)}, times
    )


def nodes(gpus: int, apart: int = 1) -> int:
    """The fewest that hold these GPUs evenly, where only every `apart`-th GPU of a node is one of them."""
    each = max(GPUS_A_NODE // apart, 1)
    return next(count for count in range(-(-gpus // each), gpus + 1) if gpus % count == 0)


def _norms(network: Network, setting: Setting) -> Iterator[Call]:
    op = network.norm_op
    yield Call("norm", "norms", "rowwise", {"op": op, "rows": setting.tokens, "columns": network.hidden}, network.norms)
    yield Call("residual", "norms", "pointwise", {"op": "add", "elements": setting.tokens * network.hidden}, 2)


def _dense(network: Network, setting: Setting, inter: int = 0) -> Iterator[Call]:
    width = max((inter or network.inter) // setting.tp, 1)
    tokens, dtype = setting.tokens, setting.product_dtype
    yield Call(
        "gate and up" if network.gated else "up",
        "feed-forward",
        "gemm",
        gemm(tokens, width * (2 if network.gated else 1), network.hidden, dtype),
    )
    op = network.activation or ("silu_mul" if network.gated else "gelu")
    yield Call("activation", "feed-forward", "pointwise", {"op": op, "elements": tokens * width})
    yield Call("down", "feed-forward", "gemm", gemm(tokens, network.hidden, width, dtype))
    yield from _reduced(network, setting, "feed-forward")


def _experts(network: Network, setting: Setting) -> Iterator[Call]:
    tokens = setting.tokens
    met = tokens * max(setting.ep // setting.tp, 1)  # by experts that replicas share
    yield Call("router", "experts", "gemm", gemm(tokens, network.experts, network.hidden, "bf16"))
    yield from _exchanged(network, setting, met)
    tp = max(setting.tp // setting.ep, 1)
    params = {"tokens": met, "hidden": network.hidden, "inter": network.expert_inter, "topk": network.topk, "experts": network.experts}
    yield Call("experts", "experts", "moe", {**params, "tp": tp, "ep": setting.ep, "dtype": setting.dtype, "gated": network.gated})
    if network.shared_experts:
        yield from (
            replace(call, group="experts", name=f"shared: {call.name}")
            for call in _dense(network, setting, network.shared_experts * network.expert_inter)
        )
    else:
        yield from _reduced(network, setting, "experts")


def _exchanged(network: Network, setting: Setting, met: int) -> Iterator[Call]:
    """Tokens to their experts and back: those that the experts meet, each GPU its share of them."""
    if setting.ep > 1:
        elements = -(-met // setting.ep) * min(network.topk, setting.ep) * network.hidden
        yield _exchange("tokens to experts and back", "alltoall", setting.ep, elements, times=2)


def _ends(network: Network, setting: Setting) -> Iterator[Call]:
    """Embedding, last norm and head; of a prompt, only its last token needs the head."""
    rows = setting.tokens if setting.phase == "train" else setting.sequences
    columns = -(-network.vocabulary // setting.tp)
    yield Call("embedding", "head", "embedding", {"tokens": setting.tokens, "columns": network.hidden, "vocabulary": network.vocabulary})
    if network.positions:
        yield Call("positions", "head", "embedding", {"tokens": setting.tokens, "columns": network.hidden, "vocabulary": network.positions})
        yield Call("positions added", "head", "pointwise", {"op": "add", "elements": setting.tokens * network.hidden})
    op = network.norm_op
    normed = {"op": op, "rows": setting.tokens, "columns": network.hidden}
    yield Call("last norm" if network.causal else "first norm", "norms", "rowwise", normed)
    yield Call("head", "head", "gemm", gemm(rows, columns, network.hidden, "bf16"))
    yield Call("softmax", "head", "rowwise", {"op": "softmax", "rows": rows, "columns": columns})


def _hand_over(network: Network, setting: Setting) -> Iterator[Call]:
    """Activations to the next pipeline stage."""
    if setting.pp > 1:
        size = setting.tokens * network.hidden * ACTIVATION_BYTES
        params = {"op": "send", "gpus": 2, "size": size, "nodes": 2 if setting.gpus > GPUS_A_NODE else 1}
        yield Call("to the next stage", "communication", "collective", params)
