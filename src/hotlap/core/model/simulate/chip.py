"""What the simulator takes to be true of every GPU beyond its published facts. The same numbers serve all machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hotlap.core.errors import NotSupported
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.machines import Spec

# Pipes, per unit (SM, CU, Xe core) and clock.
MATRIX_ISSUE = 0.92  # of the matrix unit's slots, in a running main loop; A100 measures 0.91 at best over whole calls (AIC data)
SHARED_BYTES = 128.0  # 32 banks of 4 B; NVIDIA CUDA C++ Programming Guide, shared memory; AMD CDNA3 ISA guide, LDS
L2_PORT_BYTES = 64.0  # from L2 into one unit; NVIDIA A100 white paper (64 B a clock)
L2_SLICE_BYTES = 32.0  # all slices ÷ units: two thirds of the 5120 B a clock of A100's 108 units (white paper): assumed share
SPECIAL = 16.0  # exponentials; NVIDIA CUDA C++ Programming Guide, table of throughputs
# Latencies. Cycles hold at the running clock.
L2_CYCLES = 260.0  # Luo and others, arXiv 2402.13499, H100, rounded
MEMORY_S = 600e-9  # a load that misses L2, under load: assumed, above the 480 cycles that Luo and others measure idle
MATRIX_CYCLES = 33.0  # of one dependent matrix instruction of depth 16; Luo and others, mma.m16n8k16
START_CYCLES = 1200.0  # a block's start: placing it, barriers, addresses: assumed
END_CYCLES = 900.0  # a tile's end: accumulators through shared memory, last writes: assumed
GAP_S = 1.2e-6  # from the end of one kernel to the first block of the next in a graph: assumed; least calls take 2.5 µs (AIC data)
# Memory.
DRAM_SHARE = 0.88  # of the published bandwidth, when enough bytes are in flight; H200 streams at 4203 of 4800 GB/s, 0.876
L2_KEPT = 0.75  # of L2 holds data that is read again; the rest is duplicated between partitions or in flight: assumed
L2_SOFT = 0.5  # retention falls from whole to none between this share and 1 of what is kept, hashed sets: assumed

NODES_NM: Mapping[str, float] = MappingProxyType({  # by the first words of `architecture`; vendors' process names
    "Volta": 12, "Turing": 12, "Ampere GA100": 7, "Ampere GA102": 8, "Ada": 4, "Hopper": 4, "Blackwell": 4,
    "CDNA4": 3, "CDNA3": 5, "CDNA2": 6, "CDNA": 7, "Xe-HPC": 5, "Xe2": 5,
})
BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}


def chip_of(spec: Spec, clock_hz: float | None = None) -> Chip:
    """The machine as the simulator sees it. Raises NotSupported that names every fact which the table lacks."""
    needed = {
        "compute_units": spec.compute_units, "memory_bandwidth_b_s": spec.memory_bandwidth_b_s, "l2_bytes": spec.cache_bytes,
        "clock_max_hz": spec.clock_max_hz or spec.clock_for_peak_hz, "shared_bytes_per_unit": spec.shared_bytes_per_unit,
        "registers_per_unit": spec.registers_per_unit, "warps_max_per_unit": spec.warps_max_per_unit,
        "blocks_max_per_unit": spec.blocks_max_per_unit, "flop_per_clock": spec.flop_per_clock,
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise NotSupported(f"{spec.name} cannot be simulated tile by tile: the machine table lacks {', '.join(missing)}")
    top = float(spec.clock_max_hz or spec.clock_for_peak_hz or math.nan)
    return Chip(
        units=int(spec.compute_units or 0), clock_hz=clock_hz or top, clock_max_hz=top, flop_per_clock=spec.flop_per_clock,
        memory_b_s=float(spec.memory_bandwidth_b_s or 0), l2_bytes=float(spec.resident_bytes or 0),
        shared_bytes=float(spec.shared_bytes_per_unit or 0), registers=int(spec.registers_per_unit or 0),
        warps_max=int(spec.warps_max_per_unit or 0), blocks_max=int(spec.blocks_max_per_unit or 0), power_w=spec.power_w,
        link_b_s=spec.scaleup_b_s, l2_factor=spec.l2_factor,
        original=chip_of(spec.original) if spec.original else None, facts={"node_nm": node_nm(spec.architecture)},
    )  # fmt: skip


def node_nm(architecture: str) -> float:
    """Process of an architecture's arithmetic; 5 where it is not known."""
    return next((nm for name, nm in NODES_NM.items() if architecture.startswith(name)), 5.0)


def at_clock(chip: Chip, clock_hz: float) -> Chip:
    return replace(chip, clock_hz=clock_hz)


def on_vectors(chip: Chip, unit: str) -> bool:
    """Whether vector units do what is asked of a matrix unit, since it has no such type."""
    kind, _, dtype = unit.partition(".")
    return kind == "matrix" and dtype in ("fp32", "fp64") and unit not in chip.flop_per_clock


def rate(chip: Chip, unit: str) -> float:
    """Operations per unit and clock. bf16 stands in for fp16 and back, vector units for a matrix unit that is not there."""
    kind, _, dtype = unit.partition(".")
    twin = {"bf16": "fp16", "fp16": "bf16", "tf32": "fp32"}.get(dtype, dtype)
    for name in (unit, f"{kind}.{twin}"):
        if name in chip.flop_per_clock:
            return float(chip.flop_per_clock[name])
    if dtype in ("fp32", "fp64") and f"fma.{dtype}" in chip.flop_per_clock:
        return float(chip.flop_per_clock[f"fma.{dtype}"])
    have = ", ".join(sorted(chip.flop_per_clock))
    raise NotSupported(f"this machine has no rate of {unit}; it has {have}")
