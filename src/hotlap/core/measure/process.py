"""The process of one round, as the session sees it: what it says, how it ends, and when it hangs."""

from __future__ import annotations

import contextlib
import os
import platform
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec

from hotlap.core.measure.protocol import Began, Ended, Fault, Job, Message, Sampling, Took
from hotlap.core.measure.targets.base import SystemClock

SPEED_ENVIRONMENT = {  # the user's own settings win
    "OMP_WAIT_POLICY": "passive",  # spinning OpenMP threads stall a shared machine for half a second
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),  # glibc: freed memory stays with the process, so that the next case need not
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),  # fault in every page again: 0.2 to 2 s for each GiB in a guest
}

CLOCK_SHARE, CLOCK_S = 0.75, 0.05  # so much of the time that sampling took must be in the worker's account, but for so many seconds
LOOK_S = 0.2  # how often it is looked whether the worker is silent


class Round:
    """A fresh process for one job. A process that says nothing for `limit_s` counts as hung."""

    def __init__(self, job: Job, limit_s: float, stop: threading.Event) -> None:
        self.limit_s, self.stop, self.hung = limit_s, stop, False
        self.tainted = False  # it ends before its last case, since nothing more can be measured in it
        self.begun: tuple[Sampling, float] | None = None  # the message that sampling begins, and when it came
        self.silent_s = 0.0  # until then nothing had come
        self.took = (0.0, 0.0)  # how long sampling lasted at least, and by the worker's account
        environment = {**SPEED_ENVIRONMENT, **os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hotlap.core.measure.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, bufsize=0, start_new_session=platform.system() != "Windows",
        )
        self.talk: list[bytes] = []
        self.listener = threading.Thread(target=self._collect, daemon=True)
        self.listener.start()
        self._write(msgspec.json.encode(job) + b"\n")

    def __enter__(self) -> Round:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=0 if self.stop.is_set() or self.hung else 20)
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.wait()
        self.listener.join(timeout=1)

    def _kill(self) -> None:
        """The process and what it started: a program under measurement must not go on using the device."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.talk = [*self.talk[-20:], line]

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is noticed where its messages are read
            self.process.stdin.write(data)

    def go_on(self) -> None:
        self._write(b"\n")

    def enough(self) -> None:
        """No further case: the round ends here."""
        self._write(b"enough\n")

    def messages(self) -> Iterator[Began | Took | Ended | Fault]:
        """Until the process ends, hangs, or the user stops it."""
        assert self.process.stdout is not None
        clock, pending = SystemClock(), b""
        heard = clock.now()
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while not self.stop.is_set():
                looked_s = clock.now()
                if not ready.select(timeout=LOOK_S):
                    self.silent_s = looked_s
                    if clock.now() - heard > self.limit_s:
                        self.hung = True
                        return
                    continue
                chunk = self.process.stdout.read(1 << 20)
                if not chunk:
                    return
                heard, pending = clock.now(), pending + chunk
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    message = msgspec.json.decode(line, type=Message)
                    if isinstance(message, Sampling):
                        self._sampling(message, clock.now())
                    else:
                        yield self._doubted(message) if isinstance(message, Took) else message

    def _sampling(self, message: Sampling, now_s: float) -> None:
        """Notes how long sampling lasted at least, and what the worker's samples made of it."""
        account_s = message.timed_s + message.between_s
        if not account_s:
            self.begun = message, now_s
        elif self.begun is not None:
            (first, came_s), self.begun = self.begun, None
            # A loaded or stopped host delivers either message late, by seconds, so that when the last one came says nothing. Two things
            # do, and the longer one counts: what lies between the two messages' own times (a kernel that swaps timers does not reach
            # their clock), and, should these be forged, the time from the first message's coming to the last look that found nothing:
            # the second one was not sent by then. That the first came late, or that nobody could look for a while, only shortens it.
            self.took = max(message.sent_s - first.sent_s, self.silent_s - came_s), account_s

    def _doubted(self, took: Took) -> Took:
        """Samples that add up to less time than sampling lasted were not timed by a clock that can be believed."""
        (lasted_s, account_s), self.took = self.took, (0.0, 0.0)
        self.tainted = took.tainted
        if took.samples.status != "measured" or account_s >= CLOCK_SHARE * lasted_s - CLOCK_S:
            return took
        said = f"sampling lasted {lasted_s:.3g} s and its samples account for {account_s:.3g} s: its timer was tampered with"
        return msgspec.structs.replace(took, samples=msgspec.structs.replace(took.samples, status="invalid", reason=said))

    def ending(self) -> str:
        if self.hung:
            return f"did not answer for {self.limit_s:.0f} s and was stopped"
        code = self.process.poll()
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def last_words(self) -> str:
        words = [line.decode(errors="replace").strip() for line in self.talk if line.strip()]
        return words[-1][:300] if words else "it said nothing"
