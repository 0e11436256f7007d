"""Levels of the memory hierarchy: those that a machine states, and those that a sweep over working sets shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from hotlap.core.model.machines import Spec

MEMORY = "memory"
CLEAR = 4.0  # a working set this many times a cache shows what lies below it; between, a mixture
STEP = 0.15  # smallest relative change between two levels: clear of a few percent of noise
PENALTY = 0.30  # what another level must save, in summed log deviation: about two points off by a STEP
RAMP = 0.9  # of the highest bandwidth: what lies before it in size is the cost of launches, not a level


@dataclass(frozen=True)
class ModelLevel:
    """A plateau: working sets from `first_bytes` to `last_bytes` see `value` (B/s or s). `capacity_bytes` is the geometric mean
    of its last and the next level's first working set; None for the last level."""

    first_bytes: float
    last_bytes: float
    value: float
    points: int
    capacity_bytes: float | None = None


def hierarchy(spec: Spec | None) -> list[tuple[str, float]]:
    """Caches that the machine states, inner first, as name and bytes of all instances that are known of."""
    if spec is None:
        return []
    units = spec.compute_units or 1
    if spec.kind == "cpu":
        sizes = [("L1", (spec.l1_bytes or 0.0) * units), ("L2", (spec.l2_bytes or 0.0) * units), ("L3", spec.llc_bytes or 0.0)]
    else:
        sizes = [("L2", spec.l2_bytes or 0.0), ("last-level cache", spec.llc_bytes or 0.0)]
    return [(name, nbytes) for name, nbytes in sizes if nbytes > 0]


def place(working_set_bytes: float, spec: Spec | None) -> str:
    """The level that a working set sees: a cache's name, "memory", or "" where it is a mixture or the caches are unknown."""
    caches = hierarchy(spec)
    if not caches:
        return ""
    inner = 0.0
    for name, nbytes in caches:
        if working_set_bytes <= nbytes:
            return name if working_set_bytes > 2 * inner else ""
        inner = nbytes
    return MEMORY if working_set_bytes >= CLEAR * inner else ""


def cache_levels(points: Iterable[tuple[float, float]], what: Literal["bandwidth", "latency"] = "bandwidth") -> list[ModelLevel]:
    """The plateaus in bandwidth (B/s, falling) or latency (s, rising) over working set (B), smallest first.

    The best piecewise constant fit to the logarithms in the sense of absolute deviations, by dynamic programming, with a fixed
    price for each further piece (Jackson and others, "An algorithm for optimal partitioning of data on an interval", 2005).
    Single points between two plateaus are transitions and dropped, and so is the rise at the left that launches cause. Points
    must be positive; several of one size become their median. Empty for fewer than 3 sizes.
    """
    series = _clean(points)
    if what == "bandwidth":
        series = _without_ramp(series)
    if len(series) < 3:
        return []
    pieces = _merge([series[a:b] for a, b in _partition([math.log(v) for _, v in series])], what)
    return _with_capacities([_level(piece) for piece in pieces])


def _clean(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    sizes: dict[float, list[float]] = {}
    for size, value in points:
        if size > 0 and value > 0 and math.isfinite(size) and math.isfinite(value):
            sizes.setdefault(size, []).append(value)
    return [(size, median(values)) for size, values in sorted(sizes.items())]


def _without_ramp(series: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if not series:
        return []
    best = max(v for _, v in series)
    start = next(i for i, (_, v) in enumerate(series) if v >= RAMP * best)
    return list(series[start:])


def _cost(values: Sequence[float]) -> float:
    middle = median(values)
    return sum(abs(v - middle) for v in values)


def _partition(logs: Sequence[float]) -> list[tuple[int, int]]:
    """Half-open index ranges of the cheapest pieces."""
    best, cut = [0.0], [0]
    for end in range(1, len(logs) + 1):
        cost, start = min((best[a] + _cost(logs[a:end]) + PENALTY, a) for a in range(end))
        best.append(cost)
        cut.append(start)
    ranges: list[tuple[int, int]] = []
    end = len(logs)
    while end > 0:
        ranges.append((cut[end], end))
        end = cut[end]
    return ranges[::-1]


_Piece = list[tuple[float, float]]


def _merge(pieces: list[_Piece], what: str) -> list[_Piece]:
    """Single points inside are transitions; the ends stay, for a sweep may just reach a level. Neighbours that do not differ
    by a step, or change against the sense of a hierarchy, are one level."""
    kept = [p for i, p in enumerate(pieces) if len(p) > 1 or i in (0, len(pieces) - 1)]
    while True:
        flat = next((i for i, (a, b) in enumerate(pairwise(kept)) if not _steps(_value(a), _value(b), what)), None)
        if flat is None:
            return kept
        kept[flat : flat + 2] = [kept[flat] + kept[flat + 1]]


def _value(piece: _Piece) -> float:
    return median(v for _, v in piece)


def _steps(before: float, after: float, what: str) -> bool:
    return after < before * (1 - STEP) if what == "bandwidth" else after > before * (1 + STEP)


def _level(piece: _Piece) -> ModelLevel:
    return ModelLevel(first_bytes=piece[0][0], last_bytes=piece[-1][0], value=_value(piece), points=len(piece))


def _with_capacities(levels: list[ModelLevel]) -> list[ModelLevel]:
    ends = [math.sqrt(a.last_bytes * b.first_bytes) for a, b in pairwise(levels)]
    return [ModelLevel(v.first_bytes, v.last_bytes, v.value, v.points, end) for v, end in zip(levels, [*ends, None], strict=True)]
