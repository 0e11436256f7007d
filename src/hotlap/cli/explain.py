"""hotlap explain RUN"""

from __future__ import annotations

import argparse

from hotlap.cli import cases, terminal
from hotlap.core.model import kept
from hotlap.core.show import export, listing, text
from hotlap.stress import verdict as judging


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    parser.add_argument("--spec-only", action="store_true", help="leave out what 'hotlap calibrate' has learnt of the machine")


def run(args: argparse.Namespace) -> int:
    """Each number against its limit, the headroom and its named cause, and where each term comes from."""
    known = (lambda _: {}) if args.spec_only else (lambda bundle: kept.of(bundle, kept.place()))
    found = cases.read(args, known)
    if args.json:
        terminal.print_json([export.to_json(bundle, rows) for bundle, rows in found])
        return cases.code(found)
    for bundle, rows in found:
        print(listing.heading(bundle))
        if judging.of(bundle):
            print(f"a stress run has no cases to explain; hotlap show {bundle.run.id} says what was done, what held it back and what to do")
            continue
        print(text.explain(rows, terminal.width(), color=terminal.color()))
    return cases.code(found)
