"""hotlap explain RUN"""

from __future__ import annotations

import argparse
import shlex

from hotlap.cli import cases, terminal
from hotlap.core.model import kept
from hotlap.core.show import document, export, kinds, listing, shape, text


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    parser.add_argument("--all", action="store_true", help="each number of each device, where several devices are folded")
    parser.add_argument("--spec-only", action="store_true", help="leave out what 'hotlap model calibrate' has learnt of the machine")


def run(args: argparse.Namespace) -> int:
    """Each number against its limit, the headroom and its named cause, and where each term comes from."""
    known = (lambda _: {}) if args.spec_only else (lambda bundle: kept.of(bundle, kept.place()))
    analysed = cases.read(args, known, folded=not args.json and not args.all)
    if args.json == shape.SHAPE:
        terminal.print_json(document.of_runs(analysed))
        return cases.code(analysed)
    if args.json:
        terminal.print_former([export.to_json(bundle, rows) for bundle, rows in analysed])
        return cases.code(analysed)
    if not args.all and not any(kinds.of(bundle) for bundle, _ in analysed) and cases.many(analysed):
        print(text.explained_fleet(analysed, terminal.width(), terminal.color(), shlex.join(args.run)))
        return cases.code(analysed)
    for bundle, rows in analysed:
        print(listing.heading(bundle, rows))
        kind = kinds.of(bundle)
        if kind and not kind.CASES:
            print(kind.NO_CASES.format(run=bundle.run.id))
            continue
        if args.all or len({row.device for row in rows}) == 1:
            print(text.explain(rows, terminal.width(), color=terminal.color()))
        else:
            print(text.explained_devices(bundle, rows, terminal.width(), terminal.color()))
    return cases.code(analysed)
