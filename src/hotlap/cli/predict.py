"""hotlap predict WORKLOAD k=v … --machine NAME"""

from __future__ import annotations

import argparse
from typing import Any

from hotlap import plan as plans
from hotlap import work
from hotlap.cli import terminal
from hotlap.errors import InputError
from hotlap.model.predict import predict
from hotlap.report import listing
from hotlap.units import exact
from hotlap.work.program import OWN


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workload", nargs="?", help="its name, out of those below")
    parser.add_argument("parameter", nargs="*", metavar="NAME=VALUE", help="as in a plan: size='1 GiB' dtype=bf16")
    parser.add_argument("--machine", help="of the machine table: 'hotlap machines' lists them")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _workloads()


def run(args: argparse.Namespace) -> int:
    """Bound, expected time with its interval, the rates they mean, what sets the limit, and the source of each term."""
    if not args.workload:
        raise InputError(f"which workload? valid: {', '.join(_predictable())}; as in: hotlap predict stream --machine h200-sxm")
    spec = work.find(args.workload)
    if not args.machine:
        raise InputError("which machine? give --machine NAME, as in --machine h200-sxm; 'hotlap machines' lists the names")
    case = plans.case(args.workload, terminal.pairs(args.parameter, "a parameter"))
    limit = predict(args.workload, args.machine, **dict[str, Any](case.params))
    if args.json:
        terminal.print_json({"case": case, "machine": args.machine, "unit": spec.unit, "limit": limit})
    else:
        print(listing.prediction(case, args.machine, limit, terminal.width()))
    return 0


def _predictable() -> list[str]:
    """Nothing is known of what a program or a callable does."""
    return [name for name in work.WORKLOADS if name not in OWN]


def _workloads() -> str:
    """Each workload with its parameters, and the values they may have where those are few."""
    lines = ["workloads and their parameters (the manual says what each means):"]
    for name in _predictable():
        lines.append(f"  {name}")
        for param in work.WORKLOADS[name].params:
            plain = "a number" if param.kind in ("int", "float") else param.kind
            values = "|".join(param.choices) or ("a size" if param.unit == "B" else plain)
            shown = exact(param.default, param.unit) if isinstance(param.default, (int, float)) else param.default
            default = f" (default {shown})" if param.default is not None else ""
            lines.append(f"    {param.name}={values}{default}")
    return "\n".join(lines)
