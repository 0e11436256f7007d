"""Commands measured now, in turns: A B, B A, A B … Each execution is a fresh process and a round of its own. How many there are is counted
as hyperfine counts them, or follows from the rule of `ab`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

import hotlap
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure import foreign, signals
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads.command import CommandProgram, ProgramFailed, ending
from hotlap.core.plan import of_programs
from hotlap.core.record import METHOD, Benched, Case, Check, Notice, Plan, Result, RunRecord, Samples, Stop, Turns
from hotlap.core.stats.sequential import PILOT, SequentialOptions
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels, locks
from hotlap.core.store.fold import fold
from hotlap.core.together import BenchedCommand
from hotlap.core.trials.ab import AGAIN, AbOptions, AbPair, enough, fitting, pair

FEWEST, MEASURING_S = 10, 3.0  # runs of a command by default: as many as take 3 s, 10 at least, as hyperfine does


@dataclass(frozen=True)
class BenchCommand:
    """One command. `letter` and `name`: in the table; `text`: as the user wrote it, parameters filled in; `setup` and `cleanup` are lines
    of shell, run once."""

    letter: str
    name: str
    text: str
    case: Case
    setup: str = ""
    cleanup: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BenchOptions:
    """How often. `until_sure`: by the test of `ab`, at most its `most` of each command."""

    warmup: int = 0
    runs: int = 0  # of each command; 0: from its time
    min_runs: int = FEWEST
    max_runs: int | None = None
    until_sure: AbOptions | None = None
    budget_s: float = math.inf
    labels: dict[str, object] = field(default_factory=dict)
    wait_s: float = 0.0  # for the processor, where another run holds it
    tell: Callable[[str], None] = lambda _: None  # is told before anything is measured that one does


@dataclass(frozen=True)
class BenchOutcome:
    """Where the run is kept, and why it ended. `status`: of a program that failed; None where none did."""

    path: Path
    stop: Stop
    status: int | None = None


class NothingMeasured(InputError):
    """What was asked gave no number. `status`: of a program that failed; None where something else was wrong."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.status = status


class BenchLeft(NamedTuple):
    """What is still to be done: runs in all of each command that is under way, by its place, and the time that the rest takes by the last
    run of each, s. `most`: at most, since the answer may be sure before."""

    runs: dict[int, int]
    seconds: float
    most: bool


Listener = Callable[[int, int, float | None, BenchLeft | None], None]
"""Called before each execution (or warm-up): which command, how many of it are done, its last value, and what is left; None: not known."""


def bench(commands: Sequence[BenchCommand], options: BenchOptions, home: Path, listen: Listener = lambda *_: None) -> BenchOutcome:
    """Measures the commands and keeps every number as one run. What ends it after a first number keeps what there is: `stop` says why.

    Raises NothingMeasured for a program that is not there or that fails at once, and for a setup that fails.
    """
    bench = _Bench(commands, options, home, listen)
    if others := locks.beside([bench.host.device], options.wait_s):
        options.tell(others)
    with signals.as_interrupted():
        return bench.measure()


class _Bench:
    """A measurement under way."""

    def __init__(self, commands: Sequence[BenchCommand], options: BenchOptions, home: Path, listen: Listener) -> None:
        self.commands, self.options, self.home, self.listen = commands, options, home, listen
        self.host = HostTarget()
        self.programs = [CommandProgram(command.case) for command in commands]
        self.kept: list[list[Samples]] = [[] for _ in commands]
        self.execution_s = [0.0 for _ in commands]  # the last one, with what prepares and concludes it
        self.counts: dict[int, int] = {}  # runs of each command that are planned, where that is known
        self.until_s = math.inf  # when the budget ends
        self.in_turns = len({command.setup for command in commands}) == 1
        self.turns: Turns | None = None  # what the test was planned for; None where the number of runs is fixed
        self.watch = foreign.ForeignHost()
        self.unwritten: list[Samples] = []
        self.writer: bundles.Writer | None = None  # from the first number on, so that no run without one is kept
        self.run = self._record()

    def measure(self) -> BenchOutcome:
        self.watch.others()
        stop, status = Stop("interrupted"), None
        try:
            stop = self._all()
        except KeyboardInterrupt:
            if not any(self.kept):
                raise
            self._write()
        except NotSupported as error:
            status = error.status if isinstance(error, ProgramFailed) else None
            if self.writer is None:
                raise NothingMeasured(str(error), status) from error
            stop = Stop("error", str(error))
        finally:
            self._finish(stop)
        assert self.writer is not None
        return BenchOutcome(self.writer.path, stop, status)

    def _record(self) -> RunRecord:
        began = datetime.now(UTC)
        plan = Plan(name="bench", cases=[command.case for command in self.commands], source="hotlap bench")
        named = [
            BenchedCommand(case=one.case.id, name=one.letter, command=one.name, parameters=one.parameters) for one in self.commands
        ]
        return RunRecord(
            id=bundles.new_id(began), began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__, method=METHOD, plan=plan,
            machine=fingerprint([self.host.device]), target="host", devices=[self.host.device.key],
            labels=labels.check(self.options.labels), part_of=AGAIN,
            bench=Benched(commands=named, in_turns=self.in_turns, warmup=self.options.warmup),
        )

    def _finish(self, stop: Stop) -> None:
        if self.writer is None:
            return
        counts = [len(kept) for kept in self.kept]
        measure = replace(of_programs(len(self.commands)), rounds=max(min(counts), 1), rounds_max=max(counts))
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        assert self.run.bench is not None
        benched = replace(self.run.bench, planned=self.turns, others=self.watch.others())
        self.run = replace(self.run, ended=ended, stops=[stop], plan=replace(self.run.plan, measure=measure), bench=benched)
        self.writer.finish(self.run)

    def _all(self) -> Stop:
        everyone = list(range(len(self.commands)))
        groups = [everyone] if self.in_turns else [[which] for which in everyone]
        stop = Stop("rounds_max")
        for group in groups:
            self._hooks("setup", [self.commands[which].setup for which in group])
            for _ in range(self.options.warmup):
                for which in group:
                    self._once(which, None)
            stop = self._until_sure(group) if self.options.until_sure else self._counted(group)
            self._hooks("cleanup", [self.commands[which].cleanup for which in group])
        return stop

    def _hooks(self, name: str, texts: Sequence[str]) -> None:
        for text in dict.fromkeys(filter(None, texts)):
            self.programs[0].hook(name, text)

    def _once(self, which: int, turn: int | None) -> None:
        """One execution. `turn`: its round; None: a warm-up."""
        kept, program = self.kept[which], self.programs[which]
        self.listen(which, len(kept), kept[-1].values[0] if kept else None, self._left())
        began_s = self.host.clock.now()
        try:
            done = program.once()
        except NotSupported as error:
            message = f"'{self.commands[which].text}': {error}"
            raise ProgramFailed(message, error.status) if isinstance(error, ProgramFailed) else NotSupported(message) from error
        ended_s = self.host.clock.now()
        self.execution_s[which] = ended_s - began_s
        if turn is None:
            return
        check = Check(passed=True, what="exit status 0") if not done.status else None
        notices = [Notice("exit_status", f"it {ending(done)}", count=done.status)] if done.status else []
        metrics = {"user_s": done.user_s, "system_s": done.system_s, "peak_bytes": done.peak_bytes}
        group = range(len(self.commands)) if self.in_turns else [which]
        self._append(which, Samples(
            case=self.commands[which].case.id, device=self.host.device.key, round=turn, values=[done.seconds], method="program",
            variant=program.read, began_s=began_s, ended_s=ended_s, resolution_s=self.host.timer_resolution_s,
            warmup_samples=0 if kept else self.options.warmup, check=check, notices=notices,
            metrics={name: float(value) for name, value in metrics.items() if value is not None},
        ), group)

    def _left(self) -> BenchLeft | None:
        if not self.counts:
            return None
        rest_s = sum(max(count - len(self.kept[which]), 0) * self.execution_s[which] for which, count in self.counts.items())
        return BenchLeft(dict(self.counts), min(rest_s, self.until_s - self.host.clock.now()), self.options.until_sure is not None)

    def _append(self, which: int, samples: Samples, group: Sequence[int]) -> None:
        """Kept at once, but for the first turn: a command that fails there is a usage error, and leaves no run."""
        self.kept[which].append(samples)
        self.unwritten.append(samples)
        if self.writer or all(self.kept[one] for one in group):
            self._write()

    def _write(self) -> None:
        with signals.held_back():
            self.writer = self.writer or bundles.Writer.create(self.run, self.home)
            while self.unwritten:
                self.writer.append(self.unwritten.pop(0))

    def _counted(self, group: Sequence[int]) -> Stop:
        """As many executions of each as were asked for, or as its first one's time leads to, spread evenly over the turns."""
        began_s = self.host.clock.now()
        for which in group:
            self._once(which, 0)
        self.counts = counts = {which: self._count(which) for which in group}
        self.until_s = began_s + self.options.budget_s
        turns = max(counts.values())
        for turn in range(1, turns):
            elapsed_s = self.host.clock.now() - began_s
            if elapsed_s + elapsed_s / turn > self.options.budget_s:
                return Stop("budget")
            for which in group if turn % 2 == 0 else list(reversed(group)):
                if turn * (counts[which] - 1) // (turns - 1) > (turn - 1) * (counts[which] - 1) // (turns - 1):
                    self._once(which, turn)
        return Stop("rounds_max")

    def _count(self, which: int) -> int:
        if self.options.runs:
            return self.options.runs
        wanted = max(self.options.min_runs, int(MEASURING_S / max(self.execution_s[which], 1e-9)))
        return max(min(wanted, self.options.max_runs or wanted), 1)

    def _until_sure(self, group: Sequence[int]) -> Stop:
        """Every command against the first, by the test of `ab`, until the answer is known for all of them."""
        assert self.options.until_sure is not None
        asked, clock = self.options.until_sure, self.host.clock
        began_s, most = clock.now(), asked.most
        for turn in range(asked.most):
            for which in group if turn % 2 == 0 else list(reversed(group)):
                self._once(which, turn)
            elapsed_s = clock.now() - began_s
            if turn + 1 == PILOT:
                most = fitting(elapsed_s, asked)
            self.counts, self.until_s = dict.fromkeys(group, most), began_s + asked.budget_s
            self.turns = Turns(id=self.run.id, side="A", difference=asked.difference, min_effect=asked.min_effect, most=most)
            if stop := enough(self._pairs(self.turns), turn + 1, elapsed_s, (most, asked)):
                return stop
        return Stop("rounds_max")

    def _pairs(self, turns: Turns) -> list[AbPair]:
        first, *others = self._results()
        return [pair(first, other, SequentialOptions(turns.difference, turns.min_effect, turns.most)) for other in others]

    def _results(self) -> list[Result]:
        each = zip(self.commands, self.kept, strict=True)
        return [fold(command.case, kept, "host", self.host.device.key) for command, kept in each]
