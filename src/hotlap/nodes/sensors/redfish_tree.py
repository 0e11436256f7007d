"""What a Redfish service offers to be read, found by following its links from the root, and only them.

In order: metric reports, which hold hundreds of sensors in one answer; EnvironmentMetrics of chassis, processors and memory; metrics of
heat, power supplies and fans; single Sensors where there are no reports; the older Thermal and Power where a chassis has nothing newer.
Source: DMTF DSP0266 and DSP0268.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from hotlap.core.errors import MachineError

ROOT = "/redfish/v1/"
REPORTS = "/redfish/v1/TelemetryService/MetricReports"
MOST = 512  # resources of one BMC; a system of more is read in part
REQUESTS_MOST = 4096  # to find them
DEFINITIONS_MOST = 256  # of metrics; beyond them a unit comes from the metric's name
Get = Callable[[str], Awaitable[bytes]]


class Offer(NamedTuple):
    """What there is to read. `complete`: the BMC could say all of it; `units`: UCUM by MetricId, where metrics are defined."""

    paths: list[str]
    complete: bool
    units: dict[str, str]


class Failed(MachineError):
    """One resource cannot be read; others may."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class SlowResource(Failed):
    """No answer in time."""


class Answered(Failed):
    """An HTTP status other than 200."""

    def __init__(self, path: str, status: int) -> None:
        super().__init__(path, f"the BMC answers {path} with {status}")
        self.status = status


def is_report(path: str) -> bool:
    return "/MetricReports/" in path


def document(data: bytes, path: str) -> dict[str, Any]:
    """A resource. Raises Failed for what is no JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Failed(path, f"the BMC answers {path} with no JSON object") from None


def place(part: Any) -> str:
    """Where a reference points within the same service, "" for anywhere else: nothing is sent to where a BMC would like it."""
    path = part.get("@odata.id") if isinstance(part, dict) else None
    return path if isinstance(path, str) and path.startswith("/") and not path.startswith("//") else ""


def members(resource: dict[str, Any]) -> list[str]:
    found = resource.get("Members")
    return [path for one in found if (path := place(one))] if isinstance(found, list) else []


def link(resource: dict[str, Any], *names: str) -> str:
    """Where a property points, through objects within; "" where it does not."""
    one: Any = resource
    for name in names:
        one = one.get(name) if isinstance(one, dict) else None
    return place(one)


class Walk:
    """Reads resources for their links. What is not there is empty; `complete` turns false where the BMC could not say."""

    def __init__(self, get: Get) -> None:
        self.get, self.complete = get, True
        self.left, self.slow = REQUESTS_MOST, 0

    async def read(self, path: str) -> dict[str, Any]:
        if not path or not self.left:
            return {}
        self.left -= 1
        try:
            return document(await self.get(path), path)
        except Failed as error:
            self.slow += isinstance(error, SlowResource)
            if self.slow > 1:
                raise
            self.complete &= isinstance(error, Answered) and (error.status < 500 or error.status == 501)
            return {}

    async def members(self, path: str) -> list[str]:
        return members(await self.read(path))

    async def root(self) -> dict[str, Any]:
        """The service root; where there is none, the places that the standard names."""
        places = {"Chassis": "Chassis", "Systems": "Systems", "Managers": "Managers", "UpdateService": "UpdateService"}
        usual = {name: {"@odata.id": ROOT + place} for name, place in {**places, "TelemetryService": "TelemetryService"}.items()}
        return await self.read(ROOT) or usual


async def find(get: Get) -> Offer:
    """Resources worth reading, the best source of a sensor first. Raises MachineError for none."""
    walk = Walk(get)
    root = await walk.root()
    reports, units = await _reports(walk, root)
    chassis = [await _chassis(walk, path, not reports) for path in await walk.members(link(root, "Chassis"))]
    parts = [one for path in await walk.members(link(root, "Systems")) for one in await _system(walk, path)]
    layers = [[path for one in chassis for path in one[layer]] for layer in range(4)]
    found = dict.fromkeys([*reports, *layers[0], *parts, *layers[1], *layers[2], *layers[3]])
    if not found:
        raise MachineError("the BMC has neither metric reports nor sensors, power or thermal metrics of a chassis")
    return Offer(list(found)[:MOST], walk.complete, units)


async def _reports(walk: Walk, root: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    place = link(root, "TelemetryService")
    if not place:
        return [], {}
    service = await walk.read(place)
    reports = await walk.members(link(service, "MetricReports") if service else REPORTS)
    units = {}
    for path in (await walk.members(link(service, "MetricDefinitions")) if reports else [])[:DEFINITIONS_MOST]:
        definition = await walk.read(path)
        if definition.get("Units"):
            units[str(definition.get("Id"))] = str(definition["Units"])
    return reports, units


async def _chassis(walk: Walk, path: str, single: bool) -> tuple[list[str], list[str], list[str], list[str]]:
    """Environment, subsystems, sensors and the older resources of a chassis; single sensors only where asked for."""
    chassis = await walk.read(path)
    thermal = await walk.read(link(chassis, "ThermalSubsystem"))
    heat = [place for place in (link(thermal, "ThermalMetrics"), *await walk.members(link(thermal, "Fans"))) if place]
    power = await walk.read(link(chassis, "PowerSubsystem"))
    supplies = [link(await walk.read(one), "Metrics") for one in await walk.members(link(power, "PowerSupplies"))]
    supplies = [one for one in supplies if one]
    sensors = await walk.members(link(chassis, "Sensors")) if single else []
    environment = [place for place in [link(chassis, "EnvironmentMetrics")] if place]
    older = []
    if not sensors:
        older = ([] if heat else [link(chassis, "Thermal")]) + ([] if supplies else [link(chassis, "Power")])
    return environment, [*heat, *supplies], sensors, [one for one in older if one]


async def _system(walk: Walk, path: str) -> list[str]:
    """EnvironmentMetrics of a system's processors and memory."""
    system = await walk.read(path)
    parts = [one for family in ("Processors", "Memory") for one in await walk.members(link(system, family))]
    found = [link(await walk.read(one), "EnvironmentMetrics") for one in parts]
    return [one for one in found if one]
