"""hotlap tuning apply FILE, hotlap tuning revert FILE"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import terminal
from hotlap.core.measure import runs
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.record import Plan
from hotlap.core.show import words
from hotlap.core.store import paths
from hotlap.tuning import result, session


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("apply", "revert"), help="apply: set it; revert: put back what stood before")
    parser.add_argument("file", metavar="FILE", help="what hotlap tuning run --out wrote")


def run(args: argparse.Namespace) -> int:
    """Writes files, and prints what the shell is to set; `revert` puts back what stood before. Given again, it prints the same again.
    Exit code 2 on another device or version."""
    tuned, home = result.read(args.file), paths.home()
    session.mend(home)
    if args.what == "apply":
        here = result.devices(tuned)
        record = runs.record(Plan(name="tuning"), tuned.target, here, fingerprint(here))
        result.check(tuned, here, session.versions(record))
    lines = result.apply(tuned, home) if args.what == "apply" else result.revert(tuned, home)
    if args.json:
        terminal.answer(args.json, {"tuned": tuned, "shell": lines})
        return 0
    if lines:
        print("\n".join(lines))
    if not sys.stdout.isatty():  # a shell takes the lines, and a command among them is for people
        print("".join(f"{line[2:]}\n" for line in lines if line.startswith("# ")), end="", file=sys.stderr)
    print(_what(args.what, tuned), file=sys.stderr)
    return 0


def _what(what: str, tuned: result.TunedFile) -> str:
    files = f"{words.counted(len(tuned.files), 'file')} {'written' if what == 'apply' else 'put back'}; " if tuned.files else ""
    shell = f"the lines above are for the shell: eval \"$(hotlap tuning {what} FILE)\"" if tuned.environment else "nothing is for the shell"
    return f"{files}{shell}"
