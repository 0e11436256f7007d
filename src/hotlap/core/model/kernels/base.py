"""What a family of kernels offers the model: cases as arrays in, expected times with their named parts out."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Coefficients = Mapping[str, Mapping[str, float]]  # by group (operation, kernel, implementation), then by name


@dataclass(frozen=True)
class Chip:
    """A machine as kernels see it: numbers only, at one clock. Rates are per unit and clock, dense, a multiply-add being 2."""

    units: int  # SMs or CUs
    clock_hz: float  # at which arithmetic and caches run
    clock_max_hz: float
    flop_per_clock: Mapping[str, float]  # by unit: matrix.bf16, matrix.fp8, fma.fp32 …
    memory_b_s: float
    l2_bytes: float
    shared_bytes: float  # of one unit
    registers: int  # of one unit, 32 bits each
    warps_max: int
    blocks_max: int
    power_w: float | None = None
    link_b_s: float | None = None  # scale-up link of one GPU, one way
    l2_factor: float = 1.0  # of L2's bandwidth, against what the family takes for every machine
    target: str = ""  # what compilers call the architecture: sm_90, gfx942; empty: not known
    special_per_clock: float = 16.0  # exponentials and the like, of one unit and clock
    matrix_held: float = 0.85  # share of the 16-bit matrix peak at the highest clock that long products hold, for power and for feed
    original: Chip | None = None  # of the table, where this one is imagined: its matrix unit is fed, and its operations cost, as that one's
    facts: Mapping[str, float] = field(default_factory=dict)  # measured by a sweep on the machine; empty: spec only


class Demand(NamedTuple):
    """What a call makes the machine do. Arrays of one entry per case."""

    operations: Mapping[str, Floats]  # by unit, as executed (padding to tiles included)
    special: Floats  # exponentials and the like
    dram_bytes: Floats
    l2_bytes: Floats


class Estimate(NamedTuple):
    """Expected time of each case, and what it is made of."""

    seconds: Floats
    parts: Mapping[str, Floats]  # by name, in seconds; they add up to `seconds`
    demand: Demand
    choice: Mapping[str, NDArray[Any]]  # what the model thinks runs: tile_m, tile_n, split, tasks, waves …
    inside: NDArray[np.bool_]  # within the domain that was fitted
    clock_hz: Floats | None = None  # that calls back to back hold under the power limit, as counted in `parts`; None: not counted there
    remarks: tuple[str, ...] = ()  # what is to be said beside the times


@functools.cache
def stored(family: str, table: str = "coefficients") -> Coefficients:
    """The fitted coefficients of a family, from the package; read once. A fit that stores new ones clears the cache."""
    file = importlib.resources.files("hotlap.core.model") / "coefficients" / f"{family}.toml"
    found: Coefficients = tomllib.loads(file.read_text(encoding="utf-8"))[table]
    return found
