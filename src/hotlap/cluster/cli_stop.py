"""hotlap cluster stop [CAMPAIGN]"""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import suppress

from hotlap.cli import terminal
from hotlap.cluster import agent, asked, controller, fanin, folder, member_left, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.core.errors import MachineError

PATIENCE_S = 20.0
HIDDEN = "processes of other users"  # which this user cannot have started


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("campaign", nargs="?", default="", help="which campaign, as any run is named (default: the newest)")


def run(args: argparse.Namespace) -> int:
    """Ends a campaign's controller, then looks on every member for processes with the campaign's mark; exit code 3 where one could not be
    looked at."""
    kept = asked.chosen(args.campaign)
    owner = folder.controlled(kept)
    if owner:
        _end(kept, owner)
    unseen, swept = _sweep(kept)
    if not any(name.startswith("process ") for name in unseen):
        with kept.held():
            fanin.reconcile(kept, "stop", "ended by hotlap cluster stop", unseen)
    code = 3 if unseen.keys() - {HIDDEN} else 0
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, "ended": owner, "processes": swept, "unseen": unseen}, code=code)
        return code
    print(f"the controller was process {owner.pid}: ended" if owner else "nobody controlled the campaign")
    many = "process" if swept == 1 else "processes"
    print(f"ended {swept} {many} that it had left on its members" if swept else "it had left no process on its members")
    for name, why in unseen.items():
        print(f"not looked at: {name}: {why}" if name == HIDDEN else f"could not be looked at: {name}: {why}")
    return code


def _end(kept: CampaignFolder, owner: folder.LockedBy) -> None:
    """As Ctrl-C does there. Raises MachineError where that is another machine, or does not help."""
    if owner.host != os.uname().nodename:
        raise MachineError(f"the campaign is controlled by process {owner.pid} on {owner.host}; run hotlap cluster stop there")
    with suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGINT)
    deadline = time.monotonic() + PATIENCE_S
    while folder.controlled(kept):
        if time.monotonic() > deadline:
            raise MachineError(f"process {owner.pid} did not end within {PATIENCE_S:.0f} s; kill {owner.pid}, then stop again")
        time.sleep(0.1)


def _sweep(kept: CampaignFolder) -> tuple[dict[str, str], int]:
    """Members that could not be looked at, with the reason, and how many processes were ended. An agent that begins sweeps first."""
    members, launcher = kept.members(), session.launcher_in(kept)
    if launcher.name == "kubernetes":
        return {"its pods": f"kubectl delete job hotlap-{kept.campaign.id.lower()} ends them"}, 0
    if launcher.planned:  # a job, with which all ends
        launcher.release()
        return {}, 0
    if launcher.name == "local":
        ended, _ = member_left.take_over(kept.campaign.id, False)
        count, left, hidden = agent.sweep(kept.campaign.id)
        unseen = {f"process {pid}": "it does not end" for pid in left}
        return unseen | ({HIDDEN: f"{hidden} here, whose environment you may not read"} if hidden else {}), ended + count
    unseen, swept = dict[str, str](), 0
    with kept.held():
        for begin in range(0, len(members), asked.FANOUT):
            conductor = controller.ClusterController(kept, launcher, again=True)
            conductor.adopt = False
            conductor.open(members[begin : begin + asked.FANOUT])
            for name, link in conductor.links.items():
                if link.gone:
                    unseen[name] = link.gone[1]
                swept += int(link.member.facts.get("swept", 0))
            conductor.close()
    return unseen, swept
