"""The contract of a sensor source: what can be read of a device or host, each with a unit in its name.

A source module has `find(target) -> list[SensorSource]`; it never raises: a source whose library or driver is missing is left
out, with its reason in `missing(target)`. Names are the field's and end in their unit, a part after a dot:
power_w, energy_j, temperature_c, temperature_c.memory, clock_hz.sm, clock_hz.memory, utilization, memory_used_bytes,
throttle (a bit mask of reasons, see THROTTLE), throttle_s.CAUSE (time held back so far), ecc_corrected, ecc_uncorrected,
remapped_rows, retired_pages, xid (the last event's code), pcie_generation, pcie_width, pcie_replays, pcie_bytes, nvlink_bytes,
nvlink_errors, fan (share of full speed), fan_rpm, processes, battery (share of full charge).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hotlap.core.record import Reading

THROTTLE = {  # bit: name; NVML's clock event reasons, used for every vendor
    0x1: "idle", 0x2: "application clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
}
HARMLESS = 0x1 | 0x2 | 0x10 | 0x100  # not a limit the hardware ran into


class SensorSource(Protocol):
    """Sensors that are read together in one go."""

    name: str  # nvml, system, simulated
    device: str  # Device.key, or "host"

    def names(self) -> Sequence[str]:
        """The sensors it has, supported or not."""

    def read(self, time_s: float) -> list[Reading]:
        """All of them now, stamped `time_s`. Never raises: a failing sensor is a Reading with status error; one that is
        not supported says so once per call, never zero."""
