"""PyTorch's profiler (Kineto), and Chrome's trace format that it writes: JSON, old and new spellings, packed or not, whole or cut.

Formats: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format);
pytorch/kineto libkineto/src/output_json.cpp for names of categories and arguments.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Raw

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.traces import events as ev
from hotlap.traces.building import Builder, readable
from hotlap.traces.events import FieldDoubt, Half, Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.phases import (
    DECODERS,
    FEW_ARGS,
    NOTHING,
    PIECE,
    SINGLE,
    Args,
    End,
    Event,
    FewEvent,
    Instant,
    Label,
    PhaseBegin,
    Whole,
)
from hotlap.traces.readers.pieces import HEAD, Pieces

NAME = "kineto"
ABOUT = "PyTorch profiler and other Chrome traces (JSON, .gz, .zip)"

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
FAR_US = 2.0**61 / 1000  # no clock of a profiler reads more

ON_DEVICE, UNKNOWN = 254, 255  # in place of a kind: work of a device, that its name divides; the same where it has a device and a stream
WAITS = re.compile(r"wait|synchroni[sz]|notifier|semaphore", re.IGNORECASE)
COPIES = re.compile(r"memcpy|(?:^|[^a-z])dma|h2d|d2h|d2d|htod|dtoh|dtod|host ?to ?device|device ?to ?host", re.IGNORECASE)

CATEGORIES = {
    "kernel": ev.KERNEL, "Kernel": ev.KERNEL, "gpu_op": ev.KERNEL, "mtia_kernel": ev.KERNEL, "mtia_workloadd": ON_DEVICE,
    "xpu_kernel": ev.KERNEL, "mtia_ccp_events": ON_DEVICE, "hpu_op": ON_DEVICE, "privateuse1": ON_DEVICE, "collective_comm": ON_DEVICE,
    "gpu_memcpy": ev.COPY, "Memcpy": ev.COPY, "mtia_memcpy": ev.COPY, "privateuse1_memcpy": ev.COPY, "hpu_memcpy": ev.COPY,
    "gpu_memset": ev.SET, "Memset": ev.SET, "concurrent_kernel": ev.KERNEL, "privateuse1_kernel": ev.KERNEL,
    "gpu_user_annotation": ev.DEVICE_MARKER, "cpu_op": ev.OPERATOR, "Operator": ev.OPERATOR, "python_function": ev.PYTHON,
    "cuda_runtime": ev.RUNTIME, "cuda_driver": ev.RUNTIME, "Runtime": ev.RUNTIME, "mtia_runtime": ev.RUNTIME,
    "privateuse1_runtime": ev.RUNTIME, "privateuse1_driver": ev.RUNTIME, "xpu_runtime": ev.RUNTIME, "cuda_sync": ev.SYNC,
    "user_annotation": ev.MARKER, "overhead": ev.OVERHEAD, "cpu_instant_event": ev.MEMORY, "glow_runtime": ev.RUNTIME, "Trace": ev.OTHER,
    "mtia_insight": ev.OTHER, "mtia_counters": ev.OTHER, "cuda_event": ev.OTHER, "cuda_profiler_range": ev.OTHER,
    "external_correlation": ev.OTHER, "other": ev.OTHER,
}  # fmt: skip
NO_MATTER = "it changes no share, cause or gain"
MATTERS = {  # field of an event → what of the result is less sure without it
    "correlation": "causes of idle time and gains leave that work out", "External id": "that work may have no operator",
    "external id": "that work may have no operator", "device": "the process stands for the device, which may move shares",
    "stream": "the thread stands for the stream, which may move gains", "bytes": "rates of copies leave it out",
    "Input Dims": "limits leave it out", "Input type": "limits leave it out", "Collective name": "the kernel's name tells the collective",
    "In msg nelems": "bandwidths of collectives leave it out", "Out msg nelems": "bandwidths of collectives leave it out",
}  # fmt: skip
MARKING = ("ProfilerStep", "enumerate(DataLoader)", "Optimizer.")


def sniff(path: Path, head: bytes) -> bool:
    """A JSON document with trace events, however much stands before them, or an array of objects with phases."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] not in (b"{", b"["):
        return False
    return b'"traceEvents"' in text or re.search(rb'"ph"\s*:\s*"', text) is not None or (text[:1] == b"{" and _far(path))


def _far(path: Path) -> bool:
    """Whether trace events begin behind the first bytes; also where as much stands before them as `read` refuses."""
    before, passed = b"", 0
    with contextlib.suppress(InputError, OSError), contextlib.closing(packed.blocks(path)) as blocks:
        for block in blocks:
            passed += len(block)
            if b'"traceEvents"' in before + block:
                return True
            if passed > HEAD:
                return True
            before = block[-16:]
    return False


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one file."""
    pieces = Pieces(packed.blocks(path), "traceEvents")
    work = _Reading(into)
    was_on = gc.isenabled()
    gc.disable()
    try:
        for piece in pieces:
            if not work.take(piece) and (other := pieces.earlier(piece, _sound_json)) != b"":
                work.take(piece if other is None else other, damaged=True)
    finally:
        if was_on:
            gc.enable()
    work.finish()
    if pieces.truncated:
        into.notice("cut_off", "the file is cut off: what stands before the cut was read")
    if not into.count:
        raise InputError(f"'{path}' holds no events with a start and a duration")
    return _head(path, pieces, work, into)


class _Reading:
    """Pieces decoded and put into columns."""

    def __init__(self, into: Builder) -> None:
        self.into = into
        self.whole = "correlation" in into.columns
        self.decoder = DECODERS["all" if self.whole else "breakdown"]
        self.event = Event if self.whole else FewEvent
        self.kinds = _Kinds()
        self.open: dict[tuple[Any, Any], list[PhaseBegin]] = {}
        self.origin_us: float | None = None
        self.marking = np.empty(0, np.int64)  # places of names that are markers whatever their category is
        self.named = 0
        self.moments: list[Instant] = []
        self.halves: list[tuple[Literal["begin", "end", "other"], PhaseBegin | End, str]] = []

    def take(self, piece: bytes, damaged: bool = False) -> bool:
        """Adds the events of a piece; False, and nothing added, where it is no JSON and is not said to be damaged."""
        try:
            events = self.decoder.decode(b"[" + piece + b"]")
        except UNREADABLE:
            if not damaged and not _sound_json(piece):
                return False
            events = self._one_by_one(piece)
        event = self.event
        whole = [one for one in events if one.__class__ is event]
        if len(whole) != len(events):
            whole += self._others(events)
        if whole:
            self._columns(whole)
        return True

    def _one_by_one(self, piece: bytes) -> list[Any]:
        """The events of a piece that does not decode as a whole: those that are well are kept, others mended or counted."""
        text = piece
        try:
            raws = PIECE.decode(b"[" + text + b"]")
        except UNREADABLE:
            text = piece.decode("utf-8", "replace").encode()
            try:
                raws = PIECE.decode(b"[" + text + b"]")
                self.into.notice("not_utf8", "bytes that are not UTF-8 were replaced", 1)
            except UNREADABLE:
                raws = list(_objects(text))
                self.into.notice("not_json", "places that are no JSON were skipped", 1)
        events: list[Any] = []
        single = SINGLE["all" if self.whole else "breakdown"]
        for raw in raws:
            try:
                events.append(single.decode(raw))
            except UNREADABLE:
                events += self._mended(bytes(raw))
        return events

    def _mended(self, raw: bytes) -> list[Any]:
        """An event with a value of another type than is usual (N/A, a number as text, null): without the arguments that are so."""
        try:
            loose = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            self.into.notice("not_json", "events that are no JSON were skipped")
            return []
        if not isinstance(loose, dict) or loose.get("ph") not in ("X", "B", "E"):
            return []
        start, length = _number(loose.get("ts")), _number(loose.get("dur", 0))
        if start is None or length is None:
            self.into.notice("no_time", "events without a time were skipped")
            return []
        args = loose.get("args")
        event: dict[str, Any] = {"ph": loose["ph"], "ts": start, "dur": length, "args": _usable(args if isinstance(args, dict) else {})}
        for key in ("pid", "tid", "name", "cat"):
            given = loose.get(key, "")
            number = key in ("pid", "tid") and type(given) is int and abs(given) < 2**62
            event[key] = given if number else readable(str(given))
        if isinstance(args, dict):
            for key in _FIELDS & set(args) - set(event["args"]):
                seen = f"'{key}' is of an unusual type in some events, which were read without it: {MATTERS.get(key, NO_MATTER)}"
                self.into.notice("unusual_values", seen)
                doubt = key, MATTERS.get(key, "")
                self.into.doubts[doubt] = self.into.doubts.get(doubt, 0) + 1
        return [msgspec.convert(event, {"X": self.event, "B": PhaseBegin, "E": End}[loose["ph"]])]

    def _others(self, events: list[Any]) -> list[Any]:
        """Labels are kept; halves are joined; moments of memory are kept."""
        others = []
        for event in events:
            kind = event.__class__
            if kind is Instant:
                if event.name == "[memory]" and self.whole:
                    self.moments.append(event)
            elif kind is Label:
                self._label(event)
            elif kind is PhaseBegin:
                self.open.setdefault((event.pid, event.tid), []).append(event)
            elif kind is End:
                begun = self.open.get((event.pid, event.tid))
                if not begun:
                    self.into.notice("half_range", "ends without a beginning were skipped")
                    self._half("end", event)
                    continue
                half = begun.pop()
                if event.name and event.name != half.name:
                    self.into.notice("half_range", "ends that close a range of another name were taken as its end")
                    self._half("other", event, half.name)
                args: Any = half.args if self.whole else FEW_ARGS
                others.append(
                    self.event(name=half.name, cat=half.cat, ts=half.ts, dur=event.ts - half.ts, pid=half.pid, tid=half.tid, args=args)
                )
        return others

    def _half(self, what: Literal["begin", "end", "other"], half: PhaseBegin | End, closes: str = "") -> None:
        if len(self.halves) < ev.MOST_HALVES and abs(half.ts) < FAR_US:
            self.halves.append((what, half, closes))

    def _label(self, label: Label) -> None:
        if label.name == "thread_name" and isinstance(label.args.get("name"), str):
            self.into.thread_names[str(label.pid), str(label.tid)] = label.args["name"]

    def _columns(self, events: list[Any]) -> None:
        into, count = self.into, len(events)
        start = np.fromiter(map(_TS, events), np.float64, count)
        length = np.fromiter(map(_DUR, events), np.float64, count)
        kind = np.fromiter(map(self.kinds.__getitem__, map(_CAT, events)), np.uint8, count)
        good = (np.abs(start) < FAR_US) & (length >= 0) & (length < FAR_US)  # what is no number is none of these
        if not good.all():
            into.notice("no_time", "events without a time or of negative duration were skipped", int(count - good.sum()))
            events = [one for one, fine in zip(events, good, strict=True) if fine]
            start, length, kind, count = start[good], length[good], kind[good], len(events)
            if not count:
                return
        if self.origin_us is None:
            self.origin_us = math.floor(float(start.min()))
        args = list(map(_ARGS, events))
        device = np.fromiter(map(_DEVICE, args), np.int64, count)
        try:
            stream = np.fromiter(map(_STREAM, args), np.int64, count)
        except (TypeError, ValueError, OverflowError):
            stream = np.fromiter((one if isinstance(one := a.stream, int) and abs(one) < 2**62 else -1 for a in args), np.int64, count)
        name = np.fromiter(map(into.names.__getitem__, map(_NAME, events)), np.int32, count)
        kind[(kind == ev.OPERATOR) & self._marks(name)] = ev.MARKER
        self._by_name(kind, name, (device >= 0) & (stream >= 0))
        on_device = kind <= ev.DEVICE_MARKER
        self._places(events, np.flatnonzero(on_device & ((device < 0) | (stream < 0))), device, stream)
        into.add(
            start=np.rint((start - self.origin_us) * 1000).astype(np.int64),
            duration=np.rint(length * 1000).astype(np.int64),
            kind=kind,
            name=name,
            thread=np.where(on_device, -1, np.fromiter(map(into.threads.__getitem__, map(_PLACE, events)), np.int32, count)),
            device=np.where((device < 0) | (device > 32767), -1, device),
            stream=np.where((stream < 0) | (stream > 2**31 - 1), -1, stream),
            **(self._more(args, kind, count) if self.whole else {}),
        )

    def _by_name(self, kind: Any, name: Any, placed: Any) -> None:
        """Sets the kinds of events of an accelerator's own category, which has work, copies and waits in one."""
        kind[(kind == UNKNOWN) & ~placed] = ev.OTHER
        mixed = np.flatnonzero(kind >= ON_DEVICE)
        if len(mixed):
            used, inverse = np.unique(name[mixed], return_inverse=True)
            names = list(self.into.names)
            kind[mixed] = np.array([_device_kind(names[i]) for i in used], np.uint8)[inverse]

    def _marks(self, name: Any) -> Any:
        """Which of these names old profilers wrote as operators though they mark a part of the program."""
        if len(self.into.names) > self.named:
            fresh = list(self.into.names)[self.named :]
            more = [self.named + i for i, text in enumerate(fresh) if text.startswith(MARKING)]
            self.marking, self.named = np.append(self.marking, more).astype(np.int64), len(self.into.names)
        return np.isin(name, self.marking) if len(self.marking) else np.zeros(len(name), bool)

    def _places(self, events: list[Any], where: Any, device: Any, stream: Any) -> None:
        """Work on a device that has no such arguments: process and thread stand for device and stream."""
        for at in where:
            one = events[at]
            if device[at] < 0:
                number = _number(one.pid)
                device[at] = number if number is not None and number < 4096 else 0
            if stream[at] < 0:
                number = _number(str(one.tid).removeprefix("stream").strip())
                stream[at] = number if number is not None and abs(number) < 2**31 else 0

    def _more(self, args: list[Args], kind: Any, count: int) -> dict[str, Any]:
        into = self.into
        external = np.fromiter(map(_EXTERNAL, args), np.int64, count)
        if (old := external < 0).any():
            external[old] = np.fromiter((a.external_old for a, o in zip(args, old, strict=True) if o), np.int64, int(old.sum()))
        moved = np.fromiter(map(_BYTES, args), np.int64, count)
        if (unknown := (moved < 0) & (kind == ev.RUNTIME)).any():
            moved[unknown] = np.fromiter((args[i].size for i in np.flatnonzero(unknown)), np.int64, int(unknown.sum()))
        columns = {
            "correlation": np.fromiter(map(_CORRELATION, args), np.int64, count), "external": external, "bytes": moved,
            "sequence": np.fromiter(map(_SEQUENCE, args), np.int64, count),
        }  # fmt: skip
        shape, launch, talk, stack = (np.full(count, -1, np.int32) for _ in range(4))
        for at in np.flatnonzero((kind == ev.OPERATOR) | (kind == ev.MARKER)):
            extra = args[at]
            if extra.dims is not NOTHING:
                shape[at] = into.shapes[bytes(extra.dims), bytes(extra.types), bytes(extra.strides), bytes(extra.values)]
            if extra.stack is not NOTHING:
                stack[at] = into.stacks[bytes(extra.stack)]
            if extra.collective:
                talk[at] = into.collectives[extra.collective, extra.dtype, extra.elements_in, extra.elements_out, extra.group, extra.ranks]
        for at in np.flatnonzero(kind == ev.KERNEL):
            extra = args[at]
            if extra.grid is not NOTHING:
                launch[at] = into.launches[bytes(extra.grid), bytes(extra.block), extra.registers, extra.shared, extra.occupancy]
            if extra.collective:
                talk[at] = into.collectives[extra.collective, extra.dtype, extra.elements_in, extra.elements_out, extra.group, extra.ranks]
        return {**columns, "shape": shape, "launch": launch, "collective": talk, "stack": stack}

    def finish(self) -> None:
        """Halves that never ended, and the moments of memory."""
        left = [one for begun in self.open.values() for one in begun]
        self.into.notice("half_range", "beginnings without an end were skipped", len(left))
        for one in left:
            self._half("begin", one)
        moments = [one for one in self.moments if abs(one.ts) < FAR_US]
        if moments and self.origin_us is not None:
            count = len(moments)
            start = np.fromiter(map(_TS, moments), np.float64, count)
            self.into.add(
                start=np.rint((start - self.origin_us) * 1000).astype(np.int64), duration=0, kind=ev.MEMORY,
                name=np.full(count, self.into.names["[memory]"]),
                thread=np.fromiter(map(self.into.threads.__getitem__, map(_PLACE, moments)), np.int32, count),
                device=np.fromiter((one.args.device if -1 < one.args.device < 2**15 else -1 for one in moments), np.int16, count),
                bytes=np.fromiter((one.args.change for one in moments), np.int64, count),
                external=np.fromiter((one.args.total for one in moments), np.int64, count),
                correlation=np.fromiter((one.args.reserved for one in moments), np.int64, count),
                sequence=np.fromiter((one.args.address for one in moments), np.int64, count),
            )  # fmt: skip


_TS, _DUR, _CAT, _ARGS, _NAME = (attrgetter(key) for key in ("ts", "dur", "cat", "args", "name"))
_PLACE = attrgetter("pid", "tid")
_DEVICE, _STREAM, _CORRELATION, _SEQUENCE = (attrgetter(key) for key in ("device", "stream", "correlation", "sequence"))
_EXTERNAL, _BYTES = attrgetter("external"), attrgetter("bytes")
_NUMBERS = {one.encode_name for one in msgspec.structs.fields(Args) if one.type in (Whole, Whole | str, float)}
_RAWS = {one.encode_name for one in msgspec.structs.fields(Args) if one.type is Raw}
_FIELDS = {one.encode_name for one in msgspec.structs.fields(Args)}
_TEXTS = {one.encode_name for one in msgspec.structs.fields(Args) if one.type is str}


class _Kinds(dict[str, int]):
    """Kind of a category; one that is not known is guessed by its words and remembered."""

    def __init__(self) -> None:
        super().__init__(CATEGORIES)

    def __missing__(self, category: str) -> int:
        word = category.lower()
        kind = UNKNOWN
        if "memcpy" in word:
            kind = ev.COPY
        elif "memset" in word:
            kind = ev.SET
        elif "kernel" in word:
            kind = ev.KERNEL
        elif "runtime" in word or "driver" in word:
            kind = ev.RUNTIME
        elif word.endswith("_user_annotation"):
            kind = ev.DEVICE_MARKER
        elif "annotation" in word:
            kind = ev.MARKER
        self[category] = kind
        return kind


def _device_kind(name: str) -> int:
    """What an event on a device is: a wait keeps it from nothing, so it only marks."""
    if WAITS.search(name):
        return ev.DEVICE_MARKER
    if COPIES.search(name):
        return ev.COPY
    return ev.SET if "memset" in name.lower() else ev.KERNEL


def _sound_json(piece: bytes) -> bool:
    """Whether a piece is a list of JSON's values."""
    try:
        PIECE.decode(b"[" + piece + b"]")
    except UNREADABLE:
        return False
    return True


def _number(value: Any) -> float | None:
    """A finite number, also where it is written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _thread(half: PhaseBegin | End, into: Builder) -> str:
    """A thread for people."""
    name = into.thread_names.get((str(half.pid), str(half.tid)), "")
    return f"{half.pid}/{half.tid}" + (f" {name}" if name else "")


def _usable(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the types that are usual; numbers written as text are read."""
    kept: dict[str, Any] = {}
    for key, value in args.items():
        if key in _NUMBERS:
            number = _number(value)
            if number is not None and abs(number) < 2**62:
                kept[key] = number if "%" in key else int(number)
        elif key in _TEXTS and isinstance(value, str):
            kept[key] = readable(value)
        elif key in _RAWS:
            kept[key] = Raw(json.dumps(_sound(value)).encode())
    return kept


def _objects(text: bytes) -> Iterator[Raw]:
    """Objects in damaged text: those that decode by themselves."""
    decoder = json.JSONDecoder()
    whole, at = text.decode("utf-8", "replace"), 0
    while (at := whole.find("{", at)) >= 0:
        try:
            _, end = decoder.raw_decode(whole, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield Raw(whole[at:end].encode())
        at = end


def _sound(value: Any, depth: int = 0) -> Any:
    """JSON whose numbers and texts can be written again: no numbers past 64 bits, no halves of characters, not deeper than eight."""
    if isinstance(value, dict):
        return {readable(key): _sound(one, depth + 1) for key, one in value.items()} if depth < 8 else {}
    if isinstance(value, list):
        return [_sound(one, depth + 1) for one in value] if depth < 8 else []
    if isinstance(value, str):
        return readable(value)
    return None if isinstance(value, int | float) and not abs(value) < 2**63 else value


def _head(path: Path, pieces: Pieces, work: _Reading, into: Builder) -> Head:
    """What the file says beside its events."""
    head: dict[str, Any] = {}
    for text in (pieces.before, pieces.after):
        try:
            found = json.loads(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            into.notice("not_json", "what the file says beside its events is no JSON and was not read")
            continue
        if isinstance(found, dict):
            head |= _sound(found)
    head.pop("traceEvents", None)
    spread = head.pop("distributedInfo", None)
    spread = spread if isinstance(spread, dict) else {}
    devices = head.pop("deviceProperties", None)
    origin_ns = round((work.origin_us or 0.0) * 1000)
    base_ns = head.pop("baseTimeNanoseconds", None)
    rank, ranks = (None if (n := _number(spread.get(key))) is None or abs(n) > 2**31 else int(n) for key in ("rank", "world_size"))
    return Head(
        reader=NAME,
        origin_ns=origin_ns,
        unix_ns=origin_ns + base_ns if isinstance(base_ns, int) and abs(base_ns) < 2**62 else origin_ns if origin_ns > 10**18 else None,
        rank=rank,
        ranks=ranks,
        devices=[one for one in devices if isinstance(one, dict)] if isinstance(devices, list) else [],
        facts={key: value for key, value in head.items() if isinstance(value, str | int | float | bool)}
        | {key: value for key, value in spread.items() if isinstance(value, str)}
        | ({"groups": groups} if isinstance(groups := spread.get("pg_config"), list) else {}),
        notices=[Notice(code, seen, count=count) for (code, seen), count in into.notices.items()],
        doubts=[FieldDoubt(field=field, events=n, matters=bool(affects), affects=affects) for (field, affects), n in into.doubts.items()],
        halves=[
            Half(what=what, name=one.name, start_ns=round(one.ts * 1000) - origin_ns, thread=_thread(one, into), closes=closes)
            for what, one, closes in work.halves
        ],
    )
