"""A plan, measured: rounds in fresh processes, every line kept before the next case begins, stopped when exact enough."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotlap.core import extend
from hotlap.core.errors import HotlapError, InputError, Interrupted, MachineError, Unavailable
from hotlap.core.measure import programs, runs, signals, supervisor, targets
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.protocol import SHORTEST_SLOT_S, CaseDone, CaseStarted, Job, RoundDone, RoundFailed
from hotlap.core.measure.rounds import Next, Rounds
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.targets.faults import never_came
from hotlap.core.plan import measuring
from hotlap.core.record import METHOD, Case, Device, Look, Plan, Samples, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels
from hotlap.core.units import show
from hotlap.core.work import traits

HUNG_S = 120.0  # of silence, beside what a case may take: its samples, and three executions of a program and its check


@dataclass(frozen=True)
class SessionOptions:
    """How to run a plan, beside the plan's own options."""

    target: str = ""  # specification; "" is the best there is
    device: str = ""  # index, UUID, several of them separated by commas, "all"; "" is the first
    together: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    part_of: str = ""  # the command that begins it and others anew: it cannot go on alone
    wait_s: float = 0.0  # for a device that another run holds
    held: bool = False  # the caller holds the devices already
    limit_s: float = math.inf  # all of it ends within about this, whatever is left; no case is cut short
    home: Path = Path()
    look: Look | None = None  # at the machine, before anything was measured
    host: str = ""  # of a simulated machine; "" is this one's


Event = CaseStarted | CaseDone | RoundDone | str
Listener = Callable[[Device, int, Event], None]
"""Called with every event: device, round, what happened. A string is news in words."""
Start = Callable[[Job, float, threading.Event], WorkerProcess]
"""What runs one job: job, seconds of silence that are allowed, what the user's stop sets. A fresh process, but for tests."""


def process(job: Job, limit_s: float, stop: threading.Event) -> WorkerProcess:
    """A fresh process for one job."""
    accounts = (implementer.account(job.cases) for implementer in extend.each("implementers"))
    return WorkerProcess(job, limit_s, stop, next((account for account in accounts if account), None))


def run(
    plan: Plan, options: SessionOptions, listen: Listener, start: Start = process, lasting: programs.Worker | None = None
) -> Path:
    """Measures the plan and returns the bundle's folder. Raises Interrupted after keeping everything. `lasting`: of several runs."""
    limit = _Limit(options.limit_s)
    spec, devices = places(plan, options)
    order: Literal["single", "one after another", "together"] = (
        "single" if len(devices) == 1 else "together" if options.together else "one after another"
    )
    machine = fingerprint(devices)
    machine = msgspec.structs.replace(machine, host=options.host or machine.host)
    for implementer in extend.each("implementers"):
        used = implementer.revisions(plan.cases, options.home)
        machine = msgspec.structs.replace(machine, software={**machine.software, **used})
    seed = {"seed": plan.measure.seed} if plan.measure.seed else {}
    record = runs.record(
        plan, spec.text, devices, machine, method=METHOD, order=order, labels=labels.check(options.labels), look=options.look,
        part_of=options.part_of, **seed,
    )
    asked_s = limit.clock.now()
    with runs.begin(record, devices, options.home, options.wait_s, options.held) as held:
        limit.began_s += limit.clock.now() - asked_s  # the limit is of measuring, not of waiting for who holds a device
        if news := _longer(plan):
            listen(devices[0], 0, news)
        return _Session(held, listen, limit, start, lasting).measure({})


def _longer(plan: Plan) -> str:
    """Why rounds take longer than the plan says; "" where they do not."""
    asked, shortest_s = plan.measure, SHORTEST_SLOT_S * len(plan.cases)
    if shortest_s <= asked.round_s:
        return ""
    by_budget = math.isclose(asked.round_s, measuring.share_s(asked))
    given = f"that the budget leaves each of {asked.rounds}" if by_budget else "asked"
    return f"{len(plan.cases)} cases need {show(shortest_s, 's')} a round at least, more than the {show(asked.round_s, 's')} {given}"


def places(plan: Plan, options: SessionOptions) -> tuple[targets.TargetSpec, list[Device]]:
    """Where the plan will be measured. Raises InputError for every usage error, Unavailable where nothing is usable."""
    spec = targets.chosen(options.target, plan.cases)
    devices = choose(targets.find(spec), options.device)
    if options.together and options.device != "all" and len(devices) < 2:
        raise InputError("--together measures several devices at once; give --device all or --device 0,1 with it")
    labels.check(options.labels)
    return spec, devices


def resume(path: Path, listen: Listener, start: Start = process, wait_s: float = 0.0) -> Path:
    """Goes on with a run that was interrupted or killed: what is missing of its last round, and the rounds to come."""
    with runs.resume(path, wait_s) as held:
        kept = bundles.load(path)
        for notice in [*held.writer.notices, *kept.notices]:
            listen(held.devices[0], 0, notice.text)
        done: dict[tuple[str, int], list[Samples]] = {}
        for samples in kept.samples:
            done.setdefault((samples.device, samples.round), []).append(samples)
        return _Session(held, listen, _Limit(math.inf), start).measure(done)


def choose(devices: Sequence[Device], wanted: str) -> list[Device]:
    """The devices that a user means by indices, UUIDs or unique beginnings of them (commas between), `all`, or nothing (the first)."""
    if wanted == "":
        return [devices[0]]
    if wanted == "all":
        return list(devices)
    found = [_named(devices, one.strip()) for one in wanted.split(",")]
    return list({device.key: device for device in found}.values())


def _named(devices: Sequence[Device], wanted: str) -> Device:
    for device in devices:
        if wanted in (str(device.index), device.uuid, device.selector):
            return device
    close = [d for d in devices if d.uuid and d.uuid.lower().removeprefix("gpu-").startswith(wanted.lower().removeprefix("gpu-"))]
    if len(close) == 1 and len(wanted) >= 4:
        return close[0]
    valid = ", ".join(f"{d.index} ({d.uuid or d.name})" for d in devices)
    raise InputError(f"there is no device '{wanted}'; valid: all, {valid}")


class _Limit:
    """The time that all of a run may take, by the wall clock; on a simulated device by its own clock, which the session tells."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.clock, self.cases = seconds, SystemClock(), 0
        self.programs_s = 0.0  # of all cases so far, where they are programs: what came before them is no measure of the next
        self.began_s = self.clock.now()

    def used_s(self, virtual_s: float | None) -> float:
        return self.clock.now() - self.began_s if virtual_s is None else virtual_s

    @property
    def left_s(self) -> float | None:
        """By the wall clock; None where there is no limit."""
        return None if math.isinf(self.seconds) else max(self.seconds - self.used_s(None), 0.0)

    def over(self, virtual_s: float | None) -> bool:
        """Whether one more case, as long as those so far on average, would end after the limit; the first one is always measured."""
        used_s = self.used_s(virtual_s)
        return self.cases > 0 and used_s + (self.programs_s or used_s) / self.cases > self.seconds


class _Session:
    """A run under way."""

    def __init__(
        self, held: runs.OpenRun, listen: Listener, limit: _Limit, start: Start, lasting: programs.Worker | None = None
    ) -> None:
        self.held, self.listen, self.limit, self.start = held, listen, limit, start
        self.record, self.devices, self.writer = held
        self.options, self.cases = self.record.plan.measure, self.record.plan.cases
        self.rounds = {d.key: Rounds(self.cases, self.options) for d in self.devices}
        self.simulated = targets.parse(self.record.target).name in targets.VIRTUAL
        self.ended_s: dict[str, float] = {d.key: 0.0 for d in self.devices}  # by the device's own clock
        self.hung: dict[tuple[str, str], int] = {}  # device and case that did not answer, and in which round
        self.last_round_end: dict[str, RoundDone] = {}  # how the last process of this round ended, by device
        self.round_duration_s: dict[str, float] = {}  # of all its processes, by the wall clock; by the device's own where it is simulated
        self.seen: dict[str, Any] = {}  # of the run's sensors, by the last process that came to its end
        self.shared = lasting
        self.lasting: dict[str, programs.Worker] = {}  # of devices together each its own, else of all of them
        self.stop = lasting.stop if lasting else threading.Event()
        self.writing = threading.Lock()

    def measure(self, done: Mapping[tuple[str, int], list[Samples]]) -> Path:
        stops: list[Stop] = []
        with signals.caught(lambda _: self.stop.set()):
            try:
                stops = self._devices(done)
                self._say_what_never_came()
            except HotlapError as error:
                stops = [Stop("error", str(error))]
                if error.exit_code != MachineError.exit_code or not self.writer.kept:
                    raise
                raise MachineError(f"{error}; {self._kept()}") from error
            finally:
                for lasting in self.lasting.values():
                    lasting.end()
                self.held.finish([Stop("interrupted")] if self.stop.is_set() else stops, **self.seen)
        if self.stop.is_set():
            raise Interrupted(f"interrupted; {self._kept()}")
        return self.writer.path

    def _kept(self) -> str:
        """And how the run goes on."""
        if self.record.part_of:
            return f"everything measured is kept as {self.record.id}; begin anew: {self.record.part_of}"
        return f"everything measured is kept: hotlap run --resume {self.record.id}"

    def _say_what_never_came(self) -> None:
        """A fault of the simulator that was set for later than the run lasted: its numbers are those of a healthy machine."""
        spec = targets.parse(self.record.target)
        if spec.name == "simulated":
            for device in self.devices:
                for news in never_came(spec.options, self.ended_s[device.key]):
                    self.listen(device, 0, news)

    def _devices(self, done: Mapping[tuple[str, int], list[Samples]]) -> list[Stop]:
        if self.record.order == "together":
            return _once(supervisor.together(lambda device: self._rounds(device, done), self.devices))
        return _once([self._rounds(device, done) for device in self.devices])

    def _rounds(self, device: Device, done: Mapping[tuple[str, int], list[Samples]]) -> Stop:
        """Rounds on one device until exact enough, out of budget, or stopped; says which. `done`: those of a run that goes on."""
        rounds, number = self.rounds[device.key], 0
        last = max((n for key, n in done if key == device.key), default=0)
        while not self._over():
            following, kept = rounds.next(), done.get((device.key, number), [])
            if following.stop and number > last:
                return following.stop
            for samples in kept:
                self._count(samples)
            timed = [samples for samples in kept if samples.ended_s > 0]
            seconds = max(s.ended_s for s in timed) - min(s.began_s for s in timed) if timed else 0.0
            have = {s.case for s in kept}
            missing = [case for case in following.cases if case.id not in have] if number >= last else []
            if missing:
                if following.news:
                    self.listen(device, number, following.news)
                seconds += self._round(device, number, following._replace(cases=missing))
            rounds.ended(seconds)
            number += 1
            if self.stop.is_set():
                return Stop("interrupted")
        return Stop("budget")

    def _over(self) -> bool:
        return self.limit.over(self._virtual_s())

    def _virtual_s(self) -> float | None:
        """What a simulated run has taken by its own clock; None where time is the wall clock's."""
        if not self.simulated:
            return None
        return max(self.ended_s.values()) if self.record.order == "together" else sum(self.ended_s.values())

    def _count(self, samples: Samples) -> None:
        self.ended_s[samples.device] = max(self.ended_s[samples.device], samples.ended_s)
        self.rounds[samples.device].add(samples)

    def _round(self, device: Device, number: int, following: Next) -> float:
        """One round, and the seconds it took; a process that dies takes the case it was at, and a fresh one goes on with the rest."""
        left = [case for case in following.cases if not self._skip_hung_case(device, number, case)]
        self.last_round_end.pop(device.key, None)
        self.round_duration_s[device.key] = 0.0
        while left and not self.stop.is_set() and not self._over():
            together = _same_process_group(left)
            share = len(together) / len(following.cases)
            at = self._process(device, number, following._replace(cases=together, round_s=following.round_s * share))
            if at is None or at.case is None:
                gone = {case.id for case in together} if at is None else at.done
                left = [case for case in left if case.id not in gone]
                continue
            failed = Samples(case=at.case.id, device=device.key, round=number, status="error", reason=at.reason)
            self._keep(device, number, CaseDone(samples=failed))
            left = [case for case in left if case.id not in at.done | {at.case.id}]
            if at.hung:
                self.hung[device.key, at.case.id] = number
        if ended := self.last_round_end.get(device.key):
            self.listen(device, number, msgspec.structs.replace(ended, seconds=self.round_duration_s[device.key]))
        return self.round_duration_s[device.key]

    def _skip_hung_case(self, device: Device, number: int, case: Case) -> bool:
        """Whether the case did not answer in an earlier round: it would keep all others waiting once more."""
        before = self.hung.get((device.key, case.id))
        if before is None:
            return False
        reason = f"not tried again: it did not answer in round {before + 1}"
        self._keep(device, number, CaseDone(samples=Samples(case=case.id, device=device.key, round=number, status="error", reason=reason)))
        return True

    def _process(self, device: Device, number: int, following: Next) -> _WorkerDeath | None:
        cases = following.cases
        job = Job(
            spec=self.record.target, device=place_of(device, self.record.target), device_key=device.key, round=number, cases=list(cases),
            options=msgspec.structs.replace(self.options, round_s=following.round_s), seed=self.record.seed * 1000 + number,
            start_s=self.rounds[device.key].elapsed_s + self.round_duration_s[device.key], patience_s=following.patience_s,
            left_s=self.limit.left_s, choices=self.rounds[device.key].choices(cases),
        )
        limit_s = HUNG_S + 4 * self.options.round_s + following.patience_s + 6 * max((_longest_s(case) for case in cases), default=0.0)
        worker = self._starts(device)(job, limit_s, self.stop)
        clock, began, done = SystemClock(), "", set()
        started_s = clock.now()
        with worker:
            for message in worker.messages():
                if isinstance(message, RoundFailed):
                    raise _error(message)
                if isinstance(message, CaseStarted):
                    began = message.case
                    self.listen(device, number, message)
                elif isinstance(message, CaseDone):
                    self._keep(device, number, message)
                    done.add(message.samples.case)
                    if self._over():
                        worker.enough()
                    else:
                        worker.go_on()
                else:
                    self._ended(device, number, message, clock.now() - started_s)
                    return None
        self.round_duration_s[device.key] += clock.now() - started_s
        if self.stop.is_set():
            return None
        case = next((c for c in cases if c.id == began and c.id not in done), None)
        if case is None and done and worker.spent:
            return _WorkerDeath(None, "", done, False)
        if case is None:
            raise MachineError(f"the measuring process {worker.ending()} before its first case; its last words: {worker.last_words()}")
        return _WorkerDeath(case, f"the measuring process {worker.ending()}: {worker.last_words()}", done, worker.hung)

    def _starts(self, device: Device) -> Start:
        """What runs a round on it: a process that lasts for programs, which are fresh ones, and for simulated devices, whose noise is
        drawn for each round."""
        executions = device.target == "host" and all(traits(case.workload).source == "program" for case in self.record.plan.cases)
        if not executions and (device.target != "simulated" or self.start is not process):
            return self.start
        key = device.key if self.record.order == "together" else ""
        return (self.shared or self.lasting.setdefault(key, programs.Worker())).round

    def _ended(self, device: Device, number: int, ended: RoundDone, wall_s: float) -> None:
        """Of one of the round's processes; listeners hear of the round itself once, with the time of all."""
        self.round_duration_s[device.key] += ended.seconds if self.simulated else wall_s
        self.seen = {"sensors_missing": ended.missing, "sampler_share": ended.sampler_share}
        for notice in ended.notices if number == 0 else []:
            self.listen(device, number, notice.text)
        self.last_round_end[device.key] = ended

    def _keep(self, device: Device, number: int, took: CaseDone) -> None:
        with self.writing:
            self.writer.append(took.samples)
            self.writer.readings(took.readings)
            self.limit.cases += took.samples.status != "not_run"  # which took no time: a device that cannot do one is asked for all
            self.limit.programs_s += took.samples.ended_s - took.samples.began_s if device.target == "host" else 0.0
        self._count(took.samples)
        self.listen(device, number, took)


def _once(stops: Sequence[Stop]) -> list[Stop]:
    """Each reason once, in order."""
    return [stop for place, stop in enumerate(stops) if stop not in stops[:place]]


@dataclass(frozen=True)
class _WorkerDeath:
    """A process that ended in the middle of a case."""

    case: Case | None  # None: it had to end, with none of them to blame for what is left
    reason: str
    done: set[str]
    hung: bool


def _same_process_group(cases: Sequence[Case]) -> list[Case]:
    """Those that share the next process: all of Hotlap's own, or those of one of a user's implementations, which may spoil only its own."""
    first = _group(cases[0])
    return [case for case in cases if _group(case) == first]


def _group(case: Case) -> str:
    return next((name for implementer in extend.each("implementers") if (name := implementer.group(case))), "")


def _longest_s(case: Case) -> float:
    """The longest that one call may take by its own word: programs have a time-out."""
    timeout = case.params.get("timeout", 0.0)
    return float(timeout) if isinstance(timeout, (int, float)) else 0.0


def place_of(device: Device, text: str) -> int:
    """Where the device stands in what the specification finds."""
    place = next((i for i, d in enumerate(targets.find(targets.parse(text))) if d.key == device.key), None)
    if place is None:
        raise Unavailable(f"the device {device.name} has vanished", "go on once it is back")
    return place


def _error(fault: RoundFailed) -> HotlapError:
    kind = {2: InputError, 130: Interrupted}.get(fault.exit_code, MachineError)
    return kind(fault.message)
