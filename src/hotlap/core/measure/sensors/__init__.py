"""The table of sensor sources, and which of them a target has.

An NVIDIA GPU is read through NVML with the host beside it, any other through what the kernel shows of it; a processor has the
host alone; a simulated GPU has its own sensors and no host. The clock of a core by `cpu_clock` is in no table, since asking costs
about 1 ms of a core: whoever wants it calls it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.drm import Drm
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Device

SOURCES = {
    "nvml": "NVIDIA GPUs through the driver's management library",
    "drm": "GPUs of AMD, Intel and others through the kernel's files of them",
    "amd_smi": "AMD GPUs through AMD SMI: what the kernel's files do not show",
    "system": "the host: load, memory, pressure, and the processor's clock, temperature and power where the kernel shows them",
    "board": "small devices: thermal zones, power rails, batteries, clocks; tegrastats where it is",
    "simulated": "the sensors of a simulated GPU, on its virtual clock",
}


def find(target: Target) -> list[SensorSource]:
    """The sources that can be read here for this target. Never raises; what is left out stands in `missing`."""
    sources: list[SensorSource] = []
    for name in _wanted(target.device):
        sources += _module(name).find(target)
    if _amd(target.device):
        shown = [name for one in sources if isinstance(one, Drm) for name in one.supported()]  # one source a sensor
        sources += _module("amd_smi").find(target, shown)
    return sources


def missing(target: Target) -> dict[str, str]:
    """Source → why it cannot be read here and what would mend it; empty when all that the target could have is there."""
    reasons = {name: str(_module(name).missing(target)) for name in _wanted(target.device)}
    if reasons.get("drm") and _amd(target.device):
        reasons["amd_smi"] = str(_module("amd_smi").missing(target))
    return {name: reason for name, reason in reasons.items() if reason}


def _wanted(device: Device) -> list[str]:
    if device.target == "simulated":
        return ["simulated"]
    if _nvidia(device):
        return ["nvml", "system", "board"]
    return ["system", "board"] if device.kind == "cpu" else ["drm", "system", "board"]


def _nvidia(device: Device) -> bool:
    return device.kind == "gpu" and "nvidia" in f"{device.vendor} {device.name}".lower()


def _amd(device: Device) -> bool:
    vendor = device.vendor.lower()
    return device.kind == "gpu" and device.target != "simulated" and ("amd" in vendor or "advanced micro" in vendor)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"hotlap.core.measure.sensors.{name}")
