"""hotlap model sensitivity PLAN|RUN --machine NAME"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.model import kept, machines
from hotlap.core.model.sensitivity import SensitivityOptions, names
from hotlap.core.model.sensitivity import sensitivity as ask
from hotlap.core.record import Plan
from hotlap.core.show import sensitivity


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="a built-in plan, a TOML file, or a run, whose measured times then weigh its cases")
    terminal.machine(parser, "of the machine table, also edited: h200-sxm+l2_bytes=100MB")
    parser.add_argument("--by", default="10 %", metavar="SHARE", help="the small step to either side (default: 10 %%)")
    parser.add_argument("--keys", default="", metavar="NAME,…", help=f"only these figures, out of {', '.join(names())}, and matrix.TYPE")
    parser.add_argument("--networks", action="store_true", help="also a line for each step of a network that calls the plan's cases")
    parser.add_argument("--by-simulation", action="store_true", help="times of the simulated GPU, tile by tile, instead of the model's")
    parser.add_argument("--calibration", default="", metavar="NAME", help="of 'hotlap model calibrate --list' (default: the machine's own)")
    parser.add_argument("--spec-only", action="store_true", help="by published figures alone, whatever was calibrated")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with the curves")


def run(args: argparse.Namespace) -> int:
    """What a plan gains from more of each figure of a machine."""
    plan, measured = _plan(args.plan)
    spec = machines.load(args.machine)
    if args.networks and not plan.uses:
        raise InputError(f"{args.plan} says nothing of networks; 'hotlap plan from NETWORK' writes plans that do")
    known = kept.chosen(args.machine, args.calibration, args.spec_only, kept.place())
    keys = [name.strip() for name in args.keys.split(",") if name.strip()]
    result = ask(plan, spec, SensitivityOptions(terminal.share(args.by, "--by"), keys, args.by_simulation, known, measured))
    if args.out:
        terminal.write_page(Path(args.out), sensitivity.page(result))
    if args.json:
        terminal.answer(args.json, result, "sensitivity")
    else:
        print(sensitivity.sensitivity(result, terminal.width(), color=terminal.color(), networks=args.networks))
    return 0


def _plan(name: str) -> tuple[Plan, dict[str, float]]:
    """A plan, or a run's with the measured seconds of its cases."""
    if name in plans.builtin() or name.endswith(".toml") or Path(name).is_file():
        return plans.load(name), {}
    try:
        bundle = terminal.runs([name])[0]
    except InputError as error:
        raise InputError(f"'{name}' is no plan ({', '.join(plans.builtin())}, or a TOML file), and as a run: {error}") from None
    rows = [row for row in tables.rows(bundle) if row.result.status == "measured" and row.result.seconds]
    return bundle.run.plan, {row.case.id: statistics.median(row.result.seconds) for row in rows}
