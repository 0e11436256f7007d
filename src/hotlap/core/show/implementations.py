"""What `compare --by implementation` prints: a line per case, a column per implementation, and how right each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from hotlap.core.analysis.implementations import Beside, ImplementationEntry
from hotlap.core.record import Comparison
from hotlap.core.show import layout, sides, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.comparison import ANSWER_STYLES, allowances, interval
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent
from hotlap.core.work import label

SIGNS = {"inconclusive": " ?", "same": " =", "faster": "", "slower": ""}


def beside(cases: Sequence[Beside], width: int, color: bool) -> str:
    """Speed with the ratio to the first implementation (above 1 is better), a mark for right or wrong; then a line for each."""
    names = list(dict.fromkeys(one.implementation for case in cases for one in case.entries))
    entries = [{one.implementation: one for one in case.entries} for case in cases]
    columns = [Column("case", [Cell(words.clean(label(case.case))) for case in cases], wrap=True)]
    columns += [Column(words.clean(name), [_cell(row.get(name)) for row in entries]) for name in names]
    grid = layout.fitted(columns, width)
    lines = grid.lines(color) if grid.narrowest <= width else _stacked(cases, width)
    lines.append("")
    for name in names:
        lines += layout.paragraph(f"  {name:<{max(map(len, names))}}  ", _about([row[name] for row in entries if name in row]), width)
    compared = [one.comparison for case in cases for one in case.entries if one.comparison and one.comparison.ratio is not None]
    lines += allowances(compared, width, sides=words.clean(" and ".join(names)))
    reading = f"× is the speedup over {names[0]}, above 1 is faster, whichever way the metric points; ? inconclusive, = the same; "
    reading += "it is of the rounds, and (medians …) what the two numbers give where that is far from it; ✓ right in every round, ✗ wrong, "
    reading += "– not measured"
    return "\n".join([*lines, *layout.paragraph("", reading, width)])


def _cell(entry: ImplementationEntry | None) -> Cell:
    if entry is None:
        return Cell()
    if entry.median is None:
        return Cell(words.DASH, "dim") if entry.status == "not_run" else Cell(f"✗ {words.STATES.get(entry.status, entry.status)}", "bad")
    answer = entry.comparison
    ratio = f"  {answer.ratio:.2f} ×{SIGNS.get(answer.answer, '')}{_of_medians(answer)}" if answer and answer.ratio else ""
    style = ANSWER_STYLES[answer.answer] if answer and answer.ratio else ""
    return Cell(f"{words.quantity(entry.median, entry.unit)}{ratio} {'✓' if entry.status == 'measured' else '✗'}", style)


def _of_medians(comparison: Comparison) -> str:
    """Their ratio, where the two medians in the row say another one than the rounds."""
    first, second = comparison.a.median, comparison.b.median
    if not sides.of_medians(comparison) or not first or not second:
        return ""
    return f" (medians {first / second if comparison.better == 'lower' else second / first:.2f} ×)"


def _stacked(cases: Sequence[Beside], width: int) -> list[str]:
    """Where columns have no room: a line per implementation under its case."""
    lines: list[str] = []
    for case in cases:
        lines += layout.paragraph("", words.clean(label(case.case)), width)
        room = max(len(one.implementation) for one in case.entries)
        lines += [f"  {one.implementation:<{room}}  {_cell(one).text}" for one in case.entries]
    return lines


def _about(entries: Sequence[ImplementationEntry]) -> str:
    """How many are right, how near the bound of the error the worst is, whether bits repeat, and why others have no number."""
    right = [one for one in entries if one.status == "measured"]
    ran = [one for one in entries if one.status != "not_run"]
    parts = [f"{len(right)} of {len(ran)} right"] if ran else []
    parts += [f"{len(entries) - len(ran)} not run"] if len(ran) < len(entries) else []
    if errors := [one.error for one in right if one.error is not None]:
        parts.append(f"error at most {percent(max(errors))} of what is allowed")
    if seen := [one.deterministic for one in right if one.deterministic is not None]:
        parts.append("the same bits each time" if all(seen) else "other bits each time")
    answers: dict[str, int] = {}
    for one in entries:
        if one.comparison is not None and one.comparison.ratio is not None:
            answers[one.comparison.answer] = answers.get(one.comparison.answer, 0) + 1
    parts += [f"{count} {answer}" for answer, count in answers.items()]
    sure = [f"{interval(one.comparison.low, one.comparison.high)}" for one in right if one.comparison and one.comparison.low is not None]
    parts += [f"95 % interval of the speedup {sure[0]}"] if len(sure) == 1 else []
    noticed = dict.fromkeys(noticing.named(notice.code) for one in right for notice in one.notices if noticing.named(notice.code))
    parts += [", ".join(noticed)] if noticed else []
    unsure = [one.comparison.reason for one in right if one.comparison and one.comparison.answer == "inconclusive"]
    parts += list(dict.fromkeys(filter(None, unsure)))
    reasons = dict.fromkeys(one.reason for one in entries if one.status != "measured" and one.reason)
    return words.clean("; ".join([*parts, *reasons]))


def document(cases: Sequence[Beside]) -> list[Mapping[str, object]]:
    """The same for --json=2."""
    names = [one.name for one in fields(ImplementationEntry) if one.name not in ("low", "high", "rows")]
    return [{"case": one.case, "implementations": [{name: getattr(own, name) for name in names} for own in one.entries]} for one in cases]
