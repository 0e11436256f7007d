"""hotlap predict WORKLOAD k=v … --machine NAME"""

from __future__ import annotations

import argparse

from hotlap import plan as plans
from hotlap import work
from hotlap.cli import terminal
from hotlap.model.predict import predict
from hotlap.report import listing


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", help="its name; 'hotlap predict WORKLOAD --help' and the manual list parameters")
    parser.add_argument("parameter", nargs="*", metavar="NAME=VALUE", help="as in a plan: size='1 GiB' dtype=bf16")
    parser.add_argument("--machine", required=True, help="of the machine table")


def run(args: argparse.Namespace) -> int:
    """Bound, expected time with its interval, the rates they mean, what sets the limit, and the source of each term."""
    spec = work.find(args.workload)
    case = plans.case(args.workload, terminal.pairs(args.parameter, "a parameter"))
    limit = predict(args.workload, args.machine, **case.params)
    if args.json:
        terminal.print_json({"case": case, "machine": args.machine, "unit": spec.unit, "limit": limit})
    else:
        print(listing.prediction(case, args.machine, limit, terminal.width()))
    return 0
