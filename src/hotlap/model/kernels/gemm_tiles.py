"""Candidates of a matrix product: what each tile and split of k asks of pipes, caches and memory, and how long it takes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.errors import InputError
from hotlap.model.kernels.base import Chip, Floats
from hotlap.work.base import STORED, unit_of

TILES = (
    (16, 64), (16, 128), (32, 64), (64, 32), (64, 64), (64, 128), (64, 192), (64, 256), (128, 64), (128, 128), (128, 192), (128, 256),
    (192, 128),
)  # fmt: skip
SPLITS = (1, 2, 3, 4, 6, 8, 16)
DEPTH = 64  # k is padded to it
SHALLOWEST = 128  # of a split
REFERENCE_FLOP, REFERENCE_HZ = 4096.0, 1.98e9  # at which coefficients hold: Hopper's
LEAST_SCALE = 0.5  # A100's: bytes a clock and unit do not shrink with a smaller matrix unit
SLOWEST_HZ, FASTEST_HZ = 1.2e9, 2.4e9  # latencies are scaled with the clock no further
OUT_BYTES = 2.0  # of an element of the result; int8 and wide types: their own
REREAD = 0.35  # of the unique operands of each wave: the rest is still in L2 from the wave before; assumed


class Plan(NamedTuple):
    """Tiles and splits, as rows of one entry each."""

    tile_m: Floats
    tile_n: Floats
    split: Floats


class Machine(NamedTuple):
    """A chip and the coefficients, for one type of element."""

    chip: Chip
    c: Mapping[str, float]
    size: float  # of an element, bytes
    out: float  # of an element of the result
    rate: float  # FLOP a clock and unit
    scale: float  # the generation: bf16 rate against the reference

    def scaled(self, name: str, power: str) -> float:
        """A coefficient at this generation."""
        return float(self.c[name] * max(self.scale, LEAST_SCALE) ** self.c[power])

    def delay_s(self, name: str, power: str) -> float:
        """A latency in µs at this machine's clock."""
        clock = min(max(self.chip.clock_max_hz, SLOWEST_HZ), FASTEST_HZ)
        return float(1e-6 * self.c[name] * (REFERENCE_HZ / clock) ** self.c[power])

    @property
    def l2_b_s(self) -> float:
        return self.chip.units * self.scaled("l2_bytes_per_flop", "scale_l2") * REFERENCE_FLOP * self.chip.clock_hz


@dataclass(frozen=True)
class Timed:
    """Every candidate of every case: cases × candidates."""

    tiles: Floats
    depth: Floats  # k of a split, padded
    waves: Floats
    loop: Floats  # cycles of one step in k
    compute: Floats  # seconds, as all below
    dram: Floats
    l2: Floats
    body: Floats  # the three overlapped
    store: Floats
    reduce: Floats
    moved: Floats  # bytes from DRAM
    through: Floats  # bytes through L2

    @property
    def total(self) -> Floats:
        return np.asarray(self.body + self.store + self.reduce)


def machine(chip: Chip, dtype: str, c: Mapping[str, float]) -> Machine:
    """Raises InputError for a type that the chip has no unit for."""
    rate, scale = _rates(chip, dtype)
    size = STORED[dtype]
    return Machine(chip, c, size, {"int8": 4.0}.get(dtype, max(size, OUT_BYTES)), rate, scale)


@functools.cache
def candidates() -> Plan:
    table = np.array([(m, n, s) for m, n in TILES for s in SPLITS], dtype=float)
    return Plan(*(table[:, i][None] for i in range(3)))


def timed(cases: Mapping[str, NDArray[Any]], on: Machine) -> Timed:
    """All candidates of all cases; those that may not be have infinite body."""
    plan, chip, c = candidates(), on.chip, on.c
    m, n, k, batch = (cases[name][:, None] for name in ("m", "n", "k", "batch"))
    tiles = np.ceil(m / plan.tile_m) * np.ceil(n / plan.tile_n) * plan.split * batch
    depth = np.ceil(k / plan.split / DEPTH) * DEPTH
    waves, loop = _waves(tiles, on), _main_loop(plan, on)
    compute = waves * (loop * depth + on.scaled("tile_cycles", "scale_tile")) / chip.clock_hz
    moved, through = _traffic(cases, plan, tiles, depth, on)
    dram, l2 = moved * _seconds_a_byte(np.minimum(tiles, chip.units), on), through / on.l2_b_s
    power = c["overlap_power"]
    body = (compute**power + dram**power + l2**power) ** (1 / power)
    allowed = (plan.split == 1) | (k / plan.split >= SHALLOWEST)
    store = waves ** (1 - c["store_overlap"]) * plan.tile_m * plan.tile_n * on.out
    store = store / (on.scaled("store_bytes_per_flop", "scale_store") * REFERENCE_FLOP * chip.clock_hz)
    reduce = on.delay_s("reduce_us", "scale_reduce") + 8.0 * plan.split * m * n * batch / on.l2_b_s  # fp32, written and read
    return Timed(
        tiles, depth, waves, np.broadcast_to(loop, tiles.shape), compute, dram, l2, np.where(allowed, body, np.inf), store,
        np.where(plan.split > 1, reduce, 0.0), moved, through,
    )  # fmt: skip


def _rates(chip: Chip, dtype: str) -> tuple[float, float]:
    """FLOP a clock and unit of the type, and how the machine's bf16 rate stands to the reference."""
    table = chip.flop_per_clock
    unit = unit_of(dtype)
    rate = table.get(unit) or (table.get(unit.replace("matrix", "fma")) if dtype in ("fp32", "fp64") else None)
    if not rate:
        valid = ", ".join(sorted(name.split(".")[1] for name in table if name.startswith("matrix.")))
        raise InputError(f"this machine has no matrix unit for {dtype}; valid: {valid or 'none'}")
    whole = table.get("matrix.bf16") or table.get("matrix.fp16") or rate
    return rate, whole / REFERENCE_FLOP


def _waves(tiles: Floats, on: Machine) -> Floats:
    """Tiles of the busiest unit: between whole waves and an even share, as schedulers smooth the last wave; at least one."""
    share = tiles / on.chip.units
    whole = min(on.scaled("whole_waves", "scale_waves"), 1.0)
    return np.asarray(whole * np.ceil(share) + (1 - whole) * np.maximum(share, 1.0))


def _main_loop(plan: Plan, on: Machine) -> Floats:
    """Cycles of one step in k of a tile: its products, or what feeds them."""
    c, area = on.c, plan.tile_m * plan.tile_n
    pipe = 2.0 * area / on.rate / (c["matrix_share"] * c.get("matrix_factor", 1.0)) * (1.0 + 409.6 * c["small_tile"] / area)
    feed = (
        (plan.tile_m + plan.tile_n)
        * on.size
        / (on.scaled("feed_bytes_per_flop", "scale_feed") * c.get("feed_factor", 1.0) * REFERENCE_FLOP)
    )
    power, longest = c["feed_power"], np.maximum(pipe, feed)
    return np.asarray(longest * ((pipe / longest) ** power + (feed / longest) ** power) ** (1 / power))


def _traffic(cases: Mapping[str, NDArray[Any]], plan: Plan, tiles: Floats, depth: Floats, on: Machine) -> tuple[Floats, Floats]:
    """Bytes from DRAM and through L2. Weights are read from DRAM; activations and results as far as L2 cannot hold them; what a wave's
    unique rows and columns re-read once both operands outgrow L2 is counted in part."""
    m, n, k, batch = (cases[name][:, None] for name in ("m", "n", "k", "batch"))
    held = on.chip.l2_bytes
    a, b, result = m * k * on.size * batch, k * n * on.size * batch, m * n * on.out * batch
    once = b + a * np.minimum(1.0, a / held) + result * np.minimum(1.0, result / held)
    together = np.minimum(tiles, on.chip.units)
    rows = np.clip(np.sqrt(together * plan.tile_n / plan.tile_m), 1.0, np.ceil(m / plan.tile_m))
    columns = np.minimum(np.ceil(n / plan.tile_n), together / rows)
    through = tiles * (plan.tile_m + plan.tile_n) * depth * on.size
    unique = np.maximum(tiles / together, 1.0) * (rows * plan.tile_m + columns * plan.tile_n) * depth * on.size
    again = REREAD * np.minimum(unique, through) * np.minimum(1.0, (a + b) / held)
    return np.maximum(once, again), through


def _seconds_a_byte(active: Floats, on: Machine) -> Floats:
    """Of DRAM, when so many units have bytes in flight."""
    whole = on.chip.memory_b_s * min(on.scaled("dram_share", "scale_dram"), 0.95)
    units = active * on.scaled("unit_gb_s", "scale_unit") * 1e9
    return np.asarray((whole**-4.0 + units**-4.0) ** 0.25)
