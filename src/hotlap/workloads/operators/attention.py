"""Attention by PyTorch's scaled_dot_product_attention and the kernels behind it: prefill, decode, shared and latent keys, windows, pages.

Backward calls aten's gradient kernel on the results of a forward pass that was run beforehand, so that only the gradient is timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotlap.errors import NotSupported
from hotlap.record import Case
from hotlap.work.base import text
from hotlap.work.network import attention_widths
from hotlap.workloads.operators import attention_backends, attention_reference
from hotlap.workloads.operators.base import Maker, Operator, complete, sizes
from hotlap.workloads.operators.gemm import precision

Inputs = Mapping[str, Any]
TYPES = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class Shape:
    """One attention case."""

    batch: int
    query: int
    kv: int
    heads: int
    kv_heads: int
    width: int
    values: int
    latent: int
    window: int  # 0: every key
    page: int
    causal: bool
    dtype: str
    kv_dtype: str
    backward: bool

    @property
    def shared(self) -> bool:
        """Several query heads share keys."""
        return self.heads != self.kv_heads

    @property
    def tail(self) -> bool:
        """One query sees the last keys of its window: the others are left out, no mask is needed."""
        return bool(self.window) and self.query == 1

    @property
    def masked(self) -> bool:
        """PyTorch needs a mask: its own causal one lets the first query see the first key alone, ours the last see all."""
        return not self.tail and (bool(self.window) or (self.causal and self.query not in (1, self.kv)))

    @property
    def plain_causal(self) -> bool:
        return self.causal and not self.window and self.query == self.kv > 1

    @property
    def seen(self) -> int:
        """Keys that the kernel is given."""
        return self.window if self.tail else self.kv


def operator(case: Case, library: Any) -> Operator:
    """Raises NotSupported for what PyTorch has no kernel of."""
    shape = read(case)
    runner = attention_backends.Runner(library, shape, case.implementation)

    def made(make: Maker) -> dict[str, Any]:
        found = inputs(make, shape)
        runner.settle(found)
        return found | (runner.forward_pass(found, make) if shape.backward else {})

    def variant() -> str:
        parts = ["pages gathered, then "] if shape.page else []
        parts += [f"{shape.kv_dtype} widened, then "] if shape.kv_dtype != shape.dtype else []
        return f"torch {''.join(parts)}{runner.name()} {shape.dtype}"

    reference = attention_reference.backward if shape.backward else attention_reference.forward
    return Operator(
        made, runner.backward if shape.backward else runner.forward, lambda i: reference(i, shape, *runner.keys(i)), dtype=shape.dtype,
        widen=False, chosen=variant,
    )  # fmt: skip


def read(case: Case) -> Shape:
    """A case's parameters. Raises NotSupported."""
    given = complete(case)
    batch, query, kv, heads, kv_heads, width, latent, window, page = sizes(
        given, "batch", "query", "kv", "heads", "kv_heads", "head_dim", "latent", "window", "page"
    )
    kv = kv or query
    shape = Shape(
        batch, query, kv, heads, kv_heads, width, int(attention_widths(given)[0]), latent, window if window < kv else 0, page,
        text(given, "mask") == "causal", text(given, "dtype"), text(given, "kv_dtype"), text(given, "op") == "backward",
    )  # fmt: skip
    if shape.dtype not in TYPES:
        raise NotSupported(f"PyTorch has no attention of {shape.dtype}")
    if shape.kv_dtype not in (*TYPES, "fp8"):
        raise NotSupported(f"PyTorch has no attention with keys and values of {shape.kv_dtype}")
    if shape.backward and (page or latent):
        raise NotSupported(f"gradients are taken in training, which {'keeps no pages' if page else 'expands latents to keys and values'}")
    if shape.backward and shape.kv_dtype != shape.dtype:
        raise NotSupported(f"PyTorch takes no gradients of {shape.dtype} queries through keys of {shape.kv_dtype}; set kv_dtype")
    return shape


def inputs(make: Maker, shape: Shape) -> dict[str, Any]:
    """Heads lie within tokens in memory, as projections leave them. Pages are in random order, as a server's allocator leaves them."""
    precision(make, shape.dtype)
    q = make.normal(shape.batch, shape.query, shape.heads, shape.width, dtype=shape.dtype).transpose(1, 2)
    rows = {"kv": shape.latent} if shape.latent else {"k": shape.width, "v": shape.values}
    if not shape.page:
        return {"q": q} | {
            name: make.normal(shape.batch, shape.kv, shape.kv_heads, wide, dtype=shape.kv_dtype).transpose(1, 2) for name, wide in rows.items()
        }
    pages = -(-shape.kv // shape.page)
    table = make.order(shape.batch * pages)
    return {"q": q, "table": table} | {
        name: make.normal(shape.batch * pages, shape.page, shape.kv_heads, wide, dtype=shape.kv_dtype) for name, wide in rows.items()
    }
