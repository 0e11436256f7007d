"""hotlap import PATH …"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.show import importing as shown
from hotlap.core.show import shape
from hotlap.core.store import labels, paths
from hotlap.core.store.readers import bundled, formats, gathering, imported, outside, table
from hotlap.core.store.readers.source import Source
from hotlap.core.units import parse

COLUMNS = {  # options that name a column of a table
    "time": "of times", "case": "that says what a number is of", "device": "that names the device (a UUID only where it holds UUIDs)",
    "host": "that names the machine", "serial": "of serial numbers", "rack": "that names the rack, kept as a label",
}


def add(parser: argparse.ArgumentParser) -> None:
    about = "results of another tool, a CSV or JSON table, a run's folder or a zip; a folder is searched; .gz is unpacked"
    parser.add_argument("path", nargs="*", help=about)
    parser.add_argument("--formats", action="store_true", help="list what can be imported, what each brings, and where it was seen")
    parser.add_argument("--from", dest="name", default="", metavar="FORMAT", help="the format, where a file could be of several")
    for name, what in COLUMNS.items():
        more, kind = (", or one time for all rows", "COLUMN|TIME") if name == "time" else ("", "COLUMN")
        about = f"of a table: the column {what} (default: by its usual names){more}"
        if name == "case":
            parser.add_argument("--case", action="append", default=[], metavar=kind, help=f"{about}; several tell cases apart (repeatable)")
        else:
            parser.add_argument(f"--{name}", default="", metavar=kind, help=about)
    parser.add_argument("--model", default="", metavar="COLUMN|NAME", help="of a table: the column of device models, or one for all")
    values = "of a table: the column of the numbers (default: by its usual names); with a column per metric, one to take (repeatable)"
    parser.add_argument("--value", action="append", default=[], metavar="COLUMN", help=values)
    parser.add_argument("--unit", default="", metavar="COLUMN|UNIT", help="of a table: the column of units, or the unit of all numbers")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the runs; may be repeated")
    columns = "of a table: a column kept as a label (repeatable)"
    parser.add_argument("--label-column", action="append", default=[], metavar="COLUMN", help=columns)
    better = "lower or higher: which way numbers are better (default: by their unit); CASE=lower for one case, may be repeated"
    parser.add_argument("--better", action="append", default=[], metavar="WAY", help=better)
    parser.add_argument("--map", metavar="FILE", help="of a simulator's log: which kernel is which workload, as TOML")
    parser.add_argument("--clock", default="", metavar="HZ", help="of a simulator's log: the core's clock, where the file has none")
    parser.add_argument("--machine", default="", metavar="NAME", help="of a simulator's log: the machine of the table that it is of")
    parser.add_argument("--dry-run", action="store_true", help="print what would be imported, without importing it")


def run(args: argparse.Namespace) -> int:
    """Numbers measured elsewhere become runs, so that history, compare and gate work on them. Exit code 2 where a run is there already
    with other numbers, 3 where no result has a number that can be used."""
    if args.formats:
        known = formats.formats()
        terminal.answer(args.json, known, "formats") if args.json else print(shown.formats(known, terminal.width()))
        return 0
    if not args.path:
        raise InputError("give what to import: a file, a folder or a zip; hotlap import --formats lists what is read")
    with ExitStack() as stack:
        gathered = gathering.gather([Path(path) for path in args.path], args.name, stack)
        _former_labels(args)
        _refuse(args, gathered)
        texts, documents = _keep(args, gathered)
    read = [one for one in documents if isinstance(one, imported.Imported)]
    if args.json == shape.SHAPE:
        terminal.answer(args.json, documents, "imported")
    elif args.json:
        terminal.print_former(documents[0] if len(documents) == 1 else documents)
    else:
        print("\n".join(texts))
    if any(one.conflicting for one in read):
        return 2
    return 3 if any(not one.usable for one in read) else 0


def _former_labels(args: argparse.Namespace) -> None:
    """Until 0.2 --label named a column, as --label-column does."""
    former = [text for text in args.label if "=" not in text]
    for column in former:
        print(f"hotlap: '--label {column}' is taken as --label-column {column}; --label NAME=VALUE labels the runs", file=sys.stderr)
    args.label = [text for text in args.label if "=" in text]
    args.label_column = [*args.label_column, *former]


def _refuse(args: argparse.Namespace, gathered: gathering.Gathered) -> None:
    """Options for what is not there."""
    for names, there, what in (
        (("map", "clock", "machine"), gathered.logs, "a simulator's log (no line 'kernel_name = …')"),
        ((*COLUMNS, "model", "value", "unit", "label_column"), gathered.tables, "a CSV or JSON table"),
        (("label",), gathered.runs or gathered.tables or gathered.logs, "numbers of other tools"),
    ):
        stray = next((name for name in names if getattr(args, name)), "")
        if stray and not there:
            raise InputError(f"--{stray.replace('_', '-')} is for {what}, and {', '.join(args.path)} holds none")


def _keep(args: argparse.Namespace, gathered: gathering.Gathered) -> tuple[list[str], list[Any]]:
    """Everything is read and checked before the first run is written."""
    home, better = paths.home(), _better(args.better)
    marks = labels.check(terminal.pairs(args.label, "a label"))
    checked = [(folder, *bundled.check(folder, home)) for folder in gathered.bundles]
    tables = [(source, _read(source, args).labelled(marks)) for source in gathered.tables]
    foreign = {name: [replace(run, labels={**run.labels, **marks}) for run in runs] for name, runs in gathered.runs.items()}
    results: list[tuple[str, imported.Imported]] = []
    for dry in (True,) if args.dry_run else (True, False) if len(foreign) + len(tables) > 1 else (False,):
        results = [(name, imported.bring_in_runs(runs, name, home, better, dry)) for name, runs in foreign.items()]
        results += [("table", _table(source, read, args.unit, better, dry)) for source, read in tables]
    texts = [line for name, result in results for line in shown.kept(result, name, args.dry_run)]
    documents: list[Any] = [result for _, result in results]
    for path in gathered.logs:
        log, clock_hz = _simulated(path, args, marks)
        texts += shown.simulated(log, clock_hz, args.dry_run)
        documents.append(log)
    if checked:
        for folder, run_id, present, _ in checked:
            if not present and not args.dry_run:
                bundled.take(folder, run_id, home)
        states = (("added", False), ("present", True))
        taken = {word: [run_id for _, run_id, present, _ in checked if present is known] for word, known in states}
        texts += shown.bundles(taken, args.dry_run)
        texts += [f"run {run_id} is not whole: {seen}" for _, run_id, _, lost in checked for seen in lost]
        documents.append(taken)
    if gathered.unclaimed:
        texts.append(shown.unclaimed(gathered.unclaimed))
    return texts, documents


def _read(source: Source, args: argparse.Namespace) -> table.ReadTable:
    """A table. Raises InputError; of what looks like none with what else it may be."""
    try:
        return table.read(source, _columns(args))
    except InputError as error:
        if str(error) == error.reason:  # it is a table, with a fault
            raise
        raise InputError(str(error), f"what a measuring tool printed is read by: hotlap tool read {source.path}") from None


def _table(source: Source, read: table.ReadTable, unit: str, better: dict[str, imported.Better], dry: bool) -> imported.Imported:
    path = source.path
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    try:
        return imported.bring_in(read, name, paths.home(), better, unit if not any(row.unit for row in read.rows) else "", dry)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _simulated(path: Path, args: argparse.Namespace, marks: dict[str, str]) -> tuple[outside.Outside, float]:
    """Statistics of Accel-Sim or GPGPU-Sim: a run of their kernels, which correlate takes like any simulation."""
    entries = outside.read_map(Path(args.map)) if args.map else []
    machine = machines.load(args.machine).slug if args.machine else ""
    asked = outside.ImportOptions(entries, parse(args.clock, "Hz") if args.clock else None, machine, marks)
    result = outside.bring_in(path, asked, paths.home(), args.dry_run)
    return result, result.clock_hz


def _columns(args: argparse.Namespace) -> table.TableColumns:
    """A single --value may be the column of all numbers; several are a metric each."""
    value, several = (args.value[0], ()) if len(args.value) == 1 else ("", tuple(args.value))
    if "=" in args.unit:
        why = "a unit of each column's own stands at the end of its name, as in latency_us or copy_GB/s"
        raise InputError(f"--unit is the column of units, or one unit for all numbers, not '{args.unit}'; {why}")
    known = {name: getattr(args, name) for name in (*COLUMNS, "model", "unit")} | {"case": args.case[0] if args.case else ""}
    return table.TableColumns(value=value, labels=tuple(args.label_column), values=several, cases=tuple(args.case), **known)


def _better(given: Sequence[str]) -> dict[str, imported.Better]:
    directions: dict[str, imported.Better] = {}
    for text in given:
        name, _, way = text.rpartition("=")
        if way not in ("lower", "higher"):
            raise InputError(f"--better is lower, higher, or CASE=lower and CASE=higher, not '{text}'")
        directions[name.strip()] = way  # type: ignore[assignment]
    return directions
