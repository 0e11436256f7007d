"""One run at a time per device: a lock the system drops when its owner ends, however it ends.

What the file says (pid, since when, command) only tells others whom to wait for; the lock itself is the system's, so a
file left by a dead process is harmless and files are never removed.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hotlap.errors import Busy, MachineError
from hotlap.store import paths

POLL_S = 0.1
_HELD = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}
_log = logging.getLogger(__name__)


class Owner(msgspec.Struct, frozen=True):
    """Who holds a lock, as its file says."""

    pid: int
    since: str  # UTC, ISO 8601
    command: str = ""
    device: str = ""


@contextmanager
def hold(device_key: str, home: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Holds a device; waits up to `wait_s` for another run to let go of it.

    Raises Busy naming the owner's pid and since when, MachineError when the lock cannot be made.
    """
    path = _path(device_key, home)
    try:
        file = open(path, "a+b", buffering=0)  # noqa: SIM115 - an error of opening is told from one of measuring
    except OSError as error:
        raise MachineError(f"the lock '{path}' cannot be made: {error.strerror}; set HOTLAP_HOME to a folder that can be written") from None
    with file:
        _wait(file, device_key, path, wait_s)
        _sign(file, device_key)
        yield


def owner(device_key: str, home: Path) -> Owner | None:
    """Whom the lock's file names: the present owner or, when nobody holds it, the last one. None when it says nothing."""
    try:
        return msgspec.json.decode(_path(device_key, home).read_bytes(), type=Owner)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def take(file: BinaryIO) -> bool:
    """Locks an open file for this process until it is closed; False when another one has it.

    Where the file system or the platform has no locks, says so in the log and goes on without one.
    """
    try:
        _system_lock(file.fileno())
    except OSError as error:
        if error.errno in _HELD:
            return False
        _log.warning("no locks on this file system (%s): nothing keeps a second run from measuring at the same time", error.strerror)
    return True


def _system_lock(descriptor: int) -> None:
    """Raises OSError when it cannot be had."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 2**31 - 2, os.SEEK_SET)  # far behind the text, which others must be able to read
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        return
    try:
        import fcntl
    except ImportError:
        raise OSError(errno.ENOTSUP, "this Python has no fcntl") from None
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _path(device_key: str, home: Path) -> Path:
    name = hashlib.sha256(device_key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return paths.made(home / "locks") / f"{name}.lock"


def _wait(file: BinaryIO, device_key: str, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not take(file):
        left = deadline - time.monotonic()
        if left <= 0:
            raise Busy(_busy(device_key, owner(device_key, path.parent.parent), wait_s))
        time.sleep(min(POLL_S, left))


def _busy(device_key: str, held: Owner | None, wait_s: float) -> str:
    by = f"process {held.pid} since {held.since} ({held.command})" if held else "another process"
    waited = f" and did not let go within {wait_s:g} s" if wait_s > 0 else ""
    return f"the device {device_key} is held by {by}{waited}; wait for it to end, or give --wait a longer time"


def _sign(file: BinaryIO, device_key: str) -> None:
    """Writes the owner's name. A full disk must not keep anyone from measuring, so failing here is only logged."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = msgspec.json.encode(Owner(os.getpid(), since, _plain(" ".join(sys.argv))[:200], _plain(device_key)))
    try:
        file.truncate(0)
        file.write(text + b"\n")
    except OSError as error:
        _log.warning("the lock of %s does not name its owner: %s", device_key, error.strerror)


def _plain(text: str) -> str:
    """Text that UTF-8 can hold; an argument need not be."""
    return text.encode("utf-8", "replace").decode()
