"""AMD GPUs through AMD SMI, where its Python package and ROCm's library are installed: what the kernel's files do not show.

The package prints and raises KeyError where the library is not found; both are caught here. "N/A" is what it writes for a value
that is not there. A socket power of exactly 0 W is no measurement: the odd dies of a package answer so.
Source: amdsmi 7.0.2, amdsmi_interface.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

from hotlap.core.errors import MachineError, NotSupported, Unavailable
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, read_all
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Device, Reading

NONE = ("N/A", None)
POWERS = ("current_socket_power", "average_socket_power", "socket_power")  # MI300 and later have the first, older ones the second


class AmdSmi:
    """The sensors of one processor; `skip` names those that another source reads."""

    name = "amd_smi"

    def __init__(self, library: Any, handle: Any, device: str, skip: Sequence[str] = ()) -> None:
        self.a, self.h, self.device = library, handle, device
        asks: dict[str, Callable[[], float]] = {
            "power_w": self._power,
            "energy_j": self._energy,
            "temperature_c": lambda: self._temperature("EDGE", "JUNCTION"),
            "temperature_c.junction": lambda: self._temperature("JUNCTION"),
            "temperature_c.memory": lambda: self._temperature("VRAM"),
            "clock_hz.sm": lambda: self._clock("GFX"),
            "clock_hz.memory": lambda: self._clock("MEM"),
            "utilization": lambda: _number(library.amdsmi_get_gpu_activity(handle), "gfx_activity") / 100,
            "utilization.memory": lambda: _number(library.amdsmi_get_gpu_activity(handle), "umc_activity") / 100,
            "memory_used_bytes": lambda: float(library.amdsmi_get_gpu_memory_usage(handle, library.AmdSmiMemoryType.VRAM)),
            "ecc_corrected": lambda: _number(library.amdsmi_get_gpu_total_ecc_count(handle), "correctable_count"),
            "ecc_uncorrected": lambda: _number(library.amdsmi_get_gpu_total_ecc_count(handle), "uncorrectable_count"),
        }
        self.gauges = [SensorProbe(name, self._guarded(ask)) for name, ask in asks.items() if name not in skip]

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)

    def _guarded(self, ask: Callable[[], float]) -> Callable[[float], float]:
        """AMD SMI's errors in the terms of a gauge."""

        def asked(_time_s: float) -> float:
            try:
                return ask()
            except AttributeError as error:
                raise NotSupported(f"this AMD SMI has no such function ({error})") from error
            except self.a.AmdSmiLibraryException as error:
                if "NOT_SUPPORTED" in str(error):
                    raise NotSupported("the device does not support it") from error
                raise MachineError(f"AMD SMI: {' '.join(str(error).split())[:200]}") from error

        return asked

    def _power(self) -> float:
        told = self.a.amdsmi_get_power_info(self.h)
        found = [float(told[name]) for name in POWERS if told.get(name) not in NONE]
        if not found:
            raise NotSupported("the driver answers N/A for each of its powers")
        power = next((value for value in found if value), 0.0)
        if power == 0:
            raise MachineError("answers 0 W: the odd dies of a package do, whose power stands with the first")
        return power

    def _energy(self) -> float:
        told = self.a.amdsmi_get_energy_count(self.h)
        return _number(told, "energy_accumulator") * _number(told, "counter_resolution") / 1e6  # µJ

    def _temperature(self, *kinds: str) -> float:
        """The first of these sensors that the device has."""
        for kind in kinds:
            which, now = getattr(self.a.AmdSmiTemperatureType, kind), self.a.AmdSmiTemperatureMetric.CURRENT
            try:
                value = self.a.amdsmi_get_temp_metric(self.h, which, now)
            except self.a.AmdSmiLibraryException as error:
                if "NOT_SUPPORTED" not in str(error):
                    raise
                continue
            if value not in NONE:
                return float(value)
        raise NotSupported(f"the device has no temperature of {' or '.join(kinds).lower()}")

    def _clock(self, kind: str) -> float:
        return _number(self.a.amdsmi_get_clock_info(self.h, getattr(self.a.AmdSmiClkType, kind)), "clk") * 1e6


def critical_c(device: Device) -> float | None:
    """The critical temperature of the sensor that stands for the device; None where AMD SMI does not tell it."""
    try:
        one = opened(device)
        for kind in ("EDGE", "JUNCTION"):
            which = getattr(one.a.AmdSmiTemperatureType, kind)
            with contextlib.suppress(one.a.AmdSmiLibraryException, AttributeError):
                now = one.a.amdsmi_get_temp_metric(one.h, which, one.a.AmdSmiTemperatureMetric.CURRENT)
                limit = one.a.amdsmi_get_temp_metric(one.h, which, one.a.AmdSmiTemperatureMetric.CRITICAL)
                if now not in NONE and limit not in (*NONE, 0):
                    return float(limit)
    except (Unavailable, AttributeError):
        pass
    return None


def find(target: Target, skip: Sequence[str] = ()) -> list[SensorSource]:
    """The GPU's source; none where the package, the library or the GPU is not found, for the reason in `missing`."""
    try:
        return [opened(target.device, skip)]
    except Unavailable:
        return []


def missing(target: Target) -> str:
    """Why there is none, and what would mend it."""
    try:
        opened(target.device)
    except Unavailable as error:
        return str(error)
    return ""


def opened(device: Device, skip: Sequence[str] = ()) -> AmdSmi:
    """Raises Unavailable."""
    library = _library()
    if isinstance(library, str):
        raise Unavailable(library, "install ROCm and its amd-smi-lib")
    try:
        for handle in library.amdsmi_get_processor_handles():
            address = str(library.amdsmi_get_gpu_device_bdf(handle)).lower()
            if address == device.pci_address.lower():
                return AmdSmi(library, handle, device.key, skip)
    except library.AmdSmiException as error:
        raise Unavailable(f"AMD SMI lists no GPU ({' '.join(str(error).split())[:200]})", "check that amd-smi list works") from error
    where = device.pci_address or "an address that the driver tells"
    raise Unavailable(f"AMD SMI has no GPU at {where}", "check that amd-smi list shows it")


@functools.cache
def _library() -> Any:
    """The package, initialised once in a process; or why it cannot be used."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            import amdsmi
    except ImportError as error:
        return f"amdsmi cannot be imported ({error})"
    except Exception as error:  # KeyError where the library is not found; what else it may raise is no reason to end
        return f"amdsmi cannot be used ({type(error).__name__}: {error})"
    try:
        amdsmi.amdsmi_init()
    except Exception as error:  # its own exceptions, or a missing symbol of an older library
        return f"AMD SMI does not start ({' '.join(str(error).split())[:200]})"
    return amdsmi


def _number(answer: dict[str, Any], key: str) -> float:
    value = answer.get(key, "N/A")
    if value in NONE:
        raise NotSupported("the driver answers N/A")
    return float(value)
