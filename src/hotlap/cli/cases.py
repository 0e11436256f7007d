"""What verbs share that read cases: which runs, and which of their cases."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from hotlap.cli import terminal
from hotlap.core.analysis import rows as tables
from hotlap.core.model.calibration import Calibration
from hotlap.core.record import Row
from hotlap.core.show import telemetry
from hotlap.core.store import bundle as bundles
from hotlap.core.store import select
from hotlap.stress import verdict as judging


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that read cases: which runs, and which of their cases."""
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    where = "only these cases: a workload, device or parameter"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)


def read(
    args: argparse.Namespace, known: Callable[[bundles.Bundle], Mapping[str, Calibration]] = lambda _: {}
) -> list[tuple[bundles.Bundle, list[Row]]]:
    """The runs asked for, each with its rows. `known`: calibrations of a run
    by device. Raises InputError when no case of any run fits the filters."""
    where = terminal.pairs(args.where, "a filter")
    found = [(bundle, tables.rows(bundle, where, known(bundle))) for bundle in terminal.runs(args.run)]
    if where and not any(rows for _, rows in found):
        raise select.nothing([bundle for bundle, _ in found], where)
    return found


def code(found: Sequence[tuple[bundles.Bundle, Sequence[Row]]]) -> int:
    """0 when a number was kept, 3 when nothing was measured: that must never look like success. Of a stress run: when work was
    checked; of a watch: when a sensor was read."""
    burnt = (judging.of(bundle) for bundle, rows in found if not rows)
    checked = any(device.figures["checked"] for one in burnt if one for device in one.verdict.devices)
    watched = any(one.status == "ok" for bundle, _ in found if telemetry.is_watch(bundle) for one in bundle.readings)
    return 0 if checked or watched or any(row.result.values for _, rows in found for row in rows) else 3
