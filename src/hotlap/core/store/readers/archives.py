"""A zip unpacked where nothing of it can harm: limits on its size and members, no links, no path that leads out."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from hotlap.core.errors import InputError

LIMIT_BYTES, LIMIT_MEMBERS = 2**30, 10_000
MAGIC = b"PK\x03\x04"
_BLOCK = 2**20
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, struct.error)


def is_archive(path: Path) -> bool:
    """By its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def unpack(path: Path, into: Path) -> None:
    """All members below `into`. Raises InputError for a broken or refused archive; what was unpacked is the caller's to remove."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > LIMIT_MEMBERS:
                raise InputError(f"'{path}' has {len(members)} members, more than {LIMIT_MEMBERS}; import its files in parts")
            left = LIMIT_BYTES
            for member in members:
                left = _member(archive, member, into, left)
    except _BROKEN as error:
        raise InputError(f"'{path}' is no zip that can be read: {error}") from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, into: Path, left: int) -> int:
    """Unpacks one and returns the bytes that are left: of what really comes out, for a header may lie."""
    target = _target(member, into)
    if member.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return left
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, target.open("xb") as file:
        while block := packed.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise InputError(f"'{archive.filename}' unpacks to more than 1 GiB; import its files in parts")
            file.write(block)
    with suppress(ValueError, OSError):  # the time of results that do not say theirs
        written_s = datetime(*member.date_time, tzinfo=UTC).timestamp()
        os.utime(target, (written_s, written_s))
    return left


def _target(member: zipfile.ZipInfo, into: Path) -> Path:
    """Where a member goes. Raises InputError for a link and for a path that leads out."""
    name = member.filename
    parts = PurePosixPath(name.replace("\\", "/")).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InputError(f"the archive's member {name!r} is a link or a special file; nothing was imported")
    if not parts or ".." in parts or parts[0].startswith("/") or ":" in parts[0] or "\0" in name:
        raise InputError(f"the archive's member {name!r} leads out of the archive; nothing was imported")
    return into.joinpath(*parts)
