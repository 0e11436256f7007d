"""A file becomes columns and tables: the right reader, and columns kept beside large files so that they are read once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.core.store import paths
from hotlap.traces import counters, readers
from hotlap.traces.building import Builder, mapped
from hotlap.traces.events import BREAKDOWN, COLUMNS, Column, Head, Tables
from hotlap.traces.readers import packed
from hotlap.traces.readers.base import TraceReader

LARGE = 8 << 20  # bytes of a file from which its columns go to disk
VERSION = 7  # of what is kept
ABANDONED_S = 7 * 86400  # a folder in making that nobody has touched for longer
SETS = {"all": tuple(COLUMNS), "breakdown": BREAKDOWN}


class _Kept(msgspec.Struct):
    head: Head
    tables: Tables


class Opened(NamedTuple):
    """What a timeline is made of."""

    path: str
    head: Head
    columns: dict[str, Column]
    tables: Tables


def read(path: Path, columns: str = "all", cache: bool = True) -> Opened:
    """See Timeline.open."""
    if columns not in SETS:
        raise InputError(f"columns '{columns}' are not known; 'all' or 'breakdown'")
    try:
        about = path.stat()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from None
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; name a file in it, or 'hotlap trace {path}' for all of them")
    if not about.st_size:
        raise InputError(f"'{path}' is empty")
    large = cache and about.st_size >= LARGE
    folder = _folder(path, about) if large else None
    if folder is not None:
        for named in dict.fromkeys((columns, "all")):
            if (found := _kept(folder / named, path, SETS[columns])) is not None:
                return found
    head_bytes = packed.head(path)
    reader = readers.find(path, head_bytes)
    if reader is None:
        raise _unknown(path, head_bytes)
    why = ""
    if folder is not None:
        try:
            return _keeping(path, reader, folder, columns)
        except OSError as error:  # a full disk or a folder that cannot be written; where the file itself fails, it fails again below
            why = error.strerror or str(error)
    into = Builder(SETS[columns])
    head = _head(reader, path, into)
    if why:
        head = msgspec.structs.replace(head, notices=[*head.notices, Notice("not_kept", f"its columns could not be kept on disk: {why}")])
    return Opened(str(path), head, into.arrays(), into.tables())


def _keeping(path: Path, reader: TraceReader, folder: Path, columns: str) -> Opened:
    """Reads a file into columns on disk; they appear at their place whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        into = Builder(SETS[columns], making / "made")
        head = _head(reader, path, into)
        into.arrays()
        tables = into.tables()
        (making / "made" / "tables.json").write_bytes(msgspec.json.encode(_Kept(head, tables)))
        place = folder / columns
        with contextlib.suppress(OSError):
            os.replace(place, making / "old")  # nobody reads what is damaged; what another process has just made is as good
        try:
            os.replace(making / "made", place)
        except OSError:  # another process was faster
            if (found := _kept(place, path, SETS[columns])) is None:
                raise
            return found
        return Opened(str(path), head, {name: mapped(place / f"{name}.bin", name) for name in SETS[columns]}, tables)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _sweep(traces: Path) -> None:
    """Removes what killed processes left behind."""
    for one in traces.glob(".making-*"):
        with contextlib.suppress(OSError):
            if time.time() - one.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(one, ignore_errors=True)


def _head(reader: TraceReader, path: Path, into: Builder) -> Head:
    """What a reader says of a file; what it refuses names the file."""
    try:
        return reader.read(path, into)
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"'{path}': {error}") from None


def _unknown(path: Path, head: bytes) -> InputError:
    """Why a file that no reader of timelines takes is none."""
    if reader := counters.find(path, head):
        about = f"'{path}' is a profile of kernels ({reader.ABOUT}): it has no timeline"
        return InputError(f"{about}; 'hotlap trace {path}' alone reads it, and hotlap.traces.counters.read in Python")
    known = "; ".join([*(one.ABOUT for one in readers.READERS), *(one.ABOUT for one in counters.READERS)])
    return InputError(f"'{path}' is no trace that Hotlap knows; it reads {known}")


def _folder(path: Path, about: os.stat_result) -> Path:
    """Where the columns of this very file are kept: its place, size, times and the version of the format decide."""
    key = f"{path.resolve()} {about.st_size} {about.st_mtime_ns} {about.st_ino} {VERSION}"
    return paths.home() / "traces" / hashlib.sha256(key.encode()).hexdigest()[:32]


def _kept(folder: Path, path: Path, columns: tuple[str, ...]) -> Opened | None:
    try:
        kept = msgspec.json.decode((folder / "tables.json").read_bytes(), type=_Kept)
        arrays = {name: mapped(folder / f"{name}.bin", name) for name in columns}
    except (OSError, msgspec.DecodeError, ValueError):
        return None
    if len({len(one) for one in arrays.values()}) != 1:  # damaged
        return None
    return Opened(str(path), kept.head, arrays, kept.tables)
