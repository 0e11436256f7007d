"""Reads sensors at a steady rate by the target's clock, keeps the readings in columns, and measures what that costs."""

from __future__ import annotations

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.columns import ReadingColumn, ReadingColumns
from hotlap.core.measure.sensors.gauge import spent, why
from hotlap.core.measure.targets.base import Clock
from hotlap.core.record import Notice, Reading, Readings

KEPT_COSTS = 4096  # the last sweeps whose cost is remembered, so that a run of days does not grow


class Sampler:
    """Sweeps over all sources every `period_s` between `start` and `stop`; on a virtual clock this happens as time passes."""

    def __init__(self, clock: Clock, sources: Sequence[SensorSource], period_s: float) -> None:
        self.clock, self.sources, self.period_s = clock, sources, period_s
        self.kept = ReadingColumns()
        self.costs_s: deque[float] = deque(maxlen=KEPT_COSTS)
        self.sweeps = self.late = 0
        self.longest_s = 0.0
        self.spent_s = 0.0  # of all sweeps, by the system's clock
        self.before_s = self._in_drivers()
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
        return self.kept.drain()

    @property
    def columns(self) -> dict[tuple[str, str], ReadingColumn]:
        """What was read since the last drain; hold `lock` while looking at it."""
        return self.kept.columns

    def latest(self, sensor: str, device: str) -> float | None:
        """The last value since the last drain; None where there is none."""
        column = self.columns.get((sensor, device))
        return column.values[-1] if column and column.values else None

    @property
    def lock(self) -> threading.Lock:
        """Held while a column grows."""
        return self.kept.lock

    @property
    def cost_s(self) -> float:
        """Median own time of a sweep by the clock; 0.0 before the first."""
        return statistics.median(list(self.costs_s)) if self.costs_s else 0.0

    @property
    def share(self) -> float:
        """Time of a sweep, drivers included, as a share of one core."""
        return self.cost_s / self.period_s

    @property
    def own_share(self) -> float:
        """Mean time of a sweep without the calls of drivers, by the system's clock, as a share of one core; 0.0 before the first."""
        return max(self.spent_s - self.driver_s, 0.0) / self.sweeps / self.period_s if self.sweeps else 0.0

    @property
    def driver_s(self) -> float:
        """Time of all sweeps within the calls of drivers, by the system's clock."""
        return self._in_drivers() - self.before_s

    @property
    def notices(self) -> list[Notice]:
        """What to know about the sampling."""
        if not self.late:
            return []
        what = f"{self.late} of {self.sweeps} sweeps over the sensors took longer than their period of {self.period_s * 1e3:.3g} ms"
        seen = f"{what}, the longest {self.longest_s * 1e3:.3g} ms: readings are fewer than asked"
        return [Notice("few_readings", seen)]

    def _sweep(self) -> None:
        began, began_s = self.clock.now(), time.perf_counter()
        taken = [reading for source in self.sources for reading in self._ask(source)]
        self.kept.add(taken)
        self.spent_s += time.perf_counter() - began_s
        self._account(self.clock.now() - began)

    def _in_drivers(self) -> float:
        return sum(one.seconds for source in self.sources for one in spent(source).values())

    def _ask(self, source: SensorSource) -> list[Reading]:
        time_s = self.clock.now()
        try:
            return source.read(time_s)
        except Exception as error:  # a source must not raise; if it does all the same, the others are still read
            return [
                Reading(sensor=name, device=source.device, time_s=time_s, status="error", reason=why(error)) for name in source.names()
            ]

    def _account(self, cost_s: float) -> None:
        self.costs_s.append(cost_s)
        self.sweeps += 1
        self.late += cost_s > self.period_s
        self.longest_s = max(self.longest_s, cost_s)
