"""hotlap compare A B [C …]"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotlap.cli import terminal
from hotlap.core import stand_in
from hotlap.core.analysis import compare as comparing
from hotlap.core.analysis import drift, environment, implementations, peers
from hotlap.core.errors import InputError
from hotlap.core.record import Comparison
from hotlap.core.show import comparison, comparison_page, document, kinds, shape
from hotlap.core.show import implementations as side_by_side
from hotlap.core.store import paths, select
from hotlap.core.store.bundle import Bundle
from hotlap.core.store.readers import imported


def add(parser: argparse.ArgumentParser) -> None:
    about = "runs or groups of runs (label=value): the others are compared with the first; with --by implementation all together"
    parser.add_argument("side", nargs="+", help=about)
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="only these cases: workload, parameter, host …")
    parser.add_argument("--min-effect", metavar="SHARE", help="minimum change to report (threshold; default: 2 %%, of runs of ab its own)")
    parser.add_argument("--assume-stable", action="store_true", help="allow for no drift between sides measured one after the other")
    parser.add_argument("--force", action="store_true", help="compare other targets or models of device all the same, and say so")
    parser.add_argument("--by", choices=("run", "implementation"), default="run", help="what is set side by side (default: run)")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with the intervals drawn on one scale")


def run(args: argparse.Namespace) -> int:
    """A row per case; exit code 1 when a case is slower, be it on one device, 3 when all is inconclusive or a case is missing."""
    min_effect = terminal.min_effect(args.min_effect) if args.min_effect is not None else None
    if args.by == "implementation":
        return _by_implementation(args, comparing.MIN_EFFECT if min_effect is None else min_effect)
    if len(args.side) < 2:
        raise InputError("two runs or groups of runs are needed, as in: hotlap compare cluster=a cluster=b; hotlap list has all runs")
    where = terminal.filters(args.where)
    sides = [_without_copies(select.only(list(terminal.each([one])), where)) for one in args.side]
    first, others = sides[0], dict(zip(args.side[1:], sides[1:], strict=True))
    stand_in.refuse_mixed([one.run for side in sides for one in side])
    for name, other in others.items():
        apart = environment.apart([one.run for one in first], [one.run for one in other])
        if apart and not args.force:
            raise InputError(f"{args.side[0]} (A) and {name} (B) are not comparable: {apart}; --force compares them all the same")
    comparisons = {name: _compared(first, other, min_effect, args) for name, other in others.items()}
    if not any(comparisons.values()):
        kinds.refuse_without_cases([one for side in sides for one in side])
    differs = {name: environment.differences([one.run for one in first], [one.run for one in other]) for name, other in others.items()}
    held = {name: comparison.Other(comparisons[name], others[name], differs[name]) for name in others}
    if args.out:
        terminal.write_page(Path(args.out), comparison_page.page(args.side[0], first, held))
    code = max((exit_code(pairs) for pairs in comparisons.values()), key=(0, 3, 1).index)
    if args.json == shape.SHAPE:
        runs = {name: other[0].run if len(other) == 1 else None for name, other in others.items()}
        sides_ = [{"name": name, "runs": [one.run.id for one in side]} for name, side in zip(args.side, sides, strict=True)]
        keys = {"sides": sides_, "differences": differs}
        terminal.print_json(document.of_comparisons([(comparisons[name], runs[name]) for name in others], code, keys))
    elif args.json:
        terminal.print_former(_former(args.side[0], first, held))
    elif len(held) == 1:
        (other,) = held.values()
        print(comparison.comparison(other.comparisons, (first, other.runs), other.differences, terminal.width(), color=terminal.color()))
    else:
        print(comparison.matrix(held, args.side[0], first, terminal.width(), color=terminal.color()))
    return code


def _without_copies(runs: Sequence[Bundle]) -> list[Bundle]:
    """A file that was brought in twice, under other labels, is no second run."""
    kept, copies = imported.distinct(runs)
    for copy, run in copies.items():
        print(f"hotlap: {copy} has the same imported numbers as {run}, so it is left out", file=sys.stderr)
    return kept


def _compared(first: Sequence[Bundle], other: Sequence[Bundle], min_effect: float | None, args: argparse.Namespace) -> list[Comparison]:
    """With what the home holds of the series before, where the sides were measured one after the other."""
    past: drift.Past = {}
    if not args.assume_stable and drift.one_after_the_other([one.run for one in first], [one.run for one in other]):
        past = drift.kept([one.run for one in first], [one.run for one in other], paths.home())
    return comparing.compare(first, other, min_effect, args.force, past, args.assume_stable)


def _by_implementation(args: argparse.Namespace, min_effect: float) -> int:
    """All runs together; exit code 3 when no case has two implementations, 1 when one of them is wrong."""
    if args.out:
        raise InputError("--out is a page of two sides; with --by implementation there is --json")
    runs = select.only(list(terminal.each(args.side)), terminal.filters(args.where))
    pairs = implementations.beside(runs, min_effect, args.assume_stable)
    if not pairs:
        said = f"no case of {', '.join(args.side)} was measured in two implementations"
        raise InputError(f"{said}; hotlap kernel plan NAME --beside makes such a plan")
    code = 1 if any(one.status in ("invalid", "error") for case in pairs for one in case.entries) else 0
    if args.json == shape.SHAPE:
        terminal.print_json(document.of_implementations(pairs, code))
    elif args.json:
        terminal.print_former(side_by_side.document(pairs))
    else:
        print(side_by_side.beside(pairs, terminal.width(), color=terminal.color()))
    return code


def _former(name: str, first: Sequence[Bundle], others: Mapping[str, comparison.Other]) -> dict[str, Any]:
    if len(others) > 1:
        sides = {other: one.comparisons for other, one in others.items()}
        return {"first": name, "sides": sides, "differences": {other: one.differences for other, one in others.items()}}
    (other,) = others.values()
    ids = [[one.run.id for one in side] for side in (first, other.runs)]
    return {"a": ids[0], "b": ids[1], "cases": other.comparisons, "differences": other.differences}


def exit_code(comparisons: Sequence[Comparison]) -> int:
    """1 where a case is slower, be it on one device, 3 where one is missing or all is inconclusive, else 0."""
    if any(one.answer == "slower" or any(peers.slower(device, one.min_effect or 0.0) for device in one.devices) for one in comparisons):
        return 1
    lost = any(one.answer == "not comparable" and one.a.median is not None for one in comparisons)
    return 3 if lost or all(one.answer in ("inconclusive", "not comparable") for one in comparisons) else 0
