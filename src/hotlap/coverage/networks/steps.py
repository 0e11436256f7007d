"""Every kernel that one GPU runs in one step of any network: forward, backward, exchanges, optimizer, as cases with their calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotlap.coverage.networks import calls, layered, shape
from hotlap.coverage.networks.backward import backward
from hotlap.coverage.networks.calls import GRADIENT_BYTES, Call, Setting
from hotlap.coverage.networks.layered import Layered
from hotlap.coverage.networks.shape import Network
from hotlap.coverage.networks.walk import walk
from hotlap.errors import InputError, nearest

PHASES = ("prefill", "decode", "forward", "train")
SAMPLED_OF = 50  # tokens that one is drawn from: top_k of transformers' GenerationConfig
USUAL_CONTEXT = 2048

Source = Network | Layered
_COUNTS = ("batch", "context", "tp", "pp", "dp", "ep", "micro_batch")  # of a Choice


@dataclass(frozen=True)
class Choice:
    """How a step is asked for; `context` 0: as the network is usually run."""

    phase: str
    batch: int = 1
    context: int = 0
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    dtype: str = "bf16"
    micro_batch: int = 0  # training: sequences that pass together; 0: one of a causal network, all of another


def names() -> list[str]:
    return sorted({*shape.names(), *layered.names()})


def find(name: str) -> Source:
    """A network by name or alias. Raises InputError with the nearest names."""
    if (found := layered.load(name)) is not None:
        return found
    if name in shape.names() or any(name in shape.load(slug).aliases for slug in shape.names()):
        return shape.load(name)
    raise InputError(f"there is no network '{name}'; {nearest(name, names())}")


def phases(network: Source) -> tuple[str, ...]:
    """That it can be run in."""
    if isinstance(network, Layered):
        return network.phases
    return ("prefill", "decode", "train") if network.causal else ("forward", "train")


def label(network: Source, choice: Choice) -> str:
    """A step in words: llama-3-8b decode batch=8 context=1024 tp=1; what is 1 or usual is left out, but batch, context and tp."""
    words = [network.name, choice.phase, f"batch={choice.batch}"]
    if isinstance(network, Network) or network.has_context:
        words.append(f"context={context_of(network, choice)}")
    if isinstance(network, Network) or choice.tp > 1:
        words.append(f"tp={choice.tp}")
    words += [f"{name}={value}" for name in ("pp", "dp", "ep") if (value := getattr(choice, name)) > 1]
    words += [f"dtype={choice.dtype}"] if choice.dtype != "bf16" else []
    return " ".join([*words, *([f"micro_batch={choice.micro_batch}"] if choice.micro_batch and choice.phase == "train" else [])])


def choice_of(label: str) -> Choice | None:
    """How a step is run, as `label` says it; None for the name of another step, as of a trace or a module. A context of 0: it has none."""
    _, _, run = label.partition(" ")
    phase, *words = run.split(" ")
    given = dict(word.split("=", 1) for word in words if "=" in word)
    counts = {name: int(value) for name, value in given.items() if name in _COUNTS and value.isdecimal()}
    if phase not in PHASES or "batch" not in counts or len(counts) + ("dtype" in given) < len(words):
        return None
    return Choice(phase, dtype=given.get("dtype", "bf16"), **counts)


def context_of(network: Source, choice: Choice) -> int:
    if isinstance(network, Layered):
        return choice.context or int(network.inputs.get("context", 0))
    return choice.context or min(USUAL_CONTEXT, network.longest or USUAL_CONTEXT)


def step(network: Source, choice: Choice) -> list[Call]:
    """What one GPU runs in one step. Raises InputError for what cannot be, as widths that cannot be cut."""
    if choice.phase not in phases(network):
        raise InputError(f"{network.name} has no phase {choice.phase}; valid: {', '.join(phases(network))}")
    if network.longest and context_of(network, choice) > network.longest:
        raise InputError(f"{network.name} takes a context of at most {network.longest}, not {choice.context}")
    return _layers(network, choice) if isinstance(network, Layered) else _transformer(network, choice)


# ---------------------------------------------------------------- networks by their layers


def _layers(network: Layered, choice: Choice) -> list[Call]:
    if max(choice.tp, choice.pp, choice.ep) > 1:
        raise InputError(f"{network.name} is not cut over GPUs: tp, pp and ep are 1; dp makes replicas")
    if choice.dtype not in ("bf16", "fp16", "fp32"):
        raise InputError(f"{network.name} is described in bf16, fp16 or fp32, not {choice.dtype}")
    train = choice.phase == "train"
    section = "decode" if choice.phase == "decode" else "layers"
    walked = walk(network, section, choice.batch, context_of(network, choice), choice.dtype, train)
    found = [_typed(call, choice.dtype) for call in walked.calls]
    if not train:
        return found
    back = [_typed(call, choice.dtype) for call in backward(found)]
    return [*found, *back, *_after(network.optimizer, walked.parameters - walked.looked_up, choice.dp, calls.nodes(choice.dp), 1)]


def _typed(call: Call, dtype: str) -> Call:
    """In the network's type, where a kernel's own default is another."""
    has = {"attention": ("dtype", "kv_dtype"), "routing": (), "collective": ()}.get(call.workload, ("dtype",))
    return replace(call, params={**call.params, **{name: dtype for name in has if name not in call.params}})


# ---------------------------------------------------------------- transformers


def _transformer(network: Network, choice: Choice) -> list[Call]:
    if choice.dtype not in ("bf16", "fp8", "fp8_block"):
        raise InputError(f"{network.name} is described in bf16, fp8 or fp8_block, not {choice.dtype}")
    setting = _setting(network, choice)
    calls.check(network, setting)
    train = choice.phase == "train"
    found = [one for call in calls.stage(network, setting) for one in _really(network, setting, call, choice.phase)]
    found = [replace(call, times=call.times * setting.micro_batches) for call in found]
    if not train:
        return found
    elements = calls.parameters(network, setting)
    apart = calls.nodes(choice.dp, choice.tp * choice.pp)
    weights = list(_quantised_weights(found, setting.micro_batches))
    return [*found, *weights, *backward(found), *_after("adamw", elements, choice.dp, apart, choice.dp)]


def asked(network: Source, choice: Choice) -> tuple[Network, Setting] | None:
    """What the memory of a step is known by: of causal networks alone."""
    return (network, _setting(network, choice)) if isinstance(network, Network) and network.causal else None


def _setting(network: Network, choice: Choice) -> Setting:
    given: dict[str, Any] = {name: getattr(choice, name) for name in ("batch", "tp", "pp", "dp", "ep", "dtype")}
    micro = choice.micro_batch or (1 if network.causal else choice.batch)
    phase: calls.Phase = "prefill" if choice.phase in ("forward", "prefill") else "decode" if choice.phase == "decode" else "train"
    return Setting(phase, context=context_of(network, choice), micro_batch=micro, **given)


def _really(network: Network, setting: Setting, call: Call, phase: str) -> Iterator[Call]:
    """A call of a stage as the kernels that PyTorch or a server runs for it."""
    p = call.params
    if call.name in ("head", "softmax") and not network.causal:
        yield from _encoder_end(network, setting, call, phase)
    elif call.workload == "gemm" and p["batch"] == 1:
        yield from _linear(network, call)
    elif call.workload == "moe":
        yield Call("choice of experts", "experts", "routing", {name: p[name] for name in ("tokens", "experts", "topk")}, call.times)
        yield from _experts(call) if phase == "train" else [call]
    elif call.workload == "rowwise" and p["op"] == "softmax" and call.group == "head":
        rows = {"rows": p["rows"], "columns": p["columns"]}
        if phase == "train":
            yield replace(call, name="cross-entropy", params={"op": "cross_entropy", **rows})
        else:
            yield replace(call, name="next token", workload="sampling", params={**rows, "topk": min(SAMPLED_OF, p["columns"])})
    else:
        yield call


def _encoder_end(network: Network, setting: Setting, call: Call, phase: str) -> Iterator[Call]:
    """Forward: a square matrix over the first token of each sequence. Training guesses masked tokens: another one over all tokens, GELU and
    a norm before the head, as transformers' BertForMaskedLM has it."""
    wide = network.hidden
    if phase == "forward":
        if network.pooled and call.workload == "gemm":
            rows = setting.sequences
            first = {"m": rows, "n": wide, "k": wide, "dtype": "bf16", "layout": "nt", "epilogue": "bias"}
            yield replace(call, name="pooler", params=first)
            yield replace(call, name="pooler tanh", workload="pointwise", params={"op": "tanh", "elements": rows * wide})
    elif call.workload == "gemm":
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


def _quantised_weights(found: Sequence[Call], rounds: int) -> Iterator[Call]:
    """Once a step: after an optimizer's update, 8-bit copies of the weights."""
    for call in found:
        if call.workload == "gemm" and str(call.params["dtype"]).startswith("fp8"):
            rows = {"op": "quantise", "rows": call.params["n"], "columns": call.params["k"]}
            name, times = f"{call.name}, weights in 8 bits", call.times / rounds
            yield replace(call, name=name, group="optimizer", workload="rowwise", params=rows, times=times)


def _experts(call: Call) -> Iterator[Call]:
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


def _after(optimizer: str, parameters: float, replicas: int, nodes: int, shards: int) -> Iterator[Call]:
    """The replicas' gradients added up, and the update; `shards`: replicas that share the optimizer's state."""
    if replicas > 1:
        params = {"op": "all_reduce", "gpus": replicas, "size": int(parameters * GRADIENT_BYTES), "nodes": nodes}
        yield Call("gradients between replicas", "communication", "collective", params)
    yield Call("optimizer", "optimizer", "optimizer", {"op": optimizer, "elements": max(int(parameters / shards), 1)})
