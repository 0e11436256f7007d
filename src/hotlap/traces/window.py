"""A part of a trace as a trace of its own: some steps of one that is too large to be looked at whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.traces.events import PART, Events
from hotlap.traces.steps import steps

MOST = 1_500_000  # events whose calls, idle time and what-if are worked out together: some 700 MB


def numbered(events: Events, first: int, last: int) -> Events:
    """The steps of these numbers, both included. Raises InputError where there are none of them."""
    found = steps(events)
    inside = (found.number >= first) & (found.number <= last)
    if not inside.any():
        have = f"{int(found.number.min())} to {int(found.number.max())}" if len(found) else "no steps"
        raise InputError(f"steps {first} to {last} are not in '{events.path}', which has {have}")
    return within(events, int(found.start[inside].min()), int(found.end[inside].max()))


def bounded(events: Events, most: int = MOST) -> tuple[Events, str]:
    """All of a trace, or where it has more events than `most` a run of its steps around the middle, and which in words.

    A trace without steps is cut to a stretch of time around its middle.
    """
    if len(events) <= most:
        return events, ""
    limits = steps(events)
    share = most / len(events)
    if len(limits) >= 2:
        count = max(1, int(len(limits) * share))
        first = (len(limits) - count) // 2
        part = within(events, int(limits.start[first]), int(limits.end[first + count - 1]))
        numbers = f"{int(limits.number[first])} to {int(limits.number[first + count - 1])}"
        how = f"{len(part):,} of {len(events):,} events; --steps FIRST:LAST names others"
        return part, f"steps {numbers} of {len(limits)} are looked at ({how})"
    low, high = _span(events)
    middle, half = (low + high) // 2, int((high - low) * share / 2)
    part = within(events, middle - half, middle + half)
    return part, f"{2 * half / 1e9:.3g} s around the middle are looked at ({len(part):,} of {len(events):,} events)"


def _span(events: Events) -> tuple[int, int]:
    parts = [events.start[i : i + PART] for i in range(0, len(events), PART)]
    return min(int(one.min()) for one in parts), max(int(one.max()) for one in parts)


def within(events: Events, low: int, high: int) -> Events:
    """The events that begin in [low, high), in memory, with the tables of the whole."""
    places: list[NDArray[np.int64]] = []
    for i in range(0, len(events), PART):
        start = events.start[i : i + PART]
        places.append(i + np.flatnonzero((start >= low) & (start < high)))
    chosen = np.concatenate(places) if places else np.empty(0, np.int64)
    columns = {name: events.at(name, chosen) for name in events.columns}
    return type(events)(events.path, events.head, columns, events.tables)
