"""Processes of ours that measure or load a device: started, listened to, found hung, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotlap.core.measure.targets.base import SystemClock

SPEED_ENVIRONMENT = {  # the user's own settings win
    "GOMP_SPINCOUNT": "2000",  # OpenMP threads that wait spin for some 0.1 ms: asleep between short operators they make those slower
    # than in a program, and for longer, as by default, they take the processor from the very thread that they wait for on a busy machine
}
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),  # glibc: freed memory stays with the process, so that the next case need not
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),  # fault in every page again: 0.2 to 2 s for each GiB in a guest
}
LOOK_S = 0.2  # how often it is looked whether a process is silent
LOOKED_S = 2.0  # the most that one look counts as silence: a longer one means that this process was itself stopped (Ctrl-Z)
LEAVES_S, DIES_S = 20.0, 5.0  # to end by itself, and after a kill: one in the hands of the kernel does not end at once
A = TypeVar("A")
B = TypeVar("B")


class Process:
    """A fresh process of a module, which gets `job` as its first line. If it says nothing for `limit_s`, it has hung.

    `as_programs`: it gets memory from the system as any program does, for what it times may allocate. As a context, it is over at the end:
    at once where it has hung or `stop` is set.
    """

    def __init__(self, module: str, job: Any, limit_s: float, stop: threading.Event, as_programs: bool = False) -> None:
        self.limit_s, self.stop, self.hung = limit_s, stop, False
        self.silent_s = 0.0  # until then nothing had come
        settings = SPEED_ENVIRONMENT if as_programs else {**SPEED_ENVIRONMENT, **KEPT_MEMORY}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**settings, **os.environ, "PYTHONUNBUFFERED": "1"}, bufsize=0, start_new_session=os.name == "posix",
        )  # fmt: skip
        self.talk: list[bytes] = []
        self.listener = threading.Thread(target=self._collect, daemon=True)
        self.listener.start()
        self.write(msgspec.json.encode(job) + b"\n")

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=0 if self.stop.is_set() or self.hung else LEAVES_S)
        except subprocess.TimeoutExpired:
            kill(self.process)
        self.listener.join(timeout=1)

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.talk = [*self.talk[-20:], line]

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is noticed where its lines are read
            self.process.stdin.write(data)

    def lines(self) -> Iterator[bytes]:
        """Until the process ends or hangs, or `stop` is set; a last line that is not whole is left out."""
        assert self.process.stdout is not None
        clock, pending, quiet_s = SystemClock(), b"", 0.0
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while not self.stop.is_set():
                looked_s = clock.now()
                if not ready.select(timeout=LOOK_S):
                    self.silent_s = looked_s
                    quiet_s += min(clock.now() - looked_s, LOOKED_S)
                    if quiet_s > self.limit_s:
                        self.hung = True
                        return
                    continue
                chunk = self.process.stdout.read(1 << 20)
                if not chunk:
                    return
                quiet_s = 0.0
                *lines, pending = (pending + chunk).split(b"\n")
                yield from lines

    @property
    def status(self) -> int | None:
        """As `Popen.poll`: negative where a signal ended it, None while it is there."""
        return self.process.poll()

    def ending(self) -> str:
        """How it ended, in words that go on from "the process"."""
        if self.hung:
            return f"did not answer for {self.limit_s:.0f} s and was stopped"
        if self.status is not None and self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"ended with status {self.status}"

    def last_words(self) -> str:
        words = [line.decode(errors="replace").strip() for line in self.talk if line.strip()]
        return words[-1][:300] if words else "it said nothing"


def kill(process: subprocess.Popen[bytes]) -> None:
    """The process and all that it started: a program under measurement must not go on using the device."""
    if hasattr(os, "killpg"):
        kill_session(process.pid)
    else:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=DIES_S)


def kill_session(leader: int) -> None:
    """The group that a process leads, and those of its descendants that lead their own, as a program under measurement does."""
    below = _descendants(leader)
    for pid in (leader, *below):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


def _descendants(ancestor: int) -> list[int]:
    """By /proc; [] where there is none."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    below, level = list[int](), {ancestor}
    while level := {pid for pid, parent in parents.items() if parent in level}:
        below += sorted(level)
    return below


def together(do: Callable[[A], B], each: Sequence[A], meanwhile: Callable[[], None] = lambda: None) -> list[B]:
    """`do` for each, in a thread of its own; `meanwhile` is called now and then. Raises the first error once all of them have ended."""
    with ThreadPoolExecutor(max(len(each), 1)) as threads:
        running = [threads.submit(do, one) for one in each]
        while wait(running, timeout=LOOK_S).not_done:
            meanwhile()
    return [one.result() for one in running]
