"""What `bench` prints and writes of commands: a table, how they compare, what to know first; Markdown; and the JSON of hyperfine."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hotlap.core.analysis.commands import BUSY, DIFFERENCE, MIN_EFFECT, CommandRow, MeasuredCommands
from hotlap.core.record import Comparison, Notice
from hotlap.core.show import comparison, layout, listing, sides, table, words
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.units import show

SPARE = ("system", "user", "min … max", "mean ± σ")  # columns that go first where there is no room


def text(measured: MeasuredCommands, width: int = 100, color: bool = False) -> str:
    """What `bench` prints: which run it is, and `body`."""
    how = ["in turns" if measured.in_turns else "one after another"] if len(measured.rows) > 1 else []
    head = " · ".join([measured.run.id, words.counted(len(measured.rows), "command"), *how, listing.ending(measured.run)])
    return f"{head}\n\n{body(measured, width, color)}"


def body(measured: MeasuredCommands, width: int = 100, color: bool = False) -> str:
    """The table, a line for each comparison, and notices."""
    several = len(measured.rows) > 1
    lines = layout.fitted(_columns(measured), width, SPARE).lines(color)
    if measured.comparisons:
        lines.append("")
    for sentence in compared(measured):
        lines += layout.paragraph("", ": ".join(sentence), width, most=None)
    lines += [line for notice in _notices(measured) for line in layout.paragraph("notice  ", notice, width, None)]
    reading = "median ± 95 % interval over runs, each a fresh process; mean ± standard deviation"
    reading += "; A and B are interleaved (A B B A)" if several and measured.in_turns else ""
    reading += f". {_unequal(measured)}" if _unequal(measured) else ""
    reading += f". {_deciding(measured)}" if measured.comparisons else ""
    pieces = layout.paragraph("", f"{reading}.", width, most=None)
    return "\n".join([*lines, "", *(layout.painted(piece, "dim", color) for piece in pieces)])


def _unequal(measured: MeasuredCommands) -> str:
    """Why commands that were measured in turns have different numbers of runs, and which runs are compared; "" where they do not."""
    counts = [row.summary.rounds for row in measured.rows]
    if len(set(counts)) < 2 or not measured.in_turns or (measured.run.bench and measured.run.bench.planned):
        return ""
    why = "each command is run as often as fits 3 s by its first execution, 10 times (--min-runs) at least; --runs N gives each N"
    pairs = dict.fromkeys(str(one.n_a) for one in measured.comparisons)
    return f"{why}; the change is estimated from the {' and '.join(pairs)} pairs of runs in the same turn" if pairs else why


def _deciding(measured: MeasuredCommands) -> str:
    planned = measured.run.bench.planned if measured.run.bench else None
    return comparison.deciding(planned.difference, planned.min_effect) if planned else comparison.deciding(DIFFERENCE, MIN_EFFECT, False)


def _columns(measured: MeasuredCommands) -> list[Column]:
    rows = measured.rows
    marks = [f"{row.name}  " if len(rows) > 1 else "" for row in rows]
    return [
        Column("command", [Cell(mark + words.clean(row.command)) for mark, row in zip(marks, rows, strict=True)], wrap=True),
        Column("time", [Cell(words.quantity(row.summary.median, "s"), "bold") for row in rows], point=True),
        Column("± 95 %", [Cell(words.of_interval(row.summary, "s").replace("1 round", "1 run")) for row in rows], point=True),
        Column("mean ± σ", [Cell(_mean(row)) for row in rows], right=True),
        Column("min … max", [Cell(_span(row)) for row in rows], right=True),
        Column("user", [Cell(show(row.user_s, "s", 2), "dim") for row in rows], right=True),
        Column("system", [Cell(show(row.system_s, "s", 2), "dim") for row in rows], right=True),
        Column("runs", [Cell(str(row.summary.rounds)) for row in rows], right=True),
    ]


def _mean(row: CommandRow) -> str:
    mean = words.quantity(row.mean_s, "s")
    if row.stddev_s is None:
        return mean
    number, _, unit = mean.partition(" ")
    return f"{number} ± {words.in_unit_of(row.stddev_s, row.mean_s, 's', 2).partition(' ')[0]} {unit}"


def _span(row: CommandRow) -> str:
    near = row.most_s < 100 * row.least_s
    least = words.in_unit_of(row.least_s, row.most_s, "s") if near else words.quantity(row.least_s, "s")
    return f"{least} … {words.quantity(row.most_s, 's')}"


def compared(measured: MeasuredCommands) -> list[tuple[str, str]]:
    """Of each comparison the answer, and what it rests on."""
    return [_compared(measured.rows[0], row, one) for row, one in zip(measured.rows[1:], measured.comparisons, strict=False)]


def _compared(a: CommandRow, b: CommandRow, compared: Comparison) -> tuple[str, str]:
    first, name = a.name, b.name
    change = sides.sides(compared)
    reason = f" ({words.clean(compared.reason)})" if compared.reason else ""
    if compared.ratio is None:
        return f"{name} vs {first}", f"not known{reason}"
    undecided = {"same": f"{name} takes as long as {first}", "inconclusive": f"{name} vs {first}: inconclusive"}
    answer = undecided.get(compared.answer) or f"{name} is {comparison.answer(compared)} than {first}"
    interval = f", 95 % interval {change.interval}" if change.interval else ""
    shown = replace(compared, a=a.summary, b=b.summary)  # the pairs may be fewer than the runs in the table
    medians = f" ({beside})" if (beside := sides.of_medians(shown)) else ""
    return answer, f"time {change.change}{medians}{interval}{reason}"


def _notices(measured: MeasuredCommands) -> list[str]:
    lines = [f"{f'{row.name}: ' if len(measured.rows) > 1 else ''}{_text(notice)}" for row in measured.rows for notice in row.notices]
    for row, one in zip(measured.rows[1:], measured.comparisons, strict=False):
        told = (one.a.median, one.b.median) == (measured.rows[0].summary.median, row.summary.median)  # else no figure of the table
        lines += [notice.text for notice in one.notices if told or notice.code != "medians_apart"]
    if not measured.in_turns:
        lines.append("--setup differs between the commands, so they were measured one after another: drift looks like a difference")
    if (measured.others or 0.0) > BUSY:
        lines.append(f"other programs used {measured.others:.1f} processors meanwhile: times are upper limits")
    return list(dict.fromkeys(lines))


def _text(notice: Notice) -> str:
    return {
        "slow_first_run": f"{notice.seen} (files not cached yet?); {notice.action} leaves it out",
        "outliers": f"{notice.seen}: other programs may have run; --warmup or --prepare may help",
    }.get(notice.code, notice.text)


def markdown(measured: MeasuredCommands) -> str:
    """A table as hyperfine's: the command as code, times, and the change against the first."""
    changes = ["", *map(_change, measured.comparisons)]
    rest = [column for column in _columns(measured)[1:] if column.head not in ("user", "system")]
    against = [Column(f"vs {measured.rows[0].name}", [Cell(change) for change in changes], right=True)] if measured.comparisons else []
    names = [Cell(words.clean(row.command), code=True) for row in measured.rows]
    return "\n".join(table.markdown(Table([Column("command", names), *rest, *against]))) + "\n"


def _change(compared: Comparison) -> str:
    """The change with its interval, and what is not certain of it."""
    if compared.ratio is None:
        return words.DASH
    change = sides.sides(compared)
    interval = f" {change.interval}" if change.interval else ""
    return f"{change.change}{interval}{', inconclusive' if compared.answer == 'inconclusive' else ''}"


def csv(measured: MeasuredCommands) -> str:
    """As hyperfine's: a line per command, in seconds."""
    return table.csv(Table([
        Column(key, [Cell(value=record[key]) for record in map(record, measured.rows)])
        for key in ("command", "mean", "stddev", "median", "user", "system", "min", "max")
    ]))


def record(row: CommandRow) -> dict[str, Any]:
    """One result in the shape of hyperfine's JSON (version 1.15), with the interval of the median beside it."""
    return {
        "command": row.command, "mean": row.mean_s, "stddev": row.stddev_s, "median": row.summary.median, "user": row.user_s,
        "system": row.system_s, "min": row.least_s, "max": row.most_s, "times": row.times_s, "exit_codes": row.exit_codes,
        "parameters": row.parameters, "low": row.summary.low, "high": row.summary.high,
    }


def to_json(measured: MeasuredCommands) -> dict[str, Any]:
    """`results` as hyperfine's, then what Hotlap knows more."""
    return {
        "results": [record(row) for row in measured.rows], "run": measured.run.id, "stops": measured.run.stops,
        "comparisons": list(measured.comparisons),
    }
