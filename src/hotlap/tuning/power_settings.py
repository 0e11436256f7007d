"""Clocks and power cap of an NVIDIA GPU: what the driver allows, what stands, and how they are set. Nothing here is set unless asked.

NVML cannot read back a lock on clocks; to restore is to lift it. Source: NVML API reference, nvmlDeviceSetGpuLockedClocks,
nvmlDeviceSetPowerManagementLimit. Under HOTLAP_NVML=stand-in, as in Hotlap's own tests, only a library that stands in for NVML is set.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hotlap.core.errors import InputError, MachineError, NotSupported, Unavailable
from hotlap.core.measure.sensors import nvml
from hotlap.core.record import Device, Record

STAND_IN = "hotlapStandIn"  # a symbol that NVIDIA's library does not have
LOCKED = 0x2  # reason of a clock: application clocks or a lock set by a user


class Bounds(Record, frozen=True, kw_only=True):
    """What can be set, and what stands. None: the driver does not say."""

    power_w: float | None = None  # stands now
    power_least_w: float | None = None
    power_most_w: float | None = None
    clock_least_hz: float | None = None
    clock_most_hz: float | None = None
    locked: bool = False  # somebody's lock on clocks holds now: it cannot be read back, so it could not be restored


class Settings:
    """The settings of one GPU."""

    def __init__(self, device: Device) -> None:
        """Raises Unavailable where NVML or the GPU is not there."""
        source = nvml.opened(device)
        self.n, self.handle, self.device = source.n, source.handle, device

    def bounds(self) -> Bounds:
        n, h = self.n, self.handle
        limits = self._told(lambda: n.nvmlDeviceGetPowerManagementLimitConstraints(h))
        clocks = self._told(self._clocks) or []
        reasons = self._told(lambda: n.nvmlDeviceGetCurrentClocksThrottleReasons(h))
        return Bounds(
            power_w=self._watts(lambda: n.nvmlDeviceGetPowerManagementLimit(h)),
            power_least_w=limits[0] / 1e3 if limits else None,
            power_most_w=limits[1] / 1e3 if limits else None,
            clock_least_hz=min(clocks, default=None),
            clock_most_hz=max(clocks, default=None),
            locked=bool((reasons or 0) & LOCKED),
        )

    def set_clock(self, clock_hz: float) -> None:
        """Locks the clock of arithmetic at the nearest that the driver has. Raises MachineError without the permission."""
        whole = round(clock_hz / 1e6)
        self._set(lambda: self.n.nvmlDeviceSetGpuLockedClocks(self.handle, whole, whole), f"the clock of {whole} MHz")

    def free_clock(self) -> None:
        self._set(lambda: self.n.nvmlDeviceResetGpuLockedClocks(self.handle), "no lock on the clock")

    def set_power(self, watts: float) -> None:
        self._set(lambda: self.n.nvmlDeviceSetPowerManagementLimit(self.handle, round(watts * 1e3)), f"the power cap of {watts:g} W")

    def _clocks(self) -> list[float]:
        memory = max(self.n.nvmlDeviceGetSupportedMemoryClocks(self.handle))
        return [mhz * 1e6 for mhz in self.n.nvmlDeviceGetSupportedGraphicsClocks(self.handle, memory)]

    def _watts(self, ask: Callable[[], Any]) -> float | None:
        value = self._told(ask)
        return None if value is None else value / 1e3

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (self.n.NVMLError, AttributeError, NotSupported, ValueError):
            return None

    def _set(self, act: Callable[[], Any], what: str) -> None:
        if os.environ.get("HOTLAP_NVML") == "stand-in" and not hasattr(self.n.nvmlLib, STAND_IN):
            raise MachineError(f"{self.device.name}: {what} is not set: HOTLAP_NVML=stand-in, and this NVML is the driver's own")
        try:
            act()
        except self.n.NVMLError as error:
            refused = getattr(error, "value", None) == 4  # NVML_ERROR_NO_PERMISSION
            remedy = "; run as root, or ask for the capability SYS_ADMIN" if refused else ""
            raise MachineError(f"{self.device.name}: {what} cannot be set ({error}){remedy}") from error
        except AttributeError as error:
            raise Unavailable(f"this nvidia-ml-py has no such function ({error})", nvml.REMEDY_PACKAGE) from error


def calls(clock_hz: float | None, power_w: float | None) -> list[str]:
    """The calls of NVML that put a setting."""
    mhz, milliwatts = round((clock_hz or 0.0) / 1e6), round((power_w or 0.0) * 1e3)
    clock = [f"nvmlDeviceSetGpuLockedClocks({mhz}, {mhz})"] if clock_hz is not None else []
    return clock + ([f"nvmlDeviceSetPowerManagementLimit({milliwatts})"] if power_w is not None else [])


def check(bounds: Bounds, clock_hz: float | None, power_w: float | None) -> None:
    """Raises InputError for a setting outside of what the driver allows."""
    for name, value, least, most, scale, unit in (
        ("clock", clock_hz, bounds.clock_least_hz, bounds.clock_most_hz, 1e6, "MHz"),
        ("power cap", power_w, bounds.power_least_w, bounds.power_most_w, 1.0, "W"),
    ):
        if value is not None and least is not None and most is not None and not least <= value <= most:
            raise InputError(
                f"a {name} of {value / scale:g} {unit} is outside of what the driver allows: {least / scale:g} to {most / scale:g} {unit}"
            )
