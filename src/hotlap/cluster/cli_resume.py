"""hotlap cluster resume [CAMPAIGN]"""

from __future__ import annotations

import argparse

from hotlap.cluster import asked, cli_run


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")
    asked.add_fanout(parser)


def run(args: argparse.Namespace) -> int:
    """Every member without a result has another attempt; results that are there stay. Exit codes as of `cluster run`."""
    return cli_run.measured(args, asked.chosen(args.campaign), asked.fanout(args), again=True)
