"""The provable bound of many cases at once: the roofline of `limits` on arrays, for matrix products and the kernels of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.model.limits import link_rate, per_clock
from hotlap.core.model.machines import Spec
from hotlap.core.work import layers, network, science

Floats = NDArray[np.float64]
MANY = ("gemm", *(one.name for family in (network, layers, science) for one in family.WORKLOADS))  # workloads whose counts can be arrays


def bounds(workload: str, params: Mapping[str, Any], spec: Spec) -> tuple[Floats, NDArray[np.str_]]:
    """Seconds that no call can be faster than, and what sets them. `params`: complete; numbers may be arrays of one shape, texts are
    the same for all. NaN where the table lacks a figure. The same assumptions as `limits.limit`."""
    asked = work.find(workload).work(params)
    shape = np.broadcast_shapes(*(np.shape(value) for value in params.values()))
    if workload == "collective":
        return _link(network.least_link_bytes(params), spec, shape)
    arithmetic = [_operations(unit, count, spec) for unit, count in asked.operations.items()]
    held = np.inf if spec.resident_bytes is None else spec.resident_bytes
    moved = _compulsory(workload, params, asked)
    memory = np.maximum(moved - held, 0.0) / (spec.memory_bandwidth_b_s or np.nan)
    parts = [np.broadcast_to(np.asarray(part, dtype=float), shape) for part in (*arithmetic, memory)]
    names = [*("arithmetic unit" for _ in arithmetic), "memory"]
    table = np.stack(parts)
    longest = np.nanargmax(np.where(np.isnan(table), -1.0, table), axis=0)
    seconds = np.take_along_axis(table, longest[None], axis=0)[0]
    return np.where(seconds > 0, seconds, np.nan), np.asarray(names)[longest]


def _operations(unit: str, count: Any, spec: Spec) -> Any:
    found = per_clock(spec, unit) if spec.clock_proven else None
    rate = found[1] * (spec.compute_units or np.nan) * (spec.clock_max_hz or np.nan) if found else np.nan
    return np.asarray(count) / rate


def _compulsory(workload: str, params: Mapping[str, Any], asked: work.base.Work) -> Any:
    """Bytes that must move. Which experts tokens choose is not known: unless they choose evenly, as few as may be."""
    if workload != "moe" or params["distribution"] == "balanced":
        return np.asarray(asked.read_bytes) + asked.written_bytes
    size = work.base.STORED[str(params["dtype"])] * (3.0 if params["gated"] else 2.0)
    one = params["hidden"] * (np.asarray(params["inter"]) / params["tp"]) * size
    return one * np.maximum(np.asarray(params["topk"]) / params["ep"], 1.0) + asked.written_bytes


def _link(moved: Any, spec: Spec, shape: tuple[int, ...]) -> tuple[Floats, NDArray[np.str_]]:
    found = link_rate("collective", spec)
    seconds = np.asarray(moved) / (np.nan if isinstance(found, str) else found[0])
    return np.broadcast_to(seconds, shape).astype(float), np.full(shape, "link")
