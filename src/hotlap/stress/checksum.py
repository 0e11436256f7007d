"""Checksums of a matrix product that find a flipped bit, and how large a change they are sure to find.

Rows and columns of C = A·B are summed and compared with A·(B·1) and (1ᵀ·A)·B, computed apart from C in fp64 (Huang and
Abraham, IEEE Trans. Computers C-33, 1984). Rounding moves a sum by no more than the a-priori bound of `Sums`; what moves it
further is an error. Smaller changes are for the bitwise repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROUNDING = {  # dtype → (unit roundoff of the accumulation, of the result); products of integers are exact
    "fp64": (2.0**-53, 2.0**-53), "fp32": (2.0**-24, 2.0**-24), "tf32": (2.0**-11, 2.0**-11), "fp16": (2.0**-24, 2.0**-11),
    "bf16": (2.0**-24, 2.0**-8), "fp8": (2.0**-13, 2.0**-8), "int8": (0.0, 0.0),
}
ABOVE = 4.0  # times the bound: what is called above rounding
EXACT = 2.0**-53


class Flip(NamedTuple):
    """One element of C that is not what it should be."""

    row: int
    column: int
    expected: int  # as bits
    got: int
    bits: list[int]  # positions that differ, 0 is the least significant
    by: str  # checksum or repeat: what found it


@dataclass(frozen=True)
class Sums:
    """What rows (m) and columns (n) of the product add up to, in fp64, and how far rounding may move them."""

    rows: Array
    columns: Array
    row_bounds: Array
    column_bounds: Array


def expected(a: Array, b: Array, dtype: str) -> Sums:
    """Of A (m × k) and B (k × n), both exact in fp64. The bound of a sum is Σ|a||b| · (γ of k accumulations + one rounding of the
    result), and γ of the sums in fp64 (Higham, Accuracy and Stability of Numerical Algorithms, 2002, 3.1 and 3.5)."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    (m, k), n = a.shape, b.shape[1]
    accumulate, result = ROUNDING[dtype]
    share = _gamma(k, accumulate) + result * (1 + _gamma(k, accumulate))
    size_a, size_b = np.abs(a), np.abs(b)
    row_sizes, column_sizes = size_a @ size_b.sum(axis=1), size_a.sum(axis=0) @ size_b
    exact = dtype == "int8"  # sums of integers below 2⁵³ are exact
    row_share, column_share = (0.0, 0.0) if exact else (share + 2 * _gamma(k + n, EXACT), share + 2 * _gamma(k + m, EXACT))
    return Sums(a @ b.sum(axis=1), a.sum(axis=0) @ b, row_sizes * row_share, column_sizes * column_share)


def _gamma(count: int, unit: float) -> float:
    return count * unit / (1 - count * unit) if count * unit < 1 else 1.0


def beyond(sums: Sums, c: Array) -> tuple[Array, Array]:
    """Indices of rows and of columns of C (m × n) whose sums are further off than rounding explains; what is not finite counts."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.abs(c.sum(axis=1, dtype=np.float64) - sums.rows)
        columns = np.abs(c.sum(axis=0, dtype=np.float64) - sums.columns)
    return np.flatnonzero(~(rows <= sums.row_bounds)), np.flatnonzero(~(columns <= sums.column_bounds))


def flips(first: Array, again: Array, checked: tuple[Array, Array] | None = None, most: int = 64) -> list[Flip]:
    """Elements whose bits differ between a product that its checksums cleared and a repeat of it, `most` at most. Found by checksum where
    row or column is in `checked`, else by the repeat."""
    a, b = bits(first), bits(again)
    rows, columns = checked if checked else (np.empty(0, int), np.empty(0, int))
    flips_: list[Flip] = []
    for row, column in zip(*np.nonzero(a != b), strict=True):
        was, now = int(a[row, column]), int(b[row, column])
        by = "checksum" if row in rows or column in columns else "repeat"
        flips_.append(Flip(int(row), int(column), was, now, [p for p in range(a.itemsize * 8) if (was ^ now) >> p & 1], by))
        if len(flips_) == most:
            break
    return flips_


def bits(c: Array) -> Array:
    """The array's bits as unsigned integers of its width."""
    return np.ascontiguousarray(c).view(f"u{c.dtype.itemsize}")


def covered(sums: Sums, c: Array, width: int | None = None) -> dict[int, float]:
    """Bit position → share of elements of C (m × n) whose flip there moves a checksum by more than `ABOVE` times its bound. `c` may be
    held in a wider type than `width` bits (bf16 as fp32): then only its upper bits are looked at."""
    words, size = bits(c), c.dtype.itemsize * 8
    width = width or size
    bound = ABOVE * np.minimum(sums.row_bounds[:, None], sums.column_bounds[None, :])
    shares: dict[int, float] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for position in range(width):
            mask = words.dtype.type(1 << (size - width + position))
            change = np.abs((words ^ mask).view(c.dtype).astype(np.float64) - c.astype(np.float64))
            shares[position] = float(np.mean(~(change <= bound)))
    return shares
