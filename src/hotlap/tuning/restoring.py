"""Files that a search writes, put back as they were found, however it ends.

What stood before lies in a note before anything is written. A process beside, in a session of its own, waits for the end of its input:
where the search was killed it puts the files back. Where both are killed the note is left, and the next `tuning` command puts them back.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hotlap.core.errors import MachineError
from hotlap.core.store import files

CHOSEN = re.compile(r"\[([^\]\s]+)\]")  # of a file of the kernel that lists its choices: always [madvise] never
KERNEL = ("/sys/", "/proc/sys/")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE")


class FileBefore(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was found. `content`: base64; None: there was none."""

    path: str
    content: str | None = None
    mode: int = 0o644


def as_found(path: str) -> FileBefore:
    """Of what a link leads to. Raises MachineError for what cannot be read, or is no regular file."""
    place = Path(os.path.realpath(path))
    try:
        if not place.exists():
            return FileBefore(path=str(place))
        if not place.is_file():
            raise MachineError(f"'{path}' is no regular file: it could not be put back; switch files alone")
        data = place.read_bytes()
        if str(place).startswith(KERNEL) and (chosen := CHOSEN.search(data.decode(errors="replace"))):
            data = chosen[1].encode()
        return FileBefore(path=str(place), content=base64.b64encode(data).decode(), mode=place.stat().st_mode & 0o7777)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be read: {error.strerror}; without it nothing could be put back") from None


def write(path: str, content: str) -> None:
    """In place: links, owner and mode stay. Raises MachineError where the system refuses."""
    try:
        Path(path).write_bytes(content.encode())
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None


def put_back(before: FileBefore) -> None:
    """Raises OSError."""
    place = Path(before.path)
    if before.content is None:
        place.unlink(missing_ok=True)
        return
    data = base64.b64decode(before.content)
    if before.path.startswith(KERNEL) or not place.exists() or place.read_bytes() != data:
        place.write_bytes(data)
    if place.stat().st_mode & 0o7777 != before.mode:
        place.chmod(before.mode)


def keep(note: Path, every: list[FileBefore] | dict[str, str | None]) -> None:
    """Raises MachineError."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(note, msgspec.json.encode(every))
    except OSError as error:
        raise MachineError(f"what stood before cannot be kept in '{note}': {error.strerror}; nothing was changed") from None


def held(note: Path) -> list[FileBefore]:
    """What a note holds; [] where there is none. Raises MachineError for one that cannot be read."""
    try:
        return msgspec.json.decode(note.read_bytes(), type=list[FileBefore])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise MachineError(f"what files held before cannot be read from '{note}': {error}") from None


def mend(note: Path) -> list[str]:
    """Puts back what a note holds, and removes it. Paths that were put back. Raises MachineError with the note where that fails."""
    every = held(note)
    for before in every:
        try:
            put_back(before)
        except OSError as error:
            raise MachineError(f"'{before.path}' cannot be put back: {error.strerror}; what it held lies in '{note}'") from None
    note.unlink(missing_ok=True)
    return [before.path for before in every]


@contextmanager
def guarded(note: Path) -> Iterator[None]:
    """While this lasts a process beside puts files back where this one is killed; at its end they are put back here. What an earlier one
    left, that was killed with its guard, is put back first."""
    mend(note)
    argv = [sys.executable, "-P", "-m", "hotlap.tuning.restoring", str(note)]
    guard = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        mend(note)
        guard.communicate(b"done")


@contextmanager
def written(note: Path, contents: Mapping[str, str]) -> Iterator[None]:
    """These files hold this meanwhile."""
    if not contents:
        yield
        return
    keep(note, [as_found(path) for path in contents])
    try:
        for path, content in contents.items():
            write(path, content)
        yield
    finally:
        mend(note)


def main(argv: list[str]) -> int:
    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if not sys.stdin.buffer.read():
        mend(Path(argv[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
