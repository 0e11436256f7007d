"""The process of one round, as the session sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

from hotlap.core.measure.guard import Account
from hotlap.core.measure.protocol import CaseDone, CaseStarted, Job, Message, RoundDone, RoundFailed, Sampling
from hotlap.core.measure.supervisor import Process
from hotlap.core.measure.targets.base import SystemClock


class WorkerProcess(Process):
    """A fresh process for one job."""

    def __init__(self, job: Job, limit_s: float, stop: threading.Event, account: Account | None = None) -> None:
        self.spent = False  # it ends before its last case, since nothing more can be measured in it
        self.account = account or Account()
        operators = job.spec.startswith("torch")  # they may allocate in what is timed
        super().__init__("hotlap.core.measure.worker", job, limit_s, stop, as_programs=operators)

    def __enter__(self) -> WorkerProcess:
        return self

    def go_on(self) -> None:
        self.write(b"\n")

    def enough(self) -> None:
        """No further case: the round ends here."""
        self.write(b"enough\n")

    def messages(self) -> Iterator[CaseStarted | CaseDone | RoundDone | RoundFailed]:
        """Until the process ends, hangs, or the user stops it."""
        clock = SystemClock()
        for line in self.lines():
            message = msgspec.json.decode(line, type=Message)
            if isinstance(message, Sampling):
                self.account.sampling(message, clock.now(), self.silent_s)
                continue
            if isinstance(message, CaseDone):
                self.spent = message.spent
                message = msgspec.structs.replace(message, samples=self.account.judged(message.samples))
            yield message
