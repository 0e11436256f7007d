"""Two launches that are compared, in turns by stretches of steps: both programs are there, and one of them runs."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

import psutil

from hotlap.training import launching
from hotlap.training.launching import GRACE_S, Launch, Running
from hotlap.training.record import TrainingAsked, TrainingProcess
from hotlap.training.recorder.turns import WORD

LOOK_S = 0.5  # between looks at sensors and at time
ROOM = 1.5  # times the first program's memory that must be free before the second starts beside it


class _Side:
    """One of the two. `ran_s`: while it had the turn."""

    def __init__(self, asked: TrainingAsked, launch: Launch, folder: Path, running: Running) -> None:
        self.asked, self.launch, self.folder, self.running = asked, launch, folder, running
        self.socket: socket.socket | None = None
        self.program: launching.Program | None = None
        self.ran_s, self.late, self.tries = 0.0, False, 0

    def start(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(LOOK_S)
        with theirs:
            self.program = launching.Program(self.asked, self.launch, self.folder, self.running, theirs.fileno())

    @property
    def is_alive(self) -> bool:
        return self.program is not None and self.program.is_alive

    @property
    def has_failed(self) -> bool:
        return self.program is not None and self.program.has_failed

    @property
    def has_room(self) -> bool:
        """Whether the other program fits beside it."""
        assert self.program is not None
        try:
            return bool(ROOM * psutil.Process(self.program.processes[0].pid).memory_info().rss < psutil.virtual_memory().available)
        except psutil.Error:
            return False

    def say(self, word: bytes, core: int) -> None:
        assert self.socket is not None
        with contextlib.suppress(OSError):
            self.socket.send(WORD.pack(word, core))

    def run_on(self) -> int | None:
        """Until it gives the turn up: the core on which it ran, -1 where that is not known. None: it ended, or goes on after a look."""
        assert self.socket is not None
        began = time.monotonic()
        core: int | None = None
        with contextlib.suppress(OSError, struct.error):  # a time-out is an OSError
            core = int(WORD.unpack(self.socket.recv(WORD.size))[1])
        if core is None and self.program is not None:
            with contextlib.suppress(TimeoutExpired):
                self.program.processes[0].wait(max(LOOK_S - (time.monotonic() - began), 0.0))
        self.ran_s += time.monotonic() - began
        if self.ran_s > self.asked.limit_s + self.tries * GRACE_S and self.is_alive:
            self.late, self.tries = True, self.tries + 1
            assert self.program is not None
            self.program.end(self.tries)
        return core

    def result(self) -> list[TrainingProcess]:
        if self.socket is not None:
            self.socket.close()
        return self.program.result(late=self.late) if self.program is not None else []


def run(
    asked: TrainingAsked, pair: Sequence[Launch], folder: Path, running: Running, wait: Callable[[], None]
) -> list[list[TrainingProcess]]:
    """What each left, as `launching.run` returns it. The second starts at the first one's first rest; where the first never rests (it uses
    CUDA, workers of a loader or ranks, or leaves no memory for another program), once it has ended; not where it failed before."""
    mine, other = (_Side(asked, launch, folder, running) for launch in pair)
    sides = [mine, other]
    running.processes = []
    mine.start()
    looked = time.monotonic()
    while mine.is_alive or other.is_alive:
        core = mine.run_on()
        if time.monotonic() - looked >= LOOK_S:
            looked = time.monotonic()
            wait()
        if mine.is_alive and core is None:
            continue
        core = -1 if core is None else core
        if other.program is None and not running.interrupted and (mine.has_room if mine.is_alive else not mine.has_failed):
            other.start()
        elif other.is_alive:
            other.say(b"g" if mine.is_alive else b"e", core)
        else:
            mine.say(b"e", core)
            continue
        mine, other = other, mine
    wait()
    return [left for one in sides if (left := one.result())]
