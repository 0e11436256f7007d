"""Matrix products: candidate tiles and splits of k, the time of each from what it asks of pipes, caches and memory, and the quickest.

A candidate cuts the result into tiles; tiles run in waves over the compute units. A tile's main loop is held by the matrix pipe, by
shared memory, or by what feeds it from L2; before and after it stand a latency and the writing of its result. DRAM, whose bandwidth
needs bytes in flight from enough units, overlaps with it (p-norm). Splitting k adds a reduction. The time is the mean over candidates,
weighed by a power of their speed and by a liking for large tiles, since libraries' heuristics miss the best one now and then.

Between generations, what feeds a matrix unit has grown with it: see `gemm_tiles`. The same coefficients serve every GPU.
Power: the clock that calls back to back hold is `kernels.power`'s; loads of a few calls fall to it only in part. Rows and columns that
fill up a tile are zeros, which draw next to nothing: the operations counted for power are those of the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels import gemm_kernels, gemm_tiles, power
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats, stored
from hotlap.core.model.kernels.gemm_kernels import KernelMatch
from hotlap.core.model.kernels.gemm_tiles import TileMachine, TileTimes

CHUNK = 512  # cases at once: their candidates stay in the processor's cache
PARTS = (
    "matrix unit", "operand feed", "tile quantisation", "wave quantisation", "tile latency", "DRAM", "latency", "epilogue",
    "split reduction", "launch", "quantisation pass", "clock under the power cap", "host",
)  # fmt: skip
UNCLOCKED = ("DRAM", "launch", "quantisation pass")  # parts that do not go with the clock
LARGEST, MOST = 1e15, 1e28  # of any one number, and of products: singles hold them
HOST_POWER = 8.0  # of the longer of device and host
PLAIN, NVFP4 = "bf16", "nvfp4"  # the second: what libraries call fp4 with a scale for 16
LAUNCH_US = 1.0  # of a node of a graph, beside what goes with the clock: assumed, no data of one machine can tell them apart
ROW_S = 1e-6 / 8  # of a unit for a row's block of threads: eight of 256 at once, a microsecond each; assumed
MEASURED = ("bf16", "fp16", "fp8", "fp8_block", "fp4")


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
    count, known = len(cases["m"]), coefficients or stored("gemm")
    scalar = np.ndim(implementation) == 0 and np.ndim(params.get("dtype", "")) == 0
    if scalar and count <= CHUNK:
        dtype = str(cases["dtype"][0])
        return _estimate(cases, chip, dtype, gemm_kernels.find(known, str(implementation), dtype, chip.target))
    names = np.broadcast_to(np.asarray(implementation, dtype=str), (count,))
    kinds = [(cases["dtype"][0], names[0])] if scalar else sorted(set(zip(cases["dtype"].tolist(), names.tolist(), strict=True)))
    demands: list[Estimate] = []
    order: list[NDArray[np.int64]] = []
    for dtype, name in kinds:
        rows = np.arange(count) if scalar else np.flatnonzero((cases["dtype"] == dtype) & (names == name))
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            order.append(part)
            some = {key: value[part] for key, value in cases.items()}
            demands.append(_estimate(some, chip, dtype, gemm_kernels.find(known, name, dtype, chip.target)))
    return _joined(demands, np.concatenate(order) if order else np.zeros(0, dtype=int))


SIZES = ("m", "n", "k", "batch")
VALID: Mapping[str, Any] = {"m": None, "n": None, "k": None, "batch": 1.0, "dtype": PLAIN, "sustained": True, "copies": np.nan}


def _cases(params: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    for name in params:
        if name not in VALID:
            raise InputError(f"gemm has no parameter '{name}'; {nearest(name, VALID)}")
    given = {**VALID, **params}
    for name in ("m", "n", "k"):
        if given[name] is None:
            raise InputError(f"gemm needs '{name}'")
    arrays = {name: np.asarray(value).reshape(-1) for name, value in given.items()}
    count = max(len(array) for array in arrays.values())
    cases = {name: array if len(array) == count else np.repeat(array, count) for name, array in arrays.items()}
    sizes = np.array([cases[name] for name in SIZES], dtype=np.float64)
    if not (sizes.min(initial=1.0) >= 1 and sizes.max(initial=1.0) < LARGEST):  # NaN neither
        wrong = next(name for name, values in zip(SIZES, sizes, strict=True) if not (values.min() >= 1 and values.max() < LARGEST))
        raise InputError(f"'{wrong}' is a number from 1 to under {LARGEST:.0e}", about="gemm: ")
    cases.update(zip(SIZES, sizes, strict=True))
    if not (sizes[0] * sizes[1] * sizes[2] * sizes[3]).max(initial=1.0) < MOST:
        raise InputError(f"m × n × k × batch is under {MOST:.0e}", about="gemm: ")
    kinds = cases["dtype"].astype(str)
    cases["dtype"] = np.where(kinds == NVFP4, "fp4", kinds) if (kinds == NVFP4).any() else kinds
    return cases


def _joined(demands: list[Estimate], order: NDArray[np.int64]) -> Estimate:
    """Chunks of cases as one, in the order asked for."""
    back = np.argsort(order, kind="stable")

    def join(tables: list[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        names = sorted({name for table in tables for name in table})
        sizes = [len(next(iter(table.values()))) for table in tables]
        return {n: np.concatenate([t.get(n, np.zeros(s)) for t, s in zip(tables, sizes, strict=True)])[back] for n in names}

    demand = Demand(
        join([one.demand.operations for one in demands]), *(np.concatenate([one.demand[i] for one in demands])[back] for i in (1, 2, 3)),
    )  # fmt: skip
    seconds, inside = (np.concatenate([one[i] for one in demands])[back] for i in (0, 4))
    clock = np.concatenate([one.clock_hz for one in demands if one.clock_hz is not None])[back]
    return Estimate(seconds, join([one.parts for one in demands]), demand, join([one.choice for one in demands]), inside, clock)


# ---------------------------------------------------------------- one type


def _estimate(cases: Mapping[str, NDArray[Any]], chip: Chip, dtype: str, match: KernelMatch) -> Estimate:
    c, on = match.coefficients, gemm_tiles.machine(chip, dtype, match.coefficients, match.kernel)
    cases = {**cases, "copies": _copies(cases, on)}
    timed = gemm_tiles.timed(cases, on)
    at = (np.arange(len(cases["m"])), np.argmin(timed.total * timed.liking, axis=1))
    mean = _mean(timed, c["choice_power"]) / timed.total[at]
    parts = {name: value * mean for name, value in _chosen(cases, timed, at, on).items()} | _added(cases, on)
    seconds = np.sum(list(parts.values()), axis=0)
    flop = 2.0 * cases["m"] * cases["n"] * cases["k"] * cases["batch"]
    moved, through = (one[at].astype(np.float64) for one in (timed.moved, timed.through))
    demand = Demand({on.unit: flop}, np.zeros(len(flop)), moved, np.maximum(through, moved))
    clock, slower = _clock(demand, seconds, parts, on)
    share = np.where(cases["sustained"].astype(bool), 1.0, seconds / (seconds + 1e-6 * c["burst_us"]))
    parts["clock under the power cap"] = seconds * (slower - 1.0) * share
    on_device, host = seconds + parts["clock under the power cap"], 1e-6 * c.get("host_us", 0.0) * chip.facts.get("host_share", 1.0)
    parts["host"] = (on_device**HOST_POWER + host**HOST_POWER) ** (1 / HOST_POWER) - on_device
    raised = np.maximum(_least(cases, flop, on) / (on_device + parts["host"]), 1.0)
    parts = {name: value * raised for name, value in parts.items()}
    choice = {
        "tile_m": timed.tile_m[0][at[1]].astype(np.float64), "tile_n": timed.tile_n[0][at[1]].astype(np.float64),
        "split": timed.split[at].astype(np.float64), "tasks": timed.tiles[at].astype(np.float64),
    }  # fmt: skip
    choice["waves"] = choice["tasks"] / chip.units
    return Estimate(np.sum(list(parts.values()), axis=0), parts, demand, choice, _inside(cases, dtype, match), clock)


def _copies(cases: Mapping[str, NDArray[Any]], on: TileMachine) -> Floats:
    """Sets of weights that calls go through in turn: as asked, or as where the kernel was measured."""
    usual = on.kernel.copies or np.clip(np.ceil(on.chip.l2_bytes / (on.size * cases["n"] * cases["k"])), 1.0, 5.0)
    return np.where(np.isnan(cases["copies"]), usual, cases["copies"])


def _mean(timed: TileTimes, power: float) -> Floats:
    """Seconds over all candidates, each weighed by a power of how quick it seems."""
    seems = timed.total * timed.liking
    weight = np.exp(np.float32(-power) * np.log(seems / seems.min(axis=1, keepdims=True)))
    return np.asarray(((weight * timed.total).sum(axis=1) / weight.sum(axis=1)).astype(np.float64))


def _added(cases: Mapping[str, NDArray[Any]], on: TileMachine) -> dict[str, Floats]:
    """What does not depend on the tile: launch, first latency, and a pass that quantises the activations."""
    ones, c = np.ones(len(cases["m"])), on.c
    added = {
        "launch": ones * 1e-6 * (c.get("launch_us", LAUNCH_US) + c.get("extra_us", 0.0)),
        "latency": ones * c["fill_cycles"] / on.chip.clock_max_hz,
        "quantisation pass": 0.0 * ones,
    }
    if "pass_factor" in c:
        rows = cases["m"] * cases["batch"]
        moved = rows * cases["k"] * (gemm_tiles.OUT_BYTES + on.size)  # read in 16 bits, written in 8 or 4
        beyond = gemm_tiles.lost(moved + on.size * cases["n"] * cases["k"], on)
        passed = moved * (beyond / c["dram_share"] + c["pass_factor"]) / on.chip.memory_b_s
        added["quantisation pass"] = passed + rows * (1e-9 * c.get("pass_row_ns", 0.0) + on.kernel.by_rows * ROW_S / on.chip.units)
    return added


def _chosen(cases: Mapping[str, NDArray[Any]], timed: TileTimes, at: tuple[NDArray[Any], ...], on: TileMachine) -> dict[str, Floats]:
    """Parts of the chosen candidate. The overlapped time is shared between arithmetic and DRAM as their powers; the arithmetic's
    share among its parts, each what it adds to the one before."""
    compute, dram, body, store, reduce = (
        one[at].astype(np.float64) for one in (timed.compute, timed.dram, timed.body, timed.store, timed.reduce)
    )
    share = 1 / (1 + (dram / compute) ** on.c["overlap_power"])
    inner = _arithmetic(cases, timed, at, on)
    busy = np.sum(list(inner.values()), axis=0)
    inner["tile latency"] = np.maximum(compute - busy, 0.0)  # singles are rounded
    parts = {name: body * share * value / np.maximum(compute, busy) for name, value in inner.items()}
    return {**parts, "DRAM": body * (1 - share), "epilogue": store, "split reduction": reduce}


def _arithmetic(cases: Mapping[str, NDArray[Any]], timed: TileTimes, at: tuple[NDArray[Any], ...], on: TileMachine) -> dict[str, Floats]:
    chip, area = on.chip, timed.tile_m[0][at[1]] * timed.tile_n[0][at[1]]
    peak = on.rate * chip.units * chip.clock_hz
    depth, count = timed.depth[at].astype(np.float64), timed.tiles[at].astype(np.float64)
    plain = 2.0 * cases["m"] * cases["n"] * cases["k"] * cases["batch"] / peak
    whole = 2.0 * count * area * depth / peak
    step = timed.fed[0][at[1]] * depth / chip.clock_hz
    fed, waited = count / chip.units * step, timed.waves[at] * step
    more = {"tile quantisation": whole - plain, "operand feed": fed - whole, "wave quantisation": waited - fed}
    return {"matrix unit": plain} | {name: np.maximum(value, 0.0) for name, value in more.items()}  # singles are rounded


def _clock(demand: Demand, seconds: Floats, parts: Mapping[str, Floats], on: TileMachine) -> tuple[Floats, Floats]:
    """The clock that calls back to back hold under the power limit, and how much longer each takes at it; NaN and 1 where the limit or
    the energy of an operation is not known."""
    if not on.chip.power_w or not power.known(demand.operations):
        return np.full(len(seconds), np.nan), np.ones(len(seconds))
    fixed = np.minimum(np.sum([parts[name] for name in UNCLOCKED], axis=0), seconds)
    table, c = power.stored(), on.c
    energy = c["own_pj"] / power.energy_scale(on.chip, table) if "own_pj" in c else c["operation_pj"]
    table = {**table, power.FROM_TIMES: energy * c.get("data_factor", 1.0)}
    held = power.clock(demand, power.PowerDemand(seconds - fixed, fixed), on.chip, kind="gemm", coefficients=table)
    return held.clock_hz, held.slowdown


def _least(cases: Mapping[str, NDArray[Any]], flop: Floats, on: TileMachine) -> Floats:
    """Below which nothing can be: all units busy at the highest clock, and from DRAM what all of L2 cannot have kept."""
    rows, columns, inner, batch = (cases[name] for name in ("m", "n", "k", "batch"))
    touched = batch * (on.size * inner * (rows + columns) + on.out * rows * columns)
    moved = np.maximum(touched - on.chip.l2_bytes, 0.0) / on.chip.memory_b_s
    return np.asarray(np.maximum(flop / (on.rate * on.chip.units * on.chip.clock_max_hz), moved))


def _inside(cases: Mapping[str, NDArray[Any]], dtype: str, match: KernelMatch) -> NDArray[np.bool_]:
    """Sizes, types and kernels that were measured."""
    fits = (cases["n"] >= 32) & (cases["n"] <= 65536) & (cases["k"] >= 32) & (cases["k"] <= 65536)
    return np.asarray(fits & (cases["m"] <= 32768) & (cases["batch"] == 1) & (dtype in MEASURED) & (not match.near))
