"""What one resource of a BMC says, as readings, each with the Sensor it comes from, so that none is read twice under two names.

EnvironmentMetrics, ThermalMetrics, PowerSupplyMetrics and Fan quote sensors ("excerpts") and name the resource by DataSourceUri; a
quoted reading is named as the Sensor itself would be. Source: DMTF DSP0268 (schemas Sensor 1.7, EnvironmentMetrics 1.3, ThermalMetrics
1.0, PowerSupplyMetrics 1.1, Fan 1.5, Power 1.7, Thermal 1.7), and a recorded HGX GB300.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hotlap.core.record import Reading
from hotlap.nodes.sensors import redfish

NO_CLOCK_S = 366 * 86400.0  # a BMC without a time for a reading says 1970
QUOTED = {  # property of an excerpt: what it is by UCUM, and our part of the name where the sensor has none
    "PowerWatts": ("W", ""),
    "EnergyJoules": ("J", ""),
    "EnergykWh": ("kW.h", ""),
    "TemperatureCelsius": ("Cel", ""),
    "InputPowerWatts": ("W", "input"),
    "OutputPowerWatts": ("W", "output"),
    "InputVoltage": ("V", "input"),
    "InputCurrentAmps": ("A", "input"),
}
GONE = ("Absent", "Disabled", "UnavailableOffline")


class ResourceFigure(NamedTuple):
    """A reading before it is one. `source` is the Sensor or property it comes from; `chassis` is "" for the resource's own."""

    sensor: str
    raw: Any
    scale: float = 1.0
    source: str = ""
    chassis: str = ""
    sensor_s: float | None = None


def read(document: dict[str, Any], bmc: str, time_s: float) -> list[tuple[str, Reading]]:
    """Source and reading of each value; empty for a resource of another kind."""
    owner = _owner(document)
    kind = str(document.get("@odata.type", "")).rpartition(".")[2]
    reader = READERS.get(kind)
    found = list(reader(document, owner)) if reader else []
    return [(one.source, _reading(one, f"{bmc}/{one.chassis or owner}".rstrip("/"), time_s)) for one in found]


def _owner(document: dict[str, Any]) -> str:
    """The member of Chassis, Processors or Memory that a resource belongs to."""
    parts = str(document.get("@odata.id", "")).split("/")
    for family in ("Processors", "Memory", "Chassis"):
        if family in parts[:-1]:
            return parts[parts.index(family) + 1]
    return ""


def _quoted(document: dict[str, Any], names: Iterable[str], part: str = "") -> Iterator[ResourceFigure]:
    path = str(document.get("@odata.id", ""))
    for name in names:
        one = document.get(name)
        unit, own = QUOTED[name]
        if isinstance(one, dict) and "Reading" in one:
            label = "_".join(word for word in (part, own) if word)
            yield _excerpt(one, one["Reading"], unit, label, f"{path}#/{name}")


def _excerpt(excerpt: dict[str, Any], raw: Any, unit: str, label: str, place: str) -> ResourceFigure:
    """Named as its Sensor where it says which, else by `label`."""
    uri = excerpt.get("DataSourceUri")
    if isinstance(uri, str) and "/Sensors/" in uri:
        parts = [word for word in uri.split("/") if word]
        chassis = parts[parts.index("Sensors") - 1]
        return ResourceFigure(*_swapped(redfish.of_sensor(parts[-1], chassis, unit), raw), uri, chassis)
    kind, scale = redfish.UNITS[unit]
    return ResourceFigure(f"{kind}.{label}" if label else kind, raw, scale, place)


def _swapped(named: tuple[str, float], raw: Any) -> tuple[str, Any, float]:
    return named[0], raw, named[1]


def _environment(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    names = ["PowerWatts", "EnergyJoules" if _has(document, "EnergyJoules") else "EnergykWh", "TemperatureCelsius"]
    quoted = list(_quoted(document, names))
    yield from quoted
    limit = document.get("PowerLimitWatts")
    if isinstance(limit, dict) and "SetPoint" in limit:
        chassis = next((one.chassis for one in quoted if one.chassis and "." not in one.sensor), "")  # stands beside the power it limits
        source = str(limit.get("DataSourceUri") or f"{document.get('@odata.id')}#/PowerLimitWatts")
        chassis = source.split("/Chassis/")[1].split("/")[0] if "/Chassis/" in source and "/Controls/" in source else chassis
        off = limit.get("ControlMode") == "Disabled"
        yield ResourceFigure("power_limit_w", "limit is switched off" if off else limit["SetPoint"], 1.0, source, chassis)
    for one in _members(document, "FanSpeedsPercent"):
        yield from _speed(one, str(document.get("@odata.id", "")))


def _speed(excerpt: dict[str, Any], place: str) -> Iterator[ResourceFigure]:
    """A fan's speed: BMCs put a share into SpeedRPM, so where the sensor's name tells the unit, the name is believed."""
    label = _part(excerpt)
    uri = str(excerpt.get("DataSourceUri", ""))
    told = redfish.of_sensor(uri.rpartition("/")[2], "")[0].partition(".")[0] if uri else ""
    if told in ("fan", "fan_rpm"):
        raw = excerpt["Reading"] if excerpt.get("Reading") is not None else excerpt.get("SpeedRPM")
        yield _excerpt(excerpt, raw, "%" if told == "fan" else "RPM", label, place)
        return
    if "Reading" in excerpt:
        yield ResourceFigure(f"fan.{label}", excerpt["Reading"], 0.01, uri or f"{place}#/{label}")
    if excerpt.get("SpeedRPM") is not None:
        yield ResourceFigure(f"fan_rpm.{label}", excerpt["SpeedRPM"], 1.0, f"{uri or place}#/{label}/SpeedRPM")


def _thermal_metrics(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    place = str(document.get("@odata.id", ""))
    for one in _members(document, "TemperatureReadingsCelsius"):
        yield _excerpt(one, one.get("Reading"), "Cel", _part(one), f"{place}#/{_part(one)}")
    summary = document.get("TemperatureSummaryCelsius")
    for name, one in summary.items() if isinstance(summary, dict) else ():
        if isinstance(one, dict) and "Reading" in one:
            yield _excerpt(one, one["Reading"], "Cel", redfish.snake(name), f"{place}#/TemperatureSummaryCelsius/{name}")
    yield from _quoted(document, ("PowerWatts", "EnergykWh"), "cooling")


def _supply_metrics(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    parts = str(document.get("@odata.id", "")).split("/")
    name = parts[parts.index("PowerSupplies") + 1] if "PowerSupplies" in parts[:-1] else _part(document)
    if _gone(document):
        return
    part = _plain(name)
    yield from _quoted(document, [one for one in QUOTED if one not in ("PowerWatts", "EnergyJoules")], part)
    speeds = _members(document, "FanSpeedsPercent") or [one for one in [document.get("FanSpeedPercent")] if isinstance(one, dict)]
    for one in speeds:
        yield from _speed({"DeviceName": part, **one}, str(document.get("@odata.id", "")))


def _fan(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    part = _plain(str(document.get("Id") or document.get("Name") or "unnamed"))
    speed = document.get("SpeedPercent")
    if isinstance(speed, dict):
        shown = {**speed, "Reading": _enabled(document, speed.get("Reading"))} if "Reading" in speed or _gone(document) else speed
        yield from _speed({**shown, "DeviceName": part}, str(document.get("@odata.id", "")))
    if not _gone(document):
        yield from _quoted(document, ("PowerWatts",), part)


def _sensor(document: dict[str, Any], chassis: str) -> Iterator[ResourceFigure]:
    name, scale = redfish.of_sensor(str(document.get("Id", "")), chassis, str(document.get("ReadingUnits") or ""))
    taken = redfish.instant(str(document.get("ReadingTime") or ""))
    sensor_s = taken if taken and taken > NO_CLOCK_S else None
    raw = _enabled(document, document.get("Reading"))
    yield ResourceFigure(name, raw, scale, str(document.get("@odata.id", "")), sensor_s=sensor_s)


def _thermal(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    for one in _members(document, "Temperatures"):
        yield ResourceFigure(f"temperature_c.{_part(one)}", _enabled(one, one.get("ReadingCelsius")), 1.0, _uri(one))
    for one in _members(document, "Fans"):
        percent = one.get("ReadingUnits") == "Percent"
        name = f"{'fan' if percent else 'fan_rpm'}.{_part(one)}"
        yield ResourceFigure(name, _enabled(one, one.get("Reading")), 0.01 if percent else 1.0, _uri(one))


def _power(document: dict[str, Any], _owner: str) -> Iterator[ResourceFigure]:
    for member in _members(document, "PowerControl"):
        yield ResourceFigure(f"power_w.{_part(member)}", _enabled(member, member.get("PowerConsumedWatts")), 1.0, _uri(member))
    for member in _members(document, "PowerSupplies"):
        watts = member.get("PowerInputWatts", member.get("LastPowerOutputWatts"))
        yield ResourceFigure(f"power_w.{_part(member)}", _enabled(member, watts), 1.0, _uri(member))
    for member in _members(document, "Voltages"):
        yield ResourceFigure(f"voltage_v.{_part(member)}", _enabled(member, member.get("ReadingVolts")), 1.0, _uri(member))


READERS = {
    "Sensor": _sensor,
    "EnvironmentMetrics": _environment,
    "ThermalMetrics": _thermal_metrics,
    "PowerSupplyMetrics": _supply_metrics,
    "Fan": _fan,
    "Thermal": _thermal,
    "Power": _power,
}


def _has(document: dict[str, Any], name: str) -> bool:
    one = document.get(name)
    return isinstance(one, dict) and one.get("Reading") is not None


def _uri(resource: dict[str, Any]) -> str:
    return str(resource.get("DataSourceUri") or resource.get("@odata.id") or "")


def _members(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = document.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _part(resource: dict[str, Any]) -> str:
    return _plain(str(resource.get("DeviceName") or resource.get("Name") or resource.get("MemberId") or "unnamed"))


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()


def _gone(resource: dict[str, Any]) -> bool:
    status = resource.get("Status")
    return isinstance(status, dict) and status.get("State") in GONE


def _enabled(resource: dict[str, Any], value: Any) -> Any:
    """None of a part that is not there: a BMC leaves a 0 in its reading."""
    return None if _gone(resource) else value


def _reading(figure: ResourceFigure, device: str, time_s: float) -> Reading:
    value, reason = redfish.number(figure.raw)
    if value is None:
        return Reading(sensor=figure.sensor, device=device, time_s=time_s, status="error", reason=reason, sensor_s=figure.sensor_s)
    return Reading(sensor=figure.sensor, device=device, time_s=time_s, value=value * figure.scale, sensor_s=figure.sensor_s)
