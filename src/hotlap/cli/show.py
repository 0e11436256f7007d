"""hotlap show RUN"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal

FORMATS = ("text", "markdown", "csv")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the table")
    where = "only these cases: a workload, device or parameter"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)


def run(args: argparse.Namespace) -> int:
    """The table of results of each run."""
    from hotlap.report import export, listing, tables, text

    where = terminal.pairs(args.where, "a filter")
    found = [(b, tables.rows(b, where)) for b in terminal.runs(args.run)]
    if args.json:
        terminal.print_json([export.to_json(b, rows) for b, rows in found])
        return 0
    for number, (bundle, rows) in enumerate(found):
        if args.format == "markdown":
            print(export.to_markdown(bundle, rows))
        elif args.format == "csv":
            print(export.to_csv(bundle, rows), end="")
        else:
            print("\n" * (number > 0) + listing.heading(bundle))
            print(text.table(rows, terminal.width(), color=terminal.color()))
    return 0
