"""Rows of the timeline: host threads with what lies in what, then each device with its gaps and its streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import breakdown, idle
from hotlap.traces.advice.marks import AdviceMarks
from hotlap.traces.calls import Places
from hotlap.traces.events import COPY, DEVICE_MARKER, KERNEL, MARKER, OPERATOR, OVERHEAD, PYTHON, RUNTIME, SET
from hotlap.traces.study import Study

THREADS, STREAMS = 12, 24  # lanes shown; the others are said to be left out
LEVELS = 48  # of a thread: what lies deeper is not drawn
PAINTS = ("compute", "communication", "copy", "set", "device marker", "operator", "python", "runtime", "marker", "overhead", "wait", "load")
_PAINT = {COPY: 2, SET: 3, DEVICE_MARKER: 4, OPERATOR: 5, PYTHON: 6, RUNTIME: 7, MARKER: 8, OVERHEAD: 9}
COMMUNICATES, WAITS, LOADS = 1, 10, 11


class Lane(NamedTuple):
    """A thread, a stream, or the gaps of a device: as many rows as it has levels."""

    group: str
    title: str
    first: int
    levels: int
    thread: int = -1
    device: int = -1
    stream: int = -1
    gaps: bool = False


@dataclass(frozen=True)
class Rows:
    """Which event stands in which row. `place` are places in the trace, `row` and `paint` go with them."""

    lanes: list[Lane]
    left_out: str
    place: Places
    row: NDArray[np.int64]
    paint: NDArray[np.int64]
    gaps: dict[int, int]  # row of the gaps of each device

    @property
    def count(self) -> int:
        return sum(lane.levels for lane in self.lanes)

    def rows_of(self, marks: AdviceMarks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First row of each mark and the one after its last; −1 where its lane is not drawn."""
        first, last = np.full(len(marks), -1, np.int64), np.full(len(marks), -1, np.int64)
        everything = (marks.thread < 0) & (marks.device < 0)
        first[everything], last[everything] = 0, self.count
        for lane in self.lanes:
            if lane.thread >= 0:
                mine = (marks.thread == lane.thread) & (marks.device < 0)
            elif lane.gaps:
                mine = (marks.device == lane.device) & (marks.stream < 0) & (marks.thread < 0)
            else:
                mine = (marks.device == lane.device) & (marks.stream == lane.stream)
            first[mine], last[mine] = lane.first, lane.first + lane.levels
        order = np.argsort(self.place, kind="stable")
        if len(order):
            at = order[np.minimum(np.searchsorted(self.place[order], marks.place), len(order) - 1)]
            known = (marks.place >= 0) & (self.place[at] == marks.place)
            first[known], last[known] = self.row[at[known]], self.row[at[known]] + 1
        return first, last


def rows(study: Study, low: int, high: int) -> Rows:
    """What lies between two times, in rows."""
    events = study.events
    near = (events.start < high) & (events.start + events.duration > low)
    kind = events.kind
    host = np.flatnonzero(near & np.isin(kind, (OPERATOR, PYTHON, RUNTIME, MARKER)) & (events.thread >= 0))
    device = np.flatnonzero(near & (kind <= DEVICE_MARKER) & (events.device >= 0))
    lanes: list[Lane] = []
    place: list[Places] = []
    row: list[NDArray[np.int64]] = []
    depth = np.zeros(len(events), np.int32)
    depth[study.nesting.places] = study.nesting.depth
    threads = _by_time(events.thread[host], events.duration[host], study.main_thread)
    at = 0
    for thread in threads[:THREADS]:
        mine = host[events.thread[host] == thread]
        levels, level = np.unique(depth[mine], return_inverse=True)
        mine, level = mine[level < LEVELS], level[level < LEVELS]
        about = events.threads[thread]
        title = about.name or f"thread {about.thread}"
        lanes.append(Lane("host", title, at, min(len(levels), LEVELS), thread=int(thread)))
        place.append(mine)
        row.append(at + level.astype(np.int64))
        at += min(len(levels), LEVELS)
    gaps: dict[int, int] = {}
    streams = 0
    left = max(len(threads) - THREADS, 0)
    for number in study.devices:
        of_device = device[events.device[device] == number]
        lanes.append(Lane(f"device {number}", "idle", at, 1, device=number, gaps=True))
        gaps[number] = at
        at += 1
        for marker in (True, False):
            mine = of_device[(kind[of_device] == DEVICE_MARKER) == marker]
            for stream in sorted(_by_time(events.stream[mine], events.duration[mine], -1)[:STREAMS]):
                here = mine[events.stream[mine] == stream]
                here = here[np.lexsort((-events.duration[here], events.start[here]))]
                level = _levels(events.start[here], events.start[here] + events.duration[here])
                count = int(level.max(initial=0)) + 1
                title = f"{'markers' if marker else 'stream'} {stream}"
                lanes.append(Lane(f"device {number}", title, at, count, -1, number, -2 if marker else stream))
                place.append(here)
                row.append(at + level)
                at += count
            streams += max(len(np.unique(events.stream[mine])) - STREAMS, 0)
    every = np.concatenate(place) if place else np.empty(0, np.int64)
    hidden = [f"{left} more threads" if left else "", f"{streams} more streams" if streams else ""]
    numbers = np.concatenate(row) if row else np.empty(0, np.int64)
    return Rows(lanes, ", ".join(one for one in hidden if one), every, numbers, _paints(study, every), gaps)


def _by_time(lane: NDArray[np.int32], length: NDArray[np.int64], first: int) -> list[int]:
    """Lanes by the time of their events, most first; `first` before all."""
    numbers, inverse = np.unique(lane, return_inverse=True)
    total = np.bincount(inverse, weights=length, minlength=len(numbers))
    ordered = [int(numbers[i]) for i in np.argsort(-total, kind="stable")]
    return [*(one for one in ordered if one == first), *(one for one in ordered if one != first)]


def _levels(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row in which each event, by start, finds room; streams seldom need more than one."""
    level = np.zeros(len(start), np.int64)
    if not (start[1:] < np.maximum.accumulate(end)[:-1]).any():
        return level
    free: list[int] = []
    for i, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        found = next((n for n, until in enumerate(free) if until <= begins), len(free))
        if found == len(free) and len(free) < LEVELS:
            free.append(ends)
        found = min(found, LEVELS - 1)
        free[found] = max(free[found], ends)
        level[i] = found
    return level


def _paints(study: Study, place: Places) -> NDArray[np.int64]:
    """What each event is painted as (places in PAINTS)."""
    events = study.events
    kind = events.kind[place]
    paint = np.zeros(len(place), np.int64)
    for one, colour in _PAINT.items():
        paint[kind == one] = colour
    paint[(kind == KERNEL) & breakdown.communicating(events)[events.name[place]]] = COMMUNICATES
    paint[study.blocking[place]] = WAITS
    paint[idle.loading(events)[events.name[place]] & np.isin(kind, (OPERATOR, MARKER))] = LOADS
    return paint
