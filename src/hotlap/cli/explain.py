"""hotlap explain RUN"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    where = "only these cases: a workload, device or parameter"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)


def run(args: argparse.Namespace) -> int:
    """Each number against its limit, the headroom and its named cause, and where each term comes from."""
    from hotlap.report import export, listing, tables, text

    where = terminal.pairs(args.where, "a filter")
    found = [(b, tables.rows(b, where)) for b in terminal.runs(args.run)]
    if args.json:
        terminal.print_json([export.to_json(b, rows) for b, rows in found])
        return 0
    for bundle, rows in found:
        print(listing.heading(bundle))
        print(text.explain(rows, terminal.width(), color=terminal.color()))
    return 0
