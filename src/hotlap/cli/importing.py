"""hotlap import FILE"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.show import words
from hotlap.core.store import paths
from hotlap.core.store.readers import accelsim, imported, outside, table
from hotlap.core.units import parse, show

SHOWN = 8  # values of no use


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="CSV or JSON, perhaps with .gz: a line per number, or a column per metric; or statistics of Accel-Sim")
    for name, about in (("time", "of times"), ("case", "that says what a number is of")):
        parser.add_argument(f"--{name}", default="", metavar="COLUMN", help=f"the column {about} (default: by its usual names)")
    values = "the column of the numbers (default: by its usual names); in a file with a column per metric one to take, may be repeated"
    parser.add_argument("--value", action="append", default=[], metavar="COLUMN", help=values)
    parser.add_argument("--unit", default="", metavar="COLUMN|UNIT", help="the column of units, or the unit of all numbers")
    parser.add_argument("--device", default="", metavar="COLUMN", help="the column that names the device")
    parser.add_argument("--host", default="", metavar="COLUMN", help="the column that names the machine")
    parser.add_argument("--label", action="append", default=[], metavar="COLUMN", help="a column kept as a label; may be repeated")
    better = "lower or higher: which way numbers are better (default: by their unit); COLUMN=lower for one case, may be repeated"
    parser.add_argument("--better", action="append", default=[], metavar="WAY", help=better)
    parser.add_argument("--map", metavar="FILE", help="statistics of a simulator: which kernel is which workload, as TOML")
    parser.add_argument("--clock", default="", metavar="HZ", help="statistics of a simulator: the core's clock, where the file says none")
    parser.add_argument("--machine", default="", metavar="NAME", help="statistics of a simulator: the machine of the table that it is of")
    parser.add_argument("--dry-run", action="store_true", help="say what would be kept, and keep nothing")


def run(args: argparse.Namespace) -> int:
    """Numbers measured elsewhere become runs, so that history, compare and judge work on them."""
    path = Path(args.file)
    if accelsim.recognised(path):
        return _simulated(path, args)
    stray = [name for name in ("map", "clock", "machine") if getattr(args, name)]
    if stray:
        raise InputError(f"--{stray[0]} is of a simulator's statistics, and {path} holds none: no line 'kernel_name = …'")
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    rows = table.read(path, _columns(args))
    unit = args.unit if args.unit and not any(row.unit for row in rows) else ""
    try:
        result = imported.bring_in(rows, name, paths.home(), _better(args.better), unit, args.dry_run)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if args.json:
        terminal.print_json(result)
        return 0
    print("\n".join(_said(result, len(rows) - result.unreadable, args.dry_run)))
    return 0


def _simulated(path: Path, args: argparse.Namespace) -> int:
    """Statistics of Accel-Sim or GPGPU-Sim: a run of their kernels, which correlate takes like any simulation."""
    entries = outside.read_map(Path(args.map)) if args.map else []
    machine = machines.load(args.machine).slug if args.machine else ""
    asked = outside.ImportOptions(entries, parse(args.clock, "Hz") if args.clock else None, machine)
    result = outside.bring_in(path, asked, paths.home(), args.dry_run)
    if args.json:
        terminal.print_json(result)
        return 0
    verb = "would be made" if args.dry_run else "made"
    at = f"{words.counted(result.launches, 'kernel')} at {show(result.clock_hz, 'Hz')}"
    lines = [f"{words.counted(len(result.created), 'run')} {verb} of {at}, {len(result.there)} there already"]
    lines += [f"cases: {words.some(result.mapped, 6)}"] if result.mapped else []
    lines += [f"kernels that no entry of a map names: {words.some(result.others, 6)}"] if result.others else []
    lines += [f"{words.counted(result.broken, 'kernel')} left out: not simulated to the end"] if result.broken else []
    if result.mapped and result.created and not args.dry_run:
        lines.append(f"next    hotlap model correlate {result.created[0]} MEASURED")
    print("\n".join(lines))
    return 0


def _columns(args: argparse.Namespace) -> table.TableColumns:
    """One --value may be the column of all numbers; several are a metric each."""
    value, several = (args.value[0], ()) if len(args.value) == 1 else ("", tuple(args.value))
    return table.TableColumns(args.time, args.case, value, args.unit, args.device, args.host, tuple(args.label), several)


def _better(given: Sequence[str]) -> dict[str, imported.Better]:
    directions: dict[str, imported.Better] = {}
    for text in given:
        name, _, way = text.rpartition("=")
        if way not in ("lower", "higher"):
            raise InputError(f"--better is lower, higher, or COLUMN=lower and COLUMN=higher, not '{text}'")
        directions[name.strip()] = way  # type: ignore[assignment]
    return directions


def _said(result: imported.Imported, numbers: int, dry: bool) -> list[str]:
    verb = "would be made" if dry else "made"
    cases = words.some([f"{case} ({unit})" if unit else case for case, unit in result.cases.items()], 6)
    lines = [f"{words.counted(len(result.created), 'run')} {verb} of {words.counted(numbers, 'number')}, {len(result.there)} there already"]
    lines.append(f"cases: {cases}")
    if result.unreadable:
        lines.append(
            f"{words.counted(result.unreadable, 'value')} of no use, kept as {'an error' if result.unreadable == 1 else 'errors'}:"
        )
        lines += [f"  {words.clean(reason)}" for reason in result.reasons[:SHOWN]]
        lines += [f"  and {result.unreadable - SHOWN} more"] if result.unreadable > SHOWN else []
    if result.otherwise:
        there = f"{words.counted(len(result.otherwise), 'run')} that {'is' if len(result.otherwise) == 1 else 'are'} there"
        kept = "is kept as it was" if len(result.otherwise) == 1 else "are kept as they were"
        lines.append(f"{there} with other numbers, units or directions {kept}; to change that, remove what is there and import again:")
        lines += [f"  {paths.runs(paths.home()) / run}" for run in result.otherwise[:SHOWN]]
    return [*lines, "next    hotlap history"] if result.created and not dry else lines
