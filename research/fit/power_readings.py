"""What a driver's power reading shows of a kernel that was timed for a second.

NVML's power reading is the mean of the last second (NVML API reference, `nvmlDeviceGetPowerUsage`: Ampere except GA100, and newer).
The collector reads it every 0.1 s while a kernel repeats for about one second, and keeps the mean (aiconfigurator, collector/helper.py).
So a reading shows half of the kernel and half of what ran before it: a 690 W kernel after a pause reads about 400 W.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels.base import Floats

WINDOW_S = 1.0  # that one reading averages over
EVERY_S = 0.1  # between readings of the collector
MOST_READINGS = 11  # of a run of one second
REPEATS_MOST, REPEATS_LEAST, TARGET_S, SHORT_CALL_S, SHORT_TARGET_S = 3000, 6, 1.0, 1e-4, 0.3  # collector/helper.py
QUIET = 8  # readings: a mean of at least so many shows it in its decimals


class Timeline(NamedTuple):
    """What the machine did around a case. Arrays of one entry per case, in seconds."""

    gap_s: Floats  # without work before the case
    before_s: Floats  # of its warm-ups, which no reading belongs to
    run_s: Floats  # of the repeats that are read


def timeline(seconds: Floats, calls: Floats, warm_ups: Floats, gap_s: Floats) -> Timeline:
    """How long a case is warmed up and repeated: `calls` kernels make one repeat."""
    repeat_s = seconds * calls
    target_s = np.where(repeat_s < SHORT_CALL_S, SHORT_TARGET_S, TARGET_S)
    repeats = np.clip(np.floor(target_s / repeat_s) + 1, REPEATS_LEAST, REPEATS_MOST)
    return Timeline(np.broadcast_to(gap_s, seconds.shape), warm_ups * repeat_s, repeats * repeat_s)


def expected_w(power_w: Floats, previous_w: Floats, waiting_w: float, when: Timeline) -> Floats:
    """The mean of the collector's readings, were the kernel to draw `power_w`, the case before it `previous_w`."""
    total, count = np.zeros_like(power_w), np.zeros_like(power_w)
    readings = np.clip(np.ceil(when.run_s / EVERY_S), 1, MOST_READINGS)
    for i in range(MOST_READINGS):
        at_s = np.where(readings < MOST_READINGS, i * EVERY_S, i * when.run_s / MOST_READINGS)
        own = np.minimum(WINDOW_S, when.before_s + at_s)
        waited = np.minimum(WINDOW_S - own, when.gap_s)
        mean = (own * power_w + waited * waiting_w + (WINDOW_S - own - waited) * previous_w) / WINDOW_S
        total, count = total + np.where(i < readings, mean, 0.0), count + (i < readings)
    return total / count


def whole(power_w: Floats) -> NDArray[np.bool_]:
    """Whether a mean is surely one of eight readings or more: no smaller count of whole milliwatts gives its decimals."""
    fewer = np.zeros(power_w.shape, dtype=np.bool_)
    for n in range(1, QUIET):
        scaled = power_w * 1e3 * n
        fewer |= np.abs(scaled - np.round(scaled)) < 1e-4
    return np.asarray(~fewer)


def once(power_w: Floats) -> NDArray[np.bool_]:
    """Whether a mean may be of one reading: whole milliwatts. So are one in ten of the means of ten readings."""
    return np.asarray(np.abs(power_w * 1e3 - np.round(power_w * 1e3)) < 1e-4)
