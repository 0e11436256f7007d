"""What `hotlap cluster run --dry-run` prints: members, how agents start, gangs, and the command of each step. Nothing is run."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from hotlap.cli import terminal
from hotlap.cluster import folder, gang
from hotlap.cluster.launch import kubernetes
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.launch.slurm import SlurmLauncher
from hotlap.cluster.record import Campaign, Member
from hotlap.core.show import words

NAMED = 8  # members, and gangs


def run(args: argparse.Namespace, campaign: Campaign, launcher: AgentLauncher) -> int:
    """Of members that are known only once a job runs the first stands for all. Raises InputError."""
    members = [Member(name="NODE", index=0)] if launcher.planned else launcher.members()
    gangs = gang.gangs(members, args.gang, False) if args.gang and not launcher.planned else []
    commands = {step.name: [*step.wrap, *folder.command(step, campaign.python, members[0], len(members))] for step in campaign.steps}
    plain = [{"step": step.name, "command": commands[step.name], "needs": _needs(step.argv)} for step in campaign.steps]
    if args.json:
        known = [] if launcher.planned else [member.name for member in members]
        terminal.answer(args.json, {"members": known, "planned": launcher.planned, "steps": plain, "python": campaign.python})
        return 0
    names = [member.name for member in members]
    some = f"{words.counted(len(names), 'member')} by {campaign.launcher}: {words.some(names, NAMED)}"
    print(f"members by {campaign.launcher}: {launcher.planned}" if launcher.planned else some)
    print("\n".join(_agents(campaign, launcher)))
    print("\n".join(_gangs(args.gang, gangs)), end="\n" if args.gang else "")
    for step in campaign.steps:
        print(f"step    {step.name} on {names[0]}: {shlex.join(commands[step.name])}{_needs(step.argv)}")
    if campaign.launcher == "kubernetes":
        print("\n".join(_manifest(campaign, kubernetes.PodOptions(**campaign.options))), end="")
    return 0


def _manifest(campaign: Campaign, options: kubernetes.PodOptions) -> list[str]:
    """How much its ConfigMap holds, and the manifest."""
    sizes = [len(content.encode()) for content in kubernetes.files(campaign, options).values()]
    held = f"{words.counted(len(sizes), 'file')} of {sum(sizes):,} bytes in the manifest's ConfigMap"
    most = f"of at most {kubernetes.MOST_MAP_BYTES:,}"
    return [f"files   {held}, {most}; below, each file's size stands in place of its text", "", kubernetes.outline(campaign, options)]


def _agents(campaign: Campaign, launcher: AgentLauncher) -> list[str]:
    """How they start."""
    if isinstance(launcher, SlurmLauncher):
        return launcher.outline()
    if campaign.launcher == "kubernetes":
        file = f"{kubernetes.LEFT['sources']}/{kubernetes.POD}.py"
        return [f"agent   {campaign.python} -I -S {file}, from the manifest's ConfigMap; nothing is installed"]
    if campaign.launcher == "ray":
        agent = f"agent   {campaign.python} -I -S, started by a task of Ray on each node, which takes all GPUs of the node"
        return [agent, "way     each agent comes back to this machine by TCP, with the token of its task; nodes must reach it"]
    if campaign.launcher == "mpi":
        agent = f"agent   {campaign.python} -I -S, one of each rank; rank 0 is the controller too"
        meet = "way     ranks of one machine meet by a file of this user; those of several by --meet HOST:PORT, where rank 0 listens, with"
        return [agent, f"{meet} HOTLAP_TOKEN in the environment of each"]
    return [f"agent   {campaign.python} -I -S, sent on its standard input; nothing is installed"]


def _gangs(size: int, gangs: Sequence[gang.Gang]) -> list[str]:
    """Who is in which, the first rank first."""
    if size and not gangs:
        return [f"gangs   of {size}, in the order of the nodes"]
    lines = [f"gang {number:<2} {', '.join(each.names)}" for number, each in enumerate(gangs[:NAMED])]
    return [*lines, *([f"… and {len(gangs) - NAMED} more gangs"] if len(gangs) > NAMED else [])]


def _needs(argv: list[str]) -> str:
    return " (Hotlap is sent where this version is not there)" if argv[0] == "hotlap" else ""
