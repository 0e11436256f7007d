"""hotlap trace capture -- PROGRAM"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.store import paths
from hotlap.traces import capture, captured, tools
from hotlap.traces.advice import trace as advising
from hotlap.traces.cli import ranked
from hotlap.traces.show import capture as printing
from hotlap.traces.show import trace as reading
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--warmup", type=int, default=10, metavar="N", help="steps before the window (default: 10)")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="steps to record (default: 20)")
    parser.add_argument("--limit", default="60 s", metavar="TIME", help="the window ends after this, whatever is left (default: 60 s)")
    parser.add_argument("--seconds", default="0 s", metavar="TIME", help="a window by the clock, for programs without steps, as in '3 s'")
    parser.add_argument("--after", default="10 s", metavar="TIME", help="when that one begins, from the import of PyTorch (default: 10 s)")
    parser.add_argument("--with", dest="tool", default="pytorch", metavar="TOOL", help=f"{', '.join(tools.HOW)} (default: pytorch)")
    often = "turn the profiler on N times, to know its cost; the first is kept"
    parser.add_argument("--windows", type=int, default=1, metavar="N", help=often)
    for name, about in (("shapes", "the shapes of operators' arguments"), ("stacks", "source lines"), ("memory", "allocations")):
        parser.add_argument(f"--{name}", action="store_true", help=f"record {about} too; the overhead grows")
    parser.add_argument("--readings", default="10", metavar="HZ", help="how often sensors are read; 0: never (default: 10)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run; may be repeated")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM", help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    """Runs the program and says where the time of its window went; the exit code is the program's, or 2 where nothing was recorded."""
    options = _options(args)
    capture.check(options)
    if options.tool == "pytorch":
        print("hotlap: the profiler pauses the program when it starts, stops and exports; the report says for how long", file=sys.stderr)
    path = capture.capture(options)
    record = captured.read(path)
    assert record is not None
    code = record.exit_code
    if not record.traces:
        print(f"hotlap: nothing was recorded: {capture.why_nothing(record, options)}", file=sys.stderr)
        return code or InputError.exit_code
    if args.json:
        told = {"run": path.name, "path": str(path), "capture": record, "findings": _findings(path, record)}
        terminal.answer(args.json, told | ({"ranks": _ranks_document(path, record)} if record.ranks else {}))
        return code
    width, color = terminal.width(), terminal.color()
    print("\n".join(printing.lines(path, record, width, color)))
    if record.tool == "ncu":
        print(f"\nrun     {path}\nnext    {printing.further(path, record)}")
        return code
    if not (record.ranks and _told_of_ranks(path, record)):
        _told_one_by_one(path, record, width, color)
    print(f"\nrun     {path}\nnext    {printing.further(path, record)}")
    return code


def _told_one_by_one(path: Path, record: captured.Captured, width: int, color: bool) -> None:
    for name in record.traces:
        try:
            study, advice = _advised(path / name, record)
        except HotlapError as error:
            print(f"\nhotlap: {error}; the file is kept", file=sys.stderr)
            continue
        print("\n" + reading.trace(study, advice, width, color))


def _told_of_ranks(path: Path, record: captured.Captured) -> bool:
    """Who waits for whom, then the rank that is waited for; False where the traces cannot be read as those of ranks."""
    try:
        together = ranked.read([str(path / name) for name in record.ranks])
        print("\n" + ranked.text(together, *_advised(Path(together.file), record)))
    except HotlapError:
        return False
    return True


def _ranks_document(path: Path, record: captured.Captured) -> dict[str, object]:
    try:
        together = ranked.read([str(path / name) for name in record.ranks])
        return ranked.document(together, _advised(Path(together.file), record)[1])
    except HotlapError as error:
        return {"error": str(error)}


def _advised(file: Path, record: captured.Captured) -> tuple[Study, advising.Advice]:
    study = Study(Timeline.open(file))
    return study, advising.advise(study, program=shlex.join(record.argv), crowded=record.crowded)


def _findings(path: Path, record: captured.Captured) -> dict[str, object]:
    answers: dict[str, object] = {}
    for name in record.traces if record.tool != "ncu" else []:
        try:
            answers[name] = _advised(path / name, record)[1].findings
        except HotlapError as error:
            answers[name] = {"error": str(error)}
    return answers


def _options(args: argparse.Namespace) -> capture.CaptureOptions:
    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    try:
        rate = float(args.readings)
    except ValueError:
        raise InputError(f"--readings {args.readings} is no number of readings a second") from None
    if not 0 <= rate <= 1000:
        raise InputError(f"--readings {args.readings} is not between 0 and 1000 a second")
    return capture.CaptureOptions(
        argv=argv, tool=args.tool, warmup=args.warmup, steps=args.steps, seconds=_time(args.seconds, "--seconds"),
        after_s=_time(args.after, "--after"), limit_s=_time(args.limit, "--limit"), windows=args.windows, shapes=args.shapes,
        stacks=args.stacks, memory=args.memory, readings_hz=rate, quiet=args.json, labels=terminal.pairs(args.label, "a label"),
        home=paths.home(),
    )  # fmt: skip


def _time(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 <= value < 1e6:
        raise InputError(f"{option} {text} is no time; write as in '3 s'")
    return value
