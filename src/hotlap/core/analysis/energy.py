"""Energy of a call from what sensors read while a case ran, with bounds that hold whatever happened between its calls.

A case's window in a round holds its calls, and time between them that nobody timed: sizing of the batch, bookkeeping. With E the window's
energy (± its error, `stats.energy`), b the seconds of calls in it and r the rest, power while calls ran lies between (E − error − highest
power × r) ÷ b and (E + error − lowest power × r) ÷ b, for the rest drew something between the lowest power read and the card's cap (the
highest power read, where no cap is known). What is shown is E ÷ (b + r) × the time of a call, held within those bounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from hotlap.core import stand_in, work
from hotlap.core.errors import HotlapError
from hotlap.core.record import Device, Notice, Readings, Record, Row, Samples
from hotlap.core.stats import energy, order

FEWEST = 3  # readings of power outside of all cases from which an idle power is said
SENSORS = {"power_w": ("power_w",), "energy_j": ("energy_j",), "clock_hz": ("clock_hz.sm", "clock_hz"), "power_limit_w": ("power_limit_w",)}
PACKAGES = ("package", "psys", "core", "uncore", "dram", "zone-")  # of RAPL, which are no rails of a board
COARSE = 0.25  # half of the bounds as a share, from which energy is not known well enough to compare


_Sensed = Mapping[str, energy.Series]  # power_w, energy_j, clock_hz of one round


class EnergyUse(Record, frozen=True, kw_only=True):
    """Energy of one case on one device. Of a call; None where no sensor tells."""

    case: str  # Case.id
    device: str
    label: str
    joules: float | None = None  # median over rounds
    low_j: float | None = None  # bounds of what sensors allow, median over rounds
    high_j: float | None = None
    spread_low_j: float | None = None  # 95 % interval of the median over rounds; None below 6 rounds
    spread_high_j: float | None = None
    rounds: int = 0
    seconds: float | None = None  # of a call
    power_w: float | None = None  # while calls ran
    idle_w: float | None = None  # outside of all cases; None where calls drew no more
    clock_hz: float | None = None  # median of what the sensor read in the windows
    operations_per_j: float | None = None  # FLOP/s per watt
    bytes_per_j: float | None = None
    expected_j: float | None = None  # by the model
    expected_w: float | None = None
    source: str = ""  # counter, integral
    reason: str = ""  # why it is not known
    notices: list[Notice] = []


class _Round(Record, frozen=True, kw_only=True):
    joules: float
    low: float
    high: float
    seconds: float
    power_w: float
    clock_hz: float | None
    source: str
    notices: list[Notice]


def energies(rows: Sequence[Row], readings: Sequence[Readings], devices: Sequence[Device], rail: str = "") -> list[EnergyUse]:
    """Of each row; those without a number too, with the reason. `rail`: of the board, that is to be taken for what a device draws."""
    readings = _named(readings, rail) if rail else readings
    kinds = {device.key: device.kind for device in devices}
    energies_ = []
    for key in dict.fromkeys(row.device for row in rows):
        mine = [row for row in rows if row.device == key]
        rounds = {one.round for row in mine for one in row.result.rounds}  # each a process, whose counters may begin anew
        host = bool(rail) or kinds.get(key) == "cpu"
        series = {n: _series([one for one in readings if one.round == n], key, host) for n in sorted(rounds)}
        outside, missing = _outside(mine, series), _missing(readings, key)
        energies_ += [_carrying(row, _of(row, series, outside, missing)) for row in mine]
    return energies_


def rails(readings: Sequence[Readings]) -> list[str]:
    """Rails of the board and batteries whose power was read."""
    read = [one.sensor.partition(".")[2] for one in readings if one.device == "host" and one.sensor.startswith("power_w.")]
    return [name for name in dict.fromkeys(read) if not name.startswith(PACKAGES)]


def _named(readings: Sequence[Readings], rail: str) -> list[Readings]:
    """With the rail in place of every other sensor of power and energy."""
    others = [one for one in readings if one.sensor.partition(".")[0] not in ("power_w", "energy_j", "power_limit_w")]
    return [*others, *(replace(one, sensor="power_w") for one in readings if one.device == "host" and one.sensor == f"power_w.{rail}")]


def _carrying(row: Row, used: EnergyUse) -> EnergyUse:
    """With the notice of a stand-in, whose energy is the processor's."""
    return _changed(used, notices=[stand_in.NOTICE, *used.notices]) if stand_in.has(row.result) else used


def between(readings: Sequence[Readings], device: Device, began_s: float, ended_s: float) -> float | None:
    """J of a device between two times of its clock; None where its sensors do not tell. Raises InputError for an empty window."""
    series = _series(readings, device.key, device.kind == "cpu")
    return energy.window(began_s, ended_s, series["power_w"], series["energy_j"]).joules


def of_call(samples: Samples, readings: Sequence[Readings], device: Device) -> float | None:
    """J of a call of one case in one round; None where no two readings fall into its time."""
    found = _round(samples, _series(readings, device.key, device.kind == "cpu"), 0.0) if samples.values else None
    return None if found is None else found.joules


# ---------------------------------------------------------------- one case


def _of(row: Row, series: Mapping[int, _Sensed], outside: Sequence[float], missing: str) -> EnergyUse:
    limit = row.gap.limit
    known = EnergyUse(
        case=row.case.id,
        device=row.device,
        label=row.label,
        expected_j=limit.energy_j if limit else None,
        expected_w=limit.power_w if limit else None,
    )
    measured = row.result.used
    if not measured:
        return _changed(known, reason=row.result.reason or row.result.status)
    rounds = [found for one in measured if (found := _round(one, series[one.round], min(outside, default=0.0))) is not None]
    if not rounds:
        read = any(one["power_w"][0] or one["energy_j"][0] for one in series.values())
        reason = missing if not read else "no two readings fall into its time; --round-time longer"
        return _changed(known, reason=reason)
    values = [one.joules for one in rounds]
    between = order.interval(values)
    joules, seconds = statistics.median(values), statistics.median(one.seconds for one in rounds)
    clocks = [one.clock_hz for one in rounds if one.clock_hz]
    power, idle = statistics.median(one.power_w for one in rounds), statistics.median(outside) if outside else math.inf
    operations, moved = _work(row)
    return _changed(
        known,
        joules=joules,
        low_j=statistics.median(one.low for one in rounds),
        high_j=statistics.median(one.high for one in rounds),
        spread_low_j=between[0] if between else None,
        spread_high_j=between[1] if between else None,
        rounds=len(rounds),
        seconds=seconds,
        power_w=power,
        idle_w=idle if idle < power else None,
        clock_hz=statistics.median(clocks) if clocks else None,
        operations_per_j=operations / joules if operations and joules > 0 else None,
        bytes_per_j=moved / joules if moved and joules > 0 else None,
        source=" and ".join(sorted({one.source for one in rounds})),
        notices=list({one.text: one for part in rounds for one in part.notices}.values()),
    )


def _changed(spent: EnergyUse, **fields: object) -> EnergyUse:
    return replace(spent, **fields)


def _round(samples: Samples, series: _Sensed, least_w: float) -> _Round | None:
    if not samples.ended_s > samples.began_s:
        return None
    window = energy.window(samples.began_s, samples.ended_s, series["power_w"], series["energy_j"])
    if window.joules is None:
        return None
    call_s, whole_s = statistics.median(samples.values), samples.ended_s - samples.began_s
    busy_s = min(sum(samples.values) * samples.calls + samples.warmup_samples * samples.calls * call_s, whole_s)
    if busy_s <= 0:
        return None
    inside = _within(series["power_w"], samples.began_s, samples.ended_s)
    highest = max([*inside, *_within(series["power_limit_w"], -math.inf, samples.ended_s)[-1:]], default=window.joules / whole_s)
    lowest = min([*inside, least_w])
    error, rest_s = window.error_j or 0.0, whole_s - busy_s
    low = max(window.joules - error - highest * rest_s, 0.0) / busy_s
    high = (window.joules + error - lowest * rest_s) / busy_s
    watts = min(max(window.joules / whole_s, low), high)
    clocks = _within(series["clock_hz"], samples.began_s, samples.ended_s)
    return _Round(
        joules=watts * call_s,
        low=low * call_s,
        high=high * call_s,
        seconds=call_s,
        power_w=watts,
        clock_hz=statistics.median(clocks) if clocks else None,
        source=window.source,
        notices=list(window.notices),
    )


def _work(row: Row) -> tuple[float, float]:
    """Operations and bytes of a call; 0 where this version does not know."""
    try:
        done = work.find(row.case.workload).work(row.case.params)
    except (HotlapError, KeyError):
        return 0.0, 0.0
    return float(done.total_operations), float(done.memory_bytes)


# ---------------------------------------------------------------- readings


def _series(readings: Sequence[Readings], key: str, host: bool) -> dict[str, energy.Series]:
    """Power, counter and clock of a device; of a processor, the sum over its packages."""
    mine = [one for one in readings if one.device == key or (host and one.device == "host")]
    columns: dict[str, energy.Series] = {}
    for name, sensors in SENSORS.items():
        some = [one for one in mine if one.sensor in sensors]
        if not some and host and name in ("power_w", "energy_j"):
            some = [one for one in mine if one.sensor.startswith(f"{name}.package") and "-" not in one.sensor]
        columns[name] = _summed(some)
    return columns


def _summed(some: Sequence[Readings]) -> energy.Series:
    """One series out of those of several packages, which are read together."""
    by_sensor: dict[str, tuple[list[float], list[float]]] = {}
    for one in some:
        times, values = by_sensor.setdefault(one.sensor, ([], []))
        for time_s, value in zip(one.times_s, one.values, strict=True):
            if value is not None and math.isfinite(value):
                times.append(time_s)
                values.append(value)
    if not by_sensor:
        return [], []
    at = np.unique(np.concatenate([times for times, _ in by_sensor.values()]))
    total = np.zeros(len(at))
    for times, values in by_sensor.values():
        if not times:
            return [], []
        order = np.argsort(times)
        total += np.interp(at, np.asarray(times)[order], np.asarray(values)[order])
    return at.tolist(), total.tolist()


def _within(series: energy.Series, begin_s: float, end_s: float) -> list[float]:
    return [value for time_s, value in zip(*series, strict=True) if value is not None and begin_s <= time_s <= end_s]


def _outside(rows: Sequence[Row], series: Mapping[int, _Sensed]) -> list[float]:
    """Power outside of all cases, warm-up and all; nothing where too few readings fall there."""
    gaps: list[float] = []
    for number, sensed in series.items():
        windows = [(one.began_s, one.ended_s) for row in rows for one in row.result.rounds if one.round == number]
        for time_s, value in zip(*sensed["power_w"], strict=True):
            if value is not None and not any(begin_s <= time_s <= end_s for begin_s, end_s in windows):
                gaps.append(value)
    return gaps if len(gaps) >= FEWEST else []


def _missing(readings: Sequence[Readings], key: str) -> str:
    """Why a device has neither power nor a counter."""
    reasons = [
        one.reason for one in readings if one.device in (key, "host") and one.sensor.split(".")[0] in ("power_w", "energy_j") and one.reason
    ]
    named = rails(readings)
    if named:
        return f"no energy sensor of its own; name the rail that feeds it with --rail: {', '.join(named)}"
    return f"no energy sensor{f': {reasons[0]}' if reasons else ''}"
