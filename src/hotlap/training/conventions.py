"""Operations that training takes per token, by the conventions of others and by Hotlap's own count. One network, several numbers.

A multiply-add is 2; forward and backward together are three times the forward pass. N: parameters, of experts those that a token meets;
L layers, H heads of width Q, T tokens of context, h hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from hotlap.core import work
from hotlap.core.errors import InputError, nearest
from hotlap.core.work import traits
from hotlap.core.work.networks import steps
from hotlap.core.work.networks.shape import Network
from hotlap.training.record import TrainingAsked, TrainingProcess

FORWARD_AND_BACKWARD = 3
WIDTHS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "inter", "vocabulary", "experts", "topk", "expert_inter", "positions")


class Formula(NamedTuple):
    """A convention: what it computes, in its source's words, and where it stands."""

    text: str
    source: str
    per_token: Callable[[Network, int], float]


# ---------------------------------------------------------------- parameters


def parameters(network: Network) -> int:
    """All that are trained: matrices, norms, biases."""
    return network.counted + _norms(network) + _biases(network)


def embeddings(network: Network) -> int:
    """Tables that are looked up: of tokens and of positions."""
    return (network.vocabulary + network.positions) * network.hidden


def active(network: Network) -> int:
    """Those that a token meets: of the experts its own. Rounded down over all experts together, as torchtitan does."""
    routed = network.expert_layers * network.routed_parameters
    return parameters(network) - routed + (routed * network.topk // network.experts if network.experts else 0)


def _norms(network: Network) -> int:
    each = network.hidden * (1 if network.gated else 2)
    heads = 2 * network.head_dim * network.layers if network.qk_norm else 0
    return each * (network.norms * network.layers + 1) + heads


def _biases(network: Network) -> int:
    attention = (network.heads + 2 * network.kv_heads) * network.head_dim
    each = {"qkv": attention, "all": attention + network.hidden}.get(network.bias, 0) * network.layers
    if network.bias == "all":
        width = network.inter * (2 if network.gated else 1) + network.hidden
        experts = (network.expert_inter * (2 if network.gated else 1) + network.hidden) * network.experts + network.experts
        each += (network.layers - network.expert_layers) * width + network.expert_layers * experts
    return each


# ---------------------------------------------------------------- conventions


def _attention(network: Network, context: int) -> int:
    """L·H·(width of queries and keys + width of values)·T."""
    return network.layers * network.heads * (network.head_dim + (network.value_dim or network.head_dim)) * context


def _hugging_face(network: Network, context: int) -> float:
    return 6.0 * (active(network) - embeddings(network))


def _palm(network: Network, context: int) -> float:
    return 6.0 * active(network) + 12.0 * network.layers * network.heads * network.head_dim * context


def _nanogpt(network: Network, context: int) -> float:
    at = 12.0 * network.layers * network.heads * network.head_dim * context
    return 6.0 * (active(network) - network.positions * network.hidden) + at


def _torchtitan(network: Network, context: int) -> float:
    return 6.0 * (active(network) - embeddings(network)) + 6.0 * _attention(network, context)


def _causal(network: Network, context: int) -> float:
    return 6.0 * (active(network) - embeddings(network)) + 3.0 * _attention(network, context)


def _megatron(network: Network, context: int) -> float:
    h, gated = network.hidden, 1.5 if network.gated else 1.0
    attention = (1 + network.kv_heads / network.heads + context / h) * network.heads * network.head_dim / h
    inter = network.topk * network.expert_inter if network.experts else network.inter
    shared = network.shared_experts * network.expert_inter
    return 12.0 * h * h * network.layers * (attention + (inter + shared) / h * gated + network.vocabulary / (2 * network.layers * h))


def counted(network: Network, context: int, masked: bool = True) -> float:
    """The products of a training step as core/work counts them, per token: grouped heads, windows, experts, the head; of attention the
    pairs that the mask leaves, or all; scores that attention computes again are left out."""
    choice = steps.Choice("train", 1, context)
    total = 0.0
    for call in steps.step(network, choice):
        params = dict(call.params)
        attention = traits(call.workload).model == "attention"
        if attention and params.get("op") == "backward":
            continue
        if attention and not masked:
            params |= {"mask": "full", "window": 0}
        kind = work.find(call.workload)
        operations = kind.work(kind.parse(params)).operations
        products = sum(count for unit, count in operations.items() if unit.startswith("matrix."))
        total += call.times * products * (FORWARD_AND_BACKWARD if attention else 1)
    return total / context


FORMULAS: Mapping[str, Formula] = {
    "palm": Formula("6·N + 12·L·H·Q·T", "Chowdhery et al., PaLM, arXiv 2204.02311, appendix B", _palm),
    "nanogpt": Formula("6·(N − position table) + 12·L·H·Q·T", "nanoGPT, model.py, estimate_mfu", _nanogpt),
    "torchtitan": Formula(
        "6·(N − embeddings) + 6·L·H·(Q + values)·T", "torchtitan, models/utils.py, get_dense_model_nparams_and_flops and …moe…", _torchtitan
    ),
    "megatron": Formula(
        "12·h²·L·((1 + groups/H + T/h)·H·Q/h + inner/h·(1.5 if gated) + V/(2·L·h))",
        "Megatron-LM, training.py, num_floating_point_operations; Narayanan et al., arXiv 2104.04473", _megatron,
    ),
    "causal": Formula("6·(N − embeddings) + 3·L·H·(Q + values)·T", "MaxText since 2025 (pull request 1988): half is masked", _causal),
    "transformers": Formula(
        "6·(N − embeddings)", "transformers, modeling_utils.py, floating_point_ops; Kaplan et al., arXiv 2001.08361", _hugging_face
    ),
    "counted": Formula("each product of the step, masked pairs left out", "Hotlap's own count (docs/networks.md)", counted),
    "6N": Formula("6·N, N as the optimiser has it", "Kaplan et al., arXiv 2001.08361; attention left out", lambda *_: 0.0),
}  # fmt: skip


def network_of(name: str, given: Mapping[str, str]) -> tuple[Network, int, int]:
    """A network with widths changed, its batch and its context. Raises InputError for what cannot be."""
    source = steps.find(name)
    if not isinstance(source, Network) or source.latent:
        able = ", ".join(buildable()[:8])
        raise InputError(f"{name} cannot be built as a module: transformers without latent attention can ({able} …); measure a script")
    changed: dict[str, int] = {}
    for key, text in given.items():
        if key not in (*WIDTHS, "batch", "context"):
            raise InputError(f"a network has no parameter '{key}'; {nearest(key, (*WIDTHS, 'batch', 'context'))}")
        changed[key] = steps.count(text, key, several=False)
    batch, context = changed.pop("batch", 1), changed.pop("context", 0)
    network = replace(source, **changed)  # type: ignore[arg-type]
    if "heads" in changed and "kv_heads" not in changed:
        network = replace(network, kv_heads=max(min(network.kv_heads, network.heads), 1))
    if ("hidden" in changed or "heads" in changed) and "head_dim" not in changed:
        network = replace(network, head_dim=max(network.hidden // network.heads, 1))
    most = network.layers
    network = replace(network, windowed_layers=min(network.windowed_layers, most), dense_layers=min(network.dense_layers, most))
    if network.heads % network.kv_heads:
        raise InputError(f"{network.heads} heads cannot share {network.kv_heads} key-value heads; give kv_heads a divisor of heads")
    if network.topk > network.experts:
        raise InputError(f"a token cannot meet {network.topk} of {network.experts} experts; give topk or experts another value")
    return network, batch, context or min(256, network.longest or 256)


def buildable() -> list[str]:
    """Networks that can be made as a module."""
    return [name for name in steps.names() if isinstance(source := steps.find(name), Network) and not source.latent]


def of_run(asked: TrainingAsked, process: TrainingProcess) -> dict[str, float]:
    """Operations per token by every convention that can be said of it: of a network all, of a program 6·N."""
    if asked.kind == "network":
        network, _, context = network_of(asked.program, asked.parameters)
        return {name: formula.per_token(network, context) for name, formula in FORMULAS.items() if name != "6N"}
    every = sum(process.parameters.values())
    return {"6N": 6.0 * every} if every else {}
