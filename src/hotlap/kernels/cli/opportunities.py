"""hotlap kernel opportunities RUN"""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.model import kept
from hotlap.core.show import listing
from hotlap.core.store.bundle import Bundle
from hotlap.kernels import opportunities as finding
from hotlap.kernels.cli import network_options
from hotlap.kernels.coverage import usage
from hotlap.kernels.opportunities import Opportunities
from hotlap.kernels.show import opportunities, opportunities_page


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", default="latest", help="which run (default: latest)")
    parser.add_argument("--networks", default="", metavar="NAME,…|all", help="weigh by these networks (default: those of the run's plan)")
    parser.add_argument("--weight", action="append", default=[], metavar="NAME=N", help="of a network (default: all weigh the same)")
    network_options.add(parser, "steps that are run so, of the plan or else of the networks")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, for whoever works on the kernels")


def run(args: argparse.Namespace) -> int:
    """What is to be won in each network's step, by which kernel, why, and what would have to change."""
    found = terminal.runs([args.run])
    if len(found) != 1:
        raise InputError(f"'{args.run}' names {len(found)} runs; opportunities takes one: {', '.join(one.run.id for one in found[-5:])}")
    (bundle,) = found
    devices = _found(bundle, args)
    if args.out:
        terminal.page(args.out, opportunities_page.page(bundle, devices), args.json)
    if args.json:
        terminal.answer(args.json, devices, "devices")
        return 0
    print(listing.heading(bundle))
    print("\n\n".join(opportunities.opportunities(one, terminal.width(), color=terminal.color()) for one in devices))
    return 0


def _found(bundle: Bundle, args: argparse.Namespace) -> list[Opportunities]:
    """Of each device of the run."""
    names = [name.strip() for name in args.networks.split(",") if name.strip()]
    asked = usage.chosen(bundle.run.plan, names, network_options.settings(args))
    weights = {name: _weight(name, text) for name, text in terminal.pairs(args.weight, "a weight").items()}
    rows = tables.rows(bundle, calibrations=kept.of(bundle, kept.place()))
    on_devices = []
    for device in listing.measured(bundle.run):
        own = [row for row in rows if row.device == device.key]
        readings = [one for one in bundle.readings if one.device == device.key]
        spec = tables.context_of(bundle, device.key, [row.result for row in own]).spec
        on = finding.On(bundle.run.id, device.selector, device.name, spec, readings, bundle.run.plan.weighed_on)
        on_devices.append(replace(finding.find(own, asked.needed, on, weights), left_out=list(asked.left_out)))
    return on_devices


def _weight(name: str, text: str) -> float:
    value = units.parse(text, "")
    if not 0 <= value < float("inf"):
        raise InputError(f"--weight {name}={text}: a weight is a number from 0 on, as in {name}=3")
    return value
