"""Where in the trace a finding is: stretches of time on a host thread, a stream, a device, or on all of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.calls import Places
from hotlap.traces.events import Column
from hotlap.traces.idle import CAUSES
from hotlap.traces.intervals import Intervals
from hotlap.traces.replay import ReplayChange
from hotlap.traces.study import Study


class AdviceMarks(NamedTuple):
    """Stretches, in ns since the origin. −1 in all of thread, device and stream: everything that ran then."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    place: Places  # event of the trace that the stretch is; −1 where it is none
    thread: Column
    device: Column
    stream: Column  # −1 with a device: all of its streams

    def __len__(self) -> int:
        return len(self.start)


def of_events(study: Study, places: Places) -> AdviceMarks:
    """Events themselves."""
    events = study.events
    start = events.start[places]
    return AdviceMarks(start, start + events.duration[places], places, events.thread[places], events.device[places], events.stream[places])


def of_times(intervals: Intervals, thread: int = -1, device: int = -1) -> AdviceMarks:
    """Stretches on one thread or one device, or on everything."""
    count = len(intervals.start)
    none = np.full(count, -1, np.int64)
    return AdviceMarks(intervals.start, intervals.end, none, np.full(count, thread), np.full(count, device), none)


def together(parts: list[AdviceMarks]) -> AdviceMarks:
    """All of them."""
    if not parts:
        return of_times(Intervals(np.empty(0, np.int64), np.empty(0, np.int64)))
    return AdviceMarks(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def of_change(study: Study, change: ReplayChange) -> AdviceMarks:
    """What a change alters: work that gets shorter, else calls that no longer wait, else calls that get shorter, else the host's time
    before its calls."""
    tasks = study.tasks
    if change.factor is not None and (shorter := change.factor < 1).any():
        on_device = shorter & tasks.on_device
        return of_events(study, tasks.place[on_device if on_device.any() else shorter])
    if change.unblocked is not None and change.unblocked.any():
        return of_events(study, tasks.place[change.unblocked])
    if change.host is not None:
        late = np.flatnonzero((change.host < 1) & ~tasks.on_device & (tasks.before >= 0))
        before = tasks.before[late]
        start, end = tasks.start[before] + tasks.length[before], tasks.start[late]
        kept = end > start
        none = np.full(int(kept.sum()), -1, np.int64)
        return AdviceMarks(start[kept], end[kept], none, study.events.thread[tasks.place[late[kept]]], none, none)
    return together([])


def idle(study: Study, causes: tuple[str, ...]) -> AdviceMarks:
    """Gaps of the devices that are mostly due to one of these causes."""
    wanted = [list(CAUSES).index(cause) for cause in causes]
    parts = []
    for device, found in study.idles.items():
        mostly = found.by[:, wanted].sum(axis=1) * 2 > found.by.sum(axis=1)
        parts.append(of_times(Intervals(found.gaps.start[mostly], found.gaps.end[mostly]), device=device))
    return together(parts)
