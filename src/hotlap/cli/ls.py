"""hotlap ls [SELECTOR …]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.report import listing
from hotlap.store import paths, select


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a day, a path …")


def run(args: argparse.Namespace) -> int:
    """One line per run, newest last."""
    bundles = terminal.runs(args.run) if args.run else select.every(paths.home())
    if args.json:
        terminal.print_json([b.run for b in bundles])
    else:
        print(listing.runs(bundles, terminal.width(), color=terminal.color()))
    return 0
