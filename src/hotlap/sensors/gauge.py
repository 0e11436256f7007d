"""One sensor as a function, and what becomes of the ways it can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hotlap.errors import MachineError, NotSupported
from hotlap.record import Reading


@dataclass
class Gauge:
    """A sensor. `ask` gets the time of the reading in s and returns the value in the unit of `name`; it raises NotSupported
    where there is nothing to read, anything else where reading failed."""

    name: str
    ask: Callable[[float], float]
    unsupported: str = ""  # the reason, once known: what the hardware does not have now it will not have in a moment

    def read(self, device: str, time_s: float) -> Reading:
        """Never raises."""
        if not self.unsupported:
            try:
                return Reading(sensor=self.name, device=device, time_s=time_s, value=float(self.ask(time_s)))
            except NotSupported as error:
                self.unsupported = str(error)
            except Exception as error:  # whatever a driver's binding may raise: one dead sensor must not silence the others
                return Reading(sensor=self.name, device=device, time_s=time_s, status="error", reason=why(error))
        return Reading(sensor=self.name, device=device, time_s=time_s, status="not_supported", reason=self.unsupported)


def absent(name: str, reason: str) -> Gauge:
    """A sensor that is known not to be here."""

    def ask(_time_s: float) -> float:
        raise NotSupported(reason)

    return Gauge(name, ask, reason)


def read_all(gauges: Iterable[Gauge], device: str, time_s: float) -> list[Reading]:
    return [gauge.read(device, time_s) for gauge in gauges]


def why(error: Exception) -> str:
    """An exception in one line."""
    if isinstance(error, MachineError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
