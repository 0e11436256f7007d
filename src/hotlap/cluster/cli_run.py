"""hotlap cluster run PLAN … | -- COMMAND"""

from __future__ import annotations

import argparse
import shlex
import sys

from hotlap.cli import terminal
from hotlap.cluster import asked, folder, live, session, show, show_kind
from hotlap.cluster.asked import rewritten as rewritten
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Campaign
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths

INTERRUPTED = 130


def add(parser: argparse.ArgumentParser) -> None:
    what = "plans, 'stress', 'node inspect', 'node audit', each a step; or a command after --, with {index}, {member}, {members} filled in"
    parser.add_argument("what", nargs="*", metavar="PLAN", help=what)
    parser.add_argument("--command", default="", help=argparse.SUPPRESS)
    asked.add_members(parser)
    parser.add_argument("--target", default="", help="of plans, as in hotlap run; {index} stands for the member's")
    parser.add_argument("--rounds", type=int, metavar="N", help="of plans as in hotlap run; of a command: run it N times")
    parser.add_argument("--budget", default="", metavar="TIME", help="of plans, as in hotlap run")
    parser.add_argument("--timeout", default="", metavar="TIME", help="longest time of a step on a member (default: none)")
    parser.add_argument("--silent", default="20 s", metavar="TIME", help="without a beat for so long a member is silent (default: 20 s)")
    parser.add_argument("--wrap", default="", metavar="COMMAND", help="stands before what is run, as in 'srun --container-image=…'")
    asked.add_fanout(parser)
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the campaign")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run where, and run nothing")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 all measured, 1 a verdict failed, 3 some member has no result, 130 interrupted."""
    marks = labelled.check(dict(terminal.pairs(args.label, "a label")))
    campaign, fanout = asked.campaign(args), asked.fanout(args)
    members = session.launcher_of(campaign).members()
    if args.dry_run:
        return _dry(args, campaign)
    kept = folder.create(paths.home(), campaign, members, marks, args.target or campaign.launcher)
    print(f"hotlap: campaign {campaign.id}, {len(members)} members by {campaign.launcher}", file=sys.stderr)
    return measured(args, kept, fanout)


def measured(args: argparse.Namespace, kept: CampaignFolder, fanout: int, again: bool = False) -> int:
    """Runs what lacks a result, and says what there is."""
    steps = {step.number: step.name for step in kept.campaign.steps}
    members = len(kept.members())
    view = live.ClusterView(members * len(steps), members, steps)
    try:
        interrupted = session.measure(kept, view.tell, fanout, again)
    finally:
        view.end()
    code = answered(args, kept)
    if interrupted:
        print(f"hotlap: interrupted; what came is kept: hotlap cluster resume {kept.campaign.id} goes on", file=sys.stderr)
    return INTERRUPTED if interrupted else code


def answered(args: argparse.Namespace, kept: CampaignFolder) -> int:
    """The one table, or the JSON of it."""
    bundle = bundles.load(kept.path, readings=False)
    shown = show_kind.read(bundle)
    assert shown is not None  # its campaign.toml was read before
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, **show_kind.document(shown)}, code=shown.code)
        return shown.code
    print("\n".join(show.lines(shown, terminal.width(), terminal.color())))
    print(f"\nrun     {kept.path}")
    further = "cluster resume" if shown.missing else "show"
    print(f"next    hotlap {further} {kept.campaign.id}")
    return shown.code


def _dry(args: argparse.Namespace, campaign: Campaign) -> int:
    members = session.launcher_of(campaign).members()
    commands = {step.name: [*step.wrap, *folder.command(step, campaign.python, members[0], len(members))] for step in campaign.steps}
    plain = [{"step": step.name, "command": commands[step.name], "needs": _needs(step.argv)} for step in campaign.steps]
    if args.json:
        terminal.answer(args.json, {"members": [member.name for member in members], "steps": plain, "python": campaign.python})
        return 0
    names = [member.name for member in members]
    print(f"{len(names)} members by {campaign.launcher}: {', '.join(names[:8])}{' …' if len(names) > 8 else ''}")
    print(f"agent   {campaign.python} -I -S, sent on its standard input; nothing is installed")
    for step in campaign.steps:
        print(f"step    {step.name} on {names[0]}: {shlex.join(commands[step.name])}{_needs(step.argv)}")
    return 0


def _needs(argv: list[str]) -> str:
    return " (needs this version of Hotlap there)" if argv[0] == "hotlap" else ""


