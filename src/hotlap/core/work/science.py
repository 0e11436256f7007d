"""Operations and bytes of scientific kernels: transforms, sparse products, stencils, sums, sorting, simulation by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotlap.core.record import Value
from hotlap.core.work.base import DTYPES, STORED, Param, Work, Workload, bandwidth, bounded, count, element_type, plain, text
from hotlap.core.work.network import INDEX_BYTES, touched
from hotlap.core.work.traits import L2_HOLDS, SECTOR, Passes
from hotlap.core.work.variety import Variety, VarietyForm, first

REDUCTIONS = {"sum": 1.0, "max": 1.0, "norm": 2.0}
"""FLOP an element."""
FLOATS = ("fp64", "fp32", "fp16", "bf16")
DIGIT_BITS = 8.0  # of a pass of a radix sort
FFT_POINTS = 12.0  # log₂ of the points that one pass transforms in shared memory
HALO = 0.1  # of a stencil's grid that is read again
PAYOFF = 8.0  # FLOP a path and step: scale, shift, exponential counted as one, payoff, sum


def _fft(params: Mapping[str, Value]) -> Work:
    """Complex transforms; 34/9·n·log₂ n FLOP is the fewest known (Johnson and Frigo, IEEE Trans. Signal Processing 55(1), 2007). The usual
    5·n·log₂ n is a convention, no bound."""
    batch, n = count(params, "batch"), count(params, "n")
    points = plain(n ** count(params, "dims"))
    moved = batch * points * 2.0 * DTYPES[text(params, "dtype")]
    operations = 34.0 / 9.0 * batch * points * np.log2(np.maximum(points, 2.0))
    return Work(
        read_bytes=moved, written_bytes=moved, operations={f"fma.{text(params, 'dtype')}": plain(operations)}, working_set_bytes=2 * moved
    )


def _spmv(params: Mapping[str, Value]) -> Work:
    """Compressed rows: a value and a column number for each nonzero; of the vector what random columns meet, the result once."""
    rows, columns, nonzeros = (count(params, name) for name in ("rows", "columns", "nonzeros"))
    size = STORED[text(params, "dtype")]
    met = touched(rows * nonzeros, columns) if text(params, "pattern") == "random" else np.minimum(columns, rows * nonzeros)
    read = rows * nonzeros * (size + INDEX_BYTES) + INDEX_BYTES * (rows + 1) + met * size
    return Work(
        read_bytes=plain(read),
        written_bytes=rows * size,
        operations={f"fma.{text(params, 'dtype')}": 2.0 * rows * nonzeros},
        working_set_bytes=plain(read) + rows * size,
    )


def _spmv_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if count(params, "nonzeros") > count(params, "columns"):
        return "nonzeros", f"{params['nonzeros']} nonzeros do not fit into a row of {params['columns']} columns"
    return None


def _stencil(params: Mapping[str, Value]) -> Work:
    """A weighted sum of each cell and its neighbours: grid read once, written once."""
    cells = count(params, "width") * count(params, "height") * count(params, "depth")
    moved = cells * STORED[text(params, "dtype")]
    return Work(
        read_bytes=moved,
        written_bytes=moved,
        operations={f"fma.{text(params, 'dtype')}": 2.0 * count(params, "points") * cells},
        working_set_bytes=2 * moved,
    )


def _stencil_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    points, depth = int(count(params, "points")), count(params, "depth")
    if points not in (5, 7, 27):
        return "points", f"a stencil has 5 points (flat), 7 or 27, not {points}"
    if (points == 5) != (depth == 1):
        return "depth", "a stencil of 5 points is flat: depth 1" if points == 5 else f"a stencil of {points} points needs a depth above 1"
    return None


def _reduce(params: Mapping[str, Value]) -> Work:
    elements, size = count(params, "elements"), STORED[text(params, "dtype")]
    each = REDUCTIONS[text(params, "op")]
    return Work(
        read_bytes=elements * size,
        written_bytes=size,
        operations={f"fma.{text(params, 'dtype')}": each * elements},
        working_set_bytes=elements * size,
    )


def _scan(params: Mapping[str, Value]) -> Work:
    elements, moved = count(params, "elements"), count(params, "elements") * STORED[text(params, "dtype")]
    return Work(read_bytes=moved, written_bytes=moved, operations={f"fma.{text(params, 'dtype')}": elements}, working_set_bytes=2 * moved)


def _sort(params: Mapping[str, Value]) -> Work:
    """Every element read and written at least once; `steps` are elements."""
    elements, moved = count(params, "elements"), count(params, "elements") * STORED[text(params, "dtype")]
    return Work(read_bytes=moved, written_bytes=moved, steps=elements, working_set_bytes=2 * moved)


def _histogram(params: Mapping[str, Value]) -> Work:
    elements, bins = count(params, "elements"), count(params, "bins")
    return Work(read_bytes=4.0 * elements, written_bytes=INDEX_BYTES * bins, working_set_bytes=4.0 * elements + INDEX_BYTES * bins)


def _montecarlo(params: Mapping[str, Value]) -> Work:
    """A European call by geometric Brownian motion from given normal numbers: each read once; `steps` are paths."""
    paths, steps = count(params, "paths"), count(params, "steps")
    read = paths * steps * STORED[text(params, "dtype")]
    return Work(read_bytes=read, operations={f"fma.{text(params, 'dtype')}": PAYOFF * paths * steps}, steps=paths, working_set_bytes=read)


def _spmv_read(params: Mapping[str, Any], read: Any, l2_bytes: float) -> Any:
    """What is counted, and of a random vector the sectors that miss L2."""
    if params["pattern"] == "banded":
        return read
    lost = np.clip(1 - L2_HOLDS * l2_bytes / (params["columns"] * STORED[text(params, "dtype")]), 0.0, 1.0)
    return read + params["rows"] * params["nonzeros"] * lost * SECTOR


def _fft_passes(params: Mapping[str, Any]) -> Any:
    return params["dims"] * np.maximum(np.ceil(np.log2(np.maximum(params["n"], 2.0)) / FFT_POINTS), 1.0)


def _sort_passes(params: Mapping[str, Any]) -> float:
    return 8.0 * STORED[text(params, "dtype")] / DIGIT_BITS


_DIMENSIONS = VarietyForm("dimensions", {"1": {"dims": 1}, "2": {"dims": 2}}, lambda c: first(c["dims"] == 1))
_FFT_PASSES = Passes(
    read=lambda p, read, _: read * _fft_passes(p), written=lambda p, written: written * _fft_passes(p), launches=_fft_passes
)
_STENCIL_PASSES = Passes(read=lambda p, read, _: read * (1 + HALO))
_SORT_PASSES = Passes(
    read=lambda p, read, _: read * (1 + _sort_passes(p)), written=lambda p, written: written * _sort_passes(p),
    launches=lambda p: 1 + _sort_passes(p),
)  # fmt: skip
_HISTOGRAM_PASSES = Passes(launches=lambda p: 2.0, shared_adds=lambda p: p["elements"])
_MONTECARLO_PASSES = Passes(special=lambda p: p["paths"] * p["steps"], launches=lambda p: 2.0)

WORKLOADS = (
    bandwidth(
        "fft",
        "complex Fourier transforms",
        (
            bounded("batch", "transforms", 64),
            bounded("n", "points a side", 4096),
            Param("dims", "int", "1: a line; 2: a square of n × n", 1, low=1, high=2),
            element_type("fp32", ("fp64", "fp32", "fp16")),
        ),
        _fft,
        heading="science", operator="science", arrays=True, model="passes", passes=_FFT_PASSES,
        variety=Variety(edges=("n",), grown=("batch",), forms=(_DIMENSIONS,)),
    ),
    bandwidth(
        "spmv",
        "sparse matrix by vector, compressed rows",
        (
            bounded("rows", "of the matrix", 2**20, 2**30),
            bounded("columns", "of the matrix", 2**20, 2**30),
            bounded("nonzeros", "of each row", 16, 2**20),
            Param("pattern", "str", "where they are: anywhere, or beside the diagonal", "random", choices=("random", "banded")),
            element_type("fp32", ("fp64", "fp32")),
        ),
        _spmv,
        _spmv_fault,
        heading="science", operator="science", arrays=True, model="passes", passes=Passes(read=_spmv_read),
        variety=Variety(edges=("rows",), least={"nonzeros": 1}),
    ),
    bandwidth(
        "stencil",
        "a weighted sum of every cell of a grid and its neighbours",
        (
            bounded("points", "5 (flat), 7 or 27", 7, 27),
            bounded("width", "of the grid", 512),
            bounded("height", "of the grid", 512),
            bounded("depth", "of the grid (1: flat)", 512),
            element_type("fp32", ("fp64", "fp32", "fp16", "bf16")),
        ),
        _stencil,
        _stencil_fault,
        heading="science", operator="science", arrays=True, model="passes", passes=_STENCIL_PASSES,
        variety=Variety(edges=("width",), grown=("height",), rows=("width",), base={"depth": 8}),
    ),
    bandwidth(
        "reduce",
        "all elements to one number",
        (
            Param("op", "str", "what is done", "sum", choices=tuple(REDUCTIONS)),
            bounded("elements", "of the input", 2**24, 2**46),  # of more, a norm in fp32 is not exact on every CPU
            element_type("fp32", FLOATS),
        ),
        _reduce,
        heading="science", operator="sums", arrays=True, model="passes", passes=Passes(launches=lambda p: 2.0),
        variety=Variety(edges=("elements",)),
    ),
    bandwidth(
        "scan",
        "running sums",
        (bounded("elements", "of the input", 2**26, 2**46), element_type("fp32", ("fp64", "fp32", "int32"))),
        _scan,
        heading="science", operator="sums", arrays=True, model="passes", passes=Passes(),
        variety=Variety(edges=("elements",)),
    ),
    Workload(
        "sort",
        "elements in order",
        (bounded("elements", "of the input", 2**24, 2**40), element_type("fp32", ("fp64", "fp32", "int32"))),
        "rate",
        "1/s",
        "higher",
        _sort,
        heading="science", operator="sums", arrays=True, model="passes", passes=_SORT_PASSES,
        variety=Variety(edges=("elements",)),
    ),
    bandwidth(
        "histogram",
        "how many elements fall into each bin",
        (bounded("elements", "32-bit numbers", 2**26, 2**46), bounded("bins", "of equal width", 256, 2**24)),
        _histogram,
        heading="science", operator="sums", arrays=True, model="passes", passes=_HISTOGRAM_PASSES,
        variety=Variety(edges=("elements",), sized=False),
    ),
    Workload(
        "montecarlo",
        "the price of an option by random paths",
        (bounded("paths", "of one call", 2**22, 2**40), bounded("steps", "of each path", 1, 65536), element_type("fp32", ("fp64", "fp32"))),
        "rate",
        "1/s",
        "higher",
        _montecarlo,
        heading="science", operator="science", arrays=True, model="passes", passes=_MONTECARLO_PASSES,
        variety=Variety(edges=("paths",), sized=False),
    ),
)
