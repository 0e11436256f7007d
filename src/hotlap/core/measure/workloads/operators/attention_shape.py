"""One attention case: its sizes, what a query of it sees, and what PyTorch has no kernel of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hotlap.core.errors import NotSupported
from hotlap.core.measure.workloads.operators.base import complete, sizes
from hotlap.core.record import Case
from hotlap.core.work.attention import attention_widths
from hotlap.core.work.base import text

TYPES = ("fp32", "fp16", "bf16")


@dataclass(frozen=True)
class AttentionShape:
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


def read(case: Case) -> AttentionShape:
    """A case's parameters. Raises NotSupported."""
    given = complete(case)
    batch, query, kv, heads, kv_heads, width, latent, window, page = sizes(
        given, "batch", "query", "kv", "heads", "kv_heads", "head_dim", "latent", "window", "page"
    )
    kv = kv or query
    shape = AttentionShape(
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


def visible(torch: Any, shape: AttentionShape, queries: Any) -> Any:
    """Which of these queries sees which key, as truth values (queries, keys). The last query sees the last key; without a causal mask a
    window lies about its query, and is moved where it would pass an end."""
    keys = torch.arange(shape.kv, device=queries.device)
    at = (shape.kv - shape.query + queries)[:, None]
    if shape.causal:
        seen = keys <= at
        return seen & (keys > at - shape.window) if shape.window else seen
    if not shape.window:
        return torch.ones(len(queries), shape.kv, dtype=torch.bool, device=queries.device)
    first = (at - shape.window // 2).clamp(0, shape.kv - shape.window)
    return (keys >= first) & (keys < first + shape.window)
