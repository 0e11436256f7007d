"""hotlap training run PROGRAM"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TextIO

from hotlap.cli import cases, progress, terminal
from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.core.work.networks import steps as networks
from hotlap.training import conventions, session, show, show_kind
from hotlap.training.launching import Launch
from hotlap.training.record import DataMode, ProgramKind, TrainingAsked

STEPS, PROCESSES, MOST = "100", "6", 100_000
DATA: tuple[DataMode, ...] = ("real", "frozen", "synthetic")
WRONG = ("no_steps", "prompted", "program_failed")  # of the program
BACKENDS = ("eager", "aot_eager", "inductor", "cudagraphs")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM", help="script.py, module:function, or a network such as llama-3-8b")
    widths = "of the program, after --; of a network widths: layers=2 hidden=256"
    parser.add_argument("rest", nargs="*", default=[], metavar="ARGUMENT", help=widths)
    parser.add_argument("--steps", default=STEPS, metavar="N", help=f"of each process; all: until the program ends (default: {STEPS})")
    parser.add_argument("--processes", default=PROCESSES, metavar="N", help=f"fresh ones, of each thing compared (default: {PROCESSES})")
    parser.add_argument("--ranks", default="1", metavar="N", help="processes to start at once, with the variables that torchrun sets")
    parser.add_argument("--data", default="", metavar="WHICH", help="real, frozen (the first batch again and again); default both")
    modes = "in turns: off,own; of a network off and torch.compile's modes and backends"
    parser.add_argument("--compile", default="", metavar="MODES", help=modes)
    parser.add_argument("--against", default="", metavar="SCRIPT", help="another script, in turns with it")
    one_by_one = "with --against: a process ends before the next begins (default: turns by stretches of steps)"
    parser.add_argument("--one-by-one", action="store_true", help=one_by_one)
    least = "smallest difference to report, with --against or --compile (default: 1 %%)"
    parser.add_argument("--min-effect", default="1 %", metavar="SHARE", help=least)
    parser.add_argument("--limit", default="1 h", metavar="TIME", help="after which a process is ended (default: 1 h)")
    parser.add_argument("--wait", metavar="TIME", help="for a device that another run holds (default: refuse at once)")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Measures a step: exit code 0 measured, 2 the program failed or made none; what was measured is kept."""
    return _show(measured(_asked(args), args), args)


def measured(asked: TrainingAsked, args: argparse.Namespace) -> Path:
    """The bundle's folder; progress on standard error."""
    view = LaunchView(sys.stderr)
    labels = labelled.check(dict(terminal.pairs(args.label, "a label")))
    wait_s = units.parse(args.wait, "s") if args.wait else 0.0
    try:
        return session.run(asked, session.TrainingOptions(paths.home(), labels, wait_s), view)
    finally:
        view.end()


def _show(path: Path, args: argparse.Namespace) -> int:
    bundle = bundles.load(path)
    shown = show_kind.read(bundle)
    assert shown is not None  # the session wrote it
    codes = [notice.code for notice in shown.summary.notices]
    interrupted = any(stop.kind == "interrupted" for stop in bundle.run.stops)
    code = 130 if interrupted else 2 if any(one in WRONG for one in codes) else 3 if shown.summary.state == "nothing" else 0
    if shown.summary.state == "nothing":
        first = next((notice.text for notice in shown.summary.notices), "nothing was measured")
        print(f"hotlap: {args.program}: {first}; kept as {bundle.run.id}", file=sys.stderr)
        if not args.json:
            return code
    if args.json:
        cases.answer(args.json, bundle, show_kind.document(shown), code)
    else:
        print(listing.heading(bundle, []))
        print("\n".join(show.lines(shown.run, shown.summary, terminal.width(), terminal.color())))
        print(f"kept as {bundle.run.id}")
    return code


def _asked(args: argparse.Namespace) -> TrainingAsked:
    kind, program = kind_of(str(args.program)), str(args.program)
    modes = [one.strip() for one in str(args.compile).split(",") if one.strip()]
    parameters: dict[str, str] = {}
    if kind == "network":
        parameters = terminal.pairs(args.rest, "a width of a network")
        batch = conventions.network_of(program, parameters)[1]
        _modes(modes)
        if (ranks := whole(args.ranks, "--ranks")) > batch:
            needed = f"{ranks} ranks need {ranks} sequences at least, one each, and batch={batch}"
            raise InputError(f"{needed}: give batch={ranks}, or --ranks fewer")
    if len(set(modes)) < len(modes):
        raise InputError(f"--compile {args.compile}: each mode once")
    ranks = whole(args.ranks, "--ranks")
    return TrainingAsked(
        program=program, kind=kind, arguments=[] if kind == "network" else list(args.rest), parameters=parameters,
        steps=0 if args.steps == "all" and kind != "network" else whole(args.steps, "--steps"),
        processes=whole(args.processes, "--processes"),
        ranks=ranks, data=_data(str(args.data), bool(modes or args.against)), compile=modes, against=str(args.against),
        limit_s=limit_s(str(args.limit)), one_by_one=bool(args.one_by_one), min_effect=terminal.min_effect(str(args.min_effect)),
    )  # fmt: skip


def kind_of(program: str) -> ProgramKind:
    """What was given, by its form."""
    if program.endswith(".py") or "/" in program:
        return "script"
    module, colon, function = program.partition(":")
    if colon and module.replace(".", "").replace("_", "").isalnum() and function.replace(".", "").isidentifier():
        return "function"
    if colon:
        raise InputError(f"'{program}' is no module:function; as in package.train:main")
    if Path(program).is_file():
        return "script"
    try:
        networks.find(program)
    except InputError:
        valid = nearest(program, conventions.buildable())
        raise InputError(f"'{program}' is no script.py, no module:function and no network; of networks {valid}") from None
    return "network"


def _modes(modes: list[str]) -> None:
    from hotlap.training.network_program import INDUCTOR_MODES

    valid = ("off", *INDUCTOR_MODES, *BACKENDS)
    for mode in modes:
        if mode not in valid:
            raise InputError(f"--compile has no mode '{mode}'; {nearest(mode, valid)}")


def _data(text: str, compared: bool) -> list[DataMode]:
    """[]: real and frozen of a program, synthetic of a network; of two things compared the first only."""
    asked = [one.strip() for one in text.split(",") if one.strip()]
    for one in asked:
        if one not in DATA:
            raise InputError(f"--data has no '{one}'; {nearest(one, DATA)}")
    if compared and len(asked) > 1:
        raise InputError(f"--data {text} is a comparison, and --compile or --against another; ask for one at a time")
    return [one for one in DATA if one in asked]


def whole(text: str, option: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        more = ", or all" if option == "--steps" else ""
        raise InputError(f"{option} is a whole number from 1 to {MOST:,}{more}, not '{text}'")
    return int(text)


def limit_s(text: str) -> float:
    value = units.parse(text, "s")
    if not value > 0:
        raise InputError(f"--limit is a time above 0, not '{text}'")
    return value


class LaunchView:
    """Which process runs: a line that is rewritten on a terminal, a line each in a log."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live, self.drawn = stream, stream.isatty(), False
        self.began_s = self.logged_s = time.monotonic()

    def __call__(self, launch: Launch, number: int, total: int) -> None:
        which = f"process {number + 1} of {total}, {launch.arm}{self._left(number, total)}"
        text = "counting the operations of a step" if launch.count else which
        if self.live:
            self.stream.write(f"\r\x1b[K{text[: terminal.width() - 1]}")
            self.stream.flush()
            self.drawn = True
        elif number == 0 or launch.count or time.monotonic() - self.logged_s >= progress.LOG_S:
            self.stream.write(f"hotlap: {text}\n")
            self.stream.flush()
            self.logged_s = time.monotonic()

    def _left(self, number: int, total: int) -> str:
        """Of processes that all take as long as those until now."""
        each_s = (time.monotonic() - self.began_s) / number if number else 0.0
        return f"; about {progress.duration(each_s * (total - number))} left" if number else ""

    def end(self) -> None:
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
