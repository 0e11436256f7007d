"""hotlap trace FILE"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap.advise import ranks as advising_ranks
from hotlap.advise import trace as advising
from hotlap.cli import terminal
from hotlap.report import layout
from hotlap.report import ranks as printing_ranks
from hotlap.report import trace as printing
from hotlap.trace import ranks
from hotlap.trace.study import Study
from hotlap.trace.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    about = "a trace: of PyTorch's profiler or another that writes Chrome's format; several, or a folder: one for each rank"
    parser.add_argument("files", nargs="+", metavar="FILE", help=about)
    parser.add_argument("--all", action="store_true", help="findings that would gain less than 2 % too")
    parser.add_argument("--kernels", type=int, default=printing.KERNELS, metavar="N", help=f"kernels to list (default: {printing.KERNELS})")
    parser.add_argument("--machine", default="", metavar="NAME", help="the GPU it was recorded on, where that is not recognised")
    parser.add_argument("--no-cache", action="store_true", help="do not keep the columns of large files")
    on = "where the traces of several ranks are reduced: processes here, or tasks of a Ray cluster (default: processes)"
    parser.add_argument("--on", choices=ranks.PLACES, default="processes", help=on)


def run(args: argparse.Namespace) -> int:
    """Where the time went, and what to do about it."""
    files = args.files
    if len(files) > 1 or Path(files[0]).is_dir():
        files = ranks.files(files)
        if len(files) > 1:
            return _ranks(args, files)
    study = Study(Timeline.open(Path(files[0]), cache=not args.no_cache), args.machine)
    _one(study, args)
    return 0


def _one(study: Study, args: argparse.Namespace) -> None:
    advice = advising.advise(study, 0.0 if args.all else advising.LEAST_GAIN)
    print(printing.trace(study, advice, terminal.width(), terminal.color(), args.kernels))


def _ranks(args: argparse.Namespace, files: list[str]) -> int:
    """All ranks together, then the one that the others wait for most."""
    whole = ranks.analysed(files, args.on, machine=args.machine)
    found = advising_ranks.advise(whole, 0.0 if args.all else advising_ranks.LEAST_GAIN)
    study = Study(Timeline.open(whole.ranks[whole.worst].file, cache=not args.no_cache), args.machine)
    if args.json:
        advice = advising.advise(study, 0.0 if args.all else advising.LEAST_GAIN)
        worst = {"rank": whole.worst, "findings": advice.findings, "together": advice.together}
        terminal.print_json(printing_ranks.document(whole, found) | {"worst": worst})
        return 0
    print(printing_ranks.ranks(whole, found, terminal.width(), terminal.color()))
    why = "the others wait for it most" if whole.arrivals and whole.arrivals.late else "its window is the longest"
    print("\n" + layout.painted(f"Rank {whole.worst}: {why}", "bold", terminal.color()))
    sys.stdout.flush()
    _one(study, args)
    return 0
