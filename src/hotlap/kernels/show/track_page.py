"""The lives of kernels as one HTML page: a table, then a chart per kernel with what brought each change."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import history_page, words
from hotlap.core.show import page as pages
from hotlap.core.show.history import places, when
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.kernels.show import track as lines
from hotlap.kernels.track import KernelHistory, Tracked


def page(tracked: Tracked) -> str:
    """Kernels that got slower or wrong first."""
    ordered = sorted(tracked.lives, key=lines.worst_first)
    where = places([life.series for life in ordered])
    turns = sum(len(life.turns) for life in ordered)
    title = f"{words.counted(len(ordered), 'kernel')}, {words.counted(tracked.runs, 'run')}, {words.counted(turns, 'change')}"
    totals = f"<h3>Steps of networks</h3>{html(Table(lines.total_columns(tracked.totals)))}" if tracked.totals else ""
    lives = Table([column for column in lines.columns(ordered, where) if column.head])
    sections = [
        Section("Changes", "What brought each change", _turns(ordered, where)),
        Section("Charts", "Charts", history_page.figures([life.series for life in ordered], where)),
    ]
    return pages.page(f"Kernels: {title}", sections, {"tracked": tracked}, html(lives) + totals, f"The life of {title}")


def _turns(ordered: Sequence[KernelHistory], where: Sequence[str]) -> str:
    pairs = list(zip(ordered, where, strict=True))
    rows = [(when(turn.time_s), life.series.label, place, lines.change_text(life, turn)) for life, place in pairs for turn in life.turns]
    rows += [("", life.series.label, place, wrong) for life, place in pairs if (wrong := lines.wrong(life.checks))]
    if not rows:
        return "<p>No level changed, and no result was wrong.</p>"
    heads = ("when (UTC)", "kernel", "device", "what changed")
    return html(Table([Column(head, [Cell(row[n]) for row in rows]) for n, head in enumerate(heads)]))
