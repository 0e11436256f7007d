"""Kernels that pass over memory: copies, elementwise, normalisation, reduction. Persistent blocks, each with its part."""

from __future__ import annotations

import math

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.simulate.tasks import Operand, SimulatedKernel, TaskBlock, TaskStep, counts, slots

THREADS, REGISTERS = 256, 32.0
VECTOR_BYTES, UNROLLED = 16.0, 4.0  # of one load of one thread, and such loads in flight: as streaming kernels are written
ROUNDS = 4  # pieces of work per slot, so that a late block does not hold up the whole


def build(
    read_bytes: float, written_bytes: float, chip: Chip, operations_a_byte: float = 0.0, age_bytes: float = np.inf, rounds: int = ROUNDS
) -> SimulatedKernel:
    """Reads and writes so much, each byte once. `age_bytes`: distinct bytes since what is read was last used.

    `operations_a_byte` go to the vector unit, for each byte read or written. `rounds` 1: a block passes over its part again and
    again, so that each byte is read when all of `age_bytes` were touched since.
    """
    if not (math.isfinite(read_bytes) and math.isfinite(written_bytes) and read_bytes >= 0 and written_bytes >= 0):
        raise InputError(f"bytes must be finite and not negative, not {read_bytes!r} and {written_bytes!r}")
    total = read_bytes + written_bytes
    counts(bytes=math.ceil(total))
    block = TaskBlock(THREADS, THREADS * REGISTERS, 0.0)
    one = THREADS * VECTOR_BYTES  # bytes of a step
    held = slots(block, chip) * chip.units
    tiles = max(1, min(held * rounds, math.ceil(total / one / UNROLLED)))
    steps = math.ceil(total / one) / tiles
    stages = UNROLLED * total / read_bytes if read_bytes else UNROLLED  # loads are in flight, not what is written after them
    share = np.full(tiles, 1.0 / tiles)
    return SimulatedKernel(
        name=f"stream {read_bytes:g} B read, {written_bytes:g} B written", unit="fma.fp32", steps=np.full(tiles, steps),
        step=TaskStep(fma=operations_a_byte * total / (steps * tiles), l2_bytes=read_bytes / (steps * tiles),
                  l2_written_bytes=written_bytes / (steps * tiles)),
        reads=(Operand(np.arange(tiles), share * read_bytes, tiles, age_bytes),) if read_bytes else (),
        written_bytes=share * written_bytes, block=block, stages=stages, output_age_bytes=age_bytes, end_cycles=0.0,
    )  # fmt: skip
