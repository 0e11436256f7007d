"""hotlap list [SELECTOR …]"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.show import listing
from hotlap.core.store import bundle, paths, select
from hotlap.core.store.catalog import Entry


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a day, a path …")


def run(args: argparse.Namespace) -> int:
    """One line per run, newest last."""
    found = select.entries(args.run, paths.home())
    if args.json:
        terminal.answer(args.json, [_json(one) for one in found], "runs")
    else:
        shown = [one.listed or bundle.load(one.path).listed for one in found]
        print(listing.runs(shown, terminal.width(), color=terminal.color()))
    return 0


def _json(entry: Entry) -> object:
    """run.json; of a run of a later schema what is known of it, and the version that reads it."""
    if entry.listed and entry.listed.written_by:
        known = {name: getattr(entry.listed, name) for name in ("id", "kind", "began", "devices", "host")}
        return known | {"needs": f"hotlap {entry.listed.written_by}"}
    return bundle.read_run(entry.path)
