"""Kernels that nobody has measured for this model: bytes and operations by stated passes, at the rates of streaming kernels.

What is counted is the least; an algorithm passes over some of it again. The `Passes` of each workload say how often, after what
libraries do:

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

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotlap.core import work
from hotlap.core.model.kernels.base import Chip, Estimate, Floats
from hotlap.core.model.kernels.streaming import Moves, stored, timed
from hotlap.core.work.traits import Passes

BANKS = 32.0  # of shared memory: elements that it adds up in a clock


def estimate(workload: str, params: Mapping[str, Any], chip: Chip) -> Estimate:
    """Expected times. `params`: complete, numbers as arrays or single."""
    moves, launches = moved(workload, params, chip)
    found = timed(moves, chip, stored())
    parts = {name: value * launches if name in ("launch", "latency") else value for name, value in found.parts.items()}
    if (adds := _passes(workload).shared_adds) is not None:
        adding = np.asarray(adds(params), dtype=float) / (chip.units * chip.clock_hz * BANKS)
        parts["shared memory"] = np.maximum(adding - (found.seconds - found.parts["launch"]), 0.0)
    return found._replace(parts=parts, seconds=np.sum(list(parts.values()), axis=0))


def _passes(workload: str) -> Passes:
    found = work.find(workload).passes
    assert found is not None, f"{workload} has no passes"
    return found


def moved(workload: str, params: Mapping[str, Any], chip: Chip) -> tuple[Moves, Floats]:
    """What a call moves, all passes together, and how many kernels it launches."""
    shape = _passes(workload)
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
        full(shape.read(arrays, read, chip.l2_bytes)), full(shape.written(arrays, written)), row, rows, again, none,
        full(shape.special(arrays)), {unit: full(value) for unit, value in asked.operations.items()}, 1.0, none + 1.0, none.astype(bool),
    )  # fmt: skip
    return moves, full(shape.launches(arrays))
