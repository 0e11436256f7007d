"""One sensor as a function, and what becomes of the ways it can fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.record import Reading


@dataclass
class ReadingCost:
    """Time in the calls of a driver, by the system's clock."""

    calls: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One call more."""
        self.calls += 1
        self.seconds += seconds


@dataclass
class SensorProbe:
    """A sensor. `ask` gets the time of the reading in s and returns the value in the unit of `name`; it raises NotSupported
    where there is nothing to read, anything else where reading failed."""

    name: str
    ask: Callable[[float], float]
    unsupported: str = ""  # the reason, once known: what the hardware does not have now it will not have in a moment
    window_s: float | Literal["since the last reading"] | None = None  # each value is an average over it; 0 instantaneous, None unknown
    spent: ReadingCost = field(default_factory=ReadingCost)  # in `ask`
    before_s: float | None = None  # time of the reading before

    def read(self, device: str, time_s: float) -> Reading:
        """Never raises."""
        if not self.unsupported:
            began_s = time.perf_counter()
            try:
                value = float(self.ask(time_s))
                self.spent.add(time.perf_counter() - began_s)
                return Reading(sensor=self.name, device=device, time_s=time_s, value=value, window_s=self._window(time_s))
            except NotSupported as error:
                self.unsupported = str(error)
            except Exception as error:  # whatever a driver's binding may raise: one dead sensor must not silence the others
                self.spent.add(time.perf_counter() - began_s)
                return Reading(sensor=self.name, device=device, time_s=time_s, status="error", reason=why(error))
        return Reading(sensor=self.name, device=device, time_s=time_s, status="not_supported", reason=self.unsupported)

    def _window(self, time_s: float) -> float | None:
        if not isinstance(self.window_s, str):
            return self.window_s
        before_s, self.before_s = self.before_s, time_s
        return None if before_s is None else time_s - before_s


def absent(name: str, reason: str) -> SensorProbe:
    """A sensor that is known not to be here."""

    def ask(_time_s: float) -> float:
        raise NotSupported(reason)

    return SensorProbe(name, ask, reason)


def spent(source: object) -> dict[str, ReadingCost]:
    """Time in a source's driver by sensor, or by what is asked for several at once; empty for a source that does not say."""
    shared: dict[str, ReadingCost] = getattr(source, "spent", {})
    gauges: Iterable[SensorProbe] = getattr(source, "gauges", ())
    return {**{one.name: one.spent for one in gauges}, **shared}


def read_all(gauges: Iterable[SensorProbe], device: str, time_s: float) -> list[Reading]:
    return [gauge.read(device, time_s) for gauge in gauges]


def why(error: Exception) -> str:
    """An exception in one line."""
    if isinstance(error, MachineError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
