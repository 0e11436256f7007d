"""Rules about the program's own code: time outside of operators, loops over tiny ones, and calls that are slow once."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hotlap.core import units
from hotlap.traces import intervals, mainthread
from hotlap.traces.advice import marks
from hotlap.traces.advice.base import Tip, percent, rules
from hotlap.traces.advice.host import allocation_times, compile_times, lags, slow_ones, times
from hotlap.traces.events import OPERATOR
from hotlap.traces.replay import ReplayChange
from hotlap.traces.study import Study

SHORT_NS = 20_000
RARE = 0.01  # of the calls of a name
MANY = 32  # children of one operator, such as stack and unbind of many tensors
MOSTLY = 0.8  # of the program's own code: where it lies
NAMED = 3  # functions or markers that a sentence names
UNNAMED = (
    "The trace does not say what most of it is: record with hotlap trace capture --stacks, or mark its parts (hotlap.marker, NVTX). "
)


def host_code(study: Study) -> list[Tip]:
    """Long stretches of the main thread outside of operators, of calls of the driver and of its data loader."""
    if study.main_thread < 0 or not study.window_s:
        return []
    there = intervals.difference(mainthread.stretches(study), compile_times(study))
    alone = mainthread.blocked(study)
    if alone:
        for one in study.spans:
            there = intervals.difference(there, one.whole)
    share = there.length / 1e9 / study.window_s
    rule = rules()["host-code"]
    if _in_slow_steps(study, there) > MOSTLY and _usual(study, there) < rule.least:
        return []  # which slow-steps names
    idle = share if alone else min(study.idle_within(there), 1 - study.idle_for(("unknown",)))
    if min(share, idle) < rule.least:
        return []
    names = mainthread.by_name(study, there)
    if not names and not mainthread.spent(study).operators.length:
        return []  # nothing but steps was recorded: what lies between them cannot be determined
    evidence: dict[str, Any] = {
        "outside_s": there.length / 1e9,
        "stretches": len(there.start),
        "longest_s": float((there.end - there.start).max()) / 1e9,
        "by_name_s": {name[:80]: spent / 1e9 for name, spent in names.most_common(4)},
    }
    each = f", a mean of {units.show(there.length / 1e9 / len(study.steps), 's')} a step" if len(study.steps) else ""
    least_s = "" if len(there.start) == 1 else f"{units.show(mainthread.STRETCH_NS / 1e9, 's')} to "  # shorter ones are not counted here
    long = f"in {_counted(len(there.start))} of {least_s}{units.show(evidence['longest_s'], 's')}"
    detail = f"the main thread is outside of operators and calls for {percent(share)} of the window{each}, {long}"
    worth = [(name, spent / there.length) for name, spent in names.most_common(NAMED) if spent >= 0.03 * there.length]
    where = ", ".join(f"{name[:80]} {percent(part)}" for name, part in worth)
    where = f"{where} of it" if where else ""
    known = sum(names.values()) >= 0.5 * there.length
    remedy = "" if known else UNNAMED + rule.remedy
    mark = marks.of_times(there, thread=study.main_thread)
    confidence: Literal["medium", "high"] = "high" if known else "medium"
    if alone:
        return [Tip("host-code", detail, evidence, share, share / 2, confidence, where, remedy, marks=mark)]
    part = np.clip(lags(study, there) / np.maximum(study.tasks.lag, 1), 0, 1)
    best, least = ReplayChange(host=1 - part), ReplayChange(host=1 - part / 2)
    detail += f"; the device idles {percent(idle)} of its window because of that"
    evidence["idle_share"] = idle
    return [Tip("host-code", detail, evidence, best, least, confidence, where, remedy, cap=idle, marks=mark)]


def _in_slow_steps(study: Study, there: intervals.Intervals) -> float:
    """The share of these times that lies in slow steps."""
    steps, slow = study.steps, slow_ones(study)
    during = intervals.Intervals(steps.start[slow], steps.start[slow] + steps.lengths[slow])
    return intervals.intersection(there, during).length / max(there.length, 1)


def _usual(study: Study, there: intervals.Intervals) -> float:
    """The share of the window that these times would take if every step had as much of them as the median one."""
    spent = intervals.covered(there, study.steps.start, study.steps.start + study.steps.lengths)
    return float(np.median(spent)) * len(spent) / 1e9 / study.window_s


def _counted(stretches: int) -> str:
    return "one stretch" if stretches == 1 else f"{stretches:,} stretches"


def first_use(study: Study) -> list[Tip]:
    """First calls that took very long while the device had nothing to do: code loaded, libraries opened, algorithms tried."""
    events, launches, operators = study.events, study.slow_launches, study.first_uses
    if not len(launches) and not operators:
        return []
    named = intervals.together(compile_times(study), allocation_times(study))  # what mostly compiles or allocates is another rule's
    spent = intervals.covered(named, events.start, events.start + events.duration)
    operators = {place: ns for place, ns in operators.items() if 2 * spent[place] < events.duration[place]}
    lost = study.idle_within(times(study, launches)) + sum(operators.values()) / len(study.devices) / 1e9 / study.window_s
    if lost < rules()["first-use"].least:
        return []
    taken = Counter({place: events.duration[place] for place in launches.tolist()})
    taken.update(operators)
    worst = [place for place, _ in taken.most_common(NAMED)]
    said = [f"{events.names[int(events.name[one])][:80]} {units.show(float(taken[one]) / 1e9, 's')}" for one in worst]
    evidence = {"calls": len(taken), "idle_share": lost, "usual_launch_s": study.usual_launch_ns / 1e9}
    many = "one call" if len(taken) == 1 else f"{len(taken)} calls"
    detail = f"the device idles {percent(lost)} of the window in {many}, the first of their kind; longest {', '.join(said)}"
    if len(launches):
        detail += f"; a launch usually takes {units.show(study.usual_launch_ns / 1e9, 's')}"
    line = study.source(worst[0])
    where = events.names[int(events.name[worst[0]])][:80] + (f", {line}" if line else "")
    gain = min(lost, 1.0)
    there = marks.of_events(study, np.array(sorted(taken), np.int64))
    return [Tip("first-use", detail, evidence, gain, 0.0, "medium", where, marks=there)]


def tiny_operators(study: Study) -> list[Tip]:
    """A host that alone does the work, in operators so short that calling them is most of it."""
    if study.devices or study.main_thread < 0:
        return []
    events = study.events
    mine = _outermost(study)
    if len(mine) < 100:
        return []
    length = events.duration[mine]
    # By the median of its name: a call that the system interrupted does no more than the others.
    _, which, count = np.unique(events.name[mine], return_inverse=True, return_counts=True)
    by_name = length[np.lexsort((length, which))]
    median = by_name[np.cumsum(count) - (count + 1) // 2 - (count % 2 == 0)]
    operators = events.of_kind(OPERATOR)
    inner = np.bincount(study.parent[operators] + 1, minlength=len(events) + 1)[1:][mine]  # direct children
    # A few long calls of a name are the system's interruptions; more of them do more work than the others of that name.
    rare = np.bincount(which, weights=length >= 10 * SHORT_NS)[which] <= RARE * count[which]
    small = (median[which] < SHORT_NS) & (rare | (length < 10 * SHORT_NS))
    short = small | ((inner >= MANY) & (length < inner * SHORT_NS))
    if not short.any():
        return []
    start = events.start[mine]
    gap = np.concatenate([start[1:] - (start[:-1] + length[:-1]), [0]])
    gap = np.where((gap > 0) & (gap < 10 * SHORT_NS), gap, 0)
    loads = intervals.covered(study.loading, start + length, start + length + gap)
    spent_s = float(length[short].sum() + np.maximum(gap - loads, 0)[short].sum()) / 1e9
    share = min(spent_s / study.window_s, 1.0)
    if share < rules()["tiny-operators"].least:
        return []
    names = Counter(events.names[int(n)] for n in events.name[mine[short]])
    evidence: dict[str, Any] = {
        "operators": len(mine),
        "short": int(short.sum()),
        "median_s": float(np.median(length)) / 1e9,
        "spent_s": spent_s,
        "most": dict(names.most_common(4)),
    }
    detail = (
        f"{int(short.sum()):,} of {len(mine):,} outermost operators take less than {SHORT_NS // 1000} µs or are made of such (median "
        f"{evidence['median_s'] * 1e6:.1f} µs); they and the gaps after them are {percent(share)} of the window"
    )
    worst = names.most_common(1)[0][0]
    first = int(mine[short][np.argmax(events.name[mine[short]] == events.names.index(worst))])
    where = f"{worst} × {names[worst]:,}, {study.source(first)}".rstrip(", ")
    there = marks.of_events(study, mine[short])
    return [Tip("tiny-operators", detail, evidence, share, share * 0.5, "medium", where, marks=there)]


def _outermost(study: Study) -> NDArray[np.int64]:
    """Operators of the main thread within the window that no other operator encloses, by start; markers may stand around them."""
    events, (low, high) = study.events, study.window
    places = study.nesting.places
    mine = places[(events.kind[places] == OPERATOR) & (events.thread[places] == study.main_thread)]
    mine = mine[(events.start[mine] >= low) & (events.start[mine] < high)]
    inside = np.zeros(len(mine), bool)
    above = study.parent[mine]
    while (above >= 0).any():
        inside |= (above >= 0) & (events.kind[np.maximum(above, 0)] == OPERATOR)
        above = np.where(above >= 0, study.parent[np.maximum(above, 0)], -1)
    mine = mine[~inside]
    if len(study.loading.start):  # what is done for a batch is the data loader's
        mine = mine[intervals.covered(study.loading, events.start[mine], events.start[mine] + 1) == 0]
    return np.asarray(mine[np.argsort(events.start[mine], kind="stable")], np.int64)
