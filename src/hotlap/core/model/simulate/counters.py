"""What a simulated kernel reports: times, traffic, waves, what it waited for, energy and clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Counters:
    """`stalls`: seconds by cause, summing to `seconds`: the busiest pipe by name, latencies, L2, DRAM, fill and drain, tail, launch."""

    name: str
    path: str  # which kernel, without the case's shape
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


def named(counters: Counters, calls: float = 1.0, waits_s: float = 0.0) -> dict[str, float]:
    """As a record keeps them, of one of the `calls` that this launch held; `waits_s` of the host's were added to its time."""
    stalls = {**counters.stalls, "launch": counters.stalls.get("launch", 0.0) + waits_s}
    running = counters.seconds / (counters.seconds + waits_s)
    return {
        "sm_busy": counters.units_share * running, "pipe_busy": counters.busy_share * running, "dram_bytes": counters.dram_bytes / calls,
        "l2_hit": counters.l2_hit_share, "waves": counters.waves, "power_w": counters.power_w,
        "energy_j": counters.power_w * (counters.seconds + waits_s) / calls, "clock_hz": counters.clock_hz,
        **{f"stall_s.{name}": seconds / calls for name, seconds in stalls.items() if seconds > 0},
    }  # fmt: skip
