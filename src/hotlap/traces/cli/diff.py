"""hotlap trace diff A B"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.traces import diff
from hotlap.traces.show import diff as printing
from hotlap.traces.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a trace")
    parser.add_argument("b", metavar="B", help="another of the same program: what changed from A to B")
    about = f"kernels or operators to list (default: {printing.MOST})"
    parser.add_argument("--most", type=int, default=printing.MOST, metavar="N", help=about)
    parser.add_argument("--no-cache", action="store_true", help="do not keep the columns of large files")


def run(args: argparse.Namespace) -> int:
    """What changed, summed to the whole. Exit code 0 whatever it is: a difference of two recordings is no verdict."""
    if args.most < 1:
        raise InputError(f"--most {args.most}: list at least 1")
    found = diff.diff(*(Timeline.open(Path(file), cache=not args.no_cache) for file in (args.a, args.b)))
    if args.json:
        terminal.answer(args.json, found)
    else:
        print(printing.diff(found, terminal.width(), terminal.color(), args.most))
    return 0
