"""The process of one round, as the session sees it: what it says, and whether its account of time can be believed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

from hotlap.core.measure.protocol import Began, Ended, Fault, Job, Message, Sampling, Took
from hotlap.core.measure.supervisor import Process
from hotlap.core.measure.targets.base import SystemClock

CLOCK_SHARE, CLOCK_S = 0.75, 0.05  # so much of the time that sampling took must be in the worker's account, but for so many seconds


class Round(Process):
    """A fresh process for one job."""

    def __init__(self, job: Job, limit_s: float, stop: threading.Event) -> None:
        self.tainted = False  # it ends before its last case, since nothing more can be measured in it
        self.begun: tuple[Sampling, float] | None = None  # the message that sampling begins, and when it came
        self.took = (0.0, 0.0)  # how long sampling lasted at least, and by the worker's account
        super().__init__("hotlap.core.measure.worker", job, limit_s, stop)

    def __enter__(self) -> Round:
        return self

    def go_on(self) -> None:
        self.write(b"\n")

    def enough(self) -> None:
        """No further case: the round ends here."""
        self.write(b"enough\n")

    def messages(self) -> Iterator[Began | Took | Ended | Fault]:
        """Until the process ends, hangs, or the user stops it."""
        clock = SystemClock()
        for line in self.lines():
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
