"""Operations and bytes of the kernels that networks are made of: attention, experts, norms, convolutions, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotlap.core.record import Value
from hotlap.core.work.attention import ATTENTION
from hotlap.core.work.base import STORED, Param, Work, Workload, bounded, count, element_type, integer, plain, text, unit_of
from hotlap.core.work.convolution import CONV
from hotlap.core.work.traits import Link
from hotlap.core.work.variety import Variety

POINTWISE_OPS = {  # op: arrays read, arrays written, FLOP per element of the output
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
ROWWISE_OPS = {
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


def _least_of_experts(params: Mapping[str, Any], counted: Work) -> Any:
    """Bytes that must be read. Which experts tokens choose is not known, and a mean over even draws is no bound: as few as may be."""
    size = STORED[text(params, "dtype")] * (3.0 if params["gated"] else 2.0)
    expert = count(params, "hidden") * (count(params, "inter") / count(params, "tp")) * size
    return plain(expert * np.maximum(count(params, "topk") / count(params, "ep"), 1.0))


def _rowwise_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if str(params["op"]).startswith(("batchnorm", "groupnorm")) and integer(params, "columns") < 2:
        return "columns", f"{params['op']} takes the spread of a row, and of one value there is none; take 2 columns or more"
    return None


def _pointwise(params: Mapping[str, Value]) -> Work:
    return _streamed(POINTWISE_OPS[text(params, "op")], count(params, "elements"), params)


def _rowwise(params: Mapping[str, Value]) -> Work:
    return _streamed(ROWWISE_OPS[text(params, "op")], count(params, "rows") * count(params, "columns"), params)


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


WORKLOADS = (
    ATTENTION,
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
            element_type(choices=("fp16", "bf16", "fp8", "fp8_block", "fp4", "int4", "mxfp4")),
            Param("gated", "bool", "gate and up, not up alone", True),
        ),
        "time",
        "s",
        "lower",
        _moe,
        fault=_moe_fault,
        implementations=("grouped", "loop"),
        heading="model kernels", operator="moe", arrays=True, model="experts", least_bytes=_least_of_experts,
        variety=Variety(edges=("tokens", "hidden"), grown=("inter",)),
    ),
    CONV,
    Workload(
        "pointwise",
        "the same arithmetic on every element",
        (
            Param("op", "str", "what is done", "add", choices=tuple(POINTWISE_OPS)),
            bounded("elements", "of the output", 2**24, 2**46),
            element_type(),
        ),
        "bandwidth",
        "B/s",
        "higher",
        _pointwise,
        heading="model kernels", operator="pointwise", arrays=True, model="streaming", traffic="elements",
        variety=Variety(edges=("elements",)),
    ),
    Workload(
        "rowwise",
        "something of every row: norms (ε = 1e-5), softmax, sums, quantisation",
        (
            Param("op", "str", "what is done", "rmsnorm", choices=tuple(ROWWISE_OPS)),
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
        heading="model kernels", operator="rowwise", arrays=True, model="streaming", traffic="rows",
        variety=Variety(edges=("rows", "columns"), rows=("columns",)),
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
        heading="model kernels", operator="tables", arrays=True, model="streaming", traffic="table",
        variety=Variety(edges=("columns",), grown=("tokens",), rows=("columns",)),
    ),
    Workload(
        "transpose",
        "a matrix written with rows and columns exchanged",
        (bounded("rows", "of the matrix", 4096, 2**30), bounded("columns", "of the matrix", 4096, 2**30), element_type()),
        "bandwidth",
        "B/s",
        "higher",
        _transpose,
        heading="model kernels", operator="tables", arrays=True, model="streaming", traffic="turned",
        variety=Variety(edges=("rows", "columns"), rows=("columns",)),
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
        heading="transfers", unprepared="runs on simulated GPUs only", arrays=True, model="communication",
        link=Link("peers", lambda params, _: least_link_bytes(params), copied=False), variety=Variety(),
    ),
)

_, MOE, _, POINTWISE, ROWWISE, EMBEDDING, TRANSPOSE, COLLECTIVE = WORKLOADS
