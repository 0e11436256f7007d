"""Operators of a trace of the host alone: what each took itself, without the operators inside it."""

from __future__ import annotations

import numpy as np

from hotlap.core.record import Record
from hotlap.traces import calls
from hotlap.traces.events import OPERATOR
from hotlap.traces.study import Study


class OperatorTime(Record, frozen=True, kw_only=True):
    """All calls of one operator, on all threads."""

    name: str
    calls: int
    total_s: float  # with what is inside
    own_s: float  # without the operators inside
    share: float  # of the operators' own time
    median_s: float  # of a call, with what is inside


def operators(study: Study) -> list[OperatorTime]:
    """By their own time, most first."""
    events = study.events
    nesting = calls.nested(events, events.of_kind(OPERATOR))
    places = nesting.places
    if not len(places):
        return []
    length = events.duration[places].astype(np.int64)
    order = np.argsort(places)
    inside = nesting.parent >= 0
    own = length.copy()
    np.subtract.at(own, order[np.searchsorted(places[order], nesting.parent[inside])], length[inside])
    own = np.maximum(own, 0)  # what outlives its encloser by a rounding
    names, which, count = np.unique(events.name[places], return_inverse=True, return_counts=True)
    total, alone = (np.bincount(which, weights=one) / 1e9 for one in (length, own))
    each = np.split(length[np.argsort(which, kind="stable")], np.cumsum(count)[:-1])
    return [
        OperatorTime(
            name=events.names[int(names[i])], calls=int(count[i]), total_s=float(total[i]), own_s=float(alone[i]),
            share=float(alone[i] / max(alone.sum(), 1e-12)), median_s=float(np.median(each[i])) / 1e9,
        )
        for i in np.argsort(-alone, kind="stable")
    ]  # fmt: skip
