"""hotlap training frontier NETWORK --batch 1,2,4,8"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import cases, terminal
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.training import cli, conventions, frontier_show
from hotlap.training.record import ProgramKind, TrainingAsked

BATCHES, STEPS, LARGEST = "1,2,4,8", "40", 2**20


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM", help="a network such as llama-3-8b, script.py or module:function")
    widths = "of a network widths: layers=2 hidden=256; of a program, after --"
    parser.add_argument("rest", nargs="*", default=[], metavar="ARGUMENT", help=widths)
    parser.add_argument("--batch", default="", metavar="LIST", help=f"of a network: sequences of a step (default: {BATCHES})")
    vary = "of a program: a variable of its environment, as BATCH=1,2,4, or an argument, as in --vary=--batch-size=1,2,4"
    parser.add_argument("--vary", default="", metavar="NAME=LIST", help=vary)
    parser.add_argument("--steps", default=STEPS, metavar="N", help=f"of each process; all: until the program ends (default: {STEPS})")
    parser.add_argument("--processes", default=cli.PROCESSES, metavar="N", help=f"fresh ones, of each value (default: {cli.PROCESSES})")
    parser.add_argument("--limit", default="1 h", metavar="TIME", help="after which a process is ended (default: 1 h)")
    parser.add_argument("--wait", metavar="TIME", help="for a device that another run holds (default: refuse at once)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Measures each value in turns. Exit code 0 where each has a point or ran out of memory, 2 none, 3 some failed, 130 interrupted."""
    bundle = bundles.load(cli.measured(asked_of(args), args))
    kept = frontier_show.read(bundle)
    assert kept is not None  # the session wrote it
    code = frontier_show.code(kept)
    if code == 2:
        why = next((point.reason for point in kept.points if point.lost), "nothing was measured")
        print(f"hotlap: {args.program}: {why}; kept as {bundle.run.id}", file=sys.stderr)
    if args.json:
        cases.answer(args.json, bundle, frontier_show.document(kept), code)
    elif code != 2:
        print(listing.heading(bundle, []))
        print(frontier_show.text(kept, terminal.width(), terminal.color()))
        print(f"kept as {bundle.run.id}")
    return code


def asked_of(args: argparse.Namespace) -> TrainingAsked:
    """Raises InputError."""
    kind, program = cli.kind_of(str(args.program)), str(args.program)
    vary, values = _varied(args, kind)
    parameters: dict[str, str] = {}
    if kind == "network":
        parameters = dict(terminal.pairs(args.rest, "a width of a network"))
        if vary in parameters:
            raise InputError(f"{vary}={parameters[vary]} is what --{vary} varies: leave one of them out")
        conventions.network_of(program, parameters)
    return TrainingAsked(
        program=program, kind=kind, arguments=[] if kind == "network" else list(args.rest), parameters=parameters,
        steps=0 if args.steps == "all" and kind != "network" else cli.whole(args.steps, "--steps"),
        processes=cli.whole(args.processes, "--processes"), data=[] if kind == "network" else ["real"],
        limit_s=cli.limit_s(str(args.limit)), vary=vary, values=values,
    )  # fmt: skip


def _varied(args: argparse.Namespace, kind: ProgramKind) -> tuple[str, list[int]]:
    """What is varied, and its values. Raises InputError."""
    if kind == "network":
        if args.vary:
            raise InputError("--vary is of a program; of a network give --batch, as in --batch 1,2,4,8")
        return "batch", values_of(str(args.batch or BATCHES), "--batch")
    if args.batch:
        raise InputError("--batch is of a network; say what a program's batch is called: --vary BATCH=1,2,4, or --vary=--batch-size=1,2,4")
    name, equals, listed = str(args.vary).rpartition("=")
    bare = name.lstrip("-").replace("-", "_")
    if not equals or not bare.isidentifier():
        raise InputError(
            f"--vary says what the program is given in turns: a variable of its environment, as BATCH=1,2,4, or an argument, as "
            f"--vary=--batch-size=1,2,4; not '{args.vary}'"
        )
    return name, values_of(listed, "--vary")


def values_of(text: str, option: str) -> list[int]:
    """Whole numbers from 1, each once, ascending or not. Raises InputError."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal() or not 1 <= int(part) <= LARGEST:
            raise InputError(f"{option} is a list of whole numbers from 1 to {LARGEST:,}, as in {BATCHES}; '{part}' is none")
    values = [int(part) for part in parts]
    if len(values) < 2 or len(set(values)) < len(values):
        raise InputError(f"{option} needs two values at least, each once, as in {BATCHES}; not '{text}'")
    return values
