"""The kernels that one GPU runs in a step of a transformer, as PyTorch or a server runs them: a pass, and what comes once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hotlap.core.work import traits
from hotlap.core.work.networks import calls, replicas
from hotlap.core.work.networks.calls import Call, Setting
from hotlap.core.work.networks.shape import Network

SAMPLED_OF = 50  # tokens that one is drawn from: top_k of transformers' GenerationConfig


def forward(network: Network, setting: Setting) -> list[Call]:
    """Through one pipeline stage, of the sequences that pass it together. Raises InputError for settings that do not fit the network."""
    calls.check(network, setting)
    return [one for call in calls.stage(network, setting) for one in _really(network, setting, call)]


def after(network: Network, setting: Setting, calls_: Sequence[Call]) -> list[Call]:
    """Once a training step: gradients between replicas, the update, whose state they share, and its copies of the weights in the types
    that products take. `found`: the forward pass."""
    held = replicas.held(network, setting)
    update = replicas.update("adamw", sum(one.parameters / one.replicas for one in held))
    narrow = {"op": "add", "elements": update.params["elements"]}  # a cast reads 4 bytes and writes 2, as an addition does
    return [*replicas.exchanges(held), update, Call("weights in 16 bits", "optimizer", "pointwise", narrow), *_quantised_weights(calls_)]


def _really(network: Network, setting: Setting, call: Call) -> Iterator[Call]:
    """A call of a stage as the kernels that PyTorch or a server runs for it."""
    p = call.params
    if call.name in ("head", "softmax") and not network.causal:
        yield from _encoder_end(network, setting, call)
    elif traits(call.workload).model == "product" and p["batch"] == 1:
        yield from _linear(network, call)
    elif traits(call.workload).model == "experts":
        yield from experts(call, setting.phase == "train")
    elif traits(call.workload).traffic == "rows" and p["op"] == "softmax" and call.group == "head":
        rows = {"rows": p["rows"], "columns": p["columns"]}
        if setting.phase == "train":
            yield replace(call, name="cross-entropy", params={"op": "cross_entropy", **rows})
        else:
            yield replace(call, name="next token", workload="sampling", params={**rows, "topk": min(SAMPLED_OF, p["columns"])})
    else:
        yield call


def _encoder_end(network: Network, setting: Setting, call: Call) -> Iterator[Call]:
    """Forward: a square matrix over the first token of each sequence. Training guesses masked tokens: another one over all tokens, GELU and
    a norm before the head, as transformers' BertForMaskedLM has it."""
    wide = network.hidden
    if setting.phase != "train":
        if network.pooled and traits(call.workload).model == "product":
            rows = setting.sequences
            first = {"m": rows, "n": wide, "k": wide, "dtype": "bf16", "layout": "nt", "epilogue": "bias"}
            yield replace(call, name="pooler", params=first)
            yield replace(call, name="pooler tanh", workload="pointwise", params={"op": "tanh", "elements": rows * wide})
    elif traits(call.workload).model == "product":
        square = {"m": setting.tokens, "n": wide, "k": wide, "dtype": "bf16", "layout": "nt", "epilogue": "bias"}
        yield replace(call, name="head transform", params=square)
        yield replace(call, name="head GELU", workload="pointwise", params={"op": "gelu", "elements": setting.tokens * wide})
        yield replace(call, name="head norm", workload="rowwise", params={"op": "layernorm", "rows": setting.tokens, "columns": wide})
        yield from _linear(network, call)
    else:
        params = {"op": "cross_entropy", "rows": call.params["rows"], "columns": call.params["columns"]}
        yield replace(call, name="cross-entropy", params=params)


def _linear(network: Network, call: Call) -> Iterator[Call]:
    """A layer of weights, which mostly lie (out, in): the second operand is read by columns. In 8 bits its input is quantised first."""
    p = {name: value for name, value in call.params.items() if name != "batch"}
    if p["dtype"].startswith("fp8"):
        rows = {"op": "quantise", "rows": p["m"], "columns": p["k"]}
        yield replace(call, name=f"{call.name}, input in 8 bits", workload="rowwise", params=rows)
    biased = (network.bias == "all" and call.name != "head") or (network.bias == "qkv" and call.name == "query, key, value")
    scales = {"scaling": "row"} if p["dtype"] == "fp8" else {}  # as the input was quantised: one for each row
    layout = {} if network.in_out and call.name != "head" and not scales else {"layout": "nt"}
    yield replace(call, params={**p, **layout, **({"epilogue": "bias"} if biased else {}), **scales})


def _quantised_weights(before: Sequence[Call]) -> Iterator[Call]:
    """Once a step: after an optimizer's update, 8-bit copies of the weights."""
    for call in before:
        if traits(call.workload).model == "product" and str(call.params["dtype"]).startswith("fp8"):
            rows = {"op": "quantise", "rows": call.params["n"], "columns": call.params["k"]}
            yield replace(call, name=f"{call.name}, weights in 8 bits", group="optimizer", workload="rowwise", params=rows)


def experts(call: Call, train: bool) -> Iterator[Call]:
    """The choice of experts, then the experts: fused in serving, as kernels of their own while training."""
    chosen = {name: call.params[name] for name in ("tokens", "experts", "topk")}
    yield Call("choice of experts", "experts", "routing", chosen, call.times)
    yield from _trained_experts(call) if train else [call]


def _trained_experts(call: Call) -> Iterator[Call]:
    """Trained experts one kernel after the other: tokens put in the experts' order, grouped products, and back."""
    p = call.params
    here, inter, hidden = max(p["tokens"] * p["topk"] // p["ep"], 1), max(p["inter"] // p["tp"], 1), p["hidden"]
    groups, dtype = max(p["experts"] // p["ep"], 1), {"fp8_block": "fp8"}.get(p["dtype"], p["dtype"])
    moved = {"tokens": max(here // p["topk"], 1), "columns": hidden, "topk": p["topk"]}
    grouped = {"groups": groups, "m": here, "dtype": dtype}
    wide = 2 * inter if p["gated"] else inter
    for name, workload, params in (
        ("tokens to experts' order", "permute", moved),
        ("experts' gate and up" if p["gated"] else "experts' up", "grouped_gemm", {**grouped, "n": wide, "k": hidden}),
        ("experts' activation", "pointwise", {"op": "silu_mul" if p["gated"] else "gelu", "elements": here * inter}),
        ("experts' down", "grouped_gemm", {**grouped, "n": hidden, "k": inter}),
        ("tokens back from experts", "permute", moved),
    ):
        yield Call(name, "experts", workload, params, call.times)
