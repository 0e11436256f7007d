"""hotlap model machines [NAME]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.model import machines
from hotlap.core.show import listing


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="one machine, with its sources")


def run(args: argparse.Namespace) -> int:
    """The machine table: what is known of each GPU, unknown left blank."""
    names = [args.name] if args.name else machines.names()
    specs = [machines.load(name) for name in names]
    if args.json:
        terminal.answer(args.json, [machines.facts(spec) for spec in specs], "machines")
    elif args.name:
        print(listing.machine(specs[0], terminal.width()))
    else:
        print(listing.machines(specs, terminal.width(), color=terminal.color()))
    return 0
