"""What attention and its gradients should be, in fp64, at a cost that stays bounded.

Scores are those of random inputs: rounded weights are off independently, so that their sums are off as random walks are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.measure.workloads.operators.attention_shape import AttentionShape, visible
from hotlap.core.measure.workloads.operators.base import UNIT, Exact
from hotlap.core.measure.workloads.operators.products import WHOLE_FLOP, some, stretched
from hotlap.core.measure.workloads.operators.values import SMALLEST

Inputs = Mapping[str, Any]
MOST_PAIRS, FEWEST_QUERIES = 32, 8  # sequences with key heads, and queries of each, where not all are recomputed
AT_ONCE = 2**24  # scores held at once


def forward(i: Inputs, shape: AttentionShape, k: Any, v: Any) -> list[Exact]:
    """All queries where that is cheap; else a random one in every stretch of queries, of random sequences and heads. No output may leave
    the range of its values, wherever it is."""
    torch, q = _torch(), i["q"]
    each = 2.0 * shape.heads // shape.kv_heads * shape.seen * (shape.width + shape.values)  # operations of a query of all heads of a pair
    pairs = shape.batch * shape.kv_heads
    if pairs * shape.query * each <= WHOLE_FLOP:
        picked, count = torch.arange(pairs), shape.query
    else:
        picked = some(pairs, MOST_PAIRS)
        count = int(min(shape.query, max(FEWEST_QUERIES, WHOLE_FLOP / len(picked) / each)))
    queries = stretched(shape.query, count).to(q.device)
    value, allowed = [], []
    for of, head in _at(picked, shape):
        p = _weights(_group(q, of, head, shape)[:, queries], k[of, head], shape, queries)
        values = v[of, head].double()
        value.append(p @ values)
        allowed.append(_bound(value[-1], p.square() @ values.square(), p @ values.abs(), shape, shape.seen + shape.width))

    def part(c: Any) -> Any:
        return torch.stack([_group(c, of, head, shape)[:, queries] for of, head in _at(picked, shape)])

    hull = v.abs().amax(2).double().repeat_interleave(shape.heads // shape.kv_heads, 1)[:, :, None] * (1 + 4 * UNIT[shape.dtype])
    inside = Exact(torch.ones((), dtype=torch.float64, device=q.device), tolerance=0.0, part=lambda c: (c.abs() <= hull).all().double())
    return [Exact(torch.stack(value), torch.stack(allowed), tolerance=1.0, part=part, also=(inside,))]


def backward(i: Inputs, shape: AttentionShape, k: Any, v: Any) -> list[Exact]:
    """Gradients of whole sequences and key heads: as many random ones as are cheap, one at least."""
    torch, each = _torch(), 2.0 * shape.heads // shape.kv_heads * shape.query * shape.kv * (3 * shape.width + 2 * shape.values)
    pairs = shape.batch * shape.kv_heads
    picked = some(pairs, int(max(1, WHOLE_FLOP / each)))
    gradients = [_gradients(i, shape, (k, v), pair) for pair in _at(picked, shape)]

    def of_group(c: Any) -> Any:
        return torch.stack([_group(c, of, head, shape) for of, head in _at(picked, shape)])

    def of_keys(c: Any) -> Any:
        return torch.stack([c[of, head] for of, head in _at(picked, shape)])

    parts = (of_group, of_keys, of_keys)
    return [
        Exact(torch.stack([one[n][0] for one in gradients]), torch.stack([one[n][1] for one in gradients]), tolerance=1.0, part=parts[n])
        for n in range(3)
    ]


def _gradients(i: Inputs, shape: AttentionShape, keys: tuple[Any, Any], pair: tuple[int, int]) -> list[tuple[Any, Any]]:
    """Value and allowed error of dQ (group, query, width), dK and dV (keys, width) of one sequence and key head; Dao, FlashAttention-2,
    arXiv 2307.08691, section 2.3.2, a stretch of queries at a time."""
    torch, scale = _torch(), shape.width**-0.5
    k, v = (x[pair].double() for x in keys)
    q, grad, o = (_group(i[name], *pair, shape).double() for name in ("q", "grad", "o"))
    by_query: list[list[Any]] = [[], [], []]  # of dQ: value, squares, magnitudes
    dk, dv = ([torch.zeros_like(x) for _ in range(3)] for x in (k, v))
    rows = max(AT_ONCE // (shape.kv * len(q)), 1)
    for at in torch.split(torch.arange(shape.query, device=q.device), rows):
        p = _weights(q[:, at], k, shape, at)
        delta = (grad[:, at] * o[:, at]).sum(-1, keepdim=True)
        ds = p * (grad[:, at] @ v.T - delta)
        size = p * (grad[:, at].abs() @ v.abs().T + delta.abs())
        for part, x in zip(by_query, (ds @ k, ds.square() @ k.square(), size @ k.abs()), strict=True):
            part.append(x)
        for sums, weights, rows_of in ((dk, (ds, size), q[:, at]), (dv, (p, p), grad[:, at])):
            turned = [w.transpose(-1, -2) for w in weights]
            sums[0] += (turned[0] @ rows_of).sum(0)
            sums[1] += (turned[0].square() @ rows_of.square()).sum(0)
            sums[2] += (turned[1] @ rows_of.abs()).sum(0)
    dq = [torch.cat(part, 1) for part in by_query]
    terms = (shape.kv + shape.width, shape.query * len(q) + shape.width, shape.query * len(q))
    result = []
    for (value, squares, sizes), by, count in zip((dq, dk, dv), (scale, scale, 1.0), terms, strict=True):
        result.append((value * by, _bound(value * by, squares * by**2, sizes * by, shape, count)))
    return result


def _bound(value: Any, squares: Any, magnitudes: Any, shape: AttentionShape, terms: int) -> Any:
    """Weights and results are rounded to the inputs' type, each independently; sums are in fp32. Gradients are rounded more often on the
    way: dP and dS are."""
    unit = (4 if shape.backward else 2) * UNIT[shape.dtype]
    return 2 * unit * (value.abs().clamp_min(SMALLEST[shape.dtype]) + 4 * squares.sqrt()) + 4 * terms**0.5 * UNIT["fp32"] * magnitudes


def _weights(q: Any, k: Any, shape: AttentionShape, queries: Any) -> Any:
    """Softmax over the keys that are seen: (group, queries, keys)."""
    scores = q.double() @ k.double().T * shape.width**-0.5
    if not shape.tail:
        scores = scores.masked_fill(~visible(_torch(), shape, queries), float("-inf"))
    return scores.softmax(-1)


def _group(x: Any, of: int, head: int, shape: AttentionShape) -> Any:
    """The query heads that share one key head: (group, queries, width)."""
    size = shape.heads // shape.kv_heads
    return x[of, head * size : (head + 1) * size]


def _at(picked: Any, shape: AttentionShape) -> list[tuple[int, int]]:
    return [(int(pair) // shape.kv_heads, int(pair) % shape.kv_heads) for pair in picked]


def _torch() -> Any:
    import torch

    return torch
