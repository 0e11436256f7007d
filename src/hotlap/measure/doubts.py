"""Doubts that sensors raise about a case: throttling, a low clock, a device that others use too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hotlap.record import Device, Flag, Readings, Samples
from hotlap.sensors.base import HARMLESS, THROTTLE

LOW_CLOCK = 0.97  # of the highest the device can reach
PRESSURE = 0.25  # share of the time in which some task waited for a processor


def doubts(samples: Samples, readings: Sequence[Readings], device: Device) -> list[Flag]:
    """Flags from the readings taken while the samples were."""
    window = {r.sensor: values for r in readings if len(values := _within(r, samples.began_s, samples.ended_s))}
    flags = []
    bits = 0
    for value in window.get("throttle", np.zeros(0)):
        bits |= int(value)
    names = [name for bit, name in THROTTLE.items() if bits & bit & ~HARMLESS]
    if names:
        flags.append(Flag(name="throttled", detail=f"held back by {', '.join(names)}"))
    clocks = window.get("clock_hz.sm")
    if clocks is not None and device.clock_max_hz and float(np.median(clocks)) < LOW_CLOCK * device.clock_max_hz:
        share = float(np.median(clocks)) / device.clock_max_hz
        flags.append(Flag(name="low_clock", detail=f"median clock {np.median(clocks) / 1e9:.2f} GHz, {share:.0%} of its maximum"))
    others = window.get("processes")
    if others is not None and others.max() > 0:
        flags.append(Flag(name="shared_device", detail=f"{int(others.max())} other processes on the device"))
    pressure = window.get("pressure")
    if device.kind == "cpu" and pressure is not None and float(np.median(pressure)) > PRESSURE:
        flags.append(Flag(name="shared_device", detail=f"tasks waited for a processor {np.median(pressure):.0%} of the time"))
    return flags


def _within(readings: Readings, began_s: float, ended_s: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    pairs = zip(readings.times_s, readings.values, strict=True)
    return np.array([v for t, v in pairs if v is not None and began_s <= t <= ended_s], np.float64)
