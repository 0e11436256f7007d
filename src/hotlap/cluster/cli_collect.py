"""hotlap cluster collect [CAMPAIGN]"""

from __future__ import annotations

import argparse

from hotlap.cluster import asked, cli_run, fanin, session


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Reads every bundle anew, checks it against its digest, and rebuilds the campaign's run from them."""
    kept = asked.chosen(args.campaign)
    with kept.held():
        fanin.reconcile(kept)
        session.collect(kept)
    return cli_run.answered(args, kept)
