"""Kernels with their counters, as a kernel profiler measured them: no timeline, one record per launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from hotlap.core.record import Notice, Record

Three = tuple[int, int, int]


def whole(value: float | None) -> int | None:
    """A count or a size, None where it is unknown or cannot be one (below 0, or above 2^53)."""
    return int(value) if value is not None and 0 <= value <= 1 << 53 else None


def three(sizes: Sequence[int]) -> Three | None:
    """Three sizes of a grid or block; None where they are not three or none a launch can have."""
    return (sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 and all(0 < one < 1 << 32 for one in sizes) else None


class Remark(Record, frozen=True, kw_only=True):
    """What the profiler's own rule said of a kernel, as it stands in the file."""

    rule: str  # LaunchConfiguration, …
    text: str
    kind: str = ""  # OPT, INF, WRN …
    scope: Literal["", "local", "global"] = ""  # of its gain
    gain: float | None = None  # share of time saved, as the profiler estimates it


class CountedKernel(Record, frozen=True, kw_only=True):
    """One launch. `metrics` has the names of metrics.toml and base units (s, B, Hz, shares of 1); `others` what else the file holds,
    under the profiler's names, with value and unit as they stand there."""

    place: int  # in the file, from 0
    name: str
    vendor: Literal["nvidia", "amd"] = "nvidia"
    device: str = ""  # name, else the profiler's number of it
    capability: str = ""  # compute capability 8.6, or gfx90a; "" unknown
    grid: Three | None = None  # blocks
    block: Three | None = None  # threads of one block
    registers: int | None = None  # per thread
    shared_bytes: int | None = None  # per block, with what the driver takes
    duration_s: float | None = None
    metrics: dict[str, float] = {}
    others: dict[str, tuple[float, str]] = {}
    opcodes: dict[str, float] = {}  # instructions executed (warps), by opcode
    remarks: list[Remark] = []


class KernelProfile(Record, frozen=True, kw_only=True):
    """What a file of counters holds."""

    path: str
    reader: str  # ncu-rep, ncu-csv, rocprof-compute
    kernels: list[CountedKernel]
    facts: dict[str, Any] = {}  # of the machine and versions, where the file tells
    notices: list[Notice] = []
