"""What a terminal shows: the table of results and what stands beside it. Plain text first; colour only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.record import Row
from hotlap.report import counters, layout, words
from hotlap.report import doubts as doubting
from hotlap.report.layout import Cell, Column
from hotlap.report.listing import devices, heading, machine, machines, prediction, runs
from hotlap.stats.summary import DEPENDENT, MANY_OUTLIERS
from hotlap.units import percent

__all__ = ["devices", "explain", "heading", "machine", "machines", "prediction", "runs", "table"]

STATE_STYLES = {"pass": "good", "fail": "bad", "measured": "", "inconclusive": "warn", "not_run": "dim", "invalid": "bad", "error": "bad"}
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
    both: bool  # state and doubt; else the doubt alone where there is one: the mark before the case says the state
    gap: int = 2


FORMS = (
    Form(True, 10, True), Form(False, 10, True), Form(False, 6, True), Form(False, 10, False), Form(False, 6, False), Form(False, 4, False),
    Form(False, 0, False, 1),
)
"""The most telling first."""


def table(rows: Sequence[Row], width: int = 100, color: bool = False, run: str = "") -> str:
    """The table of results, what is fast, slow and in doubt, and how to read it. `run` is named where more can be asked for.

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
    said = doubting.busy(rows)
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
    best = [words.best(r) for r in rows]
    if any(best):
        columns.append(Column("best", [Cell(text) for text in best], right=True))
    columns.append(Column("± 95 %", _intervals(rows)))
    if form.ends:
        columns.append(Column("", [Cell(words.ends(r.summary, r.result.unit) if _has_ends(r) else "", "dim") for r in rows]))
    columns.append(Column("of limit", _of_limits(rows, form.bar)))
    columns.append(Column("state", [Cell(_state(r, form), _state_style(r)) for r in rows]))
    return columns


def _intervals(rows: Sequence[Row]) -> list[Cell]:
    texts = layout.aligned([words.interval(r) for r in rows])
    return [Cell(text, "warn" if r.verdict.state == "inconclusive" else "") for text, r in zip(texts, rows, strict=True)]


def _has_ends(row: Row) -> bool:
    return words.interval(row).startswith("±")


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
    doubt = doubting.beside(row)
    return ", ".join(filter(None, (words.state(row), doubt))) if form.both else doubt or words.state(row)


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
    slower = doubting.slower_than_expected(row)
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
    slow = [row for row in reversed(limited) if row not in fast and _slow(row) and "busy" not in doubting.codes(row)]
    lines: list[str] = []
    for name, found in (("fast", fast), ("slow", slow)):
        if found:
            said = [f"{words.clean(row.label)} ({words.share(row.gap)} of {LIMITS[row.gap.against]})" for row in found[:NAMED]]
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            lines += _named(name, ", ".join(said) + more, "good" if name == "fast" else "warn", width, color)
    return lines


def _doubts(rows: Sequence[Row], run: str, width: int, color: bool) -> list[str]:
    """The most important, each with what to do; of a busy machine the banner speaks."""
    found = [doubt for doubt in doubting.find(rows) if doubt.code != "busy" or not doubting.busy(rows)]
    lines: list[str] = []
    styles = {"error": "bad", "warning": "warn", "info": "dim"}
    for doubt in found[:NOTICES]:
        action = f" → {doubt.action}" if doubt.action else ""
        seen = f": {doubt.seen}" if doubt.seen else ""
        lines += _named(doubt.word, f"{doubting.which(doubt, rows)}{seen}{action}", styles[doubt.severity], width, color)
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
    parts += ["best: the best round, in the unit of the value"] * any(map(words.best, having))
    parts += [about for kind, about in AGAINST.items() if kind in seen]
    states = {row.verdict.state for row in having}
    parts += ["? inconclusive: less certain than the plan asks"] * ("inconclusive" in states)
    parts += ["x invalid: shown, not to be used"] * ("invalid" in states)
    return ["", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", f"{'; '.join(parts)}.", width))]


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
        return f"{words.quantity(whole, 's')} over the bound: {_shares(split, whole)}; by the readings of this run, the kernel has no model"
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
    style, label, ends = STATE_STYLES[row.verdict.state], words.clean(row.label), _ends(row)
    number = f"{words.value(row)}  {words.interval(row)}" if words.numbered(row) else words.state(row)
    fits = len(label) + len(number) + len(ends) + 6 <= width
    if fits and ends:
        number, ends = f"{number}  {ends}", ""
    lines = [f"  {layout.painted(label, 'accent', color)}  {layout.painted(number, style or 'bold', color)}"]
    parts = [("interval", ends), ("state", _state_line(row)), ("rounds", _rounds_line(row))]
    if words.numbered(row):
        name = "reference" if row.gap.against == "ceiling" else "limit"
        parts += [(name, limit_line(row)), ("cause", cause_line(row)), ("split", split_line(row)), ("from", sources.terms(row)),
                  ("count", counters.line(row) if counters.of(row) else ""), ("time", counters.waited(row))]
    parts += [("" if place else "notice", ": ".join(filter(None, note))) for place, note in enumerate(doubting.notes(row))]
    for name, text in parts:
        if text:
            first = f"    {name:<9} "
            pieces = layout.paragraph(first, words.clean(text), width, most=8)
            lines += [layout.painted(first, "dim", color) + pieces[0][len(first) :], *pieces[1:]]
    return lines


def _ends(row: Row) -> str:
    """Both ends of the interval, and the best round where it is far from the median."""
    ends = words.ends(row.summary, row.result.unit) if _has_ends(row) else ""
    best = f"best {words.quantity(row.summary.best, row.result.unit)}" if words.best(row) else ""
    return "  ".join(filter(None, (ends, best)))


def _state_line(row: Row) -> str:
    """Of what is not simply measured: state, doubt, reason, and what to do."""
    verdict = row.verdict
    if verdict.state == "measured":
        return ""
    named = ", ".join(filter(None, (words.state(row), doubting.word(row))))
    action = f" → {verdict.action}" if verdict.action else ""
    return f"{named}{f': {verdict.reason}' if verdict.reason else ''}{action}"


REPLACED = {  # Samples.foreign: what ran while a sample was taken that was replaced
    "run_delay": "waited for a processor", "processor": "others used the processors", "process": "another process used the GPU",
    "brake": "power brake or hardware slowdown",
}


def _rounds_line(row: Row) -> str:
    """Rounds used and left out, samples replaced, and why."""
    result, summary = row.result, row.summary
    if not words.numbered(row):
        return ""
    parts = [words.counted(summary.rounds, "round")]
    if result.reason and result.reason != row.verdict.reason:
        parts.append(result.reason)
    replaced = sum(len(one.replaced) for one in result.rounds)
    parts.append(words.counted(summary.samples, "sample") + (f", {replaced} replaced ({_causes(row)})" if replaced else ""))
    if summary.effective is not None and summary.samples >= 20 and summary.effective < DEPENDENT * summary.samples:
        parts.append(f"effective sample size {summary.effective:.0f} (autocorrelated)")
    if summary.outliers > MANY_OUTLIERS * summary.samples >= 1:
        parts.append(words.counted(summary.outliers, "outlier"))
    return "; ".join(parts)


def _causes(row: Row) -> str:
    counts: dict[str, int] = {}
    for one in row.result.rounds:
        for cause, count in one.foreign.items():
            counts[cause] = counts.get(cause, 0) + count
    return ", ".join(f"{REPLACED.get(cause, cause)}: {count}" for cause, count in counts.items()) or "others ran meanwhile"


def _sources(sources: Sources, width: int, color: bool) -> list[str]:
    lines = ["", layout.painted("sources", "bold", color)] if sources.seen else []
    for source, number in sources.seen.items():
        lines += layout.paragraph(f"{f'[{number}]':>6} ", words.clean(source) or "not given", width, most=8)
    return lines


def limit_line(row: Row) -> str:
    """The limit with its value, the share reached and the headroom; the run's own best where no limit is known, or why there is none."""
    gap, limit = row.gap, row.gap.limit
    if gap.share is None or gap.limit_value is None:
        return f"unknown: {limit.reason if limit and limit.reason else 'no figure with a source'}"
    value, setter = words.quantity(gap.limit_value, row.result.unit), words.setter(row)
    if gap.against == "ceiling":
        return f"this run's own best: {value}{f' ({setter})' if setter else ''}, reached {gap.share:.2f} of it; no limit is known"
    reached = ", ".join(filter(None, (f"reached {words.share(gap)}", words.headroom(gap))))
    said = "; ".join(filter(None, (reached, _expected(row))))
    return f"{gap.against} {value}{f', set by {setter}' if setter else ''}; {said}"


def _expected(row: Row) -> str:
    """How a number lies to what the model expects, where it is held against a bound."""
    slower = doubting.slower_than_expected(row)
    if slower is None or row.gap.against != "bound":
        return ""
    return "slower than the model expects" if slower else "at least as fast as the model expects"


def cause_line(row: Row) -> str:
    """The named cause and the reason for it, without the numbers that stand in the line of the limit."""
    cause, why = row.gap.cause.replace("_", " "), words.why(row)
    if row.gap.cause == "at_limit" and not why:
        return ""
    if cause == "unknown" and row.gap.limit and why == row.gap.limit.reason:
        return "" if row.gap.share is None else "unknown"
    return f"{cause}: {why}" if cause and why else cause or why
