"""What the device counted while a case ran."""

from __future__ import annotations

from hotlap.core.show import counters, table, words
from hotlap.core.show.sections.base import Report, ReportSection, Side
from hotlap.core.show.table import Cell, Column, Table

NOTE = '<p class="note">Of one call. Where the time went: shares of it by cause, which add up.</p>'


def _html(report: Report) -> str:
    return report.each(_counted)


SECTION = ReportSection("Counters", "What the device counted", _html)


def _counted(side: Side) -> str:
    having = [row for row in side.rows if words.numbered(row) and counters.of(row)]
    if not having:
        return ""
    went = Column("Where the time went", [Cell(counters.waited(row)) for row in having], kind="long")
    return table.html(Table([*counters.columns(having), went]), "method") + NOTE
