"""Kernels that mostly move data: elementwise, activation, rope, norm, softmax, sum, quantise, embedding, transpose, stream, gather.

    seconds = launch + first latency + overlap(DRAM, L2, bytes in flight, arithmetic, special functions)

Bytes cross DRAM at a share of the published bandwidth, a smaller one where reads and writes mix, since the bus turns round. What a warm
call finds in L2 crosses L2 alone. Little's law holds both: a unit has so many bytes in flight, a row only its own, so few or short rows
wait for latency. A row that fits the registers and shared memory of a unit is read once, a longer one again; a kernel that shares a row
over several units ("quack": clusters) reads it once at any length. Quantising by rows reads each again: from L2 as far as the rows in
work fit it. Single elements are fetched in sectors of 32 bytes.

What is fitted and what is assumed stands in coefficients/streaming.toml. Times are of calls back to back in a graph; a call that is timed
alone by events ("alone", as Triton's do_bench does) takes longer by a fitted constant.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core import work
from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats
from hotlap.core.work.base import STORED, Work, Workload
from hotlap.core.work.memory import gather_shape
from hotlap.core.work.traits import SECTOR

WORKLOADS = tuple(name for name, one in work.WORKLOADS.items() if one.model == "streaming")
SPECIALS = {  # exponentials and reciprocals of an element
    "gelu": 1.0, "silu_mul": 2.0, "softmax": 1.0, "sigmoid": 2.0, "tanh": 1.0, "silu": 2.0, "gelu_mul": 1.0, "gelu_backward": 2.0,
    "silu_mul_backward": 2.0, "cross_entropy": 1.0, "cross_entropy_backward": 1.0,
}
READ_ONCE = ("sum", "max")  # of rows: nothing is done with an element after its row's result is known
MEASURED = ("rmsnorm", "layernorm", "softmax", "rope")
SPECIALS_PER_CLOCK = 16.0  # of a unit; CUDA C++ Programming Guide, arithmetic throughput, since compute capability 6
L2_PORT = 64.0  # bytes a clock from L2 into a unit, which what comes from DRAM passes too; A100 white paper
PASSED_BYTES_A_UNIT = 32 * 2**20  # that a stream over a small working set moves in one launch, as the workload does
MEASURED_BYTES = (4e6, 2e10)


class Moves(NamedTuple):
    """What a call moves. Arrays of one entry per case."""

    read: Floats  # bytes, whole sectors
    written: Floats
    row: Floats  # bytes of a row that a block keeps to itself; 0 where elements are independent
    rows: Floats
    again: Floats  # bytes that are read a second time from a row just read
    in_l2: Floats  # share of all bytes that L2 has or keeps
    special: Floats
    flop: Mapping[str, Floats]
    share: float  # of a copy's rate: transposes
    passes: Floats  # calls in one launch
    known: NDArray[np.bool_]  # of a kind that was measured


@functools.cache
def stored() -> Mapping[str, float]:
    """Coefficients, fitted and assumed."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / "streaming.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))["coefficients"]
    return {**tables["fitted"], **tables["assumed"]}


def estimate(
    workload: str,
    params: Mapping[str, Any],
    chip: Chip,
    implementation: str | ArrayLike = "",
    coefficients: Mapping[str, float] | None = None,
) -> Estimate:
    """Expected times. `params`: complete, numbers as arrays or single. `implementation`: "alone", "quack" or both in one text; other names
    say nothing. Raises InputError for a workload that it does not know."""
    if workload not in WORKLOADS:
        raise InputError(f"'{workload}' is not a streaming kernel; {nearest(workload, WORKLOADS)}")
    name = implementation if isinstance(implementation, str) else str(np.asarray(implementation).ravel()[0])
    c = stored() if coefficients is None else coefficients
    return timed(_moves(workload, params, chip, c, "quack" in name.split()), chip, c, "alone" in name.split())


def timed(moves: Moves, chip: Chip, c: Mapping[str, float], alone: bool = False) -> Estimate:
    """Expected times of calls that move so much."""
    parts = _parts(moves, chip, c, alone)
    total = moves.read + moves.written + moves.again
    spilled = moves.again * _spilled(moves, chip, c)
    crossing = (moves.read + moves.written) * (1 - moves.in_l2) + spilled
    demand = Demand(dict(moves.flop), moves.special, crossing, total)
    inside = moves.known & (moves.in_l2 == 0) & (total >= MEASURED_BYTES[0]) & (total <= MEASURED_BYTES[1])
    return Estimate(np.sum(list(parts.values()), axis=0), parts, demand, {}, inside)


# ---------------------------------------------------------------- bytes


def _moves(workload: str, params: Mapping[str, Any], chip: Chip, c: Mapping[str, float], shared: bool) -> Moves:
    numbers = {name: value for name, value in params.items() if not isinstance(value, str)}
    shape = np.broadcast_shapes(*(np.shape(value) for value in numbers.values())) or (1,)

    def full(value: Any) -> Floats:
        return np.broadcast_to(np.asarray(value, dtype=float), shape).ravel()

    kind = work.find(workload)
    traffic, asked = kind.traffic, _work(kind, params)
    read, written, op = full(asked.read_bytes), full(asked.written_bytes), str(params.get("op", ""))
    row, rows, again, passes = np.zeros(len(read)), np.ones(len(read)), np.zeros(len(read)), np.ones(len(read))
    elements = np.zeros(len(read))
    if traffic == "elements":
        elements = full(params["elements"])
    elif traffic == "rows":
        rows = full(params["rows"])
        row, elements = read / rows, rows * full(params["columns"])
        kept = chip.shared_bytes + 4.0 * chip.registers  # of one unit
        again = read * ((op == "quantise") | ((row > kept) & np.full(len(read), op not in READ_ONCE) & (kept > 0) & (not shared)))
    elif traffic == "table":
        extra = _sectors(full(params["columns"]) * float(STORED[str(params["dtype"])])) * full(params["tokens"])
        read = np.maximum(read, extra + 4.0 * full(params["tokens"]))
    elif traffic == "turned":
        size = STORED[str(params["dtype"])]
        narrow = [_sectors(full(params[side]) * size) / (full(params[side]) * size) for side in ("columns", "rows")]
        read, written = read * narrow[0], written * narrow[1]
    in_l2 = np.zeros(len(read))
    if kind.memory_alone:
        read = full(_fetched(params)) if traffic == "gathered" else read
        used = full(asked.working_set_bytes)
        if params.get("cache") != "cold":
            in_l2 = np.clip((1 - used / max(chip.l2_bytes, 1.0)) / (1 - c["l2_kept"]), 0.0, 1.0)
            passes = (
                np.maximum(1.0, PASSED_BYTES_A_UNIT * chip.units // np.maximum(read + written, 1.0)) if kind.shares_launch else passes
            )
    flop = {unit: full(count) for unit, count in asked.operations.items()}
    known = np.full(len(read), op in MEASURED or (traffic == "contiguous" and op not in ("write", "read")))
    turned = c["turned_share"] if traffic == "turned" else 1.0
    return Moves(read, written, row, rows, again, in_l2, elements * SPECIALS.get(op, 0.0), flop, turned, passes, known)


def _work(kind: Workload, params: Mapping[str, Any]) -> Work:
    """Counts of the workload; sizes of streams and gathers are whole vectors, so these take one case."""
    if kind.memory_alone:
        params = {n: v if isinstance(v, str) else np.asarray(v).ravel()[0].item() for n, v in params.items()}
    return kind.work(params)


def _sectors(width: Floats) -> Floats:
    """Bytes of whole sectors that hold so many."""
    return np.ceil(width / SECTOR) * SECTOR


def _fetched(params: Mapping[str, Any]) -> float:
    """Bytes that a gather of 4-byte elements fetches: a sector each, unless neighbours share one; and its index."""
    one = {n: v if isinstance(v, str) else np.asarray(v).ravel()[0].item() for n, v in params.items()}
    count = gather_shape(one)[1]
    if one["pattern"] == "strided":
        return float(count * min(4.0 * float(one["stride"]), SECTOR))
    return float(count * (SECTOR + 4.0))


def _spilled(moves: Moves, chip: Chip, c: Mapping[str, float]) -> Floats:
    """Share of second readings that come from DRAM: rows in work, by what of L2 they fill."""
    at_once = np.minimum(moves.rows, chip.units * _blocks(chip)) * moves.row
    return np.clip((at_once / max(chip.l2_bytes, 1.0) - c["spill_begins"]) / (c["spill_ends"] - c["spill_begins"]), 0.0, 1.0)


def _blocks(chip: Chip) -> float:
    """Blocks of 256 threads that a unit holds."""
    return float(max(chip.warps_max * 32 // 256, 1))


# ---------------------------------------------------------------- time


def _parts(moves: Moves, chip: Chip, c: Mapping[str, float], alone: bool) -> dict[str, Floats]:
    """Times by cause; they add up to the call."""
    again_dram = moves.again * _spilled(moves, chip, c)
    total = moves.read + moves.written
    plain = total * (1 - moves.in_l2)
    mixed = 2.0 * np.minimum(moves.read, moves.written) / np.maximum(moves.read + moves.written, 1.0)
    share = moves.share * (c["read_share"] + (c["copy_share"] - c["read_share"]) * mixed)
    per_second = chip.units * chip.clock_hz
    latency = np.where(moves.in_l2 < 1.0, c["latency_cycles"], c["l2_cycles"]) / chip.clock_hz
    rates = {
        "DRAM": plain / (share * chip.memory_b_s),
        "row passes": again_dram / (c["read_share"] * chip.memory_b_s),
        "L2": (plain / L2_PORT + (total - plain + moves.again) / c["l2_bytes_per_clock"]) / (per_second * chip.l2_factor),
        "bytes in flight": moves.read / _in_flight(moves, chip, c) * latency,
        "special functions": moves.special / (per_second * SPECIALS_PER_CLOCK),
        "arithmetic": sum((n / _rate(unit, chip, c) for unit, n in moves.flop.items()), np.zeros(len(moves.read))),
    }
    rates["DRAM"], passes = rates["DRAM"] + rates["row passes"], rates.pop("row passes")
    fixed = (c["launch_cycles"] + (c["alone_cycles"] if alone else 0.0)) / (chip.original or chip).clock_hz / moves.passes
    found = {"launch": fixed, "latency": latency / moves.passes, **_overlapped(rates, c["overlap"])}
    again = found["DRAM"] * passes / np.maximum(rates["DRAM"], 1e-30)
    return {**found, "DRAM": found["DRAM"] - again, "row passes": again}


def _rate(unit: str, chip: Chip, c: Mapping[str, float]) -> float:
    per_clock = chip.flop_per_clock.get(unit) or chip.flop_per_clock.get("fma.fp32", 256.0)
    return chip.units * chip.clock_hz * per_clock * c["arithmetic_share"]


def _in_flight(moves: Moves, chip: Chip, c: Mapping[str, float]) -> Floats:
    """Bytes that are asked for at once: all that units can hold, or all that there is of each row in work."""
    most = chip.units * c["in_flight_per_unit"]
    rows = np.where(moves.row > 0, moves.rows * np.minimum(moves.row, c["in_flight_per_row"]), moves.read * moves.passes)
    return np.maximum(np.minimum(most, rows), 1.0)


def _overlapped(rates: Mapping[str, Floats], power: float) -> dict[str, Floats]:
    """Times of pipes that run side by side as parts of their common time, each by its share of the p-norm."""
    largest = np.maximum(np.max(list(rates.values()), axis=0), 1e-30)
    terms = {name: (time / largest) ** power for name, time in rates.items()}
    total = np.sum(list(terms.values()), axis=0)
    return {name: largest * total ** (1 / power) * term / total for name, term in terms.items()}
