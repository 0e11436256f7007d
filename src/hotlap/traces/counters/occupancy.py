"""How many warps fit on a multiprocessor, and what limits them: from registers, shared memory and the size of a block.

Formulas: CUDA occupancy calculator (docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#occupancy); for AMD's CDNA the
occupancy of ROCm Compute Profiler's documents. Limits by barriers and clusters are not counted.
"""

from __future__ import annotations

import math
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from hotlap.core.record import Record
from hotlap.traces.counters import rocprof_compute
from hotlap.traces.counters.kernel import CountedKernel

WARP = 32
SAID = {"warps": "threads per block", "registers": "registers per thread", "shared": "shared memory per block", "blocks": "blocks"}


class Occupancy(Record, frozen=True, kw_only=True):
    """Warps (waves) that fit on one multiprocessor (compute unit)."""

    warps: int
    most: int  # that it can hold
    limits: dict[str, int]  # blocks that fit by each: warps, registers, shared, blocks

    @property
    def share(self) -> float:
        return self.warps / self.most

    @property
    def limited_by(self) -> list[str]:
        """What allows the fewest blocks, in words; none where all warps fit."""
        least = min(self.limits.values())
        return [] if self.warps >= self.most else [SAID[name] for name, blocks in self.limits.items() if blocks == least]


@cache
def table() -> dict[str, dict[str, int]]:
    """Compute capability → what a multiprocessor holds."""
    text = resources.files("hotlap.traces.counters").joinpath("occupancy.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)
    return {name: {**found["defaults"], **facts} for name, facts in found["capability"].items()}


def of(kernel: CountedKernel) -> Occupancy | None:
    """The occupancy that is possible for a launch; None where its size, registers or device are not known."""
    if kernel.block is None or kernel.registers is None:
        return None
    threads = math.prod(kernel.block)
    if threads <= 0 or kernel.registers < 0 or (kernel.shared_bytes or 0) < 0:
        return None
    if kernel.vendor == "amd":
        return amd(kernel.capability, threads, kernel.registers, kernel.shared_bytes or 0)
    driver = kernel.metrics.get("shared_driver_bytes")
    config = kernel.metrics.get("shared_config_bytes")
    shared = (kernel.shared_bytes or 0) if driver is not None else None
    return nvidia(kernel.capability, threads, kernel.registers, kernel.shared_bytes or 0, reserved=shared is None, config=config)


def nvidia(
    capability: str, threads: int, registers: int, shared: int, *, reserved: bool = True, config: float | None = None
) -> Occupancy | None:
    """`shared`: bytes per block, to which the reserved ones are added if `reserved`; `config`: bytes that the multiprocessor is set to."""
    holds = table().get(capability)
    if holds is None:
        return None
    warps = math.ceil(threads / WARP)
    per_warp = _up(registers * WARP, holds["register_unit"])
    fitting = holds["registers"] // per_warp // holds["warp_unit"] * holds["warp_unit"] if per_warp else holds["warps"]
    whole = _up(shared + (holds["reserved_bytes"] if reserved else 0), holds["shared_unit_bytes"])
    room = int(config) if config else holds["shared_bytes"]
    limits = {
        "warps": holds["warps"] // warps, "registers": fitting // warps, "shared": room // whole if whole else holds["blocks"],
        "blocks": holds["blocks"],
    }  # fmt: skip
    return Occupancy(warps=min(limits.values()) * warps, most=holds["warps"], limits=limits)


def amd(capability: str, threads: int, registers: int, shared: int) -> Occupancy | None:
    """`capability`: gfx942 and the like; None for one that is not in the table."""
    holds = rocprof_compute.table()["architecture"].get(capability.split(":")[0])
    if holds is None:
        return None
    waves, most = math.ceil(threads / 64), holds["waves_per_simd"] * holds["simds"]
    by_registers = min(holds["waves_per_simd"], holds["registers_per_simd"] // max(_up(registers, holds["register_unit"]), 1))
    whole = _up(shared, holds["shared_unit_bytes"])
    limits = {
        "warps": most // waves, "registers": by_registers * holds["simds"] // waves,
        "shared": holds["shared_bytes"] // whole if whole else most,
    }  # fmt: skip
    return Occupancy(warps=min(limits.values()) * waves, most=most, limits=limits)


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
