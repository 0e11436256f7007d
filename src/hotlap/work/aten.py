"""Operators of PyTorch (aten) as workloads, by the shapes, types and arguments of a call, as profilers record them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8", "c10::Float8_e4m3fn": "fp8",
    "Float": "fp32", "Half": "fp16", "BFloat16": "bf16", "float16": "fp16", "bfloat16": "bf16",
}  # fmt: skip
Sides = list[list[int]]


class Asked(NamedTuple):
    """A workload and its parameters, as in a plan; what is not given has its default."""

    workload: str
    params: dict[str, Any]

    @property
    def label(self) -> str:
        """For people: gemm bf16 4096 × 4096 × 4096."""
        one = self.params
        if self.workload == "gemm":
            batch = f" × {one['batch']} times" if one.get("batch", 1) > 1 else ""
            return f"gemm {one['dtype']} {one['m']} × {one['n']} × {one['k']}{batch}"
        return f"{self.workload} " + " ".join(str(value) for value in one.values())


def asked(operator: str, dims_json: str, types_json: str, values_json: str = "") -> Asked | None:
    """What an innermost operator computes; None where it is no workload or its shapes are incomplete. `dims_json`: sizes of each
    argument; `types_json`: their element types; `values_json`: arguments that are no tensors, as text; all as Kineto records them."""
    made = OPERATORS.get(operator.removeprefix("aten::").rstrip("_"))
    if made is None:
        return None
    try:
        dims, types = json.loads(dims_json), json.loads(types_json)
        values = json.loads(values_json) if values_json else []
        dtype = next((DTYPES[one] for one in types if one in DTYPES), "")
        return made(dims, dtype, values) if dtype else None
    except (ValueError, IndexError, TypeError, KeyError):
        return None  # a shape of a kind that this operator does not usually have


def _gemm(a: list[int], b: list[int], dtype: str) -> Asked | None:
    """A (…, m, k) by B (…, k, n)."""
    (m, k), n = a[-2:], b[-1]
    if b[-2] != k or min(m, n, k) < 1:
        return None
    return Asked("gemm", {"dtype": dtype, "m": m, "n": n, "k": k, "batch": math.prod(a[:-2])})


def _mm(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
    return _gemm(dims[0], dims[1], dtype)


def _addmm(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
    return _gemm(dims[1], dims[2], dtype)


def _linear(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
    n, k = dims[1]
    rows = math.prod(dims[0][:-1])
    return Asked("gemm", {"dtype": dtype, "m": rows, "n": n, "k": k, "batch": 1}) if dims[0][-1] == k and rows else None


def _conv(dims: Sides, dtype: str, values: list[str]) -> Asked | None:
    """NCHW by OIHW, square filters; stride and padding stand in the operator's concrete arguments, where the profiler kept them."""
    images, channels, height, width = dims[0]
    filters, inner, side, across = dims[1]
    squares = [json.loads(one) for one in values if one.startswith("[")]
    if inner != channels or side != across or len(squares) < 2:
        return None
    (stride, *_), (pad, *_) = sorted(squares[:2], reverse=True) if squares[0][0] < 1 else squares[:2]
    return Asked("conv", {
        "images": images, "channels": channels, "height": height, "width": width, "filters": filters, "filter": side, "stride": stride,
        "pad": pad, "dtype": dtype,
    })  # fmt: skip


def _attention(dims: Sides, dtype: str, values: list[str]) -> Asked | None:
    """Query, key and value as (batch, heads, tokens, head): scaled_dot_product_attention's order."""
    batch, heads, query, head = dims[0]
    _, kv_heads, kv, _ = dims[1]
    causal = any(one.lower() == "true" for one in values)
    return Asked("attention", {
        "batch": batch, "query": query, "kv": kv, "heads": heads, "kv_heads": kv_heads, "head_dim": head, "value_dim": dims[2][-1],
        "mask": "causal" if causal else "full", "dtype": dtype, "kv_dtype": dtype,
    })  # fmt: skip


def _pointwise(op: str) -> Callable[[Sides, str, list[str]], Asked | None]:
    def made(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
        sides = max(len(one) for one in dims)
        # Operands are broadcast: each side of the result is the largest there, from the last on.
        whole = [max(one[-i] for one in dims if len(one) >= i) for i in range(1, sides + 1)]
        elements = math.prod(whole) if whole and all(math.prod(one) for one in dims if one) else 0
        return Asked("pointwise", {"op": op, "elements": elements, "dtype": dtype}) if elements else None

    return made


def _rowwise(op: str) -> Callable[[Sides, str, list[str]], Asked | None]:
    def made(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
        *rows, columns = dims[0]
        count = math.prod(rows)
        return Asked("rowwise", {"op": op, "rows": count, "columns": columns, "dtype": dtype}) if columns and count else None

    return made


def _embedding(dims: Sides, dtype: str, _: list[str]) -> Asked | None:
    (vocabulary, columns), tokens = dims[0], math.prod(dims[1])
    return Asked("embedding", {"tokens": tokens, "columns": columns, "vocabulary": vocabulary, "dtype": dtype}) if tokens else None


OPERATORS: dict[str, Callable[[Sides, str, list[str]], Asked | None]] = {
    "mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _addmm, "linear": _linear, "cudnn_convolution": _conv, "miopen_convolution": _conv,
    "_flash_attention_forward": lambda dims, dtype, values: _attention([[d[0], d[2], d[1], d[3]] for d in dims[:3]], dtype, values),
    "_scaled_dot_product_flash_attention": _attention, "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention, "scaled_dot_product_attention": _attention,
    "add": _pointwise("add"), "mul": _pointwise("add"), "sub": _pointwise("add"), "relu": _pointwise("relu"), "gelu": _pointwise("gelu"),
    "clamp_min": _pointwise("relu"), "copy": _pointwise("copy"), "silu": _pointwise("gelu"),
    "_softmax": _rowwise("softmax"), "_log_softmax": _rowwise("softmax"),
    "native_layer_norm": _rowwise("layernorm"), "_fused_rms_norm": _rowwise("rmsnorm"), "embedding": _embedding,
}  # fmt: skip
