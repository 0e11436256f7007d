"""A kernel held for minutes: power heats the card, heat leaks and slows it, until both stand still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.simulate import card, energy
from hotlap.core.model.simulate.counters import Counters
from hotlap.core.model.simulate.energy import Power
from hotlap.core.model.simulate.launch import LaunchTimeline, Mode, gap_s, timeline
from hotlap.core.model.simulate.tasks import SimulatedKernel
from hotlap.core.model.simulate.thermal import Thermal


@dataclass(frozen=True)
class HoldState:
    """At the end of one stretch of time."""

    time_s: float
    temperature_c: float
    power_w: float
    clock_hz: float
    call_s: float
    energy_j: float  # since the start


def hold(
    kernel: SimulatedKernel, chip: Chip, seconds: float, thermal: Thermal, step_s: float = 2.0, power: Power = energy.measured
) -> list[HoldState]:
    """The kernel back to back for `seconds`, in stretches of `step_s` of one power each. `thermal` is moved on."""
    if not (seconds > 0 and step_s > 0):
        raise InputError(f"seconds ({seconds!r}) and step_s ({step_s!r}) must be above 0")
    states: list[HoldState] = []
    passed = energy_j = 0.0
    while passed < seconds * (1 - 1e-9):
        length = min(step_s, seconds - passed)
        found = card.simulate(kernel, chip, power=power, thermal=thermal)
        passed, energy_j = passed + length, energy_j + found.power_w * length
        states.append(HoldState(passed, thermal.after(found.power_w, length), found.power_w, found.clock_hz, found.seconds, energy_j))
    return states


def sequence(
    kernels: Sequence[SimulatedKernel], chip: Chip, mode: Mode = "stream", power: Power = energy.measured
) -> tuple[LaunchTimeline, list[Counters]]:
    """Several kernels one after another in a queue: when each starts, and the counters of each, its gap included."""
    gap = gap_s(mode)
    found = [card.simulate(kernel, chip, gap, power) for kernel in kernels]
    return timeline([one.seconds - gap for one in found], mode), found
