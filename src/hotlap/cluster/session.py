"""A campaign from its beginning, or from where it was left: holds it, runs what lacks a result, and brings in what came."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import suppress

from hotlap.cluster import controller, fanin
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.launch.ssh import SshLauncher
from hotlap.cluster.record import Campaign, MemberEvent, MemberState
from hotlap.core.errors import SchemaError
from hotlap.core.measure import signals


def launcher_of(campaign: Campaign) -> AgentLauncher:
    """The launcher that a campaign was begun with. Raises SchemaError for one that this Hotlap does not have."""
    if campaign.launcher == "local":
        return LocalLauncher(int(campaign.options["count"]), campaign.python)
    if campaign.launcher == "ssh":
        return SshLauncher(str(campaign.options["hosts"]), campaign.python, str(campaign.options.get("config", "")))
    raise SchemaError(f"the campaign {campaign.id} was begun by '{campaign.launcher}', which this Hotlap lacks; install its version")


def measure(folder: CampaignFolder, tell: Callable[[MemberEvent], None], fanout: int, again: bool = False) -> bool:
    """Every step on every member without a result, then `fanin.collect`; whether it was interrupted. Ctrl-C keeps what came.

    `fanout`: members at a time, from 1. Raises Busy where another controls the campaign.
    """
    _files(fanout)
    with folder.held():
        if again:
            fanin.reconcile(folder)
        lacking = _lacking(folder.states(0.0))
        members = [member for member in folder.members() if any(member.name in names for names in lacking.values())]
        steps = [step for step in folder.campaign.steps if lacking.get(step.number)]
        conductor = controller.ClusterController(folder, launcher_of(folder.campaign), tell, again)

        def stop(_number: int) -> None:
            if conductor.interrupted:
                raise KeyboardInterrupt
            conductor.interrupted = True
            print("hotlap: ending the members' programs; once more: at once", file=sys.stderr)

        with signals.caught(stop):
            controller.run(conductor, members, steps, lacking, fanout)
        collect(folder)
    return conductor.interrupted


def collect(folder: CampaignFolder) -> list[MemberState]:
    """What there is, as one run; the campaign is held."""
    missing = any(state.state != "measured" for state in folder.states(0.0))
    return fanin.collect(folder, "" if missing else "rounds_max")


def _lacking(states: list[MemberState]) -> dict[int, set[str]]:
    lacking: dict[int, set[str]] = {}
    for state in states:
        if state.state != "measured":
            lacking.setdefault(state.step, set()).add(state.member)
    return lacking


def _files(fanout: int) -> None:
    """Three pipes for each agent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * fanout + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
