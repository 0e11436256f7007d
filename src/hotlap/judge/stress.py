"""The verdict of a stress run: per device what was done, what was wrong and why it was not faster; and one for all of them."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from hotlap.errors import InputError
from hotlap.record import Finding, Readings, Run, State
from hotlap.stats import series
from hotlap.work.stress import Happened, Line, Mismatch, Tick

HARMLESS = 0x1 | 0x2 | 0x10 | 0x100
CATALOGUE = Path(__file__).parent / "catalogue.toml"
KEYS = {"meaning", "severity", "action", "source"}
BEHIND = 0.05  # of the peers' median throughput: worth a word
TREND = 0.02  # loss of throughput over the run that is worth a word
STEADY_C = 0.5  # change over the last third that is still steady
AT_LIMIT = 0.95  # of the power limit: reached
FROZEN_S = 20.0  # the same value to the last bit for so long under load
PLAUSIBLE = {"temperature_c": (-20.0, 150.0), "power_w": (0.0, 5000.0), "clock_hz.sm": (0.0, 1e10)}
COUNTERS = {
    "ecc_uncorrected": "ecc.uncorrected",
    "ecc_corrected": "ecc.corrected",
    "remapped_rows": "ecc.remapped",
    "pcie_replays": "link.replays",
}

RISING = {
    "ecc_corrected": "corrected memory errors",
    "ecc_uncorrected": "uncorrected memory errors",
    "remapped_rows": "memory rows remapped",
    "pcie_replays": "link errors",
}


@dataclass(frozen=True)
class Budgets:
    """What a run may have of each before it fails."""

    errors: int = 0
    corrected: float = 100.0  # corrected memory errors
    replays: float = 1000.0
    throttled: float = 0.05  # share of the time throttled by anything but the power limit
    slope: float = 0.05  # loss of throughput over the run


@dataclass(frozen=True)
class DeviceVerdict:
    """One device. `causes` are slugs, the first decides."""

    device: str
    state: State
    causes: list[str]
    findings: list[Finding]
    figures: dict[str, float] = field(default_factory=dict)
    throttling: dict[str, float] = field(default_factory=dict)  # reason → share of the time
    dtypes: dict[str, float] = field(default_factory=dict)  # share of flips that the checksum alone sees
    reached: str = ""
    wrong: list[Mismatch] = field(default_factory=list)


@dataclass(frozen=True)
class StressVerdict:
    run: str
    state: State
    reason: str
    devices: list[DeviceVerdict]


def catalogue(path: Path | None = None) -> dict[str, dict[str, dict[str, str]]]:
    """Xid, ECC, throttle and link codes: meaning, severity, action, source. A user's file adds to it and overrides. Raises InputError."""
    found = tomllib.loads(CATALOGUE.read_text("utf-8"))
    if path is not None:
        try:
            own = tomllib.loads(path.read_text("utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"the catalogue '{path}' cannot be read: {error}") from None
        for group, codes in own.items():
            if group not in found or not isinstance(codes, dict):
                raise InputError(f"{path}: there is no group '{group}'; valid: {', '.join(sorted(found))}")
            for code, entry in codes.items():
                if not isinstance(entry, dict) or set(entry) - KEYS or entry.get("severity", "error") not in ("info", "warning", "error"):
                    raise InputError(f"{path}: [{group}.{code}] takes {', '.join(sorted(KEYS))}; severity is info, warning or error")
                found[group][code] = {**found[group].get(code, {}), **entry}
    return found


def judge(
    run: Run, lines: Sequence[Line], readings: Sequence[Readings], budgets: Budgets = Budgets(), own: Path | None = None
) -> StressVerdict:
    """Fail where a device erred, lost ground or stopped; inconclusive where too little was done; pass only for work that was checked."""
    codes = catalogue(own)
    devices = [_device(run, key, [x for x in lines if x.device == key], readings, (budgets, codes)) for key in run.devices]
    devices = _peers(devices)
    states = [one.state for one in devices]
    state: State = "fail" if "fail" in states else "inconclusive" if "inconclusive" in states or not states else "pass"
    causes = list(dict.fromkeys(cause for one in devices if one.state == state for cause in one.causes))
    reason = ", ".join(causes) if causes else f"{len(devices)} device{'s' * (len(devices) > 1)} did checked work without an error"
    return StressVerdict(run.id, state, reason, devices)


class _Findings:
    """Causes in the making."""

    def __init__(self, codes: dict[str, dict[str, dict[str, str]]]) -> None:
        self.codes, self.found, self.failed, self.open = codes, list[tuple[str, Finding]](), list[str](), list[str]()

    def add(self, cause: str, detail: str, level: Literal["fail", "open", "note"] = "fail", action: str = "") -> None:
        severity: Literal["info", "warning", "error"] = "error" if level == "fail" else "warning" if level == "open" else "info"
        self.found.append((cause, Finding(title=cause, detail=detail, severity=severity, action=action)))
        if level == "fail":
            self.failed.append(cause)
        if level == "open":
            self.open.append(cause)

    def coded(self, group: str, code: str, cause: str, detail: str) -> None:
        entry = self.codes[group].get(
            code, {"meaning": "not in the catalogue", "severity": "error", "action": "see the driver's log", "source": ""}
        )
        level: Literal["fail", "note"] = "fail" if entry["severity"] == "error" else "note"
        self.add(cause, f"{detail}: {entry['meaning']}", level, entry["action"])


def _device(
    run: Run, key: str, lines: Sequence[Line], readings: Sequence[Readings], how: tuple[Budgets, dict[str, dict[str, dict[str, str]]]]
) -> DeviceVerdict:
    budgets, codes = how
    ticks = [x for x in lines if isinstance(x, Tick)]
    wrong = [x for x in lines if isinstance(x, Mismatch)]
    events = [x for x in lines if isinstance(x, Happened)]
    shown = _columns(key, readings)
    found = _Findings(codes)
    figures = _figures(run, key, ticks, shown)
    if len(wrong) > budgets.errors:
        first = wrong[0]
        kinds = "permanent" if any(x.kind == "permanent" for x in wrong) else "transient"
        what = f"{len(wrong)} wrong results; the first in {first.unit}, {first.place}: expected {first.expected}, got {first.got}"
        found.add(f"wrong results ({kinds})", what, action="take the device out of service; repeat on another slot to tell card from host")
    _events(events, found)
    _counters(shown, found, budgets)
    throttling = _throttling(shown)
    _throttled(throttling, found, budgets)
    _sensors(shown, figures, found)
    _course(ticks, shown, figures, found, budgets)
    if not figures["checked"]:
        found.add("no checked work", "no unit of work was done and checked: that is never a pass", "open", "see what did not run, above")
    elif run.ended == "" or (not any(x.what == "ended" for x in events) and not found.failed):
        found.add(
            "not finished",
            "the run did not come to its end: killed, interrupted, or the disk was full",
            "open",
            f"hotlap stress --resume {run.id}",
        )
    state: State = "fail" if found.failed else "inconclusive" if found.open else "pass"
    causes = found.failed if found.failed else found.open
    cover = {x.detail.removeprefix("products "): x.numbers.get("covered", math.nan) for x in events if x.what == "coverage"}
    reached = _reached(figures, throttling, run, key)
    return DeviceVerdict(
        key, state, list(dict.fromkeys(causes)), [one for _, one in found.found], figures, throttling, cover, reached, wrong[:20]
    )


LATE = 1 / 3  # of a run: what holds the clock down at its end
Columns = dict[str, tuple[np.ndarray, np.ndarray]]  # sensor → times, values; NaN where a reading failed


def _columns(key: str, readings: Sequence[Readings]) -> Columns:
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


def _figures(run: Run, key: str, ticks: Sequence[Tick], shown: Columns) -> dict[str, float]:
    """Work done and checked, rates, power and temperature. A rate is of ticks of one process that follow each other."""
    found = {
        "units": float(sum(x.units for x in ticks)), "checked": float(sum(x.checked for x in ticks)), "flop": sum(x.flop for x in ticks),
        "moved_bytes": sum(x.moved_bytes for x in ticks), "busy_s": sum(x.busy_s for x in ticks), "check_s": sum(x.check_s for x in ticks),
    }  # fmt: skip
    found["seconds"] = sum(b.time_s - a.time_s for a, b in itertools.pairwise(ticks) if a.attempt == b.attempt)
    rates = _rates(ticks)
    if len(rates):
        found["flops.peak"], found["flops.sustained"] = float(rates[:, 1].max()), float(np.median(rates[len(rates) // 2 :, 1]))
    for sensor, name in (("power_w", "power_w"), ("temperature_c", "temperature_c"), ("clock_hz.sm", "clock_hz")):
        if sensor in shown and np.isfinite(shown[sensor][1]).any():
            values = shown[sensor][1][np.isfinite(shown[sensor][1])]
            found[f"{name}.peak"], found[f"{name}.average"] = float(values.max()), float(values.mean())
    return found


def _rates(ticks: Sequence[Tick]) -> np.ndarray:
    """Rows of time and FLOP a second while busy, of ticks with products."""
    rows = [(x.time_s, x.flop / x.busy_s) for x in ticks if x.flop and x.busy_s > 0]
    return np.array(rows).reshape(-1, 2)


def _events(events: Sequence[Happened], found: _Findings) -> None:
    for x in events:
        if x.what == "lost":
            found.add("device lost", x.detail, action="look for Xid 79 in the kernel's log; reseat the card, power the node off and on")
        elif x.what == "hung":
            found.add("hung", x.detail, action="reset the device; look for Xid 8, 109 or 119 in the kernel's log")
        elif x.what == "died":
            found.add(
                "process died", f"{x.detail}; it was started again", action="look for the kernel's out-of-memory killer and driver errors"
            )
        elif x.what == "limit":
            own = bool(x.numbers.get("slowdown"))
            cause = "too hot" if own else "limit asked was reached"
            found.add(
                cause,
                x.detail,
                "fail" if own else "open",
                "look at airflow, fan and thermal contact" if own else "raise the limit, or lower the load",
            )
        elif x.what == "suspended":
            found.add("suspended", x.detail, "open", "keep the machine awake: systemd-inhibit")
        elif x.what == "clock_jump":
            found.add("clock changed", f"{x.detail}; Hotlap's times are monotonic and not moved by it", "note")
        elif x.what in ("not_run", "sensors"):
            found.add("left out", x.detail, "note")


def _counters(shown: Columns, found: _Findings, budgets: Budgets) -> None:
    for sensor, code in COUNTERS.items():
        rise = _rise(shown, sensor)
        if not rise:
            continue
        group, _, name = code.partition(".")
        allowed = {"ecc_corrected": budgets.corrected, "pcie_replays": budgets.replays}.get(sensor, 0.0)
        if rise > allowed:
            found.coded(group, name, RISING[sensor], f"{rise:.0f} during the run")
    if "xid" in shown:
        values = shown["xid"][1]
        for number in sorted({int(v) for v in values[np.isfinite(values)] if v > 0}):
            found.coded("xid", str(number), f"Xid {number}", "reported by the driver")
    if "pcie_width" in shown:
        values = shown["pcie_width"][1][np.isfinite(shown["pcie_width"][1])]
        if len(values) and values.min() < values.max():
            found.add(
                "link narrowed", f"from {values.max():.0f} to {values.min():.0f} lanes during the run", action="reseat card and riser"
            )
    if "fan" in shown:
        values = shown["fan"][1][np.isfinite(shown["fan"][1])]
        if len(values) and values[-1] <= 0.01 < values.max():
            found.add("fan stopped", f"from {values.max():.0%} to {values[-1]:.0%}", action="replace the fan")


def _rise(shown: Columns, sensor: str) -> float:
    if sensor not in shown:
        return 0.0
    values = shown[sensor][1][np.isfinite(shown[sensor][1])]
    return float(values.max() - values[0]) if len(values) else 0.0


REASONS = {
    0x1: "idle", 0x2: "application clocks", 0x4: "software power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal", 0x40: "hardware thermal", 0x80: "hardware power brake", 0x100: "display clocks",
}  # fmt: skip


def _throttling(shown: Columns, last: float = 1.0) -> dict[str, float]:
    """Reason → share of readings in which its bit was set; bits are tested one by one. `last`: only of this share of them, the latest."""
    if "throttle" not in shown:
        return {}
    values = shown["throttle"][1]
    values = values[len(values) - round(last * len(values)) :]
    masks = values[np.isfinite(values)].astype(int)
    shares = {name: float(np.mean(masks & bit != 0)) for bit, name in REASONS.items()} if len(masks) else {}
    return {name: share for name, share in shares.items() if share}


def _throttled(throttling: dict[str, float], found: _Findings, budgets: Budgets) -> None:
    for name, share in throttling.items():
        entry = found.codes["throttle"][name.replace(" ", "_")]
        if share > budgets.throttled and entry["severity"] == "error":
            found.add(f"throttled: {name}", f"{share:.0%} of the time: {entry['meaning']}", action=entry["action"])
        elif share > budgets.throttled and entry["severity"] == "warning":
            found.add(f"throttled: {name}", f"{share:.0%} of the time: {entry['meaning']}", "note", entry["action"])


def _sensors(shown: Columns, figures: dict[str, float], found: _Findings) -> None:
    """Sensors that are silent, stand still or show nonsense: then what they would have shown is not known."""
    for sensor, (times, values) in shown.items():
        good = values[np.isfinite(values)]
        if not len(good):
            found.add(
                f"dead sensor: {sensor}", "it gave no answer during the whole run", "open", "restart the driver's daemon; see the log"
            )
            continue
        if np.isnan(values[-max(5, len(values) // 20) :]).all() and len(values) > 20:
            found.add(
                f"lost sensor: {sensor}", f"no answer since {times[np.isfinite(values)][-1]:.0f} s", "open", "restart the driver's daemon"
            )
        low, high = PLAUSIBLE.get(sensor, (-math.inf, math.inf))
        if (bad := good[(good < low) | (good > high)]).size:
            found.add(
                f"nonsense from sensor: {sensor}", f"{bad[0]:g} is not plausible ({low:g} to {high:g})", "open", "read it from the BMC"
            )
        elif sensor in ("power_w", "temperature_c") and _frozen(times, values):
            found.add(
                f"frozen sensor: {sensor}",
                f"exactly {good[-1]:g} for the last {FROZEN_S:g} s and longer, after it had moved",
                "open",
                "read it from the BMC",
            )


def _frozen(times: np.ndarray, values: np.ndarray) -> bool:
    """The same to the last bit at the end, after it had moved; whole numbers are what coarse sensors show."""
    last, moved = values[-1], np.flatnonzero(values != values[-1])
    if not np.isfinite(last) or last == int(last) or not len(moved):
        return False
    return bool(times[-1] - times[moved[-1]] > FROZEN_S and len(np.unique(values[: moved[-1] + 1])) > 5)


def _course(ticks: Sequence[Tick], shown: Columns, figures: dict[str, float], found: _Findings, budgets: Budgets) -> None:
    """Throughput over time and against the clock, and whether temperature came to rest."""
    rates = _rates(ticks)
    if len(rates) >= 6:
        blocks = rates[: len(rates) // 6 * 6, 1].reshape(6, -1).mean(axis=1) if len(rates) >= 12 else rates[:, 1]
        change = series.drift(blocks)
        figures["throughput.slope"] = change
        if change < -budgets.slope:
            clock = _change(shown, "clock_hz.sm")
            free = not any(share > budgets.throttled and name != "idle" for name, share in _throttling(shown, LATE).items())
            if clock < -budgets.slope and free:
                found.add(
                    "clock stuck low",
                    f"clock {clock:+.1%} over the run without a reason of throttling",
                    action="reset the device; look at locked clocks",
                )
            else:
                found.add("throughput falls", f"{change:+.1%} over the run (Theil–Sen)", action="look at temperature and clocks over time")
    if "temperature_c" in shown:
        values = shown["temperature_c"][1][np.isfinite(shown["temperature_c"][1])]
        last = values[len(values) * 2 // 3 :]
        if len(last) >= 12:
            parts = np.array([part.mean() for part in np.array_split(last, 12)])
            rise = series.drift(parts + 273.15) * float(np.median(parts) + 273.15)
            figures["temperature_c.rise"] = rise
            figures["thermal.steady"] = float(abs(rise) <= STEADY_C)


def _change(shown: Columns, sensor: str) -> float:
    if sensor not in shown:
        return 0.0
    values = shown[sensor][1][np.isfinite(shown[sensor][1])]
    if len(values) < 6:
        return 0.0
    fifth = max(1, len(values) // 5)
    return float(np.median(values[-fifth:]) / np.median(values[:fifth]) - 1) if np.median(values[:fifth]) else 0.0


def _reached(figures: dict[str, float], throttling: dict[str, float], run: Run, key: str) -> str:
    """Whether the limit was truly reached, or what held the device back."""
    device = next((d for d in run.machine.devices if d.key == key), None)
    nvml = device.facts.get("nvml", {}) if device else {}
    limit = float(nvml.get("power_limit_w", 0.0)) if isinstance(nvml, dict) else 0.0
    peak = figures.get("power_w.peak")
    if throttling.get("software power cap", 0.0) > 0.05:
        return f"the power limit was reached: power cap in {throttling['software power cap']:.0%} of readings"
    if peak is None:
        return "not known whether a limit was reached: no power sensor"
    if limit and peak >= AT_LIMIT * limit:
        return f"the power limit was reached: {peak:.0f} of {limit:.0f} W"
    if limit:
        return f"the power limit was not reached: {peak:.0f} of {limit:.0f} W"
    return f"not known whether the power limit was reached ({peak:.0f} W peak): no limit is known"


def _peers(devices: list[DeviceVerdict]) -> list[DeviceVerdict]:
    """A device behind the median of the node's others fails."""
    rates = {one.device: one.figures.get("flops.sustained", math.nan) for one in devices}
    if sum(math.isfinite(x) for x in rates.values()) < 3:
        return devices
    found: list[DeviceVerdict] = []
    for one in devices:
        others = float(np.nanmedian([x for key, x in rates.items() if key != one.device]))
        share = rates[one.device] / others if others else math.nan
        if share < 1 - BEHIND:
            what = Finding(
                title="behind its peers",
                detail=f"{1 - share:.1%} under the median of the others",
                severity="error",
                action="audit its settings against theirs",
            )
            causes = [*(one.causes if one.state == "fail" else []), "behind its peers"]
            one = replace(one, state="fail", causes=causes, findings=[*one.findings, what])
        found.append(one)
    return found
