"""hotlap cluster isolate"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from hotlap.bringup import campaigns, fabrics, pairs, show, topology
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import KEPT, Floats, Ints, Isolation, Open
from hotlap.cli import terminal
from hotlap.cluster import asked, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.record import Member, StepRecord
from hotlap.core import units
from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.measure import signals
from hotlap.core.record import encode
from hotlap.core.store import files

TRANSFERS = "transfers.jsonl"  # in the campaign's folder
MOST_MEMBERS = 256  # agents at a time


def add(parser: argparse.ArgumentParser) -> None:
    asked.add_members(parser)
    instead = "'fabric?nodes=1024&leaf=32&fault=node:n0007:20%%' in place of members"
    parser.add_argument("--simulate", default="", metavar="FABRIC", help=instead)
    parser.add_argument("--of", default="", metavar="RUN", help="print again what a campaign kept, and measure nothing")
    parser.add_argument("--topology", default="", metavar="FILE", help="lines of a node and its leaf; without it uplinks are not examined")
    carried = "pairs that an uplink carries (default: one for each node of its leaf)"
    parser.add_argument("--limit", type=int, default=0, metavar="N", help=carried)
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="to screen (default: by their number; every pair of up to 16)")
    parser.add_argument("--whole", action="store_true", help="every pair of up to 16 nodes, even after a part is named")
    parser.add_argument("--time", default="1 s", metavar="TIME", help="of a transfer; long against the buckets of shapers (default: 1 s)")
    parser.add_argument("--expected", default="", metavar="RATE", help="of a transfer without a fault, as in '10 GB/s'")
    parser.add_argument("--seed", type=int, default=0, help="of the random pairs")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 no part is named, 1 a part is, 3 there is no fleet to compare with or a member was lost."""
    for name in ("rounds", "limit", "seed"):
        if getattr(args, name) < 0:
            raise InputError(f"--{name} is a number from 0 on, not {getattr(args, name)}")
    kept = None
    if args.of:
        answer = _again(args.of)
    elif args.simulate:
        answer = _simulated(args)
    else:
        answer, kept = _measured(args)
    code = 3 if not answer.sure else 1 if answer.culprits else 0
    if args.json:
        terminal.answer(args.json, {"isolation": answer}, code=code)
        return code
    print("\n".join(show.lines(answer, terminal.width(), terminal.color())))
    if kept:
        print(f"\nrun     {kept.path}")
    return code


def _again(selector: str) -> Isolation:
    """Of a campaign. Raises InputError for one that kept none, SchemaError for one that cannot be read."""
    path = asked.chosen(selector).path / KEPT
    try:
        return msgspec.json.decode(path.read_bytes(), type=Isolation)
    except FileNotFoundError:
        raise InputError(f"the campaign {path.parent.name} has no {KEPT}: it isolated nothing, or did not come to its end") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise SchemaError(f"'{path}' cannot be read: {str(error)[:200]}") from None


def expected(text: str) -> float | None:
    """B/s; None where none is given. Raises InputError."""
    if not text:
        return None
    rate = units.parse(text, "B/s")
    if not 0 < rate < float("inf"):
        raise InputError(f"--expected is a rate above 0, as in '10 GB/s', not '{text}'")
    return rate


def _simulated(args: argparse.Namespace) -> Isolation:
    if any(value for value in (args.hosts, args.local, args.slurm, args.ray, args.mpi)):
        raise InputError("--simulate stands in place of members: leave out one of both")
    fabric = fabrics.parse(args.simulate)
    where = topology.read(args.topology, fabric.where.names, args.limit) if args.topology else fabric.where
    alone = fabric.by_itself() if where.rails > 1 else None
    return Isolating(
        where, fabric.transfer, np.random.default_rng(args.seed), args.whole, args.rounds, alone, expected(args.expected),
    ).run()[0]  # fmt: skip


def _measured(args: argparse.Namespace) -> tuple[Isolation, CampaignFolder]:
    """By a campaign of one gang, which is kept with the answer beside it."""
    time_s, rate = asked.seconds(args.time, "--time"), expected(args.expected)

    def step(python: str, members: Sequence[Member]) -> StepRecord:
        if len(members) > MOST_MEMBERS:
            raise InputError(f"{len(members)} members are too many for one controller; give at most {MOST_MEMBERS}")
        topology.read(args.topology, [member.name for member in members], args.limit)
        return pairs.step(python, time_s, len(members))

    with campaigns.begun(args, step) as campaign, campaign.kept.held():
        answer = _isolated(args, campaign.kept, campaign.launcher, time_s, rate)
        session.collect(campaign.kept)
        return answer, campaign.kept


def _isolated(args: argparse.Namespace, kept: CampaignFolder, launcher: AgentLauncher, time_s: float, rate: float | None) -> Isolation:
    conductor = pairs.PairController(kept, launcher)

    def stop(_number: int) -> None:
        if conductor.interrupted:
            raise KeyboardInterrupt
        conductor.interrupted = True

    with signals.caught(stop):
        members = kept.members()
        launcher.prepare(members)
        try:
            conductor.open(members)
            there = [member for member in members if conductor.links[member.name].ready and not conductor.links[member.name].gone]
            for member in members:
                if gone := conductor.links[member.name].gone:
                    print(f"hotlap: without {member.name}: {gone[1]}", file=sys.stderr)
            where = topology.read(args.topology, [member.name for member in there], args.limit)
            conductor.begin(kept.campaign.steps[0], there, time_s)
            random = np.random.default_rng(args.seed)
            isolating = Isolating(where, _watched(conductor), random, args.whole, args.rounds, None, rate, _progress)
            answer = isolating.run()[0]
            conductor.finish()
        finally:
            conductor.close()
    if conductor.rdma:
        names = sorted(conductor.rdma)
        answer = msgspec.structs.replace(answer, open=[Open(code="rdma", members=names, count=len(names)), *answer.open])
    lost = [member.name for member in members if member.name not in where.names]
    if lost:
        absent = next((each for each in answer.open if each.code == "untested"), None)
        rest = [each for each in answer.open if each.code != "untested"]
        names = [*lost, *(absent.members if absent else [])]
        answer = msgspec.structs.replace(answer, open=[_untested(names), *rest])
    files.write_whole(kept.path / TRANSFERS, b"".join(encode(each) + b"\n" for each in isolating.tests.records(where)))
    files.write_whole(kept.path / KEPT, msgspec.json.format(msgspec.json.encode(answer), indent=2) + b"\n")
    return answer


def _untested(names: list[str]) -> Open:
    return Open(code="untested", members=names, count=len(names))


def _watched(conductor: pairs.PairController) -> Callable[[Ints], Floats]:
    """Transfers; raises MachineError where in the first most give nothing: then it is no slow part."""
    seen = 0

    def transfer(chosen: Ints) -> Floats:
        nonlocal seen
        rates = conductor.transfer(chosen)
        if not seen and float(np.mean(rates == 0)) > 0.5:
            raise MachineError(f"most transfers gave nothing ({conductor.why})", "let members reach each other by TCP, on any port")
        seen += 1
        return rates

    return transfer


def _progress(what: str, number: int) -> None:
    print(f"hotlap: round {number}: {what}", file=sys.stderr, flush=True)
