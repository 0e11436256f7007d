"""Below a table of results: whether rates last, and which calls miss their deadline."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.analysis import lasting
from hotlap.core.analysis.lasting import MissedDeadlines, SustainedRate
from hotlap.core.record import MeasureOptions, Row
from hotlap.core.show import layout, words
from hotlap.core.show.notices import span

MOST = 12  # rows of each; JSON has all
FOLDED = 4  # cases with one answer, that are a line together
APART = 0.01  # of the ratio, that the medians may miss it by without a word
CALLED = {"holds": "it holds", "falls": "it falls", "rises": "it rises", "inconclusive": "inconclusive"}


def entries(rows: Sequence[Row], asked: MeasureOptions | None) -> dict[str, list[tuple[str, str]]]:
    """Of what was asked for, sustained or deadline, each case and its answer; nothing where none was, or nothing was measured."""
    some = [row for row in rows if row.result.values]
    if asked is None or not some:
        return {}
    found = {"sustained": [(row.label, _rate(row)) for row in some]} if asked.sustain_s else {}
    return found | ({"deadline": [(row.label, _missed(row, asked.deadline_s)) for row in some]} if asked.deadline_s else {})


def lines(rows: Sequence[Row], asked: MeasureOptions | None, width: int) -> list[str]:
    """The same for a terminal, where cases with one answer are a line."""
    shown: list[str] = []
    for name, cases in entries(rows, asked).items():
        cases = _folded(rows) if name == "sustained" else cases
        for place, (label, answer) in enumerate(cases[:MOST]):
            shown += layout.paragraph(f"{name if not place else '':<9} ", f"{label}: {answer}", width)
        if len(cases) > MOST:
            shown.append(f"{'':<10}and {len(cases) - MOST} more: --json has all")
    return ["", *shown] if shown else []


def _folded(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Cases with their answer; those that have one in common together, by the range of their ratios."""
    some = [(row, lasting.sustained(row.result)) for row in rows if row.result.values]
    lines = []
    for answer in CALLED:
        alike = [(row, found) for row, found in some if isinstance(found, SustainedRate) and found.ratio and found.answer == answer]
        if len(alike) >= FOLDED:
            which = f"all {len(some)} cases" if len(alike) == len(some) else f"{len(alike)} of {len(some)} cases"
            lines.append((which, _range([found for _, found in alike])))
        else:
            lines += [(row.label, _rate(row)) for row, _ in alike]
    return [*lines, *((row.label, _rate(row)) for row, found in some if isinstance(found, str) or not found.ratio)]


def _range(rates: Sequence[SustainedRate]) -> str:
    """One answer of several rates."""
    middle = span([rate.ratio or 0.0 for rate in rates], "{:.3g}".format)
    ends = [end for rate in rates for end in (rate.low, rate.high) if end is not None]
    return f"{CALLED[rates[0].answer]}, × {middle}" + (f" (intervals from {min(ends):.3g} to {max(ends):.3g})" if ends else "")


def _rate(row: Row) -> str:
    found = lasting.sustained(row.result)
    if isinstance(found, str):
        return f"not judged: {found}"
    unit = words.unit_of(row)
    answer = _answer(found) + _medians_apart(found, row.result.better)
    return f"{words.quantity(found.first, unit)} at first, {words.quantity(found.last, unit)} at last: {answer}; {_steady(found)}"


def _medians_apart(rate: SustainedRate, better: str) -> str:
    """That the two medians say something else than the ratio, which is of all rounds."""
    if rate.ratio is None or not rate.first or not rate.last:
        return ""
    medians = rate.last / rate.first if better == "higher" else rate.first / rate.last
    return f", of all rounds; the medians say × {medians:.3g}" if abs(medians / rate.ratio - 1) > APART else ""


def _answer(rate: SustainedRate) -> str:
    if rate.ratio is None or rate.low is None or rate.high is None:
        return "no interval of their ratio"
    return f"{CALLED[rate.answer]}, × {rate.ratio:.3g} ({rate.low:.3g} to {rate.high:.3g})"


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
