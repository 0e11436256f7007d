"""What makes one case of a workload different from another for a kernel: dtype, layout, alignment, place at the edge of a tile, size.

Each feature has a few levels; a plan covers a t-way combination when some case has it. Levels of many cases are read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.work.base import STORED
from hotlap.core.work.program import OWN
from hotlap.kernels.coverage.groups import Columns

Codes = NDArray[np.int16]
BITS = {dtype: int(8 * size) for dtype, size in STORED.items()}  # of an element, without its scales
EDGES = ("on 256", "on 128", "on 64", "above", "below")
"""A size against the tiles of kernels: a multiple of 256, of 128 or of 64; 1 to 32 above a multiple of 64, or 1 to 31 below one."""
ALIGNMENTS = ("1 B", "2 B", "4 B", "8 B", "16 B")
"""The largest power of two that divides the bytes of every stored row, 16 and more as one."""
SIZES = ("small", "medium", "large")
SIZE_BYTES = (8 * 2**20, 64 * 2**20)
"""Working sets under 8 MiB, under 64 MiB, and from there."""
MOST_LEVELS = 40


@dataclass(frozen=True)
class Feature:
    """One column of the t-way table. `kind` says how a case with a level is made: choice of a parameter, edge, alignment, size, form."""

    name: str
    levels: tuple[str, ...]
    kind: str
    of: Callable[[Columns], Codes]
    param: str = ""  # of a choice or an edge


Rule = Mapping[str, tuple[str, ...]]
"""Levels by feature that cannot stand together."""


@dataclass(frozen=True)
class Forms:
    """Features of one workload that are not the choice of one parameter: levels with the parameters that give them."""

    name: str
    levels: Mapping[str, Mapping[str, Any]]
    of: Callable[[Columns], NDArray[np.int_]]


EXTENTS = {  # parameters whose place at the edge of a tile counts
    "gemm": ("m", "n", "k"), "grouped_gemm": ("m", "n", "k"), "attention": ("kv",), "conv": ("channels",), "moe": ("tokens", "hidden"),
    "rowwise": ("rows", "columns"), "transpose": ("rows", "columns"), "pointwise": ("elements",), "embedding": ("columns",),
    "scatter": ("columns",), "embedding_bag": ("columns",), "permute": ("columns",), "topk": ("columns",), "sampling": ("columns",),
    "optimizer": ("elements",), "routing": ("tokens",), "rnn": ("hidden",), "pool": ("channels",), "fft": ("n",), "spmv": ("rows",),
    "stencil": ("width",), "reduce": ("elements",), "scan": ("elements",), "sort": ("elements",), "histogram": ("elements",),
    "montecarlo": ("paths",),
}  # fmt: skip
GROWN = {  # what else grows so that a case reaches a size
    "attention": ("batch",), "conv": ("images",), "pool": ("images",), "embedding": ("tokens",), "scatter": ("tokens",),
    "embedding_bag": ("bags",), "permute": ("tokens",), "topk": ("rows",), "sampling": ("rows",), "rnn": ("steps",), "fft": ("batch",),
    "stencil": ("height",), "routing": (), "moe": ("inter",),
}  # fmt: skip
ROWS = {  # parameters that are the length of a stored row
    "grouped_gemm": ("k", "n"), "rowwise": ("columns",), "transpose": ("columns",), "embedding": ("columns",), "scatter": ("columns",),
    "embedding_bag": ("columns",), "permute": ("columns",), "topk": ("columns",), "sampling": ("columns",), "stencil": ("width",),
}  # fmt: skip
STORED_IN = {"m": ("tn", "tt"), "n": ("nn", "tn"), "k": ("nn", "nt", "tt")}
"""Of a gemm: the layouts in which a stored row is so long."""
SIZELESS = ("montecarlo", "routing", "fma", "launch", "sync", "atomic", "barrier", "histogram")
"""Their working set says little, or cannot be had in every size."""


def _where(*conditions: NDArray[np.bool_]) -> NDArray[np.int_]:
    """The first condition that holds; the last level where none does."""
    return np.select(list(conditions), list(range(len(conditions))), len(conditions))


def _phase(c: Columns) -> NDArray[np.int_]:
    return _where(c["query"] <= 1, (c["kv"] == 0) | (c["kv"] == c["query"]))


def _sharing(c: Columns) -> NDArray[np.int_]:
    return _where(c["latent"] > 0, c["kv_heads"] == c["heads"], c["kv_heads"] == 1)


def _grouping(c: Columns) -> NDArray[np.int_]:
    return _where(c["groups"] == 1, c["groups"] >= c["channels"])


def _rank(c: Columns) -> NDArray[np.int_]:
    return _where(c["depth"] > 0, (c["height"] == 1) & (c["filter_height"] == 1))


FORMS: Mapping[str, tuple[Forms, ...]] = {
    "gemm": (Forms("products", {"one": {"batch": 1}, "several": {"batch": 2}}, lambda c: _where(c["batch"] == 1)),),
    "attention": (
        Forms("phase", {"decode": {"query": 1}, "prefill": {"kv": 0}, "append": {}}, _phase),
        Forms(
            "heads",
            {
                "latent": {"heads": 4, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576},
                "own": {"heads": 8, "kv_heads": 8}, "one": {"heads": 8, "kv_heads": 1}, "grouped": {"heads": 16, "kv_heads": 4},
            },
            _sharing,
        ),
        Forms(
            "width",
            {"64": {"head_dim": 64}, "128": {"head_dim": 128}, "other": {"head_dim": 96}},
            lambda c: _where(c["head_dim"] == 64, c["head_dim"] == 128),
        ),
        Forms("window", {"none": {"window": 0}, "some": {"window": 48}}, lambda c: _where(c["window"] == 0)),
        Forms("pages", {"none": {"page": 0}, "some": {"page": 16}}, lambda c: _where(c["page"] == 0)),
    ),
    "conv": (
        Forms("grouping", {"none": {"groups": 1}, "depthwise": {}, "groups": {}}, _grouping),
        Forms(
            "dimensions",
            {"3-D": {"depth": 8}, "1-D": {"height": 1, "filter_height": 1}, "2-D": {}},
            _rank,
        ),
        Forms(
            "filter",
            {"1": {"filter": 1, "pad": 0}, "3": {"filter": 3, "pad": 1}, "wide": {"filter": 7, "pad": 3}},
            lambda c: _where(c["filter"] == 1, c["filter"] <= 3),
        ),
        Forms("stride", {"1": {"stride": 1}, "more": {"stride": 2}}, lambda c: _where(c["stride"] == 1)),
        Forms("dilation", {"1": {"dilation": 1}, "more": {"dilation": 2}}, lambda c: _where(c["dilation"] == 1)),
    ),
    "fft": (Forms("dimensions", {"1": {"dims": 1}, "2": {"dims": 2}}, lambda c: _where(c["dims"] == 1)),),
}  # fmt: skip
"""Levels in the order in which `of` tells them."""
LEFT_OUT = {"cache", "precision"}  # how a case is measured, and not what its kernel is


def features(name: str) -> tuple[Feature, ...]:
    """The columns of a workload's t-way table, in order; () for workloads that run what is not known."""
    if name in OWN:
        return ()
    spec = work.find(name)
    found = [_choice(p.name, p.choices or ("false", "true")) for p in spec.params if p.kind == "bool" or _counts(p.name, p.choices)]
    found += [Feature(form.name, tuple(form.levels), "form", _coded(form.of)) for form in FORMS.get(name, ())]
    found += [Feature(f"edge {p}", EDGES, "edge", _edge_of(name, p), p) for p in EXTENTS.get(name, ())]
    if name in ROWS or name in ("gemm", "conv"):
        found.append(Feature("alignment", ALIGNMENTS, "alignment", lambda columns: alignment(name, columns)))
    if name not in SIZELESS:
        found.append(Feature("size", SIZES, "size", size_of))
    return tuple(found)


def _counts(name: str, choices: Sequence[str]) -> bool:
    return name not in LEFT_OUT and 1 < len(choices) <= MOST_LEVELS


def _choice(name: str, levels: tuple[str, ...]) -> Feature:
    codes = {level: code for code, level in enumerate(levels)}

    def told(word: str) -> int:
        return codes.get(word.lower() if word in ("True", "False") else word, -1)

    return Feature(name, levels, "choice", lambda columns: columns.by_word(name, told).astype(np.int16), name)


def _coded(of: Callable[[Columns], NDArray[np.int_]]) -> Callable[[Columns], Codes]:
    return lambda columns: of(columns).astype(np.int16)


def _edge_of(name: str, param: str) -> Callable[[Columns], Codes]:
    if name == "attention":
        return lambda columns: edge(np.where(columns["kv"] > 0, columns["kv"], columns["query"]))
    return lambda columns: edge(columns[param])


def edge(values: NDArray[np.float64]) -> Codes:
    """The level of EDGES of each size."""
    past = values % 64
    return np.select([values % 256 == 0, values % 128 == 0, past == 0, past <= 32], [0, 1, 2, 3], 4).astype(np.int16)


def alignment(name: str, columns: Columns) -> Codes:
    """The level of ALIGNMENTS of each case: its least aligned stored row."""
    bits = columns.by_word("dtype", lambda word: BITS.get(word, 8))
    lowest = np.full(len(bits), 1 << 40, dtype=np.int64)
    for row in row_lengths(name, columns):
        long = row.astype(np.int64) * bits
        lowest = np.minimum(lowest, long & -long)
    return np.clip(np.log2(np.maximum(lowest, 8) / 8), 0, 4).astype(np.int16)


def row_lengths(name: str, columns: Columns) -> list[NDArray[np.float64]]:
    """Elements from one stored row to the next."""
    if name == "gemm":
        first = np.where(columns.by_word("layout", lambda word: word[0] == "n") > 0, columns["k"], columns["m"])
        second = np.where(columns.by_word("layout", lambda word: word[1] == "n") > 0, columns["n"], columns["k"])
        return [first + columns["pad"], second + columns["pad"]]
    if name == "conv":
        return [np.where(columns.by_word("layout", lambda word: word == "nhwc") > 0, columns["channels"], columns["width"])]
    return [columns[row] for row in ROWS[name]]


def size_of(columns: Columns) -> Codes:
    """The level of SIZES of each case."""
    held = columns["size"] if "size" in columns else columns.counted["working_set_bytes"]
    return np.digitize(held, SIZE_BYTES).astype(np.int16)


def codes(of: Sequence[Feature], columns: Columns) -> Codes:
    """Cases × features; −1 where a case has none of the levels."""
    return np.stack([one.of(columns) for one in of], axis=1) if of else np.zeros((columns.length, 0), dtype=np.int16)


def rules(name: str, of: Sequence[Feature]) -> list[Rule]:
    """What cannot be: elements wider than an alignment, rows on a tile's edge that are not aligned, forms that exclude each other."""
    there = {one.name for one in of}
    found: list[Rule] = []
    if {"alignment", "dtype"} <= there:
        for code, level in enumerate(ALIGNMENTS):
            wide = tuple(dtype for dtype, bits in BITS.items() if bits > 8 << code)
            found.append({"alignment": (level,), "dtype": wide})
    if name == "gemm":  # half a byte an element: less than 32 elements below a tile, no row is aligned to 16 B
        halves = tuple(dtype for dtype, bits in BITS.items() if bits == 4)
        for row, layouts in STORED_IN.items():
            found.append({"dtype": halves, "layout": layouts, "alignment": ("16 B",), f"edge {row}": ("below",)})
    if "alignment" in there and name in ROWS:  # no pad: rows on an edge are aligned
        found.append({"alignment": ALIGNMENTS[:4], **{f"edge {row}": EDGES[:3] for row in ROWS[name] if f"edge {row}" in there}})
    if name == "conv":
        found.append({"layout": ("nhwc",), "edge channels": EDGES[:3], "alignment": ALIGNMENTS[:4]})
    if name == "attention":
        found.append({"heads": ("latent",), "width": ("64", "128")})
    return found


def allowed(of: Sequence[Feature], given: Sequence[Rule]) -> Callable[[Codes], NDArray[np.bool_]] | None:
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


