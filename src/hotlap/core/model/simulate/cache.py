"""L2 as blocks of operands, least recently used first out, by reuse distance.

The distance of a block is what came into the cache since its last use, and what the latest tiles used again: each distinct byte
about once. Exact for one pass over blocks; hits of tiles that run side by side are counted as one fetch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.tasks import Operand, SimulatedKernel

FAR = 1e30  # a distance that no cache spans


class Cache:
    """State over one kernel."""

    def __init__(self, chip: Chip, kernel: SimulatedKernel) -> None:
        self.kept = max(facts.L2_KEPT * chip.l2_bytes, 1.0)
        self.slope = 1.0 / self.kept / (1.0 - facts.L2_SOFT)
        self.dirty = 0.5 * self.kept  # bytes that may wait to be written: assumed
        self.filled = self.again = 0.0  # bytes that came in so far; distinct bytes that the latest tiles found there
        self.missed = 0.0
        self.last = [np.full(o.blocks, -min(o.age_bytes, FAR)) for o in kernel.reads]
        self.marks = [np.zeros(o.blocks, np.int64) for o in kernel.reads]
        self.written_share = 1.0 - float(self.share(min(kernel.output_age_bytes, FAR)))  # of output that goes out to memory

    def share(self, distance: Floats | float) -> Floats:
        """Of a block that is still there after so many other bytes."""
        kept: Floats = np.minimum(np.maximum((self.kept - np.asarray(distance)) * self.slope, 0.0), 1.0)
        return kept

    def touch(self, kernel: SimulatedKernel, first: int, end: int) -> float:
        """Tiles first … end - 1 start together: bytes that come from memory."""
        came, all_bytes, distance = 0.0, 0.0, self.filled + self.again
        touched = []
        for last, operand, mark in zip(self.last, kernel.reads, self.marks, strict=True):
            blocks, size = distinct(operand, first, end, mark)
            came += float(size @ (1.0 - self.share(distance - last[blocks])))
            all_bytes += float(np.add.reduce(size))
            touched.append((last, blocks))
        for last, blocks in touched:
            last[blocks] = self.filled
        self.filled += came + self.out_bytes(kernel, first, end)
        self.again, self.missed = all_bytes - came, self.missed + came
        return came

    def out_bytes(self, kernel: SimulatedKernel, first: int, end: int) -> float:
        return float(np.add.reduce(kernel.written_bytes[first:end]))


def distinct(operand: Operand, first: int, end: int, mark: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Blocks that these tiles read, each once, and the longest prefix of each. `mark`: scratch, one entry per block."""
    block, size = operand.block[first:end], operand.bytes[first:end]
    if operand.prefixes:
        order = np.argsort(size, kind="stable")  # the longest comes last, and the last mark stays
        block, size = block[order], size[order]
    number = np.arange(end - first)
    mark[block] = number
    once = mark[block] == number
    return block[once], size[once]
