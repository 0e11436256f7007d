"""JAX and XLA: XPlane files (.xplane.pb) of `jax.profiler`, decoded from protobuf's wire format.

Format: openxla/xla xla/tsl/profiler/protobuf/xplane.proto (XSpace > XPlane > XLine > XEvent); protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.filling import FAR, Filling, whole

NAME = "xplane"
ABOUT = "JAX and XLA profiles (.xplane.pb)"

LARGEST = 2 << 30  # what protobuf allows for a message
BLOCK = 1 << 16
_PLANES = re.compile(rb"\x12.{1,2}?(/host:|/device:|#|Task Environment|/)", re.DOTALL)
_DEVICE = re.compile(r"/device:(\w+):(\d+)")
_NUMBER = re.compile(r"#(\d+)")
_KERNEL = re.compile(
    r"regs:(\d+).*?static_shared:(\d+) dynamic_shared:(\d+) grid:(\d+),(\d+),(\d+) block:(\d+),(\d+),(\d+)(?:.*?occ_pct:([\d.]+))?"
)
_BYTES = re.compile(r"(?:size|num_bytes):(\d+)")
_RUNTIME = re.compile(r"(cu|cuda|hip|hsa_)[A-Z_a-z]*[A-Z]\w*$")
WANTED = ("correlation_id", "hlo_op", "step_num", "kernel_details", "memcpy_details", "memset_details", "profile_start_time")


class Damaged(Exception):
    """The wire format ends or is broken here."""


def sniff(path: Path, head: bytes) -> bool:
    """A message whose first field is a plane, by its name or by the file's."""
    return head[:1] == b"\x0a" and (path.name.endswith(".xplane.pb") or _PLANES.search(head, 0, 64) is not None)


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one file."""
    data = packed.whole(path, LARGEST, ", which no message of protobuf is")
    fill, hosts, devices, began = Filling(into), [], [], 0
    try:
        for number, value in fields(data, 0, len(data)):
            if number == 1 and isinstance(value, tuple):
                plane = _Plane(data, value, fill)
                plane.read()
                devices += plane.about
                began = max(began, whole(plane.said.get("profile_start_time"), 0))
            elif number == 4 and isinstance(value, tuple):
                hosts.append(_text(data, value))
    except Damaged:
        into.notice("cut_off", "the file is cut off or damaged: what stands before that was read")
    origin = fill.origin_ns or 0
    facts = {"hosts": ", ".join(hosts)} if hosts else {}
    unix_ns = origin if origin > 10**18 else began + origin if began > 10**18 else None  # older files have wall clock times
    return fill.head(path, NAME, devices=devices, facts=facts, unix_ns=unix_ns)


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int | tuple[int, int]]]:
    """Fields of a message: number, and a whole number or where its bytes stand. Raises Damaged."""
    while at < end:
        tag, at = varint(data, at, end)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at, end)
            yield tag >> 3, value
        elif wire == 2:
            size, at = varint(data, at, end)
            if size > end - at:
                raise Damaged
            yield tag >> 3, (at, at + size)
            at += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if size > end - at:
                raise Damaged
            yield tag >> 3, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise Damaged


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends; 64 bits at most, above 2⁶³ negative."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value if value < 1 << 63 else value - (1 << 64)) if value < 1 << 64 else 0, at
        shift += 7
        if shift > 63:
            break
    raise Damaged


def _text(data: bytes, place: tuple[int, int]) -> str:
    return data[place[0] : place[1]].decode("utf-8", "replace")


class _About(NamedTuple):
    """What the events of one kind have in common."""

    name: str
    stats: dict[int, Any]


class _Plane:
    """A host or a device."""

    def __init__(self, data: bytes, place: tuple[int, int], fill: Filling) -> None:
        self.data, self.fill, self.into = data, fill, fill.into
        self.name = ""
        self.lines: list[tuple[int, int]] = []
        self.kinds: dict[int, _About] = {}
        self.stats: dict[int, str] = {}
        self.about: list[dict[str, Any]] = []
        self.said: dict[str, Any] = {}
        events: list[tuple[int, int]] = []
        stats: list[tuple[int, int]] = []
        for number, value in fields(data, *place):
            if isinstance(value, tuple):
                if number == 2:
                    self.name = _text(data, value)
                elif number == 3:
                    self.lines.append(value)
                elif number == 4:
                    events.append(value)
                elif number == 5:
                    key, name = self._named(value)
                    self.stats[key] = name
                elif number == 6:
                    stats.append(value)
        self.wanted = {key for key, name in self.stats.items() if name in WANTED}
        for one in events:
            self._kind(one)
        told: dict[int, Any] = {}
        for one in stats:
            self._stat(one, told)
        self.said = {self.stats[key]: value for key, value in told.items()}
        found = _DEVICE.search(self.name)
        self.device = whole(found[2]) if found else -1
        if found:
            self.about = [{"id": self.device, "name": self.name}]

    def _entry(self, place: tuple[int, int]) -> Iterator[tuple[int, int | tuple[int, int]]]:
        """The value of an entry of a map."""
        for number, value in fields(self.data, *place):
            if number == 2 and isinstance(value, tuple):
                yield from fields(self.data, *value)

    def _named(self, place: tuple[int, int]) -> tuple[int, str]:
        key, name = 0, ""
        for number, value in self._entry(place):
            if number == 1 and isinstance(value, int):
                key = value
            elif number == 2 and isinstance(value, tuple):
                name = _text(self.data, value)
        return key, name

    def _kind(self, place: tuple[int, int]) -> None:
        key, name, shown = 0, "", ""
        stats: dict[int, Any] = {}
        for number, value in self._entry(place):
            if number == 1 and isinstance(value, int):
                key = value
            elif isinstance(value, tuple):
                if number == 2:
                    name = _text(self.data, value)
                elif number == 4:
                    shown = _text(self.data, value)
                elif number == 5:
                    self._stat(value, stats)
        self.kinds[key] = _About(shown or name or f"event {key}", stats)

    def _stat(self, place: tuple[int, int], into: dict[int, Any]) -> None:
        """A fact of an event, if it is one of those that columns take."""
        key = 0
        given: Any = None
        for number, value in fields(self.data, *place):
            if number == 1 and isinstance(value, int):
                key = value
                if key not in self.wanted:
                    return
            elif number == 7 and isinstance(value, int):
                given = self.stats.get(value, "")
            elif number in (3, 4):
                given = value
            elif number == 5 and isinstance(value, tuple):
                given = _text(self.data, value)
        if key in self.wanted:
            into[key] = given

    def read(self) -> None:
        """Adds the events of all lines."""
        heads = [self._line(one) for one in self.lines]
        streams = any(name.startswith("Stream") for name, *_ in heads)
        for name, number, start_ns, events in heads:
            for at in range(0, len(events), BLOCK):
                self._events(name, number, start_ns, events[at : at + BLOCK], streams)

    def _line(self, place: tuple[int, int]) -> tuple[str, int, int, list[tuple[int, int]]]:
        name, number, start_ns, events = "", 0, 0, []
        for field, value in fields(self.data, *place):
            if isinstance(value, tuple):
                if field == 4:
                    events.append(value)
                elif field == 2 or (field == 11 and not name):
                    name = _text(self.data, value)
            elif field == 1:
                number = value
            elif field == 3:
                start_ns = value
        return name, number, start_ns, events

    def _events(self, line: str, number: int, start_ns: int, events: list[tuple[int, int]], streams: bool) -> None:
        count, names = len(events), {value: key for key, value in self.stats.items()}
        found = [self._event(one) for one in events]
        offset, length, kind, name, launch = (np.zeros(count, np.int64) for _ in range(5))
        correlation, moved = np.full(count, -1), np.full(count, -1)
        about: dict[int, tuple[int, int]] = {}
        for i, (key, after, took, stats) in enumerate(found):
            given = self.kinds.get(key) or _About(f"event {key}", {})
            offset[i], length[i] = after, took
            told = {**given.stats, **stats} if stats else given.stats
            if key not in about or stats:
                about[key] = (
                    self._class(line, given.name, streams, {one for one in names if names[one] in told}),
                    self.into.names[given.name],
                )
            kind[i], name[i] = about[key]
            launch[i] = self._launch(told.get(names.get("kernel_details", -1)))
            correlation[i] = whole(told.get(names.get("correlation_id", -1)))
            if (
                size := _BYTES.search(str(told.get(names.get("memcpy_details", -1), told.get(names.get("memset_details", -1), ""))))
            ) is not None:
                moved[i] = whole(size[1])
        base = start_ns if abs(start_ns) < FAR else 0
        start, end = base + offset // 1000, base + (offset + length + 500) // 1000  # ps
        end = np.where(length < 0, start - 1, np.maximum(end, start))
        on_device = self.device >= 0
        stream = _NUMBER.search(line)
        thread = -1 if on_device else self.into.threads[self.name, str(number)]
        if not on_device:
            self.into.thread_names[self.name, str(number)] = line
        self.fill.add(
            start, end, kind=kind, name=name, thread=thread, device=self.device if on_device else -1,
            stream=np.full(count, whole(stream[1]) if stream else max(number, 0)) if on_device else -1,
            correlation=correlation, bytes=moved, launch=launch,
        )  # fmt: skip

    def _event(self, place: tuple[int, int]) -> tuple[int, int, int, dict[int, Any]]:
        key = after = took = 0
        stats: dict[int, Any] = {}
        for number, value in fields(self.data, *place):
            if isinstance(value, int):
                value = value if abs(value) < FAR else -FAR
                if number == 1:
                    key = value
                elif number == 2:
                    after = value
                elif number == 3:
                    took = value
            elif number == 4:
                self._stat(value, stats)
        return key, after, took, stats

    def _class(self, line: str, name: str, streams: bool, told: set[str]) -> int:
        """The kind of an event: by its plane and line, then by its name."""
        if self.device >= 0:
            if not (line.startswith("Stream") or (line == "XLA Ops" and not streams)):
                return ev.DEVICE_MARKER
            word = name.lower()
            if "memcpy_details" in told or word.startswith(("memcpy", "copy-start", "copy-done")):
                return ev.COPY
            return ev.SET if "memset_details" in told or word.startswith("memset") else ev.KERNEL
        if "step_num" in told:
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
