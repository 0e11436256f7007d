"""What a terminal shows: the table of results and what stands beside it. Plain text first; colour only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.record import Row
from hotlap.report import counters, layout, words
from hotlap.report import doubts as doubting
from hotlap.report.layout import Cell, Column
from hotlap.report.listing import devices, heading, machine, machines, prediction, runs
from hotlap.units import percent

__all__ = ["devices", "explain", "heading", "machine", "machines", "prediction", "runs", "table"]

STATE_STYLES = {"pass": "good", "fail": "bad", "measured": "", "inconclusive": "warn", "not_run": "dim", "invalid": "bad", "error": "bad"}
AGAINST = {
    "bound": "bound, nothing can be faster",
    "expected": "expected, what a good implementation reaches",
    "ceiling": "ceiling, the best rate of this run where no limit is known",
    "unknown": "unknown, nothing to hold it against",
}


@dataclass(frozen=True)
class Form:
    """How much of the table there is room for."""

    ends: bool  # both ends of the interval
    bar: int  # cells
    flags: bool  # by name; else as the number of the doubt below, beside the state
    gap: int = 2


FORMS = (
    Form(True, 10, True), Form(False, 10, True), Form(False, 6, True), Form(False, 10, False), Form(False, 6, False), Form(False, 4, False),
    Form(False, 0, False, 1),
)
"""The most telling first."""


def table(rows: Sequence[Row], width: int = 100, color: bool = False) -> str:
    """The table of results, then a line per doubt with what to do next, then how to read it.

    Fits `width` columns from 80; where a case's name has no room it wraps.
    """
    if not rows:
        return "no results: no case was measured"
    found = doubting.find(rows)
    keys = words.devices(rows)
    lines: list[str] = []
    for key in keys:
        of_device = [row for row in rows if row.device == key]
        if len(keys) > 1:
            lines += [layout.painted(words.clean(key), "accent", color)]
        lines += [*_table(of_device, found, width, color), ""]
    numbered = not all(_form([row for row in rows if row.device == key], found, width).flags for key in keys)
    return "\n".join([*lines, *_tally(rows, color), *_doubts(found, numbered, width, color), "", *_reading(rows, width, color)])


def _table(rows: Sequence[Row], found: Sequence[doubting.Doubt], width: int, color: bool) -> list[str]:
    form = _form(rows, found, width)
    ordered = [row for _, members in words.families(rows) for row in members]
    grid = layout.Grid(_columns(ordered, found, form), width, form.gap)
    lines, place = [grid.header(color)], 0
    for name, members in words.families(rows):
        lines.append(layout.painted(name, "bold", color))
        for _ in members:
            lines += grid.line(place, color)
            place += 1
    return lines


def _form(rows: Sequence[Row], found: Sequence[doubting.Doubt], width: int) -> Form:
    """The most telling form that fits; where none does, names of cases wrap."""
    return next((form for form in FORMS if layout.total(_columns(rows, found, form), form.gap) <= width), FORMS[-1])


def _columns(rows: Sequence[Row], found: Sequence[doubting.Doubt], form: Form) -> list[Column]:
    names = [f"{words.MARKS[r.verdict.state]} {words.clean(r.label)}" for r in rows]
    columns = [
        Column("  case", [Cell(name, STATE_STYLES[r.verdict.state]) for name, r in zip(names, rows, strict=True)], wrap=True),
        Column("value", [Cell(text, "bold") for text in layout.aligned([words.value(r) for r in rows])]),
        Column("± 95 %", _intervals(rows)),
    ]
    if form.ends:
        columns.append(Column("", [Cell(words.ends(r.summary, r.result.unit) if words.stands(r) else "", "dim") for r in rows]))
    room = max([5, *(len(words.share(row.gap)) for row in rows)])
    columns.append(Column("of its limit", [_of_limit(row, form.bar, room) for row in rows]))
    if form.flags:
        columns.append(Column("flags", [Cell(", ".join(words.flags(r)), "warn") for r in rows]))
    states = [words.state(r) if form.flags else f"{words.state(r)} {_numbers(r, found)}".rstrip() for r in rows]
    columns.append(Column("state", [Cell(state, _state_style(r)) for state, r in zip(states, rows, strict=True)]))
    return columns


def _intervals(rows: Sequence[Row]) -> list[Cell]:
    texts = layout.aligned([words.interval(r.summary) if words.stands(r) else words.DASH for r in rows])
    return [Cell(text, "warn" if r.verdict.state == "inconclusive" else "") for text, r in zip(texts, rows, strict=True)]


def _of_limit(row: Row, bar: int, room: int) -> Cell:
    """Bar, share and what it is a share of."""
    if not words.stands(row):
        return Cell()
    drawn = layout.bar(row.gap.share, row.gap.against, bar) + " " * bool(bar)
    return Cell(f"{drawn}{words.share(row.gap):>{room}} {words.against(row.gap)}", _share_style(row))


def _state_style(row: Row) -> str:
    if row.verdict.state == "measured":
        return "warn" if row.result.flags else "dim"
    return STATE_STYLES[row.verdict.state]


def _share_style(row: Row) -> str:
    """Colour says how near a bound is; a ceiling of the run itself earns none."""
    if row.gap.share is None:
        return "dim"
    if row.gap.against not in ("bound", "expected"):
        return ""
    return "good" if row.gap.share >= 0.9 else "" if row.gap.share >= 0.6 else "warn"


def _numbers(row: Row, found: Sequence[doubting.Doubt]) -> str:
    return " ".join(str(n) for n, doubt in enumerate(found, 1) if row in doubt.rows and doubt.name in words.FLAG_ACTIONS)


def _tally(rows: Sequence[Row], color: bool) -> list[str]:
    counts = {state: sum(r.verdict.state == state for r in rows) for state in words.STATES}
    parts = [f"{n} {words.STATES[state]}" for state, n in counts.items() if n]
    return [layout.painted(f"{words.counted(len(rows), 'case')}: ", "bold", color) + ", ".join(parts)]


def _doubts(found: Sequence[doubting.Doubt], numbered: bool, width: int, color: bool) -> list[str]:
    lines: list[str] = []
    room = max((len(doubt.name) for doubt in found), default=0)
    styles = {"error": "bad", "warning": "warn", "info": "dim"}
    for number, doubt in enumerate(found, 1):
        count = f"{number:>2} " if numbered else "  "
        first = f"{count}{doubt.name:<{room}}  "
        action = f" → {doubt.action}" if doubt.action else ""
        text = layout.paragraph(first, f"{words.some(doubt.labels)}: {doubt.seen}{action}", width)
        lines += [layout.painted(first, styles[doubt.severity], color) + text[0][len(first) :], *text[1:]]
    return lines


def _reading(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """One line that says what the columns mean, of what is in them."""
    seen = [words.against(row.gap) for row in rows if words.stands(row)]
    if not seen:
        return []
    kinds = [about for kind, about in AGAINST.items() if kind in seen]
    text = f"± is the 95 % interval of the median over rounds. Limits: {'; '.join(kinds)}."
    return [layout.painted(piece, "dim", color) for piece in layout.paragraph("", text, width)]


# ---------------------------------------------------------------- explain


def explain(rows: Sequence[Row], width: int = 100, color: bool = False) -> str:
    """Each number against its limit: the headroom, its named cause, and every term of the limit with its source."""
    if not rows:
        return "no results: no case was measured"
    sources = Sources()
    lines: list[str] = []
    for name, members in words.families(rows):
        lines += ["", layout.painted(name, "bold", color)]
        for row in members:
            lines += [*_explained(row, sources, width, color), ""]
        lines.pop()
    return "\n".join([*lines[1:], *_sources(sources, width, color)])


LEAST_SHARE = 0.03  # of a gap, below which a cause is not named


@dataclass
class Sources:
    """Sources of terms, numbered as they first come, so that each is printed once."""

    seen: dict[str, int] = field(default_factory=dict)

    def terms(self, row: Row) -> str:
        """The terms of a row's limit, each with the number of its source."""
        found = row.gap.limit.provenance if row.gap.limit else []
        return ", ".join(f"{words.term(one)} [{self.seen.setdefault(one.source, len(self.seen) + 1)}]" for one in found)


def split_line(row: Row) -> str:
    """Where the time between bound and measured goes, the largest first; and by how much it was faster than expected, if it was."""
    split, limit = row.gap.split, row.gap.limit
    missed = split.get("unexplained", 0.0)
    whole = sum(split.values()) - min(missed, 0.0)
    if not split or whole <= 0 or limit is None or not limit.bound_s:
        return ""
    if not limit.expected_s:
        return f"{words.quantity(whole, 's')} over the bound: {_shares(split, whole)}; no model knows the kernel, so as this run measured"
    expected = words.quantity(limit.expected_s, "s")
    if missed >= 0:
        return f"{words.quantity(whole, 's')} over the bound: {_shares(split, whole)}; expected {expected}, {limit.known}"
    causes = {name: value for name, value in split.items() if name != "unexplained"}
    faster = f"measured {words.quantity(-missed, 's')} ({percent(-missed / limit.expected_s)}) faster than that"
    return f"expected {expected}, {words.quantity(whole, 's')} over the bound: {_shares(causes, whole)}; {faster}; {limit.known}"


def _shares(split: Mapping[str, float], whole: float) -> str:
    large = sorted((one for one in split.items() if abs(one[1]) >= LEAST_SHARE * whole), key=lambda one: -abs(one[1]))
    rest = whole - sum(value for _, value in large)
    said = [f"{name} {words.quantity(value, 's')} ({percent(value / whole)})" for name, value in large]
    return ", ".join([*said, f"the rest {words.quantity(rest, 's')}"] if abs(rest) > 0.005 * whole else said)


def _explained(row: Row, sources: Sources, width: int, color: bool) -> list[str]:
    kept = f"{words.value(row)}  {words.interval(row.summary)}" if words.stands(row) else words.state(row)
    style = STATE_STYLES[row.verdict.state]
    lines = [f"  {layout.painted(words.clean(row.label), 'accent', color)}  {layout.painted(kept, style or 'bold', color)}"]
    parts = [("state", f"{words.state(row)}: {row.verdict.reason}" if row.verdict.reason else "")]
    if words.stands(row):
        parts.append(("note", row.result.reason))
        parts += [("limit", limit_line(row)), ("cause", cause_line(row)), ("split", split_line(row)), ("from", sources.terms(row)),
                  ("count", counters.line(row)), ("time", counters.waited(row))]
    parts += [("" if place else "flags", f"{flag.name}: {flag.detail}") for place, flag in enumerate(row.result.flags)]
    for name, text in parts:
        if text:
            first = f"    {name:<6}"
            pieces = layout.paragraph(first, words.clean(text), width, most=8)
            lines += [layout.painted(first, "dim", color) + pieces[0][len(first) :], *pieces[1:]]
    return lines


def _sources(sources: Sources, width: int, color: bool) -> list[str]:
    lines = ["", layout.painted("sources", "bold", color)] if sources.seen else []
    for source, number in sources.seen.items():
        lines += layout.paragraph(f"{f'[{number}]':>6} ", words.clean(source) or "not given", width, most=8)
    return lines


def limit_line(row: Row) -> str:
    """The limit with its value, the share reached and the headroom; or why there is none."""
    gap, limit = row.gap, row.gap.limit
    if gap.share is None or gap.limit_value is None:
        return f"unknown: {limit.reason if limit and limit.reason else 'nothing to hold it against'}"
    said = "ceiling measured in this run" if gap.against == "ceiling" else gap.against
    setter = words.setter(row)
    head = f"{said} {words.quantity(gap.limit_value, row.result.unit)}{f', set by {setter}' if setter else ''}"
    return f"{head}; reached {words.share(gap)}, {words.headroom(gap)}"


def cause_line(row: Row) -> str:
    """The named cause and the reason for it, without the numbers that stand in the line of the limit."""
    cause, why = row.gap.cause.replace("_", " "), words.why(row)
    if cause == "unknown" and row.gap.limit and why == row.gap.limit.reason:
        return "" if row.gap.share is None else "unknown"
    return f"{cause}: {why}" if cause and why else cause or why
