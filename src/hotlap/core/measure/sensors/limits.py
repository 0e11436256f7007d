"""The temperature at which a device slows itself down, from whatever tells it, and what holds its clock at this moment."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.measure.sensors import amd_smi, drm, nvml
from hotlap.core.measure.sensors.base import THROTTLE, SensorSource
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.measure.targets.base import Target

SIMULATED_C = 87.0  # of a simulated card that does not say


def slowdown_c(target: Target) -> tuple[float | None, str]:
    """The temperature in °C and where it is from; None, and why, where nothing tells it."""
    device = target.device
    if device.target == "simulated":
        heat = getattr(getattr(target, "gpu", None), "thermal", None)
        return float(getattr(heat, "limit_c", SIMULATED_C)), "of the simulated card"
    if device.kind == "cpu":
        return None, "a processor guards itself"
    if (found := nvml.facts(device).get("temperature_limit_c.slowdown")) is not None:
        return float(found), "by NVML"
    if (found := drm.critical_c(device, FileTree())) is not None:
        return found, "the critical temperature by hwmon"
    if (found := amd_smi.critical_c(device)) is not None:
        return found, "the critical temperature by AMD SMI"
    return None, "neither NVML nor hwmon nor AMD SMI tells it"


def held(sources: Sequence[SensorSource], time_s: float, harmless: int) -> list[str]:
    """Names of the reasons that hold the clock now, but for those in the mask `harmless`; empty where no sensor tells."""
    for source in sources:
        for reading in source.read(time_s):
            if reading.sensor == "throttle" and reading.value is not None:
                mask = int(reading.value) & ~harmless
                return [name for bit, name in THROTTLE.items() if mask & bit]
    return []
