"""One result, as it shows itself: its line of the table of results, under the heading."""

from __future__ import annotations

from hotlap.core.analysis import rows
from hotlap.core.model.context import context
from hotlap.core.record import Result, Row
from hotlap.core.show import layout, results, table
from hotlap.core.show.table import Table

FORM = results.Form(False, 0, True)


def _row(result: Result) -> Row:
    return rows.row(result, context([result], None, []), None)


def text(result: Result, width: int = 120) -> str:
    """Two lines, where the name is not very long."""
    return "\n".join(layout.Grid(results.table([_row(result)], FORM).columns, width).lines(color=False))


def html(result: Result) -> str:
    """A table for a notebook."""
    return table.html(Table(results.table([_row(result)]).columns), box="")
