"""How each number was obtained, in words and case by case: what makes a number worth believing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hotlap.core.record import BLOCK, Row
from hotlap.core.show import words
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import Cell, Column, Table, html, text
from hotlap.core.work import traits

METHODS = {  # what a method id of a sample means
    "event-batch": "device events around a batch of calls, divided by their number",
    "event-single": "device events around one call",
    "event-graph": "device events around one replay of a recorded batch",
    "event-queued-single": "device events around one call, enqueued behind the flush of the caches without a wait",
    "event-queued-graph": "the same around one replay of a recorded call",
    "wall-batch": "the wall clock around a batch of calls that were waited for, divided by their number",
    "wall-single": "the wall clock around one call that was waited for",
    "wall-graph": "the wall clock around one replay of a recorded batch",
    BLOCK: "a number of one block of requests: the median of a latency over it, or output tokens a second",
    "program": "a number that the program itself gave, or the time it took",
}


METHOD = (
    "A round is a fresh process that runs every case once, in random order. Buffers are touched and warmed up before anything is "
    "timed; what came before the steady state is dropped and counted. A sample is a batch of calls, long enough that the timer’s "
    "resolution does not matter; the cost of timing an empty batch is taken off. The number shown is the median of the rounds’ "
    "medians, and its interval comes from order statistics over rounds, with no assumption about the distribution. Every result is "
    "checked against a reference on fresh random input."
)


INTERVAL = (
    "The number shown is the median over rounds, and its interval comes from order statistics, with no assumption about the distribution."
)
IMPORTED = f"Another tool measured these numbers, and Hotlap read its file: each process that the file tells apart is a round. {INTERVAL}"
PROGRAMS = (
    "Each round starts the program anew; the sample is its wall time, or the number that it prints. "
    f"{INTERVAL} Hotlap does not check what a program computes."
)


BLOCKS = (
    "A round is a block of requests to the server, in turns with a block to the other server of the comparison, with the same arrivals and "
    "prompts that no block had before. Latencies count from when a request was due; requests that warm a block up are left out, and a "
    f"block in which the client was late or starved does not count. {INTERVAL} What the test of both sides says: hotlap compare."
)


def _html(report: Report) -> str:
    of_kinds = dict.fromkeys(kind.METHOD for kind, _ in report.known.values() if kind.METHOD)
    measured = description(report.rows) + report.each(lambda side: table(side.rows)) if report.measured else ""
    return "".join(f"<p>{text}</p>" for text in of_kinds) + measured


SECTION = ReportSection("Method", "How each number was obtained", _html)


ABOUT = (
    "Calls: in one sample. Dropped: samples of the warm-up. Timer ÷ wall: device events against the wall clock over the same batches. "
    "Overhead: taken off each sample."
)


def table(rows: Sequence[Row]) -> str:
    """How each number was obtained, case by case."""
    measured = [row for row in rows if row.result.rounds]
    shown = [(row.label, *_method(row)) for row in measured]
    columns = [
        Column(head, [Cell(cells[place]) for cells in shown], right=right, names=not place) for place, (head, right) in enumerate(HEADS)
    ]
    if any(eager_s(row) is not None for row in measured):
        columns.append(Column("Eager", [Cell(words.quantity(eager_s(row), "s")) for row in measured], right=True))
    return f'{html(Table(columns), "method")}<p class="note">{ABOUT}</p>'


HEADS = (
    ("Case", False), ("Method", False), ("Calls", True), ("Samples", True), ("Rounds", True), ("Dropped", True), ("Timer ÷ wall", True),
    ("Overhead", True), ("Variant", False), ("Check", False),
)


def eager_s(row: Row) -> float | None:
    """Of a call that the host enqueued by itself, where the value is of a recorded graph because the host's part rules."""
    known = [one.eager_s for one in row.result.used if one.eager_s is not None]
    return median(known) if known else None


def _method(row: Row) -> tuple[str, ...]:
    rounds = [one for one in row.result.rounds if one.values]
    ratios = [one.wall_ratio for one in rounds if one.wall_ratio is not None]
    checks = row.result.checks
    return (
        ", ".join(dict.fromkeys(one.method for one in rounds)), _span([one.calls for one in rounds]),
        str(sum(len(one.values) for one in rounds)), str(len(rounds)), str(sum(one.warmup_samples for one in rounds)),
        f"{median(ratios):.4f}" if ratios else words.DASH,
        words.quantity(median(one.overhead_s for one in rounds), "s") if rounds else words.DASH,
        ", ".join(dict.fromkeys(one.variant for one in rounds if one.variant)) or words.DASH,
        f"{sum(c.passed for c in checks)} of {len(checks)}: {checks[0].what}" if checks else words.DASH,
    )


def _span(values: Sequence[int]) -> str:
    if not values:
        return words.DASH
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def description(rows: Sequence[Row]) -> str:
    """The method in a few sentences, of what was used."""
    used = sorted({one.method for row in rows for one in row.result.rounds if one.method})
    items = "".join(f"<dt><code>{text(name)}</code></dt><dd>{text(METHODS.get(name, 'not known to this version'))}</dd>" for name in used)
    return f"<p>{_method_text(rows)}</p><dl>{items}</dl>"


def _method_text(rows: Sequence[Row]) -> str:
    if rows and all(row.result.imported for row in rows):
        return IMPORTED
    if words.of_blocks(rows):
        return BLOCKS
    return PROGRAMS if rows and all(traits(row.case.workload).source == "program" for row in rows) else METHOD
