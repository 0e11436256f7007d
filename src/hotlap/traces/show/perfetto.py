"""A trace in Chrome's format with what Hotlap found in it: findings, gaps by cause and the critical path as a process of their own.

Opens in ui.perfetto.dev and chrome://tracing. Written event by event, so that memory does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import MachineError
from hotlap.traces import intervals, replay, writing
from hotlap.traces.advice.trace import Advice
from hotlap.traces.idle import CAUSES
from hotlap.traces.show import trace
from hotlap.traces.study import Study
from hotlap.traces.writing import TraceNote

PATH = "critical path"
_TASK = {"work": "device work", "wait": "waits for the device", "turn": "waits its turn", "across": "waits for another stream or thread"}


def write(study: Study, advice: Advice, path: Path) -> None:
    """Writes the annotated trace, packed where the name ends in .gz. Raises MachineError when the system refuses."""
    try:
        writing.write(study.events, path, notes(study, advice), arrows=True)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror or error}") from None


def notes(study: Study, advice: Advice) -> Iterator[TraceNote]:
    """What is added. Slices of one row do not overlap, as the format wants it."""
    yield from _path(study)
    for number, (one, marks) in enumerate(zip(advice.findings, advice.marks, strict=False), 1):
        row = f"{number}. {trace.gain(one)}: {one.title}"
        whole = intervals.union(marks.start, marks.end)  # places that overlap are one
        about = {"detail": one.detail, "do": one.action, "where": one.where, "confidence": one.confidence, "rule": one.rule}
        for place, (start, end) in enumerate(zip(whole.start.tolist(), whole.end.tolist(), strict=True)):
            yield TraceNote(one.title, start, end - start, {"rule": one.rule} if place else about, row)
    causes = list(CAUSES)
    for device in study.devices:
        idle = study.idles[device]
        if not len(idle.by):
            continue
        most = np.argmax(idle.by, axis=1).tolist()
        for start, end, cause, by in zip(idle.gaps.start.tolist(), idle.gaps.end.tolist(), most, idle.by.tolist(), strict=True):
            parts = {f"{name}_ns": ns for name, ns in zip(causes, by, strict=True) if ns}
            yield TraceNote(f"idle: {causes[cause].replace('_', ' ')}", start, end - start, parts, f"device {device} idle because")


def _path(study: Study) -> Iterator[TraceNote]:
    """The critical path, first piece first. Its pieces lie one behind another."""
    if not study.devices:
        return
    path = replay.path(study.tasks, study.timed)
    if not len(path.task):
        return
    lengths: NDArray[np.int64] = np.rint(path.seconds * 1e9).astype(np.int64)
    ends = int(study.timed.end.max()) - np.concatenate([[0], np.cumsum(lengths)[:-1]])
    events, places = study.events, study.tasks.place[path.task]
    until = -(2**62)
    for i in range(len(lengths) - 1, -1, -1):
        start, end = max(int(ends[i] - lengths[i]), until), int(ends[i])  # rounding and clocks that disagree may make pieces overlap
        if end > start:
            name = events.names[int(events.name[places[i]])]
            yield TraceNote(f"{_TASK.get(path.kind[i], path.kind[i])}: {name}", start, end - start, {}, PATH)
            until = end
