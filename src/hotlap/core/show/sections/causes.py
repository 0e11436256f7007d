"""Gaps and their causes: what each limit is made of, with its sources."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import Row
from hotlap.core.show import words
from hotlap.core.show.explain import Sources
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import Cell, Column, Table, text
from hotlap.core.show.table import html as drawn


def _html(report: Report) -> str:
    sources = Sources()
    return report.each(lambda side: gaps(side.rows, sources)) + _listed(sources)


SECTION = ReportSection("Causes", "Gaps and their causes", _html)


def _mark(number: int) -> str:
    return f'<sup><a href="#source-{number}">{number}</a></sup>'


def _listed(sources: Sources) -> str:
    items = "".join(f'<li id="source-{number}">{text(source) or "not given"}</li>' for source, number in sources.seen.items())
    return f'<h3>Sources</h3><ol class="sources">{items}</ol>' if items else ""


def gaps(rows: Sequence[Row], sources: Sources) -> str:
    """Each number that is compared with something: what is missing, why, and what the limit is made of."""
    held = sorted((row for row in rows if words.numbered(row) and row.gap.share is not None), key=lambda row: row.gap.share or 0.0)
    without = [row for row in rows if words.numbered(row) and row.gap.share is None]
    table = drawn(Table(_columns(held, sources)), "stack", box="") if held else ""
    return table + (_no_limit(without) if without else "")


def _columns(rows: Sequence[Row], sources: Sources) -> list[Column]:
    return [
        Column("Case", [Cell(row.label) for row in rows], names=True),
        Column("Reached", [Cell(_reached(row)) for row in rows], right=True, kind="n value"),
        Column("Of", [Cell(words.quantity(row.gap.limit_value, words.unit_of(row))) for row in rows], right=True),
        Column("Limit or reference", [Cell(drawn=_limit(row, sources)) for row in rows], kind="long"),
        Column("Cause of the gap", [Cell(drawn=_cause(row)) for row in rows], kind="long"),
    ]


def _reached(row: Row) -> str:
    return f"{row.gap.share:.2f}" if row.gap.reference_kind == "ceiling" else words.share(row.gap)


def _limit(row: Row, sources: Sources) -> str:
    limit, setter = row.gap.limit, words.setter(row)
    against = "this run's best median" if row.gap.reference_kind == "ceiling" else row.gap.reference_kind
    terms = ", ".join(text(words.term(one)) + _mark(sources.number(one.source)) for one in limit.provenance) if limit else ""
    made = f'<div class="of">{terms}</div>' if terms and row.gap.reference_kind != "ceiling" else ""
    return f"{text(against)}{f', {text(setter)}' if setter else ''}{made}"


def _cause(row: Row) -> str:
    cause, why = row.gap.cause.replace("_", " "), words.why(row)
    return f"<b>{text(cause)}</b>{f': {text(why)}' if why else ''}"


def _no_limit(rows: Sequence[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reason = row.gap.limit.reason if row.gap.limit and row.gap.limit.reason else "no figure with a source"
        reasons.setdefault(reason, []).append(row.label)
    items = "".join(f"<li>{text(', '.join(labels))}: {text(reason)}</li>" for reason, labels in reasons.items())
    return f'<h3>No limit is known</h3><ul class="note">{items}</ul>'
