"""What is written is read back as it was."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trace_samples as samples

from hotlap.traces import writing
from hotlap.traces.building import Builder
from hotlap.traces.events import COLUMNS, KERNEL, MARKER, MEMORY, OPERATOR, OTHER, SYNC, Events, Head
from hotlap.traces.timeline import Timeline

TABLES = {"name": "names", "thread": "threads", "shape": "shapes", "launch": "launches", "collective": "collectives", "stack": "stacks"}


def rows(trace: Events) -> list[tuple[object, ...]]:
    """All that each event says, with texts for places and times from the first event; sorted, because the order of a file may change.

    Moments of memory are written as PyTorch writes them: without stream and stack. What is neither of a device nor of a thread gets one.
    """
    moment, nowhere = trace.kind == MEMORY, np.isin(trace.kind, (MEMORY, SYNC, OTHER))
    columns = []
    for name in COLUMNS:
        hidden = {"thread": nowhere, "stream": moment, "stack": moment}.get(name, False)
        values = np.where(hidden, -1, trace.columns[name]).tolist()
        if name in TABLES:
            table = getattr(trace, TABLES[name])
            values = [repr(table[at]) if at >= 0 else "" for at in values]
        elif name == "start":
            values = [value - int(trace.start.min()) for value in values]
        columns.append(values)
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize("reader", samples.FORMATS)
@pytest.mark.parametrize("name", ["again.json", "again.json.gz"])
def test_a_trace_of_any_reader_is_the_same_after_writing_and_reading(tmp_path: Path, reader: str, name: str) -> None:
    source, make = samples.FORMATS[reader]
    (tmp_path / source).write_bytes(make())
    first = Timeline.open(tmp_path / source)
    writing.write(first, tmp_path / name)
    again = Timeline.open(tmp_path / name)
    assert again.head.reader == "kineto"
    assert rows(again) == rows(first)
    assert again.breakdown() == first.breakdown()
    assert (again.head.rank, again.head.ranks) == (first.head.rank, first.head.ranks)
    if first.head.unix_ns is not None and again.head.unix_ns is not None:
        assert again.head.unix_ns + int(again.start.min()) == first.head.unix_ns + int(first.start.min())


def test_a_made_timeline_with_notes(tmp_path: Path) -> None:
    """As the simulated target would: a Builder filled, written, read; names that need escaping, times before the origin."""
    into = Builder()
    into.thread_names["1", "main"] = 'the "main" thread'
    names = ['say "é" \\ \n', "ncclAllReduce", "step", "[memory]"]
    into.add(start=np.array([-1500, 1, 2, 3]), duration=np.array([999, 10**15 + 1, 7, 0]), kind=np.array([OPERATOR, KERNEL, MARKER, MEMORY]),
             name=np.array([into.names[n] for n in names]), device=np.array([-1, 1, -1, 0]), stream=np.array([-1, 4, -1, -1]),
             thread=np.array([into.threads["1", "main"], -1, into.threads["1", "main"], into.threads["1", "main"]]),
             bytes=np.array([-1, -1, -1, -64]))  # fmt: skip
    events = Events("made", Head(reader="made", facts={"target": "simulated"}), into.arrays(), into.tables())
    notes = [writing.TraceNote("idle: the host waits", 5, 2500, {"gain": "12 %"})]
    writing.write(events, tmp_path / "plain.json")
    writing.write(events, tmp_path / "noted.json", notes)
    assert rows(Timeline.open(tmp_path / "plain.json")) == rows(events)
    noted = json.loads((tmp_path / "noted.json").read_text())
    assert noted["traceEvents"][-1] == {"ph": "X", "cat": "hotlap_finding", "name": "idle: the host waits", "pid": "Hotlap", "tid": "findings",
                                        "ts": 0.005, "dur": 2.5, "args": {"gain": "12 %"}}  # fmt: skip
    assert noted["target"] == "simulated"
    assert len(Timeline.open(tmp_path / "noted.json")) == 5
