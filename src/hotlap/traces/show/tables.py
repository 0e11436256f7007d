"""Kernels and operators of an answer as columns: on a terminal, on a page and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import show
from hotlap.traces import naming
from hotlap.traces.operators import OperatorTime
from hotlap.traces.show.answer import Kernel, OperatorLimit


def kernel_columns(rows: Sequence[Kernel], longest: tuple[int, int] = (120, 100)) -> list[Column]:
    """Each kernel with the operator that launched it, and the time it took. `longest`: characters of both names."""
    names = naming.labels((row.name for row in rows), longest[0])
    return [
        Column("kernel", [Cell(words.clean(names[row.name]), title=row.name[:400], code=True) for row in rows], names=True),
        Column("operator", [_operator(row, longest[1]) for row in rows], kind="long"),
        Column("calls", [Cell(f"{row.calls:,}", value=row.calls) for row in rows], right=True),
        times("total", [row.total_s for row in rows]),
        Column("share", [Cell(percent(row.share), value=row.share) for row in rows], right=True),
        times("median", [row.median_s for row in rows]),
    ]


def operator_columns(rows: Sequence[OperatorTime], longest: int = 120) -> list[Column]:
    """Operators of the host with the time that they took themselves."""
    names = [Cell(layout.shortened(words.clean(row.name), longest), title=row.name[:400], code=True) for row in rows]
    return [
        Column("operator", names, names=True),
        Column("calls", [Cell(f"{row.calls:,}", value=row.calls) for row in rows], right=True),
        times("own time", [row.own_s for row in rows]),
        Column("share", [Cell(percent(row.share), value=row.share) for row in rows], right=True),
        times("with inner", [row.total_s for row in rows]),
        times("median", [row.median_s for row in rows]),
    ]


def _operator(row: Kernel, longest: int) -> Cell:
    return Cell(layout.shortened(row.operator, longest), code=True) if row.operator else Cell(words.DASH)


def limit_columns(head: str, rows: Sequence[OperatorLimit]) -> list[Column]:
    """Each operator and shape with what its machine allows. `head`: of the operators."""
    return [
        Column(head, [Cell(row.operator, code=True) for row in rows], names=True),
        Column("work", [Cell(row.work) for row in rows], kind="long"),
        Column("calls", [Cell(f"{row.calls:,}", value=row.calls) for row in rows], right=True),
        times("median", [row.median_s for row in rows]), times("expected", [row.expected_s for row in rows]),
        times("bound", [row.bound_s for row in rows]), times("could save", [row.headroom_s or None for row in rows]),
    ]


def on_terminal(columns: Sequence[Column]) -> list[Column]:
    """The same with names that give way, and decimal points of times and shares under each other."""
    return [
        replace(one, wrap=one.names or one.kind == "long", point=any(isinstance(cell.value, float) for cell in one.cells))
        for one in columns
    ]


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def times(head: str, seconds: Sequence[float | None]) -> Column:
    """A column of times; of one that is not known a dash."""
    return Column(head, [Cell(words.DASH if value is None else show(value, "s"), value=value) for value in seconds], right=True)
