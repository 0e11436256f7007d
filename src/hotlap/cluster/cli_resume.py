"""hotlap cluster resume [CAMPAIGN]"""

from __future__ import annotations

import argparse
import sys

import msgspec

from hotlap.cluster import asked, cli_run, show_kind


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")
    kept = "on the members, for this resume only (default: the one that the campaign began with)"
    parser.add_argument("--python", default="", metavar="PATH", help=kept)
    asked.add_wheels(parser, "for this resume only, ")
    asked.add_fanout(parser)
    asked.add_ranks(parser)


def run(args: argparse.Namespace) -> int:
    """Every member without a result has another attempt; results that are there stay. What --python and --wheels name is for this attempt,
    and is not kept with the campaign. Exit codes as of `cluster run`."""
    asked.joined(args)
    kept, fanout = asked.chosen(args.campaign), asked.fanout(args)
    if all(state.state == "measured" for state in kept.states(0.0)):
        print(f"hotlap: nothing is left to run: {kept.campaign.id} has a result of every member", file=sys.stderr)
        return cli_run.answered(args, kept) if args.json else show_kind.of_folder(kept).code
    kept.campaign = msgspec.structs.replace(
        kept.campaign, python=asked.python(args.python, kept.campaign), wheels=asked.wheels(args.wheels) or kept.campaign.wheels
    )
    return cli_run.measured(args, kept, fanout, again=True)
