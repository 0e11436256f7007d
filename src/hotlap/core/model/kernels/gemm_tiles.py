"""Candidates of a matrix product: what each tile and split of k asks of pipes, caches and memory, and how long it takes.

What feeds a matrix unit (L2, store path, instructions of a step) grew with it from generation to generation, so coefficients are
bytes for each FLOP that the unit can do, or operations; latencies are cycles. So the same numbers serve every machine.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.kernels.gemm_kernels import USUAL_KERNEL, ProductKernel, generation
from hotlap.core.work.base import STORED, unit_of

Singles = NDArray[np.float32]  # candidates are many: half the memory, twice the speed
WARP_TILES = (  # of instructions issued by warps: powers of two (mma.sync, MFMA)
    (16, 64), (16, 128), (32, 64), (32, 128), (64, 32), (64, 64), (64, 128), (64, 256), (128, 32), (128, 64), (128, 128), (128, 256),
    (256, 32), (256, 64), (256, 128),
)  # fmt: skip
FINE_TILES = (  # besides, where the matrix unit reads shared memory by itself: its instruction's n goes in steps of 8 (wgmma, tcgen05)
    (64, 192), (96, 128), (128, 96), (128, 160), (128, 192), (160, 128), (192, 128),
)  # fmt: skip
TALL_TILES = ((128, 64), (128, 128), (128, 192), (128, 256), (256, 64), (256, 128), (256, 256))  # of 4 bits: 128 rows of one instruction
BLOCK_SIDES = (16, 32, 48, 64, 80, 96, 112, 128)  # of tiles for blocks of scales: DeepGEMM's, at most a block wide, k not split
BLOCK_TILES = (*((rows, side) for rows in (64, 128) for side in BLOCK_SIDES), *((side, 128) for side in (8, *BLOCK_SIDES[:3])))
BLOCK = 128.0  # rows and columns that share a scale
WITHOUT_BLOCKS = 64.0  # rows up to which the operands change places, and no rows are missing in a block
ASYNCHRONOUS = 4096.0  # bf16 FLOP a clock and unit from which the matrix unit reads its operands from shared memory by itself
SPLITS = 3  # none; as many as fill the machine once; of 2 to 4 the one whose last wave is fullest
STEP_BYTES = 128.0  # of one row in a step of k: a line of the cache, a swizzle of shared memory
SHALLOWEST = 1  # steps that a split has at least; more makes times jump where k allows the next split, and fits no better
SHARED_BYTES = 128.0  # that shared memory gives a clock: NVIDIA tuning guides, compute capability 7.0 and later
ROWS_A_FETCH = 64.0  # rows (or columns) of the result that an operand fetched from shared memory serves: a warp's tile, one wgmma
COLUMNS_A_FETCH = 256.0  # of one wgmma or tcgen05; a warp's tile has 64
OUT_BYTES = 2.0  # of an element of the result; int8 and wide types: their own
EVEN_WAVES = 0.13  # share of the last wave that schedulers smooth; this and the next two are assumed: fits hardly move them
UNITS_FOR_DRAM = 26.0  # at work, that have all the bytes in flight which DRAM's bandwidth needs
FEED_POWER = 6.0  # how little the feed and the matrix pipe hinder each other
NEVER = 1e9  # times longer a candidate seems that is not taken
LARGE, LARGE_TILE = 32768.0, 0.01  # elements of the tile that libraries prefer, and how much; assumed


L2_COPIES_SHARE = {"sm_80": 0.5, "sm_90": 0.5, "sm_100": 0.5}
"""Of L2 that holds different data, where all units read the same: A100 and Hopper have two partitions, each of which keeps a copy of what
its half of the units reads (NVIDIA, A100 white paper, "L2 cache"; H100 white paper); a part of two dies likewise. Ada and GB202: all."""


class TileMachine(NamedTuple):
    """A chip and the coefficients, for one type of element."""

    chip: Chip
    c: Mapping[str, float]
    size: float  # of an element, bytes
    out: float  # of an element of the result
    rate: float  # FLOP a clock and unit
    whole: float  # the same in bf16, which says of what generation the machine is
    unit: str  # of arithmetic that does it
    held: float  # bytes of L2 that hold data which all units read
    kernel: ProductKernel

    @property
    def alone(self) -> bool:
        """Whether the matrix unit reads its operands from shared memory by itself."""
        return self.whole >= ASYNCHRONOUS

    @property
    def splits(self) -> int:
        """Ways to split k that are looked at."""
        return SPLITS if self.kernel.splits else 1


@dataclass(frozen=True)
class TileTimes:
    """Every candidate of every case: cases × candidates. Seconds where nothing else is said."""

    tile_m: Singles
    tile_n: Singles
    split: Singles
    tiles: Singles  # counting splits
    depth: Singles  # k of a split, padded
    waves: Singles  # tiles of the busiest unit
    fed: Singles  # cycles of one unit of depth, operands fed
    compute: Singles
    dram: Singles
    body: Singles  # the two overlapped
    store: Singles
    reduce: Singles
    moved: Singles  # bytes from DRAM
    through: Singles  # bytes through L2
    liking: Singles  # for which the choice counts a candidate's time as longer

    @property
    def total(self) -> Singles:
        return np.asarray(self.body + self.store + self.reduce)


def machine(chip: Chip, dtype: str, c: Mapping[str, float], kernel: ProductKernel = USUAL_KERNEL) -> TileMachine:
    """Raises InputError for a type that the chip has no unit for."""
    table, unit = chip.flop_per_clock, unit_of(dtype)
    if dtype in ("fp32", "fp64") and unit not in table:
        unit = unit.replace("matrix", "fma")
    rate = table.get(unit)
    if not rate:
        valid = ", ".join(sorted(name.split(".")[1] for name in table if name.startswith("matrix.")))
        raise InputError(f"this machine has no matrix unit for {dtype}", f"valid: {valid or 'none'}")
    size = STORED[dtype]
    built = (chip.original or chip).flop_per_clock
    whole = built.get("matrix.bf16") or built.get("matrix.fp16") or rate
    held = c["l2_share"] * L2_COPIES_SHARE.get(generation(chip.target), 1.0) * chip.l2_bytes
    return TileMachine(chip, c, size, {"int8": 4.0}.get(dtype, max(size, OUT_BYTES)), rate, whole, unit, held, kernel)


@functools.cache
def _repeated(kernel: ProductKernel, alone: bool, times: int) -> tuple[Singles, Singles]:
    rows, columns = tiles(kernel, alone)
    return np.tile(rows, (1, times)), np.tile(columns, (1, times))


@functools.cache
def tiles(kernel: ProductKernel, alone: bool) -> tuple[Singles, Singles]:
    """Rows and columns of the candidates' tiles, each as a row. `alone`: of a matrix unit that reads shared memory by itself."""
    sets = {"blocks": BLOCK_TILES, "tall": TALL_TILES, "choices": tuple((one.tile_m, one.tile_n) for one in kernel.choices)}
    table: Singles = np.array(sets.get(kernel.tiles, WARP_TILES + FINE_TILES * alone), dtype=np.float32)
    return table[:, 0][None], table[:, 1][None]


def _chosen(m: Singles, n: Singles, on: TileMachine) -> Singles:
    """Which of a dispatch's lines takes each case: cases × lines."""
    above, width = np.array([one[:2] for one in on.kernel.choices], dtype=np.float32).T
    fits = (m <= above) & (n <= width)
    return np.asarray(fits & (np.cumsum(fits, axis=1) == 1))


def timed(cases: Mapping[str, NDArray[Any]], on: TileMachine) -> TileTimes:
    """All candidates of all cases: each tile with each way to split."""
    tile_m, tile_n = tiles(on.kernel, on.alone)
    m, n, k, batch, copies = (cases[name].astype(np.float32)[:, None] for name in ("m", "n", "k", "batch", "copies"))
    down = np.ceil(m / tile_m)
    if on.kernel.choices:
        together = np.array([one.cluster for one in on.kernel.choices], dtype=np.float32)
        down = np.where(down > 1, np.ceil(down / together) * together, down)
    count = down * np.ceil(n / tile_n) * batch
    split = np.concatenate(_splits(count, np.ceil(k * np.float32(on.size / STEP_BYTES)), on), axis=1)
    tile_m, tile_n = _repeated(on.kernel, on.alone, on.splits)
    count = np.concatenate((count,) * on.splits, axis=1)
    depth, tasks = _depth(k, split, on), count * split
    waves, fed = _waves(tasks, on), _fed(tile_m, tile_n, on)
    chip, c = on.chip, on.c
    least = np.float32(c["step_cycles" if on.alone else "warp_step_cycles"] * on.size / STEP_BYTES)  # a clock for each unit of depth
    cycles = depth * overlapped(FEED_POWER, waves * fed, least)
    if "empty_rows" in c:
        cycles = cycles + depth * fed * _empty((m, n, batch), tile_m, tile_n, on)
    compute = cycles / np.float32(chip.clock_hz)
    moved, through = _traffic((m, n, k, batch, copies), tile_m, tile_n, depth * tasks, on)
    dram = moved / _bandwidth(tasks, on)
    before = c["tile_cycles"] + tile_m * tile_n * np.float32(on.out / (c["store_bytes_per_flop"] * on.whole))
    reduce = np.float32(1e-6 * c["reduce_us"]) + m * n * batch * split * np.float32(8.0 * c["reduce_share"] / l2_b_s(on))
    liking = np.exp2(np.float32(LARGE_TILE) * np.abs(np.log2(tile_m * tile_n / np.float32(LARGE))))
    if on.kernel.choices:
        liking = np.where(_chosen(m, n, on), np.float32(1), np.float32(NEVER))
    return TileTimes(
        tile_m, tile_n, split, tasks, depth, waves, fed, compute, dram, overlapped(c["overlap_power"], compute, dram),
        (waves * before / np.float32(chip.clock_hz)).astype(np.float32), np.where(split > 1, reduce, np.float32(0)), moved, through, liking,
    )  # fmt: skip


def overlapped(power: float, first: Singles | np.float32, two: Singles | np.float32) -> Singles:
    """Two that run at once and hinder each other a little: (one^p + two^p)^(1/p)."""
    longest, exponent = np.maximum(first, two), np.float32(power)
    share = np.maximum(np.minimum(first, two) / longest, np.float32(1e-6))
    return np.asarray(longest * np.exp(np.log1p(np.exp(exponent * np.log(share))) / exponent), dtype=np.float32)


def l2_b_s(on: TileMachine) -> float:
    """What L2 gives all units together."""
    return on.c["feed_bytes_per_flop"] * on.chip.l2_factor * on.whole * on.chip.units * on.chip.clock_hz


def _splits(count: Singles, steps: Singles, on: TileMachine) -> list[Singles]:
    units = np.float32(on.chip.units)
    ways = [np.ones_like(count), np.maximum(np.floor(units / count), 1), _fullest(count / units)][: on.splits]
    most = np.maximum(np.floor(steps / SHALLOWEST), 1)
    return [np.minimum(way, most) for way in ways]


def _fullest(share: Singles) -> Singles:
    """Of splits by 2, 3 and 4, the one that leaves the least idle in the last wave."""
    best, least = np.full_like(share, 2), np.ceil(2 * share) / 2
    for split in (3, 4):
        idle = np.ceil(split * share) / split
        best, least = np.where(idle < 0.999 * least, np.float32(split), best), np.minimum(idle, least)
    return best


def _depth(k: Singles, split: Singles, on: TileMachine) -> Singles:
    """k of one split: whole steps; alone, half of one where warps issue the instructions."""
    step = np.float32(STEP_BYTES / on.size)
    alone = step if on.alone else step / 2
    found: Singles = np.where(split > 1, np.ceil(k / split / step) * step, np.ceil(k / alone) * alone)
    return found


def _waves(tasks: Singles, on: TileMachine) -> Singles:
    """Tiles of the busiest unit: whole ones, or an even share as far as schedulers smooth the last wave; at least one."""
    share, even = tasks / np.float32(on.chip.units), np.float32(EVEN_WAVES)
    return np.asarray(even * np.maximum(share, 1) + (1 - even) * np.ceil(share))


def _fed(tile_m: Singles, tile_n: Singles, on: TileMachine) -> Singles:
    """Cycles of a tile for one unit of depth: its products, or shared memory, or what comes from L2."""
    area, c = tile_m * tile_n, on.c
    pipe = area * np.float32(2.0 / on.rate / (c["matrix_share"] * c.get("matrix_factor", 1.0)))
    alone = on.alone
    rows = np.minimum(tile_m, max(ROWS_A_FETCH, on.whole / 64.0))
    columns = np.minimum(tile_n, COLUMNS_A_FETCH if alone else ROWS_A_FETCH)
    shared = area * (1 / rows + 1 / columns).astype(np.float32) * np.float32(on.size / SHARED_BYTES)
    feed = (tile_m + tile_n) * np.float32(on.size / (c["feed_bytes_per_flop"] * c.get("feed_factor", 1.0) * on.chip.l2_factor * on.whole))
    return overlapped(FEED_POWER, overlapped(FEED_POWER, pipe, shared), feed)


def _empty(sizes: tuple[Singles, ...], tile_m: Singles, tile_n: Singles, on: TileMachine) -> Singles:
    """Tiles that the busiest unit waits for beside its own: the last block of rows takes longer by the rows it does not have. Measured
    with TensorRT-LLM's and DeepGEMM's kernels (160 rows take 1.4 times as long as 256); why is not known."""
    m, n, batch = sizes
    missing = np.where(m > WITHOUT_BLOCKS, np.ceil(m / np.float32(BLOCK)) * np.float32(BLOCK) - m, np.float32(0)) / tile_m
    return np.asarray(missing * np.float32(on.c["empty_rows"]) * np.maximum(np.ceil(n / tile_n) * batch / np.float32(on.chip.units), 1))


def _traffic(sizes: tuple[Singles, ...], tile_m: Singles, tile_n: Singles, depths: Singles, on: TileMachine) -> tuple[Singles, Singles]:
    """Bytes from DRAM and through L2.

    Calls go through `copies` of the weights in turn, activations and results stay from call to call, each as far as L2 holds what is
    used between two uses. What a wave's unique rows and columns read again is from DRAM as far as L2 cannot hold both operands.
    """
    m, n, k, batch, copies = sizes
    c, size = on.c, np.float32(on.size)
    a, b, result = m * k * size * batch, k * n * size * batch, m * n * batch * np.float32(on.out)
    turned = copies * a if on.kernel.turns_all else a
    between = copies * (a + b) if on.kernel.turns_all else a + np.float32(c["weights_between"]) * b
    once = b * lost(copies * b + turned + result, on) + a * lost(between + result, on)
    once = once + result * np.float32(c["written_share"]) * lost(a + b + 2 * result, on)
    area = np.float32(on.chip.units) * tile_m * tile_n
    rows = np.minimum(np.sqrt(area), m)
    columns = np.minimum(area / rows, n)
    waves = np.maximum(m * n / (rows * columns), 1)
    again = np.maximum(waves * (rows + columns) * k * size * batch - a - b, 0)
    return once + again * lost(a + b, on), depths * (tile_m + tile_n) * size


def lost(held: Singles, on: TileMachine) -> Singles:
    """The share of these bytes that L2 does not hold."""
    fits = np.minimum(np.float32(on.held) / held, np.float32(10))
    return np.asarray(1 / (1 + fits ** np.float32(on.c["resident_power"])))


def _bandwidth(tasks: Singles, on: TileMachine) -> Singles:
    """Of DRAM: a share of the spec, or what the units at work have in flight."""
    chip, share = on.chip, min(on.c["dram_share"] * on.c.get("dram_factor", 1.0), 0.97)
    return np.float32(chip.memory_b_s) * np.minimum(np.float32(share), np.minimum(tasks, chip.units) / np.float32(UNITS_FOR_DRAM))
