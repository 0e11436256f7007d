"""Rules about the program's own code: time of the main thread outside of operators, and calls that are slow once."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hotlap import units
from hotlap.advise import marks
from hotlap.advise.base import Found, percent, rules
from hotlap.advise.host import lags
from hotlap.trace import intervals, mainthread
from hotlap.trace.replay import Change
from hotlap.trace.study import Study

NAMED = 3  # functions or markers that a sentence names
UNNAMED = (
    "The trace does not say what most of it is: record with hotlap capture --stacks, or mark parts of the program (hotlap.marker, NVTX). "
)


def host_code(study: Study) -> list[Found]:
    """Long stretches of the main thread outside of operators, of calls of the driver and of its data loader."""
    if study.main_thread < 0 or not study.window_s:
        return []
    there = mainthread.stretches(study)
    alone = mainthread.told(study)
    if alone:
        for one in study.spans:
            there = intervals.difference(there, one.whole)
    share = there.length / 1e9 / study.window_s
    rule = rules()["host-code"]
    idle = share if alone else study.idle_shares["host"]
    if min(share, idle) < rule.least:
        return []
    names = mainthread.by_name(study, there)
    if not names and not mainthread.spent(study).operators.length:
        return []  # nothing but steps was recorded: what lies between them cannot be told
    evidence: dict[str, Any] = {
        "outside_s": there.length / 1e9,
        "stretches": len(there.start),
        "longest_s": float((there.end - there.start).max()) / 1e9,
        "by_name_s": {name[:80]: spent / 1e9 for name, spent in names.most_common(4)},
    }
    each = f", {units.show(there.length / 1e9 / len(study.steps), 's')} a step" if len(study.steps) else ""
    detail = f"the main thread is outside of operators and calls for {percent(share)} of the window{each}, in {_counted(len(there.start))} of " \
        f"up to {units.show(evidence['longest_s'], 's')}"  # fmt: skip
    worth = [(name, spent / there.length) for name, spent in names.most_common(NAMED) if spent >= 0.03 * there.length]
    where = ", ".join(f"{name[:80]} {percent(part)}" for name, part in worth)
    where = f"{where} of it" if where else ""
    known = sum(names.values()) >= 0.5 * there.length
    remedy = "" if known else UNNAMED + rule.remedy
    mark = marks.of_times(there, thread=study.main_thread)
    confidence: Literal["medium", "high"] = "high" if known else "medium"
    if alone:
        return [Found("host-code", detail, evidence, share, share / 2, confidence, where, remedy, marks=mark)]
    part = np.clip(lags(study, there) / np.maximum(study.tasks.lag, 1), 0, 1)
    best, least = Change(host=1 - part), Change(host=1 - part / 2)
    detail += f"; the device idles {percent(idle)} of its window because of that"
    evidence["idle_share"] = idle
    return [Found("host-code", detail, evidence, best, least, confidence, where, remedy, cap=idle, marks=mark)]


def _counted(stretches: int) -> str:
    return "one stretch" if stretches == 1 else f"{stretches:,} stretches"


def first_use(study: Study) -> list[Found]:
    """Single launches that took very long while the device had nothing to do: code loaded, libraries opened."""
    places = study.slow_launches
    if not len(places):
        return []
    events = study.events
    taken = study.slow_launches_idle
    share = float(sum(taken.values())) / max(sum(found.end - found.start for found in study.spans), 1)
    if share < rules()["first-use"].least:
        return []
    worst = int(places[np.argmax(events.duration[places])])
    name = events.names[int(events.name[worst])]
    long_s = float(events.duration[worst]) / 1e9
    evidence = {"calls": len(places), "longest_s": long_s, "idle_share": share}
    detail = (
        f"{'one call' if len(places) == 1 else f'{len(places)} calls'} of {name} took up to {units.show(long_s, 's')}, the usual one "
        f"{units.show(study.usual_launch_ns / 1e9, 's')}; the device idles {percent(share)} of its window meanwhile"
    )
    gain = min(sum(taken.values()) / len(taken) / 1e9 / study.window_s, 1.0)
    where = ", ".join(part for part in (name, study.source(worst)) if part)
    there = marks.of_times(intervals.union(events.start[places], events.end[places]), thread=int(events.thread[worst]))
    return [Found("first-use", detail, evidence, gain, 0.0, "medium", where, marks=there)]
