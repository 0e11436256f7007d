"""Which lines own the peak of a CUDA memory snapshot: `torch.cuda.memory._snapshot()`, kept by `_dump_snapshot()` as a pickle, or as JSON.

Its format is what the docstring of `_snapshot` says (PyTorch 2.13, torch/cuda/memory.py). A pickle of someone else's can run code when it
is loaded; so those with plain values alone are read, and every other one is refused. No PyTorch is needed.

The allocator's history is walked from its end, where all blocks that are there are known, to its begin: that way a history which is cut off
at its begin, as a long one is, still gives the right totals.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.training.memory_record import MemoryAccount, OwnedLine

SUFFIXES = (".pickle", ".pkl", ".json")
MOST_BYTES, MOST_ENTRIES, MOST_FRAMES = 2**31, 20_000_000, 200
LINES = 12
UNKNOWN = "before the history began"
NO_LINE = "no line of Python: autograd's own threads have none"
NO_STACKS = "no line: the history was recorded without stacks"
GROWS, SHRINKS = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")
PLAIN = (
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "LIST", "APPEND",
    "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2",
    "LONG", "LONG1", "FLOAT", "BINFLOAT", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "PUT", "BINPUT", "LONG_BINPUT",
    "MEMOIZE", "GET", "BINGET", "LONG_BINGET",
)  # fmt: skip  # opcodes that make no object of a class, and call nothing
BROKEN = (
    msgspec.MsgspecError, pickle.UnpicklingError, EOFError, ValueError, TypeError, IndexError, AttributeError, OverflowError, MemoryError,
    RecursionError,
)  # fmt: skip  # what loading a file that is none raises


class SnapshotBlock(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A piece of a segment."""

    size: int
    state: str
    requested_size: int | None = None
    address: int | None = None  # older versions: it follows from the sizes before
    frames: Any = ()


class SnapshotSegment(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What the driver gave at once."""

    address: int
    total_size: int
    blocks: list[SnapshotBlock]
    device: int = 0


class SnapshotEntry(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """One action of the allocator. `frames`: the innermost first; entries share them."""

    did: str = msgspec.field(name="action")
    addr: int | None = None
    size: int = 0
    device_free: int | None = None
    frames: Any = ()


class MemorySnapshot(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    segments: list[SnapshotSegment]
    device_traces: list[list[SnapshotEntry]] = []


class _Plain(pickle._Unpickler):  # the one in Python, whose table can be cut down
    """Knows no opcode that could name a class or call a function."""

    dispatch = {getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]] for name in PLAIN}


def is_snapshot(target: str) -> bool:
    return target.lower().endswith(SUFFIXES)


def read(path: Path) -> tuple[MemorySnapshot, str]:
    """And its file's SHA-256. Raises InputError for a file that is none, and for a pickle of anything but plain values."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: more than 2 GiB; record less: _record_memory_history(max_entries=…)")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    plain = _plain(path, data)
    if not isinstance(plain, dict) or not isinstance(plain.get("segments"), list):
        raise InputError(f"{path} is no memory snapshot: it has no 'segments'; write one with torch.cuda.memory._dump_snapshot(FILE)")
    if _entries(plain) > MOST_ENTRIES:
        raise InputError(f"{path}: more than {MOST_ENTRIES:,} entries; record less: _record_memory_history(max_entries=…)")
    try:
        return msgspec.convert(plain, MemorySnapshot), hashlib.sha256(data).hexdigest()
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{path} is no memory snapshot: {' '.join(str(error).split())[:200]}") from None


def _plain(path: Path, data: bytes) -> Any:
    """Dictionaries, lists, tuples, strings and numbers. Raises InputError for all else."""
    try:
        return msgspec.json.decode(data) if path.suffix.lower() == ".json" else _Plain(io.BytesIO(data)).load()
    except KeyError as error:
        opcode = error.args[0]
        if isinstance(opcode, int):
            held = f"{path} holds more than plain values (opcode {bytes([opcode])!r})"
            raise InputError(f"{held}, so it is not loaded: it could run code") from None
    except BROKEN:
        pass
    raise InputError(f"{path} is no {'JSON' if path.suffix.lower() == '.json' else 'pickle'} of a memory snapshot, or is cut off")


def _entries(plain: Mapping[str, Any]) -> int:
    """How many there are, before any is looked at: a few bytes of a pickle can refer to one list a million times."""
    traces = plain.get("device_traces")
    lists = [*(traces if isinstance(traces, list) else ()), *(one.get("blocks") for one in plain["segments"] if isinstance(one, dict))]
    return len(plain["segments"]) + sum(len(one) for one in lists if isinstance(one, list))


class _Live(NamedTuple):
    """A block that is there at the peak. `known`: when it was made is in the history."""

    bytes: int
    frames: Any
    held: bool  # until the snapshot was taken
    known: bool = False


def account(snapshot: MemorySnapshot) -> MemoryAccount:
    """Of the device with the highest peak. Raises InputError where nothing was allocated."""
    devices = sorted({segment.device for segment in snapshot.segments} | {at for at, trace in enumerate(snapshot.device_traces) if trace})
    every = [_of_device(snapshot, device) for device in devices]
    if not every or not max(one.peak_bytes for one in every):
        raise InputError("the snapshot has no allocation: call torch.cuda.memory._record_memory_history() before the step")
    return max(every, key=lambda one: one.peak_bytes)


def _of_device(snapshot: MemorySnapshot, device: int) -> MemoryAccount:
    trace = snapshot.device_traces[device] if device < len(snapshot.device_traces) else []
    segments = [segment for segment in snapshot.segments if segment.device == device]
    ends = dict(_blocks(segments))
    peak, at = _peak(trace, ends)
    live = _live(trace, ends, at)
    oom = next((entry for entry in reversed(trace) if entry.did == "oom"), None)
    parts: Counter[str] = Counter()
    lines: dict[tuple[str, str], list[Any]] = {}
    stacks = any(block.frames for block in live)
    for block in live:
        where, op, kind = _owner(block, stacks)
        parts[kind] += block.bytes
        line = lines.setdefault((where, kind), [0, 0, Counter()])
        line[0], line[1] = line[0] + block.bytes, line[1] + 1
        line[2][op] += block.bytes
    largest = sorted(lines.items(), key=lambda item: -item[1][0])[:LINES]
    return MemoryAccount(
        how="snapshot", peak_bytes=peak, parts=dict(parts), device=device, reserved_bytes=_reserved(trace, segments),
        refused_bytes=oom.size if oom else None, free_bytes=oom.device_free if oom else None, wanted_bytes=_wanted(trace, ends),
        lines=[
            OwnedLine(where=where, kind=kind, bytes=size, tensors=count, op=ops.most_common(1)[0][0])
            for (where, kind), (size, count, ops) in largest
        ],
    )  # fmt: skip


def _blocks(segments: Sequence[SnapshotSegment]) -> list[tuple[int, _Live]]:
    """Address → block, of those that are allocated as the snapshot ends."""
    blocks = []
    for segment in segments:
        address = segment.address
        for block in segment.blocks:
            if block.state == "active_allocated":
                size = block.size if block.requested_size is None else block.requested_size
                blocks.append((address if block.address is None else block.address, _Live(size, block.frames, True)))
            address += block.size
    return blocks


def _peak(trace: Sequence[SnapshotEntry], ends: Mapping[int, _Live]) -> tuple[int, int]:
    """Most bytes that tensors had asked for, and after how many entries that was."""
    total = sum(block.bytes for block in ends.values())
    peak, at = total, len(trace)
    for place in range(len(trace) - 1, -1, -1):
        entry = trace[place]
        total += entry.size if entry.did == "free_requested" else -entry.size if entry.did == "alloc" else 0
        if total > peak:
            peak, at = total, place
    return peak, at


def _wanted(trace: Sequence[SnapshotEntry], ends: Mapping[int, _Live]) -> int | None:
    """What tensors held when a request failed, with that request; of several the most. None: none failed."""
    total, wanted = sum(block.bytes for block in ends.values()), None
    for entry in reversed(trace):
        if entry.did == "oom":
            wanted = max(wanted or 0, total + entry.size)
        total += entry.size if entry.did == "free_requested" else -entry.size if entry.did == "alloc" else 0
    return wanted


def _live(trace: Sequence[SnapshotEntry], ends: Mapping[int, _Live], at: int) -> list[_Live]:
    """What is there after `at` entries; who made it is found further back."""
    live = dict(ends)
    for place in range(len(trace) - 1, at - 1, -1):
        entry = trace[place]
        if entry.addr is not None and entry.did == "free_requested":
            live[entry.addr] = _Live(entry.size, (), False)
        elif entry.addr is not None and entry.did == "alloc":
            live.pop(entry.addr, None)
    left = set(live)
    for place in range(at - 1, -1, -1):
        entry = trace[place]
        if not left:
            break
        if entry.did == "alloc" and entry.addr in left:
            left.discard(entry.addr)
            live[entry.addr] = live[entry.addr]._replace(frames=entry.frames, known=True)
    return list(live.values())


def _reserved(trace: Sequence[SnapshotEntry], segments: Sequence[SnapshotSegment]) -> int:
    """The most that the allocator had from the driver."""
    total = most = sum(segment.total_size for segment in segments)
    for entry in reversed(trace):
        total += entry.size if entry.did in SHRINKS else -entry.size if entry.did in GROWS else 0
        most = max(most, total)
    return most


def _owner(block: _Live, stacks: bool) -> tuple[str, str, str]:
    """The innermost line of the program, the innermost function of Python, and the kind, by who called.

    Of a backward pass on CUDA there is no Python to name: autograd runs it on a thread of its own."""
    frames = [frame for frame in block.frames[:MOST_FRAMES] if isinstance(frame, dict)] if isinstance(block.frames, (list, tuple)) else []
    if not stacks:
        return NO_STACKS, "", "held" if block.held else "unknown"
    files = [str(frame.get("filename", "")).replace("\\", "/") for frame in frames]
    python = [place for place, name in enumerate(files) if name.endswith(".py")]
    op = str(frames[python[0]].get("name", "")) if python else ""
    if not python:
        if not block.known and not frames:
            return UNKNOWN, op, "held" if block.held else "unknown"
        return NO_LINE, op, "gradients" if block.held else "temporaries"
    own = [place for place in python if "/torch/" not in files[place]]
    line = (own or python)[0]
    where = f"{files[line]}:{frames[line].get('line', 0)} {frames[line].get('name', '')}"
    if any("torch/optim/" in name for name in files):
        return where, op, "moments" if block.held else "temporaries"
    if any("torch/autograd/" in files[place] and "backward" in str(frames[place].get("name", "")) for place in python):
        return where, op, "gradients" if block.held else "temporaries"
    return where, op, "held" if block.held else "activations"
