"""Steps of the latency and synchronisation workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotlap.core.record import Value
from hotlap.core.work.base import Param, Work, Workload, integer
from hotlap.core.work.variety import Variety

ATOMIC_ITEMS = 65536  # work-items of one call


def _one(_params: Mapping[str, Value]) -> Work:
    return Work(steps=1.0)


def _atomic(params: Mapping[str, Value]) -> Work:
    return Work(steps=float(ATOMIC_ITEMS * integer(params, "repeats")))


def _barrier(params: Mapping[str, Value]) -> Work:
    return Work(steps=2.0 * barrier_passes(params))


def barrier_passes(params: Mapping[str, Value]) -> int:
    """Values are passed round with two barriers in each pass."""
    return integer(params, "repeats") // 2


def _barrier_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    repeats = integer(params, "repeats")
    return ("repeats", f"'repeats' is an even number, as in {repeats + 1}, not {repeats}") if repeats % 2 else None


def _by_launch(_params: Mapping[str, Any]) -> tuple[str, str]:
    return "launch", "the workload measures the cost of a launch or of waiting itself"


def _contended(params: Mapping[str, Any]) -> tuple[str, str]:
    same = params.get("contention") == "same"
    return "latency", (
        "additions to one address wait for one another" if same else "the memory system carries out additions one by one"
    )


WORKLOADS = (
    Workload(
        "launch", "an empty kernel: from the call to its end (single), or its share of a long queue (stream, graph)",
        (Param("mode", "str", "how it is launched", "single", choices=("single", "stream", "graph")),),
        "latency", "s", "lower", _one,
        heading="latency", shows="launch", preparer="latency", cause=_by_launch, variety=Variety(sized=False),
    ),
    Workload(
        "sync", "what waiting costs when nothing is left to do: synchronise, or record and wait for an event",
        (Param("kind", "str", "what is waited for", "synchronize", choices=("synchronize", "event")),),
        "latency", "s", "lower", _one,
        heading="latency", shows="wait", preparer="latency", cause=_by_launch, variety=Variety(sized=False),
    ),
    Workload(
        "atomic", "32-bit integer atomic additions, all to one address or spread over many",
        (
            Param("contention", "str", "same: one address; spread: an address per work-item", "same", choices=("same", "spread")),
            Param("repeats", "int", "additions per work-item", 64, low=1, high=10**6),
        ),
        "rate", "1/s", "higher", _atomic,
        heading="latency", shows="atomics", preparer="latency", cause=_contended, variety=Variety(sized=False),
    ),
    Workload(
        "barrier", "barriers of one full work-group after another",
        (
            Param("repeats", "int", "barriers in one call; an even number", 10_000, low=2, high=10**6),
            Param("group", "int", "work-items in the group", 256, low=1, high=1024),
        ),
        "latency", "s", "lower", _barrier, fault=_barrier_fault,
        heading="latency", shows="barriers", preparer="latency", cause=lambda _: ("latency", "work-items wait for one another"),
        variety=Variety(sized=False),
    ),
)


LAUNCH, SYNC, ATOMIC, BARRIER = WORKLOADS
