"""Below a table of results: whether rates last, and which calls miss their deadline."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.analysis import lasting
from hotlap.core.analysis.lasting import MissedDeadlines, SustainedRate
from hotlap.core.record import MeasureOptions, Row
from hotlap.core.show import layout, words

MOST = 12  # rows of each; JSON has all


def entries(rows: Sequence[Row], asked: MeasureOptions | None) -> dict[str, list[tuple[str, str]]]:
    """Of what was asked for, sustained or deadline, each case and its answer; nothing where none was, or nothing was measured."""
    some = [row for row in rows if row.result.values]
    if asked is None or not some:
        return {}
    found = {"sustained": [(row.label, _rate(row)) for row in some]} if asked.sustain_s else {}
    return found | ({"deadline": [(row.label, _missed(row, asked.deadline_s)) for row in some]} if asked.deadline_s else {})


def lines(rows: Sequence[Row], asked: MeasureOptions | None, width: int) -> list[str]:
    """The same for a terminal."""
    shown: list[str] = []
    for name, cases in entries(rows, asked).items():
        for place, (label, answer) in enumerate(cases[:MOST]):
            shown += layout.paragraph(f"{name if not place else '':<9} ", f"{label}: {answer}", width)
        if len(cases) > MOST:
            shown.append(f"{'':<10}and {len(cases) - MOST} more: --json has all")
    return ["", *shown] if shown else []


def _rate(row: Row) -> str:
    found = lasting.sustained(row.result)
    if isinstance(found, str):
        return f"not judged: {found}"
    unit = row.result.unit
    return f"{words.quantity(found.first, unit)} at first, {words.quantity(found.last, unit)} at last: {_answer(found)}; {_steady(found)}"


def _answer(rate: SustainedRate) -> str:
    if rate.ratio is None or rate.low is None or rate.high is None:
        return "no interval of their ratio"
    called = {"holds": "it holds", "falls": "it falls", "rises": "it rises", "inconclusive": "inconclusive"}[rate.answer]
    return f"{called}, × {rate.ratio:.3g} ({rate.low:.3g} to {rate.high:.3g})"


def _steady(rate: SustainedRate) -> str:
    if rate.steady_s is None:
        return f"not steady after {units.show(rate.seconds, 's')}"
    return f"steady from {units.show(rate.steady_s, 's')} on" if rate.steady_s else "steady from the start"


def _missed(row: Row, deadline_s: float) -> str:
    found: MissedDeadlines = lasting.deadlines(row.result, deadline_s)
    if found.reason or found.share is None or found.low is None or found.high is None:
        return f"not judged: {found.reason}"
    share = f"{units.percent(found.share)} ({units.percent(found.low)} to {units.percent(found.high)})"
    streak = f", at most {found.streak} in a row" if found.missed else ""
    return f"{share} of {found.calls} calls missed {units.show(deadline_s, 's')}{streak}"
