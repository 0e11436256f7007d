"""Sections of a report: `base` is their contract, each is one file, and this is the table of them, in the order of the page.

A feature brings its own by the table of features, under `sections`.
"""

from __future__ import annotations

from hotlap.core import extend
from hotlap.core.errors import MachineError
from hotlap.core.show.page import Section
from hotlap.core.show.sections import causes, charts, counters, lasting, method, notices, results, samples, setup
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import text

SECTIONS = (
    results.SECTION, lasting.SECTION, charts.SECTION, causes.SECTION, counters.SECTION, samples.SECTION, notices.SECTION, setup.SECTION,
    method.SECTION,
)


def of(report: Report) -> list[Section]:
    """Each section as the page takes it. One of a feature that does not load says so, and the others stand."""
    return [Section(section.name, section.title, section.html(report), section.new_page) for section in _ordered()]


def of_features(report: Report) -> list[Section]:
    """Those that features bring and that have something to say."""
    return [section for section in of(report) if section.html and section.name not in {own.name for own in SECTIONS}]


def _ordered() -> list[ReportSection]:
    """Those of features behind the section that they name, else first."""
    brought = [_brought(name) for name in extend.table().get("sections", {})]
    ordered = [section for section in brought if not section.after]
    for own in SECTIONS:
        ordered += [own, *(section for section in brought if section.after == own.name)]
    return ordered


def _brought(name: str) -> ReportSection:
    try:
        section: ReportSection = extend.resolve(extend.table()["sections"][name])
        return section
    except MachineError as error:
        said = f"<p>{text(error)}</p>"
        return ReportSection(name.capitalize(), name.capitalize(), lambda _: said)
