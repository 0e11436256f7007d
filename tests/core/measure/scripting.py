"""Scripts for the scripted target, the loop on it, and a worker that is a thread: nothing here takes real time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from hotlap.core import work
from hotlap.core.errors import HotlapError
from hotlap.core.measure import loop, worker
from hotlap.core.measure.foreign import Nothing
from hotlap.core.measure.protocol import CaseDone, CaseStarted, Job, Message, RoundDone, RoundFailed, Sampling
from hotlap.core.measure.targets.base import Prepared, Seen
from hotlap.core.measure.targets.scripted import Page, Script, ScriptedStep, ScriptedTarget
from hotlap.core.record import Case, Device, MeasureOptions, Plan, Samples

TICK = 2.0**-10  # seconds; sums of it are exact
CASE = Case(workload="launch", params=work.find("launch").parse({}))  # its metric is its seconds
OTHER = Case(workload="sync", params=work.find("sync").parse({}))
MS = 4 * TICK  # a sample that is long enough on its own


def steps(*seconds: float, **each: Any) -> list[ScriptedStep]:
    return [ScriptedStep(device_s=s, **each) for s in seconds]


def opened(page: Page | Sequence[ScriptedStep], **script: Any) -> ScriptedTarget:
    """A scripted target with one page for `CASE`."""
    one = page if isinstance(page, Page) else Page(steps=list(page))
    return ScriptedTarget(Device(target="scripted", index=0, name="script", kind="gpu"), Script(cases={CASE.workload: [one]}, **script))


def measured(target: ScriptedTarget, seconds: float = 64 * TICK, change: Any = None, overhead: loop.Overhead | None = None, **budget: Any) -> Samples:
    """The samples of `CASE`; `change` alters what is prepared."""
    given = {"watch": target.watch, "clock": target.clock_hz, **budget}
    if change is None:
        return loop.measure(target, CASE, loop.CaseBudget(seconds=seconds, **given), overhead)
    prepared: Prepared = target.prepare(CASE)
    prepared = replace(prepared, **change)
    blank = Samples(case=CASE.id, device="d", round=0)
    return loop.time_prepared(target, prepared, loop.CaseBudget(seconds=seconds, **given), blank, overhead or loop.timing_overhead(target))


@dataclass
class Diary(Nothing):
    """A watch that writes down what it is asked, and takes a while for it."""

    target: ScriptedTarget | None = None
    takes_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.asked.append("begin")
        assert self.target
        self.target.clock.sleep(self.takes_s)

    def end(self, wall_s: float) -> Seen:
        self.asked.append("end")
        assert self.target
        self.target.turn_over()
        return Seen()

    def steal(self) -> float | None:
        self.asked.append("steal")
        return None

    def others(self) -> float | None:
        self.asked.append("others")
        return None


# ---------------------------------------------------------------- a worker in this process


class _Channel:
    """What the worker writes to; a line is a message."""

    def __init__(self, said: queue.SimpleQueue[Any]) -> None:
        self.said = said

    def write(self, data: bytes) -> int:
        self.said.put(msgspec.json.decode(data, type=Message))
        return len(data)


class _Answers:
    """What the worker reads from."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def readline(self) -> bytes:
        return self.lines.get()


class Thread:
    """In place of `process.Round`: the worker's own code, in a thread. `dies` is called with each case: True ends it there."""

    jobs: list[Job]

    def __init__(self, job: Job, limit_s: float, stop: threading.Event, dies: Callable[[Job, str], bool] = lambda *_: False) -> None:
        self.job, self.stop, self.dies, self.hung, self.spent = job, stop, dies, False, False
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers = _Answers()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        channel: Any = _Channel(self.said)
        answers: Any = self.answers
        try:
            worker.one_round(self.job, channel, answers)
        except HotlapError as error:
            self.said.put(RoundFailed(message=str(error), exit_code=error.exit_code))
        finally:
            self.said.put(None)

    def __enter__(self) -> Thread:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.lines.put(b"")
        self.thread.join(timeout=10)

    def go_on(self) -> None:
        self.answers.lines.put(b"\n")

    def enough(self) -> None:
        self.answers.lines.put(b"enough\n")

    def messages(self) -> Iterator[CaseStarted | CaseDone | RoundDone | RoundFailed]:
        while (message := self.said.get()) is not None and not self.stop.is_set():
            if isinstance(message, Sampling):
                continue
            if isinstance(message, CaseDone):
                self.spent = message.spent
            yield message
            if isinstance(message, CaseStarted) and self.dies(self.job, message.case):
                return

    def ending(self) -> str:
        return "did not answer for 9 s and was stopped" if self.hung else "was ended by SIGSEGV"

    def last_words(self) -> str:
        return "last words"


def plan(*cases: Case, **options: Any) -> Plan:
    """Sensors are off: they are the machine's."""
    given = {"rounds": 6, "rounds_max": 6, "round_s": 1.0, "budget_s": 600.0, "seed": 5, "readings_hz": 0.0, **options}
    return Plan(name="test", cases=list(cases or (CASE,)), measure=MeasureOptions(**given))


def written(folder: Path, pages: dict[str, list[Page]], **script: Any) -> str:
    """The specification of a script."""
    path = folder / "script.json"
    path.write_bytes(msgspec.json.encode(Script(cases=pages, **script)))
    return f"scripted:{path}"
