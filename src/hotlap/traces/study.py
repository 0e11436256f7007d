"""What analyses and advice share of one trace, worked out once: links, steps, windows, idle, tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice
from hotlap.traces import breakdown, calls, idle, intervals, replay, replay_check, sources, steps, waiting
from hotlap.traces.breakdown import Breakdown, BusyTime
from hotlap.traces.calls import CallLinks, Nesting, Places
from hotlap.traces.events import KERNEL, MARKER, OPERATOR, PYTHON, RUNTIME, WORK, Events
from hotlap.traces.idle import Idle, LongGap
from hotlap.traces.replay_check import ReplayCheck
from hotlap.traces.steps import Steps

LONG_FIRST_NS = 10_000_000
FAR_LONGER = 10  # times the median of the other calls
SLOW_LAUNCH_NS = 1_000_000  # a call that launches takes a few µs
MANY_LAUNCHES = 20  # of which the median is what a launch usually takes
JAX = re.compile(r"^(?:PjitFunction|jit\(|XlaModule|TSL:|PjRt)|site-packages/jax/")


class KernelRow(NamedTuple):
    """All calls of one kernel by one operator."""

    name: str
    operator: str  # "" unknown
    calls: int
    total_s: float
    share: float  # of the busy time of kernels
    median_s: float


class Study:
    """One trace, ready to be asked. `window` is what shares are of: all steps where there are any, else first to last event of interest."""

    def __init__(self, events: Events, machine: str = "", busy: str = "") -> None:
        self.events, self.machine = events, machine  # a name of the machine table, "" to recognise it
        self.busy = busy  # who else used the processors while it was recorded; "" where they were free, or nobody knows

    @cached_property
    def devices(self) -> list[int]:
        """Devices on which something ran; none in a trace of the host alone."""
        return breakdown.devices(self.events)

    @cached_property
    def nesting(self) -> Nesting:
        return calls.nesting(self.events)

    @cached_property
    def parent(self) -> Places:
        """For each event the host event around it; −1 none."""
        return self.nesting.parent_of(self.events)

    @cached_property
    def links(self) -> CallLinks:
        return calls.links(self.events)

    @cached_property
    def steps(self) -> Steps:
        return steps.steps(self.events)

    @cached_property
    def step_of_work(self) -> NDArray[np.int64]:
        """For each piece of device work its step; −1 none."""
        return steps.of_work(self.events, self.steps, self.links)

    @cached_property
    def window(self) -> tuple[int, int]:
        """ns since the origin."""
        if len(self.steps):
            return int(self.steps.start[0]), max(int(self.steps.end.max()), self._last_end(self.events.work))
        if len(self.events.work):
            first = int(self.events.start[self.events.work].min())
            launched = self.links.call[self.links.call >= 0]
            return min(first, int(self.events.start[launched].min())) if len(launched) else first, self._last_end(self.events.work)
        places = self.events.of_kind(OPERATOR)
        places = places if len(places) else np.arange(len(self.events))
        if not len(places):
            return 0, 0
        return int(self.events.start[places].min()), self._last_end(places)

    def _last_end(self, places: Places) -> int:
        return int((self.events.start[places] + self.events.duration[places]).max(initial=np.iinfo(np.int64).min))

    @property
    def window_words(self) -> str:
        """How the window is defined."""
        if len(self.steps):
            steps = f"{len(self.steps)} step{'s' * (len(self.steps) > 1)} ({self.steps.marker})"
            return f"{steps}, to the last work on the device" if len(self.events.work) else steps
        return "first launch to last work on the device" if len(self.events.work) else "first to last operator"

    @property
    def window_s(self) -> float:
        low, high = self.window
        return (high - low) / 1e9

    def breakdown(self, device: int | None = None) -> Breakdown:
        """First to last work on the device."""
        return breakdown.of(self.events, device)

    @cached_property
    def idles(self) -> dict[int, Idle]:
        """Gaps by cause, of each device."""
        return {device: idle.idle(self.events, device, self.links) for device in self.devices}

    @cached_property
    def long_gaps(self) -> list[LongGap]:
        """Single gaps that make up much of a device's idle time."""
        return [gap for device, one in self.idles.items() if (gap := idle.long_gap(self.events, device, one))]

    @cached_property
    def idle_shares(self) -> dict[str, float]:
        """Idle by cause, as shares of all devices' windows; they add up to the idle share of the breakdown."""
        window = sum(found.end - found.start for found in (breakdown.busy(self.events, d) for d in self.devices)) / 1e9
        total = dict.fromkeys(idle.CAUSES, 0.0)
        if not window:  # all work is of no length
            return total
        for found in self.idles.values():
            for cause, seconds in found.seconds().items():
                total[cause] += seconds / window
        return total

    @cached_property
    def gaps(self) -> dict[int, Idle]:
        """Gaps by cause, of each device, from the window's begin on: also that before its first work."""
        low, _ = self.window
        return {
            device: idle.idle(self.events, device, self.links, (low, max(span.end, low)))
            for device, span in zip(self.devices, self.spans, strict=True)
        }

    def idle_within(self, there: intervals.Intervals, around_ns: int = 0) -> float:
        """Share of the window that devices were idle meanwhile; `around_ns`: with so much of the rest of each gap that is mostly of these
        times, since the host would have come earlier without them."""
        together = 0
        for one in self.gaps.values():
            length = one.gaps.end - one.gaps.start
            part = intervals.covered(there, one.gaps.start, one.gaps.end)
            together += int((part + np.where(2 * part >= length, np.minimum(length - part, around_ns), 0)).sum())
        return together / self._devices_ns

    def idle_for(self, causes: Sequence[str], apart: intervals.Intervals | None = None, launched: bool = True) -> float:
        """Share of the window that devices were idle for these causes; `apart`: from each device's first work on, and without these times;
        `launched`: with what the launch that ended such a gap still took."""
        columns = [list(idle.CAUSES).index(cause) for cause in causes]
        tail = [list(idle.CAUSES).index(cause) for cause in ("launch", "queue") if launched and cause not in causes]
        together = 0
        for one in (self.gaps if apart is None else self.idles).values():
            due = one.by[:, columns].sum(axis=1)
            if apart is not None:
                due = np.maximum(due - intervals.covered(apart, one.gaps.start, one.gaps.end), 0)
            together += int((due + np.where(due > 0, one.by[:, tail].sum(axis=1), 0)).sum())
        return together / self._devices_ns

    @property
    def _devices_ns(self) -> float:
        """The window, once for each device."""
        return max(len(self.devices) * self.window_s * 1e9, 1.0)

    @cached_property
    def blocking(self) -> NDArray[np.bool_]:
        """For each event, whether the host waits for the device in it."""
        return waiting.blocking(self.events, self.links)

    @cached_property
    def spans(self) -> list[BusyTime]:
        """What kept each device busy."""
        return [breakdown.busy(self.events, device) for device in self.devices]

    @cached_property
    def usual_launch_ns(self) -> float:
        """Median time of a call that launches work and does not wait for it; 0 where there is none."""
        calls = self._launching
        return float(np.median(self.events.duration[calls])) if len(calls) else 0.0

    @property
    def _launching(self) -> Places:
        calls = np.unique(self.links.call[self.links.call >= 0])
        return calls[~self.blocking[calls]]

    @cached_property
    def long_launches(self) -> Places:
        """Calls that launch work and take far longer than launches do: they load code, or wait for room in the queue."""
        calls = self._launching
        usual = self.usual_launch_ns if len(calls) >= MANY_LAUNCHES else 0.0
        return calls[self.events.duration[calls] > max(SLOW_LAUNCH_NS, 50 * usual)]

    @cached_property
    def slow_launches(self) -> Places:
        """Those that launched work of a name for the first time."""
        known = np.flatnonzero(self.links.call >= 0)
        _, first = np.unique(self.events.name[self.events.work[known]], return_index=True)
        return self.long_launches[np.isin(self.long_launches, self.links.call[known[first]])]

    @cached_property
    def first_uses(self) -> dict[int, int]:
        """Outermost operators whose first call kept a device idle for long, by place: ns that the host was inside operators then."""
        work = self.events.work
        order = np.argsort(work)
        operators = np.unique(self.links.root[self.links.root >= 0])
        operators = operators[np.argsort(self.events.start[operators], kind="stable")]
        _, at = np.unique(self.events.name[operators], return_index=True)
        firsts = operators[at]
        first = self._first_calls(firsts, operators)
        column = list(idle.CAUSES).index("operators")
        for one in self.gaps.values():
            roots = self.links.root[order[np.searchsorted(work[order], one.after)]]
            for gap in np.flatnonzero((one.by[:, column] >= LONG_FIRST_NS) & np.isin(roots, firsts)):
                first[int(roots[gap])] = max(first.get(int(roots[gap]), 0), int(one.by[gap, column]))
        return first

    def _first_calls(self, firsts: Places, operators: Places) -> dict[int, int]:
        """Of these operators, each the first of its name, those that took far longer than the others of it: ns that devices were idle in
        them."""
        names, length = self.events.name[operators], self.events.duration
        lost: dict[int, int] = {}
        for place in firsts[length[firsts] >= LONG_FIRST_NS].tolist():
            others = operators[(names == self.events.name[place]) & (operators != place)]
            if len(others) and length[place] >= FAR_LONGER * np.median(length[others]):
                lost[place] = self._lost_in(place, int(np.median(length[others])))
        return {place: ns for place, ns in lost.items() if ns}

    def _lost_in(self, place: int, usual: int) -> int:
        """ns that devices were idle in an operator, its slow launches left out; all that it took beyond the usual, where that is most."""
        start = self.events.start[place]
        whole = intervals.union(start[None], start[None] + self.events.duration[place])
        slow = self.slow_launches
        there = intervals.difference(whole, intervals.union(self.events.start[slow], self.events.start[slow] + self.events.duration[slow]))
        lost = sum(intervals.intersection(one.gaps, there).length for one in self.gaps.values())
        return max(lost, there.length - usual) if 2 * lost >= there.length else lost

    @cached_property
    def tasks(self) -> replay.ReplayTasks:
        return replay.tasks(self.events, self.links, self.window)

    @cached_property
    def timed(self) -> replay.ReplayTimes:
        return replay.timed(self.tasks)

    @cached_property
    def check(self) -> ReplayCheck | None:
        """Whether gains can be trusted; None where nothing can be replayed."""
        return replay_check.check(self.tasks, self.window)

    @property
    def notices(self) -> list[Notice]:
        """What could not be read as it stands, and whether gains can be trusted."""
        doubt = self.check is not None and not self.check.holds
        seen = "without the device's work the replay would last longer than the host alone did: gains of this trace cannot be trusted"
        doubts = [Notice("replay_doubtful", seen)] if doubt else []
        return [*self.events.head.notices, *([Notice("crowded", self.busy)] if self.busy else []), *doubts]

    def gain(self, change: replay.ReplayChange) -> float:
        """Share of the window by which the whole would end earlier."""
        if not len(self.tasks.start) or not self.window_s:
            return 0.0
        saved = self.timed.end.max() - replay.timed(self.tasks, change).end.max()
        return float(max(saved, 0.0)) / 1e9 / self.window_s

    def replayable(self, change: replay.ReplayChange) -> bool:
        """Whether a change alters any task: what it is meant to alter may have no calls in the trace."""
        factors = [one for one in (change.factor, change.host, change.turn) if one is not None]
        freed = change.unblocked is not None and bool(change.unblocked.any())
        return bool(self.tasks.on_device.any()) and (freed or any(bool((one != 1).any()) for one in factors))

    @cached_property
    def jax(self) -> bool:
        """Whether the program is JAX's, whose remedies are others than PyTorch's."""
        return self.events.head.reader in ("xplane", "nsysjax") or any(JAX.search(name) for name in self.events.names)

    @cached_property
    def main_thread(self) -> int:
        """The host thread of the steps if it works, else the one that spends most time in operators, else launches most; −1 none."""
        works = np.isin(self.events.kind, (OPERATOR, RUNTIME))
        if self.steps.thread >= 0 and ((works & (self.events.thread == self.steps.thread)).any() or not works.any()):
            return self.steps.thread
        places = self.nesting.places[(self.nesting.depth == 0) & np.isin(self.events.kind[self.nesting.places], (OPERATOR, MARKER, PYTHON))]
        places = places[self.events.thread[places] != self.steps.thread] if len(self.steps) else places
        if not len(places):
            threads = self.events.thread[self.links.call[self.links.call >= 0]]
            return int(np.argmax(np.bincount(threads))) if len(threads) and threads.min() >= 0 else -1
        spent = np.bincount(self.events.thread[places], weights=self.events.duration[places])
        return int(np.argmax(spent))

    @cached_property
    def loading(self) -> intervals.Intervals:
        """When the main thread waited for its data loader."""
        mine = np.flatnonzero((self.events.thread == self.main_thread) & np.isin(self.events.kind, (MARKER, OPERATOR)))
        mine = mine[idle.loading(self.events)[self.events.name[mine]]]
        return intervals.union(self.events.start[mine], self.events.start[mine] + self.events.duration[mine])

    def kernels(self, most: int = 0) -> list[KernelRow]:
        """Kernels by the time they took, with the operator that launched most of it."""
        work = self.events.work
        mine = np.flatnonzero(self.events.kind[work] == KERNEL)
        if not len(mine):
            return []
        name, length = self.events.name[work[mine]].astype(np.int64), self.events.duration[work[mine]]
        operator = self.links.operator[mine]
        called = np.where(operator >= 0, self.events.name[np.maximum(operator, 0)], -1).astype(np.int64)
        key, inverse = np.unique(name * (len(self.events.names) + 1) + called + 1, return_inverse=True)
        total = np.bincount(inverse, weights=length)
        count = np.bincount(inverse)
        whole = float(length.sum())
        grouped = np.split(length[np.argsort(inverse, kind="stable")], np.cumsum(count)[:-1])
        rows = []
        for i in np.argsort(-total, kind="stable")[: most or None]:
            which, by = divmod(int(key[i]), len(self.events.names) + 1)
            rows.append(
                KernelRow(
                    self.events.names[which],
                    self.events.names[by - 1] if by else "",
                    int(count[i]),
                    float(total[i]) / 1e9,
                    float(total[i]) / whole if whole else 0.0,
                    float(np.median(grouped[i])) / 1e9,
                )
            )
        return rows

    def source(self, place: int) -> str:
        """The line of the user's program behind a host event: of its call stack, else of the Python functions around it; "" unknown."""
        events = self.events
        at, line = place, ""
        while at >= 0 and not line:
            stack = int(events.stack[at])
            if stack >= 0 and events.stacks[stack].strip():
                line = sources.users_line(events.stacks[stack].split(";"))
            elif events.kind[at] == PYTHON:
                line = sources.users_line([events.names[int(events.name[at])]])
            at = int(self.parent[at])
        return line

    def work_named(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Per task: device work whose name is marked in `mask` (one flag per name)."""
        found: NDArray[np.bool_] = (
            self.tasks.on_device & mask[self.events.name[self.tasks.place]] & np.isin(self.events.kind[self.tasks.place], WORK)
        )
        return found
