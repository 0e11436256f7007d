"""hotlap list [SELECTOR …]"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import terminal
from hotlap.core.show import listing
from hotlap.core.store import bundle, paths, select
from hotlap.core.store.catalog import Entry

NEWEST = 40  # runs on a terminal, unless all are asked for


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a day, a path …")
    parser.add_argument("--all", action="store_true", help=f"all of them on a terminal too, which shows the newest {NEWEST}")


def run(args: argparse.Namespace) -> int:
    """One line per run, newest last."""
    entries = select.entries(args.run, paths.home())
    if args.json:
        terminal.answer(args.json, [_json(one) for one in entries], "runs")
    else:
        newest = entries[-NEWEST:] if sys.stdout.isatty() and not args.all else entries
        shown = [one.listed or bundle.load(one.path).listed for one in newest]
        now = {known.id for one, known in zip(newest, shown, strict=True) if not known.ended and bundle.being_measured(one.path)}
        print(listing.runs(shown, terminal.width(), terminal.color(), len(entries) - len(newest), now))
    return 0


def _json(entry: Entry) -> object:
    """run.json; of a run of a later schema what is known of it, and the version that reads it."""
    if entry.listed and entry.listed.written_by:
        known = {name: getattr(entry.listed, name) for name in ("id", "kind", "began", "devices", "host")}
        return known | {"needs": f"hotlap {entry.listed.written_by}"}
    return bundle.read_run(entry.path)
