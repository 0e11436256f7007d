"""Steps of a program in fresh processes, arms in turns, kept as a bundle whatever happens."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import HotlapError, InputError, MachineError, SchemaError
from hotlap.core.measure import runs, sensors, signals, targets
from hotlap.core.measure.machine import busy
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors import cpu_clock
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.targets import host
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import METHOD, Case, Device, MeasureOptions, Plan, Samples, Stop, encode
from hotlap.core.store import files, labels
from hotlap.core.work.program import CALLABLE
from hotlap.training import expected, launching, reading
from hotlap.training import turns as taking_turns
from hotlap.training.expected_record import ExpectedStep
from hotlap.training.launching import Launch, Running
from hotlap.training.reading import MeasuredProcess
from hotlap.training.record import SESSION, Trained, TrainingAsked, TrainingProcess, rows
from hotlap.training.steady import of_process

KIND, FRONTIER = "training", "training-frontier"
READINGS_HZ = 10.0
WARMED = 20  # steps of a launch that only counts
Listener = Callable[[Launch, int, int], None]


@dataclass(frozen=True)
class TrainingOptions:
    home: Path
    labels: Mapping[str, object] = field(default_factory=dict)
    wait_s: float = 0.0  # for a device that another run holds


def check(asked: TrainingAsked) -> None:
    """Raises InputError for what cannot be measured as asked."""
    if asked.against and asked.compile:
        raise InputError("--against and --compile are two comparisons; ask for one at a time")
    if asked.kind != "network" and (odd := [mode for mode in asked.compile if mode not in ("off", "own")]):
        raise InputError(
            f"--compile {odd[0]}: a program compiles what it compiles; valid for it: off (Dynamo switched off) and own (as it is), "
            "as in --compile off,own; a network takes the modes of torch.compile"
        )
    if asked.kind != "network" and "synthetic" in asked.data:
        raise InputError("--data synthetic is of a network; a program has its own data: leave it out, or --data frozen for its first batch")
    if asked.kind == "network" and set(asked.data) - {"synthetic"}:
        raise InputError("a network is measured with data that is made once: leave out --data, or give synthetic")
    launching.command(asked, Launch(0, ""))
    if asked.against:
        launching.command(asked, Launch(0, "", program=asked.against))


def turns(asked: TrainingAsked) -> list[Launch]:
    """Every launch, arms in turns A B, B A, …; of the arms `real` and `frozen` the second is left out where there is no loader."""
    arms = _arms(asked)
    order = [arms if turn % 2 == 0 else arms[::-1] for turn in range(asked.processes)]
    return [replaced(arm, number=number) for number, arm in enumerate(arm for turn in order for arm in turn)]


def _arms(asked: TrainingAsked) -> list[Launch]:
    data = asked.data[0] if asked.data else "synthetic" if asked.kind == "network" else "real"
    if asked.vary:
        return [varied(asked, value, data) for value in asked.values]
    if asked.against:
        return [Launch(0, "A", data), Launch(0, "B", data, program=asked.against)]
    if asked.compile:
        return [Launch(0, mode, data, compile=mode) for mode in asked.compile]
    modes = asked.data or (["synthetic"] if asked.kind == "network" else ["real", "frozen"])
    return [Launch(0, mode, mode) for mode in modes]


def varied(asked: TrainingAsked, value: int, data: str) -> Launch:
    """One value of what is varied: a width of a network, an argument of a program (--name), or a variable of its environment."""
    arm = f"{asked.vary.lstrip('-')}={value}"
    if asked.kind == "network":
        return Launch(0, arm, data, more=(f"{asked.vary}={value}",))
    if asked.vary.startswith("-"):
        return Launch(0, arm, data, more=(asked.vary, str(value)))
    return Launch(0, arm, data, environment={asked.vary: str(value)})


def run(asked: TrainingAsked, options: TrainingOptions, listen: Listener = lambda *_: None) -> Path:
    """Measures, and returns the bundle's folder. Raises InputError before anything is run, MachineError where nothing can be kept."""
    check(asked)
    devices = _devices()
    arms = [one.arm for one in _arms(asked)]
    cases = {arm: CALLABLE.case({"name": f"a step of {_named(asked, arm)}"}) for arm in arms}
    plan = Plan(
        name=Path(asked.program).name, about=shlex.join([asked.program, *asked.arguments]),
        cases=list({case.id: case for case in cases.values()}.values()),
        source=f"hotlap training {'frontier' if asked.vary else 'run'}",
        measure=MeasureOptions(rounds=asked.processes, readings_hz=READINGS_HZ),
    )  # fmt: skip
    record = runs.record(
        plan, devices[0].target, devices[:1], fingerprint(devices[:1]), kind=FRONTIER if asked.vary else KIND, method=METHOD,
        labels=labels.check(dict(options.labels)), look=busy.look(devices[:1]),
    )
    with runs.begin(record, devices[:1], options.home, options.wait_s) as held:
        return _Session(asked, held, cases, listen, options.home).measure()


def _named(asked: TrainingAsked, arm: str) -> str:
    """A/A has one case on both sides: arms of different data or modes have cases of their own."""
    program = Path(asked.program).name if asked.kind == "script" else asked.program
    more = [*(f"{name}={value}" for name, value in asked.parameters.items()), *asked.arguments]
    name = shlex.join([program, *more])
    return name if arm in ("real", "synthetic", "A") else f"{name}, {arm}"


def _devices() -> list[Device]:
    """The CUDA devices where there are any, else this host: the program may use what it likes."""
    try:
        return targets.find(targets.parse("cuda"))
    except HotlapError:
        return [host.describe()]


def _expected(asked: TrainingAsked, device: Device, home: Path) -> list[ExpectedStep]:
    """Of a network's step, before it is measured; of each value where one is varied."""
    if asked.kind != "network":
        return []
    return [expected.of(asked, device, home, varied(asked, one, "").arm, {asked.vary: str(one)}) for one in asked.values] or [
        expected.of(asked, device, home)
    ]


class _Session:
    """A run under way."""

    def __init__(self, asked: TrainingAsked, held: runs.OpenRun, cases: Mapping[str, Case], listen: Listener, home: Path) -> None:
        self.asked, self.held, self.cases, self.listen = asked, held, cases, listen
        self.folder, self.running = held.writer.path, Running()
        self.trained = Trained(asked=asked, arms=list(cases), expected=_expected(asked, held.devices[0], home))
        self.sampler = _sampler(held.devices)
        self.clocks_hz: dict[int, list[float]] = {}  # by launch
        self.lost: set[str] = set()  # arms that failed
        self.appended: list[Samples] = []
        self.rounds: dict[str, int] = {}  # of them, by arm

    def measure(self) -> Path:
        stop = Stop("error", "the program could not be run")
        self._write()
        try:
            if self.sampler:
                self.sampler.start()
            with signals.caught(self.running.interrupt), tempfile.TemporaryDirectory(prefix="hotlap-training-") as caches:
                stop = self._launches(Path(caches))
        except OSError as error:
            raise MachineError(f"steps cannot be kept: {error}; what there is lies in {self.folder}") from None
        finally:
            if self.sampler:
                self.sampler.stop()
                self._drain()
            self._write()
            self._settle()
            self.held.finish([stop], plan=self._plan())
        return self.folder

    def _plan(self) -> Plan:
        """Without the cases of arms that were never begun, as of a frozen loader where there is none."""
        plan, begun = self.held.record.plan, {self.cases[one.arm].id for one in self.trained.processes if one.arm in self.cases}
        return replace(plan, cases=[case for case in plan.cases if case.id in begun] or plan.cases)

    def _launches(self, caches: Path) -> Stop:
        every = turns(self.asked)
        in_turns = self.asked.against and self.asked.ranks == 1 and not self.asked.one_by_one and os.name == "posix"
        together = 2 if in_turns else 1
        used = set[str]()
        for first in range(0, len(every), together):
            group = [one for one in every[first : first + together] if not self._is_left_out(one)]
            if not group:
                continue
            group = [_with_cache(one, caches / (one.arm or "only"), "warm" if one.arm in used else "cold") for one in group]
            used |= {one.arm for one in group}
            for launch in group:
                self.listen(launch, launch.number, len(every))
            left = self._launched(group)
            if self.running.interrupted:
                return Stop("interrupted")
            failed = next((one[0] for one in left if one[0].exit_code or not one[0].steps), None)
            if failed and self.asked.vary:
                self.lost.add(failed.arm)  # the other values are measured on
            elif failed:
                return Stop("program_ended", str(failed.exit_code or ""))
        if not self.asked.vary:
            self._count(len(every), caches)
        return Stop("interrupted") if self.running.interrupted else Stop("program_ended")

    def _is_left_out(self, launch: Launch) -> bool:
        return launch.arm in self.lost or (launch.arm == "frozen" and bool(self.trained.processes) and not self._loader())

    def _launched(self, group: Sequence[Launch]) -> list[list[TrainingProcess]]:
        """What each left, kept: one by itself, or two in turns."""
        self._begin(group)
        if len(group) > 1:
            left = taking_turns.run(self.asked, group, self.folder, self.running, self._drain)
        else:
            left = [launching.run(self.asked, self._fitted(group[0]), self.folder, self.running, self._drain)]
        self._keep(left)
        return left

    def _fitted(self, launch: Launch) -> Launch:
        """A frozen loader without a length ends where the real one did."""
        steps = max((one.steps for one in self.trained.processes if one.data == "real"), default=0)
        if launch.data != "frozen" or not steps:
            return launch
        return replaced(launch, steps=steps)

    def _loader(self) -> bool:
        return any(one.loaders for one in self.trained.processes)

    def _count(self, number: int, caches: Path) -> None:
        """One more launch, for the operations of a step and for when it calls the model; its times are of no use otherwise."""
        if not any(one.torch and one.steps > 4 for one in self.trained.processes):
            return
        first = self.trained.processes[0]
        launch = Launch(number, "count", first.data, count=True, steps=WARMED, compile="off" if self.asked.kind == "network" else "")
        self.listen(launch, number, number)
        found = launching.run(self.asked, launch, self.folder, self.running, self._drain)
        for one in found:
            with contextlib.suppress(OSError):
                (self.folder / one.file).unlink()
        known = [one for one in found if one.flop or one.before_forward is not None]
        self.trained = replace(self.trained, processes=[*self.trained.processes, *known])

    def _begin(self, group: Sequence[Launch]) -> None:
        """Whoever reads the bundle knows whose steps are appended now, also where this process is killed."""
        begun = [launching.begun(launch) for launch in group]
        self.trained = replace(self.trained, begun=begun[0], beside=begun[1] if len(begun) > 1 else None)
        self._write()

    def _keep(self, left: Sequence[list[TrainingProcess]]) -> None:
        """What launches left, and their samples by their own steps alone."""
        processes = [*self.trained.processes, *(process for launch in left for process in launch)]
        self.trained = replace(self.trained, processes=processes, begun=None, beside=None)
        leads = [launch[0] for launch in left]
        self.clocks_hz.update({lead.number: self._clock() for lead in leads})
        self._write()
        for lead in leads:
            launching.tidy(self.folder, lead.number)
        for one in self._samples([self._measured(lead) for lead in leads if self._is_kept(lead)], self.rounds):
            self.appended.append(one)
            self.held.writer.append(one)

    def _settle(self) -> None:
        """Samples by the rule that all launches keep: the last process decides which steps count, so they may differ."""
        leads = {one.number: one for one in reversed(self.trained.processes) if self._is_kept(one)}
        launches = reading.alike([[self._measured(leads[number])] for number in sorted(leads)])
        samples = self._samples([one for (one,) in launches], {})
        if samples != self.appended:
            self.held.writer.replace(samples)

    def _is_kept(self, process: TrainingProcess) -> bool:
        return process.arm in self.cases and (self.folder / process.file).is_file()

    def _measured(self, process: TrainingProcess) -> MeasuredProcess:
        table = rows((self.folder / process.file).read_bytes())
        return MeasuredProcess(process, table, of_process(process, table))

    def _samples(self, measured: Sequence[MeasuredProcess], rounds: dict[str, int]) -> list[Samples]:
        """A round of its arm for each process with steady steps. `rounds`: how many each arm has, counted on."""
        samples = []
        for lead, _, steady in measured:
            if not steady.blocks_s:
                continue
            number = rounds.get(lead.arm, 0)
            rounds[lead.arm] = number + 1
            samples.append(
                Samples(
                    case=self.cases[lead.arm].id, device=self.held.devices[0].key, round=number, values=steady.blocks_s,
                    method="program", warmup_samples=steady.first - 1, began_s=steady.began_s, ended_s=steady.ended_s,
                    clocks_hz=self.clocks_hz.get(lead.number, []),
                )
            )  # fmt: skip
        return samples

    def _clock(self) -> list[float]:
        """Of the processor where it is the device, between launches."""
        if self.held.devices[0].kind != "cpu":
            return []
        with contextlib.suppress(HotlapError, OSError):
            seen = cpu_clock.of_cores(SystemClock(), sorted(os.sched_getaffinity(0))[:2])
            return [seen] if seen else []
        return []

    def _drain(self) -> None:
        if self.sampler:
            self.held.writer.readings(self.sampler.drain())

    def _write(self) -> None:
        files.write_whole(self.folder / SESSION, msgspec.json.format(encode(self.trained), indent=2) + b"\n")


def _with_cache(launch: Launch, folder: Path, cache: str) -> Launch:
    """Compiled code is kept apart from the user's: the first launch finds none, later ones find what it left."""
    folder.mkdir(exist_ok=True)
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    return replaced(launch, cache=cache, environment={**launch.environment, **environment})


def _sampler(devices: Sequence[Device]) -> Sampler | None:
    found = [source for device in devices for source in sensors.find(host.HostTarget(device))]
    return Sampler(SystemClock(), found, 1 / READINGS_HZ) if found else None


def trained(folder: Path) -> Trained:
    """What a bundle's folder holds. Raises SchemaError."""
    try:
        return msgspec.json.decode((folder / SESSION).read_bytes(), type=Trained)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{folder / SESSION}: {error}") from None
