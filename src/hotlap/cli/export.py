"""hotlap export RUN --as FORMAT"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.cli import cases, terminal
from hotlap.core.errors import InputError, MachineError
from hotlap.core.show import exporting, kinds, words


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    names = tuple(exporting.FORMATS)
    parser.add_argument("--as", dest="name", required=True, choices=names, metavar="FORMAT", help=", ".join(names))
    parser.add_argument("--out", metavar="FILE", help="where to write it (default: RUN.json, .csv, .xml or .parquet in this folder)")
    parser.add_argument("--replace", action="store_true", help="overwrite a file that is there")


def run(args: argparse.Namespace) -> int:
    """Writes runs in a format of other tools and says where; cases that it cannot hold are named on standard error."""
    analysed = cases.read(args)
    bare = [bundle.run for bundle, rows in analysed if not rows and not kinds.has_cases(bundle.run.kind)]
    without = ", ".join(f"{run.id} of kind {run.kind}" for run in bare)
    if bare and len(bare) == len(analysed):
        raise InputError(
            f"{args.name} holds cases, and there is none in {without}: nothing is written; hotlap show {bare[0].id} --json has all of it"
        )
    ending = exporting.ENDINGS.get(args.name, "json")
    path = Path(args.out or f"{analysed[0][0].run.id if len(analysed) == 1 else f'{len(analysed)}-runs'}.{ending}")
    terminal.writable(path)
    if path.exists() and not args.replace:
        raise InputError(f"'{path}' is there already; --replace overwrites it, --out writes another file")
    content, left_out = exporting.FORMATS[args.name](analysed)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None
    if bare:
        print(f"hotlap: {args.name} holds cases; left out, for there is none in them: {without}", file=sys.stderr)
    if left_out:
        print(f"hotlap: {args.name} holds times only; left out: {words.some(left_out, 6)}", file=sys.stderr)
    if condensed := exporting.condensed(args.name, analysed):
        print(f"hotlap: {args.name} holds a line per round; only the median of their samples: {words.some(condensed, 6)}", file=sys.stderr)
    if copied := exporting.copied(args.name, analysed):
        none = "must have a cpu_time; none was measured, and real_time stands there"
        print(f"hotlap: {args.name} {none}: {words.some(copied, 6)}", file=sys.stderr)
    if args.json:
        terminal.answer(args.json, {"path": str(path), "format": args.name, "left_out": left_out})
    else:
        print(path)
    return 0
