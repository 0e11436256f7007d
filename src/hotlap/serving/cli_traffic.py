"""hotlap serving traffic fit|show|scale TRACE"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.serving import show_traffic, traffic, traffic_fit, traffic_scale

VERBS = ("show", "fit", "scale")


def add(parser: argparse.ArgumentParser) -> None:
    about = "show: the trace on one screen; fit: rate, burstiness, lengths, shared prefixes; scale: the trace at another rate"
    parser.add_argument("what", choices=VERBS, help=about)
    parser.add_argument("trace", metavar="TRACE", help="of Azure, Mooncake, BurstGPT or ShareGPT, recognised by content; .gz is unpacked")
    parser.add_argument("--factor", type=float, metavar="N", help="scale: times so much as many requests each second")
    parser.add_argument(
        "--by", choices=("time", "requests"), default="time",
        help="scale: divide the times (default), or keep the duration and thin or merge requests; both keep the burstiness",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of what is drawn: the same seed, the same trace (default: 0)")
    parser.add_argument("--out", metavar="FILE", help="scale: where the trace is written, in Mooncake's format")


def run(args: argparse.Namespace) -> int:
    """Exit code 0. Raises InputError for a trace that cannot be read, and for options that do not fit."""
    if args.what != "scale" and (args.factor is not None or args.out):
        raise InputError(f"--factor and --out go with scale, not with {args.what}")
    if args.seed < 0:
        raise InputError(f"--seed is a whole number from 0, not {args.seed}")
    trace = traffic.read(Path(args.trace))
    if args.what == "scale":
        return _scale(args, trace)
    known = traffic_fit.fit(trace, args.seed)
    if args.json:
        terminal.answer(args.json, msgspec.to_builtins(known), "traffic")
    else:
        width = terminal.width()
        shown = show_traffic.shown(known, args.trace, width, terminal.color()) if args.what == "show" else ""
        print(shown or show_traffic.fitted(known, args.trace, width))
    return 0


def _scale(args: argparse.Namespace, trace: traffic.TrafficTrace) -> int:
    if args.factor is None or not args.out:
        raise InputError("scale needs --factor, as in --factor 2, and --out FILE for the trace")
    if Path(args.out).exists():
        raise InputError(f"'{args.out}' is there already; give --out another name")
    changed = traffic_scale.scaled(trace, args.factor, args.by, args.seed)
    terminal.write(Path(args.out), traffic_scale.lines(changed))
    before, after = traffic_fit.fit(trace), traffic_fit.fit(changed)
    if args.json:
        terminal.answer(args.json, {"before": msgspec.to_builtins(before), "after": msgspec.to_builtins(after), "out": args.out})
    else:
        print(show_traffic.scaled(before, after, args.by, args.out, terminal.width(), terminal.color()))
    return 0
