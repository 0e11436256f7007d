"""Faults of a simulated card as its sensors and its process show them."""

from __future__ import annotations

import os
import signal
import time

from hotlap.core.measure.targets.faults import REASONS, Faults, Onset

AMBIENT_C = 30.0
FAN, WIDTH = 0.5, 16.0  # of a card that is well
NONSENSE = 6553.5  # what a sensor shows that reads all ones


def shown(faults: Faults, time_s: float, true: dict[str, float | None], kept: dict[str, float | None]) -> dict[str, float | None]:
    """What the sensors show of the true readings. `kept` remembers what frozen ones showed last."""
    values = dict(true)
    heat = values["temperature_c"]
    if heat is not None and faults.cooling:
        values["temperature_c"] = AMBIENT_C + (heat - AMBIENT_C) * (1 + faults.cooling)
    if _on(faults.throttle, time_s) and faults.throttle.share:
        values["throttle"] = float(REASONS[faults.reason])
    clock = values["clock_hz.sm"]
    if clock is not None:
        values["clock_hz.sm"] = clock / stuck(faults, time_s)
    values["ecc_uncorrected"] = _count(faults.ecc, time_s)
    since = max(time_s - faults.ecc_corrected.at_s, 0.0)
    values["ecc_corrected"] = float(int(faults.ecc_corrected.share * since))
    values["xid"] = _count(faults.xid, time_s)
    values["remapped_rows"] = _count(faults.remapped, time_s)
    values["pcie_replays"] = float(int(faults.replays.share * max(time_s - faults.replays.at_s, 0.0)))
    if faults.fan_speed is not None:
        values["fan"] = faults.fan_speed.share if _on(faults.fan_speed, time_s) else FAN
    narrow = faults.pcie_width
    values["pcie_width"] = narrow.share if narrow is not None and _on(narrow, time_s) else WIDTH
    values.update(_counters(faults, time_s))
    return _lies(faults, time_s, values, kept)


def _counters(faults: Faults, time_s: float) -> dict[str, float]:
    """Sensors that only a card with such a fault shows here."""
    values: dict[str, float] = {}
    flags = {"remapped_rows.pending": faults.pending, "retired_pages.pending": faults.retiring, "remapped_rows.failure": faults.spent}
    values |= {name: _count(onset, time_s) for name, onset in flags.items() if onset is not None}
    if faults.nvlink is not None:
        values["nvlink_errors.replay"] = float(int(faults.nvlink.share * max(time_s - faults.nvlink.at_s, 0.0)))
    if faults.bursts is not None:
        values[f"throttle_s.{faults.reason}"] = faults.bursts.share * max(time_s - faults.bursts.at_s, 0.0)
    return values


def _lies(faults: Faults, time_s: float, values: dict[str, float | None], kept: dict[str, float | None]) -> dict[str, float | None]:
    sensor, at_s = faults.frozen
    if sensor in values:
        if time_s < at_s or sensor not in kept:
            kept[sensor] = values[sensor]
        values[sensor] = kept[sensor]
    sensor, at_s = faults.jump
    if sensor in values and time_s >= at_s:
        values[sensor] = NONSENSE
    sensor, at_s = faults.mute
    if time_s >= at_s:
        values.pop(sensor, None)
    return values


def _on(onset: Onset, time_s: float) -> bool:
    return time_s >= onset.at_s


def _count(onset: Onset, time_s: float) -> float:
    return onset.share if onset.share and _on(onset, time_s) else 0.0


def stuck(faults: Faults, time_s: float) -> float:
    """How many times slower a clock that is stuck makes the card."""
    return 1 / (1 - faults.stuck.share) if _on(faults.stuck, time_s) else 1.0


def narrowed(faults: Faults, time_s: float, lanes: int | None) -> float:
    """How many times slower a link is that lost lanes."""
    narrow = faults.pcie_width
    if narrow is None or not _on(narrow, time_s) or narrow.share <= 0:
        return 1.0
    return max((lanes or WIDTH) / narrow.share, 1.0)


class Stutter:
    """Calls of what draws that take longer: one of every so many samples, until a round has had as many as were asked for. Batches grow
    while they are sized, and samples are of one size: only what has the size of the one before counts."""

    EVERY = 3

    def __init__(self, faults: Faults) -> None:
        self.left, self.seconds = (int(faults.stutter.share), faults.stutter.at_s) if faults.stutter else (0, 0.0)
        self.samples, self.calls = 0, 0

    def next_s(self, calls: int) -> float:
        """Seconds that the next sample, of so many calls, takes longer."""
        self.samples = self.samples + 1 if calls == self.calls else 0
        self.calls = calls
        if not self.left or not self.samples or self.samples % self.EVERY:
            return 0.0
        self.left -= 1
        return self.seconds


def strike(faults: Faults, time_s: float) -> None:
    """What befalls the process itself: a kernel that never ends, or a kill."""
    if time_s >= faults.dies:
        os.kill(os.getpid(), signal.SIGKILL)
    while time_s >= faults.hang:
        time.sleep(1.0)
