"""Bytes and steps of the memory workloads. Sizes are the whole working set: the sum of all arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hotlap.core.record import Value
from hotlap.core.work.base import DTYPES, Param, Work, Workload, cache_param, integer, text
from hotlap.core.work.variety import Variety

STREAM_OPS = {  # op: arrays read, arrays written, operations per element; after McCalpin's STREAM_OPS, plus read and write alone
    "read": (1, 0, 1), "write": (0, 1, 0), "copy": (1, 1, 0), "scale": (1, 1, 1), "add": (2, 1, 1), "triad": (2, 1, 2),
}
PRIVATE_BYTES = 2**18  # of a core's own caches, on any processor of the last ten years
DISTINCT_SHARE = 1 - math.exp(-0.25)  # of a table that a quarter as many random draws touch
LINE = 64  # bytes of one cache line, the step of the pointer chase


def stream_elements(params: Mapping[str, Value]) -> int:
    """Elements of each array: the working set shared by the arrays of the operation, whole 16-element vectors."""
    read, written, _ = STREAM_OPS[text(params, "op")]
    per_array = integer(params, "size") // (read + written)
    return max(per_array // DTYPES[text(params, "dtype")] // 16 * 16, 16)


def _stream(params: Mapping[str, Value]) -> Work:
    read, written, ops = STREAM_OPS[text(params, "op")]
    dtype = text(params, "dtype")
    n, size = stream_elements(params), DTYPES[dtype]
    return Work(
        read_bytes=float(read * n * size), written_bytes=float(written * n * size),
        operations={f"fma.{dtype}": float(ops * n)} if ops else {}, working_set_bytes=float((read + written) * n * size),
    )


def gather_shape(params: Mapping[str, Value]) -> tuple[int, int]:
    """Elements of the table, and how many of them one call gathers.

    The working set is table, index and output: strided gathers take one element in `stride`, random ones a quarter of the
    table through 4-byte indices.
    """
    words = integer(params, "size") // 4
    if text(params, "pattern") == "strided":
        count = words // (integer(params, "stride") + 1)
        return max(count, 1) * integer(params, "stride"), max(count, 1)
    table = words * 2 // 3
    return max(table, 4), max(table // 4, 1)


def _gather(params: Mapping[str, Value]) -> Work:
    table, n = gather_shape(params)
    index = 4 * n if text(params, "pattern") == "random" else 0  # the index array is read too
    return Work(read_bytes=4.0 * n + index, written_bytes=4.0 * n, working_set_bytes=4.0 * (table + n) + index)


def _least_gathered(params: Mapping[str, Any], counted: Work) -> float:
    """Distinct bytes that must be read. Random places are drawn with replacement: a share 1 − e^(−n/N) of the table, less four standard
    deviations."""
    if text(params, "pattern") == "strided":
        return counted.read_bytes
    drawn = counted.read_bytes / 2  # the other half is the index array
    table = gather_shape(params)[0]
    distinct = max(DISTINCT_SHARE * table - 4 * 0.144 * math.sqrt(table), 1.0)
    return drawn + min(4 * distinct, drawn)


def _fetches(params: Mapping[str, Any]) -> tuple[str, str]:
    """Whole lines are fetched for single elements."""
    scattered = params["pattern"] == "random"
    where = "random places" if scattered else f"every {params['stride']} elements"
    return ("latency" if scattered else "bandwidth"), f"reads {where}, so that most of each fetched line is not used"


def chase_hops(params: Mapping[str, Value]) -> int:
    """Hops of one call: a fixed number, so that small and large working sets take comparable time."""
    return integer(params, "hops")


def _chase(params: Mapping[str, Value]) -> Work:
    return Work(steps=float(chase_hops(params)), working_set_bytes=float(integer(params, "size")))


def _private(params: Mapping[str, Value]) -> bool:
    """In the caches of one core, which run at its clock."""
    return integer(params, "size") <= PRIVATE_BYTES


SIZE = Param("size", "int", "working set: the sum of all arrays", unit="B", low=4096, high=2**46)

WORKLOADS = (
    Workload(
        "stream", "contiguous reads and writes of memory; the working set decides which cache level is seen",
        (
            Param("op", "str", "what is done per element", "triad", choices=tuple(STREAM_OPS)),
            Param("dtype", "str", "element type", "fp32", choices=("fp32", "fp64")),
            SIZE, cache_param(),
        ),
        "bandwidth", "B/s", "higher", _stream, bound_by_clock=_private,
        heading="memory", shows="memory", preparer="stream", ceilings=("bandwidth",), shares_launch=True, model="streaming",
        traffic="contiguous", variety=Variety(),
    ),
    Workload(
        "gather", "fp32 elements read at a stride or at random places, written in order",
        (
            Param("pattern", "str", "which elements", "random", choices=("strided", "random")),
            Param("stride", "int", "distance in elements, for strided", 16, low=1, high=2**20),
            SIZE, cache_param(),
        ),
        "bandwidth", "B/s", "higher", _gather,
        heading="memory", preparer="access", ceilings=("bandwidth",), likely=_fetches, least_bytes=_least_gathered, model="streaming",
        traffic="gathered", variety=Variety(),
    ),
    Workload(
        "chase", "one dependent load after another through a random cycle of cache lines: the latency of a load",
        (SIZE, Param("hops", "int", "loads in one call", 100_000, low=1000, high=10**9)),
        "latency", "s", "lower", _chase, bound_by_clock=_private,
        heading="latency", shows="load", preparer="access", step="load", cause=lambda _: ("latency", "a load waits for the one before it"),
        variety=Variety(),
    ),
)

STREAM, GATHER, CHASE = WORKLOADS
