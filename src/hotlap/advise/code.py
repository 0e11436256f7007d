"""Rules about the program's own code: time of the main thread outside of operators, and calls that are slow once."""

from __future__ import annotations

from collections import Counter
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
    """First calls that took very long while the device had nothing to do: code loaded, libraries opened, algorithms tried."""
    events, launches, operators = study.events, study.slow_launches, study.first_uses
    window = max(sum(one.end - one.start for one in study.spans), 1)
    lost = sum(study.slow_launches_idle.values()) + sum(operators.values())
    if lost / window < rules()["first-use"].least:
        return []
    taken = Counter({place: events.duration[place] for place in launches.tolist()})
    taken.update(operators)
    worst = [place for place, _ in taken.most_common(NAMED)]
    said = [f"{events.names[int(events.name[one])][:80]} {units.show(float(taken[one]) / 1e9, 's')}" for one in worst]
    evidence = {"calls": len(taken), "idle_share": lost / window, "usual_launch_s": study.usual_launch_ns / 1e9}
    many = "one call" if len(taken) == 1 else f"{len(taken)} calls"
    detail = f"the device idles {percent(lost / window)} of its window in {many}, the first of their kind; longest {', '.join(said)}"
    if len(launches):
        detail += f"; a launch usually takes {units.show(study.usual_launch_ns / 1e9, 's')}"
    line = study.source(worst[0])
    where = events.names[int(events.name[worst[0]])][:80] + (f", {line}" if line else "")
    gain = min(lost / len(study.devices) / 1e9 / study.window_s, 1.0)
    there = marks.of_events(study, np.array(sorted(taken), np.int64))
    return [Found("first-use", detail, evidence, gain, 0.0, "medium", where, marks=there)]
