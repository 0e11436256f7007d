"""The process that loads one device, checks every unit of work, and says so line by line."""

from __future__ import annotations

import sys
import time
from typing import IO, Any

import msgspec

from hotlap.core.errors import HotlapError, MachineError
from hotlap.core.measure import near, sensors, targets
from hotlap.core.measure.sensors import limits
from hotlap.core.measure.sensors.base import HARMLESS
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.worker import begin
from hotlap.core.record import Readings, Record
from hotlap.stress import units as stress
from hotlap.stress.control import POWER_INTEGRAL_S, SHORT_S, Controller, Limits, Mix
from hotlap.stress.record import MOST_WRONG, Done, Happened, Line, Mismatch, Phase, Profile, Tick
from hotlap.stress.turns import DutyScheduler, rest

TICK_S = 1.0
PROBE_S = 0.6  # a unit alone, once to come to its power and once to measure it
PROBE_SHARE = 0.1  # of the run's time at most, for all of them
BLIND_S = 10.0  # without a reading of what a limit or a set point needs: the load stops
WINDOW_S = 0.25  # a duty cycle shorter than 1 is on and off within this
POWER_CAP = 0x4  # bit of a power limit that holds the clock: what a limit does


class StressJob(Record, frozen=True, kw_only=True):
    """The first line of the worker's standard input."""

    spec: str
    device: int
    device_key: str
    profile: Profile
    seconds: float  # still to do
    start_s: float
    seed: int
    readings_hz: float
    attempt: int = 0
    done_s: float = 0.0  # of the profile, by processes before this one: the cycle of phases goes on from there
    at_wall_s: float = 0.0  # when synchronised devices begin, by time.time()


class Said(Record, frozen=True, kw_only=True):
    """One message: a line of the stress log, and readings."""

    line: Line
    readings: list[Readings] = []


def main() -> int:
    """Reads a Job from standard input, writes Said to what was standard output."""
    channel = begin()
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=StressJob)
    try:
        spec = targets.parse(job.spec)
        device = targets.find(spec)[job.device]
        near.bind(device)
        target = targets.open_device(spec, device)
        _Worker(job, target, channel).run()
    except HotlapError as error:
        lost = isinstance(error, MachineError)
        _say(channel, Happened(device=job.device_key, time_s=0.0, what="lost" if lost else "not_run", detail=str(error)), [])
        return error.exit_code
    return 0


def _say(channel: IO[bytes], line: Line, readings: list[Readings]) -> None:
    channel.write(msgspec.json.encode(Said(line=line, readings=readings)) + b"\n")


class _Worker:
    """Phases in turn until the time is over or a limit stops the load."""

    def __init__(self, job: StressJob, target: Any, channel: IO[bytes]) -> None:
        self.job, self.target, self.channel, self.clock = job, target, channel, target.clock
        if target.dialect == "model":
            self.clock.sleep(job.start_s)
        profile = job.profile
        slowdown_c, self.slowdown_by = limits.slowdown_c(target)
        self.limits = Limits(profile.max_power_w, profile.max_temperature_c, slowdown_c)
        goal = profile.power_w or profile.temperature_c
        self.control = Controller(goal) if goal else None
        if self.control and profile.power_w:
            self.control.integral_s = POWER_INTEGRAL_S
        self.mix, self.probed = Mix(), False
        self.goal = "power_w" if profile.power_w else "temperature_c"
        self.sources, self.shown = sensors.find(target), dict[str, float]()
        self.sampler = Sampler(self.clock, self.sources, 1 / job.readings_hz)
        self.units: dict[str, list[Any]] = {}
        self.kept = self.pieces = self.checked = 0
        self.wrong = dict[str, int]()
        self.flop = self.moved = self.busy_s = self.check_s = 0.0
        self.done, self.unit = dict[str, Done](), ""
        self.pulses, self.pulse = dict[int, float](), 0
        self.turns = DutyScheduler()
        self.seen_s = dict[str, float]()  # sensors that a limit or the set point needs: when they last showed something
        self.began_s = self.clock.now()
        self.ticked_s = self.began_s
        self.stopped = ""

    def say(self, what: Any, detail: str = "", numbers: dict[str, float] | None = None, unit: str = "") -> None:
        time_s = self.clock.now()
        line = Happened(device=self.job.device_key, time_s=time_s, what=what, detail=detail, numbers=numbers or {}, unit=unit)
        _say(self.channel, line, self.sampler.drain())

    def run(self) -> None:
        job = self.job
        limit = {"slowdown_c": self.limits.slowdown_c} if self.limits.slowdown_c is not None else {}
        goal = {f"goal.{self.goal}": self.control.target} if self.control else {}
        asked = {"max.power_w": job.profile.max_power_w, "max.temperature_c": job.profile.max_temperature_c}
        goal |= {name: value for name, value in asked.items() if value is not None}
        self.say("began", numbers={"attempt": float(job.attempt), **limit, **goal})
        missing = sensors.missing(self.target)
        if missing:
            self.say("sensors", "; ".join(f"{name}: {why}" for name, why in missing.items()))
        if self.limits.slowdown_c is None and self.target.device.kind != "cpu" and job.profile.max_temperature_c is None:
            self.say("sensors", f"nothing stops this load by heat, for {self.slowdown_by}: give --max-temperature")
        if held := limits.held(self.sources, self.clock.now(), HARMLESS | POWER_CAP):
            self.say("held", f"{' and '.join(held)}, before any load")
        if blind := self._blind():
            self.say("unguarded", blind)
            self.say("ended", "nothing was loaded: it could not have been stopped or held")
            return
        for phase in job.profile.phases:
            self._prepare(phase)
        every = [unit for units in self.units.values() for unit in units]
        if not every:
            self.say("not_run", "no unit of this profile runs on this device")
            return
        self.say("units", numbers={_kind(unit): 1.0 for unit in every})
        end_s = self._first(every)
        together, due_s, begun, first = job.profile.synchronised, self.clock.now(), job.done_s, True
        while not self.stopped and (self.clock.now() < end_s or first):
            before_s = self.clock.now()
            for phase, seconds in rest(job.profile.phases, begun, end_s - before_s):
                due_s = (due_s if together else self.clock.now()) + seconds  # of all devices alike, whatever the last unit took
                self._pulse(phase, min(due_s, end_s))
                self._phase(phase, min(due_s, end_s))
            begun, first = 0.0, False  # whole cycles from here on
            if self.clock.now() <= before_s:
                break
        self.sampler.stop()
        self._tick("end")
        for unit in every:
            if tested := getattr(unit, "tested_bytes", 0.0):
                self.say("coverage", numbers={"tested_bytes": tested}, unit="memory tested")
        self.say("ended", self.stopped or "the time is over")

    def _first(self, every: list[Any]) -> float:
        """Sensors, what draws the most where a phase asks, and the start that devices share. Returns when the run ends."""
        job = self.job
        together = job.profile.synchronised
        self.began_s = self.ticked_s = self.clock.now()
        self.sampler.start()
        if any(phase.hottest for phase in job.profile.phases):
            self._probe(every, "products")
            self._hottest()
        began_s = self.clock.now() if together else self.began_s
        if together and self.target.dialect != "model":
            time.sleep(max(0.0, job.at_wall_s - time.time()))
            began_s = self.clock.now()
        elif together:  # virtual clocks of devices begin together, and none knows of another: a round time from the start
            began_s = self.began_s + 2 * self._probe_s(every) * len(every) * 1.5
            self.clock.sleep(max(0.0, began_s - self.clock.now()))
        return float(began_s + job.seconds)

    def _blind(self) -> str:
        """What was asked to be held or kept under though nothing here shows it; "" where all of it is shown."""
        profile = self.job.profile
        now = self.clock.now()
        asked = (
            ("power_w", profile.power_w, "W"), ("power_w", profile.max_power_w, "W"),
            ("temperature_c", profile.temperature_c, "°C"), ("temperature_c", profile.max_temperature_c, "°C"),
        )  # fmt: skip
        needed = {sensor: f"{value:g} {unit}" for sensor, value, unit in asked if value is not None}
        read = [x for one in self.sources for x in one.read(now)] if needed else []
        shown = {x.sensor for x in read if self._mine(x.device) and x.value is not None}
        self.seen_s = dict.fromkeys(needed, now)
        lacking = [f"{what} needs a sensor of {sensor.split('_')[0]}" for sensor, what in needed.items() if sensor not in shown]
        return f"{'; '.join(lacking)}, and none answers here: nothing could hold or stop this load" if lacking else ""

    def _mine(self, device: str) -> bool:
        return device == self.job.device_key or self.target.device.kind == "cpu"

    def _hottest(self) -> None:
        """Says which units draw the most, or that it is not known."""
        self.turns.learn_power(self.mix.watts)
        if not self.turns.hot:
            self.say("hottest", "no power reading tells which unit draws the most: all have equal time")
            return
        names = sorted(self.turns.hot, key=lambda name: (-round(self.mix.watts[name]), name))
        said = ", ".join(f"{name} {self.mix.watts[name]:.0f} W" for name in names)
        self.say("hottest", f"{said}: most of the time is theirs", {f"power_w.{name}": watts for name, watts in self.mix.watts.items()})

    def _prepare(self, phase: Phase) -> None:
        key = _key(phase)
        if phase.kind == "idle" or key in self.units:
            return
        self.units[key], missing = stress.units(self.target, phase.kind, phase.dtypes, self.job.seed)
        for name, why in missing.items():
            self.say("not_run", f"{name}: {why}")
        for unit in self.units[key]:
            facts = unit.facts()
            if facts:
                self.say("coverage", numbers=facts, unit=unit.name)

    def _pulse(self, phase: Phase, until_s: float) -> None:
        """Notes when a pulse of load begins, on the clock that the devices of a machine share."""
        if self.job.profile.synchronised and phase.kind != "idle":
            began_s = self.clock.now() if self.target.dialect == "model" else time.monotonic()
            if self.clock.now() < until_s:  # else it was missed: the last unit took longer than that
                self.pulses[self.pulse] = began_s
            self.pulse += 1

    def _phase(self, phase: Phase, until_s: float) -> None:
        """Every unit of a phase has its turn at least once in a process, however little time is left."""
        units = self.units.get(_key(phase), [])
        names = [_kind(unit) for unit in units]
        while not self.stopped and (self.clock.now() < until_s or self.turns.never_ran(names)):
            if not units:  # idle, or nothing of this kind runs here
                self.clock.sleep(min(until_s - self.clock.now(), TICK_S))
                self._look(phase.kind)
                continue
            duty = self._share(phase, units)
            began_s, first = self.clock.now(), True
            while not self.stopped and (first or (self.clock.now() - began_s < WINDOW_S * duty and self.clock.now() < until_s)):
                hotter = self._hotter(units) if self.clock.now() - began_s < WINDOW_S * self._mixed() else None
                place = self.turns.next(names, phase.hottest)
                self._unit(hotter or units[place], phase.kind if hotter is None else "mix")
                first = False
            window_s = self.clock.now() - began_s
            self._guard()
            if duty < 1 and not self.stopped:
                self.clock.sleep(min(window_s * (1 / duty - 1), 2.0))
            self._look(phase.kind)

    def _share(self, phase: Phase, mix: list[Any]) -> float:
        """Share of the time with load: the phase's, or the controller's; where that is too little, what draws more is found out first."""
        if self.control is None:
            return phase.duty
        if self.control.short_s > SHORT_S and not self.probed:
            self._probe([unit for units in self.units.values() for unit in units], phase.kind)
            self._mix_in(mix, reported=True)
        elif self.control.short_s > SHORT_S and self.control.most == 1.0:  # a later phase, whose own units draw less
            self._mix_in(mix, reported=False)
        return self.control.on

    def _mixed(self) -> float:
        return self.control.mixed if self.control else 0.0

    def _hotter(self, mix: list[Any]) -> Any:
        """The unit to mix in with these; None where they draw the most themselves."""
        name = self.mix.more([_kind(unit) for unit in mix])
        return next((unit for units in self.units.values() for unit in units if _kind(unit) == name), None) if name else None

    def _probe_s(self, every: list[Any]) -> float:
        return min(PROBE_S, PROBE_SHARE * self.job.profile.seconds / (2 * len(every)))

    def _probe(self, every: list[Any], phase: str) -> None:
        """Each unit alone at full duty, for the power that it draws."""
        self.probed, span_s = True, self._probe_s(every)
        for unit in every:
            for measured in (False, True):
                self._tick(phase)
                until_s = self.clock.now() + span_s
                while self.clock.now() < until_s and not self.stopped:
                    self._unit(unit, "mix")
                    self._guard()
                self._show()
                if measured and "power_w" in self.shown:
                    self.mix.watts[_kind(unit)] = self.shown["power_w"]
                self._limit(self.shown)
                if self.stopped:
                    return
        self._tick(phase)

    def _mix_in(self, units: list[Any], reported: bool) -> None:
        """The unit that draws the most, where these draw less; `told`: says so even where there is none."""
        assert self.control is not None
        own = [_kind(unit) for unit in units]
        best = self.mix.more(own)
        if best:
            self.control.reach(self.mix.of(own), self.mix.watts[best], self.goal == "power_w")
        what = f"{self.control.target:g} {'W' if self.goal == 'power_w' else '°C'}"
        said = f"full duty of {', '.join(dict.fromkeys(own))} does not hold {what}; "
        more = f"{best} ({self.mix.watts[best]:.0f} W alone) is mixed in" if best else "no other unit of the profile draws more"
        if best or reported:
            self.say("mix", said + more, {f"power_w.{name}": watts for name, watts in self.mix.watts.items()})

    def _unit(self, unit: Any, phase: str) -> None:
        self.unit = _kind(unit) if phase == "mix" else unit.name if phase in ("products", "graphics") else phase  # memory: patterns differ
        began_s = self.clock.now()
        unit.run()
        ran_s = self.clock.now()
        check = unit.check()
        self.turns.record(_kind(unit), self.clock.now() - began_s)
        self.busy_s += ran_s - began_s
        self.check_s += self.clock.now() - ran_s
        self.pieces, self.checked = self.pieces + 1, self.checked + 1
        self.flop, self.moved = self.flop + unit.flop, self.moved + unit.moved_bytes
        so_far = self.done.get(self.unit, Done())
        self.done[self.unit] = Done(
            units=so_far.units + 1, flop=so_far.flop + unit.flop, moved_bytes=so_far.moved_bytes + unit.moved_bytes,
            busy_s=so_far.busy_s + ran_s - began_s, steps=so_far.steps + getattr(unit, "steps", 0.0),
        )  # fmt: skip
        for one in check:
            self.wrong[one.kind] = self.wrong.get(one.kind, 0) + 1
            self.kept += 1
            if self.kept <= MOST_WRONG:
                _say(self.channel, Mismatch(device=self.job.device_key, time_s=self.clock.now(), unit=unit.name, **one._asdict()), [])

    def _look(self, phase: str) -> None:
        """Once a tick: sensors, limits, control, and a line."""
        now = self.clock.now()
        if now - self.ticked_s < min(TICK_S, 0.5 if self.control else TICK_S):
            return
        self._show()
        if self.control and self.goal in self.shown:
            self.control.step(self.shown[self.goal], now - self.ticked_s)
        self._limit(self.shown)
        self._tick(phase)

    def _show(self) -> None:
        with self.sampler.lock:  # the mean since the last tick: a single reading may fall into a pause
            columns = {key: [v for v in column.values if v is not None] for key, column in self.sampler.columns.items()}
        self.shown = {
            sensor: values[-1] if sensor == "throttle" else sum(values) / len(values)
            for (sensor, device), values in columns.items()
            if values and self._mine(device)
        }

    def _guard(self) -> None:
        """Between two windows of load: what limits and set point need, by the latest reading, which a mean would soften."""
        now, latest = self.clock.now(), dict[str, float]()
        with self.sampler.lock:
            for (sensor, device), column in self.sampler.columns.items():
                if sensor in ("power_w", "temperature_c") and self._mine(device) and column.values and column.values[-1] is not None:
                    latest[sensor] = column.values[-1]
        self.seen_s |= {sensor: now for sensor in latest if sensor in self.seen_s}
        for sensor, at_s in self.seen_s.items():
            if now - at_s > BLIND_S and not self.stopped:
                self.stopped = f"no reading of {sensor} for {now - at_s:.0f} s, which the limit or set point that was asked needs"
                self.say("limit", self.stopped)
        self._limit(latest)

    def _limit(self, shown: dict[str, float]) -> None:
        said = "" if self.stopped else self.limits.reached(shown)
        if said:
            self.stopped = said
            self.say("limit", said, {"slowdown": float("own slowdown" in said)})

    def _tick(self, phase: str) -> None:
        now = self.clock.now()
        duty = min((self.busy_s + self.check_s) / max(now - self.ticked_s, 1e-9), 1.0)
        line = Tick(
            device=self.job.device_key, time_s=now, phase=phase, units=self.pieces, checked=self.checked, flop=self.flop,
            moved_bytes=self.moved, busy_s=self.busy_s, check_s=self.check_s, duty=duty, shown=self.shown,
            attempt=self.job.attempt, done=self.done, unit=self.unit, wrong=self.wrong, pulses=self.pulses,
        )  # fmt: skip
        _say(self.channel, line, self.sampler.drain())
        self.pieces = self.checked = 0
        self.flop = self.moved = self.busy_s = self.check_s = 0.0
        self.done, self.wrong, self.pulses = {}, {}, {}
        self.ticked_s = now


def _kind(unit: Any) -> str:
    """A unit's name, by which it is counted: patterns of memory differ from turn to turn."""
    name: str = unit.name
    return "memory" if name.startswith("memory") else name


def _key(phase: Phase) -> str:
    return f"{phase.kind} {','.join(phase.dtypes)}"


if __name__ == "__main__":
    sys.exit(main())
