"""A program's executions as samples, counted as hyperfine counts runs: each is a fresh process, timed from before it is started until
it has ended. No clock or timer of a device has a part in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure.loop import CaseBudget
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.protocol import CaseDone, CaseStarted, Job, RoundDone, RoundFailed
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.workloads.command import CommandProgram
from hotlap.core.record import Case, Check, Samples
from hotlap.core.stats.summary import autocorrelation


def timed(program: CommandProgram) -> float:
    """One execution: its wall time in s, or the number that it printed, in its unit. Raises NotSupported with the reason."""
    done = program.once()
    return done.seconds if program.read == "wall" else program.value()


def measure(target: Target, case: Case, budget: CaseBudget, most_s: float | None = None) -> Samples:
    """Executions until the budget's time is used up, one at least. The first of round 0 fills the caches and is not counted, unless it took
    more than `most_s`: then the fewest rounds would not fit into the run's time without it.

    Never raises for what the program does: the status says so.
    """
    blank = Samples(case=case.id, device=target.device.key, round=budget.round, seed=budget.seed)
    try:
        return _executed(CommandProgram(case), target, budget, blank, most_s)
    except NotSupported as error:
        return _with(blank, status="not_run", reason=str(error))
    except HotlapError as error:
        return _with(blank, status="error", reason=str(error))


def _executed(program: CommandProgram, target: Target, budget: CaseBudget, blank: Samples, most_s: float | None) -> Samples:
    clock, watch, values, disturbed = target.clock, budget.watch, list[float](), 0
    watch.steal()
    watch.others()
    began_s = clock.now()
    if budget.round == 0:
        values.append(timed(program))
        if most_s is None or clock.now() - began_s <= most_s:
            values.clear()
            began_s = clock.now()
            watch.others()
    warm = int(budget.round == 0 and not values)
    while not values or clock.now() < began_s + budget.seconds:
        values.append(timed(program))
        disturbed += watch.crowded()
    executions = f"{program.runs} execution{'' if program.runs == 1 else 's'}"
    return _with(
        blank, values=values, unit=program.unit, method="program", variant=program.read, warmup_samples=warm, began_s=began_s,
        ended_s=clock.now(), resolution_s=target.timer_resolution_s if program.read == "wall" else 0.0,
        autocorrelation=autocorrelation(values),
        disturbed=None if watch.why_not else disturbed / len(values), steal=watch.steal(),
        check=Check(passed=True, what=f"exit status 0 in {executions}"),
    )


def _with(samples: Samples, **changes: Any) -> Samples:
    return msgspec.structs.replace(samples, **changes)


class Worker:
    """The process that serves every round: of programs, which are fresh processes of their own, and of simulated devices, whose noise
    is drawn for each round. Several runs may share it, one after another."""

    def __init__(self) -> None:
        self.lasting: _Lasting | None = None
        self.stop = threading.Event()  # by the user: the process ends, and so does the run

    def round(self, job: Job, limit_s: float, stop: threading.Event) -> WorkerProcess:
        """The job, given to the process of the round before where that still runs, else to a new one."""
        job = msgspec.structs.replace(job, more=True)
        if self.lasting is None or not self.lasting.served:
            self.lasting = _Lasting(job, limit_s, stop)
        else:
            self.lasting.again(job, limit_s)
        return self.lasting

    def end(self) -> None:
        """Ends the process, where there is one."""
        if self.lasting is not None:
            self.lasting.end()
            self.lasting = None


class _Lasting(WorkerProcess):
    """A process that outlives its round where it came to the round's end."""

    served = False

    def messages(self) -> Iterator[CaseStarted | CaseDone | RoundDone | RoundFailed]:
        """As of a round; notes whether its end was said."""
        self.served = False
        for message in super().messages():
            self.served = isinstance(message, RoundDone)
            yield message

    def again(self, job: Job, limit_s: float) -> None:
        self.limit_s = limit_s
        self.write(msgspec.json.encode(job) + b"\n")

    def __exit__(self, *error: object) -> None:
        if not self.served or self.stop.is_set():
            self.end()

    def end(self) -> None:
        """As a round ends else."""
        super().__exit__()
