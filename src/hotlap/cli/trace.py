"""hotlap trace FILE"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hotlap.advise import trace as advising
from hotlap.advise.trace import Advice
from hotlap.cli import terminal
from hotlap.errors import InputError
from hotlap.report import trace as printing
from hotlap.report import trace_answer, trace_markdown, trace_page, trace_perfetto
from hotlap.report.trace_answer import Answers
from hotlap.trace.study import Study
from hotlap.trace.timeline import Timeline


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace: of PyTorch's profiler or another that writes Chrome's format")
    parser.add_argument("--all", action="store_true", help="findings that would gain less than 2 %% too")
    parser.add_argument("--kernels", type=int, default=printing.KERNELS, metavar="N", help=f"kernels to list (default: {printing.KERNELS})")
    parser.add_argument("--html", metavar="OUT", help="one page to look into; of several files a page each, with the file's name added")
    parser.add_argument("--perfetto", metavar="OUT", help="the trace with findings and critical path, for ui.perfetto.dev (.json[.gz])")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--machine", default="", metavar="NAME", help="the GPU it was recorded on, where that is not recognised")
    parser.add_argument("--no-cache", action="store_true", help="do not keep the columns of large files")


def run(args: argparse.Namespace) -> int:
    """Where the time went, and what to do about it."""
    if args.json and args.markdown:
        raise InputError("--json and --markdown exclude each other: both print")
    if args.kernels < 0:
        raise InputError(f"--kernels {args.kernels} is not a number of kernels; 0 or more")
    pages, traces = outputs(args.html, args.files), outputs(args.perfetto, args.files)
    answers, refused = [], list[InputError]()
    for place, file in enumerate(args.files):
        try:
            study = Study(Timeline.open(Path(file), cache=not args.no_cache), args.machine)
        except InputError as error:
            refused.append(error)
            if len(args.files) == 1 or len(refused) == len(args.files):
                raise
            print(f"hotlap: {error}", file=sys.stderr)
            continue
        advice = advising.advise(study, 0.0 if args.all else advising.LEAST_GAIN)
        if args.json:
            answers.append(trace_answer.answer(study, advice))
        else:
            print(("\n" if place else "") + _said(args, study, advice), end="")
            sys.stdout.flush()
        if pages:
            terminal.write(pages[place], trace_page.page(study, advice))
        if traces:
            trace_perfetto.write(study, advice, traces[place])
        for written in (*pages[place : place + 1], *traces[place : place + 1]):
            print(f"hotlap: wrote {written}", file=sys.stderr)
    if args.json:
        terminal.print_json(Answers(traces=answers))
    return 3 if refused else 0


def _said(args: argparse.Namespace, study: Study, advice: Advice) -> str:
    if args.markdown:
        return trace_markdown.markdown(trace_answer.answer(study, advice), args.kernels)
    return printing.trace(study, advice, terminal.width(), terminal.color(), args.kernels) + "\n"


def outputs(out: str | None, files: Sequence[str]) -> list[Path]:
    """Where each file's output goes: OUT itself for one file, OUT with the file's name added for several. Raises InputError before any
    work is done where one of them cannot be written."""
    if not out:
        return []
    path = Path(out)
    suffix = ".json.gz" if path.name.endswith(".json.gz") else path.suffix
    stem = path.name.removesuffix(suffix)
    found: list[Path] = []
    for file in files:
        name = Path(file).name.split(".")[0]
        whole = path if len(files) == 1 else path.with_name(f"{stem}-{name}{suffix}")
        number = 2
        while whole in found:
            whole, number = path.with_name(f"{stem}-{name}-{number}{suffix}"), number + 1
        found.append(whole)
    for one in found:
        if not one.parent.is_dir() or one.is_dir():
            raise InputError(f"'{one}' cannot be written: {'it is a folder' if one.is_dir() else f'there is no folder {one.parent}'}")
        if not os.access(one if one.exists() else one.parent, os.W_OK):
            raise InputError(f"'{one}' cannot be written: no permission; name another place")
        if any(Path(file).exists() and one.exists() and one.samefile(file) for file in files):
            raise InputError(f"'{one}' is the trace itself; name another file for what is written")
    return found
