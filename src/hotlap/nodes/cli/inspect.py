"""hotlap node inspect"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.core.record import encode
from hotlap.core.show import shape
from hotlap.nodes.facts import Facts
from hotlap.nodes.inspect import bmc, node
from hotlap.nodes.sensors import bmc_file
from hotlap.nodes.show import audit


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", default="/", metavar="DIR|TARBALL", help="a node's root folder or snapshot (default: this machine)")
    parser.add_argument("--snapshot", metavar="FILE", help="write what this machine shows as a tarball, to be read anywhere")
    parser.add_argument(
        "--redfish", default="", metavar="DIR|TARBALL|TOML", help="firmware and BIOS: a recorded Redfish tree, or a file of its BMC"
    )
    parser.add_argument("--bmc", metavar="FILE", help="the facts that BMCs know instead: a TOML file of [[bmc]] tables, as for watch")
    parser.add_argument("--into", metavar="DIR", help="with --bmc: write the facts of each as DIR/NAME.json, for audit --fleet")
    parser.add_argument("--identifiers", action="store_true", help="keep serial numbers and UUIDs in what is read")
    parser.add_argument("--all", action="store_true", help="also what is not present, with its reason")


def run(args: argparse.Namespace) -> int:
    """The facts of a node by sections; with --json as facts that `audit` reads."""
    if args.into and not args.bmc:
        raise InputError("--into is for --bmc; --snapshot FILE or --json keeps the facts of this node")
    if args.bmc:
        if args.snapshot or args.redfish or args.root != "/":
            raise InputError("--bmc takes no --root, --snapshot and --redfish; for one node with its own BMC give --redfish FILE.toml")
        return _bmcs(args)
    if args.snapshot and (args.root != "/" or args.redfish):
        raise InputError(
            "--snapshot is of this machine: leave --root and --redfish out; a recorded tree is given when the snapshot is read"
        )
    if args.snapshot:
        facts, count = node.snapshot(Path(args.snapshot), args.identifiers)
        print(f"{args.snapshot}: {len(facts.facts)} facts in {count} files", file=sys.stderr)
        if not args.json:
            return 0
    else:
        facts = node.read(args.root, args.redfish, args.identifiers)
    if args.json:
        _printed(args, [facts])
    else:
        print(audit.facts(facts, terminal.width(), terminal.color(), args.all))
    return 0


def _bmcs(args: argparse.Namespace) -> int:
    """Exit code 3 where no BMC could be read."""
    folder = Path(args.into) if args.into else None
    if folder and not folder.is_dir():
        raise InputError(f"there is no folder '{folder}'; make it first")
    found, failed = bmc.read(bmc_file.load(Path(args.bmc)), args.identifiers)
    for name, reason in failed.items():
        print(f"hotlap: left out: {name}: {reason}", file=sys.stderr)
    facts = list(found.values())
    if folder:
        _written(folder, facts)
        print(f"{folder}: facts of {len(facts)} BMCs; {len(failed)} left out", file=sys.stderr)
    if args.json and facts:
        _printed(args, facts)
    elif not folder:
        print("\n\n".join(audit.facts(one, terminal.width(), terminal.color(), args.all) for one in facts))
    return 0 if facts else 3


def _printed(args: argparse.Namespace, nodes: list[Facts]) -> None:
    if args.json == shape.SHAPE:
        terminal.answer(args.json, nodes, "nodes")
    else:
        terminal.print_former(nodes[0] if len(nodes) == 1 else nodes)


def _written(folder: Path, nodes: list[Facts]) -> None:
    used = set[str]()
    for facts in nodes:
        name = re.sub(r"[^\w.-]+", "_", facts.host)
        while name in used:
            name += "_"
        used.add(name)
        try:
            (folder / f"{name}.json").write_bytes(encode(facts))
        except OSError as error:
            raise InputError(f"'{folder}' cannot be written: {error.strerror}") from None
