"""hotlap kernel track [SELECTOR …]"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hotlap.cli import terminal
from hotlap.core.errors import InputError, nearest
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle
from hotlap.core.work.networks import steps
from hotlap.kernels import track as tracking
from hotlap.kernels.coverage import usage
from hotlap.kernels.show import track, track_page


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a range of times … (default: all)")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="only these cases: a workload or parameter")
    parser.add_argument("--network", default="", metavar="NAME", help="only what this network calls, and what changes cost its step")
    parser.add_argument("--device", default="", help="only this device: its key, UUID, name or index")
    parser.add_argument("--min-effect", default="0 %", metavar="SHARE", help="smallest change to report (default: any that is not chance)")
    parser.add_argument("--changed", action="store_true", help="only kernels with a change or a wrong result")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with a chart per kernel")


def run(args: argparse.Namespace) -> int:
    """A line per kernel: its life, what brought each change, what that costs a network's step, and whether its results are right."""
    where = terminal.filters(args.where) | ({"device": args.device} if args.device else {})
    if args.out and args.out.endswith(".md"):
        raise InputError(f"track writes a page: name it .html, not {args.out}; 'hotlap kernel track report' writes Markdown")
    min_effect = terminal.min_effect(args.min_effect, below=math.inf)
    tracked = tracking.track(_bundles(args), where, min_effect, args.network, usage.of_table(args.network))
    if not tracked.lives and not tracked.never:
        _explain(args, where)
    kept = [one for one in tracked.lives if one.turns or one.checks.wrong or one.checks.grown] if args.changed else tracked.lives
    shown = replace(tracked, lives=kept)
    if args.out:
        terminal.page(args.out, track_page.page(shown), args.json)
    if args.json:
        terminal.answer(args.json, shown)
    elif args.changed and not kept:
        print(f"{tracked.runs} runs, {len(tracked.lives)} kernels: none with a change or a wrong result")
    else:
        print(track.track(shown, terminal.width(), color=terminal.color()))
    return 0


def _bundles(args: argparse.Namespace) -> Iterator[Bundle]:
    return terminal.on_hardware(args.run, "a history of kernels")


def _explain(args: argparse.Namespace, where: dict[str, str]) -> None:
    """Raises: why there is no kernel, where that is the user's to change."""
    bundles: Sequence[Bundle] = list(_bundles(args))
    if not bundles:
        raise InputError("no runs are kept yet: 'hotlap run' measures one, 'hotlap import FILE' brings in numbers measured elsewhere")
    if args.network:
        has = {usage.network_of(use.step) for one in bundles for use in one.run.plan.uses}
        valid = {*has, *steps.names()}
        hint = "" if args.network in valid else f"; {nearest(args.network, valid)}"
        raise InputError(f"no case of these runs is called by '{args.network}'{hint}")
    if where:
        raise select.no_match_error(bundles, where)
