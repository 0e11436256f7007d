"""A file becomes columns and tables: the right reader, and columns kept beside large files so that they are read once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotlap.errors import InputError
from hotlap.store import paths
from hotlap.trace import readers
from hotlap.trace.building import Builder, mapped
from hotlap.trace.events import BREAKDOWN, COLUMNS, Collective, Column, Head, Launch, Shape, Tables, Thread
from hotlap.trace.readers import packed

LARGE = 8 << 20  # bytes of a file from which its columns go to disk
VERSION = 3  # of what is kept
SETS = {"all": tuple(COLUMNS), "breakdown": BREAKDOWN}


class _Kept(msgspec.Struct):
    head: Head
    names: list[str]
    threads: list[Thread]
    shapes: list[Shape]
    launches: list[Launch]
    collectives: list[Collective]
    stacks: list[str]


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
    reader = readers.find(path, packed.head(path))
    if reader is None:
        known = "; ".join(one.ABOUT for one in readers.READERS)
        raise InputError(f"'{path}' is no trace that Hotlap knows; it reads {known}")
    if folder is None:
        into = Builder(SETS[columns])
        head = reader.read(path, into)
        return Opened(str(path), head, into.arrays(), into.tables())
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        into = Builder(SETS[columns], making)
        head = reader.read(path, into)
        into.arrays()
        tables = into.tables()
        kept = _Kept(head, *tables)
        (making / "tables.json").write_bytes(msgspec.json.encode(kept))
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / columns
        if not place.exists():
            os.replace(making, place)
        return Opened(str(path), head, {name: mapped(place / f"{name}.bin", name) for name in SETS[columns]}, tables)
    finally:
        shutil.rmtree(making, ignore_errors=True)


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
    tables = Tables(kept.names, kept.threads, kept.shapes, kept.launches, kept.collectives, kept.stacks)
    return Opened(str(path), kept.head, arrays, tables)
