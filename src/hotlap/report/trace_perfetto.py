"""A trace in Chrome's format with what Hotlap found in it: findings, gaps by cause and the critical path as a process of their own.

Opens in ui.perfetto.dev and chrome://tracing. Events are written in pieces, so that memory does not grow with the trace.
Format: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

import hotlap
from hotlap.advise.trace import Advice
from hotlap.errors import MachineError
from hotlap.report import trace
from hotlap.trace import events as ev
from hotlap.trace import intervals, replay
from hotlap.trace.events import Events
from hotlap.trace.idle import CAUSES
from hotlap.trace.study import Study

PIECE = 20_000  # events held at a time
PROCESS, FINDINGS = "Hotlap findings", 2_000_000_000  # name and number; beyond the process numbers of operating systems
CATEGORIES = {
    ev.KERNEL: "kernel", ev.COPY: "gpu_memcpy", ev.SET: "gpu_memset", ev.DEVICE_MARKER: "gpu_user_annotation", ev.OPERATOR: "cpu_op",
    ev.PYTHON: "python_function", ev.RUNTIME: "cuda_runtime", ev.SYNC: "cuda_sync", ev.MARKER: "user_annotation", ev.OVERHEAD: "overhead",
    ev.OTHER: "other",
}  # fmt: skip
DEVICE_PROCESS = 1_000_000_000  # and the number of the device
_TASK = {
    "work": "device work", "wait": "waits for the device", "turn": "waits its turn", "across": "waits for another stream or thread",
}  # fmt: skip


def write(study: Study, advice: Advice, path: Path) -> int:
    """Writes the annotated trace, packed where the name ends in .gz; returns how many events it holds. Raises MachineError."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "wb", compresslevel=5) as packed:
                return _written(study, advice, packed)  # type: ignore[arg-type]
        with path.open("wb") as file:
            return _written(study, advice, file)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror or error}") from None


def _written(study: Study, advice: Advice, into: BinaryIO) -> int:
    head = study.events.head
    said: dict[str, Any] = {"schemaVersion": 1, "generator": f"Hotlap {hotlap.__version__}", "displayTimeUnit": "ms"}
    if head.unix_ns is not None:
        said["baseTimeNanoseconds"] = head.unix_ns
    if head.devices:
        said["deviceProperties"] = head.devices
    if head.rank is not None:
        said["distributedInfo"] = {"rank": head.rank, **({"world_size": head.ranks} if head.ranks else {})}
    into.write(msgspec.json.encode(said)[:-1] + b',"traceEvents":[\n')
    encode, count = msgspec.json.Encoder().encode, 0
    for one in chain(_labels(study, advice), _recorded(study.events), _annotations(study, advice)):
        into.write((b",\n" if count else b"") + encode(one))
        count += 1
    into.write(b"\n]}\n")
    return count


def _labels(study: Study, advice: Advice) -> Iterator[dict[str, Any]]:
    """Names and order of processes and threads."""

    def label(what: str, pid: Any, tid: Any, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    yield label("process_name", FINDINGS, 0, name=PROCESS)
    yield label("process_sort_index", FINDINGS, 0, sort_index=-1)
    yield label("thread_name", FINDINGS, 0, name="critical path")
    for number, one in enumerate(advice.findings, 1):
        yield label("thread_name", FINDINGS, number, name=f"{number}. {trace.gain(one)} {one.title}")
    for place, device in enumerate(study.devices):
        yield label("thread_name", FINDINGS, 1000 + place, name=f"device {device} idle because")
        yield label("process_name", DEVICE_PROCESS + device, 0, name=f"device {device}")
    for thread in study.events.threads:
        if thread.name:
            yield label("thread_name", _number(thread.process), _number(thread.thread), name=thread.name)


def _number(said: str) -> int | str:
    """A process or thread number as a number where it is one."""
    return int(said) if said.lstrip("-").isdecimal() and len(said) < 19 else said


def _us(ns: int) -> float:
    """Microseconds, the unit of the format, to the nanosecond."""
    return ns / 1000


def _recorded(events: Events) -> Iterator[dict[str, Any]]:
    """The events of the trace, and an arrow from each call to its work."""
    threads = [(_number(one.process), _number(one.thread)) for one in events.threads]
    columns = [name for name in ev.COLUMNS if name in events.columns]
    launched = set(np.unique(events.correlation[events.work]).tolist()) - {-1}
    for at in range(0, len(events), PIECE):
        rows = zip(*(events.columns[name][at : at + PIECE].tolist() for name in columns), strict=True)
        for row in rows:
            one = dict(zip(columns, row, strict=True))
            kind, thread = one["kind"], one["thread"]
            where: tuple[int | str, int | str] = threads[thread] if thread >= 0 else ("", "")
            if kind <= ev.DEVICE_MARKER:
                where = DEVICE_PROCESS + max(one["device"], 0), one["stream"]
            pid, tid = where
            if kind == ev.MEMORY:
                yield _memory(one, pid, tid)
                continue
            yield {
                "ph": "X", "cat": CATEGORIES[kind], "name": events.names[one["name"]], "pid": pid, "tid": tid, "ts": _us(one["start"]),
                "dur": _us(one["duration"]), "args": _args(events, one),
            }  # fmt: skip
            if one["correlation"] in launched and (kind <= ev.SET or kind == ev.RUNTIME):
                flow = {"id": one["correlation"], "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": tid, "ts": _us(one["start"])}
                yield {"ph": "f", "bp": "e", **flow} if kind <= ev.SET else {"ph": "s", **flow}


def _memory(one: dict[str, Any], pid: int | str, tid: int | str) -> dict[str, Any]:
    """A moment at which memory was taken or given back."""
    args = {"Device Id": one["device"], "Bytes": one["bytes"], "Total Allocated": one["external"]}
    return {
        "ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "ts": _us(one["start"]), "pid": pid, "tid": tid, "args": args,
    }  # fmt: skip


_ARGS = {
    "correlation": "correlation", "external": "External id", "sequence": "Sequence number", "bytes": "bytes", "device": "device",
    "stream": "stream",
}  # fmt: skip


def _args(events: Events, one: dict[str, Any]) -> dict[str, Any]:
    """Arguments as PyTorch's profiler spells them."""
    args: dict[str, Any] = {said: one[name] for name, said in _ARGS.items() if one.get(name, -1) >= 0}
    if one.get("shape", -1) >= 0:
        shape = events.shapes[one["shape"]]
        given = {"Input Dims": shape.dims, "Input type": shape.types, "Input Strides": shape.strides, "Concrete Inputs": shape.values}
        args |= {key: msgspec.Raw(value.encode()) for key, value in given.items() if value}
    if one.get("launch", -1) >= 0:
        launch = events.launches[one["launch"]]
        args |= {"grid": launch.grid, "block": launch.block}
        more = {"registers per thread": launch.registers, "shared memory": launch.shared_bytes}
        args |= {key: value for key, value in more.items() if value >= 0}
        if launch.occupancy >= 0:
            args["est. achieved occupancy %"] = launch.occupancy
    if one.get("collective", -1) >= 0:
        talk = events.collectives[one["collective"]]
        args |= {
            "Collective name": talk.name, "dtype": talk.dtype, "In msg nelems": talk.elements_in, "Out msg nelems": talk.elements_out,
            "Process Group Name": talk.group, "Group size": talk.ranks,
        }  # fmt: skip
    if one.get("stack", -1) >= 0:
        args["Call stack"] = events.stacks[one["stack"]]
    return args


# ---------------------------------------------------------------- what was found


def _slice(thread: int, name: str, start: int, end: int, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "hotlap", "name": name, "pid": FINDINGS, "tid": thread, "ts": _us(start), "dur": _us(end - start), "args": args
    }  # fmt: skip


def _annotations(study: Study, advice: Advice) -> Iterable[dict[str, Any]]:
    yield from _path(study)
    for number, (one, marks) in enumerate(zip(advice.findings, advice.marks, strict=False), 1):
        # Slices of one row may not overlap: places that do are one.
        whole = intervals.union(marks.start, marks.end)
        about = {"detail": one.detail, "do": one.action, "where": one.where, "gain": trace.gain(one), "confidence": one.confidence}
        for place, (start, end) in enumerate(zip(whole.start.tolist(), whole.end.tolist(), strict=True)):
            yield _slice(number, one.title, start, end, **(about if not place else {"rule": one.rule}))
    causes = list(CAUSES)
    for place, device in enumerate(study.devices):
        idle = study.idles[device]
        most = np.argmax(idle.by, axis=1).tolist() if len(idle.by) else []
        for start, end, cause, by in zip(idle.gaps.start.tolist(), idle.gaps.end.tolist(), most, idle.by.tolist(), strict=True):
            parts = {f"{name}_ns": ns for name, ns in zip(causes, by, strict=True) if ns}
            yield _slice(1000 + place, f"idle: {causes[cause].replace('_', ' ')}", start, end, **parts)


def _path(study: Study) -> Iterator[dict[str, Any]]:
    """The critical path, first piece first. Its pieces lie one behind another."""
    if not study.devices:
        return
    found = replay.path(study.tasks, study.timed)
    if not len(found.task):
        return
    lengths: NDArray[np.int64] = np.rint(found.seconds * 1e9).astype(np.int64)
    ends = int(study.timed.end.max()) - np.concatenate([[0], np.cumsum(lengths)[:-1]])
    events, places = study.events, study.tasks.place[found.task]
    until = -(2**62)
    for i in range(len(lengths) - 1, -1, -1):
        start, end = max(int(ends[i] - lengths[i]), until), int(ends[i])  # rounding and clocks that disagree may make pieces overlap
        if end > start:
            name = events.names[int(events.name[places[i]])]
            yield _slice(0, f"{_TASK.get(found.kind[i], found.kind[i])}: {name}", start, end)
            until = end

