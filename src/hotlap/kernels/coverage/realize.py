"""Levels of features into a case that has them: sizes at the edge of a tile, rows of an alignment, a working set of a size.

A case is only ever given back after its own features were read and are those asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.record import Case
from hotlap.core.work.base import Workload
from hotlap.core.work.variety import ALIGNMENTS, EDGES, Variety
from hotlap.kernels.coverage import features
from hotlap.kernels.coverage.features import BITS, CoverageFeature
from hotlap.kernels.coverage.groups import GroupColumns

GROWTH = (0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 4095, 16383, 65535, 2**18 - 1, 2**20 - 1, 2**22 - 1)
"""Steps of 256 that a size is made larger by."""
MODEST = {  # where a parameter's default would make every case large
    "height": 8, "width": 8, "depth": 4, "images": 1, "inputs": 64, "steps": 2, "inter": 256, "vocabulary": 512, "tokens": 64, "rows": 64,
    "batch": 1, "bags": 16, "lookups": 4, "experts": 8, "nonzeros": 4, "query": 64, "heads": 8, "kv_heads": 8, "k": 8, "topk": 2,
    "groups": 4, "bins": 256, "stride": 1,
}  # fmt: skip


def realize_case(name: str, of: Sequence[CoverageFeature], row: Sequence[int]) -> Case | None:
    """The smallest case of these levels; None where the search finds none."""
    spec = work.find(name)
    wanted = np.array(row, dtype=np.int16)
    levels = {one.name: one.levels[code] for one, code in zip(of, row, strict=True)}
    for params in _tried(spec, of, levels):
        case = checked(spec, params)
        if case is not None and (features.codes(of, GroupColumns(name, [case]))[0] == wanted).all():
            return case
    return None


def checked(spec: Workload, params: dict[str, Any]) -> Case | None:
    """The case of these parameters, none out of range and none against another; None where one is."""
    try:
        return Case(workload=spec.name, params=spec.parse(params))
    except InputError:
        return None


def _tried(spec: Workload, of: Sequence[CoverageFeature], levels: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Parameters to try, from small to large."""
    base = _chosen(spec, of, levels)
    variety = spec.variety or Variety()
    extents, more = variety.edges, variety.grown
    edges = {p: levels.get(f"edge {p}", EDGES[0]) for p in extents}
    step = _elements(levels)
    offsets = [step] if step else [1, 2, 3]
    for both, grow, offset in itertools.product((False, True), GROWTH, dict.fromkeys([*offsets, 1])):
        if both and not (extents and more):
            return
        sizes = {p: _on_edge(edge, offset, grow if both or not more else min(grow, 1)) for p, edge in edges.items()}
        rest = {p: int(base.get(p, MODEST.get(p, 1))) * (grow + 1) for p in more}
        params = {**base, **rest, **sizes}
        if "size" in base:
            params["size"] = 65536 * (grow + 1) ** 2
        yield from variety.fitted(params, levels, step)


def modest(spec: Workload) -> dict[str, Any]:
    """Its parameters at sizes that keep a case small; what has neither such a size nor a default is None."""
    return {p.name: MODEST.get(p.name, p.default) if p.kind == "int" and not p.added_after_release else p.default for p in spec.params}


def _chosen(spec: Workload, of: Sequence[CoverageFeature], levels: dict[str, str]) -> dict[str, Any]:
    variety = spec.variety or Variety()
    base: dict[str, Any] = {p.name: 65536 for p in spec.params} | {n: v for n, v in modest(spec).items() if n in spec.defaults}
    base.update(variety.base)
    for one in of:
        if one.kind == "choice":
            base[one.param] = {"true": True, "false": False}.get(levels[one.name], levels[one.name])
    for form in variety.forms:
        base.update(form.levels[levels[form.name]])
    return base


def _elements(levels: dict[str, str]) -> int:
    """Elements of the alignment asked for; 0 where there is none."""
    if "alignment" not in levels:
        return 0
    return max((8 << ALIGNMENTS.index(levels["alignment"])) // BITS[levels["dtype"]], 1)


def _on_edge(edge: str, offset: int, grow: int) -> int:
    return {"on 256": 256, "on 128": 128, "on 64": 64, "above": 64 + offset, "below": 64 - min(offset, 31)}[edge] + 256 * grow
