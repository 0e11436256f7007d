"""Sections of a report: `base` is their contract, each is one file, and this is the table of them, in the order of the page.

A feature brings its own by the table of features, under `sections`.
"""

from __future__ import annotations

from hotlap.core import extend
from hotlap.core.errors import MachineError
from hotlap.core.show.page import Section
from hotlap.core.show.sections import causes, charts, counters, method, notices, results, samples, setup
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import text

SECTIONS = (
    results.SECTION, charts.SECTION, causes.SECTION, counters.SECTION, samples.SECTION, notices.SECTION, setup.SECTION, method.SECTION,
)


def of(report: Report) -> list[Section]:
    """Each section as the page takes it. One of a feature that does not load says so, and the others stand."""
    return [Section(one.name, one.title, one.html(report), one.new_page) for one in _ordered()]


def _ordered() -> list[ReportSection]:
    """Those of features behind the one that they name, else first."""
    brought = [_brought(name) for name in extend.table().get("sections", {})]
    found = [one for one in brought if not one.after]
    for own in SECTIONS:
        found += [own, *(one for one in brought if one.after == own.name)]
    return found


def _brought(name: str) -> ReportSection:
    try:
        section: ReportSection = extend.resolve(extend.table()["sections"][name])
        return section
    except MachineError as error:
        said = f"<p>{text(error)}</p>"
        return ReportSection(name.capitalize(), name.capitalize(), lambda _: said)
