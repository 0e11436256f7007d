"""Several plans measured in turns, round by round, each on its own target and in a run of its own: what the machine does meanwhile it
does to all of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hotlap.core.measure import session, signals, supervisor
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.protocol import Job
from hotlap.core.record import Plan
from hotlap.core.store import locks

WAKES_S = 0.2  # how often one that waits looks whether the user has stopped all


class Part(NamedTuple):
    """One plan and where it runs."""

    plan: Plan
    options: session.SessionOptions
    listen: session.Listener


@dataclass
class _Turnstile:
    """Lets the parts measure in the order A B, B A, A B …, one at a time. A part that has ended is waited for no longer."""

    at: dict[int, int]  # the round that each part is at, or waits for
    changed: threading.Condition = field(default_factory=threading.Condition)
    stops: set[threading.Event] = field(default_factory=set)
    stopped: bool = False

    def start(self, part: int) -> session.Start:
        """What starts a part's processes, each when it is its turn."""

        def started(job: Job, limit_s: float, stop: threading.Event) -> WorkerProcess:
            with self.changed:
                self.stops.add(stop)
                if self.stopped:
                    stop.set()
                self.at[part] = job.round
                self.changed.notify_all()
                while not stop.is_set() and min(self.at, key=self._place) != part:
                    self.changed.wait(WAKES_S)
            return session.process(job, limit_s, stop)

        return started

    def _place(self, part: int) -> tuple[int, int]:
        number = self.at[part]
        return number, -part if number % 2 else part

    def leave(self, part: int) -> None:
        with self.changed:
            del self.at[part]
            self.changed.notify_all()

    def stop(self) -> None:
        """Ends all of them as Ctrl-C ends one."""
        self.stopped = True
        for one in list(self.stops):
            one.set()


def run(parts: Sequence[Part]) -> list[Path]:
    """The bundles, in the order of the parts. Raises Busy where another run has a device, and what `session.run` raises; an error or
    Ctrl-C in one of them ends all, and everything measured is kept."""
    devices = [device for part in parts for device in session.places(part.plan, part.options)[1]]
    turns = _Turnstile(dict.fromkeys(range(len(parts)), 0))
    errors: list[BaseException] = []  # the first is the cause, the others are stopped by it

    def measured(number: int) -> Path:
        plan, options, listen = parts[number]
        try:
            return session.run(plan, replace(options, held=True), listen, turns.start(number))
        except BaseException as error:
            errors.append(error)
            turns.stop()
            raise errors[0] from None
        finally:
            turns.leave(number)

    with locks.hold(devices, max(part.options.wait_s for part in parts)), signals.caught(lambda _: turns.stop()):
        return supervisor.together(measured, range(len(parts)))
