"""Requests under way over time: did they keep growing, and between which changes of level were they steady."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hotlap.core import units
from hotlap.core.record import Notice
from hotlap.core.show.words import counted
from hotlap.core.stats import changes
from hotlap.serving.record import Request

POINTS = 192
MIN_EFFECT = 0.5  # of a change of level: queues near capacity wander by less
LEFT, GREW = 0.1, 1.5  # share of all requests under way at the end, and how many times those halfway: a queue that grows
FEWEST = 50  # requests
WAITING = 0.2  # share of all requests that wait at the end: then a server is outrun, whatever their objectives allow


def under_way(requests: Sequence[Request], points: int = POINTS) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times from the first request that was due to the last, and how many were under way at each."""
    due = np.sort([request.due_s for request in requests])
    ended = np.sort([request.ended_s if request.ended_s is not None else np.inf for request in requests])
    times = np.linspace(due[0], due[-1], points + 1)[1:]
    return times, np.searchsorted(due, times, "right") - np.searchsorted(ended, times, "right")


def doubts(requests: Sequence[Request]) -> list[Notice]:
    """Of an open loop: that its figures depend on how long it ran, or that they hold for a part of it."""
    if len(requests) < FEWEST or requests[-1].due_s <= requests[0].due_s:
        return []
    times, counts = under_way(requests)
    left, halfway = int(counts[-1]), int(counts[len(counts) // 2])
    if left > LEFT * len(requests) and left > GREW * halfway:
        seen = f"{left} of {len(requests)} requests were under way when the last was due, {halfway} halfway: more come than are served"
        return [Notice("growing", seen, "figures grow with the time it runs: ask for a lower rate")]
    found = changes.changes(counts + 1.0, times, min_effect=MIN_EFFECT)
    if not found:
        return []
    ends = [float(times[0]), *(float(times[change.index]) for change in found), float(times[-1])]
    begin, end = max(pairwise(ends), key=lambda piece: piece[1] - piece[0])
    levels = f"requests under way changed their level {counted(len(found), 'time')}"
    seen = f"{levels}; the longest steady part of the run is {_at(begin)} to {_at(end)} after its beginning"
    return [Notice("level_changed", seen, "leave the beginning out with --warm-up, or look what the server did then")]


def outrun(due_s: Sequence[float], begun_s: Sequence[float | None]) -> bool:
    """Whether more came than was served: of all requests, in the order in which they were due, a fifth and more had no first token (or no
    answer) when the last was due, and it was not so halfway. None: it never had."""
    due = np.asarray(due_s)
    begun = np.sort([np.inf if time_s is None else time_s for time_s in begun_s])
    if len(due) < FEWEST:
        return False
    halfway, left = (int(np.searchsorted(due, at, "right") - np.searchsorted(begun, at, "right")) for at in (due[len(due) // 2], due[-1]))
    return left > WAITING * len(due) and left > GREW * halfway


def _at(time_s: float) -> str:
    return units.show(time_s, "s")
