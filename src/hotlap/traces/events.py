"""What every profiler's file becomes: events in columns, texts in tables, and how the file was read."""

from __future__ import annotations

import mmap
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice, Record
from hotlap.traces.intervals import Times

Column = NDArray[Any]

# What an event is. Of a memory event, which is a moment, `bytes` is the change, `external` what is allocated after it, `correlation`
# what the allocator holds after it, `sequence` the address; −1 unknown. Device: kernel, copy, set, device_marker. Host: the others.
KINDS = ("kernel", "copy", "set", "device_marker", "operator", "python", "runtime", "sync", "marker", "overhead", "memory", "other")
KERNEL, COPY, SET, DEVICE_MARKER, OPERATOR, PYTHON, RUNTIME, SYNC, MARKER, OVERHEAD, MEMORY, OTHER = range(len(KINDS))
WORK = (KERNEL, COPY, SET)  # what keeps a device busy
PART = 1 << 18  # events looked at together, where a column may be larger than memory

COLUMNS = {
    "start": np.int64,  # ns since `origin_ns`
    "duration": np.int64,  # ns
    "kind": np.uint8,  # place in KINDS
    "name": np.int32,  # place in names
    "thread": np.int32,  # place in threads; of host events; −1 none
    "device": np.int16,  # −1 none
    "stream": np.int32,  # −1 none
    "correlation": np.int64,  # joins a call of the driver and its work on the device; −1 none
    "external": np.int64,  # joins an operator and the calls it made; −1 none
    "sequence": np.int64,  # joins forward and backward of an operator; −1 none
    "bytes": np.int64,  # moved; −1 unknown
    "shape": np.int32,  # place in shapes; −1 unknown
    "launch": np.int32,  # place in launches; −1 none
    "collective": np.int32,  # place in collectives; −1 none
    "stack": np.int32,  # place in stacks: Python call stack; −1 none
}
MOST_HALVES = 1000  # kept in a head
BREAKDOWN = ("start", "duration", "kind", "name", "thread", "device", "stream")  # what the breakdown needs


class Thread(NamedTuple):
    """A host thread."""

    process: str
    thread: str
    name: str = ""


class LaunchShape(NamedTuple):
    """Arguments of an operator, as the profiler wrote them (JSON)."""

    dims: str  # [[64,128],[128,256]]
    types: str  # ["c10::BFloat16", …]
    strides: str = ""
    values: str = ""  # of arguments that are no tensors


class KernelLaunch(NamedTuple):
    """How a kernel was launched."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int  # per thread; −1 unknown
    shared_bytes: int  # per block; −1 unknown
    occupancy: float  # estimated share of warps; −1 unknown


class Collective(NamedTuple):
    """What a communication kernel or its operator does."""

    name: str
    dtype: str
    elements_in: int
    elements_out: int
    group: str
    ranks: int  # in the group; 0 unknown


class Half(Record, frozen=True, kw_only=True):
    """A beginning without an end, an end without a beginning, or an end that closes a range of another name."""

    what: Literal["begin", "end", "other"]
    name: str  # of the range; "" where the format does not tell
    start_ns: int  # since the origin
    thread: str  # process and thread as the trace names them
    domain: str = ""
    closes: str = ""  # the open range that an end of another name closed


class FieldDoubt(Record, frozen=True, kw_only=True):
    """A field that some events were read without, because its value is of an unusual type."""

    field: str  # as the profiler calls it
    events: int
    matters: bool  # whether any share, cause or gain is less sure for it
    affects: str = ""  # what is, for people to read; "" nothing


class Head(Record, frozen=True, kw_only=True):
    """What a trace says of itself beside its events."""

    reader: str  # kineto, nsys, …
    origin_ns: int = 0  # what `start` counts from: the first event, on the clock of the trace
    unix_ns: int | None = None  # the same moment by the wall clock, where the file tells
    rank: int | None = None
    ranks: int | None = None
    devices: list[dict[str, Any]] = []  # as the profiler describes them
    facts: dict[str, Any] = {}  # versions and settings the file names
    notices: list[Notice] = []
    doubts: list[FieldDoubt] = []  # fields that `unusual_values` among the notices are about
    halves: list[Half] = []  # the first MOST_HALVES of them; `notices` counts all


class Tables(NamedTuple):
    """Texts and tuples that columns point into."""

    names: list[str]
    threads: list[Thread]
    shapes: list[LaunchShape]
    launches: list[KernelLaunch]
    collectives: list[Collective]
    stacks: list[str]


class Events:
    """A recorded trace: one array per column (`start`, `duration`, `kind`, …, see COLUMNS), tables, and what the file says of itself.

    Columns are in the order of the file, int64 nanoseconds from `head.origin_ns`.
    """

    start: Times
    duration: Times
    kind: Column
    name: Column
    thread: Column
    device: Column
    stream: Column
    correlation: Column
    external: Column
    sequence: Column
    bytes: Column
    shape: Column
    launch: Column
    collective: Column
    stack: Column

    def __init__(self, path: str, head: Head, columns: dict[str, Column], tables: Tables) -> None:
        self.path, self.head, self.columns, self.tables = path, head, columns, tables
        self.names, self.threads, self.shapes, self.launches, self.collectives, self.stacks = tables

    def __getattr__(self, name: str) -> Column:
        if name in COLUMNS and "columns" in self.__dict__:
            if name not in self.columns:
                raise AttributeError(f"this trace was opened without its column '{name}'; open it whole")
            return self.columns[name]
        raise AttributeError(f"events have no '{name}'")

    def __len__(self) -> int:
        return len(self.columns["start"])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {Path(self.path).name}: {len(self):,} events by {self.head.reader}>"

    @property
    def end(self) -> Times:
        """ns since the origin, of each event."""
        end: Times = self.start + self.duration
        return end

    @cached_property
    def work(self) -> NDArray[np.int64]:
        """Places of the events that keep a device busy, by start."""
        places = self.of_kind(*WORK)
        return places[np.argsort(self.at("start", places), kind="stable")]

    def of_kind(self, *kinds: int) -> NDArray[np.int64]:
        """Places of the events of these kinds, in the order of the file."""
        wanted = np.zeros(256, bool)
        wanted[list(kinds)] = True
        found = [i + np.flatnonzero(wanted[self.kind[i : i + PART]]) for i in range(0, len(self), PART)]
        self._let_go("kind")
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def at(self, name: str, places: NDArray[np.int64]) -> Column:
        """A column at some places; of a column in a file, what was read of it does not stay in memory."""
        column = self.columns[name]
        found = np.empty(len(places), column.dtype)
        for i in range(0, len(places), PART):
            found[i : i + PART] = column[places[i : i + PART]]
            self._let_go(name)
        return found

    def _let_go(self, name: str) -> None:
        held = getattr(self.columns[name], "_mmap", None)
        if held is not None and hasattr(mmap, "MADV_DONTNEED"):
            held.madvise(mmap.MADV_DONTNEED)

    def named(self, places: NDArray[np.int64]) -> list[str]:
        """Names of events."""
        return [self.names[i] for i in self.name[places]]
