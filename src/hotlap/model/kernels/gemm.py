"""Matrix products: candidate tiles and splits of k, the time of each from what it asks of pipes, caches and memory, and the quickest.

A candidate cuts the result into tiles; tiles run in waves over the compute units. A tile's main loop is held by the matrix pipe or by
what feeds it from L2 (bytes a clock and unit); before and after it stand a latency and the writing of its result. All units together
are held by L2 and by DRAM, whose bandwidth needs bytes in flight from enough units. The three overlap (p-norm). Splitting k adds a
reduction. The choice is a softened minimum, since libraries' heuristics miss the best one now and then.

Between generations, what feeds a matrix pipe has grown with it: coefficients hold at 4096 FLOP a clock and unit (bf16) and scale with
powers of that rate (`scale_*`), latencies with powers of the highest clock. The same coefficients serve every GPU.
Power: when a call at full clock would draw more than the limit, the clock falls (`slow`); in short loads only in part.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.errors import InputError, nearest
from hotlap.model.kernels.base import Chip, Demand, Estimate, Floats
from hotlap.work.base import STORED, unit_of

TILES = (
    (16, 64), (16, 128), (32, 64), (64, 32), (64, 64), (64, 128), (64, 192), (64, 256), (128, 64), (128, 128), (128, 192), (128, 256), (192, 128),
)  # fmt: skip
SPLITS = (1, 2, 3, 4, 6, 8, 16)
DEPTH = 64  # k is padded to it
SHALLOWEST = 128  # of a split
REFERENCE_FLOP, REFERENCE_HZ = 4096.0, 1.98e9  # at which coefficients hold: Hopper's
CHUNK = 512  # cases at once: their candidates stay in the processor's cache
OUT_BYTES = 2.0  # of an element of the result; int8 and wide types: their own
DRAM_PJ = 25.0  # energy of a byte from DRAM: of the size that HBM's vendors publish (3 to 4 pJ a bit), rounded down; assumed
NARROW_ENERGY = {1.0: 0.7}  # of an operation on 1-byte types against bf16: slopes of power on H200, models of fp8 0.251 ÷ 0.345 pJ
PARTS = (
    "matrix unit", "operand feed", "tile quantisation", "wave quantisation", "tile latency", "L2", "DRAM", "latency", "epilogue",
    "split reduction", "launch", "quantisation pass", "clock under the power cap", "host",
)  # fmt: skip
LARGEST = 1e15  # of any one number


class Plan(NamedTuple):
    """Candidates as rows of one."""

    tile_m: Floats
    tile_n: Floats
    split: Floats


@functools.cache
def stored() -> Mapping[str, Mapping[str, float]]:
    """The fitted coefficients: `base`, and what is added for implementations."""
    file = importlib.resources.files("hotlap.model") / "coefficients" / "gemm.toml"
    found: Mapping[str, Mapping[str, float]] = tomllib.loads(file.read_text(encoding="utf-8"))["coefficients"]
    return found


@functools.cache
def candidates() -> Plan:
    table = np.array([(m, n, s) for m, n in TILES for s in SPLITS], dtype=float)
    return Plan(*(table[:, i][None] for i in range(3)))


def estimate(
    params: Mapping[str, ArrayLike],
    chip: Chip,
    implementation: str | ArrayLike = "",
    coefficients: Mapping[str, Mapping[str, float]] | None = None,
) -> Estimate:
    """Expected times of products m × k by k × n. Cases: `m`, `n`, `k`, and optionally `batch`, `dtype` (one or an array),
    `sustained` (False: a load of a few calls, before the clock falls).

    `implementation`: the source of the kernel and its dtype as in the coefficients, as "vllm/DeepGemmFp8BlockScaledMMKernel"; unknown
    ones are taken for the library's plain product. Raises InputError for numbers out of range and types that the machine lacks.
    """
    cases = _cases(params)
    count = len(cases["m"])
    names = np.broadcast_to(np.asarray(implementation, dtype=str), (count,))
    known = coefficients or stored()
    found: list[Estimate] = []
    order: list[NDArray[np.int64]] = []
    for dtype, name in sorted(set(zip(cases["dtype"].tolist(), names.tolist(), strict=True))):
        rows = np.flatnonzero((cases["dtype"] == dtype) & (names == name))
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            order.append(part)
            found.append(_estimate({key: value[part] for key, value in cases.items()}, chip, dtype, _coefficients(known, name, dtype)))
    return _joined(found, np.concatenate(order) if order else np.zeros(0, dtype=int))


def _cases(params: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    valid = {"m": None, "n": None, "k": None, "batch": 1.0, "dtype": "bf16", "sustained": True}
    for name in params:
        if name not in valid:
            raise InputError(f"gemm has no parameter '{name}'; {nearest(name, valid)}")
    given = {**{k: v for k, v in valid.items() if v is not None}, **params}
    for name in ("m", "n", "k"):
        if name not in given:
            raise InputError(f"gemm needs '{name}'")
    arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(value)) for value in given.values()))
    cases = {name: np.ravel(array) for name, array in zip(given, arrays, strict=True)}
    for name in ("m", "n", "k", "batch"):
        cases[name] = cases[name].astype(np.float64)
        if not np.all((cases[name] >= 1) & (cases[name] < LARGEST)):
            raise InputError(f"gemm: '{name}' is a number from 1 to under {LARGEST:.0e}")
    cases["dtype"] = cases["dtype"].astype(str)
    return cases


def _coefficients(known: Mapping[str, Mapping[str, float]], name: str, dtype: str) -> dict[str, float]:
    own = known.get(f"{name}.{dtype}") or known.get(f"default.{dtype}") or {}
    return {**known["base"], **own}


def _joined(found: list[Estimate], order: NDArray[np.int64]) -> Estimate:
    """Chunks of cases as one, in the order asked for."""
    back = np.argsort(order, kind="stable")

    def join(tables: list[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        names = sorted({name for table in tables for name in table})
        sizes = [len(next(iter(table.values()))) for table in tables]
        return {n: np.concatenate([t.get(n, np.zeros(s)) for t, s in zip(tables, sizes, strict=True)])[back] for n in names}

    demand = Demand(
        join([one.demand.operations for one in found]), *(np.concatenate([one.demand[i] for one in found])[back] for i in (1, 2, 3)),
    )  # fmt: skip
    seconds, inside = (np.concatenate([one[i] for one in found])[back] for i in (0, 4))
    return Estimate(seconds, join([one.parts for one in found]), demand, join([one.choice for one in found]), inside)


# ---------------------------------------------------------------- one type


def _estimate(cases: Mapping[str, NDArray[Any]], chip: Chip, dtype: str, c: Mapping[str, float]) -> Estimate:
    rate, scale = _rates(chip, dtype)
    m, n, k, batch = (cases[name][:, None] for name in ("m", "n", "k", "batch"))
    plan, size = candidates(), STORED[dtype]
    out = {"int8": 4.0}.get(dtype, max(size, OUT_BYTES))
    tiles = np.ceil(m / plan.tile_m) * np.ceil(n / plan.tile_n) * plan.split * batch
    depth = np.ceil(k / plan.split / DEPTH) * DEPTH
    waves = _waves(tiles, chip, c, scale)
    loop = _main_loop(plan, size, rate, c, scale)
    compute = waves * (loop * depth + c["tile_cycles"] * scale ** c["scale_tile"]) / chip.clock_hz
    moved, through = _traffic(cases, plan, tiles, depth, (size, out), chip)
    dram = moved * _seconds_a_byte(np.minimum(tiles, chip.units), chip, c, scale)
    l2_rate = chip.units * c["l2_bytes_per_flop"] * REFERENCE_FLOP * scale ** c["scale_l2"] * chip.clock_hz
    l2 = through / l2_rate
    store = (
        waves * plan.tile_m * plan.tile_n * out / (c["store_bytes_per_flop"] * REFERENCE_FLOP * scale ** c["scale_store"]) / chip.clock_hz
    )
    store = store / np.maximum(waves, 1.0) ** c["store_overlap"]
    slower = REFERENCE_HZ / min(max(chip.clock_max_hz, 1.2e9), 2.4e9)
    reduce = 1e-6 * c["reduce_us"] * slower ** c["scale_reduce"] + 8.0 * plan.split * m * n * batch / l2_rate
    reduce = np.where(plan.split > 1, reduce, 0.0)
    power = c["overlap_power"]
    body = (compute**power + dram**power + l2**power) ** (1 / power)
    total = body + store + reduce
    total = np.where((plan.split == 1) | (k / plan.split >= SHALLOWEST), total, np.inf)
    best = np.argmin(total, axis=1)
    at = (np.arange(len(best)), best)
    least = total[at]
    soft = ((total / least[:, None]) ** -c["choice_power"]).sum(axis=1) ** (-1 / c["choice_power"])
    fixed = {
        "launch": 1e-6 * c["launch_us"] * slower ** c["scale_launch"] + 1e-6 * c.get("extra_us", 0.0),
        "latency": 1e-6 * c["fill_us"] * slower ** c["scale_fill"],
    }
    flop = 2.0 * cases["m"] * cases["n"] * cases["k"] * cases["batch"]
    padded = 2.0 * (tiles * plan.tile_m * plan.tile_n * depth)[at]
    parts = {
        **_body_parts(at, (compute, dram, l2), body * soft[:, None], power, _compute_parts(at, flop, padded, (rate, chip), (waves, loop, depth, tiles))),
        "epilogue": store[at] * soft, "split reduction": reduce[at] * soft, **{name: np.full(len(best), value) for name, value in fixed.items()},
        "quantisation pass": c.get("pass_bytes", 0.0) * cases["m"] * cases["k"] * cases["batch"] / chip.memory_b_s,
    }  # fmt: skip
    seconds = np.sum(list(parts.values()), axis=0)
    slow = _slowed(flop, moved[at], seconds, size, chip, c)
    share = np.where(cases["sustained"].astype(bool), 1.0, seconds / (seconds + 1e-6 * c["burst_us"]))
    parts["clock under the power cap"] = seconds * (slow - 1.0) * share
    on_device = seconds + parts["clock under the power cap"]
    host = 1e-6 * c.get("host_us", 0.0)  # what the host takes to call it, where no graph was recorded: the longer of both
    parts["host"] = (on_device**HOST_POWER + host**HOST_POWER) ** (1 / HOST_POWER) - on_device
    special = np.zeros(len(best))
    demand = Demand({unit_of(dtype): padded}, special, moved[at], through[at])
    chosen = {name: values[0, best] for name, values in zip(("tile_m", "tile_n", "split"), plan, strict=True)}
    choice = {**chosen, "waves": (tiles / chip.units)[at]}
    inside = (cases["m"] <= 65536) & (cases["n"] >= 32) & (cases["n"] <= 131072) & (cases["k"] >= 32) & (cases["k"] <= 131072)
    return Estimate(on_device + parts["host"], parts, demand, choice, inside & (dtype in ("bf16", "fp16", "fp8", "fp8_block")))


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


def _waves(tiles: Floats, chip: Chip, c: Mapping[str, float], scale: float) -> Floats:
    """Tiles of the busiest unit: between whole waves and an even share, as schedulers smooth the last wave."""
    share = tiles / chip.units
    whole = min(c["whole_waves"] * scale ** c["scale_waves"], 1.0)
    return np.asarray(whole * np.ceil(share) + (1 - whole) * np.maximum(share, 1.0))


def _main_loop(plan: Plan, size: float, rate: float, c: Mapping[str, float], scale: float) -> Floats:
    """Cycles of one step in k of a tile."""
    area = plan.tile_m * plan.tile_n
    ideal = 2.0 * area / rate
    pipe = ideal / (c["matrix_share"] * c.get("matrix_factor", 1.0)) * (1.0 + 409.6 * c["small_tile"] / area)
    feed = (
        (plan.tile_m + plan.tile_n)
        * size
        / (c["feed_bytes_per_flop"] * c.get("feed_factor", 1.0) * REFERENCE_FLOP * scale ** c["scale_feed"])
    )
    power = c["feed_power"]
    longest = np.maximum(pipe, feed)
    return np.asarray(longest * ((pipe / longest) ** power + (feed / longest) ** power) ** (1 / power))


def _traffic(
    cases: Mapping[str, NDArray[Any]], plan: Plan, tiles: Floats, depth: Floats, sizes: tuple[float, float], chip: Chip
) -> tuple[Floats, Floats]:
    """Bytes from DRAM and through L2. Weights are read from DRAM; activations and results as far as L2 cannot hold them; what a wave's
    unique rows and columns re-read once both operands outgrow L2 is counted in part (`REREAD`)."""
    m, n, k, batch = (cases[name][:, None] for name in ("m", "n", "k", "batch"))
    size, out = sizes
    a, b, result = m * k * size * batch, k * n * size * batch, m * n * out * batch
    once = b + a * np.minimum(1.0, a / chip.l2_bytes) + result * np.minimum(1.0, result / chip.l2_bytes)
    together = np.minimum(tiles, chip.units)
    rows = np.clip(np.sqrt(together * plan.tile_n / plan.tile_m), 1.0, np.ceil(m / plan.tile_m))
    columns = np.minimum(np.ceil(n / plan.tile_n), together / rows)
    through = tiles * (plan.tile_m + plan.tile_n) * depth * size
    unique = np.maximum(tiles / together, 1.0) * (rows * plan.tile_m + columns * plan.tile_n) * depth * size
    again = REREAD * np.minimum(unique, through) * np.minimum(1.0, (a + b) / chip.l2_bytes)
    return np.maximum(once, again), through


HOST_POWER = 8.0
REREAD = 0.35  # of the unique operands of each wave: the rest is still in L2 from the wave before


def _seconds_a_byte(active: Floats, chip: Chip, c: Mapping[str, float], scale: float) -> Floats:
    """Of DRAM, when so many units have bytes in flight."""
    whole = chip.memory_b_s * min(c["dram_share"] * scale ** c["scale_dram"], 0.95)
    units = active * c["unit_gb_s"] * 1e9 * scale ** c["scale_unit"]
    return np.asarray((whole**-4.0 + units**-4.0) ** 0.25)


def _compute_parts(
    at: tuple[NDArray[Any], ...], flop: Floats, padded: Floats, machine: tuple[float, Chip], made: tuple[Floats, ...]
) -> dict[str, Floats]:
    """Seconds that the arithmetic is made of, each what it adds to the one before."""
    rate, chip = machine
    waves, loop, depth, tiles = made
    plain = flop / (rate * chip.units * chip.clock_hz)
    whole = padded / (rate * chip.units * chip.clock_hz)
    share = (tiles / chip.units)[at]
    fed = share * (loop * np.ones_like(depth))[at] * depth[at] / chip.clock_hz
    waited = waves[at] * (loop * np.ones_like(depth))[at] * depth[at] / chip.clock_hz
    return {"matrix unit": plain, "tile quantisation": whole - plain, "operand feed": fed - whole, "wave quantisation": waited - fed}


def _body_parts(
    at: tuple[NDArray[Any], ...], three: tuple[Floats, Floats, Floats], body: Floats, power: float, inner: dict[str, Floats]
) -> dict[str, Floats]:
    """The overlapped time, shared between arithmetic, DRAM and L2 as their powers, and the arithmetic's share among its parts."""
    values = [one[at] for one in three]
    weights = [value**power for value in values]
    total = np.sum(weights, axis=0)
    compute, dram, l2 = (body[at] * weight / total for weight in weights)
    inner = {**inner, "tile latency": values[0] - np.sum(list(inner.values()), axis=0)}
    return {**{name: compute * value / values[0] for name, value in inner.items()}, "DRAM": dram, "L2": l2}


def _slowed(flop: Floats, moved: Floats, seconds: Floats, size: float, chip: Chip, c: Mapping[str, float]) -> Floats:
    """How much longer it takes once the clock has fallen to what the power limit allows; 1 where the limit is not known."""
    if not chip.power_w:
        return np.ones(len(flop))
    drawn = (c["operation_pj"] * NARROW_ENERGY.get(round(size), 1.0) * flop + DRAM_PJ * moved) * 1e-12 / seconds
    return np.asarray(np.maximum(drawn / (chip.power_w * (1 - c["static_share"])), 1.0) ** c["clock_power"])
