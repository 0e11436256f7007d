"""Calls of aten operators, read one kind at a time: products, convolutions, attention, elements, rows, tables."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from hotlap.core.work import traits

Sides = list[list[int]]


class CallRequest(NamedTuple):
    """A workload and its parameters, as in a plan; what is not given has its default."""

    workload: str
    params: dict[str, Any]

    @property
    def label(self) -> str:
        """For people: gemm bf16 4096 × 4096 × 4096."""
        one = self.params
        if traits(self.workload).model == "product":
            batch = f" × {one['batch']} times" if one.get("batch", 1) > 1 else ""
            return f"{self.workload} {one['dtype']} {one['m']} × {one['n']} × {one['k']}{batch}"
        return f"{self.workload} " + " ".join(str(value) for value in one.values())


class AtenCall(NamedTuple):
    """One call: sizes and strides of each argument (empty where it is no tensor), element type, other arguments as text."""

    dims: Sides
    dtype: str
    values: list[str]
    strides: Sides

    def value(self, place: int, default: str = "") -> str:
        return self.values[place] if place < len(self.values) and self.values[place] else default

    def numbers(self, place: int) -> list[int]:
        """A list such as [2, 2]; empty where it was not kept."""
        text = self.value(place)
        return [int(one) for one in json.loads(text)] if text.startswith("[") else []

    def truth(self, place: int) -> bool:
        return self.value(place).lower() in ("true", "1")


Made = Callable[[AtenCall], list[CallRequest]]
"""What a call computes: none, one workload, or several."""


# ---------------------------------------------------------------- products


def gemm(call: AtenCall, left: int, right: int, bias: int | None = None) -> list[CallRequest]:
    """A (…, m, k) by B (…, k, n); a bias is one row."""
    a, b = call.dims[left], call.dims[right]
    (m, k), n = a[-2:], b[-1]
    if b[-2] != k or min(m, n, k) < 1:
        return []
    layout = "".join("t" if _turned(call, place) else "n" for place in (left, right))
    added = {"epilogue": "bias"} if bias is not None and len(call.dims[bias]) == 1 else {}
    return [CallRequest("gemm", {"dtype": call.dtype, "m": m, "n": n, "k": k, "batch": math.prod(a[:-2]), "layout": layout, **added})]


def addmm_activation(call: AtenCall) -> list[CallRequest]:
    """_addmm_activation(bias, A, B, beta, alpha, use_gelu): the activation is part of the product."""
    found = gemm(call, 1, 2, 0)
    return [CallRequest(one.workload, {**one.params, "epilogue": "bias_gelu" if call.truth(5) else "bias_relu"}) for one in found]


def _turned(call: AtenCall, place: int) -> bool:
    """Whether an operand lies in memory by columns."""
    steps = call.strides[place] if place < len(call.strides) else []
    return len(steps) >= 2 and steps[-2] == 1 and steps[-1] > 1


def linear(call: AtenCall) -> list[CallRequest]:
    n, k = call.dims[1]
    rows = math.prod(call.dims[0][:-1])
    if call.dims[0][-1] != k or not rows:
        return []
    added = {"epilogue": "bias"} if len(call.dims) > 2 and len(call.dims[2]) == 1 else {}
    return [CallRequest("gemm", {"dtype": call.dtype, "m": rows, "n": n, "k": k, "batch": 1, "layout": "nt", **added})]


# ---------------------------------------------------------------- convolutions


class ArgumentPlaces(NamedTuple):
    """Where an operator of a convolution keeps its arguments."""

    image: int
    weights: int
    stride: int
    pad: int
    dilation: int
    groups: int
    turned: int | None = None  # whether it is a transposed convolution


def conv(at: ArgumentPlaces) -> Made:
    def requests(call: AtenCall) -> list[CallRequest]:
        turned = at.turned is not None and call.truth(at.turned)
        params = _conv_params(call, at, turned)
        if params is None:
            return []
        return [CallRequest("conv", _exchanged(call, at, params) if turned else params)]

    return requests


def _conv_params(call: AtenCall, at: ArgumentPlaces, turned: bool = False) -> dict[str, Any] | None:
    """N, C and one to three sides by F, C ÷ groups and the filter's (turned: C, F ÷ groups); equal strides, paddings and dilations on all
    sides."""
    images, channels, *sides = call.dims[at.image]
    filters, inner, *taps = call.dims[at.weights]
    groups = int(call.value(at.groups, "0")) or (1 if turned else max(channels // inner, 1))
    steps, pads, gaps = call.numbers(at.stride), call.numbers(at.pad), call.numbers(at.dilation) or [1]
    if (filters if turned else inner * groups) != channels or not steps or not pads or len(sides) != len(taps) or not 1 <= len(sides) <= 3:
        return None
    inside = [pad for pad, size in zip(pads * len(sides), sides, strict=False) if size > 1] or [0]
    if len({*steps}) > 1 or len({*gaps}) > 1 or len({*inside}) > 1:
        return None
    *upper, width = sides
    *over, filter_ = taps
    return {
        "images": images, "channels": channels, "height": upper[-1] if upper else 1, "width": width, "filters": filters, "filter": filter_,
        "stride": steps[0], "pad": inside[0], "dtype": call.dtype, "groups": groups, "dilation": gaps[0],
        "filter_height": (0 if over[-1] == filter_ else over[-1]) if over else 1,
        **({"depth": upper[0], "filter_depth": 0 if over[0] == filter_ else over[0]} if len(sides) == 3 else {}),
    }  # fmt: skip


def _exchanged(call: AtenCall, at: ArgumentPlaces, params: dict[str, Any]) -> dict[str, Any]:
    """A transposed convolution computes the gradient of one whose result is its image."""
    grown = {
        name: (params[name] - 1) * params["stride"] - 2 * params["pad"] + params["filter"]
        for name in ("height", "width")
        if params[name] > 1
    }
    channels = call.dims[at.weights][1] * params["groups"]
    return {**params, **grown, "op": "input_gradient", "filters": params["channels"], "channels": channels}


def conv_backward(call: AtenCall) -> list[CallRequest]:
    """convolution_backward(grad, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)."""
    params = _conv_params(call, ArgumentPlaces(1, 2, 4, 5, 6, 9))
    if params is None or call.truth(7):
        return []
    wanted = call.value(10, "[true, true]").lower().strip("[]").split(",")
    ops = [op for op, given in zip(("input_gradient", "weight_gradient"), wanted, strict=False) if given.strip() in ("true", "1")]
    return [CallRequest("conv", {**params, "op": op}) for op in ops]


# ---------------------------------------------------------------- attention


def attention(causal_at: int, op: str = "forward", heads_first: bool = True) -> Made:
    """Query, key and value as (batch, heads, tokens, head), scaled_dot_product_attention's order; backward after a gradient. `causal_at`:
    the place of is_causal, one truth value among several."""
    first = 1 if op == "backward" else 0

    def requests(call: AtenCall) -> list[CallRequest]:
        sides = [side if heads_first else [side[0], side[2], side[1], side[3]] for side in call.dims[first : first + 3]]
        (batch, heads, query, head), (_, kv_heads, kv, _), last = sides
        causal = call.truth(causal_at)
        return [CallRequest("attention", {
            "batch": batch, "query": query, "kv": kv, "heads": heads, "kv_heads": kv_heads, "head_dim": head,
            "value_dim": 0 if last[-1] == head else last[-1], "mask": "causal" if causal and kv >= query else "full", "dtype": call.dtype,
            "kv_dtype": call.dtype, "op": op,
        })]  # fmt: skip

    return requests


# ---------------------------------------------------------------- elements, rows, tables


def pointwise(op: str) -> Made:
    def requests(call: AtenCall) -> list[CallRequest]:
        sides = max(len(one) for one in call.dims)
        # Operands are broadcast: each side of the result is the largest there, from the last on.
        whole = [max(one[-i] for one in call.dims if len(one) >= i) for i in range(1, sides + 1)]
        elements = math.prod(whole) if whole and all(math.prod(one) for one in call.dims if one) else 0
        alone = op in ("add", "mul") and sum(math.prod(one) == elements for one in call.dims if one) < 2  # the other: a number, or a row
        return [CallRequest("pointwise", {"op": "scale" if alone else op, "elements": elements, "dtype": call.dtype})] if elements else []

    return requests


def rowwise(op: str, place: int = 0, rows_from: str = "last") -> Made:
    """`rows_from`: what is one row of argument `place` — its last side, a channel of all images (channel), or a group of an image's."""

    def requests(call: AtenCall) -> list[CallRequest]:
        sides = call.dims[place]
        whole, columns = math.prod(sides), sides[-1]
        if rows_from == "channel":
            columns = whole // sides[1]
        elif rows_from == "group":
            columns = whole // (sides[0] * int(call.value(GROUPS_AT[op])))
        if not columns or not whole:
            return []
        return [CallRequest("rowwise", {"op": op, "rows": whole // columns, "columns": columns, "dtype": call.dtype})]

    return requests


GROUPS_AT = {"groupnorm": 6, "groupnorm_backward": 8}  # native_group_norm(x, w, b, N, C, HxW, group); backward (dy, x, mean, rstd, w, …)


def batchnorm(call: AtenCall) -> list[CallRequest]:
    """Rows of a channel while it learns; with kept means (argument 5 is false) each element by itself."""
    if call.value(5).lower() == "false":
        return pointwise("scale")(call._replace(dims=call.dims[:1]))
    return rowwise("batchnorm", rows_from="channel")(call)


def along(op: str, place: int = 1) -> Made:
    """Along the last side, as rows; along another one it is a workload of another kind. `place`: of the argument that says which."""

    def requests(call: AtenCall) -> list[CallRequest]:
        side = int(call.value(place, "-1"))
        return rowwise(op)(call) if side in (-1, len(call.dims[0]) - 1) else []

    return requests


def largest(call: AtenCall) -> list[CallRequest]:
    """argmax: of everything where no side is named."""
    return along("max")(call) if call.value(1) not in ("", "None") else whole("reduce", op="max")(call)


def embedding(call: AtenCall) -> list[CallRequest]:
    (vocabulary, columns), tokens = call.dims[0], math.prod(call.dims[1])
    return (
        [CallRequest("embedding", {"tokens": tokens, "columns": columns, "vocabulary": vocabulary, "dtype": call.dtype})] if tokens else []
    )


def selected(call: AtenCall) -> list[CallRequest]:
    """index_select(table, side, index): whole rows of the first side."""
    (vocabulary, *rest), tokens = call.dims[0], math.prod(call.dims[2])
    if not rest or not tokens or call.value(1, "0") not in ("0", f"-{len(rest) + 1}"):
        return []
    return [CallRequest("embedding", {"tokens": tokens, "columns": math.prod(rest), "vocabulary": vocabulary, "dtype": call.dtype})]


def scatter(call: AtenCall) -> list[CallRequest]:
    """embedding_dense_backward(grad, indices, rows of the table, …)."""
    columns, tokens = call.dims[0][-1], math.prod(call.dims[1])
    return [CallRequest("scatter", {"tokens": tokens, "columns": columns, "vocabulary": int(call.value(2)), "dtype": call.dtype})]


def index_add(call: AtenCall) -> list[CallRequest]:
    """index_add(table, side, index, source)."""
    (vocabulary, *rest), tokens = call.dims[0], math.prod(call.dims[2])
    return [CallRequest("scatter", {"tokens": tokens, "columns": math.prod(rest), "vocabulary": vocabulary, "dtype": call.dtype})]


def bag(call: AtenCall) -> list[CallRequest]:
    """_embedding_bag(table, indices, offsets, …)."""
    (vocabulary, columns), lookups, bags = call.dims[0], math.prod(call.dims[1]), math.prod(call.dims[2])
    each = max(round(lookups / bags), 1)
    return [
        CallRequest("embedding_bag", {"bags": bags, "lookups": each, "columns": columns, "vocabulary": vocabulary, "dtype": call.dtype})
    ]


def topk(call: AtenCall) -> list[CallRequest]:
    """topk(x, k, side, …): of the last side."""
    *rows, columns = call.dims[0]
    if int(call.value(2, "-1")) not in (-1, len(rows)):
        return []
    return [CallRequest("topk", {"rows": math.prod(rows), "columns": columns, "k": int(call.value(1)), "dtype": call.dtype})]


def pool(op: str) -> Made:
    """max_pool2d_with_indices and avg_pool2d: (x, window, stride, padding …); windows and strides equal both ways."""

    def requests(call: AtenCall) -> list[CallRequest]:
        images, channels, height, width = call.dims[0]
        window, pads = call.numbers(1), call.numbers(3) or [0]
        steps = call.numbers(2) or window
        if len({*window}) != 1 or len({*steps}) != 1 or len({*pads}) != 1:
            return []
        given = {"filter": window[0], "stride": steps[0], "pad": pads[0]}
        return [
            CallRequest(
                "pool", {"op": op, "images": images, "channels": channels, "height": height, "width": width, **given, "dtype": call.dtype}
            )
        ]

    return requests


def whole(workload: str, line: bool = False, **more: Any) -> Made:
    """All elements of the first argument. `line`: only where they lie along one side, since others would be many lines at once."""

    def requests(call: AtenCall) -> list[CallRequest]:
        elements = math.prod(call.dims[0]) if call.dims[0] else 0
        if not elements or (line and max(call.dims[0]) != elements):
            return []
        return [CallRequest(workload, {**more, "elements": elements, "dtype": call.dtype})]

    return requests


def total(op: str) -> Made:
    """Over everything: one number; over the last sides: rows; over others it is a workload of another kind."""

    def requests(call: AtenCall) -> list[CallRequest]:
        over, sides = call.numbers(1), call.dims[0]
        if not over:
            return whole("reduce", op=op)(call) if call.value(1) in ("", "[]", "None") else []
        inner = sorted(one % len(sides) for one in over)
        if inner != list(range(len(sides) - len(inner), len(sides))):
            return []
        columns = math.prod(sides[inner[0] :])
        rows = math.prod(sides[: inner[0]])
        return [CallRequest("rowwise", {"op": op, "rows": rows, "columns": columns, "dtype": call.dtype})] if rows and columns else []

    return requests


def recurrent(call: AtenCall) -> list[CallRequest]:
    """mkldnn_rnn_layer(input, input weights, hidden weights, …, mode at 9): steps × batch × inputs; 2 is LSTM, 3 GRU."""
    steps, batch, inputs = call.dims[0]
    op = {"2": "lstm", "3": "gru"}[call.value(9)]
    hidden = call.dims[2][-1]
    return [CallRequest("rnn", {"op": op, "steps": steps, "batch": batch, "inputs": inputs, "hidden": hidden, "dtype": call.dtype})]
