"""Memory of a device over a trace: what was allocated, what the allocator held, whether it grows from step to step, who holds the peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import calls, steps
from hotlap.traces.events import MEMORY, OPERATOR, Events

GROWTH_STEPS = 4  # fewer tell nothing of a trend
MOST_STEPS = 1000  # evenly among all: pairs grow with the square


class MemoryHolder(NamedTuple):
    """What an operator had allocated at the peak and not yet freed."""

    operator: str  # "" outside of any
    bytes: int
    allocations: int


class MemoryUsage(NamedTuple):
    """One device. Bytes; what was allocated before the trace began counts where the profiler tells totals."""

    device: int  # −1: the host
    start: NDArray[np.int64]  # ns, of each change
    allocated: NDArray[np.int64]  # after it
    reserved: NDArray[np.int64]  # held by the allocator after it; empty where unknown
    whole: bool  # totals are the profiler's own; else they count from 0 at the trace's beginning
    holders: list[MemoryHolder]  # at the peak, of what was allocated within the trace; most first
    growth_per_step: float | None  # bytes by which the least allocated of a step grows, median of all pairs; None unknown

    @property
    def peak(self) -> int:
        return int(self.allocated.max(initial=0))

    @property
    def unused(self) -> float | None:
        """Share of what the allocator holds at most that was not allocated then: cached or fragmented. None unknown."""
        if not len(self.reserved):
            return None
        at = int(np.argmax(self.reserved))
        return 1 - float(self.allocated[at]) / float(self.reserved[at]) if self.reserved[at] > 0 else None


def of(events: Events) -> list[MemoryUsage]:
    """The memory of each device that has events of it, devices before the host; none where memory was not recorded."""
    places = events.of_kind(MEMORY)
    found = []
    for device in sorted(np.unique(events.device[places]).tolist(), key=lambda one: (one < 0, one)):
        mine = places[events.device[places] == device]
        mine = mine[np.argsort(events.start[mine], kind="stable")]
        found.append(_one(events, int(device), mine))
    return found


def _one(events: Events, device: int, mine: NDArray[np.int64]) -> MemoryUsage:
    start, change, total = events.start[mine], events.bytes[mine], events.external[mine]
    whole = bool((total >= 0).all())
    allocated = total if whole else np.cumsum(change)
    if not whole:  # what was freed and never seen allocated had been there before
        allocated = allocated - min(int(allocated.min(initial=0)), 0)
    held = events.correlation[mine]
    reserved = held if (held >= 0).all() else np.empty(0, np.int64)
    peak = int(np.argmax(allocated)) if len(allocated) else 0
    return MemoryUsage(device, start, allocated, reserved, whole, _holders(events, mine[: peak + 1]), _growth(events, start, allocated))


def _holders(events: Events, until: NDArray[np.int64], most: int = 8) -> list[MemoryHolder]:
    """Who allocated what is still there at the end of these events."""
    address, change = events.sequence[until], events.bytes[until]
    known = address >= 0
    if not known.any():
        return []
    until, address, change = until[known], address[known], change[known]
    last = len(address) - 1 - np.unique(address[::-1], return_index=True)[1]  # what became of each address last
    alive = last[change[last] > 0]
    owner = _around(events, until[alive])
    names, inverse, counts = np.unique(owner, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, weights=change[alive])
    order = np.argsort(-total)[:most]
    return [MemoryHolder(events.names[int(names[i])] if names[i] >= 0 else "", int(total[i]), int(counts[i])) for i in order]


def _around(events: Events, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """Names of the outermost operators in which these moments lie; −1 none."""
    found = calls.nesting(events, OPERATOR)
    outer = found.places[found.depth == 0]
    names = np.full(len(moments), -1, np.int64)
    for thread in np.unique(events.thread[moments]):
        mine = np.flatnonzero(events.thread[moments] == thread)
        here = outer[events.thread[outer] == thread]
        if not len(here):
            continue
        here = here[np.argsort(events.start[here], kind="stable")]
        time = events.start[moments[mine]]
        at = np.maximum(np.searchsorted(events.start[here], time, "right") - 1, 0)
        inside = (events.start[here[at]] <= time) & (time <= events.start[here[at]] + events.duration[here[at]])
        names[mine[inside]] = events.name[here[at[inside]]]
    return names


def _growth(events: Events, start: NDArray[np.int64], allocated: NDArray[np.int64]) -> float | None:
    """Theil–Sen slope of the least that is allocated in each step: what a step leaves behind (Sen, JASA 63, 1968)."""
    found = steps.steps(events)
    if len(found) < GROWTH_STEPS or not len(start):
        return None
    low = np.searchsorted(start, found.start)
    high = np.searchsorted(start, found.end)
    which = np.flatnonzero(high > low)
    if len(which) < GROWTH_STEPS:
        return None
    which = which[np.linspace(0, len(which) - 1, min(len(which), MOST_STEPS)).astype(np.int64)]
    least = np.array([allocated[a:b].min() for a, b in zip(low[which], high[which], strict=True)], float)
    first, second = np.triu_indices(len(least), 1)
    return float(np.median((least[second] - least[first]) / (which[second] - which[first])))


def levels(usage: MemoryUsage, cells: int, span: tuple[int, int]) -> NDArray[np.int64]:
    """The most that was allocated in each of `cells` equal parts of a span, for drawing."""
    edges = np.linspace(span[0], span[1], cells + 1)
    at = np.searchsorted(usage.start, edges)
    allocated = np.zeros(cells, np.int64)
    before = 0
    for i in range(cells):
        inside = usage.allocated[at[i] : at[i + 1]]
        allocated[i] = max(before, int(inside.max())) if len(inside) else before
        before = int(inside[-1]) if len(inside) else before
    return allocated
