"""hotlap import FILE"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.cli import terminal
from hotlap.report import words
from hotlap.store import imported, paths, table


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="CSV or JSON, perhaps with .gz: a line per number, or a column per metric")
    for name, about in (("time", "of times"), ("case", "that says what a number is of"), ("value", "of the numbers")):
        parser.add_argument(f"--{name}", default="", metavar="COLUMN", help=f"the column {about} (default: by its usual names)")
    parser.add_argument("--unit", default="", metavar="COLUMN|UNIT", help="the column of units, or the unit of all numbers")
    parser.add_argument("--device", default="", metavar="COLUMN", help="the column that names the device")
    parser.add_argument("--host", default="", metavar="COLUMN", help="the column that names the machine")
    parser.add_argument("--label", action="append", default=[], metavar="COLUMN", help="a column kept as a label; may be repeated")
    parser.add_argument("--better", choices=("lower", "higher"), help="which way numbers are better (default: by their unit)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be kept, and keep nothing")


def run(args: argparse.Namespace) -> int:
    """Numbers measured elsewhere become runs, so that history, compare and judge work on them."""
    path = Path(args.file)
    columns = table.Columns(args.time, args.case, args.value, args.unit, args.device, args.host, tuple(args.label))
    rows = table.read(path, columns)
    unit = args.unit if args.unit and not any(row.unit for row in rows) else ""
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    found = imported.bring_in(rows, name, paths.home(), args.better, unit, args.dry_run)
    if args.json:
        terminal.print_json(found)
        return 0
    cases = words.some([f"{case} ({unit})" if unit else case for case, unit in found.cases.items()], 6)
    verb = "would be made" if args.dry_run else "made"
    print(f"{words.counted(len(found.made), 'run')} {verb} of {words.counted(len(rows), 'number')}, {len(found.there)} there already")
    print(f"cases: {cases}")
    if found.unreadable:
        print(f"{words.counted(found.unreadable, 'value')} that are no numbers are kept as errors, with their lines")
    if found.made and not args.dry_run:
        print("next   hotlap history")
    return 0
