"""What a unit of load is, and what it says of a wrong result."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from hotlap.core.measure import workloads
from hotlap.core.measure.targets.base import Target

TRIES = 3  # times that work is done again where its result was wrong
RESULT_BITS = {"fp64": 64, "fp32": 32, "tf32": 32, "int8": 32}  # of an element of a product's result; of the other types 16


class Wrong(NamedTuple):
    """One wrong element of a result."""

    place: str
    expected: str
    got: str
    bits: list[int]
    by: Literal["checksum", "repeat", "pattern", "count", "operand", "picture"]
    kind: Literal["transient", "permanent"]


class Unit(Protocol):
    """A piece of work of some milliseconds, and its check."""

    flop: float
    moved_bytes: float

    @property
    def name(self) -> str:
        """What it is, in words."""

    def run(self) -> None:
        """Does the work and waits for it."""

    def check(self) -> list[Wrong]:
        """What is wrong with the last result, recomputed to tell transient from permanent; empty where nothing is."""

    def facts(self) -> dict[str, float]:
        """For products: its sides, and the share of bit positions whose flip the checksum alone is sure to see."""


def source(target: Target) -> str:
    """The kernels of all units, in the target's dialect."""
    return workloads.source("stress", "wgsl" if target.dialect == "wgsl" else "c")


def bits_of(difference: int) -> list[int]:
    """Positions of the bits that are set, 0 is the least significant."""
    return [p for p in range(difference.bit_length()) if difference >> p & 1]
