"""What sums of products should be, at a cost that stays bounded: all of it where that is cheap, else rows, columns and sketches.

The inputs of these operators are independent random numbers, so that a sum of k products wanders within about ‖a‖·‖b‖ ÷ √k, and so do
the partial sums of a library that splits k. An element may be off by a few roundings of that, and by what the accumulator adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.measure.workloads.operators.base import UNIT, Exact

WHOLE_FLOP = 2.0**31  # a product of no more operations is recomputed in full
PROBES = 64  # whole rows, and whole columns, of a larger one
BLOCKS = 64  # sums over blocks of columns, with random signs, of every row
SIGMAS = 6.0  # by Hoeffding's inequality a right sum with random signs is farther off once in 3e7
TILE = 64  # where signs do not help, behind an activation: one element of every tile of so many rows and columns
WIDEST = 2.0**26  # elements held at once for that
SUMMED = {**UNIT, "fp22": 2.0**-13}
"""Spacing of the types of accumulators. fp22: in which Hopper's matrix engine sums products of fp8, "around 14 bits" by the DeepSeek-V3
Technical Report, arXiv 2412.19437, 3.5.2."""


class Finish(NamedTuple):
    """What is done to the products on the way out, and in which types they are summed and written."""

    dtype: str  # of the output
    accumulate: str = "fp32"
    add: Any = None  # bias or residual, fp64, broadcast to the output
    apply: Callable[[Any], Any] | None = None  # activation; no steeper than 1.13, as GELU is
    parts: int = 1  # of a sum, after each of which it is rounded to the output's type

    @property
    def exact(self) -> bool:
        return UNIT[self.dtype] == 0.0

    def bound(self, value: Any, norms: Any, terms: int) -> Any:
        """The largest error of an element whose exact value is `value`, and whose operands have these norms' product."""
        wanders = 4 * self._rounded * norms / math.sqrt(terms)
        return 2 * UNIT[self.dtype] * (value.abs() + wanders) + 4 * self._summing(terms) * norms

    def typical(self, norms: Any, terms: int) -> Any:
        """The root mean square of many elements' errors, at most."""
        return 2 * UNIT[self.dtype] * self._rounded * norms / math.sqrt(terms) + self._summing(terms) * norms

    @property
    def _rounded(self) -> float:
        """Times one rounding: of n parts the k-th sum has √(k ÷ n) of the whole's size, which makes √(n ÷ 2) roundings; a bound has some
        to spare."""
        return max(1.0, math.sqrt(self.parts) / 4)

    def _summing(self, terms: int) -> float:
        """What summing adds, as a share of the norms: a fifth of a unit where partial sums are rounded to nearest, independently; where a
        matrix unit cuts them off after every 16 terms or more, that adds up to √terms ÷ 48."""
        return SUMMED[self.accumulate] * max(1.0, math.sqrt(terms) / 32)


def product(a: Any, b: Any, finish: Finish) -> Exact:
    """A (…, m, k) by B (…, k, n), in fp64. A skipped row or column is always seen, and a skipped tile of a product of any size: through
    sums with random signs over blocks of columns, after Freivalds, "Probabilistic machines can use less running time", 1977."""
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if 2.0 * math.prod(a.shape[:-2]) * m * n * k <= WHOLE_FLOP:
        return _view(a, b, finish.add, finish, None)
    rows, columns = some(m), some(n)
    add = None if finish.add is None else finish.add.expand(*a.shape[:-1], n)
    batch = () if a.dim() == 2 else (some(a.shape[0], 4),)
    at_rows = _view(
        a[*batch][..., rows, :], b[*batch], None if add is None else add[*batch][..., rows, :], finish, lambda c: c[*batch][..., rows, :],
    )  # fmt: skip
    at_columns = _view(
        a[*batch], b[*batch][..., columns], None if add is None else add[*batch][..., columns], finish,
        lambda c: c[*batch][..., columns],
    )  # fmt: skip
    whole = _sketch(a, b, add, finish) if finish.apply is None else _grid(a, b, add, finish)
    return at_rows._replace(also=(at_columns, whole))


def _view(a: Any, b: Any, add: Any, finish: Finish, part: Callable[[Any], Any] | None) -> Exact:
    value = a @ b
    if add is not None:
        value = value + add
    norms = a.norm(dim=-1, keepdim=True) * b.norm(dim=-2, keepdim=True)
    return _exact(value, norms, a.shape[-1], finish, part)


def _exact(value: Any, norms: Any, terms: int, finish: Finish, part: Callable[[Any], Any] | None) -> Exact:
    scale = finish.bound(value, norms, terms)
    value = finish.apply(value) if finish.apply else value
    if finish.exact:
        return Exact(value.long(), part=part)
    return Exact(value, (1.13 * scale if finish.apply else scale), tolerance=1.0, part=part)


def _sketch(a: Any, b: Any, add: Any, finish: Finish) -> Exact:
    """Sums of every row over blocks of columns, with random signs: C·X against A·(B·X)."""
    sum_blocks = blocks(b.shape[-1], b)
    value = a @ sum_blocks(b)
    if add is not None:
        value = value + sum_blocks(add)
    if finish.exact:
        return Exact(value.long(), part=lambda c: sum_blocks(c.double()).long())
    inner = sum_blocks(b.square().sum(-2, keepdim=True), signed=False).sqrt()
    allowed = SIGMAS * finish.typical(a.norm(dim=-1, keepdim=True) * inner, a.shape[-1])
    if add is not None:
        allowed = allowed + SIGMAS * 2 * UNIT[finish.dtype] * sum_blocks(add.square(), signed=False).sqrt()
    return Exact(value, allowed, tolerance=1.0, part=sum_blocks)


def blocks(columns: int, like: Any) -> Callable[..., Any]:
    """A function that sums the last side in blocks, with signs that no kernel can know."""
    import torch

    width = -(-columns // BLOCKS)
    count = -(-columns // width)
    signs = torch.from_numpy(np.random.default_rng().choice([-1.0, 1.0], columns)).to(like.device)

    def sum_blocks(x: Any, signed: bool = True) -> Any:
        x = x * signs if signed else x
        return torch.nn.functional.pad(x, (0, count * width - columns)).unflatten(-1, (count, width)).sum(-1)

    return sum_blocks


def _grid(a: Any, b: Any, add: Any, finish: Finish) -> Exact:
    """One random element of every tile."""
    import torch

    rng, k = np.random.default_rng(), a.shape[-1]
    tiles = [(x, y) for x in range(0, a.shape[-2], TILE) for y in range(0, b.shape[-1], TILE)]
    low = np.array(tiles)
    high = np.minimum(low + TILE, [a.shape[-2], b.shape[-1]])
    rows, columns = (torch.from_numpy(rng.integers(low[:, i], high[:, i])).to(a.device) for i in (0, 1))
    value, norms = [], []
    for at in torch.split(torch.arange(len(tiles), device=a.device), max(int(WIDEST / k / math.prod(a.shape[:-2])), 1)):
        left, right = a[..., rows[at], :], b[..., columns[at]].transpose(-1, -2)
        value.append((left * right).sum(-1))
        norms.append(left.norm(dim=-1) * right.norm(dim=-1))
    found = torch.cat(value, -1) + (0.0 if add is None else add[..., rows, columns])
    return _exact(found, torch.cat(norms, -1), k, finish, lambda c: c[..., rows, columns])


def within(exact: Exact, cut: Callable[[Any], Any]) -> tuple[Exact, ...]:
    """The same of a part of the output: `exact` and its further views, after `cut`."""

    def after(part: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
        return (lambda c: part(cut(c))) if part else cut

    return tuple(one._replace(part=after(one.part), also=()) for one in (exact, *exact.also))


def some(of: int, most: int = PROBES) -> Any:
    """Random places, the last one always among them: a tail is what is skipped most often."""
    import torch

    found = np.random.default_rng().choice(of - 1, min(most, of) - 1, replace=False)
    return torch.from_numpy(np.append(found, of - 1))


def stretched(of: int, count: int) -> Any:
    """A random place in each of `count` stretches of as many."""
    import torch

    edges = np.linspace(0, of, count + 1).astype(np.int64)
    return torch.from_numpy(np.random.default_rng().integers(edges[:-1], edges[1:]))
