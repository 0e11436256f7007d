"""What a stretch of readings comes to: least, mean and most per sensor, how long each cause held the clock, energy with its error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hotlap.core.errors import InputError
from hotlap.core.measure.sensors.base import THROTTLE
from hotlap.core.record import Reading
from hotlap.core.stats import energy

CODES = ("xid",)  # values that are names, not amounts
KEPT = 200_000  # points of power and of an energy counter; above it every second one goes
HELD_MAX = 3.0  # a mask stands for the time to the next reading, at most this × the period


@dataclass
class TalliedSensor:
    """One sensor so far."""

    count: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    last: Reading | None = None
    codes: set[float] = field(default_factory=set)  # those that a sensor of codes has shown


@dataclass
class SensorSeries:
    times: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)

    def add(self, time_s: float, value: float | None) -> None:
        if len(self.times) >= KEPT:
            self.times, self.values = self.times[::2], self.values[::2]
        self.times.append(time_s)
        self.values.append(value)


class SensorStats:
    """Of all readings it was given, in order of time."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.sensors: dict[tuple[str, str], TalliedSensor] = {}
        self.series: dict[tuple[str, str], SensorSeries] = {}
        self.held_s: dict[tuple[str, str], float] = {}
        self.watched_s: dict[str, float] = {}

    def add(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            if reading.status == "not_supported":
                continue
            known = self.sensors.setdefault((reading.device, reading.sensor), TalliedSensor())
            if reading.sensor == "throttle":
                self._hold(known.last, reading)
            known.last = reading
            if reading.sensor in ("power_w", "energy_j"):
                self.series.setdefault((reading.device, reading.sensor), SensorSeries()).add(reading.time_s, reading.value)
            if reading.value is not None:
                known.count += 1
                known.total += reading.value
                if reading.sensor in CODES:
                    known.codes.add(reading.value)
                known.low, known.high = min(known.low, reading.value), max(known.high, reading.value)

    def _hold(self, before: Reading | None, now: Reading) -> None:
        if before is None or before.value is None:
            return
        passed_s = min(now.time_s - before.time_s, HELD_MAX * self.period_s)
        self.watched_s[now.device] = self.watched_s.get(now.device, 0.0) + passed_s
        for bit, name in THROTTLE.items():
            if int(before.value) & bit:
                self.held_s[now.device, name] = self.held_s.get((now.device, name), 0.0) + passed_s

    def residency(self, device: str) -> dict[str, float]:
        """Cause → share of the time watched; empty where no mask was read."""
        whole = self.watched_s.get(device, 0.0)
        return {name: held / whole for (of, name), held in self.held_s.items() if of == device and whole}

    def energy(self, device: str) -> energy.Energy | None:
        """Between the first and the last reading of power or counter; None where there are fewer than two."""
        power, counter = (self.series.get((device, name), SensorSeries()) for name in ("power_w", "energy_j"))
        times = power.times + counter.times
        try:
            return energy.window(min(times), max(times), (power.times, power.values), (counter.times, counter.values)) if times else None
        except InputError:
            return None
