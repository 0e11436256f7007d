"""Power that a kernel draws on a board, and the clock it holds under the board's cap: from what it does, how fast, and the spec.

    power = idle + leakage·v + toggling of busy units·x·v² + (operations, specials, L2 bytes)/seconds·energy·v² + DRAM bytes/seconds·energy

x = clock ÷ highest clock and v = voltage ÷ voltage at the highest clock, a line with a floor: v = max(floor, 1 − slope·(1 − x)). Memory
has a clock and voltage of its own. Under a cap the clock falls until power meets it: arithmetic, caches and launches inside the chip
take 1/x longer, DRAM does not, and what slows down also asks for less power, so both are solved together.

Energies hold on Hopper: of a 16-bit matrix operation from times at the cap (coefficients/gemm.toml), the others from power readings
(coefficients/power.toml), in which rows at the cap say no more than that. They scale to other chips by one published fact: watts of the
limit per dense 16-bit matrix FLOP/s at the highest clock, against H200's; its square root where it is greater, since A100 reaches 88 %
of its peak within its 400 W. Idle power and leakage are what the machine table has read of the board (`static_w`), else they scale with
the limit; the toggling of busy units goes with their number and clock. The scaling is assumed, and holds from H200 to B200 and back. The
energy of a bit depends on what the data are (zeros draw far less than noise); measured cases held random numbers.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Chip, Demand, Floats
from hotlap.core.model.machines import UNITS_OF_ARITHMETIC

Coefficients = Mapping[str, float]
FROM_TIMES = "matrix.bf16_pj_per_flop"  # fitted to how much longer matrix products take on A100 and H100 once the clock has fallen
KINDS = ("gemm", "prefill", "decode", "moe", "triton")  # of kernels whose busy units were measured; triton: its attention
STEPS, CLOSE = 40, 1e-6  # of the search for the clock, at most; how near the cap its power is, as a share
LIKE = {  # units whose energy was not measured: like another's, times a factor that follows the width of the numbers
    "matrix.fp16": ("matrix.bf16", 1.0),
    "matrix.tf32": ("matrix.bf16", 2.0),
    "matrix.fp32": ("matrix.bf16", 4.0),
    "matrix.fp64": ("matrix.bf16", 8.0),
    "matrix.fp8": ("matrix.bf16", 0.73),  # slopes of power over FLOP/s on H200, 0.251 and 0.345 pJ
    "matrix.int8": ("matrix.bf16", 0.73),
    "matrix.fp4": ("matrix.bf16", 0.39),  # as fp8, times the slopes on GB200, 0.127 and 0.234 pJ
    "fma.fp64": ("fma.fp32", 2.0),
    "fma.fp16": ("fma.fp32", 0.5),
    "fma.bf16": ("fma.fp32", 0.5),
    "fma.int32": ("fma.fp32", 1.0),
    "fma.int8": ("fma.fp32", 0.25),
}
SCALES = (0.4, 2.5)  # least and most energy of an operation against Hopper's: V100 to B300 lie within
MARGIN = 0.986  # of the limit at which boards settle: long H200 kernels read 690 W of 700 W (fit/power.py)


class PowerDemand(NamedTuple):
    """Time of a call by what it goes with."""

    scaling_s: ArrayLike  # with 1/clock: arithmetic, caches, latencies on the chip
    fixed_s: ArrayLike = 0.0  # the rest: DRAM, links, host


class PowerState(NamedTuple):
    """What a call settles at. Arrays of one entry per case. `slowdown` is against the same call at the chip's highest clock."""

    clock_hz: Floats
    seconds: Floats
    power_w: Floats
    capped: NDArray[np.bool_]
    slowdown: Floats


@functools.cache
def stored() -> Coefficients:
    """The fitted coefficients, and those taken from publications."""
    files = importlib.resources.files("hotlap.core.model") / "coefficients"
    tables, times = (tomllib.loads((files / f"{name}.toml").read_text(encoding="utf-8")) for name in ("power", "gemm"))
    return {**tables["fitted"], **tables["published"], FROM_TIMES: times["coefficients"]["base"]["operation_pj"]}


# ---------------------------------------------------------------- the chip


def limit_w(chip: Chip) -> float:
    """The published limit of the board. Raises InputError where it is not known."""
    if chip.power_w is None or not chip.power_w > 0:
        raise InputError("no published power limit of this machine: power and the clock under a cap cannot be said")
    return chip.power_w


def built_for_w(chip: Chip) -> float:
    """The limit that idle, leakage and toggling are shares of. An imagined machine is made as its original: with more units or a higher
    clock it draws more, with a higher limit it does not."""
    made = chip.original
    return limit_w(chip) if made is None else limit_w(made) * chip.units * chip.clock_max_hz / (made.units * made.clock_max_hz)


def energy_scale(chip: Chip, coefficients: Coefficients) -> float:
    """Energy of an operation against Hopper's: watts of the limit per peak 16-bit matrix operation; 1 where there is no such unit."""
    chip = chip.original or chip
    rate = max((chip.flop_per_clock.get(unit, 0.0) for unit in ("matrix.bf16", "matrix.fp16")), default=0.0)
    if not rate:
        return 1.0
    picojoules = limit_w(chip) / (chip.units * rate * chip.clock_max_hz) * 1e12
    ratio = picojoules / coefficients["limit_pj_per_peak_flop"]
    return min(max(ratio if ratio < 1 else ratio ** coefficients["older_power"], SCALES[0]), SCALES[1])


def voltage(clock_share: ArrayLike, coefficients: Coefficients) -> Floats:
    """Share of the voltage at the highest clock that a share of that clock needs."""
    line = 1 - coefficients["voltage_slope"] * (1 - np.asarray(clock_share, dtype=np.float64))
    return np.maximum(line, coefficients["voltage_floor"])


# ---------------------------------------------------------------- power at a clock


class Parts(NamedTuple):
    """Watts by cause, at the highest clock's voltage and for a call of the given time."""

    idle_w: float
    leakage_w: float
    busy_w: Floats
    switching_w: Floats  # arithmetic, special functions, L2
    dram_w: Floats


def operation_pj(unit: str, coefficients: Coefficients) -> float:
    """Energy of an operation on a unit of Hopper at the highest voltage. Raises InputError for a unit that nobody knows it of."""
    like, factor = LIKE.get(unit, (unit, 1.0))
    if f"{like}_pj_per_flop" not in coefficients:
        raise InputError(f"the energy of an operation on '{unit}' is not known; {nearest(unit, UNITS_OF_ARITHMETIC)}")
    return factor * coefficients[f"{like}_pj_per_flop"]


def known(operations: Iterable[str]) -> bool:
    """Whether the energy of an operation on each of these units is known."""
    return all(f"{LIKE.get(unit, (unit, 1.0))[0]}_pj_per_flop" in stored() for unit in operations)


def energies_j(demand: Demand, chip: Chip, coefficients: Coefficients | None = None) -> tuple[Floats, Floats]:
    """Energy of one call at the highest voltage: of the chip's switching, and of DRAM. Raises InputError for an unknown unit."""
    table = stored() if coefficients is None else coefficients
    switching = demand.special * table["special_pj"] + demand.l2_bytes * table["l2_pj_per_byte"]
    for unit, count in demand.operations.items():
        switching = switching + count * operation_pj(unit, table)
    return switching * energy_scale(chip, table) * 1e-12, demand.dram_bytes * table["dram_pj_per_byte"] * 1e-12


def parts(
    demand: Demand, seconds: ArrayLike, chip: Chip, kind: str = "", active: ArrayLike = 1.0, coefficients: Coefficients | None = None
) -> Parts:
    """Power by cause. `kind`: of kernel, which says how much its units toggle beside what is counted; `active`: share of the units
    that have work."""
    table, limit = stored() if coefficients is None else coefficients, built_for_w(chip)
    switching, dram = energies_j(demand, chip, table)
    time_s = np.asarray(seconds, dtype=np.float64)
    if not np.all(time_s > 0):
        raise InputError("the time of a call must be positive")
    share = table[f"busy_share.{kind if kind in KINDS else 'other'}"]
    busy = np.clip(np.asarray(active, dtype=np.float64), 0, 1) * share * min(limit, toggling_w(chip, table))
    at_rest = static_factor(chip, table) * limit
    return Parts(table["idle_share"] * at_rest, table["leakage_share"] * at_rest, busy, switching / time_s, dram / time_s)


def toggling_w(chip: Chip, coefficients: Coefficients) -> float:
    """Watts of which a busy share is one: of H200's limit, as many units times their clock are here. Boards with less power for each
    unit have smaller ones: for them it is their limit."""
    return coefficients["limit_w_per_unit_ghz"] * chip.units * chip.clock_max_hz / 1e9


def static_factor(chip: Chip, coefficients: Coefficients) -> float:
    """What the chip draws with nothing to do, against the usual share of its limit; 1 where nobody read it."""
    made = chip.original or chip
    usual = (coefficients["idle_share"] + coefficients["leakage_share"]) * limit_w(made)
    return (made.static_w or usual) / usual


def _total(at: Parts, clock_share: ArrayLike, slower: Floats | float, table: Coefficients) -> Floats:
    """Power at a share of the highest clock, where the call takes `slower` times as long as `at` was counted for."""
    x = np.asarray(clock_share, dtype=np.float64)
    v = voltage(x, table)
    return np.asarray(at.idle_w + at.leakage_w * v + at.busy_w * x * v**2 + (at.switching_w * v**2 + at.dram_w) / slower, dtype=np.float64)


def power_w(
    demand: Demand, seconds: ArrayLike, chip: Chip, kind: str = "", active: ArrayLike = 1.0, coefficients: Coefficients | None = None
) -> Floats:
    """Power of calls that take `seconds` each, back to back, at the chip's clock; above the limit where the chip could not hold it."""
    table = stored() if coefficients is None else coefficients
    return _total(parts(demand, seconds, chip, kind, active, table), _share(chip), 1.0, table)


def at_share_w(
    demand: Demand, seconds: ArrayLike, clock_share: ArrayLike, chip: Chip, kind: str = "", coefficients: Coefficients | None = None
) -> Floats:
    """Power of calls that take `seconds` each at these shares of the highest clock."""
    table = stored() if coefficients is None else coefficients
    return _total(parts(demand, seconds, chip, kind, 1.0, table), clock_share, 1.0, table)


def _share(chip: Chip) -> float:
    """Share of the highest clock that the chip runs at."""
    return min(chip.clock_hz / chip.clock_max_hz, 1.0)


# ---------------------------------------------------------------- the clock under a cap


def clock(
    demand: Demand, spent: PowerDemand, chip: Chip, cap_w: float | None = None, kind: str = "", coefficients: Coefficients | None = None
) -> PowerState:
    """The clock at which power meets the cap, for calls repeated until it has settled.

    `spent`: seconds at the chip's clock; where they overlap, the exposed part of each. The cap is the board's limit unless it is given.
    At the lowest clock power may still exceed a cap: the clock then stays there.
    """
    table, cap = stored() if coefficients is None else coefficients, (limit_w(chip) if cap_w is None else cap_w)
    if not cap > 0:
        raise InputError(f"a power cap must be positive, not {cap:g} W")
    scaling, fixed = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in spent)
    scaling = scaling * _share(chip)
    fastest = scaling + fixed
    at = parts(demand, fastest, chip, kind, 1.0, table)
    x, drawn = np.ones_like(fastest), _total(at, 1.0, 1.0, table) + 0 * fastest
    over = np.flatnonzero(drawn > cap * MARGIN)
    if len(over):
        some = (one[over] if np.ndim(one) else one for one in at[2:])
        here = Parts(at.idle_w, at.leakage_w, *some)
        x[over], drawn[over] = _settled(here, (scaling / fastest)[over], cap * MARGIN, table)
    seconds = scaling / x + fixed
    return PowerState(x * chip.clock_max_hz, seconds, drawn, x < 1, seconds / fastest)


def _settled(at: Parts, share: Floats, cap_w: float, table: Coefficients) -> tuple[Floats, Floats]:
    """Share of the clock at which power comes down to the cap, and that power: Newton's steps within a bracket. `share`: of the time,
    that goes with the clock. Where even the lowest clock draws more, that one."""
    if len(share) == 1:
        return _settled_alone(at, float(share[0]), cap_w, table)
    least, slope, floor = (table[name] for name in ("clock_least_share", "voltage_slope", "voltage_floor"))
    low, high = np.full_like(share, least), np.ones_like(share)
    x = high
    for _ in range(STEPS):
        v = voltage(x, table)
        drawn, steep = _drawn(at, share, x, v, np.where(v > floor, slope, 0.0))
        over = drawn - cap_w
        up = over > 0
        high, low = np.where(up, x, high), np.where(up, low, x)
        if np.all((np.abs(over) <= CLOSE * cap_w) | (high <= least)):
            break
        step = x - over / np.maximum(steep, 1e-9 * cap_w)
        x = np.where((step > low) & (step < high), step, np.where(step <= least, least, (low + high) / 2))
    return x, drawn


def _settled_alone(at: Parts, share: float, cap_w: float, table: Coefficients) -> tuple[Floats, Floats]:
    """The same of a single case, in plain numbers: a tenth of the time that arrays of one take."""
    least, slope, floor = (table[name] for name in ("clock_least_share", "voltage_slope", "voltage_floor"))
    alone: Any = Parts._make(float(np.ravel(one)[0]) for one in at)
    low, high, x, drawn = least, 1.0, 1.0, 0.0
    for _ in range(STEPS):
        v = max(1 - slope * (1 - x), floor)
        drawn, steep = _drawn(alone, share, x, v, slope if v > floor else 0.0)
        over = drawn - cap_w
        low, high = (low, x) if over > 0 else (x, high)
        if abs(over) <= CLOSE * cap_w or high <= least:
            break
        step = x - over / max(steep, 1e-9 * cap_w)
        x = step if low < step < high else least if step <= least else (low + high) / 2
    return np.array([x]), np.array([drawn])


def _drawn(at: Parts, share: Any, x: Any, v: Any, bent: Any) -> tuple[Any, Any]:
    """Power at a share of the highest clock and its voltage, and its slope. `bent`: that of the voltage."""
    rate = 1 / (share / x + 1 - share)  # of calls, against the highest clock
    switching, quicker = at.switching_w * v * v, rate / x
    drawn = at.idle_w + at.leakage_w * v + at.busy_w * x * v * v + (switching + at.dram_w) * rate
    steep = at.leakage_w * bent + at.busy_w * v * (v + 2 * x * bent) + 2 * at.switching_w * v * bent * rate
    return drawn, steep + (switching + at.dram_w) * share * (quicker * quicker)
