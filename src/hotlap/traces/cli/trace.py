"""hotlap trace FILE…"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.store import paths, select
from hotlap.traces import captured, counters, ranks, window
from hotlap.traces.advice import ranks as advising_ranks
from hotlap.traces.advice import trace as advising
from hotlap.traces.advice.trace import Advice
from hotlap.traces.cli import ranked
from hotlap.traces.counters import analysis, rules
from hotlap.traces.events import Events
from hotlap.traces.ranks import AllRanks
from hotlap.traces.readers import packed
from hotlap.traces.show import answer as trace_answer
from hotlap.traces.show import capture
from hotlap.traces.show import kernels as printing_kernels
from hotlap.traces.show import markdown as trace_markdown
from hotlap.traces.show import page as trace_page
from hotlap.traces.show import perfetto as trace_perfetto
from hotlap.traces.show import ranks as printing_ranks
from hotlap.traces.show import trace as printing
from hotlap.traces.show.answer import Answers, Unused
from hotlap.traces.show.page import RankBar
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

MOST_BARS = 64  # ranks drawn on a page


def add(parser: argparse.ArgumentParser) -> None:
    about = "a trace, or a profile of kernels; a run of trace capture; several, or a folder: one for each rank"
    parser.add_argument("files", nargs="*", metavar="FILE", help=about)
    parser.epilog = (
        "Also: hotlap trace diff A B: what changed between two traces of one program; hotlap trace lint FILE: markers that will mislead."
    )
    parser.add_argument("--all", action="store_true", help="findings that would gain less than 2 %% too")
    parser.add_argument("--kernels", type=int, default=printing.KERNELS, metavar="N", help=f"kernels to list (default: {printing.KERNELS})")
    parser.add_argument("--steps", default="", metavar="FIRST:LAST", help="these steps alone, by their numbers")
    parser.add_argument("--html", metavar="OUT", help="one page to look into; of several ranks, of the one the others wait for")
    parser.add_argument("--perfetto", metavar="OUT", help="the trace with findings and critical path, for ui.perfetto.dev (.json[.gz])")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--machine", default="", metavar="NAME", help="the GPU it was recorded on, where that is not recognised")
    parser.add_argument("--no-cache", action="store_true", help="do not keep the columns of large files")
    parser.add_argument("--rules", action="store_true", help="list the rules over kernels' counters, each with what to do")
    on = "where the traces of several ranks are reduced: processes here, or tasks of a Ray cluster (default: processes)"
    parser.add_argument("--on", choices=ranks.PLACES, default="processes", help=on)


def run(args: argparse.Namespace) -> int:
    """Where the time went, and what to do about it."""
    if args.rules:
        return _rules(args)
    if not args.files:
        raise InputError("name a trace, or --rules for the rules over kernels' counters")
    if args.json and args.markdown:
        raise InputError("--json and --markdown exclude each other: both print")
    if args.kernels < 0:
        raise InputError(f"--kernels {args.kernels} is not a number of kernels; 0 or more")
    for out in (args.html, args.perfetto):
        if out:
            writable(out, args.files)
    files = [_of_run(one) for one in args.files]
    if len(files) > 1 or Path(files[0]).is_dir():
        files = ranks.files(files)
        if len(files) > 1:
            return _ranks(args, files)
    if counters.find(Path(files[0]), packed.head(Path(files[0]))):
        return _kernels(args, Path(files[0]))
    study, advice = _one(args, files[0])
    if args.json:
        terminal.answer(args.json, Answers(traces=[trace_answer.answer(study, advice)]))
    elif args.markdown:
        print(trace_markdown.markdown(trace_answer.answer(study, advice), args.kernels), end="")
    else:
        print(printing.trace(study, advice, terminal.width(), terminal.color(), args.kernels))
    _written(args, study, advice)
    return 0


def _of_run(name: str) -> str:
    """The folder of a run that is named by its id, by a label or as latest; a file or folder as it is."""
    if Path(name).exists() or "*" in name:
        return name
    try:
        run = select.entries([name], paths.home())[0].path
    except InputError:
        return name
    if not (run / captured.FILE).is_file():
        raise InputError(f"the run {run.name} holds no trace; hotlap trace capture -- PROGRAM records one, hotlap list names runs")
    return str(run)


def _one(args: argparse.Namespace, file: str) -> tuple[Study, Advice]:
    """One trace, or the part of it that is asked for or can be looked at whole."""
    opened: Events = Timeline.open(Path(file), cache=not args.no_cache)
    if args.steps:
        numbers = re.fullmatch(r"(\d+):(\d+)", args.steps)
        if not numbers or int(numbers[1]) > int(numbers[2]):
            raise InputError(f"--steps {args.steps} is not FIRST:LAST, as in --steps 10:20")
        opened = window.numbered(opened, int(numbers[1]), int(numbers[2]))
    else:
        opened, part = window.bounded(opened)
        if part:
            print(f"hotlap: {part}", file=sys.stderr)
    study = Study(opened, args.machine, _beside(Path(file)))
    return study, advising.advise(study, 0.0 if args.all else advising.LEAST_GAIN, crowded=bool(study.busy))


def _beside(file: Path) -> str:
    """Who else used the processors while this was captured; "" of what is no capture's."""
    try:
        record = captured.read(file.parent)
    except SchemaError:
        return ""
    return capture.busy(record) if record is not None and file.name in record.traces else ""


def _written(args: argparse.Namespace, study: Study, advice: Advice, bars: Sequence[RankBar] = ()) -> None:
    sys.stdout.flush()
    if args.html:
        terminal.write(Path(args.html), trace_page.page(study, advice, bars))
    if args.perfetto:
        trace_perfetto.write(study, advice, Path(args.perfetto))
    for out in (args.html, args.perfetto):
        if out:
            print(f"hotlap: wrote {out}", file=sys.stderr)


def _kernels(args: argparse.Namespace, path: Path) -> int:
    """A profile of kernels has counters in place of a timeline."""
    for name in ("html", "perfetto", "markdown", "steps"):
        if getattr(args, name):
            raise InputError(f"'{path}' is a profile of kernels, not a timeline: --{name} is not for it")
    profile = counters.read(path)
    found = analysis.analyse(profile)
    if args.json:
        terminal.answer(args.json, {"file": str(path), "kernels": found, "notices": profile.notices})
    else:
        least = 0.0 if args.all else printing_kernels.LEAST
        print(printing_kernels.text(profile, found, terminal.width(), terminal.color(), least))
    return 0


def _rules(args: argparse.Namespace) -> int:
    known = list(rules.table().values())
    if args.json:
        terminal.answer(args.json, known, "rules")
    else:
        print(printing_kernels.listed(known, terminal.width(), terminal.color()))
    return 0


def _ranks(args: argparse.Namespace, files: list[str]) -> int:
    """All ranks together, then the one that the others wait for most. Exit code 3 where a file that was named is no rank's trace."""
    if args.markdown:
        raise InputError("--markdown is for one trace; --json has all of several")
    together = ranked.read(files, args.on, args.machine, 0.0 if args.all else advising_ranks.LEAST_GAIN)
    whole = together.whole
    code = 3 if {one.file for one in whole.unusable} & set(args.files) else 0  # a folder may hold other things
    if whole.apart or len(whole.ranks) == 1:
        _each(args, whole)
        return code
    study, advice = _one(args, together.file)
    if args.json:
        terminal.answer(args.json, ranked.document(together, advice))
    else:
        print(ranked.text(together, study, advice, args.kernels))
    _written(args, study, advice, _bars(whole))
    return code


def _each(args: argparse.Namespace, whole: AllRanks) -> None:
    """Traces that are no ranks of one program, one after another; also the only one among files that are none."""
    files = whole.apart.files if whole.apart else [one.file for one in whole.ranks.values()]
    if len(files) > 1 and (args.html or args.perfetto):
        raise InputError(
            f"--html and --perfetto write of one program: these are {len(files)} traces that nothing joins; name one of them, or put the "
            "rank into their names (rank0.json) if they are ranks"
        )
    if not args.json:
        said = printing_ranks.apart(whole, terminal.width(), terminal.color()) or "\n".join(printing_ranks.unused(whole, terminal.width()))
        print(said, end="\n\n" if said else "")
    answers = []
    for place, file in enumerate(files):
        study, advice = _one(args, file)
        if args.json:
            answers.append(trace_answer.answer(study, advice))
        else:
            print(("\n\n" if place else "") + printing.trace(study, advice, terminal.width(), terminal.color(), args.kernels))
    if args.json:
        terminal.answer(args.json, Answers(traces=answers, unusable=[Unused(file=one.file, why=one.why) for one in whole.unusable]))
    if len(files) == 1:
        _written(args, study, advice)


def _bars(whole: AllRanks) -> list[RankBar]:
    """How the ranks stand beside each other, for the page: the first of very many, and the one that is waited for."""
    shown = sorted({*sorted(whole.ranks)[:MOST_BARS], whole.worst})
    lost = dict(zip(whole.arrivals.ranks, whole.arrivals.lost, strict=True)) if whole.arrivals else {}
    bars = []
    for rank in shown:
        reduced = whole.ranks[rank]
        copies = None
        if reduced.idle_share is not None:
            copies = max(1 - (reduced.compute_share or 0) - (reduced.exposed_communication_share or 0) - reduced.idle_share, 0.0)
        shares = {
            "compute": reduced.compute_share,
            "exposed_communication": reduced.exposed_communication_share,
            "exposed_copy": copies,
            "idle": reduced.idle_share,
        }
        bars.append(RankBar(rank, shares, float(lost[rank]) * reduced.window_s if rank in lost else None))
    return bars


def writable(out: str, files: Sequence[str]) -> None:
    """Raises InputError, before any work is done, where a file cannot be written or is one of those that are read."""
    path = Path(out)
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"'{path}' cannot be written: {'it is a folder' if path.is_dir() else f'there is no folder {path.parent}'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"'{path}' cannot be written: no permission; name another place")
    if any(Path(file).exists() and path.exists() and path.samefile(file) for file in files):
        raise InputError(f"'{path}' is the trace itself; name another file for what is written")
