"""hotlap cluster accept status; and what its other verbs share."""

from __future__ import annotations

import argparse

from hotlap.bringup import accept_driver, accept_folder, accept_show
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_show import AcceptanceSeen
from hotlap.cli import terminal
from hotlap.core.store import paths


def add(parser: argparse.ArgumentParser) -> None:
    add_which(parser)


def add_which(parser: argparse.ArgumentParser, option: str = "acceptance") -> None:
    """Which acceptance, as an argument or as an option."""
    about = "by its plan's name or the beginning of its id (default: the newest)"
    if option.startswith("--"):
        parser.add_argument(option, default="", metavar="NAME", help=f"which acceptance, {about}")
    else:
        parser.add_argument(option, nargs="?", default="", help=about)


def run(args: argparse.Namespace) -> int:
    """Exit code 0 all are accepted, 1 something is wrong with a node, 3 evidence is missing."""
    return answered(args, seen(accept_folder.chosen(paths.home(), args.acceptance)))


def seen(folder: AcceptFolder, max_out: float | None = None) -> AcceptanceSeen:
    """What is there now, with its evidence checked. Raises SchemaError where a step's file was changed."""
    folder.checked()
    standings, heads = folder.standings(), [step.head for step in folder.steps()]
    share = max_out if max_out is not None else heads[-1].max_out if heads else folder.plan.max_out
    finished = accept_driver.next_ask(folder.plan, standings, share) is None
    return AcceptanceSeen(folder.id, folder.plan, standings, heads, finished, share)


def answered(args: argparse.Namespace, content: AcceptanceSeen, code: int | None = None) -> int:
    """Prints it. `code`: another exit code than that of all nodes."""
    code = content.code if code is None else code
    if args.json:
        terminal.answer(args.json, {"acceptance": content.document()}, code=code)
        return code
    print("\n".join(accept_show.lines(content, terminal.width(), terminal.color())))
    return code
