"""hotlap show RUN"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hotlap.cli import cases, terminal
from hotlap.core.errors import InputError
from hotlap.core.show import counters, export, listing, telemetry, text
from hotlap.core.store.bundle import Bundle
from hotlap.stress import show as stress
from hotlap.stress import verdict as judging
from hotlap.traces import captured
from hotlap.traces.show import capture

FORMATS = ("text", "markdown", "csv")


def add(parser: argparse.ArgumentParser) -> None:
    cases.add(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the table")


def run(args: argparse.Namespace) -> int:
    """The table of results of each run."""
    if args.json and args.format != "text":
        raise InputError(f"--json and --format {args.format} are two answers; give one of them")
    found = cases.read(args)
    if args.json:
        terminal.print_json([export.to_json(bundle, rows) | _watched(bundle) for bundle, rows in found])
        return 0 if _traced(found) else cases.code(found)
    for number, (bundle, rows) in enumerate(found):
        if args.format == "markdown":
            print(export.to_markdown(bundle, rows))
        elif args.format == "csv":
            print(export.to_csv(bundle, rows), end="")
        else:
            print("\n" * (number > 0) + listing.heading(bundle))
            width, color = terminal.width(), terminal.color()
            if burnt := judging.of(bundle):
                print(stress.told(burnt, width, color))
                continue
            if telemetry.is_watch(bundle):
                print("\n".join(telemetry.lines(telemetry.of(bundle), width)).strip("\n"))
                continue
            if recorded := captured.read(bundle.path):
                print("\n".join(capture.lines(bundle.path, recorded, width, color)))
                continue
            print(text.table(rows, width, color, bundle.run.id))
            if counted := counters.table(rows, width, color):
                print(f"\n{counted}")
    return 0 if _traced(found) else cases.code(found)


def _traced(found: Sequence[tuple[Bundle, object]]) -> bool:
    """Whether a trace was recorded: a program without steps has no numbers beside it."""
    return any(recorded.traces for bundle, _ in found if (recorded := captured.read(bundle.path)))


def _watched(bundle: Bundle) -> dict[str, Any]:
    return {"telemetry": telemetry.of(bundle)} if telemetry.is_watch(bundle) else {}
