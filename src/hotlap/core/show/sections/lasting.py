"""Whether rates last, and which calls miss their deadline: of runs that were asked for it."""

from __future__ import annotations

from hotlap.core.show import lasting
from hotlap.core.show.sections.base import Report, ReportSection, Side, facts


def _html(report: Report) -> str:
    return report.each(_of)


SECTION = ReportSection("Over time", "Over the time of the run", _html)
TITLES = {"sustained": "Does the rate last", "deadline": "Calls against their deadline"}


def _of(side: Side) -> str:
    answers = lasting.entries(side.rows, side.bundle.run.asked)
    return "".join(f"<h3>{TITLES[name]}</h3>{facts(cases)}" for name, cases in answers.items())
