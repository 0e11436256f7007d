"""What a terminal shows: the table of results and what stands beside it. Plain text first; colour only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.core.record import Row
from hotlap.core.show import layout, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.explain import STATE_STYLES, ends_shown, explain
from hotlap.core.show.layout import Cell, Column
from hotlap.core.show.listing import devices, heading, machine, machines, prediction, runs

__all__ = ["devices", "explain", "heading", "machine", "machines", "prediction", "runs", "table"]

AGAINST = {  # by what a share is of: how to read it
    "bound": "bound: the roofline (speed-of-light) limit", "expected": "expected: what the model expects of a good implementation",
    "ceiling": "of best: ÷ the best rate that a case of this run reached, no limit is known", "unknown": "–: no limit is known",
}
LIMITS = {"bound": "the bound", "expected": "the expected value"}
NOTICES = 3  # below a table, at most
FAST, SLOW, NAMED = 0.9, 0.6, 3  # shares of a limit; cases named of each


@dataclass(frozen=True)
class Form:
    """How much of the table there is room for."""

    ends: bool  # both ends of the interval
    bar: int  # cells
    both: bool  # state and notice; else the notice alone where there is one: the mark before the case says the state
    gap: int = 2


FORMS = (
    Form(True, 10, True), Form(False, 10, True), Form(False, 6, True), Form(False, 10, False), Form(False, 6, False), Form(False, 4, False),
    Form(False, 0, False, 1),
)
"""The most telling first."""


def table(rows: Sequence[Row], width: int = 100, color: bool = False, run: str = "") -> str:
    """The table of results, what is fast, slow and in notice, and how to read it. `run` is named where more can be asked for.

    Fits `width` columns from 80; where a case's name has no room it wraps.
    """
    if not rows:
        return "no results: no case was measured"
    shown = [row for row in rows if row.verdict.state != "not_run"]
    keys = words.devices(shown)
    lines = [*_banner(shown, width, color)]
    for key in keys:
        if len(keys) > 1:
            lines += [layout.painted(words.clean(key), "accent", color)]
        lines += [*_table([row for row in shown if row.device == key], width, color), ""]
    below = [*_tally(rows, color), *_extremes(shown, width, color), *_doubts(shown, run, width, color), *_not_run(rows, run, width, color)]
    return "\n".join([*lines, *below, *_reading(shown, width, color)])


def _banner(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    said = noticing.busy(rows)
    return [*(layout.painted(piece, "warn", color) for piece in layout.paragraph("", said, width)), ""] if said else []


def _table(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    form = _form(rows, width)
    ordered = [row for _, members in words.families(rows) for row in members]
    grid = layout.Grid(_columns(ordered, form), width, form.gap)
    lines, place = [grid.header(color)], 0
    for name, members in words.families(rows):
        lines.append(layout.painted(name, "bold", color))
        for _ in members:
            lines += grid.line(place, color)
            place += 1
    return lines


def _form(rows: Sequence[Row], width: int) -> Form:
    """The most telling form that fits; where none does, names of cases wrap."""
    return next((form for form in FORMS if layout.total(_columns(rows, form), form.gap) <= width), FORMS[-1])


def _columns(rows: Sequence[Row], form: Form) -> list[Column]:
    names = [f"{words.MARKS[r.verdict.state]} {words.clean(r.label)}" for r in rows]
    columns = [
        Column("  case", [Cell(name, STATE_STYLES[r.verdict.state]) for name, r in zip(names, rows, strict=True)], wrap=True),
        Column("value", [Cell(text, "bold") for text in layout.aligned([words.value(r) for r in rows])]),
    ]
    columns.append(Column("± 95 %", _intervals(rows)))
    if form.ends:
        columns.append(Column("", [Cell(words.ends(r.summary, r.result.unit) if ends_shown(r) else "", "dim") for r in rows]))
    best = [words.best(r) for r in rows]
    if any(best):
        columns.append(Column("best", [Cell(text) for text in best], right=True))
    columns.append(Column("of limit", _of_limits(rows, form.bar)))
    columns.append(Column("state", [Cell(_state(r, form), _state_style(r)) for r in rows]))
    return columns


def _intervals(rows: Sequence[Row]) -> list[Cell]:
    texts = layout.aligned([words.interval(r) for r in rows])
    return [Cell(text, "warn" if r.verdict.state == "inconclusive" else "") for text, r in zip(texts, rows, strict=True)]


def _of_limits(rows: Sequence[Row], bar: int) -> list[Cell]:
    """Bar, share and what it is a share of; without a limit there is nothing to draw."""
    limited = any(row.gap.share is not None and row.gap.against in layout.BARS for row in rows)
    room, cells = max([4, *(len(words.share(row.gap)) for row in rows)]), []
    for row in rows:
        number, kind = words.share_of(row.gap)
        drawn = layout.bar(row.gap.share, row.gap.against, bar) + " " if bar and limited else ""
        text = f"{drawn}{number:>{room}} {kind}".rstrip() if words.numbered(row) else ""
        cells.append(Cell(text, _share_style(row)))
    return cells


def _state(row: Row, form: Form) -> str:
    notice = noticing.beside(row)
    return ", ".join(filter(None, (words.state(row), notice))) if form.both else notice or words.state(row)


def _state_style(row: Row) -> str:
    return "dim" if row.verdict.state == "measured" else STATE_STYLES[row.verdict.state]


def _share_style(row: Row) -> str:
    """Colour says how near a limit is; the run's own best is none."""
    if row.gap.share is None:
        return "dim"
    if row.gap.against not in ("bound", "expected"):
        return ""
    return "good" if row.gap.share >= FAST else "warn" if _slow(row) else ""


def _slow(row: Row) -> bool:
    """Slower than the model expects; where it expects nothing, far below the bound."""
    slower = noticing.slower_than_expected(row)
    return (row.gap.share or 0.0) < SLOW if slower is None else slower


def _tally(rows: Sequence[Row], color: bool) -> list[str]:
    counts = {state: sum(r.verdict.state == state for r in rows) for state in words.STATES}
    parts = [f"{n} {words.STATES[state]}" for state, n in counts.items() if n]
    return [layout.painted(f"{words.counted(len(rows), 'case')}: ", "bold", color) + ", ".join(parts)]


def _extremes(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """What is fast and what is slow, of numbers that have a limit; not what others slowed down."""
    having = [row for row in rows if words.stands(row) and row.gap.against in layout.BARS and row.gap.share]
    limited = sorted(having, key=lambda row: -(row.gap.share or 0))
    fast = [row for row in limited if (row.gap.share or 0) >= FAST]
    slow = [row for row in reversed(limited) if row not in fast and _slow(row) and "busy" not in noticing.codes(row)]
    lines: list[str] = []
    for name, found in (("fast", fast), ("slow", slow)):
        if found:
            said = [f"{words.clean(row.label)} ({words.share(row.gap)} of {LIMITS[row.gap.against]})" for row in found[:NAMED]]
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            lines += _named(name, ", ".join(said) + more, "good" if name == "fast" else "warn", width, color)
    return lines


def _doubts(rows: Sequence[Row], run: str, width: int, color: bool) -> list[str]:
    """The most important, each with what to do; of a busy machine the banner speaks."""
    found = [notice for notice in noticing.find(rows) if notice.code != "busy" or not noticing.busy(rows)]
    lines: list[str] = []
    styles = {"error": "bad", "warning": "warn", "info": "dim"}
    for notice in found[:NOTICES]:
        action = f" → {notice.action}" if notice.action else ""
        seen = f": {notice.seen}" if notice.seen else ""
        lines += _named(notice.word, f"{noticing.which(notice, rows)}{seen}{action}", styles[notice.severity], width, color)
    if len(found) > NOTICES:
        lines.append(layout.painted(f"{words.counted(len(found) - NOTICES, 'more notice')}: hotlap explain {run}".rstrip(), "dim", color))
    return lines


def _named(name: str, said: str, style: str, width: int, color: bool) -> list[str]:
    first = f"{name:<12}  "
    pieces = layout.paragraph(first, said, width)
    return [layout.painted(first, style, color) + pieces[0][len(first) :], *pieces[1:]]


def _not_run(rows: Sequence[Row], run: str, width: int, color: bool) -> list[str]:
    """What this target cannot run, in one line."""
    without = [row for row in rows if row.verdict.state == "not_run"]
    if not without:
        return []
    reasons = list(dict.fromkeys(row.verdict.reason for row in without))
    why = words.clean(reasons[0]) if len(reasons) == 1 else f"not supported here; reasons: hotlap explain {run}".rstrip()
    return _named("not run", f"{words.some([row.label for row in without])}: {why}", "dim", width, color)


def _reading(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """How to read the columns, of what is in them."""
    having = [row for row in rows if words.numbered(row)]
    if not having:
        return []
    seen = {row.gap.against if row.gap.share is not None else "unknown" for row in having}
    parts = ["±: 95 % interval of the median over rounds"]
    parts += ["(88 %) and the like: its confidence with fewer than 6 rounds"] * any(map(words.unsure, having))
    parts += ["best: the best round, in the unit of the value, where they are far apart"] * any(map(words.best, having))
    parts += [about for kind, about in AGAINST.items() if kind in seen]
    states = {row.verdict.state for row in having}
    parts += ["? inconclusive: too few rounds, or too noisy ones, for the precision asked"] * ("inconclusive" in states)
    parts += ["x invalid: shown, not to be used"] * ("invalid" in states)
    return ["", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", f"{'; '.join(parts)}.", width, most=12))]
