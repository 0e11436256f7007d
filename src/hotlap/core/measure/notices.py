"""Notices that sensors raise about a case: throttling by its own load, a low clock, other processes on a GPU.

What others take of a processor is seen beside each sample (`measure.foreign`): pressure counts Hotlap's own threads too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.core.measure.sensors.base import HARMLESS, THROTTLE
from hotlap.core.record import Device, Notice, Readings, Samples
from hotlap.core.units import percent

LOW_CLOCK = 0.97  # of the highest the device can reach


def notices(samples: Samples, readings: Sequence[Readings], device: Device) -> list[Notice]:
    """Notices from the readings taken while the samples were."""
    window = {r.sensor: values for r in readings if len(values := _within(r, samples.began_s, samples.ended_s))}
    notices = []
    if held := throttle_shares(window.get("throttle", np.zeros(0))):
        said = ", ".join(f"{name} in {percent(share)} of the readings" for name, share in held.items())
        notices.append(Notice(code="throttled", seen=said, shares=held))
    clocks = window.get("clock_hz.sm")
    if clocks is not None and device.clock_max_hz and float(np.median(clocks)) < LOW_CLOCK * device.clock_max_hz:
        share = float(np.median(clocks)) / device.clock_max_hz
        notices.append(Notice(code="low_clock", seen=f"median clock {np.median(clocks) / 1e9:.2f} GHz, {percent(share)} of its maximum"))
    if (profile := device.facts.get("mig")) and any(name in window for name in ("power_w", "clock_hz.sm", "throttle")):
        notices.append(Notice(code="whole_card", seen=f"power, clock and temperature are of the whole card, not of its slice {profile}"))
    others = window.get("processes")
    if others is not None and others.max() > 0:
        count = int(others.max())
        notices.append(Notice(code="shared_device", seen=f"{count} other process{'' if count == 1 else 'es'} on the device"))
    return notices


def throttle_shares(masks: NDArray[np.float64]) -> dict[str, float]:
    """Of readings of `throttle`: reason → share of them in which it held, the most frequent first; harmless ones are left out."""
    bits = masks.astype(np.int64)
    found = {name: float(np.mean((bits & bit) != 0)) for bit, name in THROTTLE.items() if not bit & HARMLESS and len(bits)}
    return dict(sorted(((name, share) for name, share in found.items() if share), key=lambda one: -one[1]))


def _within(readings: Readings, began_s: float, ended_s: float) -> NDArray[np.float64]:
    pairs = zip(readings.times_s, readings.values, strict=True)
    return np.array([v for t, v in pairs if v is not None and began_s <= t <= ended_s], np.float64)
