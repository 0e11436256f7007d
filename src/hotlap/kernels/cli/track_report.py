"""hotlap kernel track report --from X --to Y"""

from __future__ import annotations

import argparse

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.core.show import shape
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, sides
from hotlap.core.store.bundle import Bundle
from hotlap.kernels import release as comparing
from hotlap.kernels.coverage import usage
from hotlap.kernels.show import release, release_page


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="a", required=True, metavar="X", help=f"the older side: {sides.VALID}")
    parser.add_argument("--to", dest="b", required=True, metavar="Y", help="the newer side, in the same words")
    parser.add_argument("--network", default="", metavar="NAME", help="only what this network calls")
    parser.add_argument("--min-effect", default="2 %", metavar="SHARE", help="smallest change to report (default: 2 %%)")
    parser.add_argument("--out", metavar="FILE", help="also as a file: Markdown where it ends in .md, else an HTML page")


def run(args: argparse.Namespace) -> int:
    """The report; exit code 1 for a regression, 3 when a case is lost or nothing can be determined."""
    min_effect = terminal.min_effect(args.min_effect)
    a, b = _side(args.a), _side(args.b)
    table = usage.of_table(args.network)
    report = comparing.release(a, b, min_effect, args.network, table)
    if args.network and not report.kernels:
        has = {usage.network_of(use.step) for _, side in (a, b) for one in side for use in one.run.plan.uses}
        raise InputError(f"no case of these runs is called by '{args.network}'; their plans know {', '.join(sorted(has)) or 'no network'}")
    if args.out:
        written = release.markdown(report) if args.out.endswith(".md") else release_page.page(report)
        terminal.page(args.out, written, args.json)
    if args.json:
        former = {} if args.json == shape.SHAPE else {"code": report.code}
        terminal.answer(args.json, {**former, "counts": report.counted(), "report": report}, code=report.code)
    else:
        print(release.release(report, terminal.width(), color=terminal.color()))
    return report.code


def _side(name: str) -> tuple[str, list[Bundle]]:
    """What it was taken for, and its runs, oldest first."""
    said, entries = sides.entries(name, paths.home())
    return said, sorted((bundles.load(one.path, readings=False) for one in entries), key=lambda one: one.run.began)
