"""Events as a file: Chrome's trace format with PyTorch's categories, which Perfetto shows and Hotlap reads again.

It is Hotlap's own format, too: what makes a timeline without a profiler, like the simulated target, fills a Builder and writes this.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from hotlap.traces import events as ev
from hotlap.traces.events import Events

CATEGORIES = {
    ev.KERNEL: "kernel", ev.COPY: "gpu_memcpy", ev.SET: "gpu_memset", ev.DEVICE_MARKER: "gpu_user_annotation", ev.OPERATOR: "cpu_op",
    ev.PYTHON: "python_function", ev.RUNTIME: "cuda_runtime", ev.SYNC: "cuda_sync", ev.MARKER: "user_annotation", ev.OVERHEAD: "overhead",
    ev.MEMORY: "cpu_instant_event", ev.OTHER: "other",
}  # fmt: skip
ROWS = 1 << 15
NOTES = "Hotlap"  # the process under which notes stand
_NUMBERS = {"correlation": "correlation", "external": "External id", "sequence": "Sequence number", "bytes": "bytes"}


class TraceNote(NamedTuple):
    """Something to point at in the timeline, in ns since the trace's origin."""

    name: str
    start: int
    duration: int
    details: dict[str, Any] = {}
    row: str = "findings"


def write(events: Events, path: Path, notes: Iterable[TraceNote] = (), arrows: bool = False) -> None:
    """Writes a trace as JSON, packed where the name ends in .gz; times are µs with three decimals, so no nanosecond is lost.

    Times count from the trace's origin; where the wall clock is known it is written as baseTimeNanoseconds. Moments of memory keep
    what PyTorch writes of them: the change, the total and the device, not their stream and stack. `arrows`: from each call to the
    device work it launched, and notes above all else, for those who look.
    """
    with _opened(path) as file:
        about: dict[str, Any] = {
            key: value for key, value in events.head.facts.items() if key not in ("traceEvents", "baseTimeNanoseconds")
        }
        if events.head.rank is not None:
            about["distributedInfo"] = {"rank": events.head.rank, "world_size": events.head.ranks}
        if events.head.unix_ns is not None:
            about["baseTimeNanoseconds"] = events.head.unix_ns
        about |= {
            "schemaVersion": 1,
            "deviceProperties": events.head.devices,
            "displayTimeUnit": "ms",
            "writtenBy": "hotlap",
            "traceEvents": [],
        }
        file.write(json.dumps(about, ensure_ascii=False)[:-2].encode("utf-8", "replace"))
        between = b"\n"
        for lines in (_labels(events), _lines(events), _arrows(events) if arrows else (), map(_note, notes)):
            for line in lines:
                file.write(between + line)
                between = b",\n"
        file.write(b"\n]}\n")


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "wb", compresslevel=4) if path.name.endswith(".gz") else path.open("wb")  # type: ignore[return-value]


def _labels(events: Events) -> Iterator[bytes]:
    """Names of threads."""
    for thread in events.threads:
        if thread.name:
            yield _text(
                {"name": "thread_name", "ph": "M", "pid": _id(thread.process), "tid": _id(thread.thread), "args": {"name": thread.name}}
            )


def _lines(events: Events) -> Iterator[bytes]:
    """Every event, a line each."""
    columns = [name for name in ev.COLUMNS if name in events.columns]
    names = [json.dumps(name, ensure_ascii=False) for name in events.names]
    threads = [
        f'"pid":{json.dumps(_id(t.process), ensure_ascii=False)},"tid":{json.dumps(_id(t.thread), ensure_ascii=False)}'
        for t in events.threads
    ]
    tables = _Tables(events)
    for at in range(0, len(events), ROWS):
        block = {name: np.asarray(events.columns[name][at : at + ROWS]).tolist() for name in columns}
        for row in zip(*block.values(), strict=True):
            one = dict(zip(columns, row, strict=True))
            yield _event(one, names, threads, tables).encode("utf-8", "replace")


def _event(event: dict[str, int], names: list[str], threads: list[str], tables: _Tables) -> str:
    kind = event["kind"]
    place = threads[event["thread"]] if event["thread"] >= 0 else f'"pid":{max(event["device"], 0)},"tid":{max(event["stream"], 0)}'
    start, name = _us(event["start"]), names[event["name"]]
    if kind == ev.MEMORY and name == '"[memory]"':
        change = {"Bytes": event.get("bytes", 0), "Total Allocated": event.get("external", -1), "Device Id": event["device"]}
        return f'{{"ph":"i","cat":"cpu_instant_event","s":"t","name":{name},{place},"ts":{start},"args":{json.dumps(change)}}}'
    args = [f'"{key}":{event[key]}' for key in ("device", "stream") if event[key] >= 0]
    args += [f'"{shown}":{value}' for key, shown in _NUMBERS.items() if (value := event.get(key, -1)) >= 0]
    args += tables.of(event)
    said = f',"args":{{{",".join(args)}}}' if args else ""
    return f'{{"ph":"X","cat":"{CATEGORIES[kind]}","name":{name},{place},"ts":{start},"dur":{_us(event["duration"])}{said}}}'


class _Tables:
    """Arguments of the tables' entries, each written once."""

    def __init__(self, events: Events) -> None:
        self.parts = {
            "shape": [_inner({"Input Dims": _raw(s.dims), "Input type": _raw(s.types), "Input Strides": _raw(s.strides),
                              "Concrete Inputs": _raw(s.values)}) for s in events.shapes],
            "launch": [_inner({"grid": list(n.grid), "block": list(n.block), "registers per thread": n.registers,
                               "shared memory": n.shared_bytes,
                               "est. achieved occupancy %": n.occupancy}) for n in events.launches],
            "collective": [_inner({"Collective name": c.name, "dtype": c.dtype, "In msg nelems": c.elements_in,
                                   "Out msg nelems": c.elements_out,
                                   "Process Group Name": c.group, "Group size": c.ranks}) for c in events.collectives],
            "stack": [_inner({"Call stack": s}) for s in events.stacks],
        }  # fmt: skip

    def of(self, event: dict[str, int]) -> list[str]:
        """What an event's places say."""
        return [part for key, parts in self.parts.items() if (at := event.get(key, -1)) >= 0 and (part := parts[at])]


class _Raw(str):
    """JSON that stands as it is."""


def _raw(text: str) -> str | None:
    """JSON as the profiler wrote it; None where it said nothing."""
    if not text:
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _Raw(text)


def _inner(given: dict[str, Any]) -> str:
    return ",".join(
        f'"{key}":{value if isinstance(value, _Raw) else json.dumps(value, ensure_ascii=False)}'
        for key, value in given.items()
        if value is not None
    )


def _arrows(events: Events) -> Iterator[bytes]:
    """Flow events: a call and its work share a correlation."""
    yield _text({"name": "process_sort_index", "ph": "M", "pid": NOTES, "args": {"sort_index": -1}})
    work = events.work[events.correlation[events.work] >= 0]
    calls = events.of_kind(ev.RUNTIME)
    calls = calls[np.isin(events.correlation[calls], events.correlation[work])]
    for phase, places in (("s", calls), ("f", work)):
        for at in range(0, len(places), ROWS):
            block = places[at : at + ROWS]
            columns = (events.correlation, events.start, events.thread, events.device, events.stream)
            for number, start, thread, device, stream in zip(*(column[block].tolist() for column in columns), strict=True):
                pid, tid = (events.threads[thread].process, events.threads[thread].thread) if thread >= 0 else (str(device), str(stream))
                flow = {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", "pid": _id(pid), "tid": _id(tid), "ts": start / 1000}
                yield _text(flow | ({"bp": "e"} if phase == "f" else {}))


def _note(note: TraceNote) -> bytes:
    return _text({"ph": "X", "cat": "hotlap_finding", "name": note.name, "pid": NOTES, "tid": note.row, "ts": note.start / 1000,
                  "dur": note.duration / 1000, "args": note.details})  # fmt: skip


def _text(given: dict[str, Any]) -> bytes:
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")


def _us(ns: int) -> str:
    """Nanoseconds as µs with three decimals, exactly."""
    whole, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


def _id(text: str) -> int | str:
    """A process or thread as the number it mostly is."""
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19 and str(int(text)) == text else text
