"""Operations and bytes of what else layers of networks are made of: grouped products, tables, choices, recurrences, pools, optimisers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hotlap.core.record import Value
from hotlap.core.work.base import STORED, Param, Work, Workload, bandwidth, bounded, count, element_type, plain, text, unit_of
from hotlap.core.work.network import DISTRIBUTIONS, INDEX_BYTES, touched
from hotlap.core.work.traits import L2_HOLDS, SECTOR, Passes
from hotlap.core.work.variety import Variety

OPTIMIZERS = {"adamw": (4, 3, 12), "momentum": (3, 2, 4), "sgd": (2, 1, 2)}
"""Arrays read, arrays written, FLOP an element: weights, gradients and the moments that there are."""
GATES = {"lstm": 4, "gru": 3}
POOLS = ("max", "average", "upsample")


def _grouped(params: Mapping[str, Value]) -> Work:
    """A product for each group, its rows of A by its own B; `m` counts the rows of all groups."""
    groups, m, n, k = (count(params, name) for name in ("groups", "m", "n", "k"))
    size = STORED[text(params, "dtype")]
    used = plain(np.minimum(groups, m))  # groups without rows are not read
    read, written = size * (m * k + used * k * n), 2.0 * m * n if size < 2 else size * m * n
    return Work(
        read_bytes=read,
        written_bytes=written,
        operations={unit_of(text(params, "dtype")): 2.0 * m * n * k},
        working_set_bytes=read + written,
    )


def _scatter(params: Mapping[str, Value]) -> Work:
    """Rows added into a table: each row read once, the rows of the table that are met read and written once."""
    tokens, columns, size = count(params, "tokens"), count(params, "columns"), STORED[text(params, "dtype")]
    met = touched(tokens, count(params, "vocabulary")) * columns * size
    given = tokens * columns * size
    return Work(
        read_bytes=given + met + INDEX_BYTES * tokens,
        written_bytes=met,
        operations={"fma.fp32": tokens * columns},
        working_set_bytes=given + met,
    )


def _bag(params: Mapping[str, Value]) -> Work:
    """Rows of a table summed in bags: every row that is met read once, a sum written for each bag."""
    bags, lookups, columns, size = (*(count(params, name) for name in ("bags", "lookups", "columns")), STORED[text(params, "dtype")])
    met = touched(bags * lookups, count(params, "vocabulary")) * columns * size
    return Work(
        read_bytes=met + INDEX_BYTES * bags * lookups,
        written_bytes=bags * columns * size,
        operations={"fma.fp32": bags * lookups * columns},
        working_set_bytes=met + bags * columns * size,
    )


def _bag_read(params: Mapping[str, Any], read: Any, l2_bytes: float) -> Any:
    """Rows that were met before are read again as far as L2 does not hold them; narrow rows come in whole sectors."""
    width = np.ceil(params["columns"] * STORED[text(params, "dtype")] / SECTOR) * SECTOR
    lost = np.clip(1 - L2_HOLDS * l2_bytes / (params["vocabulary"] * width), 0.0, 1.0)
    return np.maximum(read, params["bags"] * params["lookups"] * (INDEX_BYTES + width * lost))


def _row(params: Mapping[str, Any]) -> tuple[Any, Any]:
    return params["columns"] * STORED[text(params, "dtype")], params["rows"]


def _topk(params: Mapping[str, Value]) -> Work:
    rows, columns, k, size = (*(count(params, name) for name in ("rows", "columns", "k")), STORED[text(params, "dtype")])
    read, written = rows * columns * size, rows * k * (size + INDEX_BYTES)
    return Work(read_bytes=read, written_bytes=written, operations={"fma.fp32": rows * columns}, working_set_bytes=read + written)


def _topk_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if count(params, "k") > count(params, "columns"):
        return "k", f"the {params['k']} largest of {params['columns']} columns: 'k' is at most the columns"
    return None


def _sampling(params: Mapping[str, Value]) -> Work:
    """Softmax of a row of scores, and one draw from it: scores read once."""
    rows, columns, size = count(params, "rows"), count(params, "columns"), STORED[text(params, "dtype")]
    read, written = rows * columns * size, rows * INDEX_BYTES
    return Work(read_bytes=read, written_bytes=written, operations={"fma.fp32": 5.0 * rows * columns}, working_set_bytes=read + written)


def _optimizer(params: Mapping[str, Value]) -> Work:
    read, written, operations = OPTIMIZERS[text(params, "op")]
    elements = count(params, "elements")
    one = elements * STORED[text(params, "dtype")]
    return Work(
        read_bytes=read * one, written_bytes=written * one, operations={"fma.fp32": operations * elements}, working_set_bytes=read * one
    )


def _routing(params: Mapping[str, Value]) -> Work:
    """Softmax of each token's scores (bf16) and the best of them: a weight and a number for each choice."""
    tokens, experts, topk = (count(params, name) for name in ("tokens", "experts", "topk"))
    read, written = 2.0 * tokens * experts, tokens * topk * (4.0 + INDEX_BYTES)
    return Work(read_bytes=read, written_bytes=written, operations={"fma.fp32": 5.0 * tokens * experts}, working_set_bytes=read + written)


def _routing_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if count(params, "topk") > count(params, "experts"):
        return "topk", f"a token cannot choose {params['topk']} of {params['experts']} experts"
    return None


def _permute(params: Mapping[str, Value]) -> Work:
    """A copy of each token's row for each of its experts, in the experts' order."""
    tokens, columns, topk, size = (*(count(params, name) for name in ("tokens", "columns", "topk")), STORED[text(params, "dtype")])
    read, written = tokens * columns * size, tokens * topk * columns * size
    return Work(read_bytes=read + INDEX_BYTES * tokens * topk, written_bytes=written, working_set_bytes=read + written)


def _rnn(params: Mapping[str, Value]) -> Work:
    """Every step's gates from its input and the last state; weights, inputs and states once, were the weights kept on chip."""
    steps, batch, inputs, hidden = (count(params, name) for name in ("steps", "batch", "inputs", "hidden"))
    gates, size = GATES[text(params, "op")], STORED[text(params, "dtype")]
    weights = gates * hidden * (inputs + hidden)
    read, written = size * (weights + steps * batch * inputs), size * steps * batch * hidden
    return Work(
        read_bytes=read,
        written_bytes=written,
        operations={unit_of(text(params, "dtype")): 2.0 * steps * batch * weights},
        working_set_bytes=read + written,
    )


def rnn_weight_gradient(params: Mapping[str, Any]) -> dict[str, Any]:
    """Of a recurrent layer's weights: one product over all its steps."""
    gates, size = GATES[params["op"]], {"n": params["inputs"] + params["hidden"], "k": params["steps"] * params["batch"]}
    return {"m": gates * params["hidden"], **size, "dtype": params["dtype"], "layout": "tn"}


def pool_output(params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Height and width of the result; `upsample` repeats each pixel `stride` times each way."""
    step, side, pad = (count(params, name) for name in ("stride", "filter", "pad"))
    if text(params, "op") == "upsample":
        return count(params, "height") * step, count(params, "width") * step
    high, wide = ((count(params, name) + 2 * pad - side) // step + 1 for name in ("height", "width"))
    return high, wide


def _pool(params: Mapping[str, Value]) -> Work:
    high, wide = pool_output(params)
    planes, size = count(params, "images") * count(params, "channels"), STORED[text(params, "dtype")]
    read, written = planes * count(params, "height") * count(params, "width") * size, planes * high * wide * size
    taps = 0.0 if text(params, "op") == "upsample" else count(params, "filter") ** 2
    return Work(
        read_bytes=read, written_bytes=written, operations={"fma.fp32": planes * high * wide * taps}, working_set_bytes=read + written
    )


def _pool_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if min(pool_output(params)) < 1:
        return "filter", f"a window of {params['filter']} does not fit into {params['height']} × {params['width']}"
    if 2 * count(params, "pad") > count(params, "filter"):
        return "pad", f"'pad' is at most half the window of {params['filter']}"
    return None


def _below(params: dict[str, Any], levels: Mapping[str, str], step: int) -> Iterator[dict[str, Any]]:
    """`k` at the edge asked for, and below it by the alignment asked for."""
    yield params
    yield {**params, "k": params["k"] + 64 - step if levels["edge k"] == "below" else params["k"]}


_GROUPED_VARIETY = Variety(edges=("m", "n", "k"), rows=("k", "n"), fitted=_below, beside=4096, least={"groups": 1})
_SAMPLING_PASSES = Passes(
    row=_row, again=2.0, special=lambda p: p["rows"] * p["columns"], launches=lambda p: np.where(p["topk"] > 0, 3.0, 2.0)
)
_ROUTING_PASSES = Passes(special=lambda p: p["tokens"] * p["experts"], row=lambda p: (2.0 * p["experts"], p["tokens"]))

WORKLOADS = (
    Workload(
        "grouped_gemm",
        "products of several groups of rows, each by its own matrix, in one call",
        (
            bounded("groups", "matrices B", 8, 65536),
            bounded("m", "rows of A, of all groups", 4096),
            bounded("n", "columns of each B", 4096),
            bounded("k", "columns of A", 4096),
            element_type(choices=("fp32", "fp16", "bf16", "fp8")),
            Param("distribution", "str", "how rows are shared out: evenly, or by a power law", "balanced", choices=DISTRIBUTIONS),
        ),
        "compute",
        "FLOP/s",
        "higher",
        _grouped,
        implementations=("grouped", "loop"),
        heading="model kernels", operator="grouped", arrays=True, model="groups",
        variety=_GROUPED_VARIETY,
    ),
    bandwidth(
        "scatter",
        "rows added into a table by index: the gradient of an embedding",
        (
            bounded("tokens", "rows added", 4096, 2**40),
            bounded("columns", "of the table", 4096),
            bounded("vocabulary", "rows of the table", 128256, 2**40),
            element_type(),
        ),
        _scatter,
        heading="model kernels", operator="tables", arrays=True, model="passes", passes=Passes(),
        variety=Variety(edges=("columns",), grown=("tokens",), rows=("columns",)),
    ),
    bandwidth(
        "embedding_bag",
        "rows of a table by index, summed in bags: the tables of recommenders",
        (
            bounded("bags", "sums written", 4096, 2**40),
            bounded("lookups", "rows of each bag", 32, 2**20),
            bounded("columns", "of the table", 64),
            bounded("vocabulary", "rows of the table", 10**6, 2**40),
            element_type("fp32"),
        ),
        _bag,
        heading="model kernels", operator="tables", arrays=True, model="passes", passes=Passes(read=_bag_read),
        variety=Variety(edges=("columns",), grown=("bags",), rows=("columns",)),
    ),
    bandwidth(
        "topk",
        "the largest of every row, with their places",
        (
            bounded("rows", "of the matrix", 64, 2**40),
            bounded("columns", "of the matrix", 128256, 2**30),
            bounded("k", "kept of each row", 50),
            element_type(),
        ),
        _topk,
        _topk_fault,
        heading="model kernels", operator="choices", arrays=True, model="passes", passes=Passes(row=_row, again=2.0),
        variety=Variety(edges=("columns",), grown=("rows",), rows=("columns",), least={"k": 1}),
    ),
    bandwidth(
        "sampling",
        "one draw from the softmax of every row of scores",
        (
            bounded("rows", "sequences", 64, 2**40),
            bounded("columns", "of the vocabulary", 128256, 2**30),
            Param("topk", "int", "drawn from so many of the largest (0: all)", 0, low=0, high=2**30),
            element_type("fp32"),
        ),
        _sampling,
        heading="model kernels", operator="choices", arrays=True, model="passes", passes=_SAMPLING_PASSES,
        variety=Variety(edges=("columns",), grown=("rows",), rows=("columns",)),
    ),
    bandwidth(
        "optimizer",
        "one update of weights by their gradients, in place",
        (
            Param("op", "str", "the rule", "adamw", choices=tuple(OPTIMIZERS)),
            bounded("elements", "weights", 2**26, 2**46),
            element_type("fp32", ("fp32", "fp16", "bf16")),
        ),
        _optimizer,
        heading="model kernels", operator="optimizer", arrays=True, model="passes", passes=Passes(),
        variety=Variety(edges=("elements",)),
    ),
    bandwidth(
        "routing",
        "the experts of every token: softmax of their scores, and the best",
        (
            bounded("tokens", "of one call", 4096, 2**40),
            bounded("experts", "all experts", 128, 65536),
            bounded("topk", "experts of a token", 8, 4096),
        ),
        _routing,
        _routing_fault,
        heading="model kernels", operator="choices", arrays=True, model="passes", passes=_ROUTING_PASSES,
        variety=Variety(edges=("tokens",), sized=False, least={"topk": 1}),
    ),
    bandwidth(
        "permute",
        "tokens' rows copied into the order of their experts",
        (
            bounded("tokens", "of one call", 4096, 2**40),
            bounded("columns", "width of a token", 4096),
            bounded("topk", "experts of a token", 2, 4096),
            element_type(),
        ),
        _permute,
        heading="model kernels", operator="tables", arrays=True, model="passes", passes=Passes(),
        variety=Variety(edges=("columns",), grown=("tokens",), rows=("columns",)),
    ),
    Workload(
        "rnn",
        "a recurrent layer over a whole sequence",
        (
            Param("op", "str", "the cell", "lstm", choices=tuple(GATES)),
            bounded("steps", "of the sequence", 256),
            bounded("batch", "sequences", 32),
            bounded("inputs", "width of an input", 1024),
            bounded("hidden", "width of the state", 1024),
            element_type("fp32", ("fp32", "fp16", "bf16")),
        ),
        "compute",
        "FLOP/s",
        "higher",
        _rnn,
        heading="model kernels", operator="rnn", arrays=True, model="recurrence",
        variety=Variety(edges=("hidden",), grown=("steps",)),
    ),
    bandwidth(
        "pool",
        "windows of an image by their largest or mean; or pixels repeated",
        (
            Param("op", "str", "what is done", "max", choices=POOLS),
            bounded("images", "of a batch", 32),
            bounded("channels", "of the input", 64),
            bounded("height", "of the input", 112),
            bounded("width", "of the input", 112),
            bounded("filter", "height and width of the window", 2, 1024),
            bounded("stride", "step of the window; upsample: times each way", 2, 1024),
            Param("pad", "int", "on each side", 0, low=0, high=512),
            element_type(),
        ),
        _pool,
        _pool_fault,
        heading="model kernels", operator="pool", arrays=True, model="passes", passes=Passes(),
        variety=Variety(edges=("channels",), grown=("images",)),
    ),
)

GROUPED_GEMM, SCATTER, EMBEDDING_BAG, TOPK, SAMPLING, OPTIMIZER, ROUTING, PERMUTE, RNN, POOL = WORKLOADS
