"""Kernels that nobody has measured for this model: bytes and operations by stated passes, at the rates of streaming kernels.

What is counted is the least; an algorithm passes over some of it again. Each `Shape` says how often, after what libraries do:

    sort        one reading for digits' counts, then a pass that reads and writes for each 8 bits (Adinets and Merrill, arXiv 2206.01784)
    scan        one pass, decoupled look-back (Merrill and Garland, NVIDIA NVR-2016-002)
    fft         each pass does as many stages as fit shared memory: 4096 points; a square is transformed by rows, then by columns
    topk        a row is read again for its counts of digits and once more to gather; sampling twice more for the sum and the draw
    spmv        an element of the vector comes in a sector of 32 bytes, from L2 as far as the vector stays there; banded rows share sectors
    stencil     planes of neighbours stay in the cache; a halo is read again (10 % assumed)
    reduce      one pass, and a second launch for the blocks' sums
    histogram   one pass; bins lie in shared memory, which adds one element a clock and bank where bins differ
    pool, optimizer, permute, scatter, embedding_bag, routing, montecarlo      one pass

Nothing is fitted: every case is outside of what was measured, and its interval is wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hotlap.core import work
from hotlap.core.model.kernels.base import Chip, Estimate, Floats
from hotlap.core.model.kernels.streaming import SECTOR, Moves, stored, timed
from hotlap.core.work.base import STORED

DIGIT_BITS = 8.0  # of a pass of a radix sort
FFT_POINTS = 12.0  # log₂ of the points that one pass transforms in shared memory
HALO = 0.1  # of a stencil's grid that is read again
L2_HOLDS = 0.6  # of L2 that a vector which is read at random may fill: as streaming's l2_kept
BANKS = 32.0  # of shared memory: elements that a histogram adds in a clock


class Shape(NamedTuple):
    """Passes beside the counted bytes. Each takes the parameters as arrays, and the bytes counted."""

    read: Callable[[Mapping[str, Any], Floats, Chip], Any] = lambda p, read, chip: read
    written: Callable[[Mapping[str, Any], Floats, Chip], Any] = lambda p, written, chip: written
    special: Callable[[Mapping[str, Any]], Any] = lambda p: 0.0
    launches: Callable[[Mapping[str, Any]], Any] = lambda p: 1.0
    row: Callable[[Mapping[str, Any]], tuple[Any, Any] | None] = lambda p: None  # bytes of a row that a block keeps to itself, and rows
    again: float = 0.0  # times that a row is read again


def _size(p: Mapping[str, Any]) -> float:
    return float(STORED[str(p["dtype"])])


def _sort_passes(p: Mapping[str, Any]) -> float:
    return 8.0 * _size(p) / DIGIT_BITS


def _fft_passes(p: Mapping[str, Any]) -> Any:
    return p["dims"] * np.maximum(np.ceil(np.log2(np.maximum(p["n"], 2.0)) / FFT_POINTS), 1.0)


def _spmv_read(p: Mapping[str, Any], read: Floats, chip: Chip) -> Any:
    """What is counted, and of a random vector the sectors that miss L2."""
    if p["pattern"] == "banded":
        return read
    lost = np.clip(1 - L2_HOLDS * chip.l2_bytes / (p["columns"] * _size(p)), 0.0, 1.0)
    return read + p["rows"] * p["nonzeros"] * lost * SECTOR


def _bag_read(p: Mapping[str, Any], read: Floats, chip: Chip) -> Any:
    """Rows that were met before are read again as far as L2 does not hold them; narrow rows come in whole sectors."""
    width = np.ceil(p["columns"] * _size(p) / SECTOR) * SECTOR
    lost = np.clip(1 - L2_HOLDS * chip.l2_bytes / (p["vocabulary"] * width), 0.0, 1.0)
    return np.maximum(read, p["bags"] * p["lookups"] * (4.0 + width * lost))


SHAPES: Mapping[str, Shape] = {
    "scatter": Shape(), "optimizer": Shape(), "permute": Shape(), "pool": Shape(), "scan": Shape(),
    "embedding_bag": Shape(read=_bag_read),
    "topk": Shape(row=lambda p: (p["columns"] * _size(p), p["rows"]), again=2.0),
    "sampling": Shape(
        row=lambda p: (p["columns"] * _size(p), p["rows"]), again=2.0, special=lambda p: p["rows"] * p["columns"],
        launches=lambda p: np.where(p["topk"] > 0, 3.0, 2.0),
    ),
    "routing": Shape(special=lambda p: p["tokens"] * p["experts"], row=lambda p: (2.0 * p["experts"], p["tokens"])),
    "fft": Shape(
        read=lambda p, read, chip: read * _fft_passes(p), written=lambda p, written, chip: written * _fft_passes(p), launches=_fft_passes,
    ),
    "spmv": Shape(read=_spmv_read),
    "stencil": Shape(read=lambda p, read, chip: read * (1 + HALO)),
    "reduce": Shape(launches=lambda p: 2.0),
    "sort": Shape(
        read=lambda p, read, chip: read * (1 + _sort_passes(p)), written=lambda p, written, chip: written * _sort_passes(p),
        launches=lambda p: 1 + _sort_passes(p),
    ),
    "histogram": Shape(launches=lambda p: 2.0),
    "montecarlo": Shape(special=lambda p: p["paths"] * p["steps"], launches=lambda p: 2.0),
}  # fmt: skip
WORKLOADS = tuple(SHAPES)


def estimate(workload: str, params: Mapping[str, Any], chip: Chip) -> Estimate:
    """Expected times. `params`: complete, numbers as arrays or single."""
    moves, launches = moved(workload, params, chip)
    found = timed(moves, chip, stored())
    parts = {name: value * launches if name in ("launch", "latency") else value for name, value in found.parts.items()}
    if workload == "histogram":
        adding = np.asarray(params["elements"], dtype=float) / (chip.units * chip.clock_hz * BANKS)
        parts["shared memory"] = np.maximum(adding - (found.seconds - found.parts["launch"]), 0.0)
    return found._replace(parts=parts, seconds=np.sum(list(parts.values()), axis=0))


def moved(workload: str, params: Mapping[str, Any], chip: Chip) -> tuple[Moves, Floats]:
    """What a call moves, all passes together, and how many kernels it launches."""
    shape = SHAPES[workload]
    size = np.broadcast_shapes(*(np.shape(value) for value in params.values() if not isinstance(value, str))) or (1,)

    def full(value: Any) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=float), size).ravel()

    arrays = {name: value if isinstance(value, str) else full(value) for name, value in params.items()}
    asked = work.find(workload).work(params)
    read, written = full(asked.read_bytes), full(asked.written_bytes)
    kept = chip.shared_bytes + 4.0 * chip.registers  # of one unit: a row that fits is not read again
    row, rows = shape.row(arrays) or (0.0, 1.0)
    row, rows = full(row), full(rows)
    none = np.zeros(len(read))
    again = shape.again * read * (row > kept)
    moves = Moves(
        full(shape.read(arrays, read, chip)), full(shape.written(arrays, written, chip)), row, rows, again, none,
        full(shape.special(arrays)), {unit: full(value) for unit, value in asked.operations.items()}, 1.0, none + 1.0, none.astype(bool),
    )  # fmt: skip
    return moves, full(shape.launches(arrays))
