"""Covering arrays by algebra, where one is known for the levels asked: orthogonal arrays over finite fields, and orbits of PGL(2, q).

All have equal levels in every column. What fits is the start of `covering.design`, which takes levels away and makes it smaller.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hotlap.kernels.coverage.tuples import Rows

LARGEST = 25  # of the fields and level counts that are tried
STEPS = 6000  # of the search for splits, each of which changes one place
MOST_ROWS = 40_000
MOST_SEARCHED = 16  # columns of three levels, for which the rows themselves are searched for
TRIES = 4


def arrays(columns: int, levels: int, strength: int, patient: bool) -> Iterator[tuple[str, Rows]]:
    """Arrays of at least these columns and levels with every tuple covered, each with the name of its construction. `patient`: also
    those that are searched for, which takes seconds."""
    for order in range(max(levels, 2), LARGEST + 1):
        room = order + 2 if strength == 3 and order % 2 == 0 else order + 1
        if _prime_power(order) and columns <= room and order**strength <= MOST_ROWS:
            fused = "" if order == levels else f" fused from {order} levels"
            yield f"orthogonal array over GF({order}){fused}", bush(order, strength)[:, :columns]
            break
    room = MOST_SEARCHED if levels == 3 else 2 * (levels - 1)
    if patient and strength == 3 and levels >= 3 and _prime_power(levels - 1) and columns <= room:
        made = orbits(columns, levels)
        if made is not None:
            yield f"orbits of PGL(2, {levels - 1})", made


# ---------------------------------------------------------------- finite fields


def _prime_power(order: int) -> tuple[int, int] | None:
    """Prime and exponent."""
    for prime in range(2, order + 1):
        if order % prime == 0:
            exponent = round(np.log(order) / np.log(prime))
            return (prime, exponent) if prime**exponent == order else None
    return None


@functools.cache
def field(order: int) -> tuple[Rows, Rows]:
    """Tables of sum and product of GF(order); element n stands for the polynomial whose coefficients are n's digits to the prime."""
    factored = _prime_power(order)
    if factored is None:
        raise ValueError(f"{order} is not a power of a prime")
    prime, exponent = factored
    digits = np.array([[n // prime**i % prime for i in range(exponent)] for n in range(order)])
    powers = prime ** np.arange(exponent)
    total = ((digits[:, None] + digits[None]) % prime) @ powers
    for low in range(order):  # the first polynomial x^exponent + low that makes a field: no product of others is zero
        product = _products(digits, digits[low], prime, exponent) @ powers
        if exponent == 1 or (np.count_nonzero(product[1:, 1:] == 0) == 0):
            return total.astype(np.int16), product.astype(np.int16)
    raise ValueError(f"no field of {order} elements was found")


def _products(digits: NDArray[np.int_], low: NDArray[np.int_], prime: int, exponent: int) -> NDArray[np.int_]:
    """Products of polynomials, their high terms folded back by x^exponent = −low."""
    order = len(digits)
    long = np.zeros((order, order, 2 * exponent - 1), dtype=int)
    for i, j in itertools.product(range(exponent), repeat=2):
        long[:, :, i + j] += digits[:, None, i] * digits[None, :, j]
    for high in range(2 * exponent - 2, exponent - 1, -1):
        for i in range(exponent):
            long[:, :, high - exponent + i] -= long[:, :, high] * low[i]
    return long[:, :, :exponent] % prime


def bush(order: int, strength: int) -> Rows:
    """The orthogonal array of all polynomials below degree `strength` at every element, and their highest coefficient; of strength 3
    over even fields one column more (K. A. Bush, Annals of Mathematical Statistics 23, 1952)."""
    total, product = field(order)
    coefficients = np.array(list(itertools.product(range(order), repeat=strength)), dtype=np.int16)  # highest first
    columns = []
    for x in range(order):
        value = np.zeros(len(coefficients), dtype=np.int16)
        for place in range(strength):  # Horner
            value = total[product[value, x], coefficients[:, place]]
        columns.append(value)
    columns.append(coefficients[:, 0])
    if strength == 3 and order % 2 == 0:
        columns.append(coefficients[:, 1])
    return np.stack(columns, axis=1)


# ---------------------------------------------------------------- orbits of a group that takes any three levels to any three


@functools.cache
def _maps(levels: int) -> Rows:
    """The maps x → (ax + b) ÷ (cx + d) of the projective line over GF(levels − 1), one a row; the last level is infinity."""
    q = levels - 1
    total, product = field(q)
    inverse = [0, *(int(np.flatnonzero(product[x] == 1)[0]) for x in range(1, q))]
    negative = [int(np.flatnonzero(total[x] == 0)[0]) for x in range(q)]
    rows = []
    for a, b, (c, d) in itertools.product(range(q), range(q), [(0, 1), *((1, d) for d in range(q))]):
        if total[product[a, d], negative[product[b, c]]] == 0:
            continue
        row = []
        for x in range(q):
            over, under = total[product[a, x], b], total[product[c, x], d]
            row.append(q if under == 0 else product[over, inverse[under]])
        row.append(q if c == 0 else product[a, inverse[c]])
        rows.append(row)
    return np.array(rows, dtype=np.int16)


def orbits(columns: int, levels: int, seed: int = 1) -> Rows | None:
    """Strength 3: rows whose images under PGL(2, levels − 1) cover everything (after Chateauneuf, Colbourn and Kreher, Designs, Codes
    and Cryptography 16, 1999). One or two rows set any three columns apart, or a search finds those that do; rows of two levels do the
    rest, found by a search."""
    if columns > 2 * (levels - 1):
        return _sought(columns, levels, seed)
    if columns <= levels:
        apart = np.arange(columns, dtype=np.int16)[None]
    else:  # two stars in the graph of pairs of levels: no three of its edges meet twice
        half = columns // 2
        first, second = np.zeros((2, columns), dtype=np.int16)
        first[:half], second[half:] = np.arange(1, half + 1), np.arange(1, columns - half + 1)
        apart = np.stack([first, second])
    splits = _splits(apart, seed)
    return None if splits is None else _images(apart, splits, levels)


def _images(apart: Rows, splits: Rows, levels: int) -> Rows:
    """All rows that the group makes of these, and those of one level."""
    columns, maps = apart.shape[1], _maps(levels)
    parts = [maps[:, row] for row in apart]
    pairs = np.array(list(itertools.permutations(range(levels), 2)), dtype=np.int16)
    parts += [pairs[:, row] for row in splits]
    parts.append(np.repeat(np.arange(levels, dtype=np.int16)[:, None], columns, axis=1))
    return np.unique(np.concatenate(parts), axis=0)


def _sought(columns: int, levels: int, seed: int) -> Rows | None:
    """Rows of all levels and rows of two, as few images as a search finds."""
    triples = np.array(list(itertools.combinations(range(columns), 3)))
    nothing = np.zeros((4, len(triples)), dtype=bool)
    whole, pair = levels * (levels - 1) * (levels - 2), levels * (levels - 1)
    counts = sorted((full * whole + two * pair, full, two) for full in range(2, 9) for two in range(9) if two == 0 or pair < whole)
    rng = np.random.default_rng(seed)
    for size, full, two in counts:
        if size * 3 < 2 * levels**3 or full * 4 + two * 3 < 4 * np.log2(columns):
            continue
        limits = np.array([levels] * full + [2] * two)
        for _ in range(TRIES):
            begun = (rng.random((full + two, columns)) * limits[:, None]).astype(np.int16)
            found = _search(begun, triples, nothing, rng, limits)
            if found is not None:
                return _images(found[:full], found[full:], levels)
    return None


def _splits(apart: Rows, seed: int) -> Rows | None:
    """The fewest rows of two levels with which, of any three columns, each is once alone; None where the search finds none."""
    columns = apart.shape[1]
    triples = np.array(list(itertools.combinations(range(columns), 3)))
    there = _patterns(apart, triples, three=False)
    if there.all():
        return np.zeros((0, columns), dtype=np.int16)
    rng = np.random.default_rng(seed)
    for count in range(1, 2 * columns):
        for _ in range(3):
            found = _search(rng.integers(0, 2, (count, columns)).astype(np.int16), triples, there, rng)
            if found is not None:
                return found
    return None


def _search(
    rows: Rows, triples: NDArray[np.int_], there: NDArray[np.bool_], rng: np.random.Generator, limits: NDArray[np.int_] | None = None,
) -> Rows | None:  # fmt: skip
    """Changes one place at a time, mostly for the better, until every pattern of three columns is there. `limits`: levels of each row;
    without them two, and whether all three differ does not count."""
    three = limits is not None
    left = int(np.count_nonzero(~(there | _patterns(rows, triples, three))))
    for step in range(STEPS):
        if left == 0:
            return rows
        row, column = int(rng.integers(len(rows))), int(rng.integers(rows.shape[1]))
        before, room = int(rows[row, column]), 2 if limits is None else int(limits[row])
        rows[row, column] = (before + 1 + int(rng.integers(room - 1))) % room
        now = int(np.count_nonzero(~(there | _patterns(rows, triples, three))))
        if now <= left or rng.random() < np.exp((left - now) / (0.6 * (1 - step / STEPS) + 1e-9)):
            left = now
        else:
            rows[row, column] = before
        if step == STEPS // 4 and left > 12 * len(rows):
            return None
    return rows if left == 0 else None


def _patterns(rows: Rows, triples: NDArray[np.int_], three: bool) -> NDArray[np.bool_]:
    """For each three columns and each of them: whether some row has it alone and the other two alike; `three`: also whether some row
    has three levels there."""
    a, b, c = (rows[:, triples[:, place]] for place in range(3))
    ab, ac, bc = a == b, a == c, b == c
    found = [bc & ~ab, ac & ~ab, ab & ~ac, *([~(ab | ac | bc)] if three else [])]
    return np.stack([one.any(axis=0) for one in found])
