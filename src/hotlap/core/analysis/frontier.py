"""The frontier of time against energy: settings that no other beats in both, and the best by several measures.

EDP is energy × time, ED²P energy × time²: Gonzalez and Horowitz, IEEE JSSC 31, 1996; Martin, Nyström and Pénzes, 2002.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.core.units import percent


class FrontierPoint(Record, frozen=True, kw_only=True):
    """All calls of a plan at one setting."""

    name: str  # 1.2 GHz, 400 W, "free"
    seconds: float
    joules: float
    low_j: float | None = None  # bounds of what sensors allow
    high_j: float | None = None
    clock_hz: float | None = None  # held, or read
    source: str = "model"  # or the run it was read from
    slower: float = 0.0  # share, against the fastest
    front: bool = False  # no other is as fast and takes less

    @property
    def power_w(self) -> float:
        return self.joules / self.seconds


class Frontier(Record, frozen=True, kw_only=True):
    points: list[FrontierPoint]  # the fastest first
    best: dict[str, str]  # measure → name of the setting
    unknown: dict[str, str] = {}  # cases that count for nothing here, with the reason


def frontier(points: Sequence[FrontierPoint], slower: float | None = None, unknown: dict[str, str] | None = None) -> Frontier:
    """`slower`: the share of time that may be lost. Raises InputError without a point."""
    if not points:
        raise InputError("no setting has both a time and an energy, so there is no frontier")
    fastest = min(one.seconds for one in points)
    ordered = sorted(points, key=lambda one: (one.seconds, one.joules))
    frontiers, least = [], float("inf")
    for one in ordered:
        frontiers.append(_placed(one, one.seconds / fastest - 1, one.joules < least))
        least = min(least, one.joules)
    best = {
        "time": frontiers[0].name,
        "energy": min(frontiers, key=lambda one: one.joules).name,
        "EDP": min(frontiers, key=lambda one: one.joules * one.seconds).name,
        "ED²P": min(frontiers, key=lambda one: one.joules * one.seconds**2).name,
    }
    if slower is not None:
        allowed = [one for one in frontiers if one.slower <= slower]
        best[f"energy, at most {percent(slower)} slower"] = min(allowed, key=lambda one: one.joules).name
    return Frontier(points=frontiers, best=best, unknown=unknown or {})


def _placed(point: FrontierPoint, slower: float, front: bool) -> FrontierPoint:
    return FrontierPoint(
        name=point.name,
        seconds=point.seconds,
        joules=point.joules,
        low_j=point.low_j,
        high_j=point.high_j,
        clock_hz=point.clock_hz,
        source=point.source,
        slower=slower,
        front=front,
    )
