"""One execution of a program: from before it is started until it has ended, in a session of its own, of which nothing outlives its time.

Its standard input is /dev/null, so a program that asks a terminal ends at once instead of waiting. `posix_spawn` and a file descriptor
of the process keep what this adds to a run under a millisecond (`benchmarks/bench.py`).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Literal, NamedTuple

from hotlap.core.measure.supervisor import kill_session

Output = Literal["pipe", "null", "inherit"]
SHELL = "/bin/sh"
LONGEST_MS = 2**31 - 1  # that poll takes
_RESET = [signal.SIGINT, signal.SIGPIPE, *([signal.SIGXFSZ] if hasattr(signal, "SIGXFSZ") else [])]  # Python ignores some of them


class Execution(NamedTuple):
    """What one execution took. `status`: its exit status, negative where a signal ended it."""

    seconds: float
    status: int
    user_s: float | None = None  # None: not known on this system
    system_s: float | None = None
    peak_bytes: int | None = None  # resident memory at its highest
    output: str = ""  # of both streams, where it went into a pipe
    errors: str = ""


class TimedOut(Exception):
    """It took longer than it may, and was killed with all that it started."""


class Launcher:
    """A program to be executed again and again. Raises OSError where it cannot be started, ValueError for what is no argument."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], folder: str | None = None, output: Output = "null",
        timeout_s: float | None = None,
    ) -> None:
        self.argv, self.environment, self.folder = list(argv), dict(environment), folder
        self.output, self.timeout_s = output, timeout_s
        self.path = shutil.which(argv[0], path=environment.get("PATH")) or argv[0]
        self.actions: list[Any] = []
        if hasattr(os, "posix_spawn"):
            self.actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        if self.actions and output == "null":
            self.actions += [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]

    def once(self) -> Execution:
        """Raises TimedOut; whatever ends it early leaves nothing of the program running."""
        if self.output == "pipe" or self.folder or not self.actions:
            return self._popen()
        began = perf_counter()
        pid = os.posix_spawn(self.path, self.argv, self.environment, file_actions=self.actions, setsid=True, setsigdef=_RESET)
        return self._waited(pid, began)

    def _popen(self) -> Execution:
        where = {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL, "inherit": None}[self.output]
        began = perf_counter()
        process = subprocess.Popen(
            self.argv, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=where, stderr=where, text=True,
            errors="replace", start_new_session=True,
        )
        if where is not subprocess.PIPE and hasattr(os, "wait4"):
            done = self._waited(process.pid, began)
            process.returncode = done.status
            return done
        try:
            output, errors = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            kill_session(process.pid)
            process.communicate()
            raise TimedOut from None
        except BaseException:
            kill_session(process.pid)
            process.wait()
            raise
        return Execution(perf_counter() - began, process.returncode, output=output or "", errors=errors or "")

    def _waited(self, pid: int, began: float) -> Execution:
        try:
            over = self._over(pid)
            if over:
                _, status, used = os.wait4(pid, 0)
                ended = perf_counter()
                return Execution(
                    ended - began, os.waitstatus_to_exitcode(status), used.ru_utime, used.ru_stime,
                    used.ru_maxrss * (1024 if os.uname().sysname == "Linux" else 1),
                )
        except BaseException:
            _ended(pid)
            raise
        _ended(pid)
        raise TimedOut

    def _over(self, pid: int) -> bool:
        """Whether it ended in its time."""
        if self.timeout_s is None:
            return True  # wait4 waits
        try:
            file = os.pidfd_open(pid)
        except (AttributeError, OSError):  # not Linux, or a sandbox without it
            return _ended_within(pid, self.timeout_s)
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            return bool(poll.poll(min(self.timeout_s * 1e3, LONGEST_MS)))
        finally:
            os.close(file)


def _ended_within(pid: int, seconds: float) -> bool:
    """A thread's alarm in place of a file descriptor of the process."""
    late = threading.Event()

    def end() -> None:
        late.set()
        kill_session(pid)

    alarm = threading.Timer(seconds, end)
    alarm.start()
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    finally:
        alarm.cancel()
    return not late.is_set()


def _ended(pid: int) -> None:
    kill_session(pid)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def shell(text: str, environment: Mapping[str, str], folder: str | None = None) -> Execution:
    """A line of shell, not timed for anybody, with its output kept for messages."""
    return Launcher([SHELL, "-c", text], environment, folder, "pipe").once()
