"""What is known of one machine, as numbers with their sources. A field that is None is not known.

Rates are per unit (SM, CU, Xe core, or processor core) and clock, dense, a multiply-add counting as 2; sizes in bytes, rates per second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

UNITS_OF_ARITHMETIC = (
    "fma.fp64", "fma.fp32", "fma.fp16", "fma.bf16", "fma.int32", "fma.int8",
    "matrix.fp64", "matrix.fp32", "matrix.tf32", "matrix.fp16", "matrix.bf16", "matrix.fp8", "matrix.int8", "matrix.fp4",
)
PCIE_TRANSFERS_PER_S = {3: 8e9, 4: 16e9, 5: 32e9}  # per lane, one bit each; PCI Express Base Specification
SLICE = "MIG slice"  # how an edit begins that makes a slice of a card
RASTER = ": raster"  # how a source ends that is of the units that draw alone
PCIE_PAYLOAD_SHARE = 128 / 130  # generations 3 to 5 send 128 bits in 130


@dataclass(frozen=True)
class PublishedPeak:
    """A peak that the vendor publishes. `back_solved`: the clock was derived from it, so agreement proves nothing."""

    unit: str
    flop_s: float
    back_solved: bool


@dataclass(frozen=True)
class Spec:
    """What is known of a machine. `clock_source` says where `clock_max_hz` comes from, which is None where nobody says."""

    slug: str
    name: str
    vendor: str
    kind: Literal["gpu", "cpu"] = "gpu"
    architecture: str = ""
    compile_target: str = ""
    aliases: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    notes: str = ""
    compute_units: int | None = None
    clock_max_hz: float | None = None
    clock_for_peak_hz: float | None = None
    clock_source: str = ""
    clock_proven: bool = True  # nothing of this machine runs faster than clock_max_hz
    flop_per_clock: Mapping[str, float] = field(default_factory=dict)
    rops: int | None = None  # pixels that the whole chip writes a clock
    texels_per_clock: int | None = None  # bilinear, 32 bits, of the whole chip; so are triangles
    triangles_per_clock: float | None = None  # rasterised
    culled_per_clock: float | None = None  # looked at, rasterised ones among them
    special_per_clock: float = 16.0  # exponentials of one unit: CUDA C++ Programming Guide, "Arithmetic Instructions"; a CDNA CU the same
    matrix_held: float = 0.85  # share of the 16-bit matrix peak at the highest clock that long products hold; this where nobody measured it
    published_peak: PublishedPeak | None = None
    shared_bytes_per_unit: float | None = None
    registers_per_unit: int | None = None
    warps_max_per_unit: int | None = None
    blocks_max_per_unit: int | None = None
    memory_bytes: float | None = None
    memory_type: str = ""
    memory_bandwidth_b_s: float | None = None
    memory_bandwidth_source: str = ""
    l1_bytes: float | None = None  # of one unit
    l1_load_bytes_per_clock: float | None = None  # of one unit
    l1_store_bytes_per_clock: float | None = None
    l2_bytes: float | None = None  # of the whole machine on GPUs, of one core on processors
    llc_bytes: float | None = None
    scaleup_b_s: float | None = None
    host_b_s: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    power_w: float | None = None
    static_w: float | None = None  # drawn with clocks up and nothing to do
    # Of an imagined machine: `slug` is the whole text that names it.
    original: Spec | None = None  # of the table; None for a machine that is there
    edits: Mapping[str, str] = field(default_factory=dict)  # figure: what it was, in words
    l2_factor: float = 1.0  # of L2's bandwidth, beside what the model takes for every machine; so are launches and a link's latency
    launch_factor: float = 1.0
    link_latency_factor: float = 1.0

    @property
    def table_slug(self) -> str:
        """Of the machine in the table, edited or not."""
        return (self.original or self).slug

    @property
    def cache_bytes(self) -> float | None:
        """The last level that all units share."""
        return self.llc_bytes or self.l2_bytes

    @property
    def resident_bytes(self) -> float | None:
        """The most that can stay on the chip from one call to the next: all shared levels together."""
        if self.kind == "cpu":
            inner = (self.l2_bytes or 0.0) * (self.compute_units or 0)
            return inner + self.llc_bytes if self.llc_bytes else None
        return None if self.l2_bytes is None else self.l2_bytes + (self.llc_bytes or 0.0)

    @property
    def pcie_b_s(self) -> float | None:
        """Payload of one direction, packets' headers not yet subtracted: transfers × lanes × 128/130 ÷ 8."""
        if self.pcie_generation is None or self.pcie_lanes is None:
            return None
        return PCIE_TRANSFERS_PER_S[self.pcie_generation] * self.pcie_lanes * PCIE_PAYLOAD_SHARE / 8

    def rate(self, unit: str, clock_hz: float | None = None) -> float | None:
        """Operations per second of an arithmetic unit at `clock_hz` (default: the highest); None where a factor is unknown."""
        clock, per_clock = clock_hz or self.clock_max_hz, self.flop_per_clock.get(unit)
        return self.compute_units * per_clock * clock if self.compute_units and per_clock and clock else None

    def source(self, *fields: str) -> str:
        """One line that names where figures come from, with what was edited of these `fields`."""
        return self._named([s for s in self.sources if "PCI ids" not in s and ": vector" not in s and not s.endswith(RASTER)], fields)

    def source_of_drawing(self, field: str) -> str:
        """The same for one figure of the units that draw."""
        named = [s.removesuffix(RASTER) for s in self.sources if s.endswith(RASTER)]
        return self._named(named, (field,)) if named else self.source(field)

    def source_of(self, unit: str) -> str:
        """The same for the rate of one unit of arithmetic."""
        kind, _, dtype = unit.partition(".")
        special = [s for s in self.sources if kind == "fma" and dtype in re.split(r"[ ,]+", s.partition(": vector ")[2])]
        fields = ("compute_units", unit, f"{kind.replace('fma', 'vector')}_rate")
        return self._named(special, fields) if special else self.source(*fields)

    def _named(self, sources: list[str], fields: Sequence[str]) -> str:
        text = "; ".join(sources)
        if self.kind != "gpu":
            return text
        edits = "".join(f"{name} edited: {was}; " for name, was in self.edits.items() if name in fields or name.startswith(SLICE))
        return f"{edits}machine table, {self.table_slug} ({text})"
