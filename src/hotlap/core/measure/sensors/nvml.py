"""NVIDIA GPUs through NVML, by nvidia-ml-py; each sensor fails on its own.

Power is the instantaneous field 186 where the driver has it: `nvmlDeviceGetPowerUsage` is an average over 1 s on Ampere
(save GA100) and newer, an instantaneous value before. `power_w.average` is field 185. The energy counter steps every 20 to
100 ms, so windows under about 1 s need repeats. `utilization` is the share of time with a kernel on the device over the
driver's own window of 1/6 to 1 s; it says nothing about how well the device is used. Source: NVML API reference; Yang et al.,
"Part-time power measurements", SC24, for what the power sensor misses.

Shares (utilization, fan) are of 1. An old driver lacks newer functions: then the sensor is not supported, or an older
function is asked.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hotlap.core.errors import MachineError, NotSupported, Unavailable
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import ReadingCost, SensorProbe, read_all, why
from hotlap.core.measure.sensors.gpm import METRICS, Gpm
from hotlap.core.measure.sensors.nvml_fields import FUNCTION_NOT_FOUND, LACKING, Fields, known
from hotlap.core.measure.sensors.nvml_health import Health, limits
from hotlap.core.measure.sensors.processes import others
from hotlap.core.measure.sensors.xid import Xids
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Device, Reading

POWER_AVERAGE, POWER_INSTANT, MEMORY_TEMPERATURE = 185, 186, 82  # NVML_FI_DEV_*
CLOCK_SM, CLOCK_MEMORY = 1, 2  # nvmlClockType_t
RARE_S = 5.0  # each link is asked for each of its errors
SLOW_S = 0.5  # what changes rarely, or is dear to ask (the list of processes), is read at most twice a second

REMEDY_PACKAGE = "pip install nvidia-ml-py"
REMEDIES = {  # NVML_ERROR_*
    9: "load the nvidia kernel module; check nvidia-smi",
    12: "install NVIDIA's driver; in a container, start it with the GPUs and the capability 'utility'",
    18: "the driver was updated while it ran: reboot",
}
BATCHES = ("fields", "fields of health", "fields of links", "events and performance monitoring")  # asked for several sensors at once
NOW = ("energy_j", "temperature_c", "temperature_c.memory", "clock_hz.sm", "clock_hz.memory", "throttle", "memory_used_bytes", "pcie_width")
WINDOWS = {"power_w": 0.0, "power_w.average": 1.0, **dict.fromkeys(NOW, 0.0)}  # of utilization: 1/6 to 1 s, by product

Ask = Callable[[], float]


class Nvml:
    """The sensors of one GPU. Of a MIG slice NVML tells the memory and the processes; all else is told of its card, `handle`."""

    name = "nvml"

    def __init__(self, binding: Any, handle: Any, device: str, part: Any = None) -> None:
        self.n, self.handle, self.device = binding, handle, device
        self.part = part or handle
        self.fields = Fields(binding, handle, (POWER_INSTANT, POWER_AVERAGE, MEMORY_TEMPERATURE))
        self.health = Health(binding, handle)
        self.fast = self._gauges(self._fast())
        self.slow = self._gauges(self._slow() | self.health.asks)
        self.rare = self._gauges(self.health.rare)
        self.spent = {name: ReadingCost() for name in BATCHES}
        self.parts = [NvmlPart(self, ("xid", "xid.count"), Xids), NvmlPart(self, tuple(METRICS), Gpm)]
        self.slow_due_s = self.rare_due_s = float("-inf")

    @property
    def gauges(self) -> list[SensorProbe]:
        return [*self.fast, *self.slow, *self.rare]

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges] + [name for part in self.parts for name in part.names]

    def read(self, time_s: float) -> list[Reading]:
        """All sensors now, the slow ones (processes, fan, link, limit, errors, events, averages) only where their last reading is
        0.5 s old, errors of links every 5 s."""
        self._timed("fields", self.fields.ask)
        readings = read_all(self.fast, self.device, time_s)
        if time_s >= self.slow_due_s:
            self.slow_due_s = time_s + SLOW_S
            self._timed("fields of health", self.health.fields.ask)
            readings += read_all(self.slow, self.device, time_s)
            if time_s >= self.rare_due_s:
                self.rare_due_s = time_s + RARE_S
                self._timed("fields of links", self.health.rare_fields.ask)
                readings += read_all(self.rare, self.device, time_s)
            readings += [reading for part in self.parts for reading in self._timed("events and performance monitoring", part.read, time_s)]
        return readings

    def _timed(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """What `call` returns; its time counts as the driver's."""
        began_s = time.perf_counter()
        try:
            return call(*given)
        finally:
            self.spent[name].add(time.perf_counter() - began_s)

    def _gauges(self, asks: Mapping[str, Ask]) -> list[SensorProbe]:
        return [SensorProbe(name, self._guarded(ask), window_s=WINDOWS.get(name)) for name, ask in asks.items()]

    def _fast(self) -> dict[str, Ask]:
        n, h = self.n, self.handle
        return {
            "power_w": self._first(lambda: self.fields.get(POWER_INSTANT) / 1e3, self._power_usage),
            "power_w.average": lambda: self.fields.get(POWER_AVERAGE) / 1e3,
            "energy_j": lambda: n.nvmlDeviceGetTotalEnergyConsumption(h) / 1e3,
            "temperature_c": self._first(lambda: n.nvmlDeviceGetTemperature(h, 0), lambda: n.nvmlDeviceGetTemperatureV(h, 0)),
            "temperature_c.memory": self._memory_temperature,
            "clock_hz.sm": lambda: known(n.nvmlDeviceGetClockInfo(h, CLOCK_SM)) * 1e6,
            "clock_hz.memory": lambda: known(n.nvmlDeviceGetClockInfo(h, CLOCK_MEMORY)) * 1e6,
            "throttle": self._first(
                lambda: n.nvmlDeviceGetCurrentClocksEventReasons(h), lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(h)
            ),
            "utilization": lambda: n.nvmlDeviceGetUtilizationRates(h).gpu / 100,
            "memory_used_bytes": self._first(
                lambda: n.nvmlDeviceGetMemoryInfo(self.part, n.nvmlMemory_v2).used, lambda: n.nvmlDeviceGetMemoryInfo(self.part).used
            ),
        }

    def _power_usage(self) -> float:
        self.fast[0].window_s = None  # of `power_w`: 1 s or 0, by the card's generation
        return float(self.n.nvmlDeviceGetPowerUsage(self.handle)) / 1e3

    def _slow(self) -> dict[str, Ask]:
        n, h = self.n, self.handle
        return {
            "pcie_generation": lambda: n.nvmlDeviceGetCurrPcieLinkGeneration(h),
            "pcie_width": lambda: n.nvmlDeviceGetCurrPcieLinkWidth(h),
            "fan": lambda: n.nvmlDeviceGetFanSpeed(h) / 100,
            "power_limit_w": lambda: known(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1e3,
            "processes": self._first(
                lambda: others(_pids(n.nvmlDeviceGetComputeRunningProcesses_v3(self.part)), os.getpid()),
                lambda: others(_pids(n.nvmlDeviceGetComputeRunningProcesses_v2(self.part)), os.getpid()),
            ),
        }

    def _guarded(self, ask: Ask) -> Callable[[float], float]:
        """NVML's errors in the terms of a gauge: lacking is not supported, all others are failures with NVML's own words."""

        def asked(_time_s: float) -> float:
            try:
                return ask()
            except self.n.NVMLError as error:
                raise _translated(error) from error
            except AttributeError as error:
                raise NotSupported(f"this nvidia-ml-py has no such function ({error})") from error

        return asked

    def _first(self, new: Ask, old: Ask) -> Ask:
        """The newer function, for good, or the older one where the driver or the device lacks the newer."""
        chosen = [new]

        def ask() -> float:
            if chosen[0] is old:
                return old()
            try:
                return new()
            except (self.n.NVMLError, NotSupported, AttributeError) as error:
                if getattr(error, "value", FUNCTION_NOT_FOUND) not in LACKING:
                    raise
            value = old()
            chosen[0] = old
            return value

        return ask

    def _memory_temperature(self) -> float:
        value = self.fields.get(MEMORY_TEMPERATURE)
        if value == 0:  # cards without the sensor answer with success and 0 °C
            raise NotSupported("the device answers 0 °C, as cards without this sensor do")
        return value


class NvmlPart:
    """Sensors that are read together and may have to be opened first; what fails at opening is tried again at each reading."""

    def __init__(self, source: Nvml, names: tuple[str, ...], kind: Callable[[Any, Any], Any]) -> None:
        self.source, self.names, self.kind = source, names, kind
        self.opened: Any = None
        self.unsupported = ""

    def read(self, time_s: float) -> list[Reading]:
        """Never raises."""
        device, n = self.source.device, self.source.n
        if not self.unsupported:
            try:
                self.opened = self.opened or self.kind(n, self.source.handle)
                return self.opened.read(device, time_s)  # type: ignore[no-any-return]
            except NotSupported as error:
                self.unsupported = str(error)
            except AttributeError as error:
                self.unsupported = f"this nvidia-ml-py has no such function ({error})"
            except Exception as error:
                shown = _translated(error) if isinstance(error, n.NVMLError) else error
                if not isinstance(shown, NotSupported):
                    return [Reading(sensor=s, device=device, time_s=time_s, status="error", reason=why(shown)) for s in self.names]
                self.unsupported = str(shown)
        return [Reading(sensor=s, device=device, time_s=time_s, status="not_supported", reason=self.unsupported) for s in self.names]


def find(target: Target) -> list[SensorSource]:
    """The GPU's source; none where NVML or the GPU in it is not found, for the reason in `missing`."""
    try:
        return [opened(target.device)]
    except Unavailable:
        return []


def missing(target: Target) -> str:
    """Why there is none, and what would mend it."""
    try:
        opened(target.device)
    except Unavailable as error:
        return str(error)
    return ""


def facts(device: Device) -> dict[str, Any]:
    """What NVML knows of a GPU and what does not change: highest clocks, limits of power and temperature, link, firmware, serial
    number.

    Keys end in their unit; what the driver does not tell is left out. Empty where there is no NVML.
    """
    try:
        source = opened(device)
    except Unavailable:
        return {}
    n, h = source.n, source.handle
    asked: dict[str, Callable[[], Any]] = {
        "clock_max_hz.sm": lambda: known(n.nvmlDeviceGetMaxClockInfo(h, CLOCK_SM)) * 1e6,
        "clock_max_hz.memory": lambda: known(n.nvmlDeviceGetMaxClockInfo(h, CLOCK_MEMORY)) * 1e6,
        "power_limit_w": lambda: known(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1e3,
        "pcie_generation_max": lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(h),
        "pcie_width_max": lambda: n.nvmlDeviceGetMaxPcieLinkWidth(h),
        "clock_application_hz.sm": lambda: known(n.nvmlDeviceGetApplicationsClock(h, CLOCK_SM)) * 1e6,
        "ecc": lambda: bool(n.nvmlDeviceGetCurrentEccMode(h)),
        "mig": lambda: bool(n.nvmlDeviceGetMigMode(h)[0]),
        "persistence": lambda: bool(n.nvmlDeviceGetPersistenceMode(h)),
        "vbios": lambda: n.nvmlDeviceGetVbiosVersion(h),
        "serial": lambda: n.nvmlDeviceGetSerial(h),
        "driver": lambda: n.nvmlSystemGetDriverVersion(),
        **limits(n, h),
    }
    return {name: value for name, ask in asked.items() if (value := _answer(n, ask)) is not None}


def _answer(n: Any, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (n.NVMLError, AttributeError, NotSupported):
        return None


def opened(device: Device) -> Nvml:
    """Raises Unavailable: the package, the library, the driver or the device is not there."""
    n = _binding()
    reason = f"the driver of {device.target} gives neither UUID nor PCI address of {device.name}"
    for name, ask, value in (
        ("UUID", n.nvmlDeviceGetHandleByUUID, device.uuid), ("PCI address", n.nvmlDeviceGetHandleByPciBusId, device.pci_address),
    ):
        if value:
            try:
                found = ask(value)
                sliced = name == "UUID" and device.facts.get("mig")
                return Nvml(n, n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(found) if sliced else found, device.key, found)
            except n.NVMLError as error:
                reason = f"NVML does not find {device.name} by its {name} {value} ({_words(error)})"
    raise Unavailable(reason, "check that nvidia-smi lists it")


def _binding() -> Any:
    """nvidia-ml-py, initialised. Raises Unavailable."""
    try:
        import pynvml
    except ImportError as error:
        raise Unavailable(f"nvidia-ml-py cannot be imported ({error})", REMEDY_PACKAGE) from error
    try:
        _start(pynvml)
    except pynvml.NVMLError as error:
        raise Unavailable(f"NVML does not start ({_words(error)})", REMEDIES.get(error.value, "check that nvidia-smi works")) from error
    return pynvml


@functools.cache
def _start(n: Any) -> None:
    """Once in a process: NVML counts how often it was initialised."""
    n.nvmlInit()


def _translated(error: Any) -> Exception:
    if error.value in LACKING:
        return NotSupported(LACKING[error.value])
    return MachineError(f"NVML: {_words(error)}")


def _words(error: Any) -> str:
    """NVML's own text for an error; a library too old to have the text leaves the number."""
    try:
        return str(error)
    except Exception:
        return f"error {error.value}"


def _pids(processes: Sequence[Any]) -> list[int]:
    return [int(process.pid) for process in processes]
