"""Launches: how long work waited between its call and its begin, and how much of it stood in the queue meanwhile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.calls import CallLinks
from hotlap.traces.events import Events


class Launches(NamedTuple):
    """Of one device. Delays in ns, in the order of `events.work`; depth is of work called and not begun."""

    delay: NDArray[np.int64]
    median_ns: float
    longest_ns: int
    median_depth: float  # over time
    most_depth: int
    empty: float  # share of the time from first call to last begin in which nothing stood in the queue


def launches(events: Events, joined: CallLinks, device: int) -> Launches | None:
    """None where no call of the device's work is in the trace."""
    mine = (joined.call >= 0) & (events.at("device", events.work) == device)
    if not mine.any():
        return None
    called = events.at("start", joined.call[mine])
    begun = np.maximum(events.at("start", events.work[mine]), called)  # clocks that disagree by a rounding
    delay = begun - called
    times = np.concatenate([called, begun])
    change = np.concatenate([np.ones(len(called), np.int64), np.full(len(begun), -1, np.int64)])
    order = np.lexsort((-change, times))
    depth, lasts = np.cumsum(change[order])[:-1], np.diff(times[order])
    whole = float(lasts.sum())
    if not whole:
        return Launches(delay, float(np.median(delay)), int(delay.max()), 0.0, int(depth.max(initial=0)), 1.0)
    by_depth = np.argsort(depth, kind="stable")
    reached = np.cumsum(lasts[by_depth])
    median = float(depth[by_depth][int(np.searchsorted(reached, whole / 2))])
    return Launches(
        delay, float(np.median(delay)), int(delay.max()), median, int(depth.max(initial=0)), float(lasts[depth == 0].sum()) / whole
    )
