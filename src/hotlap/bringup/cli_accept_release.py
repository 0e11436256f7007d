"""hotlap cluster accept release NODE --reason TEXT"""

from __future__ import annotations

import argparse

from hotlap.bringup import cli_accept_retest, cli_accept_run
from hotlap.bringup.accept_record import AcceptEvent, NodeStanding
from hotlap.core.errors import InputError

TARGETS = ("accepted", "spare", "rejected", "quarantined", "expected")


def add(parser: argparse.ArgumentParser) -> None:
    cli_accept_retest.add_node(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stays in the ledger and beside the state in every table")
    parser.add_argument("--to", default="accepted", choices=TARGETS, help="its state from now on (default: accepted)")


def run(args: argparse.Namespace) -> int:
    """A decision without evidence. Raises InputError without a reason."""
    return cli_accept_retest.changed(args, lambda now: _decided(args, now), False)


def _decided(args: argparse.Namespace, now: NodeStanding) -> AcceptEvent:
    if not args.reason or args.reason.isspace():
        lacks = f"to make it {args.to} without evidence needs a reason; give --reason TEXT, which stays in the ledger"
        raise InputError(f"{now.node} is {now.state}: {lacks}")
    return cli_accept_run.person(now, args.to, args.reason, override=True)
