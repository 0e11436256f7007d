"""PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot`): allocations and frees with their Python stacks.

Such a file is a pickle, and unpickling runs code that the file names. So its opcodes are walked first and only those are let through
that make containers, texts and numbers; then it is decoded by an Unpickler that looks nothing up.
Format: pytorch torch/cuda/_memory_viz.py; opcodes: CPython Lib/pickletools.py.
"""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.filling import Filling, places, whole

NAME = "memory"
ABOUT = "PyTorch memory snapshots (.pickle)"

LARGEST = 1 << 30
CHANGES = {"alloc": 1, "free_completed": -1}
OTHERS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")
# Opcodes of a fixed length that make data: marks, containers, constants, memo, numbers.
_FIXED = re.compile(
    rb"(?:[()\]}\x85-\x89N\x94aesutdl02\x8f\x90]|[Khq].|M..|[Jj]....|G.{8}|\x95.{8}|\x80[\x02-\x05])*+", re.DOTALL
)  # fmt: skip
_SIZED = {0x8C: 1, 0x58: 4, 0x8D: 8, 0x55: 1, 0x54: 4, 0x43: 1, 0x42: 4, 0x8E: 8, 0x8A: 1}  # opcode: bytes of its length


def sniff(path: Path, head: bytes) -> bool:
    """A pickle of protocol 2 to 5."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one snapshot: `bytes` is the change, `external` the bytes allocated after it."""
    text = packed.whole(path, LARGEST, "; record fewer events (max_entries)")
    snapshot = _decoded(path, text)
    traces = snapshot.get("device_traces") if isinstance(snapshot, dict) else None
    if not isinstance(traces, list):
        raise InputError(
            f"'{path}' is a pickle but no memory snapshot of PyTorch: it has no device_traces; "
            "write one with torch.cuda.memory._dump_snapshot"
        )
    fill = Filling(into)
    held = _held(snapshot.get("segments"))
    left = len(text)  # no list can hold more entries than the file has bytes, unless it is a trap
    for device, trace in enumerate(traces[:1024]):
        entries = trace if isinstance(trace, list) else []
        left -= len(entries)
        if left < 0:
            raise InputError(f"'{path}' repeats its entries more often than a file of its size can hold; this is no snapshot")
        _Device(fill, device, held.get(device, 0)).read(entries)
    if not into.count:
        raise InputError(f"'{path}' holds no allocations; record them with torch.cuda.memory._record_memory_history() before the snapshot")
    return fill.head(path, NAME)


def _decoded(path: Path, text: bytes) -> Any:
    _walk(path, text)
    try:
        return _Plain(io.BytesIO(text)).load()
    except InputError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise InputError(f"'{path}' is damaged or cut off: it cannot be decoded as a pickle ({type(error).__name__})") from None


class _Plain(pickle.Unpickler):
    """Knows no classes and no functions."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise InputError(f"the pickle names {module}.{name}; only containers, texts and numbers are read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise InputError("the pickle names objects outside it; only containers, texts and numbers are read")


def _walk(path: Path, text: bytes) -> None:
    """Passes over all opcodes; InputError at the first that does more than make data, or whose length is past the file's end."""
    at, end = 0, len(text)
    while True:
        found = _FIXED.match(text, at)
        assert found is not None  # it matches nothing, too
        at = found.end()
        if at >= end:
            raise InputError(f"'{path}' is cut off: its pickle has no end")
        code = text[at]
        if code == 0x2E:  # the end
            return
        if code == 0x72 and at + 5 <= end and int.from_bytes(text[at + 1 : at + 5], "little") <= end:  # memo of protocol 2
            at += 5
            continue
        size = _SIZED.get(code)
        if size is None:
            raise InputError(
                f"'{path}' is refused: its pickle holds more than containers, texts and numbers (opcode 0x{code:02x} at byte {at})"
            )
        at += 1 + size
        at += int.from_bytes(text[at - size : at], "little")
        if at > end:
            raise InputError(f"'{path}' is cut off: its pickle has no end")


def _held(segments: Any) -> dict[int, int]:
    """Bytes allocated on each device when the snapshot was taken."""
    held: dict[int, int] = {}
    for one in segments if isinstance(segments, list) else []:
        if isinstance(one, dict):
            device = whole(one.get("device", 0))
            held[device] = held.get(device, 0) + max(whole(one.get("allocated_size")), 0)
    return held


class _Device:
    """The history of one device."""

    def __init__(self, fill: Filling, device: int, held: int) -> None:
        self.fill, self.into, self.device, self.held = fill, fill.into, device, held
        self.stacks: dict[int, int] = {}

    def read(self, entries: list[Any]) -> None:
        good = [one for one in entries if isinstance(one, dict) and isinstance(one.get("action"), str)]
        self.into.notice("unusual_form", "entries of another form than is usual were skipped", len(entries) - len(good))
        kept = [one for one in good if one["action"] in CHANGES or one["action"] in OTHERS]
        count = len(kept)
        if not count:
            return
        sign = np.fromiter((CHANGES.get(one["action"], 0) for one in kept), np.int64, count)
        size = np.fromiter((max(whole(one.get("size")), 0) for one in kept), np.int64, count)
        time = np.fromiter((whole(one.get("time_us")) for one in kept), np.int64, count)
        if (unknown := (time < 0) | (time > 1 << 51)).any():
            if unknown.all():
                self.into.notice("no_time", "entries have no time: they stand a microsecond apart", count)
                time = np.arange(count)
            else:
                time[unknown] = -(1 << 60)  # left out, with a notice
        after = np.cumsum(sign * size)
        total = np.where(sign != 0, after + (self.held - int(after[-1])), -1)
        known = self.held > 0 and bool((total[sign != 0] >= 0).all())
        start = np.where(time < 0, time, time * 1000)
        keys = ("[memory]" if one["action"] in CHANGES else one["action"] for one in kept)
        self.fill.add(
            np.where(time < 0, -(1 << 62), start), start, kind=np.where(sign != 0, ev.MEMORY, ev.OTHER),
            name=places(self.into.names, keys, count),
            device=np.full(count, self.device), stream=np.fromiter((_stream(one.get("stream")) for one in kept), np.int64, count),
            bytes=np.where(sign != 0, sign * size, size), external=total if known else -1,
            stack=np.fromiter((self._stack(one.get("frames")) for one in kept), np.int64, count) if "stack" in self.into.columns else -1,
        )  # fmt: skip

    def _stack(self, frames: Any) -> int:
        """Place of a call stack, innermost first as the profiler writes it; the same list stands for the same stack."""
        if not isinstance(frames, list) or not frames:
            return -1
        if (place := self.stacks.get(id(frames))) is None:
            lines = [f"{f.get('filename')}({f.get('line')}): {f.get('name')}"[:1000] for f in frames[:256] if isinstance(f, dict)]
            place = self.stacks[id(frames)] = self.into.stacks[";".join(lines)] if lines else -1
        return place


def _stream(value: Any) -> int:
    """0 is the default stream; others are addresses, of which the lower part tells them apart."""
    return whole(value, 0) & 0x7FFFFFFF
