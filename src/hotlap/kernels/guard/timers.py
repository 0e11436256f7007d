"""What times and checks, as it was before any operator ran: whoever replaces a part of it is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from hotlap.core.measure.targets.base import SystemClock

CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time", "thread_time", "sleep")
EVENTS = ("record", "synchronize", "elapsed_time", "wait", "query")
Part = tuple[Any, str, Any, Any]  # owner, name, what it was, its code

_BOUND = [(time, name, vars(time)[name], None) for name in CLOCKS] + [(SystemClock, "now", vars(SystemClock)["now"], None)]


def watch(library: Any, target: Any, others: Sequence[tuple[Any, Sequence[str]]]) -> Callable[[], str]:
    """From now on: a function that names the first part that is no longer what it was, "" where all are. `others`: owners, and the names
    of their functions that matter."""
    owners: list[tuple[Any, Sequence[str]]] = [(type(target), ("time", "sync", "_fill", "_graph", "read", "buffer")), *others]
    for device in ("cuda", "xpu"):
        module = getattr(library, device, None)
        if module is not None:
            owners += [(module, ("synchronize", "current_stream")), (getattr(module, "Event", None), EVENTS)]
    parts: tuple[Part, ...] = (*_BOUND, *(part for owner, names in owners for part in _parts(owner, names)))
    own = {name: id(value) for name, value in vars(target).items() if not name.startswith("_")}

    def replaced() -> str:
        for owner, name, was, code in parts:
            here = vars(owner).get(name)
            if here is not was or getattr(here, "__code__", None) is not code:
                return f"{getattr(owner, '__qualname__', getattr(owner, '__name__', owner))}.{name}"
        for name, value in vars(target).items():
            if name in ("time", "sync") or (name in ("clock", "library", "device") and own.get(name) != id(value)):
                return f"{type(target).__qualname__}.{name}"
        return ".".join(("clock", *(vars(target.clock)))) if vars(target.clock) else ""

    return replaced


def _parts(owner: Any, names: Sequence[str]) -> list[Part]:
    found = vars(owner) if owner is not None else {}
    return [(owner, name, found[name], getattr(found[name], "__code__", None)) for name in names if name in found]
