"""Requests under way over time: did they keep growing, which part of the run was steady, and was its start slow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core import units
from hotlap.core.record import Notice, Record
from hotlap.core.show.words import counted
from hotlap.core.stats import changes, student
from hotlap.serving import quantiles
from hotlap.serving.arrivals import ArrivalProcess
from hotlap.serving.record import Request

POINTS = 192
BLOCKS, TIMES = 10, 5  # of answers a second: stretches of time; requests, as many times as were served at once
MIN_EFFECT = 0.5  # of a change of level: queues near capacity wander by less
LEFT, GREW = 0.1, 1.5  # share of all requests under way at the end, and how many times those halfway: a queue that grows …
LONGER = 1.25  # … where requests of the second half took so many times as long too: else many came together at the end
FEWEST = 50  # requests
FEWEST_TURNS = 4  # of a closed loop, each place taken so often: else its first and last turn are half of it
SLOW = 1.5  # times as long, of a start that is named
WAITING = 0.2  # share of all requests that wait at the end: then a server is outrun, whatever their objectives allow


class SteadyWindow(Record, frozen=True, kw_only=True):
    """The part for which a run's figures hold: requests that were due from `begin_s` to before `end_s`; None: to the last. `rule`: what was
    left out, a `start` with another level, or the first and last `turns` of a closed loop."""

    begin_s: float
    end_s: float | None
    rule: Literal["start", "turns"]
    requests: int


class ColdStart(NamedTuple):
    """The first requests took `ratio` times as long as those that were due from `until_s` on."""

    requests: int
    until_s: float
    ratio: float


def under_way(requests: Sequence[Request], points: int = POINTS) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times from the first request that was due to the last, and how many were under way at each."""
    due = np.sort([request.due_s for request in requests])
    ended = np.sort([request.ended_s if request.ended_s is not None else np.inf for request in requests])
    times = np.linspace(due[0], due[-1], points + 1)[1:]
    return times, np.searchsorted(due, times, "right") - np.searchsorted(ended, times, "right")


def window(
    requests: Sequence[Request], process: ArrivalProcess, has_end: bool, slow: ColdStart | None = None
) -> SteadyWindow | None:
    """The part for which the figures of a run hold; None: the whole of it does, or no part can be named. `requests` in the order in which
    they were due; `has_end`: a number of requests ended the run, so that the last of a closed loop ran in ever emptier company.

    An open loop: what was due after the last change of level of requests under way, where every change lies in the first half, and after
    a slow start. A change later on is the server's own, and leaves nothing out. A closed loop begins with all its places at once, so its
    first turn is left out and, with `has_end`, its last. A ramp and a trace are a course, not a level.
    """
    if len(requests) < FEWEST or process.kind in ("ramp", "trace"):
        return None
    middle = (requests[0].due_s + requests[-1].due_s) / 2
    if process.kind == "closed":
        return _turns(requests, process.concurrency, has_end, slow.until_s if slow and slow.until_s <= middle else 0.0)
    levels = [*_levels(requests), *([slow.until_s] if slow else [])]
    if grows(requests) or not levels or max(levels) > middle:
        return None
    return _window(requests, max(levels), None, "start")


def _turns(requests: Sequence[Request], places: int, has_end: bool, slow_s: float) -> SteadyWindow | None:
    if len(requests) < FEWEST_TURNS * places:
        return None
    return _window(requests, max(requests[places].due_s, slow_s), requests[-places].due_s if has_end else None, "turns")


def _window(requests: Sequence[Request], begin_s: float, end_s: float | None, rule: Literal["start", "turns"]) -> SteadyWindow | None:
    """By when requests were due alone: whoever took long stays in."""
    seen = SteadyWindow(begin_s=begin_s, end_s=end_s, rule=rule, requests=0)
    inside = len(within(requests, seen))
    return replace(seen, requests=inside) if inside else None


def within(requests: Sequence[Request], window: SteadyWindow) -> list[Request]:
    """Those that were due in it."""
    return [request for request in requests if window.begin_s <= request.due_s and (window.end_s is None or request.due_s < window.end_s)]


def _levels(requests: Sequence[Request]) -> list[float]:
    """When requests under way changed their level."""
    times, counts = under_way(requests)
    return [float(times[change.index]) for change in changes.changes(counts + 1.0, times, min_effect=MIN_EFFECT)]


def grows(requests: Sequence[Request]) -> bool:
    """Whether more came than was served, to the end: ever more were under way, and they took ever longer."""
    _, counts = under_way(requests)
    left, halfway = int(counts[-1]), int(counts[len(counts) // 2])
    return left > LEFT * len(requests) and left > GREW * halfway and _longer(requests) >= LONGER


def _longer(requests: Sequence[Request]) -> float:
    """Median time of the second half of requests ÷ that of the first; infinite where the end cut the median one."""
    half = len(requests) // 2
    first, second = _median_s(requests[:half]), _median_s(requests[half:])
    return math.inf if second is None else second / first if first else 1.0


def _median_s(requests: Sequence[Request]) -> float | None:
    """From when each was due to its end, however it ended; None where it is not known how long the median one would have taken."""
    took = [(request.ended_s or request.due_s) - request.due_s for request in requests]
    return quantiles.quantile(took, 0.5, [request.ended_s is None or request.outcome == "censored" for request in requests]).value


def doubts(requests: Sequence[Request]) -> list[Notice]:
    """Of an open loop: that its figures depend on how long it ran, or that no level holds for them."""
    if len(requests) < FEWEST or requests[-1].due_s <= requests[0].due_s:
        return []
    if grows(requests):
        _, counts = under_way(requests)
        half, ratio = counts[len(counts) // 2], _longer(requests)
        seen = f"{counts[-1]} of {len(requests)} requests were under way when the last was due, and {half} at half that time"
        took = f"those of the second half took {ratio:.1f} times as long" if ratio < math.inf else "most of the second half did not end"
        return [Notice("growing", f"{seen}; {took}: more come than are served", "figures grow with the time it runs: ask for a lower rate")]
    levels = _levels(requests)
    if not levels or levels[-1] <= (requests[0].due_s + requests[-1].due_s) / 2:
        return []
    begin, end = max(pairwise([requests[0].due_s, *levels, requests[-1].due_s]), key=lambda piece: piece[1] - piece[0])
    seen = f"requests under way changed their level {counted(len(levels), 'time')}"
    longest = f"the longest part of one level is {_at(begin)} to {_at(end)} after the beginning"
    return [Notice("level_changed", f"{seen}, not at the start alone; {longest}", "look what the server did then")]


def slow_start(requests: Sequence[Request], value: Callable[[Request], float | None]) -> ColdStart | None:
    """That the first requests took longer than those after them, as of a server that was cold: until a change of what they took, or of how
    many were under way. `value`: of each, without its queue. Those that ended after the last was due ran in emptier company, and tell
    nothing."""
    last_s = max((request.due_s for request in requests), default=0.0)
    seen = [(request.due_s, took) for request in requests if request.ended_s and request.ended_s <= last_s and (took := value(request))]
    if len(seen) < FEWEST:
        return None
    block = -(-len(seen) // POINTS)
    times, values = np.array([due_s for due_s, _ in seen]), np.array([took for _, took in seen])
    medians = np.array([np.median(values[part : part + block]) for part in range(0, len(seen), block)])
    places = [change.index * block for change in changes.changes(medians, times[::block], min_effect=SLOW - 1)]
    places += np.searchsorted(times, _levels(requests)).tolist()
    starts = [
        ColdStart(place, float(times[place]), float(np.median(values[:place]) / np.median(values[place:])))
        for place in places if 0 < place < len(values)
    ]  # fmt: skip
    start = max(starts, key=lambda one: one.ratio, default=None)
    return start if start and start.ratio >= SLOW else None


def cold(start: ColdStart) -> Notice:
    """A slow start in words."""
    seen = f"the first {start.requests} requests, until {_at(start.until_s)}, took {start.ratio:.1f} times as long as those after them"
    return Notice("slow_start", seen, "the server was cold: leave them out with --warm-up, or look at the steady part alone")


def outrun(due_s: Sequence[float], begun_s: Sequence[float | None]) -> bool:
    """Whether more came than was served: of all requests, in the order in which they were due, a fifth and more had no first token (or no
    answer) when the last was due, and it was not so halfway. None: it never had."""
    due = np.asarray(due_s)
    begun = np.sort([np.inf if time_s is None else time_s for time_s in begun_s])
    if len(due) < FEWEST:
        return False
    halfway, left = (int(np.searchsorted(due, at, "right") - np.searchsorted(begun, at, "right")) for at in (due[len(due) // 2], due[-1]))
    return left > WAITING * len(due) and left > GREW * halfway


def answered(
    due_s: Sequence[float], begun_s: Sequence[float | None], ended_s: Sequence[float | None], saturated: bool
) -> tuple[float, float, float] | None:
    """Answers a second, with the 95 % interval of ten stretches of equal time. Times are in the order of `due_s`; None: it never had one.
    Of a run in which more came than was served: between the tenth and the ninetieth of a hundred answers, while its queue lasts. Else: from
    when an answer usually takes to the last that was due. None of a run that is too short to say it."""
    both = zip(due_s, begun_s, ended_s, strict=True)
    every = [(due, begun, ended) for due, begun, ended in both if begun is not None and ended is not None]
    if len(every) < FEWEST:
        return None
    due, begun, ended = (np.sort(each) for each in np.array(every).T)
    if saturated:
        at_once = int((np.arange(1, len(begun) + 1) - np.searchsorted(ended, begun, "left")).max())
        first_s, last_s = float(np.quantile(ended, 0.1)), float(np.quantile(ended, 0.9))
        if len(every) < TIMES * at_once:  # its places were not all taken for long
            return None
    else:
        usual_s = float(np.median([one[2] - one[0] for one in every]))
        first_s, last_s = float(due[0]) + usual_s, float(due_s[-1])
        if first_s > (float(due[0]) + last_s) / 2:
            return None
    if last_s <= first_s:
        return None
    counts = np.histogram(ended, BLOCKS, (first_s, last_s))[0] * (BLOCKS / (last_s - first_s))
    half = student.quantile(0.975, BLOCKS - 1) * float(counts.std(ddof=1)) / BLOCKS**0.5
    return float(counts.mean()), max(float(counts.mean()) - half, 0.0), float(counts.mean()) + half


def _at(time_s: float) -> str:
    return units.show(time_s, "s")
