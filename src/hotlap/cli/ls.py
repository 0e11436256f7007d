"""hotlap ls [SELECTOR …]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.show import listing
from hotlap.core.store import bundle, paths, select


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a day, a path …")


def run(args: argparse.Namespace) -> int:
    """One line per run, newest last."""
    found = select.entries(args.run, paths.home())
    if args.json:
        terminal.print_json([bundle.read_run(one.path) for one in found])
    else:
        print(listing.runs([one.listed or bundle.load(one.path).listed for one in found], terminal.width(), color=terminal.color()))
    return 0
