"""Frontiers: points that no other surely beats in every direction, and that of time against energy with the best by several measures.

EDP is energy × time, ED²P energy × time²: Gonzalez and Horowitz, IEEE JSSC 31, 1996; Martin, Nyström and Pénzes, 2002.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.core.units import percent

Sense = Literal["least", "most"]  # which end of an axis is the better one


class FrontierSpan(NamedTuple):
    """A value as far as it is known; a number alone has no width."""

    low: float
    high: float


def front(points: Sequence[Sequence[FrontierSpan]], senses: Sequence[Sense]) -> list[bool]:
    """Of each point, a span an axis, whether no other dominates it. One dominates another where it is surely as good on every axis, and
    better on one: what is known of the two must not overlap. Of points that are the same number everywhere the first counts."""
    ranges = [
        [span if sense == "least" else FrontierSpan(-span.high, -span.low) for span, sense in zip(point, senses, strict=True)]
        for point in points
    ]  # fmt: skip
    return [
        not any(_dominates(other, point, before < place) for before, other in enumerate(ranges) if before != place)
        for place, point in enumerate(ranges)
    ]


def _dominates(point: Sequence[FrontierSpan], other: Sequence[FrontierSpan], first: bool) -> bool:
    """Less is better here."""
    pairs = list(zip(point, other, strict=True))
    if any(a.high > b.low for a, b in pairs):
        return False
    return first or any(a.high < b.low for a, b in pairs)


class FrontierPoint(Record, frozen=True, kw_only=True):
    """All calls of a plan at one setting."""

    name: str  # 1.2 GHz, 400 W, "free"
    seconds: float
    joules: float
    low_j: float | None = None  # bounds of what sensors allow
    high_j: float | None = None
    clock_hz: float | None = None  # held, or read
    source: str = "model"  # or the run it was read from
    keeps: Literal["", "kept", "missed", "unsure"] = ""  # a limit on the time of its calls; "": none was asked
    slower: float = 0.0  # share, against the fastest
    front: bool = False  # no other is as fast and surely takes less

    @property
    def power_w(self) -> float:
        return self.joules / self.seconds

    @property
    def spans(self) -> tuple[FrontierSpan, FrontierSpan]:
        """Time and energy."""
        low, high = (self.joules if bound is None else bound for bound in (self.low_j, self.high_j))
        return FrontierSpan(self.seconds, self.seconds), FrontierSpan(low, high)


class Frontier(Record, frozen=True, kw_only=True):
    points: list[FrontierPoint]  # the fastest first
    best: dict[str, str]  # measure → name of the setting
    unknown: dict[str, str] = {}  # cases that count for nothing here, with the reason


def frontier(
    points: Sequence[FrontierPoint], slower: float | None = None, unknown: dict[str, str] | None = None, within: str = ""
) -> Frontier:
    """`slower`: the share of time that may be lost. `within`: the limit of `keeps`, in words. Raises InputError without a point."""
    if not points:
        raise InputError("no setting has both a time and an energy, so there is no frontier")
    fastest = min(one.seconds for one in points)
    ordered = sorted(points, key=lambda one: (one.seconds, one.joules))
    kept = front([one.spans for one in ordered], ("least", "least"))
    frontiers = [replace(one, slower=one.seconds / fastest - 1, front=on) for one, on in zip(ordered, kept, strict=True)]
    best = {
        "time": frontiers[0].name,
        "energy": min(frontiers, key=lambda one: one.joules).name,
        "EDP": min(frontiers, key=lambda one: one.joules * one.seconds).name,
        "ED²P": min(frontiers, key=lambda one: one.joules * one.seconds**2).name,
    }
    if slower is not None:
        allowed = [one for one in frontiers if one.slower <= slower]
        best[f"energy, at most {percent(slower)} slower"] = min(allowed, key=lambda one: one.joules).name
    if within and (allowed := [one for one in frontiers if one.keeps == "kept"]):
        best[f"energy, {within}"] = min(allowed, key=lambda one: one.joules).name
    return Frontier(points=frontiers, best=best, unknown=unknown or {})
