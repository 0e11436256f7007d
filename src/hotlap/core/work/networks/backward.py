"""The kernels of a backward pass: each kernel's gradients as kernels of their own, as PyTorch runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hotlap.core.work.layers import rnn_weight_gradient
from hotlap.core.work.networks.calls import Call

Params = dict[str, Any]

# Gradients of elementwise kernels by kernels with the same traffic: where a function has none of its own name, the one that reads as much.
POINTWISE: Mapping[str, tuple[str, ...]] = {
    "add": ("add",),  # the gradients of both ways, added where they meet again
    "mul": ("mul", "mul"),
    "silu_mul": ("silu_mul_backward",),
    "gelu_mul": ("silu_mul_backward",),
    "gelu": ("gelu_backward",),
    "silu": ("gelu_backward",),
    "relu": ("relu_backward",),
    "sigmoid": ("relu_backward",),  # out of the result and its gradient, as ReLU's
    "tanh": ("relu_backward",),
    "rope": ("rope",),
    "copy": ("copy",),
    "scale": ("scale",),
    "dropout": ("dropout",),
}
TRANSPOSED_8_BITS = "nt"  # the one layout that 8-bit products of Hopper have; operands are quantised transposed: cuBLAS, cublasLtMatmul


def backward(calls: Sequence[Call]) -> list[Call]:
    """The gradients of each kernel of a forward pass, last first."""
    found: list[Call] = []
    for call in reversed(calls):
        made = _RULES.get(call.workload)
        found += [replace(one, group="backward", times=one.times * call.times) for one in (made(call) if made else ())]
    return found


def _named(call: Call, what: str, workload: str, params: Params, times: float = 1.0) -> Call:
    return Call(f"{call.name}, {what}", call.group, workload, params, times)


def _gemm(call: Call) -> Iterator[Call]:
    """C (m, n) = A (m, k)·Bᵀ: dA = dC·B, dB = dCᵀ·A; where B lies (k, n): dA = dC·Bᵀ, dB = Aᵀ·dC; of a bias the sum of dC over its rows."""
    p = call.params
    m, n, k, dtype = p["m"], p["n"], p["k"], p["dtype"]
    rest: Params = {"dtype": dtype, **({"batch": p["batch"]} if p.get("batch", 1) > 1 else {})}
    rest |= {"scaling": p["scaling"]} if "scaling" in p else {}
    eight = dtype.startswith("fp8")
    if eight:
        yield _named(call, "gradient in 8 bits", "rowwise", {"op": "quantise", "rows": m, "columns": n})
    plain = p.get("layout", "nn") == "nn"
    if not call.leaf:
        layout = TRANSPOSED_8_BITS if eight or plain else "nn"
        yield _named(call, "data gradient", "gemm", {"m": m, "n": k, "k": n, **rest, **_layout(layout)})
    sides = {"m": k, "n": n, "k": m} if plain else {"m": n, "n": k, "k": m}
    yield _named(call, "weight gradient", "gemm", {**sides, **rest, **_layout(TRANSPOSED_8_BITS if eight else "tn")})
    if str(p.get("epilogue", "none")).startswith("bias"):
        yield _named(call, "bias gradient", "rowwise", {"op": "sum", "rows": n, "columns": m})


def _layout(name: str) -> Params:
    return {} if name == "nn" else {"layout": name}


def _grouped(call: Call) -> Iterator[Call]:
    """Of weights: a product of its own for each group, all alike where rows are shared out evenly."""
    p = call.params
    yield _named(call, "data gradient", "grouped_gemm", {**p, "n": p["k"], "k": p["n"]})
    each = max(p["m"] // p["groups"], 1)
    params = {"m": p["n"], "n": p["k"], "k": each, "batch": p["groups"], "dtype": p["dtype"], "layout": "tn"}
    yield _named(call, "weight gradient", "gemm", params)


def _attention(call: Call) -> Iterator[Call]:
    yield _named(call, "backward", "attention", {**call.params, "op": "backward"})


def _conv(call: Call) -> Iterator[Call]:
    if not call.leaf:
        yield _named(call, "data gradient", "conv", {**call.params, "op": "input_gradient"})
    yield _named(call, "weight gradient", "conv", {**call.params, "op": "weight_gradient"})


def _rowwise(call: Call) -> Iterator[Call]:
    p = call.params
    if p["op"] == "sum":  # the gradient of a sum is given to all that were added
        yield _named(call, "backward", "pointwise", {"op": "copy", "elements": p["rows"] * p["columns"]})
    elif p["op"] != "quantise":
        yield _named(call, "backward", "rowwise", {**p, "op": f"{p['op']}_backward"})


def _pointwise(call: Call) -> Iterator[Call]:
    if not call.leaf:
        ops = POINTWISE[call.params["op"]]
        yield _named(call, "backward", "pointwise", {**call.params, "op": ops[0]}, len(ops))


def _embedding(call: Call) -> Iterator[Call]:
    p = call.params
    yield _named(call, "backward", "scatter", {name: p[name] for name in ("tokens", "columns", "vocabulary")})


def _bag(call: Call) -> Iterator[Call]:
    p = call.params
    params = {"tokens": p["bags"] * p["lookups"], "columns": p["columns"], "vocabulary": p["vocabulary"], "dtype": p.get("dtype", "fp32")}
    yield _named(call, "backward", "scatter", params)


def _pool(call: Call) -> Iterator[Call]:
    """Of windows: gradients spread out, as in upsampling; of upsampling: their sums, as in a mean."""
    p = call.params
    planes = {"images": p["images"], "channels": p["channels"]}
    if p["op"] == "upsample":
        high, wide = p["height"] * p["stride"], p["width"] * p["stride"]
        size = {"op": "average", "height": high, "width": wide, "filter": p["stride"], "stride": p["stride"]}
    else:
        high, wide = (max((p[side] + 2 * p.get("pad", 0) - p["filter"]) // p["stride"] + 1, 1) for side in ("height", "width"))
        size = {"op": "upsample", "height": high, "width": wide, "filter": p["stride"], "stride": p["stride"]}
    yield _named(call, "backward", "pool", {**planes, **size})


def _rnn(call: Call) -> Iterator[Call]:
    """Back through the steps as forward through them, then the weights' gradients of all steps in one product."""
    yield _named(call, "data gradient", "rnn", dict(call.params))
    yield _named(call, "weight gradient", "gemm", rnn_weight_gradient(call.params))


def _routing(call: Call) -> Iterator[Call]:
    p = call.params
    yield _named(call, "backward", "rowwise", {"op": "softmax_backward", "rows": p["tokens"], "columns": p["experts"]})


def _again(call: Call) -> Iterator[Call]:
    """Moved back the way it came."""
    yield _named(call, "backward", call.workload, dict(call.params))


_RULES: Mapping[str, Callable[[Call], Iterator[Call]]] = {
    "gemm": _gemm, "grouped_gemm": _grouped, "attention": _attention, "conv": _conv, "rowwise": _rowwise, "pointwise": _pointwise,
    "embedding": _embedding, "embedding_bag": _bag, "pool": _pool, "rnn": _rnn, "routing": _routing, "permute": _again,
    "collective": _again,
}  # fmt: skip
