"""hotlap show RUN"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import Any

from hotlap.cli import cases, terminal
from hotlap.core import stand_in
from hotlap.core.analysis import commands, fleets
from hotlap.core.errors import InputError
from hotlap.core.record import Row
from hotlap.core.show import commands as showing
from hotlap.core.show import counters, document, export, kinds, lasting, listing, shape, text
from hotlap.core.store.bundle import Bundle

FORMATS = ("text", "markdown", "csv")


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the table")


def run(args: argparse.Namespace) -> int:
    """The table of results of each run."""
    if args.json and args.format != "text":
        raise InputError(f"--json and --format {args.format} are two answers; give one of them")
    analysed = cases.read(args, folded=args.format == "text" and not args.json)
    shown = {bundle.run.id: known for bundle, _ in analysed if (known := kinds.read(bundle))}
    if args.json == shape.SHAPE:
        terminal.print_json(document.of_runs(analysed, {run: _document(known) for run, known in shown.items()}))
        return cases.code(analysed, shown)
    if args.json:
        terminal.print_former([export.to_json(bundle, rows) | _document(shown.get(bundle.run.id)) for bundle, rows in analysed])
        return cases.code(analysed, shown)
    width, color = terminal.width(), terminal.color()
    if args.format == "text" and not shown and _many(analysed):
        print(text.fleet_of_runs(analysed, width, color, shlex.join(args.run)))
        return cases.code(analysed, shown)
    analysed = [one for one in analysed if one[1]] or analysed if args.where else analysed
    headed = kinds.headings(shown.values())
    for number, (bundle, rows) in enumerate(_ordered(analysed, list(headed))):
        if args.format == "markdown":
            print(export.to_markdown(bundle, rows))
        elif args.format == "csv":
            print(export.to_csv(bundle, rows), end="")
        else:
            above = f"{headed[bundle.run.id]}\n" if bundle.run.id in headed else ""
            print("\n" * (number > 0) + above + listing.heading(bundle, rows))
            if bundle.run.id in shown:
                kind, what = shown[bundle.run.id]
                print(kind.text(what, width, color))
                continue
            measured = commands.of(bundle)
            if measured and len(rows) == len(bundle.run.plan.cases):
                print(showing.body(measured, width, color))
                continue
            print(text.table(rows, width, color, bundle.run.id, bundle.run.asked.precision if bundle.run.asked else None))
            for line in lasting.lines(rows, bundle.run.asked, width):
                print(line)
            few = len({row.device for row in rows}) <= fleets.MANY
            if few and (counted := counters.table(rows, width, color)):
                print(f"\n{counted}")
    return cases.code(analysed, shown)


def _ordered(analysed: Sequence[tuple[Bundle, Sequence[Row]]], headed: Sequence[str]) -> Sequence[tuple[Bundle, Sequence[Row]]]:
    """What sums up others first, then those in its order."""
    places = {run: place for place, run in enumerate(headed)}
    return sorted(analysed, key=lambda one: (not kinds.sums_up(one[0].run.kind), places.get(one[0].run.id, len(places))))


def _many(analysed: Sequence[tuple[Bundle, Sequence[Row]]]) -> bool:
    """Whether several runs together have more devices than a table each is of use for."""
    if len(analysed) < 2 or any(stand_in.of_run(bundle.run) or commands.of(bundle) for bundle, _ in analysed):
        return False
    return cases.many(analysed)


def _document(known: tuple[kinds.Kind, Any] | None) -> dict[str, Any]:
    return known[0].document(known[1]) if known else {}
