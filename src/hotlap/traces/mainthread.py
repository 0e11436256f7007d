"""What the main thread of the host did: operators and calls, its data loader, and the rest by marker or function of the user."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import calls, idle, intervals, sources, steps
from hotlap.traces.events import MARKER, OPERATOR, OVERHEAD, PYTHON, RUNTIME, SYNC
from hotlap.traces.intervals import Intervals
from hotlap.traces.study import Study

PARTS = {
    "operators": "in operators and calls of the driver",
    "data_loader": "waiting for the data loader",
    "outside": "outside of operators: the program's own code, the framework's Python, what the profiler costs",
}
XLA = "tf_XLA"  # how the threads begin that run its work on a processor
NAMED = 6
STRETCH_NS = 200_000  # shorter ones are the price of calling operators, which is another matter


class ThreadTime(NamedTuple):
    """A window of the main thread; the three sets are apart from each other and fill it."""

    operators: Intervals  # operators and calls of the driver, and what the profiler itself took
    loader: Intervals
    outside: Intervals


def spent(study: Study) -> ThreadTime:
    """The window divided. While the backward pass, or what XLA runs on a processor, is on threads of its own the main thread waits for it:
    that counts as operators."""
    events, (low, high) = study.events, study.window
    backward = np.array([name.startswith("autograd::engine::") for name in events.names] or [False], bool)
    places = events.of_kind(OPERATOR, RUNTIME, SYNC, OVERHEAD)
    xla = np.array([one.name.startswith(XLA) for one in events.threads] or [False], bool) & (not study.devices)
    here = (events.thread[places] == study.main_thread) | backward[events.name[places]]
    here |= xla[np.maximum(events.thread[places], 0)] & (events.thread[places] >= 0)
    places = places[here & ~_apart(study)[events.name[places]]]
    loader = intervals.clipped(study.loading, low, high)
    whole = Intervals(np.array([low], np.int64), np.array([max(high, low)], np.int64))
    inside = intervals.clipped(intervals.union(events.start[places], events.start[places] + events.duration[places]), low, high)
    inside = intervals.difference(inside, loader)
    return ThreadTime(inside, loader, intervals.difference(intervals.difference(whole, inside), loader))


def _apart(study: Study) -> NDArray[np.bool_]:
    """Names that are no work of the thread's own: steps, and waits for data."""
    names = study.events.names
    step = [steps.NAMED.match(name) is not None or steps.PROFILER.match(name) is not None for name in names]
    apart: NDArray[np.bool_] = np.array(step or [False], bool) | (idle.loading(study.events) if names else np.zeros(1, bool))
    return apart


def blocked(study: Study) -> bool:
    """Whether the main thread tells where the time went: no device worked, or its first to last work is less than half of the window."""
    if study.main_thread < 0 or study.window_s <= 0:
        return False
    return not study.devices or study.breakdown().window_s < 0.5 * study.window_s


def shares(study: Study) -> dict[str, float]:
    """Of the window: `operators`, `data_loader`, `outside`; empty where no operator or call of the thread was recorded."""
    found = spent(study)
    if not found.operators.length:
        return {}
    whole = study.window_s * 1e9
    return {name: one.length / whole for name, one in zip(PARTS, found, strict=True)}


def outside_by_name(study: Study) -> dict[str, float]:
    """Shares of the window that the thread is outside of operators, by marker or function of the user; the greatest first."""
    whole = study.window_s * 1e9
    return {name: ns / whole for name, ns in by_name(study, spent(study).outside).most_common(NAMED)} if whole else {}


def stretches(study: Study) -> Intervals:
    """Where the main thread is outside operators for long."""
    outside = spent(study).outside
    long = outside.end - outside.start >= STRETCH_NS
    return Intervals(outside.start[long], outside.end[long])


def by_name(study: Study, within: Intervals) -> Counter[str]:
    """Nanoseconds of a set by the innermost marker or function of the user around it; what none encloses is left out."""
    events = study.events
    places = events.of_kind(MARKER, PYTHON)
    python = np.array([bool(sources.users_line([name])) for name in events.names] or [False], bool)
    apart = _apart(study)
    fits = np.where(events.kind[places] == PYTHON, python[events.name[places]], ~apart[events.name[places]])
    places = places[fits & (events.thread[places] == study.main_thread)]
    counts = Counter[str]()
    if not len(places):
        return counts
    own = np.zeros(len(events), np.int64)
    own[places] = intervals.covered(within, events.start[places], events.start[places] + events.duration[places])
    nest = calls.nested(events, places)
    inner = nest.parent >= 0
    np.subtract.at(own, nest.parent[inner], own[nest.places[inner]].copy())
    names, inverse = np.unique(events.name[places], return_inverse=True)
    for name, total in zip(names, np.bincount(inverse, weights=own[places]), strict=True):
        if total > 0:
            counts[events.names[int(name)]] = int(total)
    return counts
