"""Where the time of a device went: compute, exposed communication, exposed copies, idle. The window is printed with it."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Record
from hotlap.traces import intervals
from hotlap.traces.events import COPY, KERNEL, SET, Events
from hotlap.traces.intervals import Intervals

COMMUNICATION = re.compile("nccl|rccl|cross_device_reduce", re.IGNORECASE)


class Breakdown(Record, frozen=True, kw_only=True):
    """Shares of a window; compute, both exposed parts and idle add up to 1. None where nothing ran on a device."""

    window: str  # how it is defined
    window_s: float
    device: int | None = None  # None: all of the trace, each device's own window, weighted by its length
    devices: int = 0
    compute_share: float | None = None
    communication_share: float | None = None  # exposed or not
    exposed_communication_share: float | None = None
    copy_share: float | None = None  # exposed or not
    exposed_copy_share: float | None = None
    idle_share: float | None = None
    overlap: float | None = None  # share of the communication behind which something computes; None without communication


class BusyTime(Record, frozen=True, kw_only=True):
    """The sets of one device, in ns of its events."""

    compute: Intervals
    communication: Intervals
    copies: Intervals
    start: int
    end: int

    @property
    def whole(self) -> Intervals:
        """All of them together."""
        parts = (self.compute, self.communication, self.copies)
        return intervals.union(np.concatenate([one.start for one in parts]), np.concatenate([one.end for one in parts]))


def communicating(events: Events) -> NDArray[np.bool_]:
    """For each name of the trace, whether a kernel of that name communicates."""
    return np.array([COMMUNICATION.search(name) is not None for name in events.names], bool)


def devices(events: Events) -> list[int]:
    """Devices on which something ran."""
    return [int(d) for d in np.unique(events.at("device", events.work))]


def busy(events: Events, device: int) -> BusyTime:
    """What kept one device busy, by class; the window is its first start to its last end."""
    places = events.work[events.at("device", events.work) == device]
    start, kind = events.at("start", places), events.at("kind", places)
    end = start + events.at("duration", places)
    talks = communicating(events)[events.at("name", places)] & (kind == KERNEL)
    computes = (kind == KERNEL) & ~talks
    copies = (kind == COPY) | (kind == SET)
    return BusyTime(
        compute=intervals.union(start[computes], end[computes]), communication=intervals.union(start[talks], end[talks]),
        copies=intervals.union(start[copies], end[copies]), start=int(start[0]) if len(start) else 0,
        end=int(end.max()) if len(end) else 0,
    )  # fmt: skip


def parts(busy: BusyTime, start: int, end: int) -> dict[str, int]:
    """Nanoseconds of a window by class: compute, communication, exposed_communication, copy, exposed_copy, idle."""
    compute, talk, copies = (intervals.clipped(one, start, end) for one in (busy.compute, busy.communication, busy.copies))
    open_talk = intervals.difference(talk, compute)
    open_copies = intervals.difference(intervals.difference(copies, compute), talk)
    return {
        "compute": compute.length, "communication": talk.length, "exposed_communication": open_talk.length, "copy": copies.length,
        "exposed_copy": open_copies.length, "idle": end - start - compute.length - open_talk.length - open_copies.length,
    }  # fmt: skip


def of(events: Events, device: int | None = None) -> Breakdown:
    """The breakdown of one device, or of all of them together, over the window from first to last work on the device."""
    wanted = devices(events) if device is None else [device]
    total: dict[str, int] = {}
    window = 0
    for one in wanted:
        found = busy(events, one)
        window += found.end - found.start
        for name, value in parts(found, found.start, found.end).items():
            total[name] = total.get(name, 0) + value
    if not window:
        return Breakdown(window="nothing ran on a device", window_s=0.0, device=device)
    share = {name: value / window for name, value in total.items()}
    talk = total["communication"]
    return Breakdown(
        window="first to last work on the device", window_s=window / 1e9 / len(wanted), device=device, devices=len(wanted),
        compute_share=share["compute"], communication_share=share["communication"],
        exposed_communication_share=share["exposed_communication"], copy_share=share["copy"], exposed_copy_share=share["exposed_copy"],
        idle_share=share["idle"], overlap=1 - total["exposed_communication"] / talk if talk else None,
    )  # fmt: skip
