"""A trace timed anew with parts of it changed: what would the whole gain if this were shorter or not there?

Calls of the driver and pieces of device work are tasks. A task begins when all it waits for is done, each after a lag: the call
before it on its thread, its own launch, the work before it on its stream, work that a blocking call waits for; the first call waits
for the window's begin. Where a trace has no calls, work waits for the work before it alone. The lag of the
dependency that the task really waited for is what was seen; the others keep the least lag that the trace shows. So the
unchanged trace comes out as it was recorded, and a changed one as it would have run on the same host and device, with the same
order of submission. What no dependency explains stays as recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.traces import intervals
from hotlap.traces.calls import SLACK_NS, CallLinks, Places
from hotlap.traces.events import OPERATOR, RUNTIME, SYNC, Events
from hotlap.traces.idle import QUEUED_NS
from hotlap.traces.waiting import blocking

NONE = -1
NEVER = float("-inf")
CANDIDATES = 1_000  # pieces of work that a wait may have been for: those that end last in it
ASLEEP_NS = 20_000  # a thread that makes no call for longer may have waited for another
TURN_NS = 1_000  # between two pieces of work on a stream, where the trace shows no two that were queued
LAUNCH_NS = 10_000  # from a call to its work, where the trace shows none whose stream was empty
QUANTILE = 0.1  # of the lags seen, taken as the least one: a single smallest may be a rounding of the clock
ACROSS_NS = 10_000  # work that starts within this of the end of work on another stream, and of nothing else, waited for it


class ReplayTasks(NamedTuple):
    """Tasks in an order in which each stands behind all it waits for. Times in ns since the origin."""

    place: Places  # in the trace
    start: NDArray[np.int64]
    length: NDArray[np.int64]
    on_device: NDArray[np.bool_]
    blocks: NDArray[np.bool_]  # a call whose end waits for device work
    before: Places  # of the tasks before it on its thread or stream the one that ends last; −1 none
    lag: NDArray[np.int64]  # after `before`, of the first call after the window's begin; below 0 it begins while that lasts
    cause: Places  # device work: its call; a call that blocks: the work that it waits for; −1 none
    cause_lag: NDArray[np.int64]
    other: Places  # device work: the work on another stream, a call: the call on another thread that it waited for; −1 none
    other_lag: NDArray[np.int64]


@dataclass(frozen=True)
class ReplayChange:
    """What is different: factors on durations and on the host's time before its calls, calls that no longer wait."""

    factor: NDArray[np.float64] | None = None  # per task, on its length
    host: NDArray[np.float64] | None = None  # per task, on the lag after the call before it on its thread
    unblocked: NDArray[np.bool_] | None = None  # per task: a blocking call that no longer waits for the device
    turn: NDArray[np.float64] | None = None  # per task, on the device's time between the work before it and it


def tasks(events: Events, joined: CallLinks, window: tuple[int, int]) -> ReplayTasks:
    """The tasks of a window: calls that begin in it, the work that these launched, and what was in flight before it."""
    low, high = window
    calls = events.of_kind(RUNTIME, SYNC)
    calls = calls[(events.start[calls] >= low) & (events.start[calls] < high) & (events.thread[calls] >= 0)]
    launched = joined.call >= 0
    # Threads that launch nothing, such as the watchdogs that poll events, decide nothing.
    threads = np.unique(events.thread[joined.call[launched]])
    calls = calls[np.isin(events.thread[calls], threads)]
    within = launched & np.isin(joined.call, calls)
    flying = _in_flight(events, joined, within, low) if launched.any() else _reaching(events, window)
    work = events.work[within | flying]
    place = np.concatenate([calls, work])
    start, length = events.start[place], events.duration[place].astype(np.int64)
    on_device = np.arange(len(place)) >= len(calls)
    order = np.lexsort((on_device, start))  # nothing starts before what it waits for, in a trace whose clocks agree
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    of_place = dict(zip(calls.tolist(), inverse[: len(calls)].tolist(), strict=True))
    call_of = np.full(len(place), NONE, np.int64)
    call_of[len(calls) :] = [of_place.get(c, NONE) for c in joined.call[within | flying].tolist()]
    place, start, length, on_device, call_of = place[order], start[order], length[order], on_device[order], call_of[order]
    lane = np.where(on_device, (events.device[place].astype(np.int64) << 32) + events.stream[place] + (1 << 48), events.thread[place])
    before = _previous(lane, start + length)
    blocks = ~on_device & blocking(events, joined)[place]
    cause = np.where(on_device & (call_of < np.arange(len(call_of))), call_of, NONE)
    _waits(cause, (start, start + length), work_of=(np.flatnonzero(on_device), call_of), blocks=blocks)
    unset = ReplayTasks(place, start, length, on_device, blocks, before, start, cause, start, cause, start)
    found = _lagged(unset, events.device[place].astype(np.int64))
    _handed_over(events, found, threads)
    first = int(np.argmin(np.where(on_device, np.iinfo(np.int64).max, start))) if len(calls) else NONE
    if first >= 0 and before[first] < 0 and found.other[first] < 0:
        found.lag[first] = start[first] - low
    return found


def _reaching(events: Events, window: tuple[int, int]) -> NDArray[np.bool_]:
    """Work that runs in the window."""
    start, (low, high) = events.start[events.work], window
    return np.asarray((start < high) & (start + events.duration[events.work] > low), bool)


def _in_flight(events: Events, joined: CallLinks, within: NDArray[np.bool_], low: int) -> NDArray[np.bool_]:
    """Work that was launched before the window, or the trace, began, and stands before the first of the tasks on its stream."""
    work = events.work
    start = events.start[work]
    lane = np.unique((events.device[work].astype(np.int64) << 32) + events.stream[work], return_inverse=True)[1]
    first = np.full(int(lane.max(initial=0)) + 1, np.iinfo(np.int64).min)
    first[lane[within][::-1]] = start[within][::-1]  # work stands by start: the last written is the first
    earlier = (joined.call < 0) | (events.start[np.maximum(joined.call, 0)] < low)
    return np.asarray(~within & earlier & (start < first[lane]) & (start + events.duration[work] > low), bool)


def _previous(lane: NDArray[np.int64], end: NDArray[np.int64]) -> Places:
    """For each task, of those before it in its lane the one that ends last: calls nest, and work of a graph overlaps on its stream."""
    before = np.full(len(lane), NONE, np.int64)
    last: dict[int, int] = {}
    ends = end.tolist()
    for i, where in enumerate(lane.tolist()):
        before[i] = previous = last.get(where, NONE)
        if previous < 0 or ends[i] >= ends[previous]:
            last[where] = i
    return before


def _waits(
    cause: Places, span: tuple[NDArray[np.int64], NDArray[np.int64]], work_of: tuple[Places, Places], blocks: NDArray[np.bool_]
) -> None:
    """Sets what a blocking call waits for: the last to end within it of the work launched by it or before it."""
    (start, end), (work, call_of) = span, work_of
    by_end = work[np.argsort(end[work], kind="stable")]
    ends = end[by_end]
    for task in np.flatnonzero(blocks):
        at = int(np.searchsorted(ends, end[task] + SLACK_NS, "right")) - 1
        lowest = at - CANDIDATES
        while at >= max(lowest, 0) and ends[at] > start[task]:
            if call_of[by_end[at]] <= task and start[by_end[at]] < end[task]:
                cause[task] = by_end[at]
                break
            at -= 1
    # A copy from pageable memory is staged: its call waits for it, and returns a little before its last part has arrived.
    staged = work[(call_of[work] >= 0) & blocks[call_of[work]]]
    returns = end[call_of[staged]]
    staged = staged[(end[staged] > returns + SLACK_NS) & (2 * (returns - start[staged]) >= end[staged] - start[staged])]
    cause[call_of[staged]] = staged


def _lagged(tasks: ReplayTasks, device: NDArray[np.int64]) -> ReplayTasks:
    """Lags as seen for the dependency that was waited for, the least seen for the others."""
    start, on_device, before, cause = tasks.start, tasks.on_device, tasks.before, tasks.cause
    end = start + tasks.length
    has_before, launch = before >= 0, (cause >= 0) & on_device
    lag = np.where(has_before, start - end[np.maximum(before, 0)], 0)
    cause_lag = np.where(launch, start - start[np.maximum(cause, 0)], 0)
    waits = (cause >= 0) & tasks.blocks
    cause_lag[waits] = (end - end[np.maximum(cause, 0)])[waits]
    # Only work that found its stream empty shows how long a launch takes; the rest was queued.
    empty = launch & (~has_before | (end[np.maximum(before, 0)] <= start[np.maximum(cause, 0)]))
    least_launch = int(np.quantile(cause_lag[launch], QUANTILE)) if launch.any() else 0
    least_launch = min(least_launch, int(np.quantile(cause_lag[empty], QUANTILE)) if empty.any() else LAUNCH_NS)
    # Only work that could have begun before its stream was free shows how long a turn takes; the rest came later for other reasons,
    # and what came much later waited for something.
    queued = launch & has_before & (start[np.maximum(cause, 0)] + least_launch <= end[np.maximum(before, 0)])
    queued &= (lag >= 0) & (lag <= QUEUED_NS)
    least_turn = int(np.quantile(lag[queued], QUANTILE)) if queued.any() else TURN_NS
    own_ready = np.where(has_before, end[np.maximum(before, 0)] + least_turn, np.iinfo(np.int64).min // 2)
    launched = np.where(launch, start[np.maximum(cause, 0)] + least_launch, np.iinfo(np.int64).min // 2)
    other = _across(tasks, end, np.maximum(own_ready, launched), device)
    crossed = other >= 0
    other_lag = np.where(crossed, start - end[np.maximum(other, 0)], 0)
    by_launch = launch & ~crossed & (launched >= own_ready)
    by_turn = launch & ~crossed & ~by_launch
    # A call that waited for another thread is not late because of its own.
    lag = np.where((by_launch | crossed) & has_before, np.minimum(lag, np.where(on_device, least_turn, 0)), lag)
    cause_lag = np.where(by_turn | (crossed & launch), np.minimum(cause_lag, least_launch), cause_lag)
    return tasks._replace(lag=lag, cause_lag=cause_lag, other=other, other_lag=other_lag)


def _handed_over(events: Events, tasks: ReplayTasks, threads: NDArray[np.int32]) -> None:
    """Sets, for calls of a thread that was asleep until a call of another thread had ended, that call as what they waited for.

    So the backward pass, on a thread of its own, follows the forward pass, and the optimiser follows the backward pass. Only
    threads that launch work count; asleep is outside of any operator and call.
    """
    calls = np.flatnonzero(~tasks.on_device)
    process = np.unique([one.process for one in events.threads], return_inverse=True)[1]
    thread, end = events.thread[tasks.place], tasks.start + tasks.length
    for thread_events in threads:
        mine = calls[(thread[calls] == thread_events) & ((tasks.before[calls] < 0) | (tasks.lag[calls] > ASLEEP_NS))]
        others = calls[
            np.isin(thread[calls], threads) & (thread[calls] != thread_events) & (process[thread[calls]] == process[thread_events])
        ]
        if not len(mine) or not len(others):
            continue
        others = others[np.argsort(end[others], kind="stable")]
        at = np.searchsorted(end[others], tasks.start[mine], "right") - 1
        last = others[np.maximum(at, 0)]
        since = np.where(tasks.before[mine] >= 0, end[tasks.before[mine]], np.iinfo(np.int64).min)
        inside = _inside(events, int(thread_events))
        asleep = intervals.covered(inside, end[last] - 1, end[last] + 1) == 0
        fits = (at >= 0) & (end[last] > since) & asleep & (last < mine)
        mine, last, since = mine[fits], last[fits], since[fits]
        tasks.other[mine] = last
        tasks.other_lag[mine] = tasks.start[mine] - end[last]
        tasks.lag[mine] = np.where(tasks.before[mine] >= 0, intervals.covered(inside, since, tasks.start[mine]), 0)


def _inside(events: Events, thread: int) -> intervals.Intervals:
    """When a thread was inside operators or calls."""
    here = np.flatnonzero((events.thread == thread) & np.isin(events.kind, (OPERATOR, RUNTIME)))
    return intervals.union(events.start[here], events.start[here] + events.duration[here])


def _across(tasks: ReplayTasks, end: NDArray[np.int64], ready: NDArray[np.int64], device: NDArray[np.int64]) -> Places:
    """What work waited for that was ready and yet did not start: the end of work on another stream, or room beside it.

    Both are looked for on its own device: that devices wait for each other needs more than that their times fall together.
    """
    other = np.full(len(tasks.start), NONE, np.int64)
    every = np.flatnonzero(tasks.on_device)
    for one in np.unique(device[every]):
        work = every[device[every] == one]
        late = work[(tasks.start[work] - ready[work] > ACROSS_NS) & ((tasks.before[work] >= 0) | (tasks.cause[work] >= 0))]
        if not len(late):
            continue
        by_end = work[np.argsort(end[work], kind="stable")]
        at = np.searchsorted(end[by_end], tasks.start[late] + SLACK_NS, "right") - 1
        last = by_end[np.maximum(at, 0)]
        fits = (at >= 0) & (tasks.start[late] - end[last] <= ACROSS_NS) & (last < late)
        other[late[fits]] = last[fits]
        # Else it may have waited for room on the device: it began in the tail of work that still ran then.
        rest = late[~fits]
        started = work[np.maximum(np.searchsorted(work, rest) - 1, 0)]
        running = (started < rest) & (end[started] > tasks.start[rest])
        other[rest[running]] = started[running]
    return other


class ReplayTimes(NamedTuple):
    """Tasks timed anew, ns since the origin, and what each one's begin and end hung on."""

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    bound: Places  # task whose end or begin decided this one's begin; −1 none


def timed(tasks: ReplayTasks, change: ReplayChange | None = None) -> ReplayTimes:
    """All tasks timed anew; without a change the times are those recorded."""
    count = len(tasks.start)
    lag, own = tasks.lag.astype(np.float64), tasks.length.astype(np.float64)
    waits = tasks.blocks & (tasks.cause >= 0)
    # Of a call that waits, only what follows the end of the work is its own; the rest is the wait.
    own[waits] = np.minimum(own[waits], np.maximum(tasks.cause_lag[waits], 0))
    stretch = np.ones(count)
    if change is not None:
        if change.host is not None:
            lag = np.where(tasks.on_device | (lag < 0), lag, lag * change.host)
        if change.turn is not None:
            lag = np.where(tasks.on_device & (lag >= 0), lag * change.turn, lag)
        if change.factor is not None:
            own, stretch = own * change.factor, stretch * change.factor
        if change.unblocked is not None:  # what a wait costs beside the waiting, waking up again, goes with it
            own, stretch = np.where(waits & change.unblocked, 0.0, own), np.where(waits & change.unblocked, 0.0, stretch)
            waits = waits & ~change.unblocked
    # What begins while the one before it lasts keeps its part of that one's length, whatever the length becomes.
    within, beside = ((tasks.start - tasks.start[one]) * stretch[one] for one in (tasks.before, tasks.other))
    b, e, bound = [0.0] * count, [0.0] * count, [NONE] * count
    before, cause, other = tasks.before.tolist(), tasks.cause.tolist(), tasks.other.tolist()
    on_device, waiting, owns = tasks.on_device.tolist(), waits.tolist(), own.tolist()
    inside, tail = within.tolist(), beside.tolist()
    free = (tasks.start - tasks.lag).tolist()  # when what waits for nothing could have begun
    lags, cause_lags, other_lags = lag.tolist(), tasks.cause_lag.tolist(), tasks.other_lag.tolist()
    for i in range(count):
        previous, by, across = before[i], cause[i], other[i]
        hangs = previous
        if previous >= 0 and lags[i] < 0:
            at = b[previous] + inside[i]
        elif previous >= 0:
            if waiting[previous]:  # all it waits for has its time by now
                e[previous] = max(e[previous], e[cause[previous]] + cause_lags[previous])
            at = e[previous] + lags[i]
        else:
            at = free[i] + lags[i] if across < 0 and not (by >= 0 and on_device[i]) else NEVER
        if by >= 0 and on_device[i]:
            launched = b[by] + cause_lags[i]
            if launched > at:
                at, hangs = launched, by
        if across >= 0:
            if other_lags[i] >= 0 and waiting[across]:
                e[across] = max(e[across], e[cause[across]] + cause_lags[across])
            crossed = e[across] + other_lags[i] if other_lags[i] >= 0 else b[across] + tail[i]
            if crossed > at:
                at, hangs = crossed, across
        b[i], bound[i] = at, hangs
        e[i] = at + owns[i]
    for i in np.flatnonzero(waits).tolist():
        e[i] = max(e[i], e[cause[i]] + cause_lags[i])
    return ReplayTimes(np.array(b), np.array(e), np.array(bound, np.int64))


class ReplayPath(NamedTuple):
    """The chain of tasks that decides how long the whole takes, last first, and what each piece of it is."""

    task: Places
    kind: list[str]  # work, call, wait (a call until what it waits for ends), host, launch, turn, across
    seconds: NDArray[np.float64]


def path(tasks: ReplayTasks, times: ReplayTimes | None = None) -> ReplayPath:
    """The critical path of the recorded (or changed) times: from the last end back along what each task hung on."""
    times = times or timed(tasks)
    if not len(tasks.start):
        return ReplayPath(np.empty(0, np.int64), [], np.empty(0))
    task: list[int] = []
    kind: list[str] = []
    seconds: list[float] = []
    i, until = int(np.argmax(times.end)), float(times.end.max())

    def piece(place: int, what: str, length: float) -> None:
        task.append(place)
        kind.append(what)
        seconds.append(length / 1e9)

    waited: set[int] = set()  # each wait is followed once: in a trace whose clocks disagree it may lead back to itself
    while i >= 0:
        by = int(tasks.cause[i])
        reached = by >= 0 and until > times.begin[i] and until >= times.end[by] > times.begin[i]
        if tasks.blocks[i] and reached and i not in waited:
            piece(i, "wait", until - times.end[by])
            waited.add(i)
            i, until = by, float(times.end[by])
            continue
        piece(i, "work" if tasks.on_device[i] else "call", until - times.begin[i])
        hangs, begin = int(times.bound[i]), float(times.begin[i])
        if hangs < 0:
            break
        launched = tasks.on_device[i] and hangs == tasks.cause[i]
        until = float(times.begin[hangs] if launched else min(times.end[hangs], begin))
        piece(i, "launch" if launched else "across" if hangs == tasks.other[i] else "turn" if tasks.on_device[i] else "host", begin - until)
        i = hangs
    return ReplayPath(np.array(task, np.int64), kind, np.array(seconds))
