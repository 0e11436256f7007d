"""hotlap cluster isolate"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from hotlap.bringup import campaigns, expecting, fabrics, measuring, pairs, schedule, show, topology
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import KEPT, FabricLayout, Isolation, IsolationAsked
from hotlap.cli import terminal
from hotlap.cluster import asked, session
from hotlap.cluster.asked import dashed as rewritten  # noqa: F401 - the dispatcher asks for it
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Member, StepRecord
from hotlap.core.errors import InputError, Interrupted

MOST_MEMBERS = 256  # agents at a time


def add(parser: argparse.ArgumentParser) -> None:
    asked.add_members(parser)
    instead = "'fabric?nodes=1024&leaf=32&fault=node:n0007:20%%' in place of members"
    parser.add_argument("--simulate", default="", metavar="FABRIC", help=instead)
    parser.add_argument("--of", default="", metavar="RUN", help="print again what a campaign kept, and measure nothing")
    parser.add_argument("--resume", default="", metavar="RUN", help="go on with one that was interrupted; what it measured stays")
    where = "a node and its leaf a line, or text of ibnetdiscover or iblinkinfo"
    parser.add_argument("--topology", default="", metavar="FILE", help=f"{where}; without it uplinks are not examined")
    carried = "pairs that an uplink carries (default: one for each node of its leaf)"
    parser.add_argument("--limit", type=int, default=0, metavar="N", help=carried)
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="to screen (default: by their number; every pair of up to 16)")
    parser.add_argument("--whole", action="store_true", help="every pair, of more than 16 nodes too, even after a part is named")
    parser.add_argument("--time", default="1 s", metavar="TIME", help="of a transfer; long against the buckets of shapers (default: 1 s)")
    parser.add_argument("--expected", default="", metavar="RATE", help="of a transfer without a fault, as in '10 GB/s'")
    parser.add_argument("--seed", type=int, default=0, help="of the random pairs")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 no part is slow, 1 a part or all of the fabric is, 3 inconclusive, or a node took no part."""
    for name in ("rounds", "limit", "seed"):
        if getattr(args, name) < 0:
            raise InputError(f"--{name} is a number from 0 on, not {getattr(args, name)}")
    if args.whole and args.rounds:
        raise InputError("--whole is every pair, and --rounds how many rounds: leave out one of both")
    kept = None
    if args.of:
        answer = measuring.read(asked.chosen(args.of).path)
    elif args.resume:
        answer, kept = _resumed(args.resume)
    elif args.simulate:
        answer = _simulated(args)
    else:
        answer, kept = _measured(args)
    code = show.code(answer)
    if args.json:
        terminal.answer(args.json, {"isolation": answer}, code=code)
        return code
    print("\n".join(show.lines(answer, terminal.width(), terminal.color())))
    if kept:
        print(f"\nrun     {kept.path}")
    return code


def expected(text: str) -> float | None:
    """B/s; None where none is given. Raises InputError."""
    return expecting.rate(text, "--expected") if text else None


def _simulated(args: argparse.Namespace) -> Isolation:
    if any(value for value in (args.hosts, args.local, args.slurm, args.ray, args.mpi)):
        raise InputError("--simulate stands in place of members: leave out one of both")
    fabric = fabrics.parse(args.simulate)
    where = topology.read(args.topology, fabric.where.names, args.limit) if args.topology else fabric.where
    alone = fabric.by_itself() if where.rails > 1 else None
    if args.whole and where.nodes > schedule.EVERY:
        raise InputError(f"--whole: every pair of {where.nodes} nodes takes too long; leave it out, or simulate at most {schedule.EVERY}")
    before = topology.findings(args.topology, fabric.where.names)
    answer = Isolating(
        where, fabric.transfer, np.random.default_rng(args.seed), args.whole, args.rounds, alone, expected(args.expected),
    ).run()[0]  # fmt: skip
    return msgspec.structs.replace(answer, before=before)


def _measured(args: argparse.Namespace) -> tuple[Isolation, CampaignFolder]:
    """By a campaign of one gang, which is kept with the answer beside it."""
    time_s, rate = asked.seconds(args.time, "--time"), expected(args.expected)
    layouts = list[FabricLayout]()

    def step(python: str, members: Sequence[Member]) -> StepRecord:
        if len(members) > MOST_MEMBERS:
            raise InputError(f"{len(members)} members are too many for one controller; give at most {MOST_MEMBERS}")
        layouts.append(topology.read(args.topology, [member.name for member in members], args.limit))
        return pairs.step(python, time_s, len(members))

    with campaigns.begun(args, step) as campaign, campaign.kept.held():
        wanted = IsolationAsked(
            leaves=topology.leaves(layouts[0]), limit=args.limit, rounds=args.rounds, whole=args.whole, time_s=time_s, expected=rate,
            seed=args.seed, before=topology.findings(args.topology, layouts[0].names),
            rdma=topology.rdma(args.topology, layouts[0].names),
        )  # fmt: skip
        measuring.keep_asked(campaign.kept, wanted)
        with _resumable(campaign.kept):
            answer = measuring.isolated(campaign.kept, campaign.launcher, wanted)
        session.collect(campaign.kept)
        return answer, campaign.kept


@contextmanager
def _resumable(kept: CampaignFolder) -> Iterator[None]:
    """An interruption says how it goes on."""
    try:
        yield
    except Interrupted:
        raise Interrupted(f"interrupted; hotlap cluster isolate --resume {kept.path.name} goes on") from None


def _resumed(selector: str) -> tuple[Isolation, CampaignFolder]:
    """An isolation that was interrupted, from the transfer at which it was."""
    kept = asked.chosen(selector)
    wanted = measuring.asked_of(kept)
    if (kept.path / KEPT).exists():
        raise InputError(f"the isolation {kept.path.name} has ended; hotlap cluster isolate --of {kept.path.name} prints it")
    launcher = session.launcher_in(kept)
    try:
        with kept.held(), _resumable(kept):
            answer = measuring.isolated(kept, launcher, wanted)
            session.collect(kept)
    finally:
        launcher.release()
    return answer, kept
