"""hotlap cluster accept plan [FILE.toml]"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hotlap.bringup import accept_plan, accept_show, accept_simulate
from hotlap.cli import terminal
from hotlap.cluster import hosts
from hotlap.core.errors import InputError
from hotlap.core.record import Record

FILE = "accept.toml"
STUBS = """
# What each node should be; take the # away, and fill in. What is not here is not compared.
# [product.expect]                  # facts as hotlap node inspect names them
# "gpu[*].vbios" = "96.00.99.00.01"
# "ib[*].firmware" = "28.43.2026"
# [product.rails]                   # adapter and its subnet, rail 0 first
# mlx5_0 = "fd00:0:0:0"
# [product.serials]                 # from the delivery note
# n001 = "SN-0001"
# [product.bmc]                     # where each BMC listens
# n001 = "10.1.0.1:443"
"""


class PlanShown(Record, frozen=True, kw_only=True):
    """A plan as JSON has it. `steps`: seconds of each, 0 where the budget leaves it out."""

    name: str
    nodes: int
    products: dict[str, int]
    waves: list[int]
    steps: dict[str, float]
    left_out: list[accept_plan.LeftOut]
    most_out: int


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", default="", metavar="FILE.toml", help="a plan to check: what it takes, and what it leaves out")
    parser.add_argument("--hosts", default="", metavar="NAMES|FILE", help="write a plan for these, by ssh")
    parser.add_argument("--local", type=int, default=None, metavar="N", help="write a plan for N slots of this machine")
    parser.add_argument("--simulate", default="", metavar="FLEET", help="write one of 'fleet?nodes=256&products=3&fault=clock:n007'")
    parser.add_argument("--product", default="node", metavar="NAME", help="with --hosts, --local: the product's name")
    parser.add_argument("--machine", default="", metavar="NAME", help="with --hosts, --local: its GPU in the model's table")
    parser.add_argument("--gpus", type=int, default=0, metavar="N", help="with --hosts, --local: GPUs of each node")
    parser.add_argument("--budget", default="", metavar="TIME", help="of a plan that is written: all of it ends within about this")
    parser.add_argument("--soak", default="", metavar="TIME", help="of a plan that is written (default: 1 h)")
    parser.add_argument("-o", "--out", default="", metavar="FILE", help=f"where it is written (default: {FILE})")


def run(args: argparse.Namespace) -> int:
    """A plan checked, or written and checked. Raises InputError for one that is none."""
    if args.local is not None and args.local < 1:
        raise InputError(f"--local is a number of slots from 1 on, not {args.local}")
    given = [name for name in ("file", "hosts", "local", "simulate") if getattr(args, name)]
    if len(given) != 1:
        raise InputError("a plan of what? give a FILE.toml to check, or --hosts NAMES, --local N or --simulate FLEET to write one")
    path = args.file or args.out or FILE
    if not args.file:
        data = accept_plan.text(_drafted(args)) + ("" if args.simulate else STUBS)
        accept_plan.parse(data.encode(), path)  # before anything is written
        if Path(path).exists() and Path(path).read_bytes() != data.encode():
            raise InputError(f"'{path}' is there already, and is not what would be written; remove it, or name another by --out")
        terminal.write(Path(path), data)
    plan = accept_plan.read(path)
    if args.json:
        terminal.answer(args.json, {"plan": shown(plan), "file": path})
        return 0
    print("\n".join(accept_show.plan_lines(plan, terminal.width(), terminal.color())))
    print(f"\nplan    {path}\nnext    hotlap cluster accept run {path}")
    return 0


def shown(plan: accept_plan.AcceptPlan) -> PlanShown:
    steps, waves = accept_plan.planned(plan), plan.wave_of()
    sizes = [sum(number == wave for number in waves.values()) for wave in range(max(waves.values()) + 1)]
    return PlanShown(
        name=plan.name, nodes=len(plan.nodes), products={each.name: len(each.nodes) for each in plan.products}, waves=sizes,
        steps={each.step: each.time_s for each in steps}, left_out=[each.left_out for each in steps if each.left_out],
        most_out=accept_plan.most_out(plan.max_out, len(plan.nodes)),
    )  # fmt: skip


def _drafted(args: argparse.Namespace) -> dict[str, Any]:
    if args.simulate:
        given = accept_simulate.draft(args.simulate)
    else:
        names = args.hosts or (f"slot[00-{args.local - 1:02}]" if args.local > 1 else "slot00")
        product: dict[str, Any] = {"name": args.product, "nodes": _listed(names), "machine": args.machine, "gpus": args.gpus, "expect": {}}
        launch = {"hosts": _listed(args.hosts)} if args.hosts else {"local": args.local}
        given = {"name": Path(args.out or FILE).stem, "launch": launch, "product": [product]}
    more = {name: getattr(args, name) for name in ("budget", "soak") if getattr(args, name)}
    return {"name": given["name"], **more, **{name: value for name, value in given.items() if name != "name"}}


def _listed(names: str) -> str:
    """As it was given; a file's names with commas, so that the plan stands alone."""
    return ",".join(hosts.parse(names)) if Path(names).is_file() else names
