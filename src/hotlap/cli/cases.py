"""What verbs share that read cases: which runs, and which of their cases."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from hotlap.cli import terminal
from hotlap.cli.read_progress import ReadProgress
from hotlap.core.analysis import commands, fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.model.calibration import Calibration
from hotlap.core.record import Row, Samples
from hotlap.core.show import document, kinds, shape
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select


def add(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that read cases: which runs, and which of their cases."""
    parser.add_argument("run", nargs="*", default=["latest"], help="which runs (default: latest)")
    where = "only these cases: a workload, device or parameter; VALUE,VALUE is any of them, NAME=VALUE,NAME=VALUE is both"
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help=where)
    parser.add_argument("--device", default="", metavar="INDEX|KEY", help="only this device, as --where device=INDEX")


def read(
    args: argparse.Namespace, known: Callable[[bundles.Bundle], Mapping[str, Calibration]] = lambda _: {}, folded: bool = False
) -> list[tuple[bundles.Bundle, list[Row]]]:
    """The runs asked for, each with its rows. `known`: calibrations of a run by device. `folded`: of many devices rows alone are kept in
    memory, without their samples. Raises InputError when no case of any run fits the filters."""
    where = terminal.filters([*args.where, *([f"device={args.device}"] if args.device else [])])
    light = folded and many_asked(args.run)
    analysed = []
    with ReadProgress() as progress:
        for bundle in terminal.each(args.run, readings=True, read=progress.count):
            rows = tables.rows(bundle, where, known(bundle))
            is_light = light and not kinds.of(bundle) and not commands.of(bundle)
            analysed.append(_without_samples(bundle, rows) if is_light else (bundle, rows))
    if where and not any(rows for _, rows in analysed):
        raise select.no_match_error([bundle for bundle, _ in analysed], where)
    return analysed


def _without_samples(bundle: bundles.Bundle, rows: Sequence[Row]) -> tuple[bundles.Bundle, list[Row]]:
    """What a table of many devices needs: hundreds of runs with every sample do not fit in memory."""
    samples = {bundles.key(one): _first_alone(one) for one in bundle.samples}
    light = []
    for row in rows:
        rounds = [samples[bundles.key(one)] for one in row.result.rounds]
        light.append(structs.replace(row, result=structs.replace(row.result, rounds=rounds)))
    return replace(bundle, samples=list(samples.values()), readings=[]), light


def _first_alone(samples: Samples) -> Samples:
    counted = any(notice.code == "few_samples" for notice in samples.notices)  # how few is said
    return samples if counted else structs.replace(samples, values=samples.values[:1])


def answer(asked: int, bundle: bundles.Bundle, keys: Mapping[str, Any], code: int, judged: bool = False) -> None:
    """Prints a run that was just measured as `show --json` does, with the exit code. `keys`: what its kind adds."""
    if asked == shape.SHAPE:
        terminal.print_json(document.of_measured(bundle, tables.rows(bundle), keys, code, judged))
    else:
        terminal.print_former({"run": bundle.run.id, **keys})


def many_asked(selectors: Sequence[str]) -> bool:
    """Whether the runs are of more devices than are shown one by one; no numbers are read for it."""
    devices: set[tuple[str, str]] = set()
    for entry in select.entries(selectors or ["latest"], paths.home()):
        run = bundles.read_run(entry.path)
        devices |= {(run.machine.host, key) for key in run.devices}
        if len(devices) > fleets.MANY:
            return True
    return False


def many(analysed: Sequence[tuple[bundles.Bundle, Sequence[Row]]]) -> bool:
    """Whether there are more devices than are shown one by one."""
    return len({(bundle.run.machine.host, row.device) for bundle, rows in analysed for row in rows}) > fleets.MANY


def code(analysed: Sequence[tuple[bundles.Bundle, Sequence[Row]]], shown: Mapping[str, tuple[kinds.Kind, Any]] | None = None) -> int:
    """0 when a number was kept, 3 when nothing was measured or all of it is invalid: that must never look like success. `shown`: what the
    kinds of runs show, by run id, where it was read already."""
    if any(row.result.values and row.result.status != "invalid" for _, rows in analysed for row in rows):
        return 0
    known = [one for bundle, _ in analysed if (one := kinds.read(bundle))] if shown is None else shown.values()
    return 0 if any(kind.measured(what) for kind, what in known) else 3
