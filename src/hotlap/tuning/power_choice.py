"""Which settings to try next: those halfway between the best that keeps the limit and its neighbours on its axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotlap.core.analysis.frontier import FrontierPoint
from hotlap.tuning.power_guard import Wish

CLOCK_STEP_HZ, POWER_STEP_W = 15e6, 1.0  # what clocks are rounded to; caps nearer than CLOSE_W are one
CLOSE_HZ, CLOSE_W = 30e6, 4.0
KEEPING = ("", "kept")


class Tops(NamedTuple):
    """Of the card with nothing held: what its highest clock and its own cap are. None: not known."""

    clock_hz: float | None
    power_w: float | None


def halfway(wishes: Sequence[Wish], points: Mapping[str, FrontierPoint], names: Sequence[str], tops: Tops) -> list[Wish]:
    """At most two settings an axis; the axis with the best setting first. `names`: of the wishes, by which `points` has what they gave."""
    tried = [(wish, points[name]) for wish, name in zip(wishes, names, strict=True) if name in points]
    proposals = [_on(axis, tried, tops) for axis in ("power", "clock")]
    return [wish for _, found in sorted(proposals, key=lambda pair: pair[0]) for wish in found]


def _on(axis: str, tried: Sequence[tuple[Wish, FrontierPoint]], tops: Tops) -> tuple[float, list[Wish]]:
    """Joules of the axis's best, and what lies beside it."""
    top = tops.power_w if axis == "power" else tops.clock_hz
    by_value: dict[float, FrontierPoint] = {}  # of two that are the same, as the free card and its own cap, the first
    for wish, point in tried:
        if (value := _value(axis, wish, top)) is not None:
            by_value.setdefault(value, point)
    values = sorted(by_value)
    keeping = [value for value in values if by_value[value].keeps in KEEPING]
    if len(values) < 2 or not keeping:
        return math.inf, []
    best = min(keeping, key=lambda value: by_value[value].joules)
    at = values.index(best)
    sides = [*values[max(at - 1, 0) : at], *values[at + 1 : at + 2]]
    close = CLOSE_W if axis == "power" else CLOSE_HZ
    between = [_rounded(axis, (best + side) / 2) for side in sides if abs(best - side) > close]
    return by_value[best].joules, [Wish(power_w=value) if axis == "power" else Wish(clock_hz=value) for value in between]


def _value(axis: str, wish: Wish, top: float | None) -> float | None:
    if wish == Wish():
        return top
    return wish.power_w if axis == "power" else wish.clock_hz


def _rounded(axis: str, value: float) -> float:
    step = POWER_STEP_W if axis == "power" else CLOCK_STEP_HZ
    return round(value / step) * step
