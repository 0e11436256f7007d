"""hotlap training converge A B"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from hotlap.cli import cases, looking, terminal
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.training import cli, converge, converge_session, converge_show
from hotlap.training.converge_record import ConvergeAsked
from hotlap.training.record import ProgramKind

RUNS, MOST = converge.INTERVAL, 1000
CODES = {"faster": 0, "same": 0, "slower": 1, "inconclusive": 3}


def add(parser: argparse.ArgumentParser) -> None:
    what = "the reference: logs of MLPerf (a folder, or files with commas between), or a program, script.py or module:function"
    parser.add_argument("a", metavar="A", help=what)
    parser.add_argument("b", metavar="B", help="what is compared with it: logs where A is logs, else a program")
    fewest = f"of each program, with a seed each, A B, B A in turns (default: {RUNS}, the fewest with an interval)"
    parser.add_argument("--runs", default="", metavar="N", help=fewest)
    parser.add_argument("--target", default="", metavar="VALUE", help="quality to reach (default: what the logs say)")
    parser.add_argument("--lower", action="store_true", help="lower quality is better, as of a loss")
    parser.add_argument("--metric", default="", metavar="NAME", help="which one, of logs with several (metadata.metric)")
    parser.add_argument("--interpolate", action="store_true", help="between evaluations; the rules of MLPerf do not")
    parser.add_argument("--min-effect", default="2 %", metavar="SHARE", help="minimum change to report (default: 2 %%)")
    parser.add_argument("--limit", default="1 h", metavar="TIME", help="after which a process is ended (default: 1 h)")
    looking.wait(parser, "for a device that another run holds, of programs (default: refuse at once)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Time to quality of both: exit code 0 B is not slower, 1 slower, 3 inconclusive, 2 no run of a side reached its target, 130
    interrupted."""
    asked, kinds = _asked(args)
    marks = labelled.check(dict(terminal.pairs(args.label, "a label")))
    if kinds is None:
        path = converge_session.of_logs(asked, paths.home(), marks)
    else:
        view = cli.LaunchView(sys.stderr)
        try:
            path = converge_session.of_programs(asked, kinds, paths.home(), marks, view, looking.wait_s(args))
        finally:
            view.end()
    return _show(path, args)


def _show(path: Path, args: argparse.Namespace) -> int:
    bundle = bundles.load(path)
    done = converge_show.read(bundle)
    assert done is not None  # it was just written
    interrupted = any(stop.kind == "interrupted" for stop in bundle.run.stops)
    nothing = not done.a.reached or not done.b.reached
    code = 130 if interrupted else 2 if nothing else CODES[done.answer]
    if args.json:
        cases.answer(args.json, bundle, converge_show.document(done), code)
        return code
    print(listing.heading(bundle, []))
    print(converge_show.text(done, terminal.width(), terminal.color()))
    print(f"kept as {bundle.run.id}")
    if nothing and not interrupted:
        name, side = ("A", done.a) if not done.a.reached else ("B", done.b)
        why = side.runs[0].why if side.runs else "it has no run"
        print(f"hotlap: no run of {name} reached its target: {why}", file=sys.stderr)
    return code


def _asked(args: argparse.Namespace) -> tuple[ConvergeAsked, tuple[ProgramKind, ProgramKind] | None]:
    """Raises InputError."""
    kinds = [_program(str(one)) for one in (args.a, args.b)]
    if (kinds[0] is None) != (kinds[1] is None):
        log, program = (args.a, args.b) if kinds[0] is None else (args.b, args.a)
        raise InputError(f"'{log}' is logs and '{program}' a program; give logs on both sides, or programs on both")
    if kinds[0] is None and args.runs:
        raise InputError("--runs is of programs; logs have the runs that they have")
    runs = 0 if kinds[0] is None else terminal.whole(args.runs or str(RUNS), "--runs", 2, MOST)
    asked = ConvergeAsked(
        a=args.a, b=args.b, runs=runs, target=_target(args.target), better="lower" if args.lower else "", metric=args.metric,
        interpolate=args.interpolate, min_effect=terminal.min_effect(args.min_effect), limit_s=cli.limit_s(args.limit),
    )  # fmt: skip
    first, second = kinds
    return asked, None if first is None or second is None else (first, second)


def _program(text: str) -> ProgramKind | None:
    """None for logs."""
    if text.endswith(".py"):
        return "script"
    module, colon, function = text.partition(":")
    named = module.replace(".", "").replace("_", "").isalnum() and function.replace(".", "").isidentifier()
    return "function" if colon and named and not Path(text).exists() else None


def _target(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"--target is a number, as in 0.97, not '{text}'")
    return value
