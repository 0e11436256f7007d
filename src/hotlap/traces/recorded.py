"""Operators of a trace with the shapes of their calls, as workloads: what a program really runs, how often, how long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.work import aten, traits
from hotlap.core.work.aten import CallRequest
from hotlap.traces.events import KERNEL, OPERATOR, LaunchShape
from hotlap.traces.study import Study


class RecordedGroup(NamedTuple):
    """All calls of one operator with one shape. Times are the device's, of the host where the trace has no device."""

    operator: str
    shape: LaunchShape
    each_s: NDArray[Any]  # of each call, its kernels together
    places: NDArray[np.int64]  # events: its kernels, or the operators themselves


class Recorded(NamedTuple):
    """One workload of a step."""

    operator: str
    asked: CallRequest
    calls: float  # in a step; in the whole trace where it has no steps
    median_s: float


class RecordedProgram(NamedTuple):
    """What a trace's step is made of."""

    workloads: list[Recorded]  # most time first
    steps: int
    known_s: float  # time of a step in workloads
    total_s: float  # time of a step in operators with shapes or without
    unknown: Mapping[str, float]  # operators that are no workload of ours → seconds in a step


def program(study: Study) -> RecordedProgram:
    """Operators as workloads, counted for one step. An operator of two workloads gives each half its time."""
    steps = max(len(study.steps), 1)
    kernels, unknown, known = [], dict[str, float](), 0.0
    for group in groups(study):
        total = float(group.each_s.sum()) / steps
        parts = asked(group.operator, group.shape)
        if not parts:
            if not aten.is_free(group.operator):
                unknown[group.operator] = unknown.get(group.operator, 0.0) + total
            continue
        known += total
        each = float(np.median(group.each_s)) / len(parts)
        kernels += [Recorded(group.operator, one, len(group.each_s) / steps, each) for one in parts]
    kernels.sort(key=lambda one: -one.calls * one.median_s)
    return RecordedProgram(kernels, steps, known, known + sum(unknown.values()), dict(sorted(unknown.items(), key=lambda pair: -pair[1])))


def asked(operator: str, shape: LaunchShape) -> list[CallRequest]:
    """The workloads of a recorded call; none where it is none of ours."""
    return aten.parts(operator, shape.dims, shape.types, shape.values, shape.strides)


def groups(study: Study) -> Iterator[RecordedGroup]:
    """Operators with recorded shapes by total time, most first: those that launched kernels, else the innermost ones of the host."""
    events = study.events
    if len(study.devices):
        places = np.flatnonzero((events.kind[events.work] == KERNEL) & (study.links.operator >= 0))
        operator, work = study.links.operator[places], events.work[places]
    else:
        operator = work = _innermost(study)
    known = events.shape[operator] >= 0
    operator, work = operator[known], work[known]
    if not len(operator):
        return
    key = events.name[operator].astype(np.int64) * (len(events.shapes) + 1) + events.shape[operator]
    kinds, inverse = np.unique(key, return_inverse=True)
    length = events.duration[work] / 1e9
    for i in np.argsort(-np.bincount(inverse, weights=length), kind="stable"):
        name, shape = divmod(int(kinds[i]), len(events.shapes) + 1)
        here = inverse == i
        each = np.bincount(np.unique(operator[here], return_inverse=True)[1], weights=length[here])
        yield RecordedGroup(events.names[name], events.shapes[shape], each, work[here])


def _innermost(study: Study) -> NDArray[np.int64]:
    """Operators of the host, within the steps where there are any: workloads without another one inside, and of what is in none of these
    the operators that hold no other. What a workload does to single elements before it computes (a product copies its bias) is its own."""
    events, (began, ended) = study.events, study.window
    places = np.asarray(events.of_kind(OPERATOR), dtype=np.int64)
    places = places[(events.start[places] >= began) & (events.start[places] < ended)]
    known, single = _workloads(study, places)
    chosen = known[~single & ~_holding(study, known[~single])[known]]
    others = known[single]
    others = others[~_holding(study, known)[others] & ~_within(study, others, chosen)]
    chosen = np.concatenate([chosen, others])
    rest = places[~_holding(study, places)[places]]
    return np.concatenate([chosen, rest[~_within(study, rest, chosen)]])


def _within(study: Study, places: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of each of `places` whether it is one of `chosen` or inside one."""
    inner = np.zeros(len(study.events), dtype=bool)
    inner[chosen] = True
    within, at = np.zeros(len(places), dtype=bool), places.copy()
    while (up := at >= 0).any():
        within |= up & inner[np.maximum(at, 0)]
        at = np.where(up, study.parent[np.maximum(at, 0)], -1)
    return within


def _holding(study: Study, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of every event whether one of `places` is inside of it."""
    marked = np.zeros(len(study.events), dtype=bool)
    at = np.unique(study.parent[places])
    at = at[at >= 0]
    while len(at):
        marked[at] = True
        at = np.unique(study.parent[at])
        at = at[(at >= 0) & ~marked[np.maximum(at, 0)]]
    return marked


def _workloads(study: Study, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Those of `places` whose name and shape are a workload's, and which of them compute single elements alone; each kind is asked once."""
    events = study.events
    if not len(places):
        return places, np.zeros(0, dtype=bool)
    kinds, inverse = np.unique(np.stack([events.name[places], events.shape[places]]), axis=1, return_inverse=True)
    answers = []
    for name, shape in kinds.T:
        one = events.shapes[shape] if shape >= 0 else None
        parts = asked(events.names[name], one) if one else []
        answers.append((bool(parts), bool(parts) and traits(parts[0].workload).traffic == "elements"))
    known, single = np.array(answers, dtype=bool)[inverse.reshape(-1)].T
    return places[known], single[known]
