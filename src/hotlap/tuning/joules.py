"""Energy of a run, by the sensors of the GPUs that are here, or of the processor where there is none.

What a program uses of several GPUs is not known before it runs: energies of all are added. Idle power in the run's time counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hotlap.core.analysis import energy
from hotlap.core.errors import HotlapError, NotSupported, Unavailable
from hotlap.core.measure import sensors, targets
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.targets import host
from hotlap.core.measure.targets.base import SystemClock, Target
from hotlap.core.record import Device, Readings

ENERGY, TOKEN, STEP = "energy", "J/token", "J/step"
GOALS = (ENERGY, TOKEN, STEP)
PERIOD_S, SLOWEST_S = 0.1, 2.0  # of readings; a driver that takes longer for one is not waited for
TOLD = ("energy_j", "power_w")


class EnergyMeter:
    """Reads the sensors of `devices` while something runs. A window is of the system's clock."""

    def __init__(self, devices: Sequence[Device], sources: Sequence[SensorSource]) -> None:
        self.devices, self.sources = devices, sources
        self.readings: list[Readings] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        """Reads meanwhile, at the beginning and the end too; what was read before is forgotten."""
        sampler = Sampler(SystemClock(), self.sources, PERIOD_S)
        sampler.start()
        try:
            _swept(sampler)
            yield
            _swept(sampler)
        finally:
            sampler.stop()
            self.readings = sampler.drain()

    def joules(self, began_s: float, ended_s: float) -> float:
        """Of all devices. Raises NotSupported where one of them gave no energy."""
        total = 0.0
        for device in self.devices:
            spent = energy.between(self.readings, device, began_s, ended_s) if ended_s > began_s else None
            if spent is None:
                seconds = f"the {ended_s - began_s:.2g} s of the run"
                raise NotSupported(f"{device.name}: no two readings of its power or energy fall into {seconds}")
            total += spent
        return total


def _swept(sampler: Sampler) -> None:
    """Waits for a reading that is later than now."""
    before, until_s = sampler.sweeps, time.monotonic() + SLOWEST_S
    while sampler.sweeps <= before and time.monotonic() < until_s:
        time.sleep(PERIOD_S / 50)


def meter() -> EnergyMeter:
    """Of this machine. Raises Unavailable with the reason where a device has no sensor of power or energy."""
    try:
        devices = targets.find(targets.parse("cuda"))
    except HotlapError:
        devices = []
    if not devices:
        devices = [host.describe()]
    sources = [source for device in devices for source in sensors.find(host.HostTarget(device))]
    for device in devices:
        check(device, sources, 0.0)
    return EnergyMeter(devices, sources)


def check(device: Device, sources: Sequence[SensorSource], now_s: float) -> None:
    """Raises Unavailable where none of them tells its energy or power."""
    names = (device.key, "host") if device.kind == "cpu" else (device.key,)
    read = [one for source in sources if source.device in names for one in source.read(now_s) if one.sensor.split(".")[0] in TOLD]
    if any(one.value is not None for one in read):
        return
    why = "; ".join(dict.fromkeys(one.reason or one.status for one in read)) or "it has none"
    advice = "have the program print what it spends and read it by --metric, or take a machine whose sensors can be read"
    raise Unavailable(f"{device.name}: no sensor tells its energy or power: {why}", advice)


def of_target(target: Target) -> None:
    """Of the device of a plan. Raises Unavailable."""
    check(target.device, sensors.find(target), target.clock.now())
