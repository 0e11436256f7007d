"""A stress run: one process per device, every line kept as it comes; and going on with one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import runs, signals, supervisor, targets
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.session import choose, place_of
from hotlap.core.measure.supervisor import Process
from hotlap.core.record import Device, MeasureOptions, Plan, Record, Stop
from hotlap.core.store import labels
from hotlap.core.store.log import Log
from hotlap.stress.record import FILE, SETUP, GoodRun, Happened, Line, Profile, Tick, What
from hotlap.stress.stressor import Said, StressJob

ATTEMPTS = 3  # processes of one device, the first included: one that dies again and again is not started for ever
APART_S = 2.0  # by which wall clock and monotonic clock may part before it is a change of the clock
NEVER_S = 1.0  # less time than this is not worth another process
APART_READ_S = 0.1  # between reading one clock and the other: more, and they say nothing of each other


@dataclass(frozen=True)
class StressOptions:
    """How to run a profile."""

    target: str = ""
    device: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    home: Path = Path()
    readings_hz: float = 10.0
    hung_s: float = 60.0  # of silence, after which a process counts as hung; starting up gets three times that
    reference: GoodRun | None = None  # kept with the run, which is judged by it from then on


class Setup(Record, frozen=True, kw_only=True):
    """What `--resume` needs beside run.json."""

    profile: Profile
    readings_hz: float
    hung_s: float
    reference: GoodRun | None = None


Listener = Callable[[Device, Line], None]


def run(profile: Profile, options: StressOptions, listen: Listener) -> Path:
    """Loads the devices for the profile's time and returns the bundle's folder; never raises for what befalls a device."""
    spec = targets.parse(options.target) if options.target else targets.default()
    devices = choose(targets.find(spec), options.device)
    plan = Plan(name=f"stress-{profile.name}", about=profile.about, measure=MeasureOptions(readings_hz=options.readings_hz))
    record = runs.record(plan, spec.text, devices, fingerprint(devices), kind="stress", labels=labels.check(dict(options.labels)))
    with runs.begin(record, devices, options.home) as held:
        setup = Setup(profile=profile, readings_hz=options.readings_hz, hung_s=options.hung_s, reference=options.reference)
        log = Log(held.writer.path / FILE)  # first: an interrupt that comes now leaves a stress run, not half of one
        (held.writer.path / SETUP).write_bytes(msgspec.json.encode(setup))
        return _Soak(held, setup, log, listen).go({})


def resume(path: Path, listen: Listener, reference: GoodRun | None = None) -> Path:
    """Goes on with a stress run that was killed or interrupted, for the time that it still had to do. `reference`: in place of its own."""
    try:
        setup = msgspec.json.decode((path / SETUP).read_bytes(), type=Setup)
    except (OSError, msgspec.DecodeError):
        raise InputError(f"'{path.name}' is no stress run that can go on; hotlap run --resume is for runs of a plan") from None
    with runs.resume(path) as held:
        if reference:
            setup = msgspec.structs.replace(setup, reference=reference)
            (path / SETUP).write_bytes(msgspec.json.encode(setup))
        log = Log(path / FILE)
        done: dict[str, list[Tick]] = {d.key: [] for d in held.devices}
        for line in log.mend(cast("type[Line]", Line)).records:
            if isinstance(line, Tick):
                done.setdefault(line.device, []).append(line)
        return _Soak(held, setup, log, listen).go(done)


def loaded_s(ticks: Sequence[Tick]) -> float:
    """How long the ticks of a device cover: gaps between processes are left out."""
    total = 0.0
    for attempt in {tick.attempt for tick in ticks}:
        times = [tick.time_s for tick in ticks if tick.attempt == attempt]
        total += max(times) - min(times) + 1.0 if times else 0.0
    return total


class _One:
    """A device, and how far its load has come."""

    def __init__(self, device: Device, left_s: float, start_s: float, attempt: int) -> None:
        self.device, self.left_s, self.start_s, self.attempt = device, left_s, start_s, attempt
        self.ticked, self.time_s = False, start_s


class _Soak:
    """A stress run under way."""

    def __init__(self, held: runs.OpenRun, setup: Setup, log: Log, listen: Listener) -> None:
        self.held, self.setup, self.log, self.listen = held, setup, log, listen
        self.halt = threading.Event()  # no process goes on from here
        self.interrupted = False
        self.writing = threading.RLock()
        self.wall = time.time() - time.monotonic()
        self.awake = _asleep_s()

    def go(self, done: dict[str, list[Tick]]) -> Path:
        ones = [self._one(device, done.get(device.key, [])) for device in self.held.devices]
        stops: list[Stop] = []
        try:
            with signals.caught(self._interrupt):
                if done:
                    for worker in ones:
                        self._happened(worker, "resumed", f"{worker.left_s:.0f} s to go")
                at_s = time.time() + 10.0
                supervisor.together(lambda one: self._load(one, at_s), ones, lambda: self._clocks(ones[0]))
                stops = [Stop("interrupted" if self.interrupted else "over")]
                if self.interrupted:
                    for worker in ones:
                        self._happened(worker, "interrupted", "Ctrl-C or SIGTERM; --resume goes on")
        except (MachineError, OSError) as error:
            stops = [Stop("error", str(error))]
            where = self.held.writer.path
            raise MachineError(f"the run cannot be written: {error}; what was kept is in {where}: make room, then --resume") from None
        finally:
            self.log.close()
            with suppress(MachineError):  # a full disk: run.json says it had begun, and the lines what was done
                self.held.finish(stops)
        return self.held.writer.path

    def _interrupt(self, _: int) -> None:
        self.interrupted = True
        self.halt.set()

    def _one(self, device: Device, ticks: Sequence[Tick]) -> _One:
        attempt = max((tick.attempt for tick in ticks), default=-1) + 1
        start_s = max((tick.time_s for tick in ticks), default=0.0)
        return _One(device, self.setup.profile.seconds - loaded_s(ticks), start_s, attempt)

    def _load(self, worker: _One, at_s: float) -> None:
        """Processes of one device, one after another, until its time is over or too many of them have died."""
        for number in range(ATTEMPTS):
            if worker.left_s <= NEVER_S or self.halt.is_set():
                return
            worker.ticked = False
            with self._process(worker, at_s if number == 0 else 0.0) as process, self._halting():
                for text in process.lines():
                    with suppress(msgspec.DecodeError):
                        self._heard(worker, process, msgspec.json.decode(text, type=Said))
            if process.status == 0 or self.halt.is_set():
                return
            if worker.left_s > NEVER_S:
                self._died(worker, process)
            worker.attempt += 1

    def _process(self, worker: _One, at_s: float) -> Process:
        target, profile, setup = self.held.record.target, self.setup.profile, self.setup
        job = StressJob(
            spec=target, device=place_of(worker.device, target), device_key=worker.device.key, profile=profile, seconds=worker.left_s,
            start_s=worker.start_s, seed=self.held.record.seed, readings_hz=setup.readings_hz, attempt=worker.attempt,
            done_s=max(profile.seconds - worker.left_s, 0.0), at_wall_s=at_s,
        )  # fmt: skip
        return Process("hotlap.stress.stressor", job, 3 * setup.hung_s, self.halt)

    @contextmanager
    def _halting(self) -> Iterator[None]:
        """An error here ends the load of every device."""
        try:
            yield
        except BaseException:
            self.halt.set()
            raise

    def _heard(self, worker: _One, process: Process, message: Said) -> None:
        line = message.line
        if isinstance(line, Tick):
            if worker.ticked:
                worker.left_s -= max(line.time_s - worker.time_s, 0.0)
            worker.ticked, worker.time_s, worker.start_s = True, line.time_s, line.time_s
            process.limit_s = self.setup.hung_s  # starting up takes longer
        if isinstance(line, Happened) and line.what in ("lost", "limit", "unguarded"):
            worker.left_s = 0.0  # a card that is gone is not asked again, and one at its limit is left to cool
        with self.writing:
            self.held.writer.readings(message.readings)
            self._keep(worker.device, line)
            self._clocks(worker)

    def _died(self, worker: _One, process: Process) -> None:
        if process.hung:
            why = "a kernel that does not end, or a driver that does not answer"
            self._happened(worker, "hung", f"no word for {process.limit_s:.0f} s: {why}")
        else:
            words = f": {process.last_words()}" if (process.status or 0) > 0 else ""
            self._happened(worker, "died", f"its process {process.ending()}{words}")

    def _clocks(self, worker: _One) -> None:
        """The wall clock set, or the machine asleep, in the meantime."""
        with self.writing:
            before_s = time.monotonic()
            wall, asleep = time.time() - before_s, _asleep_s()
            if time.monotonic() - before_s > APART_READ_S:
                return
            slept, moved, self.wall, self.awake = asleep - self.awake, wall - self.wall, wall, asleep
            if slept > APART_S:
                self._happened(worker, "suspended", f"the machine slept for {slept:.0f} s")
            elif abs(moved) > APART_S:
                self._happened(worker, "clock_jump", f"the wall clock moved by {moved:+.0f} s")

    def _happened(self, worker: _One, what: What, detail: str) -> None:
        self._keep(worker.device, Happened(device=worker.device.key, time_s=worker.time_s, what=what, detail=detail))

    def _keep(self, device: Device, line: Line) -> None:
        with self.writing, self._halting():
            self.log.append(msgspec.json.encode(line) + b"\n", sync=not isinstance(line, Tick))
            self.listen(device, line)


def _asleep_s() -> float:
    """Seconds that the machine was suspended since it started, where the system tells."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
