"""hotlap cluster status [CAMPAIGN]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.cluster import asked, folder, show, show_kind


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Where each member is now; exit code 0 all measured or still running, 1 a verdict failed, 3 some member has no result."""
    kept = asked.chosen(args.campaign)
    shown, owner = show_kind.of_folder(kept), folder.controlled(kept)
    running = owner is not None and all(state.state in ("running", "measured", "never started") for state in shown.states)
    code = 0 if running else shown.code
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, **show_kind.document(shown), "controlled_by": owner}, code=code)
        return code
    print("\n".join(show.status(shown, terminal.width(), terminal.color())))
    whose = f"process {owner.pid} of {owner.user} on {owner.host} since {owner.since}" if owner else "nobody: nothing runs now"
    print(f"\ncontrolled by {whose}")
    return code
