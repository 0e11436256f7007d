"""What verbs share that read cases: which runs, and which of their cases."""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.record import Row
from hotlap.report import tables
from hotlap.store import bundle as bundles


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that read cases: which runs, and which of their cases."""
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    where = "only these cases: a workload, device or parameter"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)


def read(args: argparse.Namespace) -> list[tuple[bundles.Bundle, list[Row]]]:
    """The runs asked for, each with its rows."""
    where = terminal.pairs(args.where, "a filter")
    return [(bundle, tables.rows(bundle, where)) for bundle in terminal.runs(args.run)]
