"""Directed cases that every kernel should meet once: sizes of 1, one beside a tile, odd strides, nothing at all, something huge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.record import Case
from hotlap.core.units import size
from hotlap.core.work.variety import Variety
from hotlap.kernels.coverage import features, realize
from hotlap.kernels.coverage.groups import GroupColumns, Groups
from hotlap.kernels.coverage.measure import Edge

HUGE_BYTES = float(2**30)
"""Working sets from here on: offsets beyond 32 bits of elements or bytes are near."""


def named(name: str) -> list[str]:
    """The directed cases of a workload, by name."""
    variety = _variety(name)
    extents = variety.edges
    found = [f"{p} = 1" for p in extents] + ([" = ".join(extents) + " = 1"] if len(extents) > 1 else [])
    found += [f"{p} one {side} a tile" for p in extents for side in ("above", "below")]
    found += ["odd stride"] if variety.padded else []
    found += ["huge"] if extents and variety.sized else []
    return [*found, *(["empty"] if extents else [])]


def _variety(name: str) -> Variety:
    return work.find(name).variety or Variety()


def boundary_cases(have: Groups, memory_bytes: float) -> list[Edge]:
    """Which directed cases of their workloads the cases have; one that cannot be says why."""
    found = []
    for name, group in have.items():
        for edge in named(name):
            reason = impossible(name, edge, memory_bytes)
            found.append(Edge(name, edge, not reason and bool(_holds(name, edge, group.columns).any()), reason))
    return found


def impossible(name: str, edge: str, memory_bytes: float) -> str:
    """Why there is no such case; "" where there is."""
    if edge == "empty":
        variety = _variety(name)
        sizes = set(variety.edges) - set(variety.values)  # of which 0 stands for another
        return "" if any(param.low == 0 for param in work.find(name).params if param.name in sizes) else "its sizes begin at 1"
    if edge == "huge" and memory_bytes < HUGE_BYTES:
        return f"needs {size(HUGE_BYTES)} of memory and --memory allows {size(memory_bytes)}"
    return ""


def _holds(name: str, edge: str, columns: GroupColumns) -> NDArray[np.bool_]:
    return np.asarray(_is(name, edge, columns), dtype=bool)


def _is(name: str, edge: str, columns: GroupColumns) -> Any:
    variety = _variety(name)
    extents = {p: features.extent(variety, p, columns) for p in variety.edges}
    if edge == "huge":
        return columns.counted["working_set_bytes"] >= HUGE_BYTES
    if edge == "odd stride":
        return np.any([length % 2 == 1 for length in features.row_lengths(variety, columns)], axis=0)
    if edge == "empty":
        return np.any([values == 0 for values in extents.values()], axis=0)
    if edge.endswith("a tile"):
        param, side = edge.split(" one ")[0], edge.split()[-3]
        past = extents[param] % 64
        return (past == 1) & (extents[param] > 64) if side == "above" else (past == 63)
    wanted = edge.removesuffix(" = 1").split(" = ")
    return np.logical_and.reduce([extents[p] == 1 for p in wanted])


def make(name: str, edge: str, memory_bytes: float) -> Case | None:
    """A small case that is this; None where the search finds none."""
    spec = work.find(name)
    for params in _tried(name, edge):
        case = realize.checked(spec, params)
        if case is None:
            continue
        columns = GroupColumns(name, [case])
        held = columns.counted["working_set_bytes"][0]
        if held <= memory_bytes and bool(_holds(name, edge, columns)[0]):
            return case
    return None


def _tried(name: str, edge: str) -> list[dict[str, Any]]:
    spec, variety = work.find(name), _variety(name)
    extents, more = variety.edges, variety.grown
    base = {**realize.modest(spec), **dict.fromkeys(extents, 256), **variety.directed}
    if edge == "huge":
        grown = [(times, 256 * min(times, 2**10 if more else times)) for times in (2**n for n in range(1, 23))]
        return [{**base, **dict.fromkeys(extents, wide), **{p: realize.MODEST.get(p, 1) * times for p in more}} for times, wide in grown]
    if edge == "odd stride":
        return [{**base, "pad": 1}]
    if edge.endswith("a tile"):
        param, side = edge.split(" one ")[0], edge.split()[-3]
        return [variety.together({**base, param: value}) for value in ((257, 129, 65) if side == "above" else (255, 127, 63))]
    wanted = edge.removesuffix(" = 1").split(" = ")
    wide = dict.fromkeys(extents, variety.beside) if variety.beside and len(wanted) == 1 else {}
    ones = dict.fromkeys(wanted, 1)
    return [variety.together({**base, **wide, **ones}), variety.together({**base, **ones, **variety.least})]
