"""hotlap frames capture -- PROGRAM"""

from __future__ import annotations

import argparse
import sys

from hotlap.core import units
from hotlap.core.errors import InputError
from hotlap.core.store import paths
from hotlap.frames import capturing, cli
from hotlap.frames.capturing import LogOptions
from hotlap.frames.record import FrameCapture

LONGEST_S, MOST = 600, 100
INTERRUPTED = 130


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--captures", type=int, default=6, metavar="N", help="processes, one after another, a round each (default: 6)")
    parser.add_argument("--seconds", default="10 s", metavar="TIME", help="of frames in each capture (default: 10 s)")
    parser.add_argument("--after", default="1 s", metavar="TIME", help="from the first frame until the log begins (default: 1 s)")
    parser.add_argument("--start", default="5 s", metavar="TIME", help="that the program may take until its first frame (default: 5 s)")
    cli.add_judging(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM", help="that draws by Vulkan or OpenGL, and its arguments")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 captured and judged, 2 what cannot be asked, 3 without MangoHud, a display or frames, 130 interrupted, with what was
    captured before kept and judged."""
    options = _options(args)
    asked = cli.asked(args)
    refused: list[str] = []

    def listen(number: int, reason: str) -> None:
        if reason:
            refused.append(reason)
        print(f"hotlap: capture {number + 1} of {options.captures}{f' gave none: {reason}' if reason else ''}", file=sys.stderr)

    captures: list[FrameCapture] = []
    interrupted = False
    try:
        for one in capturing.capture(options, paths.home(), listen):
            captures.append(one)
    except KeyboardInterrupt:
        if not captures:
            raise
        interrupted = True
        print(f"hotlap: interrupted; {len(captures)} of {options.captures} captures are kept", file=sys.stderr)
    judged = cli.kept(captures, asked, args.label)
    code = cli.answer(judged, args.json, args.like, {"refused": refused} if refused else {})
    return INTERRUPTED if interrupted else code


def _options(args: argparse.Namespace) -> LogOptions:
    argv = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not argv:
        raise InputError("no program; give the one that draws at the end, as in: hotlap frames capture -- vkcube")
    if not 1 <= args.captures <= MOST:
        raise InputError(f"--captures {args.captures} is not between 1 and {MOST}")
    return LogOptions(
        argv=argv, logged_s=_whole(args.seconds, "--seconds", 1), after_s=_whole(args.after, "--after", 1),
        start_s=_whole(args.start, "--start", 1), captures=args.captures, process=args.process,
    )  # fmt: skip


def _whole(text: str, option: str, least: int) -> int:
    """MangoHud counts in whole seconds."""
    value = units.parse(text, "s")
    if not least <= value <= LONGEST_S or value != int(value):
        raise InputError(f"{option} is in whole seconds, {least} s to {LONGEST_S} s, not '{text}'")
    return int(value)
