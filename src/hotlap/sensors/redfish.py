"""What a BMC says by Redfish, as readings: metric reports, sensors, and the older Power and Thermal.

A metric report's values are all strings, with words (NA, Unknown), ISO 8601 durations and overflow sentinels among them, and
its rows were taken at times of their own, months ago for some: a reading carries its row's time, and an old row is an error,
not a value. Devices are `BMC/CHASSIS` or `BMC/PROCESSOR`. Sources: DMTF DSP0268 (schemas MetricReport 1.4, Sensor 1.6, Power
1.7, Thermal 1.7), and a recorded HGX GB300.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from hotlap.errors import MachineError
from hotlap.record import Reading

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
    "J": ("energy_j", 1.0),
    "kW.h": ("energy_j", 3.6e6),
    "Cel": ("temperature_c", 1.0),
    "%": ("share", 0.01),
    "RPM": ("fan_rpm", 1.0),
    "{rev}/min": ("fan_rpm", 1.0),
    "Hz": ("clock_hz", 1.0),
    "MHz": ("clock_hz", 1e6),
    "V": ("voltage_v", 1.0),
    "A": ("current_a", 1.0),
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


class Report(msgspec.Struct):
    """A MetricReport, as little of it as is needed."""

    id: str = msgspec.field(default="", name="Id")
    rows: list[_Row] = msgspec.field(default_factory=list, name="MetricValues")


_decoder = msgspec.json.Decoder(Report)


def report(data: bytes, bmc: str, time_s: float, now_s: float) -> list[Reading]:
    """A metric report's rows. `time_s` is our clock, `now_s` the UNIX time of the answer.

    Age is held against the newest row where the BMC's clock is behind or ahead of ours: its clock may be wrong, its rows
    still agree. Raises MachineError for what is no metric report.
    """
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise MachineError(f"{bmc} answers with no metric report: {error}") from None
    times = [instant(row.time) for row in found.rows]
    newest = max((t for t in times if t is not None), default=now_s)
    return [_row(row, bmc, time_s, own, newest) for row, own in zip(found.rows, times, strict=True)]


def _row(row: _Row, bmc: str, time_s: float, own_s: float | None, newest_s: float) -> Reading:
    device, sensor, scale = named(row.path or row.id)
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
def named(path: str) -> tuple[str, str, float]:
    """Device, sensor and scale of a MetricProperty."""
    place, _, inner = path.partition("#")
    parts = [part for part in place.split("/") if part]
    if "Sensors" in parts and not inner:
        chassis = parts[parts.index("Sensors") - 1]
        return (chassis, *of_sensor(parts[-1], chassis))
    if not inner:
        return "", snake(parts[-1]) if parts else "unnamed", 1.0
    owner = _owner(parts)
    words = [word for word in inner.split("/") if word not in ("", "Oem", "Nvidia")]
    last = next((word for word in reversed(words) if not word.isdigit()), "unnamed")
    ending, scale = next(((put, by) for end, (put, by) in ENDINGS.items() if last.endswith(end)), ("", 1.0))
    length = next((len(end) for end in ENDINGS if last.endswith(end)), 0)
    stem = snake(last[: len(last) - length]) if length else snake(last)
    before = [snake(w) for w in words if w != last]
    return owner, ".".join([stem + ending, *before]), scale


def _owner(parts: list[str]) -> str:
    """GPU_0, GPU_0/NVLink_3: the members of collections below the system or chassis, without what is asked of them."""
    kept = [parts[i + 1] for i, part in enumerate(parts[:-1]) if part in ("Processors", "Memory", "Ports", "Chassis")]
    return "/".join(kept) or (parts[-1] if parts else "")


def of_sensor(name: str, chassis: str) -> tuple[str, float]:
    """power_w.dram_0 of HGX_GPU_0_DRAM_0_Power_0 in HGX_GPU_0; a kind that its name does not tell keeps its name, without a unit."""
    words = name.removeprefix(f"{chassis}_").split("_")
    for place in range(len(words) - 1, -1, -1):
        known = KINDS.get(words[place].lower())
        if known:
            rest = [w for w in words[:place] + words[place + 1 :] if w]
            if rest and rest[-1] == "0" and place == len(words) - 2:
                rest = rest[:-1]
            return ".".join([known[0], *(["_".join(rest).lower()] if rest else [])]), known[1]
    return "_".join(words).lower(), 1.0


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


def resource(document: dict[str, Any], bmc: str, time_s: float) -> list[Reading]:
    """Sensor, Thermal, Power and EnvironmentMetrics resources; empty for any other."""
    place = str(document.get("@odata.id", "")).split("/")
    chassis = place[place.index("Chassis") + 1] if "Chassis" in place[:-1] else ""
    device = f"{bmc}/{chassis}" if chassis else bmc
    kind = str(document.get("@odata.type", "")).rpartition(".")[2]
    read = {"Sensor": _sensor, "Thermal": _thermal, "Power": _power}.get(kind)
    return [_one(name, device, time_s, value, scale) for name, value, scale in read(document, chassis)] if read else []


Found = Iterable[tuple[str, Any, float]]


def _sensor(document: dict[str, Any], chassis: str) -> Found:
    name = str(document.get("Id", ""))
    kind, scale = UNITS.get(str(document.get("ReadingUnits", "")), ("", 1.0))
    part = name.removeprefix(f"{chassis}_").lower()
    yield (f"{kind}.{part}" if kind else part), _enabled(document, document.get("Reading")), scale


def _thermal(document: dict[str, Any], _chassis: str) -> Found:
    for one in _members(document, "Temperatures"):
        yield f"temperature_c.{_part(one)}", _enabled(one, one.get("ReadingCelsius")), 1.0
    for one in _members(document, "Fans"):
        percent = one.get("ReadingUnits") == "Percent"
        yield f"{'fan' if percent else 'fan_rpm'}.{_part(one)}", _enabled(one, one.get("Reading")), 0.01 if percent else 1.0


def _power(document: dict[str, Any], _chassis: str) -> Found:
    for one in _members(document, "PowerControl"):
        yield f"power_w.{_part(one)}", _enabled(one, one.get("PowerConsumedWatts")), 1.0
    for one in _members(document, "PowerSupplies"):
        yield f"power_w.{_part(one)}", _enabled(one, one.get("PowerInputWatts", one.get("LastPowerOutputWatts"))), 1.0
    for one in _members(document, "Voltages"):
        yield f"voltage_v.{_part(one)}", _enabled(one, one.get("ReadingVolts")), 1.0


def _members(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = document.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _part(one: dict[str, Any]) -> str:
    return re.sub(r"\W+", "_", str(one.get("Name") or one.get("MemberId") or "unnamed")).strip("_").lower()


def _enabled(one: dict[str, Any], value: Any) -> Any:
    """None of a part that is not there: a BMC leaves a 0 in its reading."""
    state = one.get("Status", {}).get("State") if isinstance(one.get("Status"), dict) else None
    return None if state in ("Absent", "Disabled", "UnavailableOffline") else value


def _one(sensor: str, device: str, time_s: float, raw: Any, scale: float) -> Reading:
    value, reason = number(raw)
    if value is None:
        return Reading(sensor=sensor, device=device, time_s=time_s, status="error", reason=reason)
    return Reading(sensor=sensor, device=device, time_s=time_s, value=value * scale)
