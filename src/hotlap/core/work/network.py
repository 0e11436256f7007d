"""Operations and bytes of the kernels that networks are made of: attention, experts, norms, convolutions, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.record import Value
from hotlap.core.work.base import STORED, Param, Work, Workload, count, integer, plain, text, unit_of

STORED_DTYPES = ("fp32", "fp16", "bf16", "fp8", "int8")
POINTWISE = {  # op: arrays read, arrays written, FLOP per element of the output
    "add": (2, 1, 1),
    "silu_mul": (2, 1, 5),
    "gelu": (1, 1, 8),
    "relu": (1, 1, 1),
    "rope": (1, 1, 6),
    "copy": (1, 1, 0),
    "scale": (1, 1, 1),
    "mul": (2, 1, 1),
    "sigmoid": (1, 1, 4),
    "tanh": (1, 1, 5),
    "silu": (1, 1, 4),
    "gelu_mul": (2, 1, 9),
    "dropout": (1, 1, 2),
    "dequantise": (1, 1, 1),
    "relu_backward": (2, 1, 1),
    "gelu_backward": (2, 1, 14),
    "silu_mul_backward": (3, 2, 10),
}
"""silu_mul: x·sigmoid(x)·y; rope: rotary embedding, 3 multiply-adds an element; dequantise reads 8 bits; backward: the gradient beside the
inputs. A mask of dropout need not be kept: it can be drawn again."""
ROWWISE = {
    "softmax": (1, 1, 5),
    "layernorm": (1, 1, 8),
    "rmsnorm": (1, 1, 4),
    "sum": (1, 0, 1),
    "quantise": (1, 1, 4),
    "max": (1, 0, 1),
    "batchnorm": (1, 1, 8),
    "groupnorm": (1, 1, 8),
    "cross_entropy": (1, 0, 5),
    "softmax_backward": (2, 1, 4),
    "layernorm_backward": (2, 1, 12),
    "rmsnorm_backward": (2, 1, 8),
    "batchnorm_backward": (2, 1, 12),
    "groupnorm_backward": (2, 1, 12),
    "cross_entropy_backward": (1, 1, 4),
}
"""Of rows × columns; quantise finds each row's largest and writes fp8. batchnorm: a row is a channel; groupnorm: a group of an image."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "send")
DISTRIBUTIONS = ("balanced", "power_law_1.01", "power_law_1.2")
INDEX_BYTES = 4.0


def visible_pairs(query: Any, kv: Any, causal: bool, window: Any) -> Any:
    """Pairs of a query and a key that it sees: the last query sees the last key; a window counts the query itself, 0 is none."""
    most = np.where(np.asarray(window) > 0, np.minimum(window, kv), kv)
    if not causal:
        return plain(query * most)
    first = kv - query + 1  # keys that the first query sees, were there no window
    short = np.clip(most - first, 0, query)  # queries that see fewer than the most
    return plain(short * (2 * first + short - 1) / 2 + (query - short) * most)


def _attention(params: Mapping[str, Value]) -> Work:
    """2·(head_dim + value_dim) operations per pair and head (Q·K and P·V); Q, K, V read and O written once. A latent is read once for
    keys and values."""
    batch, query, heads, kv_heads, width = (count(params, name) for name in ("batch", "query", "heads", "kv_heads", "head_dim"))
    kv, window = plain(np.where(count(params, "kv") > 0, count(params, "kv"), query)), count(params, "window")
    values, row = attention_widths(params)
    pairs = visible_pairs(query, kv, text(params, "mask") == "causal", window)
    own, cached = STORED[text(params, "dtype")], STORED[text(params, "kv_dtype")]
    keys = plain(np.where(window > 0, np.minimum(kv, window + query - 1), kv))
    kept = keys * kv_heads * row * cached
    if params["op"] == "backward":
        # Scores again, then gradients of scores, values, queries and keys: Dao, FlashAttention-2, arXiv 2307.08691, section 3.1.
        rows, sides = query * heads, query * heads * (width + 2 * values) * own
        return Work(
            read_bytes=batch * (sides + kept + 4.0 * rows), written_bytes=batch * (query * heads * width * own + kept),
            operations={unit_of(text(params, "dtype")): 2.0 * batch * heads * (3 * width + 2 * values) * pairs},
            working_set_bytes=batch * (sides + kept),
        )  # fmt: skip
    return Work(
        read_bytes=batch * (query * heads * width * own + kept),
        written_bytes=batch * query * heads * values * max(own, 2.0),  # of 8 bits the result has 16
        operations={unit_of(text(params, "dtype")): 2.0 * batch * heads * (width + values) * pairs},
        working_set_bytes=batch * (query * heads * (width + values) * own + kept),
    )


def attention_widths(params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Elements of a head's value, and those kept for each token and key-value head. Cases recorded before there were a value width and
    a latent have neither."""
    given = {"value_dim": 0, "latent": 0, **params}
    width, value, latent = (count(given, name) for name in ("head_dim", "value_dim", "latent"))
    values = plain(np.where(value > 0, value, width))
    return values, plain(np.where(latent > 0, latent, width + values))


def touched(draws: Any, of: Any) -> Any:
    """How many of `of` are met by so many even draws: of·(1 − (1 − 1/of)^draws)."""
    return plain(of * -np.expm1(draws * np.log1p(-1.0 / np.maximum(of, 1.0 + 1e-12))))


def touched_experts(tokens: Any, experts: Any, topk: Any) -> Any:
    """Experts that some token chose, when each chooses `topk` of them evenly: experts·(1 − (1 − topk/experts)^tokens)."""
    return experts * (1.0 - (1.0 - topk / experts) ** tokens)


def _moe(params: Mapping[str, Value]) -> Work:
    """Gate and up, then down, for each token's experts of this GPU; weights of the experts that are touched read once."""
    tokens, hidden, topk, experts, ep = (count(params, name) for name in ("tokens", "hidden", "topk", "experts", "ep"))
    inter = count(params, "inter") / count(params, "tp")
    size = STORED[text(params, "dtype")]
    matrices = 3.0 if params["gated"] else 2.0
    touched = plain(np.minimum(touched_experts(tokens, experts, topk), tokens * topk)) / ep
    here = tokens * topk / ep  # tokens × experts on this GPU, when evenly spread
    return Work(
        read_bytes=touched * matrices * hidden * inter * size + tokens * hidden * 2.0,
        written_bytes=tokens * hidden * 2.0,
        operations={unit_of(text(params, "dtype")): 2.0 * here * matrices * hidden * inter},
        working_set_bytes=touched * matrices * hidden * inter * size + tokens * hidden * 4.0,
    )


class Side(NamedTuple):
    """One side of a convolution: sizes of the input, of the filter and of the result; zeros on each end, step of the filter."""

    size: Any
    taps: Any
    result: Any
    pad: Any
    step: Any


def conv_sides(params: Mapping[str, Any]) -> dict[str, Side]:
    """Of each side of an image: depth, height, width. Without a depth it is 1. A side of 1 under a filter of 1, as lines have, is not
    padded."""
    every_pad, every_step, gap, filter_ = (count(params, name) for name in ("pad", "stride", "dilation", "filter"))
    depth, tall, deep = count(params, "depth"), count(params, "filter_height"), count(params, "filter_depth")
    filters = {
        "depth": np.where(depth > 0, np.where(deep > 0, deep, filter_), 1.0),
        "height": np.where(tall > 0, tall, filter_),
        "width": filter_,
    }
    found = {}
    for name, taps in filters.items():
        size = np.maximum(count(params, name), 1.0)
        line = (size == 1) & (taps == 1) & ((np.asarray(tall) == 1) | (name == "depth"))
        pad, step = np.where(line, 0.0, every_pad), np.where(line, 1.0, every_step)
        whole = (size + 2 * pad - gap * (taps - 1) - 1) // step + 1
        found[name] = Side(*(plain(one) for one in (size, taps, whole, pad, step)))
    return found


def _conv(params: Mapping[str, Value]) -> Work:
    """2·taps multiply-adds per input channel of a group, output channel and output pixel; both operands and the result once. Gradients take
    as many as the forward pass: each exchanges the result with one operand."""
    images, channels, filters = (count(params, name) for name in ("images", "channels", "filters"))
    depth, high, wide = conv_sides(params).values()
    size, inner = STORED[text(params, "dtype")], channels / count(params, "groups")
    pixels, taps, out = (plain(depth[i] * high[i] * wide[i]) for i in range(3))
    parts = {
        "input_gradient": size * images * channels * pixels, "weight_gradient": size * taps * inner * filters,
        "forward": size * images * filters * out,
    }  # fmt: skip
    written, moved = parts[text(params, "op")], sum(parts.values())
    return Work(
        read_bytes=moved - written,
        written_bytes=written,
        operations={unit_of(text(params, "dtype")): 2.0 * images * filters * out * taps * inner},
        working_set_bytes=moved,
    )


def _rowwise_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if str(params["op"]).startswith(("batchnorm", "groupnorm")) and integer(params, "columns") < 2:
        return "columns", f"{params['op']} takes the spread of a row, and of one value there is none; take 2 columns or more"
    return None


def _conv_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if min(side.result for side in conv_sides(params).values()) < 1:
        return "filter", f"a filter of {params['filter']} does not fit into {params['height']} × {params['width']} with pad {params['pad']}"
    groups = integer(params, "groups")
    for name in ("channels", "filters"):
        if integer(params, name) % groups:
            return "groups", f"{params[name]} {name} cannot be parted into {groups} groups; take a divisor"
    return None


def _pointwise(params: Mapping[str, Value]) -> Work:
    return _streamed(POINTWISE[text(params, "op")], count(params, "elements"), params)


def _rowwise(params: Mapping[str, Value]) -> Work:
    return _streamed(ROWWISE[text(params, "op")], count(params, "rows") * count(params, "columns"), params)


def _streamed(shape: tuple[int, int, int], elements: Any, params: Mapping[str, Value]) -> Work:
    read, written, operations = shape
    size = STORED[text(params, "dtype")]
    out = 1.0 if params["op"] == "quantise" else size
    own = 1.0 if params["op"] == "dequantise" else size
    return Work(
        read_bytes=read * elements * own,
        written_bytes=written * elements * out,
        operations={"fma.fp32": operations * elements},
        working_set_bytes=elements * (read * own + written * out),
    )


def _embedding(params: Mapping[str, Value]) -> Work:
    """A row written for each token, each row of the table that is met read once; 4-byte indices."""
    tokens, columns, size = count(params, "tokens"), count(params, "columns"), STORED[text(params, "dtype")]
    met, written = touched(tokens, count(params, "vocabulary")) * columns * size, tokens * columns * size
    return Work(read_bytes=met + INDEX_BYTES * tokens, written_bytes=written, working_set_bytes=met + written)


def _transpose(params: Mapping[str, Value]) -> Work:
    moved = count(params, "rows") * count(params, "columns") * STORED[text(params, "dtype")]
    return Work(read_bytes=moved, written_bytes=moved, working_set_bytes=2 * moved)


def _collective(params: Mapping[str, Value]) -> Work:
    """Bytes that each GPU must at least send: nccl-tests, PERFORMANCE.md (bus bandwidth)."""
    n, size = count(params, "gpus"), count(params, "size")
    share = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n, "reduce_scatter": (n - 1) / n, "alltoall": (n - 1) / n}
    return Work(link_bytes=size * share.get(text(params, "op"), 1.0))


def least_link_bytes(params: Mapping[str, Any]) -> Any:
    """Bytes that each GPU cannot but send: an all-reduce may be added up in the switch, so its input once."""
    n = count(params, "gpus")
    return count(params, "size") * (1.0 if text(params, "op") in ("broadcast", "send") else (n - 1) / n)


def _attention_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    heads, kv_heads, query, kv = (integer(params, name) for name in ("heads", "kv_heads", "query", "kv"))
    if heads % kv_heads:
        return "kv_heads", f"{heads} heads cannot share {kv_heads} key-value heads: a divisor of {heads} is needed"
    if kv and kv < query and text(params, "mask") == "causal":
        return "kv", f"{query} queries need at least as many keys under a causal mask, not {kv}"
    latent, widest = integer(params, "latent"), max(integer(params, "head_dim"), integer(params, "value_dim"))
    if latent and kv_heads != 1:
        return "latent", f"all heads share the one latent of a token: kv_heads is 1 there, not {kv_heads}"
    if latent and latent < widest:
        return "latent", f"a latent of {latent} cannot hold keys and values of {widest}: at least {widest} is needed"
    return None


def _collective_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    gpus, nodes = integer(params, "gpus"), integer(params, "nodes")
    if gpus % nodes:
        return "nodes", f"{gpus} GPUs ('gpus': of all nodes) cannot be spread evenly over {nodes} nodes; take a divisor of {gpus}"
    return None


def _moe_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    experts, topk, ep, tp = (integer(params, name) for name in ("experts", "topk", "ep", "tp"))
    if topk > experts:
        return "topk", f"a token cannot choose {topk} of {experts} experts"
    if experts % ep:
        return "ep", f"{experts} experts cannot be spread evenly over {ep} GPUs"
    if integer(params, "inter") % tp:
        return "tp", f"an inner width of {params['inter']} cannot be cut into {tp}"
    return None


def bounded(name: str, about: str, default: int, high: float = 2**24) -> Param:
    """A whole number from 1."""
    return Param(name, "int", about, default, low=1, high=high)


def bandwidth(name: str, about: str, params: tuple[Param, ...], work: Any, fault: Any = lambda _: None) -> Workload:
    """A workload that is told by the bytes it moves in a second."""
    return Workload(name, about, params, "bandwidth", "B/s", "higher", work, fault=fault)


def _none(name: str, about: str) -> Param:
    return Param(name, "int", about, 0, low=0, high=2**30)


def element_type(
    default: str = "bf16", choices: tuple[str, ...] = STORED_DTYPES, name: str = "dtype", about: str = "element type"
) -> Param:
    """The type of elements."""
    return Param(name, "str", about, default, choices=choices)


WORKLOADS = (
    Workload(
        "attention",
        "softmax(Q·Kᵀ)·V in one kernel: prefill with many queries, decode with one",
        (
            bounded("batch", "sequences", 1),
            bounded("query", "queries of each sequence: 1 is decode", 4096),
            _none("kv", "keys of each sequence (0: as many as queries)"),
            bounded("heads", "query heads", 32, 65536),
            bounded("kv_heads", "key-value heads", 8, 65536),
            bounded("head_dim", "width of a head", 128, 1024),
            _none("value_dim", "width of a head's value (0: as head_dim)"),
            _none("latent", "width of the one row per token that all heads share as keys and values, MLA (0: none)"),
            _none("window", "keys that a query sees, itself included (0: all)"),
            Param("mask", "str", "causal: no key after the query", "causal", choices=("causal", "full")),
            element_type(),
            element_type(name="kv_dtype", about="type of the keys and values"),
            Param(
                "op", "str", "forward, or the gradients of queries, keys and values", "forward", choices=("forward", "backward"), later=True
            ),
            Param("page", "int", "tokens of a page of the keys and values (0: they lie in one piece)", 0, low=0, high=65536, later=True),
        ),
        "time",
        "s",
        "lower",
        _attention,
        fault=_attention_fault,
        implementations=("flash", "efficient", "cudnn", "math", "flex"),
    ),
    Workload(
        "moe",
        "experts of a mixture, fused: gate and up, activation, down, for each token's experts",
        (
            bounded("tokens", "tokens of one call", 1024),
            bounded("hidden", "width of a token", 4096, 2**20),
            bounded("inter", "inner width of an expert", 14336, 2**20),
            bounded("topk", "experts of a token", 2, 4096),
            bounded("experts", "all experts", 8, 65536),
            bounded("tp", "GPUs that share each expert", 1, 65536),
            bounded("ep", "GPUs that the experts are spread over", 1, 65536),
            Param("distribution", "str", "how tokens choose: evenly, or by a power law", "balanced", choices=DISTRIBUTIONS),
            element_type(choices=("fp16", "bf16", "fp8", "fp8_block", "int4", "mxfp4")),
            Param("gated", "bool", "gate and up, not up alone", True),
        ),
        "time",
        "s",
        "lower",
        _moe,
        fault=_moe_fault,
        implementations=("grouped", "loop"),
    ),
    Workload(
        "conv",
        "convolution of images, lines or volumes",
        (
            bounded("images", "of a batch", 32),
            bounded("channels", "of the input", 64, 2**20),
            bounded("height", "of the input", 56),
            bounded("width", "of the input", 56),
            bounded("filters", "channels of the output", 64, 2**20),
            bounded("filter", "its height and width", 3, 1024),
            bounded("stride", "step of the filter", 1, 1024),
            Param("pad", "int", "zeros on each side", 1, low=0, high=1024),
            element_type(choices=("fp32", "tf32", "fp16", "bf16", "fp8", "int8")),
            Param(
                "op",
                "str",
                "forward, or one of its gradients",
                "forward",
                choices=("forward", "input_gradient", "weight_gradient"),
                later=True,
            ),
            Param(
                "groups",
                "int",
                "that channels and filters are parted into; as many as channels is depthwise",
                1,
                low=1,
                high=2**20,
                later=True,
            ),
            Param("dilation", "int", "step between taps of the filter", 1, low=1, high=1024, later=True),
            Param("depth", "int", "of the input (0: a flat image)", 0, low=0, high=2**20, later=True),
            Param(
                "filter_height",
                "int",
                "of the filter, where it is no square (0: as filter); 1 with height 1 is a line",
                0,
                low=0,
                high=1024,
                later=True,
            ),
            Param("filter_depth", "int", "of the filter (0: as filter)", 0, low=0, high=1024, later=True),
            Param("layout", "str", "how images lie in memory: channels first or last", "nchw", choices=("nchw", "nhwc"), later=True),
        ),
        "compute",
        "FLOP/s",
        "higher",
        _conv,
        fault=_conv_fault,
    ),
    Workload(
        "pointwise",
        "the same arithmetic on every element",
        (
            Param("op", "str", "what is done", "add", choices=tuple(POINTWISE)),
            bounded("elements", "of the output", 2**24, 2**46),
            element_type(),
        ),
        "bandwidth",
        "B/s",
        "higher",
        _pointwise,
    ),
    Workload(
        "rowwise",
        "something of every row: norms, softmax, sums, quantisation",
        (
            Param("op", "str", "what is done", "rmsnorm", choices=tuple(ROWWISE)),
            bounded("rows", "of the matrix", 4096, 2**40),
            bounded("columns", "of the matrix", 4096, 2**30),
            element_type(),
        ),
        "bandwidth",
        "B/s",
        "higher",
        _rowwise,
        fault=_rowwise_fault,
        implementations=("triton",),
    ),
    Workload(
        "embedding",
        "rows of a table by index",
        (
            bounded("tokens", "rows fetched", 4096, 2**40),
            bounded("columns", "of the table", 4096, 2**24),
            bounded("vocabulary", "rows of the table", 128256, 2**40),
            element_type(),
        ),
        "bandwidth",
        "B/s",
        "higher",
        _embedding,
    ),
    Workload(
        "transpose",
        "a matrix written with rows and columns exchanged",
        (bounded("rows", "of the matrix", 4096, 2**30), bounded("columns", "of the matrix", 4096, 2**30), element_type()),
        "bandwidth",
        "B/s",
        "higher",
        _transpose,
    ),
    Workload(
        "collective",
        "data that several GPUs share or exchange",
        (
            Param("op", "str", "what is done", "all_reduce", choices=COLLECTIVES),
            Param("gpus", "int", "that take part", 8, low=2, high=2**20),
            Param("size", "int", "bytes of the whole result of an all-gather, of each GPU's input else", unit="B", low=1, high=2**46),
            Param("nodes", "int", "that the GPUs are spread over, evenly", 1, low=1, high=2**20),
            element_type(),
        ),
        "bandwidth",
        "B/s",
        "higher",
        _collective,
        needs="two devices or more",
        fault=_collective_fault,
    ),
)
