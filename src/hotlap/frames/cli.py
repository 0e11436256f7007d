"""hotlap frames FILE|RUN …"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.show import listing
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels as labelled
from hotlap.core.store import paths
from hotlap.frames import judged as judging
from hotlap.frames import keeping, likes, reading, show, show_kind
from hotlap.frames.judged import JudgedFrames
from hotlap.frames.record import FrameCapture, FramesAsked

MOST_HZ = 1000.0


def add(parser: argparse.ArgumentParser) -> None:
    files = f"captures of one scene, a round each: of {reading.KNOWN}; or a run of them"
    parser.add_argument("file", nargs="+", metavar="FILE|RUN", help=files)
    add_judging(parser)


def add_judging(parser: argparse.ArgumentParser) -> None:
    """How captures are judged."""
    parser.add_argument("--like", choices=tuple(likes.LIKE), help="print that tool's own numbers, by its own arithmetic")
    parser.add_argument("--process", default="", metavar="NAME", help="only programs with this in their name")
    parser.add_argument("--skip", default="", metavar="TIME", help="leave out this much of the beginning, as in '5 s'")
    made = "frames made between those of the program: left out of its frame times (default), or counted like them"
    parser.add_argument("--generated", choices=("exclude", "include"), default="exclude", help=made)
    parser.add_argument("--refresh", default="", metavar="RATE", help="of the display, as in '144 Hz': says which display steps are uneven")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 judged, 2 what is no capture."""
    judged = _judged(args)
    return answer(judged, args.json, args.like)


def answer(judged: JudgedFrames, shape: int, tool: str | None, extra: Mapping[str, object] = {}) -> int:
    """Prints a run of captures: as JSON of a shape, or for people. `extra`: keys of the JSON beside its own."""
    if shape:
        more = {"like": _like(judged, tool)} if tool else {}
        terminal.answer(shape, {"run": judged.bundle.run.id, **show_kind.document(judged), **more, **extra})
        return 0
    width, color = terminal.width(), terminal.color()
    print(listing.heading(judged.bundle, []))
    print("\n".join(show.like(judged, tool, width, color) if tool else show.lines(judged, width, color)))
    print(f"kept as {judged.bundle.run.id}")
    return 0


def _like(judged: JudgedFrames, tool: str) -> list[dict[str, object]]:
    return [
        {"round": stream.round, "program": stream.key, "tool": tool, "numbers": likes.numbers(tool, stream)} for stream in judged.streams
    ]


def _judged(args: argparse.Namespace) -> JudgedFrames:
    files = [Path(name) for name in args.file]
    there = [file for file in files if file.is_file() and file.suffix != ".zip"]
    if there and len(there) < len(files):
        missing = next(file for file in files if file not in there)
        raise InputError(f"there is no file '{missing}'; give captures alone, or one run")
    if there:
        captures = [capture for file in there for capture in reading.read(file)]
        keeping.refuse_twice(captures)
        return kept(captures, asked(args), args.label)
    if len(files) > 1 or files[0].suffix.casefold() in (".csv", ".json", ".gz"):
        raise InputError(f"there is no file '{files[0]}'")
    (bundle,) = _one(terminal.runs(args.file), args.file[0])
    if args.process or args.skip or args.refresh or args.label or args.generated != "exclude":
        raise InputError("a run was judged when its files were read: --process, --skip, --generated, --refresh and --label need the files")
    content = judging.read(bundle) if bundle.run.kind == keeping.KIND else None
    if content is None:
        raise InputError(f"{bundle.run.id} is no run of captures; hotlap show {bundle.run.id} shows it")
    return content


def _one(runs: list[bundles.Bundle], name: str) -> list[bundles.Bundle]:
    if len(runs) != 1:
        raise InputError(f"'{name}' names {len(runs)} runs; give one, or compare them with hotlap compare")
    return runs


def kept(captures: Sequence[FrameCapture], wanted: FramesAsked, label: Sequence[str]) -> JudgedFrames:
    """The run of these captures, written and judged."""
    marks = labelled.check(dict(terminal.pairs(label, "a label")))
    path = keeping.bring_in(captures, wanted, paths.home(), marks)
    content = judging.read(bundles.load(path))
    assert content is not None  # it was written just now
    for given, there in zip(captures, content.whole.captures, strict=True):
        if given.kept.file != there.file:
            print(f"{given.kept.file} holds the same frames as {there.file}, which was read before", file=sys.stderr)
    return content


def asked(args: argparse.Namespace) -> FramesAsked:
    """Raises InputError."""
    skip_s = units.parse(args.skip, "s") if args.skip else 0.0
    refresh = units.parse(args.refresh, "Hz") if args.refresh else None
    if not 0 <= skip_s < float("inf"):
        raise InputError(f"--skip is a time from 0 on, not '{args.skip}'")
    if refresh is not None and not 1 <= refresh <= MOST_HZ:
        raise InputError(f"--refresh is the rate of a display, from 1 to {MOST_HZ:g} Hz, not '{args.refresh}'")
    return FramesAsked(process=args.process, skip_s=skip_s, generated=args.generated, refresh_hz=refresh)
