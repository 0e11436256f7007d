"""hotlap cluster run PLAN … | -- COMMAND"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import terminal
from hotlap.cluster import asked, dry, gang, live, pods, session, show, show_kind
from hotlap.cluster.asked import rewritten as rewritten
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import mpi
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.core.show import words
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths

INTERRUPTED = 130


def add(parser: argparse.ArgumentParser) -> None:
    what = "plans, 'stress', 'node inspect', 'node audit', each a step; or a command after --, with {index}, {member}, {members} filled in"
    parser.add_argument("what", nargs="*", metavar="PLAN", help=what)
    parser.add_argument("--command", default="", help=argparse.SUPPRESS)
    asked.add_members(parser)
    parser.add_argument("--kubernetes", metavar="OUT.yaml", help="write an Indexed Job, and end: `cluster collect` takes its results")
    parser.add_argument("--pods", type=int, default=0, metavar="N", help="with --kubernetes: how many members")
    parser.add_argument("--image", default="", metavar="NAME", help="with --kubernetes: of the pods")
    parser.add_argument("--results", default="", metavar="CLAIM|URL", help="with --kubernetes: a volume's claim, or where to PUT")
    parser.add_argument("--target", default="", help="of plans, as in hotlap run; {index} stands for the member's")
    parser.add_argument("--rounds", type=int, metavar="N", help="of plans as in hotlap run; of a command: run it N times")
    parser.add_argument("--budget", default="", metavar="TIME", help="of plans, as in hotlap run")
    parser.add_argument("--timeout", default="", metavar="TIME", help="longest time of a step on a member (default: none)")
    parser.add_argument("--silent", default="20 s", metavar="TIME", help="without a beat for so long a member is silent (default: 20 s)")
    parser.add_argument("--gang", type=int, default=0, metavar="N", help="N members at once that need one another (MASTER_ADDR, RANK)")
    parser.add_argument("--wrap", default="", metavar="COMMAND", help="stands before what is run, as in 'srun --container-image=…'")
    asked.add_wheels(parser)
    asked.add_fanout(parser)
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the campaign")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run where, and run nothing")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 all measured, 1 a verdict failed, 3 some member has no result, 130 interrupted."""
    if args.dry_run and args.mpi and (rank := mpi.started()) and rank.number:
        return 0  # rank 0 says it
    if not args.dry_run:
        asked.joined(args)
    marks = labelled.check(dict(terminal.pairs(args.label, "a label")))
    campaign, fanout = asked.campaign(args), asked.fanout(args)
    launcher = session.launcher_of(campaign)
    if args.kubernetes and not args.dry_run:
        return pods.write(args, campaign, marks)
    if args.dry_run:
        return dry.run(args, campaign, launcher)
    members = launcher.members()
    try:
        if args.gang:
            gang.gangs(members, args.gang, False)  # so that a wrong number leaves no campaign
        kept = session.begun(campaign, members, launcher, marks, args.target)
        print(f"hotlap: campaign {campaign.id}, {words.counted(len(members), 'member')} by {campaign.launcher}", file=sys.stderr)
        return measured(args, kept, fanout, launcher=launcher)
    finally:
        launcher.release()


def measured(
    args: argparse.Namespace, kept: CampaignFolder, fanout: int, again: bool = False, launcher: AgentLauncher | None = None
) -> int:
    """Runs what lacks a result, and says what there is."""
    steps = {step.number: step.name for step in kept.campaign.steps}
    members = len(kept.members())
    view = live.ClusterView(members * len(steps), members, steps)
    try:
        try:
            interrupted = session.measure(kept, view.tell, fanout, again, launcher, view.draw)
        finally:
            view.end()
        code = answered(args, kept)
    except KeyboardInterrupt:  # for the second time, or while results are brought in or shown
        interrupted, code = True, INTERRUPTED
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
    print(f"next    {next_command(kept, shown)}")
    return shown.code


def next_command(kept: CampaignFolder, shown: show.CampaignShown) -> str:
    """The command that goes on."""
    named = kept.campaign.id if kept.path.parent == paths.runs(paths.home()) else str(kept.path)
    if not shown.missing:
        gathered = {step.gather for step in kept.campaign.steps}
        if shown.fleet is not None and any(device.state == "fail" for device in shown.fleet.devices):
            return f"hotlap gate {named} --against fleet (fails for what is named above; run does not)"
        if gathered == {"command"}:
            return f"hotlap cluster logs --all --campaign {named} (all that the programs printed)"
        return f"hotlap node audit --fleet {named}" if gathered == {"facts"} else f"hotlap show {named}"
    if kept.campaign.launcher == "kubernetes":
        job = f"hotlap-{kept.campaign.id.lower()}"
        return f"kubectl delete job {job}; kubectl apply -f ITS.yaml; hotlap cluster collect {named} --from FOLDER"
    if any(state.state == "refused" for state in shown.missing):
        return f"hotlap cluster resume {named} (takes another --python PATH, --wheels FOLDER)"
    if len(shown.missing) == len(shown.states) and len({(state.state, state.why) for state in shown.missing}) == 1:
        return f"correct what is wrong; hotlap cluster resume {named} tries the same again, hotlap cluster run begins anew"
    return f"hotlap cluster resume {named}"
