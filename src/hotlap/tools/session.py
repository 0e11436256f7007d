"""A tool's rounds: each executes it once, afresh; what it said is kept as a run like any other, with sensors and notices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from hotlap.core.errors import NotSupported
from hotlap.core.measure import runs, sensors, signals, targets
from hotlap.core.measure.machine import busy
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.session import choose
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.tools import reading, running
from hotlap.core.measure.tools.finding import FoundTool
from hotlap.core.measure.tools.reading import ToolReading, ToolValue
from hotlap.core.measure.tools.toolfile import ToolFile
from hotlap.core.plan import of_programs
from hotlap.core.record import METHOD, Case, Device, Look, Notice, Plan, Samples, Stop
from hotlap.core.store import labels
from hotlap.core.work.program import TOOL

NOTHING = "result"  # called so where no number's name is known before it is there


@dataclass(frozen=True)
class ToolOptions:
    """How to run tools."""

    rounds: int = 6
    target: str = ""
    device: str = ""
    labels: Mapping[str, object] = field(default_factory=dict)
    readings_hz: float = 10.0
    home: Path = Path()
    wait_s: float = 0.0  # for a device that another run holds
    limit_s: float = math.inf  # no round begins that would pass it, but the first
    began: Callable[[], None] = lambda: None  # is called once the device is free, before anything is executed
    looked: Callable[[Look], None] = lambda _: None  # is told what a look at the machine showed, before anything is executed


@dataclass(frozen=True)
class ToolJob:
    """One tool with its parameters."""

    tool: ToolFile
    place: FoundTool
    settings: Mapping[str, str]


Listener = Callable[[ToolJob, int, str], None]
"""Called after each execution: which, its round, why it gave no number ("" where it did)."""


def run(jobs: Sequence[ToolJob], options: ToolOptions, listen: Listener = lambda *_: None) -> Path:
    """Executes the tools in turns and returns the bundle's folder. A tool that gives no number is kept as not run, with the reason."""
    target = _target(jobs, options)
    plan = Plan(name="tool", cases=[], source="hotlap tool run", measure=replace(of_programs(len(jobs)), rounds=options.rounds))
    software = {f"tool {job.tool.name}": job.place.version for job in jobs if job.place.version}
    machine = fingerprint([target.device])
    machine = replace(machine, software={**machine.software, **software})
    terms = {"terms": ", ".join(dict.fromkeys(job.tool.terms for job in jobs if job.tool.terms))}
    look = busy.look([target.device])
    if any(not job.place.missing for job in jobs):
        options.looked(look)
    record = runs.record(
        plan, options.target or "host", [target.device], machine, method=METHOD,
        labels=labels.check({**({} if not terms["terms"] else terms), **options.labels}), look=look,
    )
    with runs.begin(record, [target.device], options.home, options.wait_s) as held:
        options.began()
        return _Session(held, target, jobs, options, listen).measure()


def _target(jobs: Sequence[ToolJob], options: ToolOptions) -> Target:
    """The device that the tools are said to measure: the user's choice, else a GPU where all of them need one, else this host."""
    if not options.target and not (options.device or all("gpu" in job.tool.needs for job in jobs)):
        return HostTarget()
    spec = targets.parse(options.target) if options.target else targets.default()
    device = choose(targets.find(spec), options.device)[0]
    return targets.open_device(spec, device)


class _Session:
    """A run under way."""

    def __init__(self, held: runs.OpenRun, target: Target, jobs: Sequence[ToolJob], options: ToolOptions, listen: Listener) -> None:
        self.held, self.target, self.jobs, self.options, self.listen = held, target, jobs, options, listen
        self.cases: dict[str, Case] = {}
        self.by_tool: dict[str, list[Case]] = {}
        self.stopping = False

    def measure(self) -> Path:
        device: Device = self.target.device
        period_s = 1 / self.options.readings_hz if self.options.readings_hz > 0 else 0.0
        sampler = Sampler(self.target.clock, sensors.find(self.target), period_s) if period_s else None
        stop = Stop("rounds_max")
        if sampler:
            sampler.start()
        try:
            with signals.caught(self._interrupt):
                stop = self._rounds(sampler, device)
        except KeyboardInterrupt:
            stop = Stop("interrupted")
        finally:
            if sampler:
                sampler.stop()
            plan = replace(self.held.record.plan, cases=list(self.cases.values()))
            missing = sensors.missing(self.target) if sampler else {}
            self.held.finish([stop], plan=plan, sensors_missing=missing, sampler_share=sampler.share if sampler else None)
        return self.held.writer.path

    def _rounds(self, sampler: Sampler | None, device: Device) -> Stop:
        """All rounds, or those that end within the limit if each takes as long as the longest so far."""
        began_s, longest_s = time.monotonic(), 0.0
        for number in range(self.options.rounds):
            round_s = time.monotonic()
            if number and round_s - began_s + longest_s > self.options.limit_s:
                return Stop("budget")
            for job in self.jobs if number % 2 == 0 else list(reversed(self.jobs)):
                if self.stopping:
                    raise KeyboardInterrupt
                self._once(job, number, sampler, device)
            longest_s = max(longest_s, time.monotonic() - round_s)
        return Stop("rounds_max")

    def _interrupt(self, _: int) -> None:
        self.stopping = True
        raise KeyboardInterrupt

    def _once(self, job: ToolJob, number: int, sampler: Sampler | None, device: Device) -> None:
        clock = self.target.clock
        began_s = clock.now()
        answer = _executed(job)
        ended_s = clock.now()
        blank = Samples(case="", device=device.key, round=number, method="program", began_s=began_s, ended_s=ended_s)
        for samples in self._samples(job, answer, blank):
            self.held.writer.append(samples)
        if sampler:
            self.held.writer.readings([replace(column, round=number) for column in sampler.drain()])
        self.listen(job, number, answer.refused or next((value.refused for value in answer.values if value.refused), ""))

    def _samples(self, job: ToolJob, answer: ToolReading, blank: Samples) -> list[Samples]:
        notices = [*answer.notices, *_untested(job), *_open(job)]
        if answer.refused:
            cases = self.by_tool.get(job.tool.name) or self._expected(job)
            return [replace(blank, case=case.id, status="not_run", reason=answer.refused, notices=notices) for case in cases]
        kept = []
        for value in answer.values:
            case = self._case(job, value)
            own = [Notice("differs", value.differs)] if value.like and value.differs else []
            if value.refused:
                kept.append(replace(blank, case=case.id, status="not_run", reason=value.refused, notices=notices))
            else:
                kept.append(replace(
                    blank, case=case.id, values=list(value.values), unit=value.unit, metrics=dict(value.metrics), notices=[*notices, *own],
                ))
        return kept

    def _case(self, job: ToolJob, value: ToolValue) -> Case:
        case = case_of(job.tool, job.settings, value)
        if case.id not in self.cases:
            self.cases[case.id] = case
            self.by_tool.setdefault(job.tool.name, []).append(case)
        return case

    def _expected(self, job: ToolJob) -> list[Case]:
        known = reading.expected(job.tool) or [(NOTHING, "", "higher")]
        return [self._case(job, ToolValue(name, unit, better)) for name, unit, better in known]


def case_of(tool: ToolFile, settings: Mapping[str, str], value: ToolValue) -> Case:
    """What a number is of: the tool, its name there, the parameters that tell numbers apart."""
    return TOOL.case({
        "tool": tool.name, "name": value.name, "unit": value.unit, "better": value.better,
        "settings": tool.identity(settings, at_default=False), "defaults": tool.identity(settings, at_default=True),
        "part": value.device, "like": value.like, "factor": value.factor,
    })


def _executed(job: ToolJob) -> ToolReading:
    """What one execution says. Nothing that befalls it raises."""
    if job.place.missing:
        remedy = f"; what brings it: {job.place.remedy}" if job.place.remedy and not job.place.program else ""
        return ToolReading(refused=f"not run, because {job.place.missing}{remedy}")
    try:
        done = running.execute(job.tool, job.place.program, job.settings)
    except NotSupported as error:
        return ToolReading(refused=error.reason)
    if done.late:
        return ToolReading(refused=done.late)
    return reading.read(job.tool, done.output, job.settings)


def _untested(job: ToolJob) -> list[Notice]:
    if not job.place.untested:
        return []
    tested = ", ".join(job.tool.version.tested)
    return [Notice("untested_version", f"version {job.place.version} of {job.tool.name}; its format was seen of {tested}")]


def _open(job: ToolJob) -> list[Notice]:
    why = "" if job.place.missing else running.open_network(job.tool)
    return [Notice("network_open", why)] if why else []
