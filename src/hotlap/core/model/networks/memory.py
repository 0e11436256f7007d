"""The memory that a network needs on one GPU."""

from __future__ import annotations

from hotlap.core.work.base import STORED
from hotlap.core.work.networks.calls import ACTIVATION_BYTES, Setting, of_stage
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.replicas import held, parameters
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.steps import Choice, Source
from hotlap.core.work.networks.walk import walk

RUNTIME_BYTES = 1.5e9  # driver context, libraries, communication buffers: assumed
TRAINED_BYTES = 18.0  # a parameter in mixed precision with Adam: 2 weight, 4 gradient, 12 state; Korthikanti and others, arXiv 2205.05198
SHARDED_BYTES = 12.0  # of them the optimizer's state, which replicas share (ZeRO stage 1, Rajbhandari and others, arXiv 1910.02054)
KEPT_BYTES, RECOMPUTED_BYTES = 34.0, 2.0  # activations of a layer for each token and element of the hidden width; arXiv 2205.05198, table 2
WORKSPACE_TOKENS = 8192  # tokens that a server passes through together at most, in chunks: assumed


def needed(network: Network, setting: Setting) -> dict[str, float]:
    """Bytes on one GPU by what they are for. Of the longest stage; matrices spread evenly over tensor-parallel GPUs."""
    if setting.phase == "train":
        trained = (one.parameters * (TRAINED_BYTES - SHARDED_BYTES * (1 - 1 / one.replicas)) for one in held(network, setting))
        return {
            "weights, gradients, optimizer": sum(trained),
            "activations": _kept(network, setting),
            "runtime": RUNTIME_BYTES,
        }
    experts, rest = parameters(network, setting)
    return {
        "weights": experts * STORED[setting.dtype] + rest * STORED[setting.product_dtype],
        "cache of keys and values": _cached(network, setting),
        "activations": _live(network, setting),
        "runtime": RUNTIME_BYTES,
    }


def of_layers(network: Layered, choice: Choice) -> dict[str, float]:
    """Of a network that is written layer by layer: what its parameters need, and the runtime; its activations are not known."""
    parameters = walk(network, "layers", 1, dtype=choice.dtype).parameters
    if choice.phase == "train":
        each = TRAINED_BYTES - SHARDED_BYTES * (1 - 1 / choice.dp)
        return {"weights, gradients, optimizer": parameters * each, "runtime": RUNTIME_BYTES}
    return {"weights": parameters * STORED[choice.dtype], "runtime": RUNTIME_BYTES}


def known(network: Source, how: Setting | Choice) -> dict[str, float]:
    """What is known of the memory of a step, as `steps.asked` gives it."""
    if isinstance(how, Choice):
        assert isinstance(network, Layered)
        return of_layers(network, how)
    assert isinstance(network, Network)
    return needed(network, how)


def _cached(network: Network, setting: Setting) -> float:
    """Layers with a window keep no more than that; a latent is kept by every tensor-parallel GPU."""
    if not network.causal:
        return 0.0
    short = min(network.window, setting.context) if network.window else setting.context
    windowed = network.windowed_layers / network.layers
    tokens = setting.context * (1 - windowed) + short * windowed
    ways = 1 if network.latent else min(setting.tp, network.kv_heads)
    return setting.batch * tokens * network.cached_per_token * STORED[setting.kv_dtype] / ways * of_stage(network, setting)


def _live(network: Network, setting: Setting) -> float:
    """Of one layer at a time: two copies of the tokens' hidden state and the inner width, and the head's scores in fp32."""
    inner = network.inter * (2 if network.gated else 1) if not network.experts else network.topk * network.expert_inter * 2
    tokens = min(setting.tokens, WORKSPACE_TOKENS)
    return tokens * (2 * network.hidden + inner / setting.tp) * ACTIVATION_BYTES + 4.0 * setting.sequences * network.vocabulary / setting.tp


def _kept(network: Network, setting: Setting) -> float:
    """Of all micro-batches that the first stage of a 1F1B pipeline has under way, with sequence parallelism and an attention kernel
    that keeps no scores."""
    under_way = min(setting.pp, setting.micro_batches)
    per_token = network.hidden * (RECOMPUTED_BYTES if setting.recompute else KEPT_BYTES / setting.tp)
    return under_way * setting.micro_batch * setting.context * per_token * network.layers * of_stage(network, setting)
