"""hotlap trace FILE"""

from __future__ import annotations

import argparse
from pathlib import Path

from hotlap.advise import trace as advising
from hotlap.cli import terminal
from hotlap.report import trace as printing
from hotlap.trace.study import Study
from hotlap.trace.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace: of PyTorch's profiler or another that writes Chrome's format")
    parser.add_argument("--all", action="store_true", help="findings that would gain less than 2 % too")
    parser.add_argument("--kernels", type=int, default=printing.KERNELS, metavar="N", help=f"kernels to list (default: {printing.KERNELS})")
    parser.add_argument("--machine", default="", metavar="NAME", help="the GPU it was recorded on, where that is not recognised")
    parser.add_argument("--no-cache", action="store_true", help="do not keep the columns of large files")


def run(args: argparse.Namespace) -> int:
    """Where the time went, and what to do about it."""
    for file in args.files:
        study = Study(Timeline.open(Path(file), cache=not args.no_cache), args.machine)
        advice = advising.advise(study, 0.0 if args.all else advising.LEAST_GAIN)
        print(printing.trace(study, advice, terminal.width(), terminal.color(), args.kernels))
    return 0
