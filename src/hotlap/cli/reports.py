"""What `gate` writes beside its table: for CI, into files that are named, or on standard output. Nothing is sent anywhere."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hotlap.cli import terminal
from hotlap.core.errors import InputError, MachineError, nearest
from hotlap.core.plan import lines
from hotlap.core.record import Judgement
from hotlap.core.show import ci, judgements, junit

KINDS = ("markdown", "annotations", "codequality", "metrics", "junit")
STDOUT = "-"


class RequestedReport(NamedTuple):
    """One that was asked for."""

    kind: str
    file: str  # "-" is standard output


def read(args: argparse.Namespace) -> list[RequestedReport]:
    """What --report and --junit ask for. Raises InputError."""
    asked = [RequestedReport("junit", args.junit)] if args.junit else []
    for text in args.report:
        kind, sign, file = text.partition("=")
        if kind not in KINDS:
            raise InputError(f"--report: there is no kind '{kind}'; {nearest(kind, KINDS)}, as in --report markdown=summary.md")
        if not sign or not file:
            raise InputError(f"--report {kind} needs a file, as in --report {kind}=FILE; '-' is standard output")
        asked.append(RequestedReport(kind, file))
    for one in asked:
        if one.file != STDOUT:
            terminal.writable(Path(one.file))
        elif args.json:
            raise InputError(f"--json takes standard output; give --report {one.kind} a file")
    return asked


@contextmanager
def shielded(asked: Sequence[RequestedReport]) -> Iterator[None]:
    """Where annotations go to standard output, GitHub's runner reads it: meanwhile it takes nothing that a name holds for a command."""
    if RequestedReport("annotations", STDOUT) not in asked:
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)


def write(
    asked: Sequence[RequestedReport], judged: Sequence[Judgement], hosts: Mapping[str, str], plan: str = "", against: str = ""
) -> None:
    """Each in its file; Markdown is added, since a step's summary may have begun. `hosts`: of each run. `plan`: its file, where it is
    report. `against`: what the user named; where that is a file, Markdown has it."""
    judged = judgements.placed(judged, hosts)
    for report in asked:
        file = against if Path(against).is_file() else ""
        text = ci.markdown(judged, file) if report.kind == "markdown" else _text(report.kind, judged, plan)
        if report.file == STDOUT:
            print(text, end="")
        elif report.kind == "markdown":
            _append(Path(report.file), text)
        else:
            terminal.write(Path(report.file), text)


def _text(kind: str, judged: Sequence[Judgement], plan: str) -> str:
    if kind == "metrics":
        return ci.metrics(judged)
    if kind == "junit":
        return junit.junit(judged)
    place = ci.PlanFile(plan, _lines(plan, judged)) if Path(plan).is_file() else ci.PlanFile()
    return ci.workflow_commands(judged, place) if kind == "annotations" else ci.codequality(judged, place)


def _lines(plan: str, judged: Sequence[Judgement]) -> dict[str, int]:
    """Where each case stands in the plan's file, where every table of it is one case."""
    seen = lines.scan(Path(plan).read_text(encoding="utf-8"))
    places = [line for path, line in seen.items() if len(path) == 2 and path[0] == "case"]
    cases = list(dict.fromkeys(row.case.id for one in judged for row in one.rows))
    return dict(zip(cases, places, strict=True)) if len(places) == len(cases) else {}


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None
