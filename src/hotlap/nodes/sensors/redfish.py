"""What a BMC says in Redfish metric reports, as readings, and how its sensors are named.

A metric report's values are all strings, with words (NA, Unknown), ISO 8601 durations and overflow sentinels among them, and
its rows were taken at times of their own, months ago for some: a reading carries its row's time, and an old row is an error,
not a value. Where no MetricDefinition gives a unit, the property's name does. Devices are `BMC/CHASSIS` or `BMC/PROCESSOR`.
Sources: DMTF DSP0268 (schema MetricReport 1.4, MetricDefinition 1.3), and a recorded HGX GB300.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hotlap.core.errors import MachineError
from hotlap.core.record import Reading

STALE_S = 60.0  # a row this much older than the newest one of its report, or marked so by the BMC
LONGEST_S = 100 * 365.25 * 86400.0  # a duration above it is a counter that overflowed: real ones show 1,500 years
DURATION = re.compile(
    r"P(?:(?P<d>\d+(?:\.\d+)?)D)?(?:T(?=\d)(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?\Z"
)
SENTINELS = {float(2**64 - 1), float(2**63 - 1), float(2**32 - 1)}  # "not available" of counters, 64 and 32 bits wide
KINDS = {  # a word of a sensor's name: the sensor, and what turns the BMC's unit into ours
    "energy": ("energy_j", 1.0),
    "power": ("power_w", 1.0),
    "pwr": ("power_w", 1.0),
    "temp": ("temperature_c", 1.0),
    "cpufreq": ("clock_hz", 1.0),
    "freq": ("clock_hz", 1.0),
    "coreutil": ("utilization", 0.01),
    "util": ("utilization", 0.01),
    "volt": ("voltage_v", 1.0),
    "voltage": ("voltage_v", 1.0),
    "current": ("current_a", 1.0),
    "pwm": ("fan", 0.01),
    "cur": ("current_a", 1.0),
    "pressure": ("pressure_pa", 1.0),
}
WHOLE = {  # words that tell a kind and a part: the sensor, the unit's factor, the part
    "enforcededpp": ("power_limit_w", 1.0, "edpp"),
    "enforcededpc": ("power_limit_w", 1.0, "edpc"),
    "leakdetector": ("voltage_v", 1.0, "leak_detector"),
    "front": ("fan_rpm", 1.0, "front"),  # of a fan, see _told
    "rear": ("fan_rpm", 1.0, "rear"),
}
ENDINGS = {  # of a property's name: what it becomes
    "Percent": ("_share", 0.01),
    "MHz": ("_hz", 1e6),
    "Gbps": ("_bytes_per_s", 1e9 / 8),
    "Watts": ("_w", 1.0),
    "Celsius": ("_c", 1.0),
    "Joules": ("_j", 1.0),
    "Seconds": ("_s", 1.0),
    "Duration": ("_s", 1.0),
    "Bytes": ("_bytes", 1.0),
}
UNITS = {  # Sensor.ReadingUnits, by UCUM
    "W": ("power_w", 1.0),
    "kW": ("power_w", 1e3),
    "J": ("energy_j", 1.0),
    "W.h": ("energy_j", 3.6e3),
    "kW.h": ("energy_j", 3.6e6),
    "Pa": ("pressure_pa", 1.0),
    "Cel": ("temperature_c", 1.0),
    "%": ("share", 0.01),
    "RPM": ("fan_rpm", 1.0),
    "{rev}/min": ("fan_rpm", 1.0),
    "Hz": ("clock_hz", 1.0),
    "MHz": ("clock_hz", 1e6),
    "V": ("voltage_v", 1.0),
    "mV": ("voltage_v", 1e-3),
    "A": ("current_a", 1.0),
    "mA": ("current_a", 1e-3),
}


class _Mark(msgspec.Struct):
    stale: bool = msgspec.field(default=False, name="MetricValueStale")


class _Oem(msgspec.Struct):
    nvidia: _Mark | None = msgspec.field(default=None, name="Nvidia")


class _Row(msgspec.Struct):
    path: str = msgspec.field(default="", name="MetricProperty")
    id: str = msgspec.field(default="", name="MetricId")
    value: Any = msgspec.field(default=None, name="MetricValue")
    time: str = msgspec.field(default="", name="Timestamp")
    oem: _Oem | None = msgspec.field(default=None, name="Oem")


class MetricReport(msgspec.Struct):
    """A MetricReport, as little of it as is needed."""

    time: str = msgspec.field(default="", name="Timestamp")  # of rows without their own
    rows: list[_Row] = msgspec.field(default_factory=list, name="MetricValues")


_decoder = msgspec.json.Decoder(MetricReport)


def report(data: bytes, bmc: str, time_s: float, now_s: float, units: Mapping[str, str] | None = None) -> list[Reading]:
    """A metric report's rows. `time_s` is our clock, `now_s` the UNIX time of the answer, `units` UCUM by MetricId.

    Age is compared with the newest row where the BMC's clock is behind or ahead of ours: its clock may be wrong, its rows
    still agree. Raises MachineError for what is no metric report.
    """
    try:
        decoded = _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise MachineError(f"{bmc} answers with no metric report: {error}") from None
    whole = instant(decoded.time)
    times = [instant(row.time) if row.time else whole for row in decoded.rows]
    newest = max((t for t in times if t is not None), default=now_s)
    named_rows = [named(row.path or row.id, units.get(row.id, "") if units else "") for row in decoded.rows]
    return [_row(*one, newest, bmc, time_s) for one in zip(decoded.rows, named_rows, times, strict=True)]


def sources(data: bytes) -> set[str]:
    """The properties that a report has a row for."""
    return {row.path for row in _decoder.decode(data).rows if row.path}


def stood(readings: list[Reading], seconds: float) -> list[Reading]:
    """Those of a report whose times have not moved for so long: none is a value."""
    reason = f"stale: no time of its report has moved for {seconds:.0f} s"
    return [msgspec.structs.replace(one, value=None, status="error", reason=reason) if one.status == "ok" else one for one in readings]


def _row(row: _Row, name: tuple[str, str, float], own_s: float | None, newest_s: float, bmc: str, time_s: float) -> Reading:
    device, sensor, scale = name
    device = f"{bmc}/{device}" if device else bmc
    if (row.oem and row.oem.nvidia and row.oem.nvidia.stale) or (own_s is not None and newest_s - own_s > STALE_S):
        reason = (
            "stale: the BMC marks it so"
            if own_s is None or newest_s - own_s <= STALE_S
            else f"stale: taken {newest_s - own_s:.0f} s before"
        )
        return Reading(sensor=sensor, device=device, time_s=time_s, status="error", reason=reason, sensor_s=own_s)
    value, reason = number(row.value)
    if value is None:
        return Reading(sensor=sensor, device=device, time_s=time_s, status="error", reason=reason, sensor_s=own_s)
    return Reading(sensor=sensor, device=device, time_s=time_s, value=value * scale, sensor_s=own_s)


@functools.lru_cache(65536)
def named(path: str, unit: str = "") -> tuple[str, str, float]:
    """Device, sensor and scale of a MetricProperty, or of a MetricId; `unit` as its definition has it."""
    place, _, inner = path.partition("#")
    parts = [part for part in place.split("/") if part]
    if "Sensors" in parts and not inner:
        chassis = parts[parts.index("Sensors") - 1]
        return (chassis, *of_sensor(parts[-1], chassis, unit))
    if not inner:
        name, scale = of_sensor(parts[-1], "", unit) if unit else (snake(parts[-1]) if parts else "unnamed", 1.0)
        return "", name, scale
    owner = _owner(parts)
    words = [word for word in inner.split("/") if word not in ("", "Oem", "Nvidia")]
    last = next((word for word in reversed(words) if not word.isdigit()), "unnamed")
    ending, scale = next(((put, by) for end, (put, by) in ENDINGS.items() if last.endswith(end)), ("", 1.0))
    if not ending and unit in UNITS:
        kind, scale = UNITS[unit]
        return owner, ".".join([kind, snake(last)]), scale
    length = next((len(end) for end in ENDINGS if last.endswith(end)), 0)
    stem = snake(last[: len(last) - length]) if length else snake(last)
    before = [snake(w) for w in words if w != last]
    return owner, ".".join([stem + ending, *before]), scale


def _owner(parts: list[str]) -> str:
    """GPU_0, GPU_0/NVLink_3: the members of collections below the system or chassis, without what is asked of them."""
    kept = [parts[i + 1] for i, part in enumerate(parts[:-1]) if part in ("Processors", "Memory", "Ports", "Chassis")]
    return "/".join(kept) or (parts[-1] if parts else "")


def of_sensor(name: str, chassis: str, unit: str = "") -> tuple[str, float]:
    """power_w.dram_0 of HGX_GPU_0_DRAM_0_Power_0 in HGX_GPU_0, and the factor to our unit.

    `unit` is the sensor's own by UCUM, where it is known: it has the last word. A kind that neither tells keeps its name.
    """
    words = [word for word in re.split(r"[\W_]+", name.removeprefix(f"{chassis}_")) if word]
    kind, part, scale = _told(words)
    known = UNITS.get(unit)
    if known and not (kind and (kind.rpartition("_")[2] == known[0].rpartition("_")[2] or scale == known[1] == 0.01)):
        kind, part = known[0], "_".join(words).lower()
    if not kind:
        return "_".join(words).lower(), 1.0
    return f"{kind}.{part}" if part else kind, known[1] if known else scale


def _told(words: list[str]) -> tuple[str, str, float]:
    """Kind, part and factor by the words of a name; a kind of "" where they tell none."""
    for place in range(len(words) - 1, -1, -1):
        known = KINDS.get(words[place].lower())
        if known:
            rest = words[:place] + words[place + 1 :]
            if rest and rest[-1] == "0" and place == len(words) - 2:
                rest = rest[:-1]
            return known[0], "_".join(rest).lower(), known[1]
    fan = any(word.lower().startswith("fan") for word in words)
    for place in range(len(words) - 1, -1, -1):  # less sure: CpuPower, TempAvg, EnforcedEDPp, FAN_1_FRONT
        word, inside = words[place].lower(), snake(words[place]).split("_")
        kind = next((one for one in reversed(inside) if one in KINDS), "")
        if kind:
            inside.remove(kind)
        elif word in WHOLE and (fan or not WHOLE[word][0].startswith("fan")):
            inside = [WHOLE[word][2]]
        else:
            continue
        found = KINDS[kind] if kind else WHOLE[word]
        return found[0], "_".join([*words[:place], *inside, *words[place + 1 :]]).lower(), found[1]
    return "", "", 1.0


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def number(value: Any) -> tuple[float | None, str]:
    """A MetricValue as a number, and why it is none."""
    if isinstance(value, bool):
        return float(value), ""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if not text:
        return None, "no value"
    if text in ("true", "false", "True", "False"):
        return float(text.lower() == "true"), ""
    if text[0] == "P":
        return _duration(text)
    try:
        found = float(text)
    except ValueError:
        return None, f"no number: {text[:60]!r}"
    if not math.isfinite(found):
        return None, f"not finite: {text[:60]!r}"
    return (None, f"overflow: {text[:60]}") if found in SENTINELS else (found, "")


def _duration(text: str) -> tuple[float | None, str]:
    """ISO 8601, days to nanoseconds."""
    found = DURATION.match(text)
    if not found or not any(found.groups()):
        return None, f"no number: {text[:60]!r}"
    d, h, m, s = (float(part or 0) for part in found.groups())
    seconds = ((d * 24 + h) * 60 + m) * 60 + s
    return (None, f"overflow: {text[:60]} is {seconds / 86400 / 365.25:.0f} years") if seconds > LONGEST_S else (seconds, "")


def instant(text: str) -> float | None:
    """UNIX time of a Redfish timestamp; None where it is none or has no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo else None
