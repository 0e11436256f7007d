"""A campaign from its beginning, or from where it was left: holds it, runs what lacks a result, and brings in what came."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

import msgspec

from hotlap.cluster import controller, fanin, states
from hotlap.cluster import folder as folders
from hotlap.cluster.controller import ClusterController
from hotlap.cluster.folder import WHEELS, CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.launch.kubernetes import PodLauncher
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.launch.mpi import MpiLauncher
from hotlap.cluster.launch.ray import RayLauncher
from hotlap.cluster.launch.slurm import SlurmLauncher
from hotlap.cluster.launch.ssh import SshLauncher
from hotlap.cluster.parcel import Parcel
from hotlap.cluster.record import Campaign, Member, MemberEvent, MemberState, StepRecord
from hotlap.core.errors import MachineError, SchemaError
from hotlap.core.measure import signals
from hotlap.core.store import files, paths

LAUNCHER = "launcher.json"  # what `resume` and `stop` need beside the options


def launcher_of(campaign: Campaign, known: Mapping[str, str] | None = None) -> AgentLauncher:
    """The launcher that a campaign was begun with; `known`: what was kept of it since.

    Raises SchemaError for one that this Hotlap does not have."""
    if campaign.launcher == "local":
        return LocalLauncher(int(campaign.options["count"]), campaign.python)
    if campaign.launcher == "ssh":
        config, client = str(campaign.options.get("config", "")), str(campaign.options.get("client", "openssh"))
        return SshLauncher(str(campaign.options["hosts"]), campaign.python, config, client)
    if campaign.launcher == "kubernetes":
        return PodLauncher(int(campaign.options["count"]), used=set((known or {}).get("records", "").split()))
    if campaign.launcher == "mpi":
        return MpiLauncher(str(campaign.options["meet"]), float(campaign.options["wait_s"]))
    if campaign.launcher == "ray":
        return RayLauncher(str(campaign.options["address"]), campaign.python, float(campaign.options["wait_s"]))
    if campaign.launcher == "slurm":
        words = [str(word) for word in campaign.options["options"]]
        return SlurmLauncher(words, campaign.python, float(campaign.options["queue_s"]), (known or {}).get("job", ""))
    raise SchemaError(f"the campaign {campaign.id} was begun by '{campaign.launcher}', which this Hotlap lacks; install its version")


def launcher_in(folder: CampaignFolder) -> AgentLauncher:
    """The same, with what the folder keeps of it."""
    known: dict[str, str] = {}
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode((folder.path / LAUNCHER).read_bytes(), type=dict[str, str])
    return launcher_of(folder.campaign, known)


def remember(folder: CampaignFolder, launcher: AgentLauncher) -> None:
    """For a `resume` or `stop` later. Raises MachineError."""
    try:
        if launcher.kept:
            files.write_whole(folder.path / LAUNCHER, msgspec.json.encode(launcher.kept))
    except OSError as error:
        raise MachineError(f"the campaign '{folder.path}' cannot be written: {error.strerror}") from None


def begun(
    campaign: Campaign, members: Sequence[Member], launcher: AgentLauncher, marks: Mapping[str, str] | None = None, target: str = "",
) -> CampaignFolder:
    """A campaign of the home, with what a `resume` needs. Raises MachineError."""
    kept = folders.create(paths.home(), campaign, members, marks or {}, target or campaign.launcher)
    remember(kept, launcher)
    return kept


def measure(
    folder: CampaignFolder, tell: Callable[[MemberEvent], None], fanout: int, again: bool = False, launcher: AgentLauncher | None = None,
    tick: Callable[[Sequence[str]], None] = lambda unanswered: None,
) -> bool:
    """Every step on every member without a result, then `fanin.collect`; whether it was interrupted. Ctrl-C keeps what came.

    `fanout`: members at a time, from 1; `launcher`: the campaign's own unless another is given; `tick` is called while it waits.
    Raises Busy where another controls it.
    """
    _files(fanout)
    with folder.held():
        if again:
            fanin.reconcile(folder)
        lacking = _lacking(folder)
        members = [member for member in folder.members() if any(member.name in names for names in lacking.values())]
        steps = [step for step in folder.campaign.steps if lacking.get(step.number)]
        launcher = launcher or launcher_in(folder)
        members = launcher.at_hand(members)
        gang = max((step.gang for step in steps), default=0) or 1
        parcel = Parcel(folder.path / WHEELS, folder.campaign.wheels)
        conductor = ClusterController(folder, launcher, tell, again, parcel, tick)

        def stop() -> None:
            conductor.interrupt()
            begin = "\n" if sys.stderr.isatty() else ""  # below the line of progress
            print(f"{begin}hotlap: ending the members' programs; press Ctrl-C again to kill them at once", file=sys.stderr)

        with signals.stopping(stop), closing(parcel), _held(folder, launcher, members):
            run(conductor, members, steps, lacking, max(fanout - fanout % gang, gang))
        if sent := conductor.wheels.summary():
            erase = "\r\x1b[K" if sys.stderr.isatty() else ""  # the line of progress
            print(f"{erase}hotlap: {sent}", file=sys.stderr)
        collect(folder)
    return conductor.interrupted


def run(
    conductor: ClusterController, members: Sequence[Member], steps: Sequence[StepRecord], wanted: Mapping[int, set[str]], fanout: int,
) -> None:
    """All steps on the members that want them, `fanout` members at a time, each with one agent from its first step to its last."""
    for begin in range(0, len(members), fanout):
        wave = members[begin : begin + fanout]
        try:
            conductor.open(wave)
            for step in steps:
                conductor.step(step, [member for member in wave if member.name in wanted[step.number] and member.name in conductor.links])
        finally:
            conductor.close()
        if conductor.interrupted:
            return


def fetch(folder: CampaignFolder, tell: Callable[[MemberEvent], None], fanout: int) -> None:
    """After a controller that was killed: closes what it left open, and takes what its members have finished since; starts no program. The
    campaign is held."""
    left, launcher = states.open_attempts(folder.events()), launcher_in(folder)
    fanin.reconcile(folder)
    if not left or launcher.name not in controller.LASTING:
        return
    conductor = ClusterController(folder, launcher, tell, again=True)
    conductor.fetching = True
    wanted = {step.number: {member for number, member in left if number == step.number} for step in folder.campaign.steps}
    members = [member for member in folder.members() if any(member.name in names for names in wanted.values())]
    run(conductor, members, folder.campaign.steps, wanted, fanout)


@contextmanager
def _held(folder: CampaignFolder, launcher: AgentLauncher, members: list[Member]) -> Iterator[None]:
    """What members stand on, given back at the end."""
    try:
        if members:
            launcher.prepare(members)
            remember(folder, launcher)
        yield
    finally:
        remember(folder, launcher)
        launcher.release()


def collect(folder: CampaignFolder) -> list[MemberState]:
    """What there is, as one run; the campaign is held."""
    missing = any(state.state != "measured" for state in folder.states(0.0))
    return fanin.collect(folder, "" if missing else "rounds_max")


def _lacking(folder: CampaignFolder) -> dict[int, set[str]]:
    """Members without a result by step, a gang as a whole."""
    lacking: dict[int, set[str]] = {}
    names, gang = [member.name for member in folder.members()], {step.number: step.gang or 1 for step in folder.campaign.steps}
    places = {name: place for place, name in enumerate(names)}
    for state in folder.states(0.0):
        if state.state != "measured":
            size = gang[state.step]
            begin = places[state.member] // size * size
            lacking.setdefault(state.step, set()).update(names[begin : begin + size])
    return lacking


def _files(fanout: int) -> None:
    """Three pipes for each agent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8 * fanout + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
