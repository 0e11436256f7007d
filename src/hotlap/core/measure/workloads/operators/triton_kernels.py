"""Kernels in Triton: a tiled matrix product, softmax and RMS norm of rows. Imported only where they are asked for: this needs Triton.

They compile for CUDA and ROCm devices without one, and run on a CPU under TRITON_INTERPRET=1, for their correctness alone. Arguments have
no types here: Triton's compiler reads annotations, and knows its own alone.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(
    a, b, c, add, m, n, k, a_batch, a_row, a_column, b_batch, b_row,
    b_column, c_batch, c_row, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr, group: tl.constexpr,
    precision: tl.constexpr, has_bias: tl.constexpr, has_relu: tl.constexpr, sum_type: tl.constexpr,
):  # fmt: skip
    """A tile of C for each program. Tiles of `group` rows of tiles are taken column by column, so that L2 keeps their rows of A."""
    tile, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    across, down = tl.cdiv(n, tile_n), tl.cdiv(m, tile_m)
    first = tile // (group * across) * group
    height = min(down - first, group)
    row = (first + tile % (group * across) % height) * tile_m + tl.arange(0, tile_m)
    column = (tile % (group * across) // height) * tile_n + tl.arange(0, tile_n)
    row, column = row.to(tl.int64), column.to(tl.int64)
    along = tl.arange(0, tile_k)
    at_a = a + batch * a_batch + row[:, None] * a_row + along[None, :] * a_column
    at_b = b + batch * b_batch + along[:, None] * b_row + column[None, :] * b_column
    total = tl.zeros((tile_m, tile_n), dtype=sum_type)
    for start in range(0, k, tile_k):
        left = tl.load(at_a, mask=(row[:, None] < m) & (start + along[None, :] < k), other=0)
        right = tl.load(at_b, mask=(start + along[:, None] < k) & (column[None, :] < n), other=0)
        total = tl.dot(left, right, total, input_precision=precision, out_dtype=sum_type)
        at_a += tile_k * a_column
        at_b += tile_k * b_row
    if has_bias:
        total += tl.load(add + column, mask=column < n, other=0)[None, :].to(sum_type)
    if has_relu:
        total = tl.maximum(total, 0.0)
    tl.store(c + batch * c_batch + row[:, None] * c_row + column[None, :], total, mask=(row[:, None] < m) & (column[None, :] < n))


@triton.jit
def softmax(x, y, columns, stride, block: tl.constexpr):
    """A row for each program, held whole."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    value = tl.load(x + row * stride + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * stride + at, value / tl.sum(value, 0), mask=at < columns)


@triton.jit
def rmsnorm(x, weight, y, columns, stride, epsilon, block: tl.constexpr):
    """A row for each program, held whole."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, block)
    value = tl.load(x + row * stride + at, mask=at < columns, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / columns + epsilon)
    by = tl.load(weight + at, mask=at < columns, other=0).to(tl.float32)
    tl.store(y + row * stride + at, value * scale * by, mask=at < columns)
