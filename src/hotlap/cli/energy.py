"""hotlap energy RUN"""

from __future__ import annotations

import argparse

from hotlap.cli import cases, terminal
from hotlap.core.analysis import energy
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import kept
from hotlap.core.show import document, listing, shape
from hotlap.core.show import energy as report


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    rail = "of a small device's board, as in VDD_IN: taken for what the device draws"
    parser.add_argument("--rail", default="", metavar="NAME", help=rail)


def run(args: argparse.Namespace) -> int:
    """Energy of a call of each case with its bounds, what a joule buys, power, and what the model expects; 3 where nothing is known."""
    analysed = cases.read(args, lambda bundle: kept.of(bundle, kept.place()))
    for bundle, _ in analysed if args.rail else []:
        if args.rail not in (rails := energy.rails(bundle.readings)):
            raise InputError(f"{bundle.run.id} has no rail '{args.rail}'; {nearest(args.rail, rails) or 'no rail of a board was read'}")
    energies = [(bundle, energy.energies(rows, bundle.readings, bundle.run.machine.devices, args.rail)) for bundle, rows in analysed]
    if args.json == shape.SHAPE:
        terminal.print_json(document.of_energies(energies))
    elif args.json:
        terminal.print_former([{"run": bundle.run.id, "cases": spent} for bundle, spent in energies])
    else:
        for bundle, spent in energies:
            print(listing.heading(bundle))
            print(report.energies(spent, terminal.width(), color=terminal.color()))
    return 0 if any(one.joules is not None for _, spent in energies for one in spent) else 3
