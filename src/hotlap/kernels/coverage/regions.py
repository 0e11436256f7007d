"""Regions of the roofline: what limits a case on a machine, told from bytes, operations and the machine's figures alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.record import Case
from hotlap.core.work.compute import GEMM
from hotlap.core.work.network import COLLECTIVE, POINTWISE
from hotlap.kernels.coverage.groups import GroupColumns

REGIONS = ("launch-bound", "cache", "memory-bound", "near the ridge", "compute-bound", "link")
UNKNOWN = "none of these"
NEAR = 2.0
"""Near the ridge: the time for the bytes and that for the operations are within this factor."""


@dataclass(frozen=True)
class RegionRoof:
    """The figures of a machine that regions need. `launch_s`: what a kernel takes that has nothing to do."""

    name: str
    bandwidth_b_s: float
    cache_bytes: float
    launch_s: float
    peaks: Mapping[str, float]  # operations per second by arithmetic unit
    link_b_s: float = 0.0


@dataclass(frozen=True)
class Placed:
    """Of each case: its region (place in REGIONS, −1 none), and whether its operations take longer than its bytes."""

    region: NDArray[np.int16]
    computes: NDArray[np.bool_]


def placed(name: str, columns: GroupColumns, roof: RegionRoof) -> Placed:
    """Where the cases of one workload lie."""
    length = columns.length
    if not work.find(name).counted:
        return Placed(np.full(length, -1, dtype=np.int16), np.zeros(length, dtype=bool))
    asked = columns.counted
    moved = asked["memory_bytes"] / roof.bandwidth_b_s
    done = np.zeros(length)
    for unit, amount in asked.items():
        if unit.startswith("operations."):
            peak = _peak(unit.removeprefix("operations."), roof)
            done = np.maximum(done, np.where(amount > 0, amount / peak if peak else np.nan, 0.0))
    computes = done > moved
    longest = np.maximum(moved, done)
    ridge = (moved > 0) & (done > 0) & (longest <= NEAR * np.minimum(moved, done))
    fits = asked["working_set_bytes"] <= roof.cache_bytes
    region = np.select(
        [asked["link_bytes"] > 0, np.isnan(longest), longest < roof.launch_s, ridge, computes, fits & (asked["memory_bytes"] > 0)],
        [5, -1, 0, 3, 4, 1],
        2,
    )
    region = np.where((asked["link_bytes"] <= 0) & (longest == 0), -1, region)
    return Placed(region.astype(np.int16), computes)


def _peak(unit: str, roof: RegionRoof) -> float:
    """Of a unit; matrix products of fp32 and fp64 fall back to the vector units."""
    return roof.peaks.get(unit) or (roof.peaks.get(unit.replace("matrix", "fma"), 0.0) if unit in ("matrix.fp32", "matrix.fp64") else 0.0)


PROBES: Sequence[tuple[str, Mapping[str, object]]] = (
    *((POINTWISE.name, {"op": "add", "dtype": "bf16", "elements": n}) for n in (1, 2**18, 2**20, 2**22, 2**24, 2**26, 2**28)),
    *((GEMM.name, {"dtype": "bf16", "cache": "rotated", "m": m, "n": 8192, "k": 8192}) for m in (16, 64, 128, 192, 256, 384, 512, 8192)),
    (COLLECTIVE.name, {"op": "all_reduce", "gpus": 2, "size": 2**26}),
    *((POINTWISE.name, {"op": "add", "dtype": "bf16", "elements": n * 2**20}) for n in (6, 8, 10, 12)),
    *(
        (GEMM.name, {"dtype": "bf16", "cache": "rotated", "m": m, "n": n, "k": n})
        for n in (4096, 2048, 1024) for m in (256, 384, 512, 1024, 2048)
    ),
)
"""Cases that are tried for a region that is not reached, from small to large; at the end smaller ones, for little memory."""


def probes(region: int, roof: RegionRoof) -> Iterator[Case]:
    """Those of PROBES that lie in a region."""
    for name, given in PROBES:
        case = Case(workload=name, params=work.find(name).parse(given))
        if int(placed(name, GroupColumns(name, [case]), roof).region[0]) == region:
            yield case
