"""JAX and XLA: XPlane files (.xplane.pb) of `jax.profiler`, decoded by protobuf (extra `trace`).

Format: openxla/xla xla/tsl/profiler/protobuf/xplane.proto (XSpace > XPlane > XLine > XEvent); protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.errors import Unavailable
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.filling import FAR, Filling, Numbers, whole

NAME = "xplane"
ABOUT = "JAX and XLA profiles (.xplane.pb)"

LARGEST = 2 << 30  # what protobuf allows for a message
BLOCK = 1 << 16
MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    # of xplane.proto, what is read: field, its number and type; "*" may be repeated, what is no type is another message. Texts are bytes,
    # for a text that is not UTF-8 must not cost the file. The entries of maps hold their key once more.
    "Plane": {
        "name": (2, "bytes"), "lines": (3, "*Line"), "events": (4, "*EventEntry"), "stat_names": (5, "*StatEntry"), "stats": (6, "*Stat"),
    },
    "EventEntry": {"value": (2, "EventKind")}, "StatEntry": {"value": (2, "StatKind")},
    "EventKind": {"id": (1, "int64"), "name": (2, "bytes"), "display_name": (4, "bytes"), "stats": (5, "*Stat")},
    "StatKind": {"id": (1, "int64"), "name": (2, "bytes")},
    "Line": {
        "id": (1, "int64"), "name": (2, "bytes"), "timestamp_ns": (3, "int64"), "events": (4, "*Event"), "display_name": (11, "bytes"),
    },
    "Event": {"kind": (1, "int64"), "offset_ps": (2, "int64"), "duration_ps": (3, "int64"), "stats": (4, "*Stat")},
    "Stat": {"kind": (1, "int64"), "uint": (3, "uint64"), "int": (4, "int64"), "text": (5, "bytes"), "reference": (7, "uint64")},
}  # fmt: skip
_PLANES = re.compile(rb"\x12.{1,2}?(/host:|/device:|#|Task Environment|/)", re.DOTALL)
_DEVICE = re.compile(r"/device:(\w+):(\d+)")
_NUMBER = re.compile(r"#(\d+)")
_KERNEL = re.compile(
    r"regs:(\d+).*?static_shared:(\d+) dynamic_shared:(\d+) grid:(\d+),(\d+),(\d+) block:(\d+),(\d+),(\d+)(?:.*?occ_pct:([\d.]+))?"
)
_BYTES = re.compile(r"(?:size|num_bytes):(\d+)")
_RUNTIME = re.compile(r"(cu|cuda|hip|hsa_)[A-Z_a-z]*[A-Z]\w*$")
WANTED = ("correlation_id", "step_num", "kernel_details", "memcpy_details", "memset_details", "profile_start_time")


class DamagedPlane(Exception):
    """The wire format ends or is broken here."""


@functools.cache
def _plane_type() -> Any:
    """The class of a plane's message. Raises Unavailable without protobuf."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise Unavailable(f"XPlane files need protobuf ({error})", "pip install protobuf") from error
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="x")
    types = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "Stat":
            message.oneof_decl.add(name="value")
        for field, (number, kind) in fields.items():
            place = message.field.add(name=field, number=number, label=types.LABEL_REPEATED if kind[0] == "*" else types.LABEL_OPTIONAL)
            if kind.strip("*") in MESSAGES:
                place.type, place.type_name = types.TYPE_MESSAGE, f".x.{kind.strip('*')}"
            else:
                place.type = types.Type.Value(f"TYPE_{kind.upper()}")
            if name == "Stat" and field != "kind":
                place.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("x.Plane"))


def sniff(path: Path, head: bytes) -> bool:
    """A message whose first field is a plane, by its name or by the file's."""
    return head[:1] == b"\x0a" and (path.name.endswith(".xplane.pb") or _PLANES.search(head, 0, 64) is not None)


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one file. Raises Unavailable without protobuf."""
    plane_type = _plane_type()
    from google.protobuf.message import DecodeError

    data = packed.whole(path, LARGEST, ", which no message of protobuf is")
    fill, hosts, devices, began = Filling(into), [], [], 0
    try:
        for number, content in parts(data):
            if number == 1:
                plane = _Plane(plane_type.FromString(content), fill)
                plane.read()
                devices += plane.about
                began = max(began, whole(plane.facts.get("profile_start_time"), 0))
            elif number == 4:
                hosts.append(_text(content))
    except (DamagedPlane, DecodeError):
        into.notice("cut_off", "the file is cut off or damaged: what stands before that was read")
    origin = fill.origin_ns or 0
    facts = {"hosts": ", ".join(hosts)} if hosts else {}
    unix_ns = origin if origin > 10**18 else began + origin if began > 10**18 else None  # older files have wall clock times
    return fill.head(path, NAME, devices=devices, facts=facts, unix_ns=unix_ns)


def parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages and texts that the whole consists of, with their numbers: one at a time, so that those before damage are read.
    Raises Damaged."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire, size = tag & 7, {1: 8, 5: 4}.get(tag & 7, 0)
        if wire in (0, 2):
            value, at = _varint(data, at)
            size = value if wire == 2 else 0
        elif not size:
            raise DamagedPlane
        if size > len(data) - at:
            raise DamagedPlane
        if wire == 2:
            yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for shift, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value, at + shift + 1
    raise DamagedPlane


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class _Kind(NamedTuple):
    """What the events of one kind have in common."""

    name: str
    stats: dict[str, Any]


class _Row(NamedTuple):
    """What columns take of an event beside its times and correlation."""

    kind: int
    name: int
    launch: int
    moved: int


class _Plane:
    """A host or a device."""

    def __init__(self, message: Any, fill: Filling) -> None:
        self.fill, self.into, self.lines = fill, fill.into, message.lines
        self.name = _text(message.name)
        self.stats = {one.value.id: _text(one.value.name) for one in message.stat_names}
        self.wanted = {key: name for key, name in self.stats.items() if name in WANTED}
        values = [one.value for one in message.events]
        self.kinds = {
            one.id: _Kind(_text(one.display_name or one.name) or f"event {one.id}", self._facts(one.stats)) for one in values
        }  # fmt: skip
        self.facts = self._facts(message.stats)
        self.launches: dict[Any, int] = {}
        found = _DEVICE.search(self.name)
        self.device = whole(found[2]) if found else -1
        self.about: list[dict[str, Any]] = [{"id": self.device, "name": self.name}] if found else []

    def _facts(self, stats: Sequence[Any]) -> dict[str, Any]:
        """Those that columns take, by name."""
        return {self.wanted[one.kind]: self._value(one) for one in stats if one.kind in self.wanted}

    def _value(self, stat: Any) -> Any:
        given = stat.WhichOneof("value")
        if given == "text":
            return _text(stat.text)
        if given == "reference":
            return self.stats.get(stat.reference, "")
        return getattr(stat, given) if given in ("int", "uint") else None

    def read(self) -> None:
        """Adds the events of all lines."""
        lines = [(_text(one.name or one.display_name), one) for one in self.lines]
        streams = any(name.startswith("Stream") for name, _ in lines)
        for name, line in lines:
            for at in range(0, len(line.events), BLOCK):
                self._events(name, line, line.events[at : at + BLOCK], streams)

    def _events(self, line: str, message: Any, events: Sequence[Any], streams: bool) -> None:
        places: dict[tuple[Any, ...], int] = {}
        table, rows, linked = list[_Row](), list[int](), list[int]()
        for event in events:
            own = self._facts(event.stats)
            linked.append(whole(own.pop("correlation_id", None)))
            key = (event.kind, *own.items())
            if key not in places:
                places[key] = len(table)
                table.append(self._row(line, event.kind, own, streams))
            rows.append(places[key])
        count = len(rows)
        offset = _near(np.fromiter((one.offset_ps for one in events), np.int64, count))
        length = _near(np.fromiter((one.duration_ps for one in events), np.int64, count))
        kind, name, launch, moved = np.array(table, dtype=np.int64)[rows].T
        base = message.timestamp_ns if abs(message.timestamp_ns) < FAR else 0
        start, end = base + offset // 1000, base + (offset + length + 500) // 1000  # ps
        end = np.where(length < 0, start - 1, np.maximum(end, start))
        on_device = self.device >= 0
        stream = _NUMBER.search(line)
        thread = -1 if on_device else self.into.threads[self.name, str(message.id)]
        if not on_device:
            self.into.thread_names[self.name, str(message.id)] = line
        self.fill.add(
            start, end, kind=kind, name=name, thread=thread, device=self.device if on_device else -1,
            stream=np.full(count, whole(stream[1]) if stream else max(message.id, 0)) if on_device else -1,
            correlation=np.array(linked, dtype=np.int64), bytes=moved, launch=launch,
        )  # fmt: skip

    def _row(self, line: str, key: int, own: dict[str, Any], streams: bool) -> _Row:
        about = self.kinds.get(key) or _Kind(f"event {key}", {})
        facts = {**about.stats, **own}
        details = facts.get("kernel_details")
        if details not in self.launches:
            self.launches[details] = self._launch(details)
        size = _BYTES.search(str(facts.get("memcpy_details", facts.get("memset_details", ""))))
        kind, number = self._class(line, about.name, streams, facts), facts.get("step_num")
        name = f"step {number}" if kind == ev.MARKER and isinstance(number, int) else about.name  # StepTraceAnnotation
        return _Row(
            kind, self.into.names[name], self.launches[details],
            whole(size[1]) if size else -1,
        )  # fmt: skip

    def _class(self, line: str, name: str, streams: bool, facts: Mapping[str, Any]) -> int:
        """The kind of an event: by its plane and line, then by its name."""
        if self.device >= 0:
            if not (line.startswith("Stream") or (line == "XLA Ops" and not streams)):
                return ev.DEVICE_MARKER
            word = name.lower()
            if "memcpy_details" in facts or word.startswith(("memcpy", "copy-start", "copy-done")):
                return ev.COPY
            return ev.SET if "memset_details" in facts or word.startswith("memset") else ev.KERNEL
        if "step_num" in facts:
            return ev.MARKER
        if name.startswith("$"):
            return ev.PYTHON
        return ev.RUNTIME if _RUNTIME.match(name) else ev.OPERATOR

    def _launch(self, details: Any) -> int:
        found = _KERNEL.search(details) if isinstance(details, str) else None
        if found is None:
            return -1
        n = [whole(one) for one in found.groups()[:9]]
        occupancy = float(found[10]) if found[10] and found[10].count(".") < 2 and found[10] != "." else -1.0
        return self.into.launches[tuple(n[3:6]), tuple(n[6:9]), n[0], n[1] + n[2], occupancy]


def _near(times: Numbers) -> Numbers:
    """Those that no clock reads become one that is left out."""
    return np.where((times < FAR) & (times > -FAR), times, -FAR)
