"""A trace in Markdown, for an issue or a pull request."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from hotlap.core.show import table, words
from hotlap.core.show.table import Cell, Column, Table, code, plain
from hotlap.core.units import show
from hotlap.traces import mainthread
from hotlap.traces.breakdown import Breakdown
from hotlap.traces.idle import CAUSES
from hotlap.traces.show import answer as trace_answer
from hotlap.traces.show import trace
from hotlap.traces.show.answer import Advised, Answer
from hotlap.traces.show.tables import kernel_columns, limit_columns, operator_columns

KERNELS = 12


def markdown(answer: Answer, kernels: int = KERNELS) -> str:
    """The whole answer for one trace."""
    lines = [f"## {plain(Path(answer.file).name)}", "", " · ".join(map(plain, trace_answer.about(answer))), ""]
    lines += [f"Window: {show(answer.window_s, 's')}, {answer.window}.", ""]
    lines += [f"> Notice: {plain(one.text)}" + (f" ({one.count:,} events)" if (one.count or 0) > 1 else "") for one in answer.notices]
    lines += [""] * bool(answer.notices) + _where(answer) + _steps(answer) + _findings(answer) + _kernels(answer, kernels)
    lines += _limits(answer, kernels)
    return "\n".join(lines).rstrip() + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> list[str]:
    """Words to the left, numbers (heads that begin with a blank) to the right."""
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    columns = [Column(head, [row[n] for row in cells], right=head.startswith(" ")) for n, head in enumerate(heads)]
    return [*table.markdown(Table(columns)), ""]


def _share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _where(answer: Answer) -> list[str]:
    main = answer.main_thread.items()
    host: list[list[str | Cell]] = [[name.replace("_", " "), _share(share), mainthread.PARTS[name]] for name, share in main]
    outside = [(name, share) for name, share in answer.outside.items() if host and share >= 0.01]
    host += [[Cell(name, code=True), _share(share), "of outside"] for name, share in outside]
    spent = _table(["main thread", " of the window", ""], host) if host else []
    if answer.total is None:
        return ["Nothing ran on a device in this trace: shares of a device are not applicable.", "", *spent]
    every: list[Breakdown] = [*answer.breakdown, *([answer.total] if len(answer.breakdown) > 1 else [])]
    rows = [
        [
            "all" if one.device is None else str(one.device), show(one.window_s, "s"), _share(one.compute_share),
            _share(one.exposed_communication_share), _share(one.exposed_copy_share), _share(one.idle_share),
        ]
        for one in every
    ]  # fmt: skip
    lines = _table(["device", " window", " compute", " exposed communication", " exposed copies", " idle"], rows)
    lines += [f"Shares of each device's window, {answer.total.window}.", ""]
    causes = sorted(((share, cause) for cause, share in answer.idle.items() if share >= 0.0005), reverse=True)
    if causes:
        said = [[cause.replace("_", " "), _share(share), CAUSES[cause]] for share, cause in causes]
        lines += _table(["idle because", " share", ""], said)
    for gap in answer.long_gaps:
        lines += [f"One gap: {plain(trace.long_gap(gap, len(answer.breakdown) > 1))}.", ""]
    return lines + spent


def _steps(answer: Answer) -> list[str]:
    if len(answer.steps) < 2:
        return []
    lengths = sorted(one.length_s for one in answer.steps)
    longest = max(answer.steps, key=lambda one: one.length_s)
    slow = [str(one.number) for one in answer.steps if one.slow]
    said = f"{len(lengths)} steps, begin to begin: median {show(statistics.median(lengths), 's')}, longest {show(lengths[-1], 's')}"
    return [f"{said} (step {longest.number})" + (f"; slow: {words.some(slow, 12)}." if slow else "."), ""]


def _findings(answer: Answer) -> list[str]:
    if not answer.findings:
        return ["Nothing found that would gain 2 % or more.", ""]
    lines = ["### What to do, by what it would save of the window", ""]
    for number, one in enumerate(answer.findings, 1):
        lines += _finding(number, one)
    if answer.together is not None and len(answer.findings) > 1:
        lines += ["", trace.together(answer.together, [one.finding for one in answer.findings])]
    return [*lines, ""]


def _finding(number: int, advised: Advised) -> list[str]:
    finding = advised.finding
    lines = [
        f"{number}. **{trace.gain(finding)}: {plain(finding.title)}** ({finding.rule}, confidence {finding.confidence})",
        f"   - {plain(finding.detail)}",
    ]
    if finding.where:
        lines.append(f"   - Where: {code(finding.where)}")
    lines.append(f"   - Do: {plain(finding.action)}")
    return lines + ([f"   - Prove: {code(finding.experiment)}"] if finding.experiment else [])


def _kernels(answer: Answer, most: int) -> list[str]:
    if answer.operators and most > 0:
        return ["### Operators", "", *table.markdown(Table(operator_columns(answer.operators[:most], 80))), ""]
    if not answer.kernels or most <= 0:
        return []
    rest = answer.kernels[most:]
    more = [f"{len(rest)} more take {_share(sum(row.share for row in rest))} of the busy time of kernels.", ""] if rest else []
    return ["### Kernels", "", *table.markdown(Table(kernel_columns(answer.kernels[:most], (80, 60)))), "", *more]


def _limits(answer: Answer, most: int) -> list[str]:
    if not answer.limits or most <= 0:
        return []
    columns = limit_columns(f"on {answer.machine}", answer.limits[:most])
    return ["### Operators against their limits", "", *table.markdown(Table(columns)), ""]
