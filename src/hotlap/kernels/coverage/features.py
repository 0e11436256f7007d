"""What makes one case of a workload different from another for a kernel: dtype, layout, alignment, place at the edge of a tile, size.

Each feature has a few levels; a plan covers a t-way combination when some case has it. Levels of many cases are read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.work.base import STORED
from hotlap.core.work.variety import ALIGNMENTS, EDGES, Rule, Variety
from hotlap.kernels.coverage.groups import GroupColumns

Codes = NDArray[np.int16]
BITS = {dtype: int(8 * size) for dtype, size in STORED.items()}  # of an element, without its scales
SIZES = ("small", "medium", "large")
SIZE_BYTES = (8 * 2**20, 64 * 2**20)
"""Working sets under 8 MiB, under 64 MiB, and from there."""
MOST_LEVELS = 40


@dataclass(frozen=True)
class CoverageFeature:
    """One column of the t-way table. `kind` says how a case with a level is made: choice of a parameter, edge, alignment, size, form."""

    name: str
    levels: tuple[str, ...]
    kind: str
    of: Callable[[GroupColumns], Codes]
    param: str = ""  # of a choice or an edge


LEFT_OUT = {"cache", "precision"}  # how a case is measured, and not what its kernel is


def features(name: str) -> tuple[CoverageFeature, ...]:
    """The columns of a workload's t-way table, in order; () for workloads that declare no variety, as those that run what is not known."""
    spec = work.find(name)
    variety = spec.variety
    if variety is None:
        return ()
    features_ = [_choice(p.name, p.choices or ("false", "true")) for p in spec.params if p.kind == "bool" or _counts(p.name, p.choices)]
    features_ += [CoverageFeature(form.name, tuple(form.levels), "form", _coded(form.of)) for form in variety.forms]
    features_ += [CoverageFeature(f"edge {p}", EDGES, "edge", _edge_of(variety, p), p) for p in variety.edges]
    if aligned(variety):
        features_.append(CoverageFeature("alignment", ALIGNMENTS, "alignment", lambda columns: alignment(variety, columns)))
    if variety.sized:
        features_.append(CoverageFeature("size", SIZES, "size", size_of))
    return tuple(features_)


def aligned(variety: Variety) -> bool:
    """Whether the length of its stored rows counts."""
    return bool(variety.rows or variety.row_lengths)


def _counts(name: str, choices: Sequence[str]) -> bool:
    return name not in LEFT_OUT and 1 < len(choices) <= MOST_LEVELS


def _choice(name: str, levels: tuple[str, ...]) -> CoverageFeature:
    codes = {level: code for code, level in enumerate(levels)}

    def code(word: str) -> int:
        return codes.get(word.lower() if word in ("True", "False") else word, -1)

    return CoverageFeature(name, levels, "choice", lambda columns: columns.by_word(name, code).astype(np.int16), name)


def _coded(of: Callable[[GroupColumns], NDArray[np.int_]]) -> Callable[[GroupColumns], Codes]:
    return lambda columns: of(columns).astype(np.int16)


def _edge_of(variety: Variety, param: str) -> Callable[[GroupColumns], Codes]:
    return lambda columns: edge(extent(variety, param, columns))


def extent(variety: Variety, param: str, columns: GroupColumns) -> NDArray[np.float64]:
    """The sizes of each case whose place at the edge of a tile counts."""
    of = variety.values.get(param)
    return of(columns) if of else columns[param]


def edge(values: NDArray[np.float64]) -> Codes:
    """The level of EDGES of each size."""
    past = values % 64
    return np.select([values % 256 == 0, values % 128 == 0, past == 0, past <= 32], [0, 1, 2, 3], 4).astype(np.int16)


def alignment(variety: Variety, columns: GroupColumns) -> Codes:
    """The level of ALIGNMENTS of each case: its least aligned stored row."""
    bits = columns.by_word("dtype", lambda word: BITS.get(word, 8))
    lowest = np.full(len(bits), 1 << 40, dtype=np.int64)
    for row in row_lengths(variety, columns):
        long = row.astype(np.int64) * bits
        lowest = np.minimum(lowest, long & -long)
    return np.clip(np.log2(np.maximum(lowest, 8) / 8), 0, 4).astype(np.int16)


def row_lengths(variety: Variety, columns: GroupColumns) -> list[NDArray[np.float64]]:
    """Elements from one stored row to the next."""
    return variety.row_lengths(columns) if variety.row_lengths else [columns[row] for row in variety.rows]


def size_of(columns: GroupColumns) -> Codes:
    """The level of SIZES of each case."""
    held = columns["size"] if "size" in columns else columns.counted["working_set_bytes"]
    return np.digitize(held, SIZE_BYTES).astype(np.int16)


def codes(of: Sequence[CoverageFeature], columns: GroupColumns) -> Codes:
    """Cases × features; −1 where a case has none of the levels."""
    return np.stack([one.of(columns) for one in of], axis=1) if of else np.zeros((columns.length, 0), dtype=np.int16)


def rules(name: str, of: Sequence[CoverageFeature]) -> list[Rule]:
    """What cannot be: elements wider than an alignment, rows on a tile's edge that are not aligned, forms that exclude each other."""
    there, variety = {one.name for one in of}, work.find(name).variety or Variety()
    rules_: list[Rule] = []
    if {"alignment", "dtype"} <= there:
        for code, level in enumerate(ALIGNMENTS):
            wide = tuple(dtype for dtype, bits in BITS.items() if bits > 8 << code)
            rules_.append({"alignment": (level,), "dtype": wide})
    if "alignment" in there and variety.rows:  # no pad: rows on an edge are aligned
        rules_.append({"alignment": ALIGNMENTS[:4], **{f"edge {row}": EDGES[:3] for row in variety.rows if f"edge {row}" in there}})
    return [*rules_, *variety.rules]


def allowed(of: Sequence[CoverageFeature], given: Sequence[Rule]) -> Callable[[Codes], NDArray[np.bool_]] | None:
    """The rules as `covering` asks for them; None where there are none."""
    if not given:
        return None
    names = [one.name for one in of]
    sets = [[(names.index(name), np.array([level in bad for level in (*of[names.index(name)].levels, "")])) for name, bad in rule.items()]
            for rule in given]  # fmt: skip

    def may(rows: Codes) -> NDArray[np.bool_]:
        fine = np.ones(len(rows), dtype=bool)
        for rule in sets:
            fine &= ~np.logical_and.reduce([bad[rows[:, column]] for column, bad in rule])  # −1 is the last, never bad
        return fine

    return may


