"""How each number was obtained, in words and case by case: what makes a number worth believing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hotlap.core.record import Row
from hotlap.core.show import words
from hotlap.core.show.sections import text

METHODS = {  # what a method id of a sample means
    "event-batch": "device events around a batch of calls, divided by their number",
    "event-single": "device events around one call",
    "event-graph": "device events around one replay of a recorded batch",
    "wall-batch": "the wall clock around a batch of calls that were waited for, divided by their number",
    "wall-single": "the wall clock around one call that was waited for",
    "wall-graph": "the wall clock around one replay of a recorded batch",
    "program": "a number that the program itself gave, or the time it took",
}


METHOD = (
    "A round is a fresh process that runs every case once, in random order. Buffers are touched and warmed up before anything is "
    "timed; what came before the steady state is dropped and counted. A sample is a batch of calls, long enough that the timer’s "
    "resolution does not matter; the cost of timing an empty batch is taken off. The number shown is the median of the rounds’ "
    "medians, and its interval comes from order statistics over rounds, with no assumption about the distribution. Every result is "
    "checked against a reference on fresh random input."
)


def table(rows: Sequence[Row]) -> str:
    """How each number was obtained, case by case."""
    head = (
        '<th>Case</th><th>Method</th><th class="n">Calls</th><th class="n">Samples</th><th class="n">Rounds</th><th class="n">Dropped</th>'
        '<th class="n">Timer ÷ wall</th><th class="n">Overhead</th><th>Variant</th><th>Check</th>'
    )
    lines = "".join(_method(row) for row in rows if row.result.rounds)
    table = f'<div class="scroll"><table class="method"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    about = (
        "Calls: in one sample. Dropped: samples of the warm-up. Timer ÷ wall: device events against the wall clock over the same batches. "
        "Overhead: taken off each sample."
    )
    return f'{table}<p class="note">{about}</p>'


def _method(row: Row) -> str:
    rounds = [one for one in row.result.rounds if one.seconds]
    ratios = [one.wall_ratio for one in rounds if one.wall_ratio is not None]
    checks = row.result.checks
    passed = f"{sum(c.passed for c in checks)} of {len(checks)}: {checks[0].what}" if checks else words.DASH
    cells = (
        ("", ", ".join(dict.fromkeys(one.method for one in rounds))), ("n", _span([one.calls for one in rounds])),
        ("n", sum(len(one.seconds) for one in rounds)), ("n", len(rounds)), ("n", sum(one.dropped for one in rounds)),
        ("n", f"{median(ratios):.4f}" if ratios else words.DASH),
        ("n", words.quantity(median(one.overhead_s for one in rounds), "s") if rounds else words.DASH),
        ("", ", ".join(dict.fromkeys(one.variant for one in rounds if one.variant)) or words.DASH), ("", passed),
    )
    return f"<tr><th>{text(row.label)}</th>" + "".join(f'<td class="{kind}">{text(value)}</td>' for kind, value in cells) + "</tr>"


def _span(values: Sequence[int]) -> str:
    if not values:
        return words.DASH
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def said(rows: Sequence[Row]) -> str:
    """The method in a few sentences, of what was used."""
    used = sorted({one.method for row in rows for one in row.result.rounds if one.method})
    items = "".join(f"<dt><code>{text(name)}</code></dt><dd>{text(METHODS.get(name, 'not known to this version'))}</dd>" for name in used)
    return f"<p>{METHOD}</p><dl>{items}</dl>"
