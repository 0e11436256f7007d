"""hotlap cluster collective"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hotlap.bringup import campaigns, collectives
from hotlap.bringup import show as show_isolation
from hotlap.bringup.cli_isolate import expected
from hotlap.bringup.collectives import CollectiveRow
from hotlap.bringup.record import LinkKnown
from hotlap.cli import terminal
from hotlap.cluster import asked, folder, live, session
from hotlap.cluster.asked import dashed as rewritten  # noqa: F401 - the dispatcher asks for it
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import show


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", default="all_reduce", help=f"{', '.join(collectives.OPS)} (default: all_reduce)")
    asked.add_members(parser)
    ways = "tcp; gloo: members need PyTorch; nccl: and a GPU for each (default: tcp)"
    parser.add_argument("--by", default="tcp", choices=sorted(collectives.WAYS), help=ways)
    parser.add_argument("--sizes", default="64KiB,1MiB,16MiB", metavar="SIZES", help="of a rank's whole buffer (default: 64KiB,1MiB,16MiB)")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="each in new processes (default: 6)")
    parser.add_argument("--iterations", type=int, default=5, metavar="N", help="of each size in a round (default: 5)")
    beside = "of the table, as in h100-sxm: with --by nccl the model's expectation stands beside each size"
    parser.add_argument("--machine", default="", metavar="NAME", help=beside)
    parser.add_argument("--expected", default="", metavar="RATE", help="of a link, as in '11 GB/s': bus bandwidth is set against it")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 all sizes have numbers, 1 a result is wrong, 3 a member has no result, 130 interrupted."""
    for name in ("rounds", "iterations"):
        if getattr(args, name) < 1:
            raise InputError(f"--{name} is a number from 1 on, not {getattr(args, name)}")
    rate = expected(args.expected)
    if args.machine:
        if args.by != "nccl":
            raise InputError(f"--machine is of GPUs, and --by {args.by} uses none; leave it out, or give --expected")
        collectives.of_model(args.op, 1 << 20, 2, args.machine, 1)
    plan = collectives.CollectivePlan(args.op, [_size(text) for text in args.sizes.split(",")], args.iterations, args.by, args.rounds)
    with campaigns.begun(args, lambda python, members: collectives.step(python, plan, len(members))) as (kept, launcher, members):
        view = live.ClusterView(members, members, {1: kept.campaign.steps[0].name})
        try:
            interrupted = session.measure(kept, view.tell, members, False, launcher, view.draw)
        finally:
            view.end()
    rows, (link, rdma) = collectives.rows(kept), collectives.known(kept)
    if args.machine:
        rows = collectives.modelled(rows, args.machine, 1 if args.local else members)
    if rate is not None:
        link = LinkKnown(code="given", rate=rate)
    rdma = rdma if args.by in collectives.BY_TCP else []
    code = 130 if interrupted else 3 if not rows else 1 if any(row.wrong for row in rows) else 0
    if args.json:
        terminal.answer(args.json, {"run": kept.campaign.id, "collective": rows, "link": link, "rdma_unused": rdma}, code=code)
        return code
    if rdma:
        print("\n".join(layout.paragraph("", show_isolation.tcp(f"{words.some(rdma, 6)} with RDMA adapters"), terminal.width())))
    print("\n".join(lines(rows, link, args.by, terminal.width(), terminal.color()) if rows else _reasons(kept)))
    print(f"\nrun     {kept.path}")
    return code


OF_PYTHON = "Python sends and adds these bytes: on loopback and on fast networks the numbers are Python's, not the network's."


def _size(text: str) -> int:
    size = units.parse(text, "B")
    if not 1 <= size <= 1 << 32:
        raise InputError(f"--sizes: a size is from 1 B to 4 GiB, not '{text}'")
    return int(size)


def _reasons(kept: folder.CampaignFolder) -> list[str]:
    states = [state for state in kept.states(0.0) if state.state != "measured"]
    return [f"{words.clean(state.member)} {state.state}: {words.clean(state.why)}" for state in states]


def lines(rows: Sequence[CollectiveRow], link: LinkKnown, by: str, width: int, color: bool) -> list[str]:
    """A row for each size, beside what a link carries. Fewer than six rounds give an interval of less than 95 %, which stands beside it."""
    rate = link.rate
    columns = [
        Column("operation", [Cell(row.op, "bold") for row in rows]),
        Column("size", [Cell(show(row.size, "B")) for row in rows], right=True),
        Column("time", [Cell(show(row.time_s, "s")) for row in rows], right=True),
        Column("95 % interval", [Cell(_interval(row)) for row in rows], right=True),
        Column("algorithm", [Cell(show(row.algbw, "B/s")) for row in rows], right=True),
        Column("bus", [Cell(show(row.busbw, "B/s"), "bold") for row in rows], right=True),
        *([Column("of a link", [Cell(f"{100 * row.busbw / rate:.0f} %") for row in rows], right=True)] if rate else []),
        *([Column("of the model", [Cell(_modelled(row)) for row in rows], right=True)] if any(row.model for row in rows) else []),
        Column("slowest", [Cell(_slowest(row)) for row in rows], wrap=True),
        *([Column("wrong", [Cell(str(row.wrong), "bad" if row.wrong else "") for row in rows])] if any(row.wrong for row in rows) else []),
    ]
    ranks, op = rows[0].ranks, rows[0].op
    note = f"bus bandwidth = algorithm bandwidth × {collectives.factor(op, ranks):.3g} of {ranks} ranks; a time is that of the slowest rank"
    notes = [note, show_isolation.at_most(link)]
    notes += [OF_PYTHON] * (by == "tcp")
    return [*layout.fitted(columns, width).lines(color), "", *(line for each in notes for line in layout.paragraph("", each, width))]


def _interval(row: CollectiveRow) -> str:
    if row.low_s is None or row.high_s is None:
        return ""
    sure = f" ({units.percent(row.confidence)})" if row.confidence and round(row.confidence, 2) < 0.95 else ""
    return f"{show(row.low_s, 's')} to {show(row.high_s, 's')}{sure}"


def _modelled(row: CollectiveRow) -> str:
    """Its time, and the model's interval."""
    model = row.model
    if model is None or model.expected_s is None or model.low_s is None or model.high_s is None:
        return "unknown"
    return f"{show(model.expected_s, 's')} ({show(model.low_s, 's')} to {show(model.high_s, 's')})"


def _slowest(row: CollectiveRow) -> str:
    name, count = max(row.slowest.items(), key=lambda item: item[1])
    return f"{words.clean(name)} in {count} of {row.rounds}"
