"""One run at a time per device: a lock the system drops when its owner ends, however it ends.

What the file says (pid, since when, command) only tells others whom to wait for; the lock itself is the system's, so a
file left by a dead process is harmless and files are never removed. A device has one lock on its machine, whoever's home
its runs are kept in and whichever target drives it.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hotlap.core.errors import Busy, MachineError
from hotlap.core.record import Device
from hotlap.core.store import paths

POLL_S = 0.1
GLANCE_S = 0.05  # that a lock may be another's who only looks whether it is held
WAIT = "--wait '10 min'"
BEGUN_BY = "HOTLAP_BEGUN_BY"  # environment: the command in front of ours
NOBODYS = ("simulated", "scripted")  # targets without hardware
_HELD = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}
_log = logging.getLogger(__name__)
_has_wait: ContextVar[bool] = ContextVar("has_wait", default=True)


class LockOwner(msgspec.Struct, frozen=True):
    """Who holds a lock, as its file says."""

    pid: int
    since: str  # UTC, ISO 8601
    command: str = ""
    device: str = ""


@contextmanager
def command(has_wait: bool) -> Iterator[None]:
    """While a command runs: whether it has --wait, so that none advises an option that it lacks."""
    token = _has_wait.set(has_wait)
    try:
        yield
    finally:
        _has_wait.reset(token)


@contextmanager
def hold(devices: Sequence[Device], wait_s: float = 0.0, settings: bool = False) -> Iterator[None]:
    """Holds devices, or what is set on them; waits up to `wait_s` for other runs to let go of them. A simulated one is nobody's.

    Raises Busy naming the owner's pid and since when, MachineError when a lock cannot be made.
    """
    wanted = {path(one, settings): one for one in devices if one.target not in NOBODYS}
    with ExitStack() as held:
        for file, device in sorted(wanted.items(), key=lambda item: item[0]):  # in one order: no two runs wait for each other's
            held.enter_context(_held(file, f"settings of {device.key}" if settings else device.key, wait_s))
        yield


def beside(devices: Sequence[Device], wait_s: float = 0.0) -> str:
    """Who holds one of these devices, for a user's own program that is measured on it: such a program may be a run itself, so it holds
    no device and is never refused. Waits up to `wait_s` for others to let go. "" where nobody holds one."""
    wanted = {path(one): one for one in devices if one.target not in NOBODYS}
    for file, device in sorted(wanted.items(), key=lambda item: item[0]):
        try:
            with _held(file, device.key, wait_s, signs=False):
                pass
        except Busy:
            what = "both disturb each other's numbers"
            waits = f"; {_option()} waits for it" if _option() else ""
            return f"{_who(device.key, owner(file))}: {what}{waits}"
        except MachineError as error:  # nothing is refused for want of a lock that only tells
            _log.warning("%s", error)
    return ""


def within(home: Path, name: str, wait_s: float) -> AbstractContextManager[None]:
    """Holds something of a home, as its catalog. Raises as `hold` does."""
    return _held(_file(paths.create(home / "locks"), name), name, wait_s)


def owner(file: Path) -> LockOwner | None:
    """Whom the lock's file names: the present owner or, when nobody holds it, the last one. None when it says nothing."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LockOwner)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def path(device: Device, settings: bool = False) -> Path:
    """The file that everybody locks who measures on this piece of hardware. Raises MachineError when there is no folder for it."""
    return _file(paths.locks(), _physical(device) + " settings" * settings)


def _physical(device: Device) -> str:
    """The same text for a device whichever target drives it, and another for one of another machine, should machines share the folder."""
    if device.kind == "cpu":
        return f"cpu {_machine()}"
    return device.uuid or f"{_machine()} {device.pci_address or device.key}"


def _machine() -> str:
    """What containers on one kernel have in common, which their host names and machine-ids are not."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return platform.node()


def _file(folder: Path, key: str) -> Path:
    return folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}.lock"


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


@contextmanager
def _held(path: Path, name: str, wait_s: float, signs: bool = True) -> Iterator[None]:
    try:
        file = _opened(path)
    except OSError as error:
        raise MachineError(
            f"the lock '{path}' of {name} cannot be opened: {error.strerror}; it is for everybody who measures here: "
            "have its owner give it the mode 666, or set HOTLAP_LOCKS to another folder for all of them"
        ) from None
    with file:
        _wait(file, name, path, wait_s)
        if signs:
            _sign(file, name)
        yield


def _opened(path: Path) -> BinaryIO:
    """The file, made for every user when it is missing. Raises OSError."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with suppress(FileExistsError):
        # Linux refuses O_CREAT for a file that is there and another user's, in a folder like this one (fs.protected_regular).
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
        os.chmod(path, 0o666)  # whatever the umask
        return os.fdopen(descriptor, "r+b", buffering=0)
    return os.fdopen(os.open(path, flags), "r+b", buffering=0)


def _wait(file: BinaryIO, name: str, path: Path, wait_s: float) -> None:
    began, waits = time.monotonic(), False
    while not take(file):
        if time.monotonic() - began < GLANCE_S:
            time.sleep(GLANCE_S / 50)
            continue
        if wait_s > 0 and not waits:
            by = owner(path)
            holder = f"process {by.pid} ({by.command})" if by else "another process"
            print(f"hotlap: waiting at most {wait_s:g} s for the device {name}, which {holder} holds", file=sys.stderr, flush=True)
            waits = True
        left = began + wait_s - time.monotonic()
        if left <= 0:
            raise Busy(_busy(name, owner(path), wait_s))
        time.sleep(min(POLL_S, left))


def _busy(name: str, held: LockOwner | None, wait_s: float) -> str:
    waited = f" and was not let go within {wait_s:g} s" if wait_s > 0 else ""
    end = f"; where process {held.pid} is yours, it can be ended: kill {held.pid}" if held else ""
    wait = f"wait for it: {_option()}" if _option() else "wait until it has ended, and give the command again"
    return f"{_who(name, held)}{waited}; {wait}{end}"


def _who(name: str, held: LockOwner | None) -> str:
    by = f"process {held.pid} ({held.command}) since {_ago(held.since)}" if held else "another process"
    other = f", as {held.device}," if held and held.device != name else ""
    return f"the device {name} is held{other} by {by}"


def _option() -> str:
    """The option that waits, as whoever began this run gives it: `make run` has its own way; "" where the command has none."""
    if not _has_wait.get():
        return ""
    return f'make run ARGS="{WAIT}"' if os.environ.get(BEGUN_BY) == "make run" else WAIT


def _ago(since: str) -> str:
    """As `12:30:05 UTC, 3 min ago`; a time that cannot be read as it stands."""
    try:
        began = datetime.fromisoformat(since)
        passed_s = max((datetime.now(UTC) - began).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return since
    day = "" if began.date() == datetime.now(UTC).date() else f"{began:%Y-%m-%d} "
    ago = f"{round(passed_s)} s" if passed_s < 120 else f"{round(passed_s / 60)} min"
    return f"{day}{began:%H:%M:%S} UTC, {ago} ago"


def _sign(file: BinaryIO, name: str) -> None:
    """Writes the owner's name. A full disk must not keep anyone from measuring, so failing here is only logged."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = msgspec.json.encode(LockOwner(os.getpid(), since, _plain(" ".join(sys.argv))[:200], _plain(name)))
    try:
        file.truncate(0)
        file.write(text + b"\n")
    except OSError as error:
        _log.warning("the lock of %s does not name its owner: %s", name, error.strerror)


def _plain(text: str) -> str:
    """Text that UTF-8 can hold; an argument need not be."""
    return text.encode("utf-8", "replace").decode()
