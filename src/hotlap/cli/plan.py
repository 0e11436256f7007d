"""hotlap plan show|check PLAN"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core.errors import InputError
from hotlap.core.show import words


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("show", "check"), help="show its cases, or check that it is valid")
    parser.add_argument("plan", nargs="?", help="a built-in plan or a TOML file; without one, the built-in plans are listed")


def run(args: argparse.Namespace) -> int:
    """A plan's cases and options, or one line that it is valid; exit code 2 with file and line when it is not."""
    if args.plan is None and args.what == "check":
        raise InputError("which plan? give a built-in plan or a TOML file, as in: hotlap plan check mine.toml")
    if args.plan is None or (args.plan == "list" and not Path("list").exists()):
        listing = plans.builtin()
        if args.json:
            terminal.answer(args.json, listing, "plans")
        else:
            print("\n".join(f"{name:<10} {about}" for name, about in listing.items()))
        return 0
    plan = plans.load(args.plan)
    if args.json:
        terminal.answer(args.json, plan, "plan")
    elif args.what == "show":
        print(plans.show(plan))
    else:
        print(f"{args.plan}: {words.counted(len(plan.cases), 'case')}, valid")
    return 0
