"""The table of results: all columns for one side, the essential ones side by side for several."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.analysis.rates import is_aggregate
from hotlap.core.record import Row
from hotlap.core.show import results, table, words
from hotlap.core.show.sections.base import Report, ReportSection, Side
from hotlap.core.show.table import text


def _html(report: Report) -> str:
    """What was not run stands below."""
    sides = report.measured
    if not sides:
        return ""
    shown = table.html(results.table(_run(sides[0].rows)), "stack results") if len(sides) == 1 else _several(sides)
    return f"{shown}{_not_run(report.rows)}{_reading(report.rows)}"


SECTION = ReportSection("Results", "Results", _html)


def _run(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.verdict.state != "not_run"]


def _several(sides: Sequence[Side]) -> str:
    heads = "".join(f'<th class="group" colspan="3">{text(side.name)}</th>' for side in sides)
    columns = '<th class="first">Value</th><th>± 95 %</th><th>Of limit</th>' * len(sides)
    lines = [f'<thead><tr><th rowspan="2">Case</th>{heads}</tr><tr>{columns}</tr></thead><tbody>']
    by_case = [{row.case.id: (row, *pair) for row, pair in zip(_run(side.rows), _numbers(_run(side.rows)), strict=True)} for side in sides]
    every = {row.case.id: row for side in sides for row in _run(side.rows)}
    for name, members in words.families(every.values()):
        lines.append(f'<tr class="family"><th colspan="{1 + 3 * len(sides)}">{name.capitalize()}</th></tr>')
        for member in members:
            cells = "".join(_cells(found.get(member.case.id)) for found in by_case)
            lines.append(f"<tr><th>{text(member.label)}</th>{cells}</tr>")
    return f'<div class="scroll"><table class="sides">{"".join(lines)}</tbody></table></div>'


def _numbers(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Value and interval of each row, escaped, with decimal points and units that stand under each other."""
    values = table.aligned([words.value(row) for row in rows])
    intervals = table.aligned([words.interval(row) for row in rows])
    return [(table.spaced(value), table.spaced(interval)) for value, interval in zip(values, intervals, strict=True)]


def _cells(pair: tuple[Row, str, str] | None) -> str:
    if pair is None:
        return f'<td class="first of">{words.DASH}</td><td></td><td></td>'
    row, value, interval = pair
    state = row.verdict.state
    marked = f'<span class="state {state}" title="{text(row.verdict.reason)}">{text(results.state(row))}</span>'
    if not words.numbered(row):
        return f'<td class="first">{marked}</td><td></td><td></td>'
    doubt = f" state {state}" if state in ("inconclusive", "invalid") else ""
    number = f"{value} {marked}" if state == "invalid" else value
    held = f'<span class="of">{text(words.of_limit(row))}</span>'
    uncertain = f'<td class="number{doubt}" title="{text(results.state(row))}">{interval}</td>'
    return f'<td class="first number value">{number}</td>{uncertain}<td class="wide">{held}</td>'


def _not_run(rows: Sequence[Row]) -> str:
    """What this target or device cannot run, by reason."""
    without = [row for row in rows if row.verdict.state == "not_run"]
    groups = words.alike(without, lambda row: row.verdict.reason)
    said = "; ".join(f"{text(words.some(list(dict.fromkeys(r.label for r in group)), 6))} ({text(why)})" for group, why in groups)
    return f'<p class="note">Not run: {said}.</p>' if said else ""


def _reading(rows: Sequence[Row]) -> str:
    having = [row for row in rows if words.numbered(row)]
    seen = {row.gap.reference_kind if row.gap.share is not None else "unknown" for row in having}
    kinds = {
        "bound": "<b>bound</b>: the roofline (speed-of-light) limit",
        "expected": "<b>expected</b>: what the model expects of a good implementation",
        "ceiling": "<b>of best</b>: ÷ the best median rate of a case of this run (the best: that case), "
                   "which is nearer than any limit that is known",
        "unknown": f"<b>{words.DASH}</b> of limit: none is known",
    }
    parts = ["<b>±</b>: 95 % interval of the median over rounds, as a share of the median"]
    parts += [f"<b>{sure}</b>: its confidence, with fewer than 6 rounds" for sure in filter(None, [words.confidences(having)])]
    parts += ["<b>best</b>: the best round, in the unit of the value, where they are far apart"] * any(map(words.best, having))
    alone = f"<b>{words.DASH}</b> of ±: one value that stands for many samples, without rounds"
    parts += [alone] * any(is_aggregate(row.result) for row in having)
    parts += [about for kind, about in kinds.items() if kind in seen]
    parts += [text(cached)] if (cached := words.cached(having)) else []
    return f'<p class="note">{"; ".join(parts)}.</p>' if having else ""
