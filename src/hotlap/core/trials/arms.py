"""One side of a comparison that is measured in turns: a command, or a plan. Each turn is a fresh process and gives one value per case."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core import plan as plans
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import programs, targets
from hotlap.core.measure.protocol import CaseChoice, CaseDone, Job, RoundFailed
from hotlap.core.measure.session import choose, process
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads.command import CommandProgram
from hotlap.core.record import Case, Device, Plan, Readings, Result, Samples
from hotlap.core.store.fold import fold
from hotlap.core.work.program import COMMAND, cannot_start

HUNG_S = 120.0


class BothSides(MachineError):
    """Why a comparison ends that is of no side alone."""


@dataclass(frozen=True)
class Arm:
    """What is measured on one side. `once(number)`: the samples of one turn, a line per case."""

    text: str  # as the user wrote it
    plan: Plan
    device: Device
    target: str
    once: Callable[[int], list[Samples]]
    labels: Mapping[str, str] = field(default_factory=dict)  # of its run alone

    def results(self, kept: Sequence[Samples]) -> list[Result]:
        """A result per case, in the plan's order."""
        name = self.target.partition("?")[0].partition(":")[0]
        return [fold(case, [one for one in kept if one.case == case.id], name, self.device.key) for case in self.plan.cases]


def command(text: str, how: dict[str, object]) -> Arm:
    """A command line, split as a shell would but run without one. `how`: further parameters of the workload `command`."""
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise InputError(f"'{text}' is no command line: {error}") from None
    case = COMMAND.case({"argv": argv, **how})
    return programs_of(text, Plan(name="ab", cases=[case], source="hotlap ab"), [CommandProgram(case)])


def programs_of(text: str, plan: Plan, started: Sequence[CommandProgram], labels: Mapping[str, str] = {}) -> Arm:
    """A plan of programs: each turn is one execution of each. `started`: what is run for each case."""
    host = HostTarget()

    def once(number: int) -> list[Samples]:
        return [_executed(host, case, program, number) for case, program in zip(plan.cases, started, strict=True)]

    return Arm(text, plan, host.device, "host", once, labels)


def _executed(host: HostTarget, case: Case, program: CommandProgram, number: int) -> Samples:
    began_s = host.clock.now()
    value = programs.timed(program)
    return Samples(
        case=case.id, device=host.device.key, round=number, values=[value], method="program", began_s=began_s,
        ended_s=host.clock.now(), resolution_s=host.timer_resolution_s, variant=program.read,
    )


def planned(
    text: str, plan: Plan, target: str, device: str, listen: Callable[[Sequence[Readings]], None] = lambda _: None
) -> Arm:
    """A plan: each turn is one round of it, in a fresh process. `listen`: what sensors read in a turn, by the clock of its samples."""
    spec = targets.chosen(target, plan.cases)
    devices = targets.find(spec)
    chosen = choose(devices, device)
    if len(chosen) != 1:
        raise InputError("a plan is measured in turns on one device; give --device INDEX")
    place = next(n for n, one in enumerate(devices) if one.key == chosen[0].key)
    clock_s = [0.0]
    choices = dict[str, CaseChoice]()

    def once(number: int) -> list[Samples]:
        job = Job(
            spec=spec.text, device=place, device_key=chosen[0].key, round=number, cases=plan.cases, options=plan.measure,
            seed=(plan.measure.seed or 1) * 1000 + number, start_s=clock_s[0],
            choices=choices,
        )
        found, seconds = _round(job, listen)
        for one in found:
            if one.values:
                choices.setdefault(one.case, CaseChoice(one.variant, one.method))
        clock_s[0] += seconds
        return found

    return Arm(text, plan, chosen[0], spec.text, once)


def _round(job: Job, listen: Callable[[Sequence[Readings]], None]) -> tuple[list[Samples], float]:
    """All cases of one round, and what it took by the target's clock."""
    worker = process(job, HUNG_S + 4 * job.options.round_s, threading.Event())
    lines: list[Samples] = []
    with worker:
        for message in worker.messages():
            if isinstance(message, RoundFailed):
                raise MachineError(message.message)
            if isinstance(message, CaseDone):
                lines.append(message.samples)
                listen(message.readings)
                worker.go_on()
            elif hasattr(message, "seconds"):
                return lines, message.seconds
    raise MachineError(f"the measuring process {worker.ending()}; its last words: {worker.last_words()}")


def arm(text: str, how: dict[str, object], target: str, device: str) -> Arm:
    """A plan where the text names one (built in, or a TOML file), else a command line."""
    if not text.strip():
        raise InputError("an empty command measures nothing; give a command line, or a plan")
    if text in plans.builtin() or (text.endswith(".toml") and Path(text).is_file()):
        if how:
            raise InputError(f"a plan says itself what its numbers are; leave out --metric, --unit, --better and --timeout for '{text}'")
        return planned(text, plans.load(text), target, device)
    if target or device:
        raise InputError(f"--target and --device are for plans; '{text}' is taken for a command line")
    _look_for_program(text)
    return command(text, how)


def _look_for_program(text: str) -> None:
    """Raises InputError where there is none of that name."""
    words = list[str]()
    with suppress(ValueError):  # a quote that is not closed is refused with the command
        words = shlex.split(text)
    if words and (why := cannot_start(words[0])):
        raise InputError(why)
