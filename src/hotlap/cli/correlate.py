"""hotlap model correlate SIMULATED MEASURED"""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core import stand_in
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.correlate import correlate
from hotlap.core.errors import InputError
from hotlap.core.show import correlation


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("simulated", help="a run or group of runs (label=value) of a simulated target")
    parser.add_argument("measured", help="a run or group of runs of the same plan on silicon")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="only these cases: a workload or parameter")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with the scatter")


def run(args: argparse.Namespace) -> int:
    """Errors of the simulation by regime, and the worst cases."""
    where = terminal.filters(args.where)
    groups = [terminal.runs([side]) for side in (args.simulated, args.measured)]
    stand_in.refuse((one.run for group in groups for one in group), "a correlation")
    sides = [[(one.run.id, tables.rows(one, where)) for one in group] for group in groups]
    models = [" and ".join(sorted({device.model for one in group for device in one.run.machine.devices})) for group in groups]
    try:
        result = correlate(*sides)
    except ValueError as error:
        raise InputError(f"{args.simulated} and {args.measured}: {error}") from None
    if models[0] != models[1]:
        result = replace(result, apart=f"{models[0]} simulated against {models[1]}")
    if args.out:
        terminal.write_page(Path(args.out), correlation.page(result))
    if args.json:
        terminal.answer(args.json, result, "correlation")
    else:
        print(correlation.correlation(result, terminal.width(), color=terminal.color()))
    return 0
