"""Below a table of results: whether rates last, and which calls miss their deadline."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.analysis import lasting
from hotlap.core.analysis.lasting import MissedDeadlines, SustainedRate
from hotlap.core.record import MeasureOptions, Row
from hotlap.core.show import layout, words

MOST = 12  # rows of each; JSON has all


def lines(rows: Sequence[Row], asked: MeasureOptions | None, width: int) -> list[str]:
    """Nothing where neither was asked for, or nothing was measured."""
    if asked is None:
        return []
    shown: list[str] = []
    some = [row for row in rows if row.result.values]
    for name, seconds, text in (("sustained", asked.sustain_s, _rate), ("deadline", asked.deadline_s, _missed)):
        for place, row in enumerate(some[:MOST] if seconds else []):
            shown += layout.paragraph(f"{name if not place else '':<9} ", f"{row.label}: {text(row, seconds)}", width)
        if seconds and len(some) > MOST:
            shown.append(f"{'':<10}and {len(some) - MOST} more: --json has all")
    return ["", *shown] if shown else []


def _rate(row: Row, _: float) -> str:
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
