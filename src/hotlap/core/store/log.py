"""A file of lines that only grows: a process that is killed leaves a torn last line at most, which is cut off when the run goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from hotlap.core.record import Record
from hotlap.core.store import lines

R = TypeVar("R", bound=Record)
SYNC_S = 1.0  # at least this long between two fsyncs


class Log:
    """One write of the system per text of whole lines, unbuffered, in append mode. For one thread at a time; raises OSError."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self._clock, self._synced_s = path, clock, float("-inf")
        self.file: BinaryIO = open(path, "ab", buffering=0)  # noqa: SIM115 - open until close

    @property
    def size(self) -> int:
        return os.fstat(self.file.fileno()).st_size

    def append(self, text: bytes, sync: bool = False) -> None:
        """Keeps all of the text or, where the system refuses, nothing of it. It is synced where that is asked, and once a second."""
        before = self.size
        try:
            written = self.file.write(text)
            while written < len(text):  # a short write: the next one says why
                written += self.file.write(text[written:])
        except OSError:
            with suppress(OSError):
                self.file.truncate(before)  # no half line for the next one to be glued to
            raise
        if sync or self._clock() - self._synced_s >= SYNC_S:
            self.sync()

    def sync(self) -> None:
        """Returns once all of it is on the disk."""
        os.fsync(self.file.fileno())
        self._synced_s = self._clock()

    def mend(self, kind: type[R]) -> lines.Lines[R]:
        """What the file holds. It ends in a whole line from then on: a torn one is cut off, a newline that is missing is added.

        Raises SchemaError where another line than the last cannot be read.
        """
        data = self.path.read_bytes()
        found = lines.read(data, kind, str(self.path))
        if found.torn:
            self.file.truncate(found.kept_bytes)
        if found.kept_bytes and data[found.kept_bytes - 1 : found.kept_bytes] != b"\n":
            self.file.write(b"\n")
        return found

    def set_aside(self, path: Path) -> None:
        """Begins anew; what there is so far is kept at `path`."""
        self.sync()
        os.rename(self.path, path)
        self.file.close()
        self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115 - open until close

    def close(self) -> None:
        """May be called again."""
        self.file.close()
