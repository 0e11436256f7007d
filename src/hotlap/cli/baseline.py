"""hotlap baseline save|list|show|promote"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.record import Baseline
from hotlap.core.show import listing
from hotlap.core.store import baselines, paths


def add(parser: argparse.ArgumentParser) -> None:
    about = "save: learn one from runs; show it; promote: make it the usual one; list: all of them"
    parser.add_argument("what", choices=("save", "list", "show", "promote"), help=about)
    parser.add_argument("item", nargs="*", help="save: runs or groups of runs; show, promote: the name of a baseline")
    parser.add_argument("--name", default="", help="save: of the baseline")
    parser.add_argument("--add", action="store_true", help="save: to what the baseline knows already")


def run(args: argparse.Namespace) -> int:
    """Baselines per case, model and device, learnt from runs with their own spread."""
    home = paths.home()
    if args.what == "save":
        return _save(args)
    if args.name or args.add:
        raise InputError(f"--name and --add are for save; {args.what} takes the name itself, as in: hotlap baseline {args.what} nightly")
    if args.what == "list":
        if args.item:
            raise InputError(f"list takes no name; one is shown with: hotlap baseline show {args.item[0]}")
        found = _readable(home)
        if args.json:
            terminal.print_json({"promoted": baselines.promoted(home), "baselines": found})
        else:
            print(listing.baselines(found, baselines.promoted(home), terminal.width(), color=terminal.color()))
        return 0
    if len(args.item) > 1 or (args.what == "promote" and not args.item):
        raise InputError(f"{args.what} takes one name, as in: hotlap baseline {args.what} nightly; 'hotlap baseline list' lists them")
    name = args.item[0] if args.item else baselines.promoted(home)
    baseline = baselines.load(name, home)
    if args.what == "promote":
        baselines.promote(baseline.name, home)
    if args.json:
        terminal.print_json(baseline)
    elif args.what == "show":
        print(listing.baseline(baseline, terminal.width(), color=terminal.color()))
    else:
        print(f"{baseline.name} is now what 'hotlap gate --against baseline' means")
    return 0


def _readable(home: Path) -> list[Baseline]:
    """All that can be read; the others are named."""
    bundles = []
    for name in baselines.names(home):
        try:
            bundles.append(baselines.load(name, home))
        except HotlapError as error:
            print(f"hotlap: passed over: {error}", file=sys.stderr)
    return bundles


def _save(args: argparse.Namespace) -> int:
    if not args.item or not args.name:
        raise InputError("which runs, under which name? as in: hotlap baseline save cluster=a --name nightly")
    home = paths.home()
    there = args.name in baselines.names(home)
    if there and not args.add:
        raise InputError(f"there is a baseline '{args.name}' already; --add adds these runs to it, or choose another name")
    if args.add and not there:
        hint = nearest(args.name, baselines.names(home)) or "none is saved yet"
        raise InputError(f"there is no baseline '{args.name}' to add to; {hint}; without --add it is made")
    before = baselines.load(args.name, home) if there else None
    baseline = baselines.learn(args.name, terminal.each(args.item), before)
    path = baselines.save(baseline, home)
    if args.json:
        terminal.print_json(baseline)
    else:
        print(listing.baseline(baseline, terminal.width(), color=terminal.color()))
        print(f"\nkept in {path}")
    return 0
