"""The table of results: one list of columns for the terminal, Markdown and a page; and one for CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hotlap.core.record import Row
from hotlap.core.show import counters, former, gaps, layout, rates, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.explain import STATE_STYLES, ends_shown
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.show.table import text as escaped

FAST, SLOW = 0.9, 0.6  # shares of a limit


@dataclass(frozen=True)
class Form:
    """How much of the table there is room for on a terminal."""

    ends: bool  # both ends of the interval
    bar: int  # cells
    both: bool  # state and notice; else the notice alone where there is one: the mark before the case says the state
    gap: int = 2


def table(rows: Sequence[Row], form: Form | None = None) -> Table:
    """Case, value, interval, share of the limit and state, by family. `form`: for a terminal, with marks and bars."""
    families = words.families(rows)
    ordered = [row for _, members in families for row in members]
    return Table(
        _columns(ordered, form), [(name, len(members)) for name, members in families], [row.verdict.state for row in ordered],
    )


def _columns(rows: Sequence[Row], form: Form | None) -> list[Column]:
    values = [Cell(words.value(r), "bold") for r in rows]
    columns = [_cases(rows, form), Column("value", values, point=True, title="Value", kind="number value")]
    columns.append(Column("± 95 %", [_interval(r) for r in rows], point=True, kind="number"))
    if form and form.ends:
        columns.append(Column("", [Cell(words.ends(r.summary, words.unit_of(r)) if ends_shown(r) else "", "dim") for r in rows]))
    speeds = [rates.rate(r) for r in rows]
    if any(speeds):
        columns.append(Column("rate", [Cell(text) for text in speeds], right=True, title="Rate", kind="number"))
    best = [words.best(r, unit=any(speeds)) for r in rows]
    if any(best):
        columns.append(Column("best", [Cell(text) for text in best], right=True, title="Best", kind="n best"))
    columns.append(_barred(rows, form.bar) if form else _shares(rows))
    states = [Cell(state(r, form is None or form.both), _state_style(r), kind=r.verdict.state, title=_why(r)) for r in rows]
    return [*columns, Column("state", states, title="State", kind="state")]


def _cases(rows: Sequence[Row], form: Form | None) -> Column:
    marks = [f"{words.MARKS[r.verdict.state]} " if form else "" for r in rows]
    cells = [Cell(mark + words.clean(r.label), STATE_STYLES[r.verdict.state]) for mark, r in zip(marks, rows, strict=True)]
    return Column("  case" if form else "case", cells, wrap=True, title="Case", names=True)


def _interval(row: Row) -> Cell:
    return Cell(words.interval(row), "warn" if row.verdict.state == "inconclusive" else "")


def _shares(rows: Sequence[Row]) -> Column:
    cells = [Cell(words.of_limit(row), _share_style(row), drawn=share(row)) for row in rows]
    return Column("of limit", cells, right=True, title="Of limit", kind="wide")


def _barred(rows: Sequence[Row], bar: int) -> Column:
    """Bar, share and what it is a share of; without a limit there is nothing to draw."""
    limited = any(row.gap.share is not None and row.gap.reference_kind in layout.BARS for row in rows)
    room, cells = max([4, *(len(words.share(row.gap)) for row in rows)]), []
    for row in rows:
        number, kind = words.share_of(row)
        drawn = layout.bar(row.gap.share, row.gap.reference_kind, bar) + " " if bar and limited else ""
        text = f"{drawn}{number:>{room}} {kind}".rstrip() if words.numbered(row) else ""
        cells.append(Cell(text, _share_style(row)))
    return Column("of limit", cells)


def state(row: Row, both: bool = True) -> str:
    """State and notice: inconclusive, busy. Else the notice alone, where there is one."""
    notice = noticing.beside(row)
    if aggregate := rates.aggregate(row):
        return aggregate
    return ", ".join(filter(None, (words.state(row), notice))) if both else notice or words.state(row)


def _why(row: Row) -> str:
    seen = "; ".join(": ".join(filter(None, note)) for note in noticing.notes(row))
    return "; ".join(filter(None, (row.verdict.reason, seen)))


def _state_style(row: Row) -> str:
    return "dim" if row.verdict.state == "measured" else STATE_STYLES[row.verdict.state]


def _share_style(row: Row) -> str:
    """Colour says how near a limit is; the run's own best is none."""
    if row.gap.share is None:
        return "dim"
    if row.gap.reference_kind not in ("bound", "expected"):
        return ""
    return "good" if row.gap.share >= FAST else "warn" if is_slow(row) else ""


def is_slow(row: Row) -> bool:
    """Slower than the model expects; where it expects nothing, far below a bound that does not leave out memory."""
    slower = noticing.slower_than_expected(row)
    return (row.gap.share or 0.0) < SLOW and row.gap.basis != "memory_left_out" if slower is None else slower


def share(row: Row) -> str:
    """As HTML: meter, share, and what it is a share of; the run's own best is no limit and has no meter."""
    if not words.numbered(row):
        return ""
    if row.gap.share is None:
        return f'<span class="of">{words.DASH}</span>'
    if row.gap.reference_kind == "ceiling":
        return f'<span class="of best-of">{escaped(words.of_limit(row))}</span>'
    full = min(max(row.gap.share, 0.0), 1.0) * 100
    return (
        f'<span class="meter {row.gap.reference_kind}"><i style="width:{full:.1f}%"></i></span>'
        f'<span class="pct">{escaped(words.share(row.gap))}</span> <span class="of">{escaped(row.gap.reference_kind)}</span>'
    )


# ---------------------------------------------------------------- for programs


def record(row: Row) -> dict[str, Any]:
    """One row without its samples. `value` is the number whenever there is each: `state` says whether it may be used, `notice` is the
    code of what to know first, "" for nothing. Of a call too short to time it is a limit (`too_short`)."""
    summary, gap, result = row.summary, row.gap, row.result
    has = words.numbered(row)
    return {
        "case": row.case.id, "label": row.label, "workload": row.case.workload, "params": row.case.params,
        "implementation": row.case.implementation, "device": row.device, "metric": result.metric, "unit": result.unit,
        "better": result.better, "value": summary.median if has else None, "low": summary.low if has else None,
        "high": summary.high if has else None, "half_width": summary.half_width if has else None, "confidence": summary.confidence,
        "best": summary.best, "too_short": result.too_short,
        "rounds": list(result.values), "rounds_used": summary.rounds, "rounds_left_out": list(result.left_out),
        "replaced": sum(len(each.replaced) for each in result.rounds), "seconds": list(result.seconds), "cycles": list(result.cycles),
        "summary": former.keys(summary),
        "share": gap.share if has else None, "against": gap.reference_kind, "limit_value": gap.limit_value, "cause": gap.cause,
        "basis": gap.basis, "numbers": gap.numbers, "names": gap.names, "detail": gaps.detail(row), "set_by": gaps.set_by(gap),
        "why": gaps.why(row.case, gap),
        "limit": former.keys(gap.limit),
        "counters": counters.of(row),
        "notices": [msgspec.to_builtins(notice if result.imported else noticing.whole(notice)) for notice in result.notices],
        "state": row.verdict.state, "notice": noticing.code(row), "codes": noticing.codes(row), "reason": row.verdict.reason,
        "action": row.verdict.action,
    }


CSV_COLUMNS = (
    "case", "label", "workload", "implementation", "device", "metric", "unit", "better", "value", "low", "high", "half_width", "rounds",
    "share", "against", "limit_value", "cause", "notices", "state", "reason", "params", "notice", "best", "confidence", "rounds_left_out",
    "replaced", "too_short", "action",
)


FLAT: Mapping[str, Callable[[Row], str]] = {  # how CSV writes what is no field: of lists the length, of notices the codes
    "rounds": lambda row: str(len(row.result.values)),
    "rounds_left_out": lambda row: str(len(row.result.left_out)),
    "notices": lambda row: " ".join(noticing.raised(row)),
    "params": lambda row: json.dumps(row.case.params, sort_keys=True),
    "too_short": lambda row: str(row.result.too_short).lower(),
}


def data(rows: Sequence[Row]) -> Table:
    """The table for JSON, a column per key of `record`."""
    written = [record(row) for row in rows]
    return Table([
        Column(key, [Cell(_flat(key, row), value=written_row[key]) for row, written_row in zip(rows, written, strict=True)])
        for key in (written[0] if written else CSV_COLUMNS)
    ])


def _flat(key: str, row: Row) -> str:
    return FLAT[key](row) if key in FLAT else ""


def fields(run: str, rows: Sequence[Row]) -> Table:
    """The table for CSV: the run's id, then the keys that stand for a number or a word; last what a benchmark's owner asks of those who
    publish it, where one does."""
    columns = {column.head: column for column in data(rows).columns}
    terms = [terms_of(row) for row in rows]
    more = [Column("terms", [Cell(value=text) for text in terms])] if any(terms) else []
    return Table([Column("run", [Cell(value=run) for _ in rows]), *(columns[key] for key in CSV_COLUMNS), *more])


def terms_of(row: Row) -> str:
    """The rule of a benchmark's owner about publishing this number; "" for none."""
    notices = [notice for samples in row.result.rounds for notice in samples.notices if notice.code == "terms"]
    return notices[0].seen if notices else ""
