"""How a kept answer of `training memory` is shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import html
from hotlap.core.store.bundle import Bundle
from hotlap.training import memory_keep, memory_show
from hotlap.training.memory_record import KIND, MemoryReport

NO_GATE = "{run} is an account of memory, in which nothing was timed: hotlap show {run}"
UNFINISHED = "not finished: it was killed"
CASES = False
SUBJECT, ENDED = "account of", {"rounds_max": "the step was accounted for"}
NO_CASES = "an account of memory has no cases to explain; hotlap show {run} says which lines own the peak"
METHOD = ""


def read(bundle: Bundle) -> MemoryReport | None:
    return memory_keep.read(bundle)


def text(report: MemoryReport, width: int, color: bool) -> str:
    return "\n".join(memory_show.lines(report, width, color))


def document(report: MemoryReport) -> dict[str, Any]:
    return {"memory": report}


def measured(report: MemoryReport) -> bool:
    return bool(report.accounts)


def lead(report: MemoryReport) -> str:
    return f'<p class="lead">{escape(memory_show.answer(report))}.</p>'


def section(report: MemoryReport) -> str:
    parts = [html(memory_show.table(report.accounts))]
    if report.accounts[0].lines:
        parts.append(html(memory_show.owners(report.accounts[0])))
    if report.switches:
        parts.append(html(memory_show.switches(report)))
    if report.together:
        parts.append(f"<p>{escape(memory_show.together(report.together))}.</p>")
    return "".join(parts)


SECTION = ReportSection("Memory", "Memory of a step", lambda report: "".join(map(section, report.of(KIND))))


def notices(report: MemoryReport) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in memory_show.doubts(report))
