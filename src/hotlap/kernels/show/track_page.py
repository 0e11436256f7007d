"""The lives of kernels as one HTML page: a table, then a chart per kernel with what brought each change."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import history_page, words
from hotlap.core.show import page as pages
from hotlap.core.show.history import places, when
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.kernels.show import track as said
from hotlap.kernels.track import Life, Tracked


def page(found: Tracked) -> str:
    """Kernels that got slower or wrong first."""
    ordered = sorted(found.lives, key=said.worst_first)
    where = places([one.series for one in ordered])
    turns = sum(len(one.turns) for one in ordered)
    title = f"{words.counted(len(ordered), 'kernel')}, {words.counted(found.runs, 'run')}, {words.counted(turns, 'change')}"
    totals = f"<h3>Steps of networks</h3>{html(Table(said.total_columns(found.totals)))}" if found.totals else ""
    lives = Table([column for column in said.columns(ordered, where) if column.head])
    sections = [
        Section("Changes", "What brought each change", _turns(ordered, where)),
        Section("Charts", "Charts", history_page.figures([one.series for one in ordered], where)),
    ]
    return pages.page(f"Kernels: {title}", sections, {"tracked": found}, html(lives) + totals, f"The life of {title}")


def _turns(ordered: Sequence[Life], where: Sequence[str]) -> str:
    pairs = list(zip(ordered, where, strict=True))
    rows = [(when(turn.time_s), one.series.label, place, said.said(one, turn)) for one, place in pairs for turn in one.turns]
    rows += [("", one.series.label, place, found) for one, place in pairs if (found := said.wrong(one.checks))]
    if not rows:
        return "<p>No level changed, and no result was wrong.</p>"
    heads = ("when (UTC)", "kernel", "device", "what changed")
    return html(Table([Column(head, [Cell(row[n]) for row in rows]) for n, head in enumerate(heads)]))
