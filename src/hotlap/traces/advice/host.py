"""Rules about the host: data, waiting, submitting, compilation, allocation, slow steps."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import units
from hotlap.traces import intervals, mainthread
from hotlap.traces.advice import marks
from hotlap.traces.advice.base import Tip, percent, rules
from hotlap.traces.events import COPY, MARKER, OPERATOR, OVERHEAD, PYTHON, RUNTIME
from hotlap.traces.replay import ReplayChange
from hotlap.traces.steps import of_times
from hotlap.traces.study import Study

COMPILES = re.compile(
    r"compile_fx|convert_frame\.py\(\d+\): _compile|dynamo_timed|CompileTimeInstructionCounter|triton.*compile|compile_inner|"
    r"inductor.*(?:codegen|compile)|async_compile|^(?:nv|hip)rtcCompileProgram|^(?:cu|hip)LinkComplete|"
    r"backend_compile|compile_or_get_cached|xla\w*compile|PjRt\w*(?:::|\.)Compile",
    re.IGNORECASE,
)
CACHE_MISS = re.compile(r"pjit\.py:\d+ cache_miss")
ALLOCATES = re.compile(r"^(?:cuda|hip)(?:Malloc|Free|MallocAsync|HostAlloc|FreeHost|HostFree|MallocHost)$|^cuMem(?:Alloc|Free|Create|Map)")
TO_HOST, FEW_BYTES = re.compile(r"D(?:evice)?ToH|DtoH|Device -> (?:Pageable|Pinned|Host)", re.IGNORECASE), 64
APART = 0.1  # by which the median step's share differs from the window's before it is said
ALONE = 4  # names of waiting calls, each taken out alone
WITHOUT_OPERATORS = (
    "Copy with cudaMemcpyAsync (hipMemcpyAsync) from pinned memory on a stream of its own, order streams by events (cudaStreamWaitEvent) "
    "and not by waits of the host, synchronise once where the host needs the result; hand device buffers to a library that takes them "
    "(CUDA-aware MPI, NCCL)."
)
SAME = (
    ", by the same operators as the others, called as often: other programs, a lower clock or larger inputs are likelier than the program"
)
IDLE = (
    "Record again on an idle machine (top shows who runs): what is the program's own stays. Where steps get inputs of "
    "different sizes, that is why."
)
WORKERS_REMEDY = (
    "There are workers, and they do not keep up: give them more cores, raise num_workers up to those that are free (then "
    "persistent_workers=True, prefetch_factor=4), decode and augment less on the host or on the device, keep the data on local storage."
)


def _least(rule: str) -> float:
    return rules()[rule].least


def lags(study: Study, within: intervals.Intervals) -> NDArray[np.int64]:
    """Per task: nanoseconds of the host's time before it, since the call before it on its thread, that lie in these intervals."""
    found = study.tasks
    before = np.maximum(found.before, 0)
    since = np.where(found.before >= 0, found.start[before] + found.length[before], found.start - found.lag)
    spent = intervals.covered(within, since, np.maximum(since, found.start))
    return np.where(found.on_device, 0, spent)


def _of_usual_step(study: Study) -> float | None:
    """The median over steps of the share in which data was waited for: a few steps that others disturbed move the window's, not this."""
    ends = zip(study.steps.start.tolist(), study.steps.end.tolist(), strict=True)
    shares = [intervals.clipped(study.loading, begin, end).length / (end - begin) for begin, end in ends if end > begin]
    return float(np.median(shares)) if shares else None


def data_loader(study: Study) -> list[Tip]:
    """Time in which the main thread waited for data."""
    low, high = study.window
    waited_s = intervals.clipped(study.loading, low, high).length / 1e9
    if not waited_s:
        return []
    names = " ".join(name for name in study.events.names if "DataLoader" in name)
    workers = "0" if "_SingleProcess" in names else "some" if "_MultiProcess" in names else ""
    evidence: dict[str, Any] = {"waited_s": waited_s, "waits": len(study.loading.start), "share": waited_s / study.window_s}
    each = f", a mean of {units.show(waited_s / len(study.steps), 's')} a step" if len(study.steps) else ""
    if len(study.steps):
        evidence["per_step_s"] = waited_s / len(study.steps)
    if workers:
        evidence["workers"] = workers
    there = marks.of_times(study.loading, thread=study.main_thread)
    where = "DataLoader.__next__" + (" in the process itself: num_workers=0" if workers == "0" else "")
    users = mainthread.by_name(study, intervals.clipped(study.loading, low, high))
    slowest = [f"{name[:80]} {percent(spent / 1e9 / waited_s)}" for name, spent in users.most_common(4) if _inside(name, spent, waited_s)]
    if slowest:
        where += f"; within it {', '.join(slowest)}"
    remedy = WORKERS_REMEDY if workers == "some" else ""
    if not study.devices:
        share = waited_s / study.window_s
        usual = _of_usual_step(study)
        apart = f"; {percent(usual)} of the median step" if usual is not None and abs(usual - share) >= APART else ""
        detail = f"the main thread waited {percent(share)} of the window for its data loader{each}{apart}"
        found = Tip("data-loader", detail, evidence, share, share / 2, "high", where, remedy, marks=there)
        return [found] if share >= _least("data-loader") else []
    idle = study.idle_shares["data_loader"]
    if idle < _least("data-loader"):
        return []
    lag = np.maximum(study.tasks.lag, 1)
    part = np.clip(lags(study, study.loading) / lag, 0, 1)
    detail = (
        f"the main thread waited {units.show(waited_s, 's')} for its data loader{each}; the device idled meanwhile for {percent(idle)} of "
        f"its own window"
    )
    return [
        Tip(
            "data-loader",
            detail,
            evidence | {"idle_share": idle},
            ReplayChange(host=1 - part),
            ReplayChange(host=1 - part / 2),
            "high",
            where,
            remedy,
            cap=study.idle_for(("data_loader",)),
            marks=there,
        )
    ]


def _inside(name: str, spent: int, waited_s: float) -> bool:
    """Whether a function is worth naming as part of a wait; the whole program is around it, not in it."""
    return spent > 0.05e9 * waited_s and not name.endswith("<module>")


def synchronise(study: Study) -> list[Tip]:
    """Calls in which the host waits for the device."""
    tasks = study.tasks
    calls = np.flatnonzero(tasks.blocks)
    if not len(calls) or not study.devices:
        return []
    # The last wait of the window is the end of the program or of the profiler: nothing comes after it.
    inside = calls[tasks.start[calls] + tasks.length[calls] < tasks.start[~tasks.on_device].max(initial=0)]
    inside = inside[~_flags(study, ALLOCATES)[study.events.name[tasks.place[inside]]]]  # which allocation names
    if not len(inside):
        return []
    flags = np.zeros(len(tasks.start), bool)
    flags[inside] = True
    # A call that a profiler records by two names, the one within the other, is one wait.
    enclosing = study.parent[tasks.place[inside]]
    twice = np.isin(enclosing, tasks.place[inside]) & (enclosing >= 0)
    inside = inside[~twice]
    if study.gain(ReplayChange(unblocked=flags)) < _least("synchronise"):
        return []
    everything, read_s = _without(study, inside, flags)
    worst, place, by = _to_take_out(study, inside)
    half = flags & (tasks.length >= np.quantile(tasks.length[inside], 0.5))
    waited_s = float(tasks.length[inside].sum()) / 1e9
    per = f"{len(inside) / max(len(study.steps), 1):.0f} waits a step" if len(study.steps) else f"{len(inside)} waits"
    evidence = {
        "waits": len(inside),
        "waited_s": waited_s,
        "idle_share": study.idle_shares["synchronise"],
        "by_operator_s": {name: value / 1e9 for name, value in by.most_common(5)},
    }
    where = f"{worst}, {study.source(place)}".rstrip(", ")
    # A host that has waited has no lead left, so what it does next is late for that reason too, but by no more than it waited.
    own = study.idle_within(mainthread.stretches(study))
    after = min(study.idle_for(("synchronise", "operators", "host", "launch")) - own, waited_s / study.window_s)
    cap = max(study.idle_for(("synchronise",)), after) + read_s / study.window_s
    least = _least_of_waits(study, half, flags, cap)
    detail = f"{per}, {percent(waited_s / study.window_s)} of the window on the host; most in {worst}"
    there = marks.of_events(study, tasks.place[inside])
    remedy = "" if len(study.events.of_kind(OPERATOR)) else WITHOUT_OPERATORS
    return [Tip("synchronise", detail, evidence, everything, least, "medium", where, remedy, cap=cap, marks=there)]


def _without(study: Study, waits: NDArray[np.int64], flags: NDArray[np.bool_]) -> tuple[ReplayChange, float]:
    """The program that does not wait, nor fetch the few bytes that an operator such as item() waits for; and the seconds that the device
    took to fetch them."""
    tasks, events = study.tasks, study.events
    around = study.parent[tasks.place]
    fetches = tasks.on_device & (events.kind[tasks.place] == COPY) & (events.bytes[tasks.place] <= FEW_BYTES) & (tasks.cause >= 0)
    fetches &= _flags(study, TO_HOST)[events.name[tasks.place]]
    operators = around[waits][(around[waits] >= 0) & (events.kind[np.maximum(around[waits], 0)] == OPERATOR)]
    fetches[fetches] = np.isin(around[tasks.cause[fetches]], operators)
    gone = fetches.copy()
    gone[tasks.cause[fetches]] = True
    gone |= flags & np.isin(around, around[tasks.cause[fetches]])
    left = np.where(gone, 0.0, 1.0)
    return ReplayChange(unblocked=flags, factor=left, host=left, turn=left), float(tasks.length[fetches].sum()) / 1e9


def _flags(study: Study, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(name) is not None for name in study.events.names], bool)


def _least_of_waits(study: Study, half: NDArray[np.bool_], flags: NDArray[np.bool_], cap: float) -> ReplayChange | float:
    """Half of the waits, or half of what all gain; and without the program's own code after a wait, which may need the value."""
    alone = ReplayChange(unblocked=flags)
    own = study.idle_within(mainthread.stretches(study))
    best = min(study.gain(ReplayChange(unblocked=half)) if half.sum() < flags.sum() else study.gain(alone) / 2, cap)
    return max(min(best, cap - own), 0.0) if own else ReplayChange(unblocked=half) if half.sum() < flags.sum() else best


def _to_take_out(study: Study, waits: NDArray[np.int64]) -> tuple[str, int, Counter[str]]:
    """Of the calls that wait those that gain most without the others, by the operator around them, else by their own name; the longest
    of them, and how long each name waits. Where none gains alone, those that wait longest."""
    names = [_waiting_in(study, int(study.tasks.place[task])) for task in waits]
    by = Counter[str]()
    for name, length in zip(names, study.tasks.length[waits].tolist(), strict=True):
        by[name] += length
    gains = {}
    for name, _ in by.most_common(ALONE) if len(by) > 1 else []:
        flags = np.zeros(len(study.tasks.start), bool)
        flags[waits[[one == name for one in names]]] = True
        gains[name] = study.gain(ReplayChange(unblocked=flags))
    worst = max(gains, key=lambda name: gains[name]) if any(gains.values()) else by.most_common(1)[0][0]
    mine = waits[[one == worst for one in names]]
    return worst, int(study.tasks.place[mine[np.argmax(study.tasks.length[mine])]]), by


def _waiting_in(study: Study, call: int) -> str:
    """The operator around a call, else the call: what the program would take out."""
    events, around = study.events, int(study.parent[call])
    while around >= 0 and events.kind[around] != OPERATOR:
        around = int(study.parent[around])
    return events.names[int(events.name[around if around >= 0 else call])]


def host_bound(study: Study) -> list[Tip]:
    """The host submits more slowly than the device works."""
    if not study.devices:
        return []
    # What other rules name: long stretches of the program's own code, compilation, allocation, and what is slow once.
    once = np.concatenate([study.long_launches, np.array(sorted(study.first_uses), np.int64)])
    others = intervals.together(mainthread.stretches(study), compile_times(study), allocation_times(study), times(study, once))
    late = ("operators", "host", "launch")
    cap = study.idle_for(late, apart=others)
    own_ns = max(sum(one.end - one.start for one in study.spans), 1)  # first to last work of each device
    idle = study.idle_for(late, apart=others, launched=False) * len(study.devices) * study.window_s * 1e9 / own_ns
    if idle < _least("host-bound"):
        return []
    tasks = study.tasks
    launches = int(tasks.on_device.sum())
    if not launches:  # no call of the work is in the window: nothing can be replayed
        return []
    work = tasks.length[tasks.on_device]
    span_s = study.window_s / max(launches, 1)
    loads = np.clip(lags(study, study.loading) / np.maximum(tasks.lag, 1), 0, 1)
    quick = np.where(tasks.on_device | tasks.blocks, 1.0, 0.25)
    evidence = {
        "idle_share": idle,
        "launches": launches,
        "host_per_launch_s": span_s,
        "median_work_s": float(np.median(work)) / 1e9,
        "short_kernels_share": float(np.mean(work < 10_000)),
    }
    detail = (
        f"the device was idle for {percent(idle)} of its window because the next launch had not come: one launch every "
        f"{units.show(span_s, 's')}, and the median piece of work takes {units.show(float(np.median(work)) / 1e9, 's')}"
    )
    where = ", ".join(_with_lines(study))
    high = ReplayChange(host=np.where(loads > 0, loads, 0.0), factor=quick)
    low = ReplayChange(host=0.5 + loads / 2)
    there = marks.idle(study, ("operators", "host", "launch"))
    said = f"most idle before {where}" if where else ""
    if said and "(" not in where:
        said += " (no lines recorded: hotlap trace capture --stacks)"
    return [Tip("host-bound", detail, evidence, high, low, "medium", said, cap=cap, marks=there)]


def _by_root(study: Study) -> Counter[str]:
    """Nanoseconds of idle time by the outermost operator whose work ended it."""
    counts = Counter[str]()
    order = np.argsort(study.events.work)
    for idle in study.idles.values():
        roots = study.links.root[order[np.searchsorted(study.events.work[order], idle.after)]]
        known = roots >= 0
        lengths = (idle.gaps.end - idle.gaps.start)[known]
        names, inverse = np.unique(study.events.name[roots[known]], return_inverse=True)
        for name, total in zip(names, np.bincount(inverse, weights=lengths, minlength=len(names)), strict=True):
            counts[study.events.names[int(name)]] += int(total)
    return counts


def _with_lines(study: Study) -> list[str]:
    """The two operators before which a device idles most, each with the user's line of the longest gap where that is recorded."""
    longest: dict[str, tuple[int, int]] = {}
    order = np.argsort(study.events.work)
    for idle in study.idles.values():
        roots = study.links.root[order[np.searchsorted(study.events.work[order], idle.after)]]
        lengths = idle.gaps.end - idle.gaps.start
        for i in np.argsort(-lengths, kind="stable")[:1000]:
            if roots[i] >= 0:
                name = study.events.names[int(study.events.name[roots[i]])]
                longest.setdefault(name, (int(lengths[i]), int(roots[i])))
    lines = []
    for name, _ in _by_root(study).most_common(2):
        line = study.source(longest[name][1]) if name in longest else ""
        lines.append(f"{name} ({line})" if line else name)
    return lines


def slow_steps(study: Study) -> list[Tip]:
    """Steps that are far above the median, for reasons that no other rule finds."""
    steps, slow = study.steps, slow_ones(study)
    if not len(slow):
        return []
    length = steps.lengths.astype(float)
    median = float(np.median(length))
    share = float(_excess(study)[slow].sum()) / length.sum()
    if share < _least("slow-steps"):
        return []
    period = _period(slow, len(steps))
    evidence = {
        "steps": [int(n) for n in steps.number[slow][:10]],
        "median_s": median / 1e9,
        "longest_s": float(length.max()) / 1e9,
        "every": period,
    }
    which = ", ".join(str(n) for n in steps.number[slow][:5]) + (" …" if len(slow) > 5 else "")
    detail = f"{len(slow)} of {len(length)} steps take up to {length.max() / median:.1f} times the median of {median / 1e6:.1f} ms" + (
        f", every {period} steps" if period else ", in a row" if len(slow) > 1 and (np.diff(slow) == 1).all() else ""
    )
    there = marks.of_times(intervals.Intervals(steps.start[slow], steps.start[slow] + steps.lengths[slow]))
    if not period and _same_operators(study, slow):
        evidence |= {"same_operators": True}
        return [Tip("slow-steps", detail + SAME, evidence, share, 0.0, "low", f"steps {which}", IDLE, marks=there, switch=False)]
    return [Tip("slow-steps", detail, evidence, share, share / 2, "high" if period else "medium", f"steps {which}", marks=there)]


def _same_operators(study: Study, slow: NDArray[np.int64]) -> bool:
    """Of a host alone: whether the slow steps call the same operators as the others, as often, and lose most of their time within them.
    What a program does besides now and then (collecting garbage, logging, a checkpoint) calls others, or none."""
    events, steps = study.events, study.steps
    places = events.of_kind(OPERATOR)
    if study.devices or not len(places):
        return False
    step = of_times(steps, events.start[places])
    names, name = np.unique(events.name[places], return_inverse=True)
    calls = np.zeros((len(steps), len(names)), np.int64)
    np.add.at(calls, (step[step >= 0], name[step >= 0]), 1)
    within = intervals.covered(times(study, places), steps.start, steps.start + steps.lengths).astype(float)
    longer, inside = (float((one[slow] - np.median(one)).sum()) for one in (steps.lengths.astype(float), within))
    return bool((calls[slow] == np.median(calls, axis=0)).all()) and inside > longer / 2


def _period(slow: NDArray[np.int64], steps: int) -> int:
    """Every how many of so many steps these places come, 2 or more; 0 where they do not come regularly, three times at least. One more
    before the first or after the last may be missing: a pattern that covers less than the window is none."""
    apart = np.diff(slow)
    if len(apart) < 2 or apart[0] < 2 or (apart != apart[0]).any():
        return 0
    period = int(apart[0])
    return period if slow[0] < 2 * period and slow[-1] + 2 * period >= steps else 0


def slow_ones(study: Study) -> NDArray[np.int64]:
    """Places of the slow steps: slow on the device too, if there is one, and not because of data, compilation or first uses."""
    steps = study.steps
    if len(steps) < 5:
        return np.empty(0, np.int64)
    length = steps.lengths.astype(float)
    median, slow = float(np.median(length)), steps.slow
    firsts = np.concatenate([study.slow_launches, np.array(sorted(study.first_uses), np.int64)])
    known = intervals.together(study.loading, compile_times(study), times(study, firsts))
    told = intervals.covered(known, steps.start, steps.start + steps.lengths)
    slow = slow[told[slow] - np.median(told) < (length[slow] - median) / 2]
    return slow[_excess(study)[slow] > (length[slow] - median) / 2] if median else slow[:0]


def _excess(study: Study) -> NDArray[np.float64]:
    """ns that each step takes more than the median one; a host that only waits for room in the queue delays no device, so that
    a step takes no more than the device is later after it or, where the host was late at its end, after the next one."""
    steps = study.steps
    length = steps.lengths.astype(float)
    excess: NDArray[np.float64] = length - np.median(length)
    work, step = study.events.work, study.step_of_work
    if not len(work) or not (step >= 0).any():
        return excess
    ends = np.full(len(steps) + 1, study.window[0])
    np.maximum.at(ends, step[step >= 0] + 1, (study.events.start[work] + study.events.duration[work])[step >= 0])
    between = np.diff(np.maximum.accumulate(ends)).astype(float)
    later = between - np.median(between)
    return np.asarray(np.minimum(excess, np.maximum(later, np.append(later[1:], -np.inf))), np.float64)


def compiling(study: Study) -> list[Tip]:
    """Compilation inside the window: once for each program and shape, unless several steps compile."""
    places = _compiles(study)
    steps = np.unique(of_times(study.steps, study.events.start[places]))
    touched = int((steps >= 0).sum())
    if touched > 1:
        more = _beyond_others(study, steps[steps >= 0])
        return [one._replace(detail=f"{one.detail}, in {touched} of {len(study.steps)} steps: something changes from one to the next",
                             high=max(_share(one.high), more))
                for one in _spans(study, "compile", places, "compiling")]  # fmt: skip
    once = "; it happens once for each program and shape, so that a long run does not gain this"
    return [one._replace(detail=one.detail + once, low=0.0) for one in _spans(study, "compile", places, "compiling")]


def _share(given: ReplayChange | float) -> float:
    return given if isinstance(given, float) else 0.0


def _beyond_others(study: Study, touched: NDArray[np.int64]) -> float:
    """What these steps of a host alone take more than the others, as a share of the window: what is around a compilation goes with it."""
    others = np.delete(study.steps.lengths, touched)
    if study.devices or not len(others) or not study.window_s:
        return 0.0
    more = float((study.steps.lengths[touched] - np.median(others)).sum()) / 1e9 / study.window_s
    return min(max(more, 0.0), 1.0)


def _compiles(study: Study) -> NDArray[np.int64]:
    """Calls that compile; of JAX the call around it, which also traced and lowered the function."""
    places = _named(study, COMPILES, (OPERATOR, MARKER, PYTHON, RUNTIME))
    misses = _flags(study, CACHE_MISS)
    if not misses.any():
        return places
    outer, above = places.copy(), study.parent[places]
    while (above >= 0).any():
        outer = np.where((above >= 0) & misses[study.events.name[np.maximum(above, 0)]], above, outer)
        above = np.where(above >= 0, study.parent[np.maximum(above, 0)], -1)
    return np.unique(outer)


def compile_times(study: Study) -> intervals.Intervals:
    """When the host compiled."""
    return times(study, _compiles(study))


def allocation_times(study: Study) -> intervals.Intervals:
    """When the host was in the driver's calls for memory."""
    return times(study, _named(study, ALLOCATES, (RUNTIME,)))


def times(study: Study, places: NDArray[np.int64]) -> intervals.Intervals:
    """When any of these events lasted."""
    return intervals.union(study.events.start[places], study.events.start[places] + study.events.duration[places])


def allocation(study: Study) -> list[Tip]:
    """Calls of the allocator that reach the driver."""
    return _spans(study, "allocation", _named(study, ALLOCATES, (RUNTIME,)), "in calls that allocate or free device memory")


def profiler_overhead(study: Study) -> list[Tip]:
    """What the profiler says it cost."""
    return _spans(study, "profiler-overhead", study.events.of_kind(OVERHEAD), "in the profiler")


def _named(study: Study, pattern: re.Pattern[str], kinds: tuple[int, ...]) -> NDArray[np.int64]:
    """Events of these kinds whose names fit."""
    wanted = np.array([pattern.search(name) is not None for name in study.events.names], bool)
    places = study.events.of_kind(*kinds)
    return np.asarray(places[wanted[study.events.name[places]]], np.int64)


def _spans(study: Study, rule: str, places: NDArray[np.int64], doing: str) -> list[Tip]:
    """The share of the window that these events of the host cover, and of it the part in which devices idle."""
    events = study.events
    if not len(places):
        return []
    low, high = study.window
    covered = intervals.clipped(intervals.union(events.start[places], events.start[places] + events.duration[places]), low, high)
    share = covered.length / max(high - low, 1)
    if share < _least(rule):
        return []
    gain = study.idle_within(covered, mainthread.STRETCH_NS) if study.devices and not mainthread.blocked(study) else share
    spent = np.bincount(events.name[places], weights=events.duration[places])
    evidence = {"calls": len(places), "spent_s": covered.length / 1e9}
    detail = f"{len(places)} calls, {percent(share)} of the window {doing}"
    there = marks.of_events(study, places)
    return [Tip(rule, detail, evidence, gain, gain / 2, "medium", events.names[int(np.argmax(spent))], marks=there)]
