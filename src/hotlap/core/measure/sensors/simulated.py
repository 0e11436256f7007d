"""The sensors of a simulated GPU: what its state shows at a virtual time, with those that were asked to be dead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Reading


class ShownFaults(Protocol):
    """What the simulated target's `gpu` offers."""

    @property
    def dead(self) -> frozenset[str]:
        """Sensors that give no answer."""

    def readings(self, time_s: float) -> Mapping[str, float | None]:
        """Sensor → value; None is not supported."""


class SimulatedSource:
    """The source of a simulated GPU."""

    name = "simulated"

    def __init__(self, gpu: ShownFaults, device: str) -> None:
        self.gpu, self.device = gpu, device
        self.lost_s = float(getattr(getattr(gpu, "faults", None), "lost", math.inf))  # when it falls off the bus

    def names(self) -> Sequence[str]:
        return sorted(set(self.gpu.readings(0.0)) | self.gpu.dead)

    def read(self, time_s: float) -> list[Reading]:
        if time_s > self.lost_s:
            return [self._gone(sensor, time_s) for sensor in self.names()]
        shown: dict[str, Any] = {**dict.fromkeys(self.gpu.dead), **self.gpu.readings(time_s)}
        return [self._reading(sensor, value, time_s) for sensor, value in shown.items()]

    def _gone(self, sensor: str, time_s: float) -> Reading:
        reason = f"the GPU has fallen off the bus at {self.lost_s:g} s (injected)"
        return Reading(sensor=sensor, device=self.device, time_s=time_s, status="error", reason=reason)

    def _reading(self, sensor: str, value: float | None, time_s: float) -> Reading:
        if sensor in self.gpu.dead:
            return Reading(sensor=sensor, device=self.device, time_s=time_s, status="error", reason="no answer")
        if value is None:
            return Reading(sensor=sensor, device=self.device, time_s=time_s, status="not_supported", reason="the simulated card has none")
        return Reading(sensor=sensor, device=self.device, time_s=time_s, value=float(value), window_s=0.0)


def find(target: Target) -> list[SensorSource]:
    """The one source of a simulated target; none for any other."""
    gpu = getattr(target, "gpu", None)
    return [SimulatedSource(gpu, target.device.key)] if gpu is not None else []


def missing(target: Target) -> str:
    return "" if hasattr(target, "gpu") else "the target has no simulated GPU"
