"""hotlap opportunities RUN"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap import units
from hotlap.advise import opportunities as finding
from hotlap.advise.opportunities import Opportunities
from hotlap.cli import terminal
from hotlap.coverage import demand
from hotlap.coverage.networks.steps import PHASES
from hotlap.errors import InputError, nearest
from hotlap.model import kept
from hotlap.report import listing, opportunities, opportunities_page, tables
from hotlap.store.bundle import Bundle


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="latest", help="which run (default: latest)")
    parser.add_argument("--networks", default="", metavar="NAME,…|all", help="weigh by these networks (default: those of the run's plan)")
    parser.add_argument("--weight", action="append", default=[], metavar="NAME=N", help="of a network (default: all weigh the same)")
    parser.add_argument("--phase", default="", metavar="NAME,…", help="of networks that the plan lacks: prefill, decode, forward, train")
    parser.add_argument("--batch", default="", metavar="N,…", help="of those: sequences of a step (default: 1 for prefill, 8 for decode)")
    parser.add_argument("--context", default="", metavar="N,…", help="of those: tokens of a prompt, or in the cache (default: 2048)")
    parser.add_argument("--tp", default="1", metavar="N,…", help="of those: tensor-parallel GPUs (default: 1)")
    parser.add_argument("--dtype", default="bf16", help="of those: of weights and products (default: bf16)")
    parser.add_argument("--out", metavar="FILE", help="also as one HTML page for whoever works on the kernels")


def run(args: argparse.Namespace) -> int:
    """What is to be won in each network's step, by which kernel, why, and what would have to change."""
    found = terminal.runs([args.run])
    if len(found) != 1:
        raise InputError(f"'{args.run}' names {len(found)} runs; opportunities takes one: {', '.join(one.run.id for one in found[-5:])}")
    (bundle,) = found
    devices = _found(bundle, args)
    if args.out:
        terminal.write(Path(args.out), opportunities_page.page(bundle, devices))
        print(f"page    {args.out}", file=sys.stderr if args.json else sys.stdout)
    if args.json:
        terminal.print_json(devices)
        return 0
    print(listing.heading(bundle))
    print("\n\n".join(opportunities.opportunities(one, terminal.width(), color=terminal.color()) for one in devices))
    return 0


def _found(bundle: Bundle, args: argparse.Namespace) -> list[Opportunities]:
    """Of each device of the run."""
    needed = demand.chosen(bundle.run.plan, [name.strip() for name in args.networks.split(",") if name.strip()], _ways(args))
    weights = {name: _weight(name, text) for name, text in terminal.pairs(args.weight, "a weight").items()}
    rows = tables.rows(bundle, calibrations=kept.of(bundle, kept.place()))
    found = []
    for device in listing.measured(bundle.run):
        own = [row for row in rows if row.device == device.key]
        readings = [one for one in bundle.readings if one.device == device.key]
        spec = tables.context_of(bundle, device.key, [row.result for row in own]).spec
        on = finding.On(bundle.run.id, device.selector, device.name, spec, readings, bundle.run.plan.weighed_on)
        found.append(finding.find(own, needed, on, weights))
    return found


def _weight(name: str, text: str) -> float:
    value = units.parse(text, "")
    if not 0 <= value < float("inf"):
        raise InputError(f"--weight {name}={text}: a weight is a number from 0 on, as in {name}=3")
    return value


def _ways(args: argparse.Namespace) -> demand.Ways:
    phases = [part.strip() for part in args.phase.split(",") if part.strip()]
    for phase in phases:
        if phase not in PHASES:
            raise InputError(f"--phase is of {', '.join(PHASES)}, not '{phase}'; {nearest(phase, PHASES)}")
    batches, contexts, tps = (_numbers(name, getattr(args, name)) for name in ("batch", "context", "tp"))
    return demand.Ways(tuple(phases), batches, contexts, tps or (1,), args.dtype)


def _numbers(name: str, text: str) -> tuple[int, ...]:
    """Whole numbers above 0 with commas; 1k is 1024."""
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        scaled = part[:-1].isdigit() and part[-1:] in "kK"
        if not (part.isdigit() or scaled) or not int(part.rstrip("kK")):
            raise InputError(f"--{name} is a whole number above 0, or several with commas, as in 1,8,2k; not '{part}'")
        found.append(int(part[:-1]) * 1024 if scaled else int(part))
    return tuple(found)
