"""The peak of a training step of a transformer by hand: what its layers keep for the backward pass, and when most is there. No PyTorch.

Per token and layer, in elements (h hidden, d heads × head_dim, k kv_heads × head_dim, f inner width): x, both norms' outputs and the sum
between (4h), queries, keys, values as attention takes them and its result, and 4f (gated) or 2f of the inner width. This is what PyTorch's
autograd saves (the inventory of Korthikanti et al., arXiv 2205.05198, equation 1, without dropout, with attention that keeps no scores).
The backward pass frees it layer by layer while gradients come; the peak is the highest of the moments below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hotlap.core.errors import InputError
from hotlap.core.work.networks.shape import Network
from hotlap.training.memory_record import MemoryAccount, TrainingVariant

FP32, BF16, INT64 = 4, 2, 8


class Moment(NamedTuple):
    """A point of the step, and what is there beside parameters and the optimizer's state."""

    phase: str
    activations: int
    gradients: int
    temporaries: int


def supported(network: Network) -> None:
    """Raises InputError for parts that the generated network has not."""
    for part, there in (
        ("experts", network.experts), ("latent attention", network.kv_rank), ("windows", network.windowed_layers),
        ("values of another width", network.value_dim not in (0, network.head_dim)),
    ):  # fmt: skip
        if there:
            raise InputError(
                f"{network.name} has {part}, which no formula here counts; write it as a function: hotlap training memory file.py:function"
            )


def parameters(network: Network) -> tuple[int, int, int]:
    """Of a layer, of the rest, and of the largest tensor."""
    net, biased, both = network, network.bias == "all", network.bias in ("all", "qkv")
    d, k, h, f = net.heads * net.head_dim, net.kv_heads * net.head_dim, net.hidden, net.inter
    layer = h * (d + 2 * k) + d * h + (d + 2 * k) * both + h * biased + 4 * h + 4 * net.head_dim * net.qk_norm
    layer += (2 + net.gated) * h * f + ((1 + net.gated) * f + h) * biased
    table = net.vocabulary * h
    rest = table * (1 if net.tied else 2) + 2 * h
    return layer, rest, max(table, h * f, h * d)


def account(network: Network, variant: TrainingVariant) -> MemoryAccount:
    """The peak of the second step. Raises InputError for networks that are not counted."""
    supported(network)
    layer, rest, largest = parameters(network)
    places = 0 if network.rotary else (network.positions or variant.context) * network.hidden
    count = network.layers * layer + rest + places
    held = FP32 * count
    state = 2 * FP32 * count if variant.optimizer == "adamw" else 0
    rotation = 2 * variant.context * network.head_dim * FP32 if network.rotary else 0
    given = 2 * variant.batch * variant.context * INT64 + rotation
    peak = max(_moments(network, variant, count, largest), key=lambda one: one.activations + one.gradients + one.temporaries)
    parts = {
        "parameters": held, "moments": state, "inputs": given, "activations": peak.activations, "gradients": peak.gradients,
        "temporaries": peak.temporaries,
    }  # fmt: skip
    return MemoryAccount(how="formula", peak_bytes=sum(parts.values()), parts=parts, phase=peak.phase, steps=2)


class Sizes(NamedTuple):
    """Bytes of all tokens: of a width in fp32, and in the type of products."""

    network: Network
    tokens: int
    product: int  # bytes of an element that a product takes

    def wide(self, width: int) -> int:
        return self.tokens * width * FP32

    def narrow(self, width: int) -> int:
        return self.tokens * width * self.product


def kept(network: Network, sizes: Sizes) -> int:
    """What one layer keeps until its backward pass."""
    net, mixed = network, sizes.product == BF16
    d, k, h, f = net.heads * net.head_dim, net.kv_heads * net.head_dim, net.hidden, net.inter
    statistics = 4 * sizes.tokens * FP32
    stream = 2 * sizes.wide(h)  # x, and the sum after attention
    normed = sizes.narrow((3 + 1 + net.gated) * h) if mixed else sizes.wide(2 * h)  # autocast copies it for each product
    repeated = d if net.heads != net.kv_heads else k
    attention = sizes.narrow(d + 2 * repeated) + sizes.narrow(d) + net.heads * sizes.tokens * FP32
    if net.qk_norm:
        attention += sizes.narrow(d + k) + 2 * (net.heads + net.kv_heads) * sizes.tokens * FP32
    inner = sizes.narrow((4 if net.gated else 2) * f)
    return statistics + stream + normed + attention + inner


def _moments(network: Network, variant: TrainingVariant, count: int, largest: int) -> Iterator[Moment]:
    net, tokens = network, variant.batch * variant.context
    sizes = Sizes(net, tokens, BF16 if variant.autocast else FP32)
    layer, *_ = parameters(net)
    whole = kept(net, sizes)
    each = sizes.wide(net.hidden) if variant.checkpointing else whole
    copies = BF16 * (net.layers * layer + net.vocabulary * net.hidden) if variant.autocast else 0  # of weights, until autocast ends
    end = sizes.wide(net.hidden) + 2 * tokens * FP32 + sizes.narrow(net.hidden)  # last norm
    scores = sizes.wide(net.vocabulary)
    table = net.vocabulary * net.hidden * FP32
    if variant.checkpointing:
        copies = BF16 * (layer + net.vocabulary * net.hidden) if variant.autocast else 0
    full = net.layers * each + end
    in_forward = scores + (sizes.narrow(net.vocabulary) + scores if variant.autocast else scores)
    yield Moment("forward", full + copies, 0, in_forward)
    yield Moment("backward", full + copies + scores, 0, 2 * scores)
    yield Moment("backward", full + copies, table, sizes.narrow(net.vocabulary) + (table // 2 if variant.autocast else 0))
    temporaries = _layer_temporaries(net, sizes)
    for left in range(net.layers, 0, -1):
        here = whole - each if variant.checkpointing else 0
        come = (net.layers - left) * layer * FP32 + table + net.hidden * 2 * FP32
        gone = copies * left // net.layers if not variant.checkpointing else copies
        yield Moment("backward", left * each + gone, come, here + temporaries)
    yield Moment("backward", 0, FP32 * count - (0 if net.tied else table), table + sizes.wide(net.hidden))
    roots = FP32 * count if variant.foreach else 2 * FP32 * largest  # of the second moments: all at once, or a tensor's and its quotient
    yield Moment("update", 0, FP32 * count, roots if variant.optimizer == "adamw" else 0)


def _layer_temporaries(network: Network, sizes: Sizes) -> int:
    """Gradients under way at the widest point of a layer's backward pass, less what of it has been freed by then."""
    net = network
    stream = 2 * sizes.wide(net.hidden)
    weights = net.hidden * net.inter * FP32
    return stream + sizes.narrow((2 if net.gated else 1) * net.inter) + weights
