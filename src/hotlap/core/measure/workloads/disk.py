"""Reads and writes of a file that is made here, has no name, and is gone when it is closed, whatever ends the process."""

from __future__ import annotations

import errno
import fcntl
import itertools
import mmap
import os
import re
import struct
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.record import Case, Check
from hotlap.core.units import show, size
from hotlap.core.work.base import integer

SPARE = 2**28  # bytes that stay free beside the file
STRETCH = 2**20  # bytes that are filled and looked at in one go
LOOKED_AT = 2**28  # bytes that are read back at most, at random places where there are more
CALLS_CHECKED = 1024
PLACES = 2**20  # of a random order, before it begins again
STAMP = struct.Struct("<QQ")  # a block begins with its place and the number of the write that made it
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")  # Linux 6.6 and later take O_DIRECT there and leave it without effect
SYNC: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class Mount(NamedTuple):
    """Where a folder lies: the kind of file system and what it is on; "" where the system does not say."""

    kind: str
    device: str


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Makes and fills the file. Raises NotSupported with the reason."""
    params, folder = case.params, os.environ.get("TMPDIR") or tempfile.gettempdir()
    mount = mounted(folder)
    where = f"the folder for temporary files, {folder}{f' on {mount.kind}' if mount.kind else ''}"
    with _reasons(where):
        file = BlockFile(folder, integer(params, "size"), integer(params, "block"), rng)
    try:
        with _reasons(where):
            if params["direct"]:
                file.past_the_cache(mount)
            file.fill()
            order = _order(file.blocks, params["pattern"] == "random", rng)
            enqueue = file.writes(order, bool(params["sync"])) if params["op"] == "write" else file.reads(order)
            enqueue(1)
    except BaseException:
        file.close()
        raise

    def check() -> Check:
        wrong, calls = 0, 0
        if params["op"] == "read":
            calls = min(file.blocks, CALLS_CHECKED, max(LOOKED_AT // file.block, 1))
            for _ in range(calls):
                enqueue(1)
                wrong += file.wrong_as_read()
        more, looked_at = file.wrong_on_disk(rng)
        what = f"{looked_at} of {file.blocks} blocks read back" + (f", and what {calls} calls read" if calls else "")
        return Check(passed=wrong + more == 0, what=what, error=float(wrong + more), tolerance=0.0)

    how = "direct" if params["direct"] else "page cache"
    variant = ", ".join(filter(None, (how, " on ".join(filter(None, mount)))))
    return Prepared(enqueue, check, timer="wall", variant=variant, close=file.close)


class BlockFile:
    """The file, and what each of its blocks should hold. Raises OSError, NotSupported where there is no room."""

    def __init__(self, folder: str, whole: int, block: int, rng: np.random.Generator) -> None:
        room, blocks = os.statvfs(folder), whole // block
        free = room.f_bavail * room.f_frsize
        if free < whole + SPARE:
            needed = f"a file of {size(whole)} needs {size(whole + SPARE)}"
            raise NotSupported(f"{folder} has {show(free, 'B')} free, and {needed}", "set TMPDIR to a folder on another disk")
        self.blocks, self.block, self.last = blocks, block, 0
        self.pattern = rng.integers(0, 256, block, np.uint8)
        self.writes_of = array("Q", bytes(8 * blocks))  # number of the last write of each block; 0: as filled
        self.buffer = mmap.mmap(-1, block)  # begins on a page, as O_DIRECT wants it
        self.number = 0
        self.file: Any = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - `close` is for whoever has the case

    def past_the_cache(self, mount: Mount) -> None:
        """Raises NotSupported where the file system has no such way, or takes the flag and stays in memory."""
        advice = "set TMPDIR to a folder on a disk, or give direct=false to measure through the page cache"
        if mount.kind in IN_MEMORY:
            raise NotSupported(f"{mount.kind} lies in memory, and no O_DIRECT goes past it", advice)
        if not hasattr(os, "O_DIRECT"):
            raise NotSupported("this system has no O_DIRECT", "give direct=false to measure through the page cache")
        handle, kind = self.file.fileno(), f" {mount.kind}" if mount.kind else ""
        try:
            fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_DIRECT)
        except OSError as error:
            raise NotSupported(f"the file system{kind} refuses O_DIRECT ({error.strerror})", advice) from None

    def fill(self) -> None:
        """Writes every block, so that no later write has to find room."""
        rows = self._rows()
        for first, count in self._stretches():
            rows[:count] = self.pattern
            rows[:count, : STAMP.size] = self._stamps(first, count)
            if os.pwrite(self.file.fileno(), rows[:count].data, first * self.block) != count * self.block:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        SYNC(self.file.fileno())

    def reads(self, order: Iterator[int]) -> Callable[[int], None]:
        handle, block, into = self.file.fileno(), self.block, [self.buffer]

        def enqueue(calls: int) -> None:
            for _ in range(calls):
                self.last = next(order)
                if os.preadv(handle, into, self.last * block) != block:
                    raise HotlapError(f"a read ended before its {block} B")

        return enqueue

    def writes(self, order: Iterator[int], sync: bool) -> Callable[[int], None]:
        handle, block, buffer, stamp = self.file.fileno(), self.block, self.buffer, STAMP.pack_into
        buffer[:] = self.pattern.tobytes()

        def enqueue(calls: int) -> None:
            number, written = self.number, self.writes_of
            for _ in range(calls):
                place, number = next(order), number + 1
                stamp(buffer, 0, place, number)
                if os.pwrite(handle, buffer, place * block) != block:
                    raise HotlapError(f"a write ended before its {block} B")
                if sync:
                    SYNC(handle)
                written[place] = number
            self.number = number

        return enqueue

    def wrong_as_read(self) -> int:
        """1 where the block that was read last is not what it should be."""
        return self._wrong(np.frombuffer(self.buffer, np.uint8).reshape(1, -1), self.last)

    def wrong_on_disk(self, rng: np.random.Generator) -> tuple[int, int]:
        """Blocks that do not hold what was written last, and how many were read back."""
        stretches, rows, wrong, looked_at = list(self._stretches()), self._rows(), 0, 0
        for number in rng.permutation(len(stretches))[: max(LOOKED_AT // rows.nbytes, 1)]:
            first, count = stretches[number]
            got = rows[:count]
            if os.preadv(self.file.fileno(), [got.data], first * self.block) != got.nbytes:
                wrong += count
            else:
                wrong += self._wrong(got, first)
            looked_at += count
        return wrong, looked_at

    def close(self) -> None:
        self.file.close()

    def _wrong(self, rows: np.ndarray[Any, np.dtype[np.uint8]], first: int) -> int:
        right = (rows[:, STAMP.size :] == self.pattern[STAMP.size :]).all(axis=1)
        right &= (rows[:, : STAMP.size] == self._stamps(first, len(rows))).all(axis=1)
        return int((~right).sum())

    def _stamps(self, first: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        places = np.arange(first, first + count, dtype="<u8")
        return np.stack([places, np.array(self.writes_of[first : first + count], "<u8")], axis=1).view(np.uint8)

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """First block and number of blocks."""
        step = max(STRETCH // self.block, 1)
        for first in range(0, self.blocks, step):
            yield first, min(step, self.blocks - first)

    def _rows(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Room for a stretch that begins on a page."""
        step = max(STRETCH // self.block, 1)
        return np.frombuffer(mmap.mmap(-1, step * self.block), np.uint8).reshape(step, self.block)


def _order(blocks: int, shuffled: bool, rng: np.random.Generator) -> Iterator[int]:
    """Places of blocks without end."""
    if not shuffled:
        return itertools.chain.from_iterable(itertools.repeat(range(blocks)))
    places = rng.permutation(blocks) if blocks <= PLACES else rng.integers(0, blocks, PLACES)
    return itertools.chain.from_iterable(itertools.repeat(places.tolist()))


@contextmanager
def _reasons(where: str) -> Iterator[None]:
    """What the system refuses is a reason, with the folder that it is refused in."""
    try:
        yield
    except OSError as error:
        larger = error.errno == errno.EINVAL
        advice = "the disk may want larger blocks, as in block=4KiB" if larger else "set TMPDIR to a folder on another disk"
        raise NotSupported(f"{where}: {error.strerror}", advice) from None


def mounted(folder: str, table: Path = Path("/proc/self/mountinfo")) -> Mount:
    """The mount that a folder lies on; proc_pid_mountinfo(5)."""
    place, best, longest = os.path.realpath(folder), Mount("", ""), -1
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return best
    for line in lines:
        words, _, more = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), words.split()[4])
        if len(point) >= longest and (place == point or place.startswith(point.rstrip("/") + "/")):
            kind, device = more.split()[:2]
            best, longest = Mount(kind, device if device != kind else ""), len(point)
    return best
