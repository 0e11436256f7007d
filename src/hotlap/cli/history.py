"""hotlap history [SELECTOR …]"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence

from hotlap.cli import terminal
from hotlap.core.analysis import history as remembering
from hotlap.core.errors import InputError
from hotlap.core.show import history, history_page, kinds
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="only these runs: label=value, a range of times … (default: all)")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="only these cases: a workload or parameter")
    parser.add_argument("--metric", default="", help="only this metric: bandwidth, compute, latency …")
    parser.add_argument("--device", default="", help="only this device: its key, UUID, name or index")
    parser.add_argument("--min-effect", default="0 %", metavar="SHARE", help="smallest change to report (default: any that is not chance)")
    parser.add_argument("--confirmed", action="store_true", help="no provisional changes: those that only the last few points show")
    parser.add_argument("--out", metavar="FILE", help="also as one page, HTML or PDF, with a chart per series")
    parser.add_argument("--all", action="store_true", help=f"every series (default: above {history.MANY} those that tell something)")
    parser.add_argument("--changed", action="store_true", help="only series with a change")


def run(args: argparse.Namespace) -> int:
    """A series per case and device over time, with the places where its level changed."""
    where = terminal.filters(args.where) | {k: v for k, v in (("metric", args.metric), ("device", args.device)) if v}
    min_effect = terminal.min_effect(args.min_effect, below=math.inf)
    all_series = remembering.history(_bundles(args), where, min_effect, provisional=not args.confirmed)
    if not all_series:
        _explain(list(_bundles(args)), where)
    kept = [one for one in all_series if one.changes] if args.changed else all_series
    if args.out:
        terminal.page(args.out, history_page.page(kept), args.json)
    if args.json:
        terminal.answer(args.json, kept, "series")
        return 0
    runs = len({point.run for one in all_series for point in one.points})
    most = len(kept) if args.all else history.MANY
    if kept:
        print(history.history(kept, terminal.width(), terminal.color(), most, history.HistoryAsked(min_effect, where, all_series)))
    else:
        print(history.unchanged(runs, all_series, min_effect))
    return 0


def _bundles(args: argparse.Namespace) -> Iterator[Bundle]:
    return terminal.on_hardware(args.run, "a history")


def _explain(bundles: Sequence[Bundle], where: Mapping[str, str]) -> None:
    """Raises: why there is no series, where that is the user's to change."""
    if not bundles:
        raise InputError("no runs are kept yet: 'hotlap run' measures one, 'hotlap import FILE' brings in numbers measured elsewhere")
    if where:
        raise select.no_match_error(bundles, where)
    kinds.refuse_without_cases(bundles)
