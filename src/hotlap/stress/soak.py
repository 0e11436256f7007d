"""A stress run: one process per device, a watchdog for each, every line kept before the next is asked for; and going on with one."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

import hotlap
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import signals, targets
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.process import SPEED_ENVIRONMENT
from hotlap.core.measure.session import begun_on, choose, place_of
from hotlap.core.record import Device, MeasureOptions, Plan, Record, Run, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels, locks
from hotlap.stress.record import FILE, SETUP, Happened, Line, Profile, Tick, read
from hotlap.stress.stressor import Job, Said

ATTEMPTS = 3  # processes of one device, the first included: one that dies again and again is not started for ever
APART_S = 2.0  # by which wall clock and monotonic clock may part before it is a change of the clock
NEVER_S = 1.0  # less time than this is not worth another process
AWAY_S = 2.0  # a turn of the loop takes a fraction of this
APART_READ_S = 0.1  # between reading one clock and the other: more, and they say nothing of each other
SYNC_S = 1.0


@dataclass(frozen=True)
class Options:
    """How to run a profile."""

    target: str = ""
    device: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    home: Path = Path()
    readings_hz: float = 10.0
    hung_s: float = 60.0  # of silence, after which a process counts as hung; starting up gets three times that


class Setup(Record, frozen=True, kw_only=True):
    """What `--resume` needs beside run.json."""

    profile: Profile
    readings_hz: float
    hung_s: float


Listener = Callable[[Device, Line], None]


def run(profile: Profile, options: Options, listen: Listener) -> Path:
    """Loads the devices for the profile's time and returns the bundle's folder; never raises for what befalls a device."""
    spec = targets.parse(options.target) if options.target else targets.default()
    devices = choose(targets.find(spec), options.device)
    began = datetime.now(UTC)
    record = Run(
        id=bundles.new_id(began), kind="stress", began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__,
        plan=Plan(name=f"stress-{profile.name}", about=profile.about, measure=MeasureOptions(readings_hz=options.readings_hz)),
        machine=fingerprint(devices), target=spec.text, devices=[d.key for d in devices],
        order="together" if len(devices) > 1 else "single", labels=labels.check(dict(options.labels)), seed=secrets.randbits(31),
    )  # fmt: skip
    with ExitStack() as held:
        held.enter_context(locks.hold(devices))
        writer = bundles.Writer.create(record, options.home)
        setup = Setup(profile=profile, readings_hz=options.readings_hz, hung_s=options.hung_s)
        (writer.path / SETUP).write_bytes(msgspec.json.encode(setup))
        return _Soak(record, devices, writer, setup, listen).go({})


def resume(path: Path, listen: Listener) -> Path:
    """Goes on with a stress run that was killed or interrupted, for the time that it still had to do."""
    try:
        setup = msgspec.json.decode((path / SETUP).read_bytes(), type=Setup)
    except (OSError, msgspec.DecodeError):
        raise InputError(f"'{path.name}' is no stress run that can go on; hotlap run --resume is for runs of a plan") from None
    record = bundles.read_run(path)
    devices = begun_on(record)
    writer = bundles.Writer.resume(path)
    file = path / FILE
    data = file.read_bytes() if file.exists() else b""
    if data and not data.endswith(b"\n"):  # a line that a kill tore: the next one must not be glued to it
        with open(file, "ab") as log:
            log.truncate(data.rfind(b"\n") + 1)
    done: dict[str, list[Tick]] = {d.key: [] for d in devices}
    for line in read(data)[0]:
        if isinstance(line, Tick):
            done.setdefault(line.device, []).append(line)
    with ExitStack() as held:
        held.enter_context(locks.hold(devices))
        return _Soak(record, devices, writer, setup, listen).go(done)


def loaded_s(ticks: Sequence[Tick]) -> float:
    """How long the ticks of a device cover: gaps between processes are left out."""
    total = 0.0
    for attempt in {tick.attempt for tick in ticks}:
        times = [tick.time_s for tick in ticks if tick.attempt == attempt]
        total += max(times) - min(times) + 1.0 if times else 0.0
    return total


class _One:
    """A device's process, and what is known of it."""

    def __init__(self, device: Device, left_s: float, start_s: float, attempt: int) -> None:
        self.device, self.left_s, self.start_s, self.attempt = device, left_s, start_s, attempt
        self.process: subprocess.Popen[bytes] | None = None
        self.heard_s, self.ticked, self.ended, self.words = 0.0, False, False, ""
        self.attempts, self.time_s, self.first_s = 0, start_s, 0.0


class _Soak:
    """A stress run under way."""

    def __init__(self, record: Run, devices: Sequence[Device], writer: bundles.Writer, setup: Setup, listen: Listener) -> None:
        self.record, self.devices, self.writer, self.setup, self.listen = record, devices, writer, setup, listen
        self.said: queue.Queue[tuple[_One, int, Said | None]] = queue.Queue(maxsize=10_000)
        self.stop = threading.Event()
        self.synced_s = 0.0
        self.file = open(writer.path / FILE, "ab", buffering=0)  # noqa: SIM115 - open until the run ends
        self.wall = time.time() - time.monotonic()
        self.awake = _asleep_s()

    def go(self, done: dict[str, list[Tick]]) -> Path:
        ones = [self._one(device, done.get(device.key, [])) for device in self.devices]
        stop: Stop | None = None
        try:
            with signals.caught(lambda _: self.stop.set()):
                if done:
                    for one in ones:
                        self._keep(
                            one.device,
                            Happened(device=one.device.key, time_s=one.start_s, what="resumed", detail=f"{one.left_s:.0f} s to go"),
                        )
                at = time.time() + 10.0
                for one in ones:
                    if one.left_s > NEVER_S:
                        self._start(one, at)
                    else:
                        one.ended = True
                self._watch(ones)
                stop = Stop("interrupted" if self.stop.is_set() else "over")
                if self.stop.is_set():
                    for one in ones:
                        word = "Ctrl-C or SIGTERM; --resume goes on"
                        self._keep(one.device, Happened(device=one.device.key, time_s=one.time_s, what="interrupted", detail=word))
        except (MachineError, OSError) as error:
            stop = Stop("error", str(error))
            raise MachineError(
                f"the run cannot be written: {error}; what was kept is in {self.writer.path}: make room, then --resume"
            ) from None
        finally:
            for one in ones:
                self._end(one)
            self._finish([stop] if stop else [])
        return self.writer.path

    def _one(self, device: Device, ticks: Sequence[Tick]) -> _One:
        attempt = max((tick.attempt for tick in ticks), default=-1) + 1
        start_s = max((tick.time_s for tick in ticks), default=0.0)
        return _One(device, self.setup.profile.seconds - loaded_s(ticks), start_s, attempt)

    def _start(self, one: _One, at_wall_s: float = 0.0) -> None:
        environment = {**SPEED_ENVIRONMENT, **os.environ, "PYTHONUNBUFFERED": "1"}
        one.process = subprocess.Popen(
            [sys.executable, "-m", "hotlap.stress.stressor"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, bufsize=0, start_new_session=os.name == "posix",
        )  # fmt: skip
        job = Job(
            spec=self.record.target, device=place_of(one.device, self.record.target), device_key=one.device.key, profile=self.setup.profile,
            seconds=one.left_s, start_s=one.start_s, seed=self.record.seed, readings_hz=self.setup.readings_hz, attempt=one.attempt,
            done_s=max(self.setup.profile.seconds - one.left_s, 0.0), at_wall_s=at_wall_s,
        )  # fmt: skip
        one.heard_s, one.ticked, one.attempts = time.monotonic(), False, one.attempts + 1
        threading.Thread(target=self._listen, args=(one, one.process, one.attempt), daemon=True).start()
        threading.Thread(target=_last_words, args=(one, one.process), daemon=True).start()
        assert one.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            one.process.stdin.write(msgspec.json.encode(job) + b"\n")

    def _listen(self, one: _One, process: subprocess.Popen[bytes], attempt: int) -> None:
        """Lines of one process into the queue; a torn one at its end is dropped."""
        assert process.stdout is not None
        with open(process.stdout.fileno(), "rb", closefd=False) as lines:
            for text in lines:
                with contextlib.suppress(msgspec.DecodeError):
                    self.said.put((one, attempt, msgspec.json.decode(text, type=Said)))
        self.said.put((one, attempt, None))

    def _watch(self, ones: Sequence[_One]) -> None:
        turned = time.monotonic()
        while not self.stop.is_set() and not all(one.ended for one in ones):
            with contextlib.suppress(queue.Empty):
                one, attempt, said = self.said.get(timeout=0.2)
                if attempt == one.attempt:
                    self._heard(one, said)
            self._clocks(ones[0])
            now = time.monotonic()
            away, turned = now - turned, now
            if away > AWAY_S:  # this process itself was stopped (Ctrl-Z): what the others said meanwhile waits in their pipes
                for one in ones:
                    one.heard_s += away
            for one in ones:
                silent = now - one.heard_s
                if not one.ended and silent > self.setup.hung_s * (1 if one.ticked else 3):
                    self._died(one, "hung", f"no word for {silent:.0f} s: a kernel that does not end, or a driver that does not answer")

    def _heard(self, one: _One, said: Said | None) -> None:
        one.heard_s = time.monotonic()
        if said is None:
            assert one.process is not None
            code = one.process.wait()
            if code < 0:
                self._died(one, "died", f"its process was ended by {signal.Signals(-code).name}")
            elif code:
                self._died(one, "died", f"its process ended with status {code}: {one.words or 'no last words'}")
            one.ended = one.ended or code == 0
            return
        line = said.line
        if isinstance(line, Tick):
            if one.ticked:
                one.left_s -= max(line.time_s - one.time_s, 0.0)
            one.ticked, one.time_s, one.start_s = True, line.time_s, line.time_s
        if isinstance(line, Happened) and line.what in ("lost", "limit", "unguarded"):
            one.left_s = 0.0  # a card that is gone is not asked again, and one at its limit is left to cool
        self.writer.readings(said.readings)
        self._keep(one.device, line)

    def _died(self, one: _One, what: str, detail: str) -> None:
        self._end(one)
        if one.left_s > NEVER_S:
            self._keep(
                one.device, Happened(device=one.device.key, time_s=one.time_s, what="hung" if what == "hung" else "died", detail=detail)
            )
        one.attempt += 1
        if one.attempts < ATTEMPTS and one.left_s > NEVER_S:
            self._start(one)
        else:
            one.ended = True

    def _end(self, one: _One) -> None:
        if one.process is not None and one.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.killpg(one.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process in the kernel's hands does not die at once
                one.process.wait(timeout=5)

    def _clocks(self, one: _One) -> None:
        """The wall clock set, or the machine asleep, in the meantime."""
        before_s = time.monotonic()
        wall, asleep = time.time() - before_s, _asleep_s()
        if time.monotonic() - before_s > APART_READ_S:
            return
        slept, moved = asleep - self.awake, wall - self.wall
        if slept > APART_S:
            self._keep(
                one.device,
                Happened(device=one.device.key, time_s=one.time_s, what="suspended", detail=f"the machine slept for {slept:.0f} s"),
            )
        elif abs(moved) > APART_S:
            self._keep(
                one.device,
                Happened(device=one.device.key, time_s=one.time_s, what="clock_jump", detail=f"the wall clock moved by {moved:+.0f} s"),
            )
        self.wall, self.awake = wall, asleep

    def _keep(self, device: Device, line: Line) -> None:
        text = msgspec.json.encode(line) + b"\n"
        if self.file.write(text) != len(text):
            raise OSError("only a part of a line could be written")
        now = time.monotonic()
        if now - self.synced_s > SYNC_S or not isinstance(line, Tick):
            os.fsync(self.file.fileno())
            self.synced_s = now
        self.listen(device, line)

    def _finish(self, stops: list[Stop]) -> None:
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(MachineError):  # a full disk: run.json says it had begun, and the lines what was done
            self.writer.finish(replace(self.record, ended=ended, stops=stops))


def _last_words(one: _One, process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.strip():
            one.words = line.decode(errors="replace").strip()[:300]


def _asleep_s() -> float:
    """Seconds that the machine was suspended since it started, where the system tells."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
