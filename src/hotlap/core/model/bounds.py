"""The provable bound of many cases at once: the roofline of `limits` on arrays, for matrix products and the kernels of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.model.limits import link_rate, quickest
from hotlap.core.model.machines import Spec
from hotlap.core.work.counted import Work
from hotlap.core.work.traits import Link

Floats = NDArray[np.float64]
MANY = frozenset(name for name, one in work.WORKLOADS.items() if one.arrays)  # workloads whose counts can be arrays


def bounds(workload: str, params: Mapping[str, Any], spec: Spec) -> tuple[Floats, NDArray[np.str_]]:
    """Seconds that no call can be faster than, and what sets them. `params`: complete; numbers may be arrays of one shape, texts are
    the same for all. NaN where the table lacks a figure. The same assumptions as `limits.limit`."""
    kind = work.find(workload)
    asked = kind.work(params)
    shape = np.broadcast_shapes(*(np.shape(value) for value in params.values()))
    if kind.link:
        return _link(kind.link, kind.link.least(params, asked), spec, shape)
    arithmetic = [_operations(unit, count, spec, asked) for unit, count in asked.operations.items()]
    held = np.inf if spec.resident_bytes is None else spec.resident_bytes
    moved = np.asarray(kind.least_bytes(params, asked) if kind.least_bytes else asked.read_bytes) + asked.written_bytes
    memory = np.maximum(moved - held, 0.0) / (spec.memory_bandwidth_b_s or np.nan)
    parts = [np.broadcast_to(np.asarray(part, dtype=float), shape) for part in (*arithmetic, memory)]
    names = [*("arithmetic unit" for _ in arithmetic), "memory"]
    table = np.stack(parts)
    longest = np.nanargmax(np.where(np.isnan(table), -1.0, table), axis=0)
    seconds = np.take_along_axis(table, longest[None], axis=0)[0]
    return np.where(seconds > 0, seconds, np.nan), np.asarray(names)[longest]


def _operations(unit: str, count: Any, spec: Spec, asked: Work) -> Any:
    found = quickest(spec, unit, asked) if spec.clock_proven else None
    rate = found[1] * (spec.compute_units or np.nan) * (spec.clock_max_hz or np.nan) if found else np.nan
    return np.asarray(count) / rate


def _link(link: Link, moved: Any, spec: Spec, shape: tuple[int, ...]) -> tuple[Floats, NDArray[np.str_]]:
    found = link_rate(link.between, spec)
    seconds = np.asarray(moved) / (np.nan if isinstance(found, str) else found[0])
    return np.broadcast_to(seconds, shape).astype(float), np.full(shape, "link")
