"""How watches are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from hotlap.core.show import telemetry, telemetry_page
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.telemetry import Watched
from hotlap.core.store.bundle import Bundle

NO_GATE = "{run} is a watch, which has no cases to judge; hotlap show {run} says what the sensors read"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
NO_CASES = "a watch has no cases to explain; hotlap show {run} says what the sensors read"
METHOD = ""


class Watch(NamedTuple):
    bundle: Bundle
    devices: list[Watched]


def _section(report: Report) -> str:
    return "".join(telemetry_page.section(one.bundle, one.devices) for one in report.of("watch"))


SECTION = ReportSection("Sensors", "What the sensors read", _section)


def read(bundle: Bundle) -> Watch:
    return Watch(bundle, telemetry.of(bundle))


def text(watch: Watch, width: int, color: bool) -> str:
    return "\n".join(telemetry.lines(watch.devices, width)).strip("\n")


def document(watch: Watch) -> dict[str, Any]:
    return {"telemetry": watch.devices}


def measured(watch: Watch) -> bool:
    return any(reading.status == "ok" for reading in watch.bundle.readings)


def lead(watch: Watch) -> str:
    return telemetry_page.lead(watch.devices)


def notices(watch: Watch) -> str:
    return ""
