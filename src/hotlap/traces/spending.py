"""Every nanosecond of a trace's window given to one thing: a piece of work, or a cause of idleness. What traces are compared by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import breakdown, calls, idle, intervals
from hotlap.traces.calls import Places
from hotlap.traces.events import KERNEL, OPERATOR, Events
from hotlap.traces.idle import CAUSES
from hotlap.traces.intervals import NONE
from hotlap.traces.study import Study

COMPUTE, COMMUNICATION, COPIES, OPERATORS = range(4)
CLASSES = ("compute", "communication", "copy", "operator")
HOST_CAUSES = ("data_loader", "outside")  # of a trace without device work: what its main thread does outside of operators

Numbers = NDArray[np.int64]


class SpendingGroup(NamedTuple):
    """Work of one name in one place of the program."""

    kind: int  # place in CLASSES
    name: str
    path: tuple[str, ...]  # operators around it, the outermost first


class TimeSpent(NamedTuple):
    """A window, divided. `own` and the idle of `idle_ns` add up to `whole_ns`."""

    window: str  # how it is defined
    whole_ns: int  # of all devices together
    lanes: int  # devices; 1 for the main thread of the host
    steps: int  # in the window; 0 unknown
    groups: list[SpendingGroup]
    group: Numbers  # per piece of work its place in groups
    own: Numbers  # ns in which it was what ran; of several at once one is chosen: compute before communication before copies
    length: Numbers  # ns from its start to its end
    step: Numbers  # place of its step; −1 none
    causes: tuple[str, ...]
    idle_ns: Numbers  # gaps × causes
    before: Numbers  # per gap the group of the work that ends it; −1 none
    idle_step: Numbers  # per gap its step


def spent(study: Study) -> TimeSpent:
    """Of the devices where something ran on one, else of the main thread of the host."""
    return _devices(study) if study.devices else _host(study)


def exclusive(start: Numbers, end: Numbers, kind: Numbers) -> Numbers:
    """ns of each interval, sorted by start, in which it counts: those of a lower kind go first, within a kind the one that began first.

    They add up to the length of the union of all.
    """
    own, taken = np.zeros(len(start), np.int64), NONE
    for one in np.unique(kind):
        here = np.flatnonzero(kind == one)
        s, e = start[here], end[here]
        reach = np.concatenate([s[:1], np.maximum.accumulate(e)[:-1]])
        s = np.minimum(np.maximum(s, reach), np.maximum(e, s))
        e = np.maximum(e, s)
        own[here] = e - s - intervals.covered(taken, s, e)
        taken = intervals.union(np.concatenate([taken.start, start[here]]), np.concatenate([taken.end, end[here]]))
    return own


def _devices(study: Study) -> TimeSpent:
    events, joined = study.events, study.links
    work = events.work
    talks = breakdown.communicating(events)[events.name[work]]
    kind = np.where(events.kind[work] != KERNEL, COPIES, np.where(talks, COMMUNICATION, COMPUTE))
    step = study.step_of_work
    path, paths = _paths(events)
    around = np.where(joined.operator >= 0, path[np.maximum(joined.operator, 0)], 0)
    groups, group = _groups(events, kind, events.name[work], around, paths)
    kept: list[tuple[Numbers, ...]] = []
    idles: list[tuple[Numbers, ...]] = []
    whole = 0
    for device in study.devices:
        mine = np.flatnonzero(events.device[work] == device)
        inside = mine[step[mine] >= 0]
        chosen = inside if len(inside) else mine
        low = int(events.start[work[chosen]].min())
        high = int((events.start[work[chosen]] + events.duration[work[chosen]]).max())
        start = np.clip(events.start[work[mine]], low, high)
        end = np.clip(events.start[work[mine]] + events.duration[work[mine]], low, high)
        own = exclusive(start, end, kind[mine])
        seen = (end > start) | (events.start[work[mine]] == start) & (events.duration[work[mine]] == 0)
        kept.append((group[mine][seen], own[seen], (end - start)[seen], step[mine][seen]))
        found = idle.idle(events, device, joined, (low, high))
        place = np.full(len(events), -1, np.int64)
        place[work] = np.arange(len(work))
        after = place[found.after] if len(found.after) else np.empty(0, np.int64)
        by = found.by.copy()
        by[:, list(CAUSES).index("unknown")] += (found.gaps.end - found.gaps.start) - by.sum(axis=1)
        idles.append((by, group[after], step[after]))
        whole += high - low
    of_group, own, length, of_step = (np.concatenate(one) for one in zip(*kept, strict=True))
    by, before, idle_step = (np.concatenate(one) for one in zip(*idles, strict=True))
    steps = len(np.unique(of_step[of_step >= 0]))
    window = f"first to last work on the device of {steps} steps" if steps else "first to last work on the device"
    used, place_of = np.unique(np.concatenate([of_group, before]), return_inverse=True)  # without what ran outside of the window
    of_group, before = place_of[: len(of_group)], place_of[len(of_group) :]
    groups, lanes = [groups[i] for i in used.tolist()], len(study.devices)
    return TimeSpent(window, whole, lanes, steps, groups, of_group, own, length, of_step, tuple(CAUSES), by, before, idle_step)


def _host(study: Study) -> TimeSpent:
    """Operators of the main thread by the time that is their own, without that of operators inside them."""
    events = study.events
    nest = calls.nesting(events, OPERATOR)
    places = nest.places[events.thread[nest.places] == study.main_thread]
    steps = study.steps
    if len(steps):
        low, high = int(steps.start[0]), int(steps.end.max())
    elif len(places):
        low, high = int(events.start[places].min()), int(events.end[places].max())
    else:
        low = high = 0
    end, own = _self_times(events, nest, low, high)
    places = places[(end[places] > low) & (events.start[places] < high)]
    path, paths = _paths(events)
    parent = nest.parent_of(events)[places]
    around = np.where(parent >= 0, path[np.maximum(parent, 0)], 0)
    groups, group = _groups(events, np.full(len(places), OPERATORS), events.name[places], around, paths)
    start = np.clip(events.start[places], low, high)
    step = np.searchsorted(steps.start, events.start[places], "right") - 1 if len(steps) else np.full(len(places), -1)
    roots = intervals.union(start[parent < 0], end[places][parent < 0])
    bounds = np.append(steps.start, high) if len(steps) else np.array([low, high], np.int64)
    loads = intervals.difference(intervals.clipped(study.loading, low, high), roots)
    load = intervals.covered(loads, bounds[:-1], bounds[1:])
    rest = bounds[1:] - bounds[:-1] - load - intervals.covered(roots, bounds[:-1], bounds[1:])
    window = f"first to last of {len(steps)} steps on the main thread" if len(steps) else "first to last operator of the main thread"
    idle_step = np.arange(len(load), dtype=np.int64) if len(steps) else np.full(len(load), -1, np.int64)
    return TimeSpent(
        window, high - low, 1, len(steps), groups, group, own[places], end[places] - start, step.astype(np.int64), HOST_CAUSES,
        np.stack([load, rest], axis=1), np.full(len(load), -1, np.int64), idle_step,
    )  # fmt: skip


def _self_times(events: Events, nest: calls.Nesting, low: int, high: int) -> tuple[Numbers, Numbers]:
    """End of each operator within its parent and the window, and ns that are its own. By place in the trace."""
    end = np.clip(events.start + events.duration, low, high)
    start = np.clip(events.start, low, high)
    own = np.zeros(len(events), np.int64)
    order = np.argsort(nest.depth, kind="stable")
    depths = nest.depth[order]
    for level in range(int(depths[-1]) + 1 if len(depths) else 0):
        at = order[np.searchsorted(depths, level) : np.searchsorted(depths, level, "right")]
        place, parent = nest.places[at], nest.parent[at]
        if level:
            end[place] = np.maximum(np.minimum(end[place], end[parent]), start[place])
            np.subtract.at(own, parent, end[place] - start[place])
        own[place] += end[place] - start[place]
    return end, own


def _paths(events: Events) -> tuple[Numbers, list[tuple[str, ...]]]:
    """For each operator by place in the trace the path that ends in it: a place in the list of paths, whose first is empty."""
    nest = calls.nesting(events, OPERATOR)
    path = np.zeros(len(events), np.int64)
    paths: list[tuple[str, ...]] = [()]
    order = np.argsort(nest.depth, kind="stable")
    depths = nest.depth[order]
    count = len(events.names)
    for level in range(int(depths[-1]) + 1 if len(depths) else 0):
        at = order[np.searchsorted(depths, level) : np.searchsorted(depths, level, "right")]
        place, parent = nest.places[at], nest.parent[at]
        above = np.where(parent >= 0, path[np.maximum(parent, 0)], 0)
        keys, inverse = np.unique(above * count + events.name[place], return_inverse=True)
        path[place] = len(paths) + inverse
        paths += [(*paths[key // count], events.names[key % count]) for key in keys.tolist()]
    return path, paths


def _groups(
    events: Events, kind: Numbers, name: Numbers, path: Places, paths: list[tuple[str, ...]]
) -> tuple[list[SpendingGroup], Numbers]:
    count = len(events.names)
    keys, inverse = np.unique((kind.astype(np.int64) * len(paths) + path) * count + name, return_inverse=True)
    found = [(*divmod(key // count, len(paths)), key % count) for key in keys.tolist()]
    return [SpendingGroup(k, events.names[n], paths[p]) for k, p, n in found], inverse.astype(np.int64)
