"""Reads sensors at a steady rate by the target's clock, keeps the readings in columns, and measures what that costs."""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hotlap.record import Reading, Readings
from hotlap.sensors.base import Source
from hotlap.sensors.gauge import why
from hotlap.targets.base import Clock

KEPT_COSTS = 4096  # the last sweeps whose cost is remembered, so that a run of days does not grow


@dataclass
class Column:
    """One sensor since the last drain."""

    times_s: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    reason: str = ""  # of the last failure

    def readings(self, sensor: str, device: str) -> Readings:
        dead = all(value is None for value in self.values)
        return Readings(
            sensor=sensor, device=device, times_s=self.times_s, values=self.values, status="error" if dead else "ok", reason=self.reason,
        )


class Sampler:
    """Sweeps over all sources every `period_s` between `start` and `stop`; on a virtual clock this happens as time passes."""

    def __init__(self, clock: Clock, sources: Sequence[Source], period_s: float) -> None:
        self.clock, self.sources, self.period_s = clock, sources, period_s
        self.columns: dict[tuple[str, str], Column] = {}
        self.unsupported: dict[tuple[str, str], str] = {}  # waiting to be written, once
        self.told: set[tuple[str, str]] = set()  # those that were
        self.costs_s: deque[float] = deque(maxlen=KEPT_COSTS)
        self.sweeps = self.late = 0
        self.longest_s = 0.0
        self.lock = threading.Lock()
        self.end: Callable[[], None] | None = None

    def start(self) -> None:
        """Begins to sample; does nothing when it has begun."""
        if self.end is None and self.sources:
            self.end = self.clock.every(self.period_s, self._sweep)

    def stop(self) -> None:
        """Ends sampling; what was read can still be drained."""
        end, self.end = self.end, None
        if end is not None:
            end()

    def drain(self) -> list[Readings]:
        """What was read since the last drain, one column per sensor; a sensor that is not supported is in the first one only."""
        with self.lock:
            columns, self.columns = self.columns, {}
            absent, self.unsupported = self.unsupported, {}
        return [
            *(Readings(sensor=s, device=d, status="not_supported", reason=reason) for (s, d), reason in absent.items()),
            *(column.readings(*key) for key, column in columns.items()),
        ]

    @property
    def cost_s(self) -> float:
        """Median own time of a sweep by the clock; 0.0 before the first."""
        return statistics.median(list(self.costs_s)) if self.costs_s else 0.0

    @property
    def share(self) -> float:
        """Own time as a share of one core."""
        return self.cost_s / self.period_s

    @property
    def warnings(self) -> list[str]:
        """What to doubt about the sampling, and what to do."""
        if not self.late:
            return []
        what = f"{self.late} of {self.sweeps} sweeps over the sensors took longer than their period of {self.period_s * 1e3:.3g} ms"
        return [f"{what}, the longest {self.longest_s * 1e3:.3g} ms: readings are fewer than asked; ask for a lower rate with readings"]

    def _sweep(self) -> None:
        began = self.clock.now()
        taken = [reading for source in self.sources for reading in self._ask(source)]
        with self.lock:
            for reading in taken:
                self._keep(reading)
        self._account(self.clock.now() - began)

    def _ask(self, source: Source) -> list[Reading]:
        time_s = self.clock.now()
        try:
            return source.read(time_s)
        except Exception as error:  # a source must not raise; if it does all the same, the others are still read
            return [
                Reading(sensor=name, device=source.device, time_s=time_s, status="error", reason=why(error)) for name in source.names()
            ]

    def _keep(self, reading: Reading) -> None:
        key = (reading.sensor, reading.device)
        if reading.status == "not_supported":
            if key not in self.told:
                self.told.add(key)
                self.unsupported[key] = reading.reason
            return
        column = self.columns.setdefault(key, Column())
        column.times_s.append(reading.time_s)
        column.values.append(reading.value if reading.status == "ok" else None)
        column.reason = reading.reason or column.reason

    def _account(self, cost_s: float) -> None:
        self.costs_s.append(cost_s)
        self.sweeps += 1
        self.late += cost_s > self.period_s
        self.longest_s = max(self.longest_s, cost_s)
