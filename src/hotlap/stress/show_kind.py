"""How stress runs are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from typing import Any

from hotlap.core.show.sections.base import ReportSection
from hotlap.core.store.bundle import Bundle
from hotlap.stress import show, show_page, verdict
from hotlap.stress.show_page import METHOD as METHOD
from hotlap.stress.verdict import StressRun

NO_GATE = "{run} is a stress run, which has a verdict of its own: hotlap stress --judge {run}"
UNFINISHED = "not finished: hotlap stress --resume goes on"
CASES = False
NO_CASES = "a stress run has no cases to explain; hotlap show {run} says what was done, what held it back and what to do"


def read(bundle: Bundle) -> StressRun | None:
    return verdict.of(bundle)


def text(judged: StressRun, width: int, color: bool) -> str:
    return show.report_of(judged, width, color)


def document(judged: StressRun) -> dict[str, Any]:
    return {}


def measured(judged: StressRun) -> bool:
    return any(device.figures["checked"] for device in judged.verdict.devices)


def lead(judged: StressRun) -> str:
    return show_page.lead(judged)


SECTION = ReportSection("Stress", "Stress", lambda report: "".join(map(show_page.section, report.of("stress"))))


def notices(judged: StressRun) -> str:
    return show_page.notices(judged)
