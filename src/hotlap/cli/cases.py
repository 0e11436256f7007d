"""What verbs share that read cases: which runs, and which of their cases."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hotlap.cli import terminal
from hotlap.core.analysis import fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.model.calibration import Calibration
from hotlap.core.record import Row
from hotlap.core.show import kinds
from hotlap.core.store import bundle as bundles
from hotlap.core.store import select


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that read cases: which runs, and which of their cases."""
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    where = "only these cases: a workload, device or parameter"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--device", default="", metavar="INDEX|KEY", help="only this device, as --where device=INDEX")


def read(
    args: argparse.Namespace, known: Callable[[bundles.Bundle], Mapping[str, Calibration]] = lambda _: {}
) -> list[tuple[bundles.Bundle, list[Row]]]:
    """The runs asked for, each with its rows. `known`: calibrations of a run
    by device. Raises InputError when no case of any run fits the filters."""
    where = terminal.pairs([*args.where, *([f"device={args.device}"] if args.device else [])], "a filter")
    found = [(bundle, tables.rows(bundle, where, known(bundle))) for bundle in terminal.runs(args.run)]
    if where and not any(rows for _, rows in found):
        raise select.no_match_error([bundle for bundle, _ in found], where)
    return found


def many(analysed: Sequence[tuple[bundles.Bundle, Sequence[Row]]]) -> bool:
    """Whether there are more devices than are shown one by one."""
    return len({(bundle.run.machine.host, row.device) for bundle, rows in analysed for row in rows}) > fleets.MANY


def code(analysed: Sequence[tuple[bundles.Bundle, Sequence[Row]]], shown: Mapping[str, tuple[kinds.Kind, Any]] | None = None) -> int:
    """0 when a number was kept, 3 when nothing was measured: that must never look like success. `shown`: what the kinds of runs show, by
    run id, where it was read already."""
    if any(row.result.values for _, rows in analysed for row in rows):
        return 0
    known = [one for bundle, _ in analysed if (one := kinds.read(bundle))] if shown is None else shown.values()
    return 0 if any(kind.measured(what) for kind, what in known) else 3
