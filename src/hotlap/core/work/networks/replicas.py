"""The parameters of one GPU: which replicas hold the same, whose gradients they add up and whose optimizer they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hotlap.core.work.networks.calls import Call, Setting, nodes, of_stage
from hotlap.core.work.networks.shape import Network

ONCE_A_STEP = frozenset({"communication", "optimizer"})  # groups of calls that a step of training makes once, after its passes
GRADIENT_BYTES = 2  # a parameter, exchanged between replicas in bf16


class Shard(NamedTuple):
    """Parameters of one GPU that `replicas` GPUs hold alike, itself one of them, on `nodes`."""

    parameters: float
    replicas: int
    nodes: int
    of: str = ""  # "experts' ": of them alone, where other replicas hold them than hold the rest


def held(network: Network, setting: Setting) -> list[Shard]:
    """Of the longest stage; matrices spread evenly over tensor-parallel GPUs; experts over the GPUs that share a set of them, which may be
    several replicas together."""
    spread = max(setting.tp, setting.ep)
    experts, rest = parameters(network, setting)
    if spread == setting.tp:
        return [_held(rest + experts, setting.dp, setting)]
    return [_held(rest, setting.dp, setting), _held(experts, setting.tp * setting.dp // spread, setting, "experts' ")]


def _held(parameters: float, replicas: int, setting: Setting, of: str = "") -> Shard:
    return Shard(parameters, replicas, nodes(replicas, setting.gpus // replicas), of)


def parameters(network: Network, setting: Setting) -> tuple[float, float]:
    """Of one GPU's share of the experts, and of the rest."""
    share, experts = of_stage(network, setting), network.expert_layers * network.routed_parameters
    return experts * share / max(setting.tp, setting.ep), (network.counted - experts) * share / setting.tp


def exchanges(shards: Sequence[Shard]) -> Iterator[Call]:
    """The replicas' gradients added up."""
    for one in shards:
        if one.replicas > 1:
            params = {"op": "all_reduce", "gpus": one.replicas, "size": int(one.parameters * GRADIENT_BYTES), "nodes": one.nodes}
            yield Call(f"{one.of}gradients between replicas", "communication", "collective", params)


def update(optimizer: str, elements: float) -> Call:
    return Call("optimizer", "optimizer", "optimizer", {"op": optimizer, "elements": max(int(elements), 1)})
