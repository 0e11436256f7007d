"""What a kernel is made of: tiles with steps, the demands of a step, what each tile reads and writes, what a block occupies.

The analytical model and the simulator share these lists; neither takes a formula from the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.simulate import chip as facts

REGISTERS_OWN = 40.0  # of a thread, beside accumulators: addresses, indices, fragments: assumed
WARP = 32
TILES_MOST = 2_000_000  # of one kernel: about 200 MB and a second


class TaskStep(NamedTuple):
    """Demands of one step of one tile's main loop."""

    flop: float = 0.0  # of the matrix unit, as executed
    fma: float = 0.0  # operations of the vector unit, a multiply-add being 2
    special: float = 0.0
    shared_bytes: float = 0.0
    l2_bytes: float = 0.0  # that this tile's unit asks of L2
    l2_written_bytes: float = 0.0  # that it writes as it goes, the other way through the same crossbar; not what a tile writes at its end
    latency_cycles: float = 0.0  # the longest chain of dependent instructions; no step of one tile is shorter


class Operand(NamedTuple):
    """What tiles read, as blocks of memory that several tiles may share."""

    block: NDArray[np.int64]  # (tiles,) which block each tile reads
    bytes: Floats  # (tiles,) how much of it
    blocks: int
    age_bytes: float = np.inf  # distinct bytes touched since the last use, before this call; inf: never, or long ago
    prefixes: bool = False  # tiles read different lengths of the same block, all from its start


@dataclass(frozen=True)
class TaskBlock:
    """What one thread block occupies on a unit."""

    threads: int
    registers: float  # of all its threads, 32 bits each
    shared_bytes: float


@dataclass(frozen=True)
class SimulatedKernel:
    """One launch. Tiles start in the order given, as slots fall free."""

    name: str
    unit: str  # of the flop: matrix.bf16 …
    steps: Floats  # (tiles,)
    step: TaskStep
    reads: tuple[Operand, ...]
    written_bytes: Floats  # (tiles,)
    block: TaskBlock
    stages: float  # steps' loads in flight at once
    overlap: float = 1.0  # of the smaller pipes behind the largest: 1 all, 0 one after the other
    ahead: bool = False  # a unit's next tile is loaded while the last one ends: persistent kernels
    loads: float = 1.0  # that follow one from another before a tile can run: lengths, page table, data
    output_age_bytes: float = np.inf
    end_cycles: float = facts.END_CYCLES
    turn_cycles: float | None = None  # between two tiles of a slot that loads ahead; None: the end of the first
    start_cycles: float = facts.START_CYCLES
    dram_share: float = 1.0  # of the bandwidth that streams reach, for its pattern of reading
    useful_flop: float = 0.0  # without padding
    vector: str = "fma.fp32"
    path: str = ""  # the name without the case's shape; "" where the name has none
    kind: str = ""  # gemm, prefill, decode: whose units' toggling was measured; "" any other

    @property
    def tiles(self) -> int:
        return len(self.steps)

    @property
    def flop(self) -> float:
        """Executed by the matrix unit, padding included."""
        return float(self.steps.sum()) * self.step.flop


def slots(block: TaskBlock, chip: Chip) -> int:
    """Blocks that one unit holds at once. Raises InputError where not even one fits."""
    if block.threads < 1:
        raise InputError("a block needs at least one thread")
    warps = -(-block.threads // WARP)
    fits = [chip.blocks_max, chip.warps_max // warps]
    fits += [int(chip.registers // block.registers)] if block.registers else []
    fits += [int(chip.shared_bytes // block.shared_bytes)] if block.shared_bytes else []
    if min(fits) < 1:
        have = f"{chip.warps_max} warps, {chip.registers} registers and {chip.shared_bytes:g} B of shared memory"
        asked = f"{warps} warps, {block.registers:g} registers and {block.shared_bytes:g} B"
        raise InputError(f"a block of {asked} does not fit a unit of {have}")
    return min(fits)


def pipe_cycles(kernel: SimulatedKernel, chip: Chip) -> dict[str, float]:
    """Cycles that one step keeps each pipe of its unit busy."""
    step = kernel.step
    main = step.flop / facts.rate(chip, kernel.unit) / facts.MATRIX_ISSUE if step.flop else 0.0
    vector = step.fma / facts.rate(chip, kernel.vector) if step.fma else 0.0
    if facts.on_vectors(chip, kernel.unit):
        main, vector = 0.0, main + vector
    return {
        "matrix unit": main,
        "vector unit": vector,
        "special functions": step.special / facts.SPECIAL,
        "shared memory": step.shared_bytes / facts.SHARED_BYTES,
        "L2 port": max(step.l2_bytes, step.l2_written_bytes) / (facts.L2_PORT_BYTES * chip.l2_factor),
    }


def counts(**sizes: float) -> None:
    """Sizes are whole numbers from 1 to 2**40. Raises InputError."""
    for name, value in sizes.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not (number and 1 <= value <= 2**40 and value == int(value)):
            raise InputError(f"{name} must be a whole number from 1 to 2**40, not {value!r}")


def countable(tiles: float) -> None:
    """Raises InputError when a kernel has more tiles than can be simulated."""
    if tiles > TILES_MOST:
        raise InputError(f"{tiles:g} tiles are too many to simulate one by one (at most {TILES_MOST}); the model predicts such sizes")
