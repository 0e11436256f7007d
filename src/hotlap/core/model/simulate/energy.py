"""Watts of a running kernel from what it does: energy per operation and byte, by the process the chip is made in.

A first model, so that the simulator stands alone; any other can be given as `power(activity) -> W`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hotlap.core.errors import InputError
from hotlap.core.model.kernels import power as board
from hotlap.core.model.kernels.base import Chip


class Activity(NamedTuple):
    """Rates per second while a kernel runs, and the state of the chip."""

    chip: Chip
    clock_hz: float
    temperature_c: float
    matrix_flop: float
    vector_flop: float
    special: float
    shared_bytes: float
    l2_bytes: float
    dram_bytes: float
    operand_bytes: float  # of one matrix element: 2 bf16, 1 fp8
    unit: str = ""  # of the matrix operations; "" none
    vector: str = "fma.fp32"  # of the vector operations; of a product without a matrix unit, which runs there, its own
    kind: str = ""  # of kernel, whose units' toggling was measured
    active: float = 1.0  # share of the units at work, over time


Power = Callable[[Activity], float]

# At 4 nm and the highest clock. J per operation or byte. Orders of magnitude as in Horowitz, ISSCC 2014, scaled by process;
# the matrix figure is set so that A100 and H100 hold the clock their best large products imply (AIC data): calibrated.
MATRIX_J = 0.40e-12  # per FLOP at 2 B an element, in proportion to the element's size
VECTOR_J = 1.2e-12
SPECIAL_J = 6e-12
SHARED_J = 5e-12
L2_J = 16e-12
DRAM_J = 40e-12  # HBM, 5 pJ a bit; not scaled by process
STATIC_SHARE = 0.17  # of the power limit: leakage, memory refresh, links, at 60 °C: assumed
LEAK_PER_C = 0.006  # of it, a degree: assumed
VOLTAGE_FLOOR = 0.5  # of the top voltage, when the clock goes to 0: a straight line to 1 at the top: assumed
POWER_UNKNOWN_W = 300.0


def voltage(clock_hz: float, top_hz: float) -> float:
    """Share of the voltage at the highest clock."""
    return VOLTAGE_FLOOR + (1.0 - VOLTAGE_FLOOR) * min(1.0, clock_hz / top_hz)


def power(activity: Activity) -> float:
    """Watts of the whole card."""
    chip = activity.chip
    process = chip.facts.get("node_nm", 5.0) / 4.0
    logic = (
        activity.matrix_flop * MATRIX_J * activity.operand_bytes / 2.0 + activity.vector_flop * VECTOR_J
        + activity.special * SPECIAL_J + activity.shared_bytes * SHARED_J + activity.l2_bytes * L2_J
    )  # fmt: skip
    static = STATIC_SHARE * (chip.power_w or POWER_UNKNOWN_W) * (1.0 + LEAK_PER_C * (activity.temperature_c - 60.0))
    return static + logic * process * voltage(activity.clock_hz, chip.clock_max_hz) ** 2 + activity.dram_bytes * DRAM_J


def measured(activity: Activity) -> float:
    """Watts by the energies that H200's sensors taught (`model/kernels/power.py`), with leakage that follows temperature.

    `power` where the table knows no limit, or nobody the energy of a unit.
    """
    chip, table = activity.chip, board.stored()
    vector = f"fma.{activity.vector.partition('.')[2]}"
    try:
        limit, scale = board.built_for_w(chip), board.energy_scale(chip, table)
        matrix_pj = board.operation_pj(activity.unit, table) if activity.matrix_flop else 0.0
        known = activity.kind in board.KINDS
        beside = known and bool(activity.unit)  # then toggling as measured holds what vector units do beside the matrix unit
        vector_pj = 0.0 if beside or not activity.vector_flop else board.operation_pj(vector, table)
    except InputError:
        return power(activity)
    x = activity.clock_hz / chip.clock_max_hz
    v = float(board.voltage(x, table))
    switching = scale * 1e-12 * (
        activity.matrix_flop * matrix_pj + activity.vector_flop * vector_pj + activity.special * table["special_pj"]
        + activity.l2_bytes * table["l2_pj_per_byte"]
    )  # fmt: skip
    busy = activity.active * table[f"busy_share.{activity.kind if known else 'other'}"] * limit
    leakage = table["leakage_share"] * limit * (1.0 + LEAK_PER_C * (activity.temperature_c - 60.0))
    memory = activity.dram_bytes * table["dram_pj_per_byte"] * 1e-12
    return table["idle_share"] * limit + leakage * v + busy * x * v**2 + switching * v**2 + memory
