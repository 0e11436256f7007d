"""hotlap trace lint FILE…"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError, nearest
from hotlap.traces import lint
from hotlap.traces.markers import SEVERITIES, rules
from hotlap.traces.show import lint as printing
from hotlap.traces.timeline import Timeline

TAKEN = ("auto", "ranks", "runs")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="traces; several: one per rank, or runs from the oldest on")
    parser.add_argument(
        "--as", dest="taken", default="auto", metavar="WHAT",
        help="what several traces are: ranks, runs, or auto: ranks where each names a rank of its own (default)",
    )  # fmt: skip
    parser.add_argument(
        "--fail-on", default="error", metavar="SEVERITY", help="least severity that exits 1: info, warning, error (default)"
    )
    parser.add_argument("--list", action="store_true", help="the rules, with thresholds and sources")


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where a flaw is an error, 2 where no file could be read."""
    if args.list:
        known = rules()[0]
        if args.json:
            terminal.answer(args.json, list(known.values()), "rules")
        else:
            print(printing.rules(known, terminal.width()))
        return 0
    for given, valid, what in ((args.taken, TAKEN, "way to take traces"), (args.fail_on, SEVERITIES, "severity")):
        if given not in valid:
            raise InputError(f"there is no {what} '{given}'; {nearest(given, valid)}")
    if not args.files:
        raise InputError("name a trace, or --list for the rules")
    linted = lint.lint(_opened(args.files), "" if args.taken == "auto" else args.taken)
    worst = max((SEVERITIES.index(one.severity) for one in linted.flaws), default=-1)
    code = 1 if worst >= SEVERITIES.index(args.fail_on) else 0
    if args.json:
        terminal.answer(args.json, linted, code=code)
    else:
        print(printing.lint(linted, terminal.width(), terminal.color()))
    return code


def _opened(files: list[str]) -> list[Timeline]:
    """Those that can be read; the others are named, unless none is left."""
    timelines, errors = list[Timeline](), list[InputError]()
    for file in files:
        try:
            timelines.append(Timeline.open(Path(file)))
        except InputError as error:
            errors.append(error)
    if not timelines:
        raise InputError("; ".join(map(str, errors)))
    for one in errors:
        print(f"hotlap: left out: {one}", file=sys.stderr)
    return timelines
