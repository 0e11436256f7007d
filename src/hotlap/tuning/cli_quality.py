"""hotlap tuning quality A B"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.tuning import quality_session, quality_show
from hotlap.tuning.quality_record import MARGINS, MEASURES, AnswersAsked
from hotlap.tuning.quality_sides import FORMS

CODES = {"as good": 0, "worse": 1, "cannot tell": 3}


def add(parser: argparse.ArgumentParser) -> None:
    margins = ", ".join(f"{name}={units.percent(value) if name == 'accuracy' else value}" for name, value in MARGINS.items())
    parser.add_argument("a", metavar="A", help=f"the model that is good enough: {FORMS}")
    parser.add_argument("b", metavar="B", help="what is compared with it, in any of these forms")
    parser.add_argument("--data", default="", metavar="FILE", help="what models that run here are asked: .npz of tokens, windows or inputs")
    held = f"the most that may be lost, of {', '.join(MEASURES)} ({margins})".replace("%", "%%")
    parser.add_argument("--margin", action="append", default=[], metavar="NAME=VALUE", help=held)
    parser.add_argument("--window", default="256", metavar="N", help="tokens of a window, the unit of intervals (default: 256)")
    parser.add_argument("--most", default="", metavar="N", help="items or windows to compare (default: all)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Is B as good as A: exit code 0 within the margin, 1 worse, 3 cannot tell, 130 interrupted."""
    asked = AnswersAsked(
        a=args.a, b=args.b, data=args.data, window=terminal.whole(args.window, "--window", 2), margins=_margins(args.margin),
        most=terminal.whole(args.most, "--most") if args.most else 0,
    )  # fmt: skip
    try:
        path = quality_session.compare(asked, paths.home(), terminal.pairs(args.label, "a label"), _progress)
    finally:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
    bundle = bundles.load(path)
    done = quality_show.read(bundle)
    assert done is not None  # it was just written
    code = 130 if bundle.run.stopped_by("interrupted") else CODES[done.answer]
    if args.json:
        terminal.answer(args.json, {"run": bundle.run.id, **quality_show.document(done)}, code=code, judged=False)
        return code
    print(listing.heading(bundle, []))
    print(quality_show.text(done, terminal.width(), terminal.color()))
    print(f"kept as {bundle.run.id}")
    return code


def _progress(count: int, planned: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{count:,} of {planned:,}")
        sys.stderr.flush()


def _margins(items: list[str]) -> dict[str, float]:
    """Raises InputError."""
    margins = {}
    for name, text in terminal.pairs(items, "a margin").items():
        if name not in MEASURES:
            raise InputError(f"--margin {name}: there is no such measure; {nearest(name, MEASURES)}")
        try:
            value = units.parse(text, "" if name.startswith("kl") else "%")
        except InputError as error:
            raise InputError(f"--margin {name}: {error}") from None
        if not 0 < value < (float("inf") if name.startswith("kl") or name == "perplexity" else 1.0):
            raise InputError(f"--margin {name}={text}: a margin is above 0{'' if name.startswith('kl') else ', a share as in 0.5%'}")
        margins[name] = value
    return margins
