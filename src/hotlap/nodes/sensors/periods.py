"""How often each sensor really has something new, and what its driver takes to say so.

A sensor that is read faster than it updates repeats its value. The median distance of its changes is its period, to within one
reading; one that changed at every reading updates at least that often; one that never changed says nothing, since what stays the
same looks as what is not looked at. Source of the method: Yang et al., "Part-time power measurements", SC24.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.columns import ReadingColumns
from hotlap.core.measure.sensors.gauge import ReadingCost, spent
from hotlap.core.measure.targets.base import Clock
from hotlap.core.record import Readings

Floats = NDArray[np.float64]
FEWEST = 4  # changes from which a period is told


@dataclass(frozen=True)
class Period:
    """One sensor, read often for a while."""

    device: str
    sensor: str
    readings: int
    read_s: float | None  # median distance of two readings
    changes: int
    found_s: float | None  # median distance of two changes; None below `FEWEST` changes
    at_most: bool = False  # it changed at every reading: the period may be shorter than `found_s`
    window_s: float | None = None
    driver_s: float | None = None  # mean time in the driver's call; None where several sensors are asked at once
    reason: str = ""  # without a reading, why

    @property
    def since_last(self) -> bool:
        """Whether each value is the average since the last reading, and new for that alone."""
        return bool(self.window_s and self.read_s and 0.7 < self.window_s / self.read_s < 1.4)


@dataclass(frozen=True)
class PeriodRequest:
    """What asks for several sensors at once: mean time of a call."""

    device: str
    what: str
    calls: int
    seconds: float


def measure(sources: Sequence[SensorSource], clock: Clock, length_s: float, every_s: float) -> tuple[list[Period], list[PeriodRequest]]:
    """Reads all sources every `every_s` for `length_s` by the target's clock."""
    columns = ReadingColumns()
    before = [{name: (one.calls, one.seconds) for name, one in spent(source).items()} for source in sources]
    whole = [ReadingCost() for _ in sources]
    begin_s = due_s = clock.now()
    while clock.now() - begin_s < length_s:
        for source, total in zip(sources, whole, strict=True):
            asked_s = time.perf_counter()
            columns.add(source.read(clock.now()))
            total.add(time.perf_counter() - asked_s)
        due_s = max(due_s + every_s, clock.now())
        clock.sleep(max(due_s - clock.now(), 0.0))
    means = [_means(source, old) for source, old in zip(sources, before, strict=True)]
    driver = {(source.device, name): mean for source, some in zip(sources, means, strict=True) for name, (_, mean) in some.items()}
    periods = [_of(one, driver.get((one.device, one.sensor))) for one in columns.drain()]
    return periods, [one for parts in zip(sources, means, whole, strict=True) for one in _together(*parts)]


def _means(source: SensorSource, before: dict[str, tuple[int, float]]) -> dict[str, tuple[int, float]]:
    """Calls since then and their mean time, by name."""
    found = {}
    for name, now in spent(source).items():
        calls, seconds = before.get(name, (0, 0.0))
        if now.calls > calls:
            found[name] = (now.calls - calls, (now.seconds - seconds) / (now.calls - calls))
    return found


def _together(source: SensorSource, means: dict[str, tuple[int, float]], whole: ReadingCost) -> list[PeriodRequest]:
    if not spent(source):
        return [PeriodRequest(source.device, f"all of {source.name}", whole.calls, whole.seconds / max(whole.calls, 1))]
    shared = getattr(source, "spent", {})
    return [PeriodRequest(source.device, name, calls, mean) for name, (calls, mean) in means.items() if name in shared]


def _of(readings: Readings, driver_s: float | None) -> Period:
    pairs = [(t, v) for t, v in zip(readings.times_s, readings.values, strict=True) if v is not None]
    if not pairs:
        return Period(readings.device, readings.sensor, 0, None, 0, None, reason=readings.reason)
    times, values = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    read_s = float(np.median(np.diff(times))) if len(times) > 1 else None
    found_s, changes, at_most = find(times, values)
    return Period(readings.device, readings.sensor, len(times), read_s, changes, found_s, at_most, readings.window_s, driver_s)


def find(times_s: Floats, values: Floats) -> tuple[float | None, int, bool]:
    """Period of updates in s or None, changes, and whether the period may be shorter than what is told."""
    changed = times_s[1:][np.diff(values) != 0]
    if len(changed) < FEWEST:
        return None, len(changed), False
    return float(np.median(np.diff(changed))), len(changed), len(changed) >= 0.9 * (len(times_s) - 1)
