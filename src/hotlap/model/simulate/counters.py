"""What a simulated kernel reports: times, traffic, waves, what it waited for, energy and clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Counters:
    """`stalls`: seconds by cause, summing to `seconds`: the busiest pipe by name, latencies, L2, DRAM, fill and drain, tail, launch."""

    name: str
    seconds: float
    stalls: Mapping[str, float]
    busy_share: float  # of the matrix unit's (or vector unit's) time, at the clock held
    units_share: float  # of units, over time, that had a running tile
    flop: float  # as executed, padding included
    useful_flop: float
    dram_read_bytes: float
    dram_written_bytes: float
    l2_bytes: float
    l2_hit_share: float  # of bytes that tiles asked of L2
    tiles: int
    slots: int  # blocks per unit
    waves: float
    power_w: float
    energy_j: float
    clock_hz: float  # mean
    temperature_c: float
    events: int

    @property
    def dram_bytes(self) -> float:
        return self.dram_read_bytes + self.dram_written_bytes

    @property
    def cause(self) -> str:
        """What took most of the time."""
        return max(self.stalls, key=lambda name: self.stalls[name])
