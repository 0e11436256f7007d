"""hotlap inspect"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.errors import InputError
from hotlap.inspect import node
from hotlap.report import audit


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", default="/", metavar="DIR|TARBALL", help="a node's root folder or snapshot (default: this machine)")
    parser.add_argument("--snapshot", metavar="FILE", help="write what this machine shows as a tarball, to be read anywhere")
    parser.add_argument(
        "--redfish", default="", metavar="DIR|TARBALL", help="a recorded Redfish tree: firmware inventory and BIOS attributes"
    )
    parser.add_argument("--identifiers", action="store_true", help="keep serial numbers and UUIDs in what is read")
    parser.add_argument("--all", action="store_true", help="also what is not present, with its reason")


def run(args: argparse.Namespace) -> int:
    """The facts of a node by sections; with --json as facts that `audit` reads."""
    if args.snapshot and (args.root != "/" or args.redfish):
        raise InputError(
            "--snapshot is of this machine: leave --root and --redfish out; a recorded tree is given when the snapshot is read"
        )
    if args.snapshot:
        found, count = node.snapshot(Path(args.snapshot), args.identifiers)
        print(f"{args.snapshot}: {len(found.facts)} facts in {count} files", file=sys.stderr)
        if not args.json:
            return 0
    else:
        found = node.read(args.root, args.redfish, args.identifiers)
    if args.json:
        terminal.print_json(found)
    else:
        print(audit.facts(found, terminal.width(), terminal.color(), args.all))
    return 0
