"""hotlap compare A B"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.judge import compare as comparing
from hotlap.report import text


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a run, or a group of runs (label=value)")
    parser.add_argument("b", help="what it is held against")


def run(args: argparse.Namespace) -> int:
    """A row per case; exit code 1 when a case is slower in B, 3 when B lacks one that A has or nothing can be compared."""
    a, b = terminal.runs([args.a]), terminal.runs([args.b])
    found = comparing.compare(a, b)
    if args.json:
        terminal.print_json(found)
    else:
        print(text.comparison(found, terminal.width(), color=terminal.color()))
    if any(c.answer == "slower" for c in found):
        return 1
    lost = any(c.answer == "not comparable" and c.a.median is not None for c in found)
    return 3 if lost or all(c.answer == "not comparable" for c in found) else 0
