"""What the sensors of a device say of a stress run: counters that rise, throttling by cause, heat, sensors that lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from hotlap.core.analysis.catalogue import Budgets, Findings
from hotlap.core.record import Readings
from hotlap.core.stats import series
from hotlap.core.store import chunks
from hotlap.core.units import percent, show


class Load(Protocol):
    """What a device did at one time, beside what its sensors said then."""

    @property
    def time_s(self) -> float: ...  # device's clock
    @property
    def unit(self) -> str: ...  # the kind of work that ran last
    @property
    def shown(self) -> Mapping[str, float]: ...  # sensor → value


STEADY_C = 0.5  # change over the last third that is still steady
STEADY_S = 60.0  # that this third lasts at least: less says nothing of where heat comes to rest
FROZEN_S = 20.0  # the same value to the last bit for so long
MOVED = 0.1  # by which the load moved meanwhile, so that a sensor of it should have
COUNTED = 0.05  # by which power and the energy counter may differ
PLAUSIBLE = {"temperature_c": (-20.0, 150.0), "power_w": (0.0, 5000.0), "clock_hz.sm": (0.0, 1e10)}
RISING = {  # counter: group and code of the catalogue, what it is called, and the budget for its rise during the run
    "ecc_corrected": ("ecc", "corrected", "corrected memory errors", "ecc_corrected"),
    "ecc_uncorrected": ("ecc", "uncorrected", "uncorrected memory errors", "ecc_uncorrected"),
    "remapped_rows": ("ecc", "remapped", "memory rows remapped", "remapped_rows"),
    "retired_pages": ("ecc", "retired", "memory pages retired", "remapped_rows"),
    "pcie_replays": ("link", "replays", "link errors", "pcie_errors"),
    "pcie_errors.correctable": ("link", "pcie_correctable", "link errors corrected", "pcie_errors"),
    "pcie_errors.nonfatal": ("link", "pcie_uncorrectable", "link errors not corrected", ""),
    "pcie_errors.fatal": ("link", "pcie_uncorrectable", "link errors not corrected", ""),
    "nvlink_errors.crc": ("link", "nvlink", "NVLink errors", "nvlink_errors"),
    "nvlink_errors.replay": ("link", "nvlink", "NVLink replays", "nvlink_errors"),
    "nvlink_errors.receive": ("link", "nvlink", "NVLink errors at the receiver", "nvlink_errors"),
    "nvlink_errors.effective": ("link", "nvlink", "NVLink errors behind its error correction", "nvlink_errors"),
    "nvlink_errors.recovery": ("link", "nvlink_recovery", "NVLink trained anew", ""),
    "nvlink_errors.recovery_failed": ("link", "nvlink_recovery", "NVLink lost", ""),
}
STANDING = {  # flag: group and code, what it is called, and whether it fails a run that began with it, or only leaves it open
    "remapped_rows.pending": ("ecc", "pending", "memory rows wait for a reset", False),
    "retired_pages.pending": ("ecc", "retired_pending", "memory pages wait for a reboot", False),
    "remapped_rows.failure": ("ecc", "remap_failure", "memory rows not remapped", True),
}
HELD = "throttle_s."  # counters of time with the clock held, by cause
HELD_BY = (
    "software_power_cap", "thermal", "sync_boost", "board_limit", "reliability", "software_thermal", "hardware_thermal",
    "hardware_power_brake",
)  # fmt: skip
REMAPPED_XID = 63
OVERCOUNTED = 1.05  # of the time: a counter that shows more does not count seconds

JUDGED = (
    *PLAUSIBLE, *RISING, *STANDING, *(f"{HELD}{cause}" for cause in HELD_BY), "throttle", "xid", "pcie_width", "fan", "power_limit_w",
    "energy_j", "processes",
)  # fmt: skip
SILENT_S, SILENT_STEPS = 10.0, 20  # without a reading, by time and by the sensor's usual interval: it stopped sending
LATE = 1 / 3  # of a run: what holds the clock down at its end
Columns = dict[str, tuple[np.ndarray, np.ndarray]]  # sensor → times, values; NaN where a reading failed


def columns(key: str, readings: Sequence[Readings]) -> Columns:
    parts: dict[str, list[Readings]] = {}
    for one in readings:
        if one.status != "not_supported" and (one.device == key):
            parts.setdefault(one.sensor, []).append(one)
    return {
        name: (
            np.array([t for one in some for t in one.times_s], float),
            np.array([math.nan if v is None else v for one in some for v in one.values], float),
        )
        for name, some in parts.items()
    }  # fmt: skip


def exact(path: Path, key: str, readings: Sequence[Readings]) -> Columns:
    """The same of a run whose readings were compacted: every reading of the sensors that are judged, not the means of stretches, in which
    a bit of throttling or a single code would be lost. `readings`: as the bundle was loaded."""
    if not chunks.stored(path):
        return columns(key, readings)
    rest, dumb = columns(key, readings), columns(key, chunks.failed(path))
    exact_columns: Columns = {}
    for sensor in JUDGED:
        kept = chunks.series(path, key, sensor)
        times, values = rest.get(sensor, (np.zeros(0), np.zeros(0)))
        later = times > (kept.times_s[-1] if len(kept.times_s) else -math.inf)  # what was not compacted yet
        if len(kept.times_s) or later.any():
            exact_columns[sensor] = np.concatenate([kept.times_s, times[later]]), np.concatenate([kept.values, values[later]])
        elif sensor in dumb:
            exact_columns[sensor] = dumb[sensor]
    return exact_columns


def counters(shown: Columns, findings: Findings, budgets: Budgets) -> None:
    """Counters that rose beyond their budgets, flags that stand, codes that were reported, lanes and fans that are gone."""
    for sensor, (group, code, cause, budget) in RISING.items():
        rise, may = _rise(shown, sensor), float(getattr(budgets, budget)) if budget else 0.0
        if rise > may:
            findings.coded(group, code, cause, f"{rise:.0f} during the run, {may:.0f} allowed")
        elif rise > 0:
            findings.allow(f"{cause}: {rise:.0f} during the run, of at most {may:.0f}")
    for sensor, (group, code, cause, fails) in STANDING.items():
        values = _good(shown, sensor)
        if len(values) and values.max() > 0:
            late = _rise(shown, sensor) > 0
            detail = "since the run" if late else "from before the run"
            if late or fails:
                findings.coded(group, code, cause, detail)
            else:
                entry = findings.codes[group][code]
                findings.add(cause, f"{detail}: {entry['meaning']}", "open", entry["action"])
    if "xid" in shown:
        values = shown["xid"][1]
        for number in sorted({int(v) for v in values[np.isfinite(values)] if v > 0}):
            if number == REMAPPED_XID and budgets.remapped_rows < 1:  # the same event as a row in the counter
                entry = findings.codes["xid"].get(str(number), {"meaning": "", "action": ""})
                findings.add(f"Xid {number}", f"reported by the driver, 0 rows allowed: {entry['meaning']}", action=entry["action"])
                continue
            findings.coded("xid", str(number), f"Xid {number}", "reported by the driver")
    if "pcie_width" in shown:
        values = shown["pcie_width"][1][np.isfinite(shown["pcie_width"][1])]
        if len(values) and values.min() < values.max():
            findings.add(
                "link narrowed", f"from {values.max():.0f} to {values.min():.0f} lanes during the run", action="reseat card and riser"
            )
    if "fan" in shown:
        values = shown["fan"][1][np.isfinite(shown["fan"][1])]
        if len(values) and values[-1] <= 0.01 < values.max():
            findings.add("fan stopped", f"from {100 * values.max():.0f} % to {100 * values[-1]:.0f} %", action="replace the fan")


def plausible(shown: Columns, sensor: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of the readings that succeeded and can be."""
    times, values = shown.get(sensor, (np.zeros(0), np.zeros(0)))
    low, high = PLAUSIBLE.get(sensor, (-math.inf, math.inf))
    good = np.isfinite(values)
    good[good] &= (values[good] >= low) & (values[good] <= high)
    return times[good], values[good]


def _good(shown: Columns, sensor: str) -> np.ndarray:
    values = shown[sensor][1] if sensor in shown else np.zeros(0)
    return values[np.isfinite(values)]


def _rise(shown: Columns, sensor: str) -> float:
    """By how much a counter rose during the run; one that was reset meanwhile goes on from there."""
    steps = np.diff(_good(shown, sensor))
    return float(steps[steps > 0].sum())


REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
}  # fmt: skip


def throttling(shown: Columns, last: float = 1.0) -> dict[str, float]:
    """Reason → share of the time that it held the clock: by the driver's counter of seconds where there is one that moved, which misses
    nothing; else the share of readings in which its bit was set, bits tested one by one. `last`: only of this share, the latest."""
    return {**_sampled(shown, last), **counted(shown, last)}


def _sampled(shown: Columns, last: float) -> dict[str, float]:
    if "throttle" not in shown:
        return {}
    values = shown["throttle"][1]
    values = values[len(values) - round(last * len(values)) :]
    masks = values[np.isfinite(values)].astype(int)
    shares = {name: float(np.mean(masks & bit != 0)) for bit, name in REASONS.items()} if len(masks) else {}
    return {name: share for name, share in shares.items() if share}


def counted(shown: Columns, last: float = 1.0) -> dict[str, float]:
    """Reason → share of the time by its counter of seconds; those that did not move are left out, and the sum over all heat where driver
    or hardware are counted apart."""
    counts: dict[str, float] = {}
    for cause in HELD_BY:
        times, values = shown.get(f"{HELD}{cause}", (np.zeros(0), np.zeros(0)))
        good = np.isfinite(values)
        if good.sum() < 2:
            continue
        times, values = times[good], values[good]
        late = times >= times[-1] - last * (times[-1] - times[0])
        steps, span_s = np.diff(values[late]), float(np.ptp(times[late]))
        share = float(steps[steps > 0].sum()) / span_s if span_s > 0 else 0.0
        if 0 < share <= OVERCOUNTED:
            counts[cause.replace("_", " ")] = min(share, 1.0)
    if {"software thermal", "hardware thermal"} & set(counts):
        counts.pop("thermal", None)
    return counts


def throttled(throttling: dict[str, float], findings: Findings, budgets: Budgets) -> None:
    for name, share in throttling.items():
        entry = findings.codes["throttle"][name.replace(" ", "_")]
        if share > budgets.throttle and entry["severity"] == "error":
            findings.add(f"throttled: {name}", f"{percent(share)} of the time: {entry['meaning']}", action=entry["action"])
        elif share > budgets.throttle and entry["severity"] == "warning":
            findings.add(f"throttled: {name}", f"{percent(share)} of the time: {entry['meaning']}", "note", entry["action"])
        elif share > Budgets().throttle and entry["severity"] == "error":  # more than is allowed unless asked
            findings.allow(f"throttled, {name}: {percent(share)} of the time, of at most {percent(budgets.throttle)}")


def sensors(shown: Columns, findings: Findings, ticks: Sequence[Load] = ()) -> None:
    """Sensors that are silent, stand still while their card does not, or show nonsense: what they would have shown is not known."""
    end_s = max((times[-1] for times, _ in shown.values() if len(times)), default=0.0)
    for sensor, (times, values) in shown.items():
        if len(times) >= SILENT_STEPS and end_s - times[-1] > max(SILENT_S, SILENT_STEPS * float(np.median(np.diff(times)))):
            silent = f"no reading after {times[-1] - times[0]:.0f} s, while others went on for {end_s - times[-1]:.0f} s more"
            findings.add("lost sensor", silent, "open", "restart the driver's daemon; see the log", sensor)
            continue
        good = values[np.isfinite(values)]
        if not len(good):
            silent = "it gave no answer during the whole run"
            findings.add("dead sensor", silent, "open", "restart the driver's daemon; see the log", sensor)
            continue
        if np.isnan(values[-max(5, len(values) // 20) :]).all() and len(values) > 20:
            silent = f"no answer since {times[np.isfinite(values)][-1]:.0f} s"
            findings.add("lost sensor", silent, "open", "restart the driver's daemon", sensor)
        low, high = PLAUSIBLE.get(sensor, (-math.inf, math.inf))
        if (bad := good[(good < low) | (good > high)]).size:
            nonsense = f"{bad[0]:g} is not plausible ({low:g} to {high:g})"
            findings.add("nonsense from sensor", nonsense, "open", "read it from the BMC", sensor)
        elif sensor in ("power_w", "temperature_c"):
            _frozen(sensor, shown, ticks, findings)


def _frozen(sensor: str, shown: Columns, ticks: Sequence[Load], findings: Findings) -> None:
    times, values = shown[sensor]
    began_s = _still(times, values)
    moved = "" if began_s is None else _moved(sensor, began_s, shown, ticks)
    if began_s is not None and moved:
        what = f"exactly {values[-1]:g} for the last {times[-1] - began_s:.0f} s, after it had moved, while {moved}"
        findings.add("frozen sensor", what, "open", "read it from the BMC", sensor)


def _still(times: np.ndarray, values: np.ndarray) -> float | None:
    """Since when a sensor has shown the same to the last bit, after it had moved; whole numbers are what coarse sensors show."""
    last, moved = values[-1], np.flatnonzero(values != values[-1])
    if not np.isfinite(last) or last == int(last) or not len(moved):
        return None
    return float(times[moved[-1]]) if times[-1] - times[moved[-1]] > FROZEN_S else None


def _moved(sensor: str, began_s: float, shown: Columns, ticks: Sequence[Load]) -> str:
    """What else moved meanwhile, so that this sensor should have; "" where nothing did: a constant load has constant readings."""
    power = sensor == "power_w"
    for other, unit, limit in (("clock_hz.sm", "Hz", MOVED / 2),) if power else (("power_w", "W", MOVED),):
        times, values = plausible(shown, other)
        late = values[times > began_s]
        if len(late) > 20 and (high := float(np.percentile(late, 95))) - (low := float(np.percentile(late, 5))) > limit * abs(high):
            return f"{other} moved between {show(low, unit)} and {show(high, unit)}"
    times, joules = plausible(shown, "energy_j")
    late = times > began_s
    steps, spans = np.diff(joules[late]), np.diff(times[late])
    whole = (steps >= 0) & (spans > 0)  # a counter that began anew, with the process, goes on from there
    if power and whole.any():
        watts = float(steps[whole].sum() / spans[whole].sum())
        stands = float(shown[sensor][1][-1])
        if stands > 0 and abs(watts / stands - 1) > COUNTED:
            return f"the energy counter rose by {watts:.0f} W"
    drew: dict[str, list[float]] = {}
    for tick in ticks:
        if tick.time_s <= began_s and "power_w" in tick.shown:
            drew.setdefault(tick.unit, []).append(tick.shown["power_w"])
    ran = {tick.unit for tick in ticks if tick.time_s > began_s + 1.0} & set(drew)
    typical = {unit: float(np.median(drew[unit])) for unit in ran}
    if len(typical) > 1 and (most := max(typical.values())) - (least := min(typical.values())) > MOVED * most:
        return f"units ran that had drawn {least:.0f} and {most:.0f} W"
    return ""


def change(shown: Columns, sensor: str) -> float:
    if sensor not in shown:
        return 0.0
    values = shown[sensor][1][np.isfinite(shown[sensor][1])]
    if len(values) < 6:
        return 0.0
    fifth = max(1, len(values) // 5)
    return float(np.median(values[-fifth:]) / np.median(values[:fifth]) - 1) if np.median(values[:fifth]) else 0.0


def heat(shown: Columns, figures: dict[str, float]) -> None:
    """Whether temperature came to rest, and by how much it still moved."""
    times, values = plausible(shown, "temperature_c")
    last = values[len(values) * 2 // 3 :]
    if len(last) >= 12 and float(np.ptp(times)) / 3 >= STEADY_S:
        parts = np.array([part.mean() for part in np.array_split(last, 12)])
        rise = series.drift(parts + 273.15) * float(np.median(parts) + 273.15)
        figures["temperature_c.rise"] = rise
        figures["thermal.steady"] = float(abs(rise) <= STEADY_C)
