"""Why a device was idle: each gap between pieces of its work, divided by what the host and the queue were doing meanwhile."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Record
from hotlap.traces import breakdown, intervals
from hotlap.traces.calls import CallLinks
from hotlap.traces.events import MARKER, OPERATOR, RUNTIME, Events
from hotlap.traces.intervals import Intervals
from hotlap.traces.waiting import blocking

QUEUED_NS = 30_000  # work that was queued and started within this of the work before it only waited for its turn
LOADER = re.compile(r"DataLoader.*__next__|^enumerate\(DataLoader\)|_next_data|data_?load", re.IGNORECASE)
MUCH = 0.3  # of a device's idle time: a gap that is named alone
CAUSES = {
    "data_loader": "the host waited for its data loader",
    "synchronise": "the host waited for the device and so had nothing queued behind it",
    "operators": "the host was inside operators: it submits slower than the device works",
    "host": "the host was outside any operator: the program's own code, logging, the framework",
    "launch": "the host was inside the call that launches the next work",
    "queue": "the work was queued: the device took it up after the work before it",
    "dependency": "the work was queued, and waited longer than a turn: for another stream, rank or event",
    "unknown": "the trace has no call for the work after the gap",
}


class Idle(NamedTuple):
    """Gaps of one device, by start, and nanoseconds of each by cause (columns in the order of CAUSES)."""

    gaps: Intervals
    after: NDArray[np.int64]  # place in the trace of the work that ends the gap
    by: NDArray[np.int64]  # gaps × causes

    def seconds(self) -> dict[str, float]:
        """Seconds by cause, all gaps together."""
        return {cause: float(self.by[:, i].sum()) / 1e9 for i, cause in enumerate(CAUSES)}


class LongGap(Record, frozen=True, kw_only=True):
    """A single gap that makes up much of a device's idle time, and its neighbours."""

    device: int
    start_s: float  # since the first event of the trace
    length_s: float
    share: float  # of the device's idle time
    cause: str  # that most of it is due to, of CAUSES
    before: str  # name of the work that ended last before it
    after: str  # of the work that ends it


def long_gap(events: Events, device: int, idle: Idle) -> LongGap | None:
    """The longest gap, where it is MUCH of the idle time or more."""
    length = idle.gaps.end - idle.gaps.start
    if not len(length) or length.max() < MUCH * max(length.sum(), 1):
        return None
    at = int(np.argmax(length))
    mine = events.work[events.device[events.work] == device]
    earlier = mine[events.start[mine] < idle.gaps.start[at] + 1]
    before = earlier[np.argmax(events.start[earlier] + events.duration[earlier])]
    return LongGap(
        device=device, start_s=float(idle.gaps.start[at]) / 1e9, length_s=float(length[at]) / 1e9, share=float(length[at] / length.sum()),
        cause=list(CAUSES)[int(np.argmax(idle.by[at]))], before=events.names[int(events.name[before])],
        after=events.names[int(events.name[idle.after[at]])],
    )  # fmt: skip


def loading(events: Events) -> NDArray[np.bool_]:
    """For each name, whether it is a wait for a data loader."""
    return np.array([LOADER.search(name) is not None for name in events.names], bool)


def _host_sets(events: Events, thread: int, waits: NDArray[np.bool_]) -> tuple[Intervals, Intervals, Intervals]:
    """Of a thread: waits for data, waits for the device, time inside operators or calls."""
    here = np.flatnonzero(events.thread == thread)
    start, end, kind = events.start[here], events.start[here] + events.duration[here], events.kind[here]
    loads = loading(events)[events.name[here]] & np.isin(kind, (MARKER, OPERATOR))
    blocks = waits[here]
    inside = np.isin(kind, (OPERATOR, RUNTIME)) & ~loads & (events.duration[here] > 0)
    loading_set, waiting_set, inside_set = (intervals.union(start[one], end[one]) for one in (loads, blocks, inside))
    return loading_set, waiting_set, inside_set


def idle(events: Events, device: int, joined: CallLinks, window: tuple[int, int] | None = None) -> Idle:
    """The gaps of a device within a window (its first to its last work by default), divided by cause."""
    found = breakdown.busy(events, device)
    low, high = window or (found.start, found.end)
    gaps = intervals.gaps(found.whole, low, high)
    on_device = np.flatnonzero(events.device[events.work] == device)
    places = events.work[on_device]
    at = np.minimum(np.searchsorted(events.start[places], gaps.end, "left"), len(places) - 1)
    after, call = places[at], joined.call[on_device][at]
    by = np.zeros((len(gaps.start), len(CAUSES)), np.int64)
    column = {cause: i for i, cause in enumerate(CAUSES)}
    known = call >= 0
    by[~known, column["unknown"]] = (gaps.end - gaps.start)[~known]
    begun = np.where(known, events.start[np.maximum(call, 0)], 0)
    ended = np.where(known, begun + events.duration[np.maximum(call, 0)], 0)
    # Before the call began the host had not asked; from then to its return the launch is under way; later the work is queued.
    asked, returned = np.clip(begun, gaps.start, gaps.end), np.clip(ended, gaps.start, gaps.end)
    by[known, column["launch"]] = (returned - asked)[known]
    waited = np.where(known, gaps.end - returned, 0)
    short = waited <= QUEUED_NS
    by[short, column["queue"]] += waited[short]
    by[~short, column["dependency"]] += waited[~short]
    waits = blocking(events, joined)
    threads = np.where(known, events.thread[np.maximum(call, 0)], -1)
    for thread in np.unique(threads[known]):
        mine = np.flatnonzero(known & (threads == thread))
        sets = _host_sets(events, int(thread), waits)
        _host(sets, Intervals(gaps.start[mine], asked[mine]), by, mine, column)
    return Idle(gaps, after, by)


def _host(
    sets: tuple[Intervals, Intervals, Intervals], unasked: Intervals, by: NDArray[np.int64], rows: NDArray[np.int64], column: dict[str, int]
) -> None:
    """Divides the part of gaps in which the host had not yet asked."""
    (loads, blocks, inside), (start, end) = sets, unasked
    free = end - start
    load = intervals.covered(loads, start, end)
    wait = intervals.covered(intervals.difference(blocks, loads), start, end)
    work = intervals.covered(intervals.difference(intervals.difference(inside, blocks), loads), start, end)
    rest = free - load - wait - work
    # A host that was waiting for the device when it fell idle could not have queued anything: what it does next is late for that reason,
    # but by no more than it had waited. What it does for longer it would have come late with anyway.
    late = np.minimum(_waited(blocks, start), work + rest)
    in_work = np.minimum(late, work)
    by[rows, column["data_loader"]] += load
    by[rows, column["synchronise"]] += wait + late
    by[rows, column["operators"]] += work - in_work
    by[rows, column["host"]] += rest - (late - in_work)


def _waited(blocks: Intervals, start: NDArray[np.int64]) -> NDArray[np.int64]:
    """For how long before each of these moments the host had been waiting; 0 where it was not waiting then."""
    if not len(blocks.start):
        return np.zeros(len(start), np.int64)
    at = np.maximum(np.searchsorted(blocks.start, start, "right") - 1, 0)
    since = np.where(blocks.end[at] >= start, start - blocks.start[at], 0)
    return np.asarray(np.maximum(since, 0), np.int64)
