"""hotlap cluster accept retest NODE"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import msgspec

from hotlap.bringup import accept_folder, cli_accept, cli_accept_run
from hotlap.bringup.accept_driver import AcceptDriver
from hotlap.bringup.accept_record import PATH, AcceptEvent, NodeStanding
from hotlap.core.errors import InputError, nearest
from hotlap.core.store import paths


def add(parser: argparse.ArgumentParser) -> None:
    add_node(parser)
    parser.add_argument("--repair", default="", metavar="TEXT", help="what was done to it; stays in the ledger")


def add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", help="which node")
    cli_accept.add_which(parser, "--of")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 the node is accepted, 1 it failed again, 3 evidence is missing, 130 interrupted."""
    return changed(args, lambda now: _asked(args.repair, now), True)


def changed(args: argparse.Namespace, event_of: Callable[[NodeStanding], AcceptEvent], measures: bool) -> int:
    """A person's event of a node; then, where it `measures`, that node's steps. Raises InputError for a node that is not there."""
    folder = accept_folder.chosen(paths.home(), args.of)
    if args.node not in folder.plan.nodes:
        raise InputError(f"the acceptance {folder.plan.name} has no node '{args.node}'; {nearest(args.node, folder.plan.nodes)}")
    interrupted = False
    with folder.held():
        steps = folder.steps()
        max_out = steps[-1].head.max_out if steps else folder.plan.max_out
        AcceptDriver(folder, cli_accept_run.measurer(folder), max_out).settle()
        event = event_of(folder.standings()[args.node])
        folder.append(msgspec.structs.replace(event, number=len(folder.events()) + 1))
        if measures:
            interrupted = cli_accept_run.driven(folder, max_out, frozenset([args.node]))
    content = cli_accept.seen(folder)
    state = content.standings[args.node].state
    code = 0 if state in ("accepted", "spare") or not measures else 3 if state in PATH else 1
    return cli_accept.answered(args, content, cli_accept_run.INTERRUPTED if interrupted else code)


def _asked(repair: str, now: NodeStanding) -> AcceptEvent:
    """A node that is out, suspected or lost goes on: what failed first, then its whole path."""
    if now.state == "lost":
        return cli_accept_run.person(now, "expected", repair)
    if now.state not in ("suspect", "retest", "quarantined", "rejected"):
        raise InputError(f"{now.node} is {now.state}: there is nothing to try again; valid: a suspect, quarantined, rejected or lost node")
    return cli_accept_run.person(now, "retest", repair)
