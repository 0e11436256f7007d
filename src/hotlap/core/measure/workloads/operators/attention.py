"""Attention by PyTorch's scaled_dot_product_attention and the kernels behind it: prefill, decode, shared and latent keys, windows, pages.

Backward calls aten's gradient kernel on the results of a forward pass that was run beforehand, so that only the gradient is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators import attention_backends, attention_reference
from hotlap.core.measure.workloads.operators.attention_shape import AttentionShape, read
from hotlap.core.measure.workloads.operators.base import Maker, Operator
from hotlap.core.measure.workloads.operators.gemm import precision
from hotlap.core.record import Case

Inputs = Mapping[str, Any]


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no kernel of."""
    shape = read(case)
    runner = attention_backends.Runner(library, shape, case.implementation)

    def prepared(make: Maker) -> dict[str, Any]:
        found = inputs(make, shape)
        runner.settle(found)
        return found | (runner.forward_pass(found, make) if shape.backward else {})

    def variant() -> str:
        parts = ["pages gathered, then "] if shape.page else []
        parts += [f"{shape.kv_dtype} widened, then "] if shape.kv_dtype != shape.dtype else []
        return f"torch {''.join(parts)}{runner.name()} {shape.dtype}"

    reference = attention_reference.backward if shape.backward else attention_reference.forward
    return Operator(
        prepared, runner.backward if shape.backward else runner.forward, lambda i: reference(i, shape, *runner.keys(i)), dtype=shape.dtype,
        widen=False, chosen=variant,
    )  # fmt: skip


def inputs(make: Maker, shape: AttentionShape) -> dict[str, Any]:
    """Heads lie within tokens in memory, as projections leave them. Pages are in random order, as a server's allocator leaves them."""
    precision(make, shape.dtype)
    q = make.normal(shape.batch, shape.query, shape.heads, shape.width, dtype=shape.dtype).transpose(1, 2)
    rows = {"kv": shape.latent} if shape.latent else {"k": shape.width, "v": shape.values}
    if not shape.page:
        return {"q": q} | {
            name: make.normal(shape.batch, shape.kv, shape.kv_heads, wide, dtype=shape.kv_dtype).transpose(1, 2)
            for name, wide in rows.items()
        }
    pages = -(-shape.kv // shape.page)
    table = make.order(shape.batch * pages)
    return {"q": q, "table": table} | {
        name: make.normal(shape.batch * pages, shape.page, shape.kv_heads, wide, dtype=shape.kv_dtype) for name, wide in rows.items()
    }
