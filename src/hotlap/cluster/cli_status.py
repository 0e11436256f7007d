"""hotlap cluster status [CAMPAIGN]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.cluster import asked, cli_run, folder, show, show_kind


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Where each member is now; exit code 0 all measured, 1 a verdict failed, 3 some member has no result, or none yet."""
    kept = asked.chosen(args.campaign)
    shown, owner = show_kind.of_folder(kept), folder.controlled(kept)
    code = shown.code
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, **show_kind.document(shown), "controlled_by": owner}, code=code)
        return code
    print("\n".join(show.status(shown, terminal.width(), terminal.color())))
    print(f"\ncontrolled by {_whose(shown, owner)}")
    if shown.missing and not owner:
        print(f"next    {cli_run.next_command(kept, shown)}")
    return code


def _whose(shown: show.CampaignShown, owner: folder.LockedBy | None) -> str:
    if owner:
        return f"process {owner.pid} of {owner.user} on {owner.host} since {owner.since}"
    left = any(state.state in ("running", "silent") for state in shown.states)
    return f"nobody: {'what still runs on members is taken by cluster resume, ended by cluster stop' if left else 'nothing runs now'}"
