"""Whether the replay of a trace can be trusted: without the device's work it may last no longer than the host alone did."""

from __future__ import annotations

import numpy as np

from hotlap.core.record import Record
from hotlap.traces import intervals, replay
from hotlap.traces.replay import ReplayChange, ReplayTasks

TOLERANCE = 0.02  # of the window: what launches, turns and wake-ups cost beside the work


class ReplayCheck(Record, frozen=True, kw_only=True):
    """The window replayed with all device work at zero time."""

    left_s: float  # from the window's begin to the end of all
    host_s: float  # the host alone: to the end of its last call, less the device's work while it waited
    gain: float  # share of the window
    exposed_share: float  # of the window: the device works while the host waits for it, or after its last call
    holds: bool  # whether gains of this trace can be trusted


def check(tasks: ReplayTasks, window: tuple[int, int]) -> ReplayCheck | None:
    """None where nothing can be replayed, or the host was not recorded."""
    low, high = window
    if not tasks.on_device.any() or tasks.on_device.all() or high <= low:
        return None
    end = tasks.start + tasks.length
    nothing = np.where(tasks.on_device, 0.0, 1.0)
    left = float(replay.timed(tasks, ReplayChange(factor=nothing, turn=nothing)).end.max()) - low
    whole = float(end.max()) - low
    waits, works = tasks.blocks, ~tasks.on_device & ~tasks.blocks
    waiting = intervals.difference(
        intervals.union(tasks.start[waits], end[waits]), intervals.union(tasks.start[works], end[works])
    )  # while another thread works, the host does
    busy = intervals.clipped(intervals.union(tasks.start[tasks.on_device], end[tasks.on_device]), low, int(end.max()))
    last = int(end[~tasks.on_device].max())
    waited = intervals.intersection(busy, waiting).length
    after = intervals.clipped(busy, last, int(end.max())).length if end.max() > last else 0
    host, gain, exposed = last - low - waited, (whole - left) / whole, (waited + after) / whole
    holds = left <= host + TOLERANCE * whole and gain >= exposed - TOLERANCE
    return ReplayCheck(left_s=left / 1e9, host_s=host / 1e9, gain=gain, exposed_share=exposed, holds=bool(holds))
