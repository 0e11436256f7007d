"""Who called what: nesting of host events, the driver's call behind each piece of device work, and the operator behind that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces.events import MARKER, OPERATOR, PYTHON, RUNTIME, Events

Places = NDArray[np.int64]
SLACK_NS = 1_000  # clocks of host and device agree no better, and old traces count in microseconds
DEEPEST = 256  # levels that are distinguished
HOST = (OPERATOR, PYTHON, RUNTIME, MARKER)


class Nesting(NamedTuple):
    """Host events in order of thread and start, each with the one that encloses it."""

    places: Places  # of the events in their trace
    parent: Places  # place in the trace of the enclosing event; −1 none
    depth: NDArray[np.int32]  # 0 outermost

    def parent_of(self, events: Events) -> Places:
        """The enclosing event of every event of the trace; −1 where there is none or it is not of the host."""
        whole = np.full(len(events), -1, np.int64)
        whole[self.places] = self.parent
        return whole


def nesting(events: Events, *kinds: int) -> Nesting:
    """How host events of these kinds (all by default) enclose each other, thread by thread.

    An event lies in the last one that started before it on its thread and has not ended; one that outlives its encloser, as
    profilers' rounding makes some, still lies in it.
    """
    return nested(events, events.of_kind(*(kinds or HOST)))


def nested(events: Events, places: Places) -> Nesting:
    """How these events enclose each other, thread by thread, whatever else lies between them."""
    start, end = events.start[places], events.start[places] + events.duration[places]
    order = np.lexsort((-end, start, events.thread[places]))
    places, start, end = places[order], start[order], end[order]
    thread = events.thread[places].astype(np.int64)
    count = len(places)
    parent, depth = np.full(count, -1, np.int64), np.zeros(count, np.int32)
    if not count:
        return Nesting(places, parent, depth)
    # Ranks in place of times: a group's number times a span in nanoseconds would not fit 64 bits in a long trace.
    start, end = np.split(np.unique(np.concatenate([start, end]), return_inverse=True)[1].astype(np.int64), 2)
    span = int(end.max()) + 3
    left, group = np.arange(count), np.unique(thread, return_inverse=True)[1].astype(np.int64)
    level = 0
    while len(left) and level < DEEPEST:
        # Within a group, an event that starts at or after all earlier ends lies in nothing else of the group.
        lifted_end = group * span + end[left] + 1
        lifted_start = group * span + start[left] + 1
        reach = np.concatenate([[np.int64(0)], np.maximum.accumulate(lifted_end)[:-1]])
        new_group = np.concatenate([[True], group[1:] != group[:-1]])
        outer = new_group | (lifted_start >= reach)
        depth[left[outer]] = level
        inside = ~outer
        owner = np.maximum.accumulate(np.where(outer, np.arange(len(left)), 0))
        parent[left[inside]] = left[owner[inside]]
        left, group, level = left[inside], owner[inside], level + 1
        if len(group):
            group = np.concatenate([[0], np.cumsum(group[1:] != group[:-1])])
    depth[left] = level  # ranges that overlap without nesting would go on as deep as there are of them: these stay with the last found
    return Nesting(places, np.where(parent >= 0, places[np.maximum(parent, 0)], -1), depth)


class CallLinks(NamedTuple):
    """For each piece of device work, in the order of `events.work`: places in the trace, −1 where unknown."""

    call: Places  # the driver's or runtime's call that launched it
    operator: Places  # the innermost operator around that call
    root: Places  # the outermost operator around it


def links(events: Events, nested: Nesting | None = None) -> CallLinks:
    """Joins device work to its calls by correlation, and calls to operators by nesting, else by the external id."""
    nested = nested or nesting(events, OPERATOR, RUNTIME)
    work = events.work
    call = _launched(events, events.of_kind(RUNTIME))
    parent = nested.parent_of(events)
    operator = _climb(events, np.where(call >= 0, parent[np.maximum(call, 0)], -1), parent)
    lost = operator < 0
    if lost.any():
        operator[lost] = _matched(events.external[work[lost]], events.external, events.of_kind(OPERATOR))
    root = operator.copy()
    while True:
        above = np.where(root >= 0, parent[np.maximum(root, 0)], -1)
        if not (above >= 0).any():
            return CallLinks(call, operator, root)
        root = np.where(above >= 0, above, root)


def _climb(events: Events, place: Places, parent: Places) -> Places:
    """The nearest operator at or above a place."""
    place = place.copy()
    while True:
        wrong = (place >= 0) & (events.kind[np.maximum(place, 0)] != OPERATOR)
        if not wrong.any():
            return place
        place[wrong] = parent[place[wrong]]


def _launched(events: Events, among: Places) -> Places:
    """For each piece of device work the call of its correlation; of several, as processes each count from one, the last before it."""
    work, ids = events.work, events.correlation
    call = _matched(ids[work], ids, among)
    known, counts = np.unique(ids[among], return_counts=True)
    repeated = np.flatnonzero((call >= 0) & np.isin(ids[work], known[counts > 1]))
    if not len(repeated):
        return call
    among = among[np.isin(ids[among], known[counts > 1])]
    place = np.concatenate([among, work[repeated]])
    asks = np.arange(len(place)) >= len(among)
    time = np.where(asks, events.start[place] + SLACK_NS, events.start[place])
    order = np.lexsort((asks, time, ids[place]))
    last = np.maximum.accumulate(np.where(asks[order], -1, np.arange(len(order))))  # in this order the call before, of any correlation
    before = np.empty(len(place), np.int64)
    before[order] = np.where(last >= 0, place[order[np.maximum(last, 0)]], -1)
    found = before[len(among) :]
    fits = (found >= 0) & (ids[np.maximum(found, 0)] == ids[work[repeated]])
    call[repeated[fits]] = found[fits]
    return call


def _matched(wanted: NDArray[np.int64], column: NDArray[np.int64], among: Places) -> Places:
    """For each wanted id the place of the last event among these that has it; −1 where none."""
    ids = column[among]
    order = np.argsort(ids, kind="stable")
    ids, among = ids[order], among[order]
    at = np.searchsorted(ids, wanted, "right") - 1
    fits = (at >= 0) & (wanted >= 0)
    fits[fits] = ids[at[fits]] == wanted[fits]
    return np.where(fits, among[np.maximum(at, 0)] if len(among) else -1, -1)
