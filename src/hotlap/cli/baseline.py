"""hotlap baseline save|list|show|promote"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.record import Baseline, Result
from hotlap.core.show import kinds, listing
from hotlap.core.store import baselines, paths
from hotlap.core.store.bundle import Bundle


def add(parser: argparse.ArgumentParser) -> None:
    about = "save: learn one from runs; show it; promote: make it the usual one; list: all of them"
    parser.add_argument("what", choices=("save", "list", "show", "promote"), help=about)
    parser.add_argument("item", nargs="*", help="save: runs or groups of runs; show, promote: the name of a baseline; show: or its file")
    parser.add_argument("--name", default="", help="save: of the baseline (default with --to: the file's name)")
    parser.add_argument("--to", metavar="FILE", help="save: into this file, as for a repository, instead of the home")
    parser.add_argument("--add", action="store_true", help="save: to what the baseline knows already")
    parser.add_argument("--replace", action="store_true", help="save: in place of the baseline that is there")


def run(args: argparse.Namespace) -> int:
    """Baselines per case, model and device, learnt from runs with their own spread."""
    home = paths.home()
    if args.what == "save":
        return _save(args)
    if args.name or args.add or args.to or args.replace:
        example = f"hotlap baseline {args.what} nightly"
        raise InputError(f"--name, --to, --add and --replace are for save; {args.what} takes the name itself, as in: {example}")
    if args.what == "list":
        if args.item:
            raise InputError(f"list takes no name; one is shown with: hotlap baseline show {args.item[0]}")
        found = _readable(home)
        if args.json:
            terminal.answer(args.json, {"promoted": baselines.promoted(home), "baselines": found})
        else:
            print(listing.baselines(found, baselines.promoted(home), terminal.width(), color=terminal.color()))
        return 0
    if len(args.item) > 1 or (args.what == "promote" and not args.item):
        raise InputError(f"{args.what} takes one name, as in: hotlap baseline {args.what} nightly; 'hotlap baseline list' lists them")
    name = args.item[0] if args.item else baselines.promoted(home)
    baseline = baselines.read(Path(name)) if args.what == "show" and Path(name).is_file() else baselines.load(name, home)
    if args.what == "promote":
        baselines.promote(baseline.name, home)
    if args.json:
        terminal.answer(args.json, baseline, "baseline")
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
    if not args.item or not (args.name or args.to):
        raise InputError("which runs, under which name? as in: hotlap baseline save cluster=a --name nightly, or --to baseline.json")
    if args.add and args.replace:
        raise InputError("--add keeps what the baseline knows, --replace drops it; give one of them")
    name, home = args.name or Path(args.to).stem, paths.home()
    before = _before_in_file(Path(args.to), args) if args.to else _before_in_home(name, home, args)
    beside: list[Result] = []
    baseline = baselines.learn(name, _with_cases(args.item), before, beside)
    path = baselines.write(baseline, Path(args.to)) if args.to else baselines.save(baseline, home)
    if args.json:
        terminal.answer(args.json, baseline, "baseline")
    else:
        print(listing.baseline(baseline, terminal.width(), color=terminal.color()))
        print(f"\nsaved in {path}")
    if beside:
        print(f"hotlap: {listing.disturbed(beside, baseline)}", file=sys.stderr)
    return 0


def _with_cases(items: Sequence[str]) -> Iterator[Bundle]:
    for bundle in terminal.each(items):
        kinds.need_cases(bundle)
        yield bundle


def _before_in_home(name: str, home: Path, args: argparse.Namespace) -> Baseline | None:
    """What the runs are added to; None for a new baseline."""
    there = name in baselines.names(home)
    if there and not (args.add or args.replace):
        raise InputError(f"there is a baseline '{name}' already; --add adds these runs to it, --replace drops it, or choose another name")
    if args.add and not there:
        hint = nearest(name, baselines.names(home)) or "none is saved yet"
        raise InputError(f"there is no baseline '{name}' to add to; {hint}; without --add it is made")
    return baselines.load(name, home) if args.add else None


def _before_in_file(path: Path, args: argparse.Namespace) -> Baseline | None:
    """The same of a file."""
    terminal.writable(path)
    if path.exists() and not (args.add or args.replace):
        raise InputError(f"there is a file '{path}' already; --add adds these runs to its baseline, --replace writes it anew")
    if args.add and not path.exists():
        raise InputError(f"there is no file '{path}' to add to; without --add it is made")
    return baselines.read(path) if args.add else None
