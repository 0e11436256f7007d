"""One result, as it shows itself: its line of the table of results, under the heading."""

from __future__ import annotations

from hotlap.core.analysis import rows
from hotlap.core.model.context import context
from hotlap.core.record import Result, Row
from hotlap.core.show import layout, results, table
from hotlap.core.show.table import Table

FORM = results.Form(False, 0, True)


def row_of(result: Result, precision: float | None) -> Row:
    """The result with its summary and verdict."""
    return rows.row(result, context([result], None, []), precision)


def text(result: Result, precision: float | None = None, width: int = 120) -> str:
    """Two lines, where the name is not very long, and why it is inconclusive. `precision`: what was asked of the interval, as a share."""
    row = row_of(result, precision)
    why = [f"  {row.verdict.reason}"] if row.verdict.state == "inconclusive" and row.verdict.reason else []
    return "\n".join(layout.Grid(results.table([row], FORM).columns, width).lines(color=False) + why)


def html(result: Result, precision: float | None = None) -> str:
    """A table for a notebook."""
    return table.html(Table(results.table([row_of(result, precision)]).columns), box="")
