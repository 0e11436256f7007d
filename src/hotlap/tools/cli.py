"""hotlap tool list|show|run|read|test"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from hotlap.cli import cases, terminal
from hotlap.cli import run as running_plans
from hotlap.cli.progress import LOG_S, Progress
from hotlap.core import plan as plans
from hotlap.core import units, work
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError, Unavailable
from hotlap.core.measure import session as measuring
from hotlap.core.measure.tools import finding, reading, running, toolfile
from hotlap.core.measure.tools.reading import ToolOutput
from hotlap.core.measure.tools.toolfile import QUANTITIES, ToolFile
from hotlap.core.record import Look, Plan
from hotlap.core.show import document, shape
from hotlap.core.show.busy import UNDEFENDED, warning
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.tools import beside, files, session, show, testing
from hotlap.tools.session import ToolJob, ToolOptions

VERBS = ("list", "show", "run", "read", "test")
ROUND_S = 0.5  # of a case of ours in one round
MOST_ROUNDS = 1000
LEAST_S = 5.0  # that our own case takes


def add(parser: argparse.ArgumentParser) -> None:
    about = "list: what is here; show: one tool and what its numbers do not say; run: measure by it; read: a result file; test: its samples"
    parser.add_argument("what", choices=VERBS, help=about)
    parser.add_argument("items", nargs="*", metavar="NAME|KEY=VALUE", help="tools, or a quantity as memory; run: parameters; read: files")
    parser.add_argument("--rounds", default="6", metavar="N", help="run: executions of each tool, rounds of Hotlap's case (default: 6)")
    about = "run: no round begins that would pass it, as in '2 min'; the first one always does"
    parser.add_argument("--budget", metavar="TIME", help=about)
    parser.add_argument("--alone", action="store_true", help="run: without Hotlap's own case that means the same")
    parser.add_argument("--prefix", metavar="WORDS", help="run: in front of every command, as 'adb shell' or 'ssh node7': it runs there")
    parser.add_argument("--target", default="", help="run: whose limit and sensors stand beside the numbers, as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="run: as --target")
    parser.add_argument("--wait", metavar="TIME", help="run: for a device that another run uses, at most so long")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="run: kept with the run; may be repeated")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 where there are numbers, 1 where a sample is not as its file says, 3 where no tool gave a number."""
    code: int = _VERBS[args.what](args, paths.home())
    return code


def _list(args: argparse.Namespace, home: Path) -> int:
    if args.items:
        raise InputError(f"list takes no name; hotlap tool show {args.items[0]}")
    pairs = [(tool, finding.find(tool)) for tool in files.every(home)]
    if args.json:
        terminal.answer(args.json, [{**_about(tool), **place._asdict()} for tool, place in pairs], "tools")
    else:
        print(show.listed(pairs, terminal.width(), terminal.color()))
    return 0


def _show(args: argparse.Namespace, home: Path) -> int:
    if len(args.items) != 1:
        raise InputError("show which tool? give one name; hotlap tool lists them")
    tool = files.load(args.items[0], home)
    place = finding.find(tool)
    if args.json:
        terminal.answer(args.json, {**_about(tool), **place._asdict(), "lies": tool.lies, "parameters": tool.parameters}, "tool")
    else:
        print(show.shown(tool, place, terminal.width()))
    return 0


def _about(tool: ToolFile) -> dict[str, Any]:
    return {
        "name": tool.name, "about": tool.about, "measures": tool.measures, "format_seen": tool.format_seen, "terms": tool.terms,
        "needs": list(tool.needs), "site": tool.site,
    }  # fmt: skip


def _test(args: argparse.Namespace, home: Path) -> int:
    known = files.names(home)
    for name in args.items:
        if name not in known and not name.endswith(".toml"):
            files.load(name, home)  # raises with what there is
    results: dict[str, Sequence[testing.Tested] | str] = {}
    for name in args.items or sorted(known):
        try:
            results[name] = testing.test(toolfile.load(known.get(name, Path(name))))
        except InputError as error:
            results[name] = str(error)
    if args.json:
        terminal.answer(args.json, [_tested(name, result) for name, result in results.items()], "tools")
    else:
        print(show.tested(results, terminal.width(), terminal.color()))
    return int(any(isinstance(result, str) or any(sample.fault for sample in result) for result in results.values()))


def _tested(name: str, result: Sequence[testing.Tested] | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"tool": name, "samples": [], "fault": result}
    return {"tool": name, "samples": [sample._asdict() for sample in result], "fault": ""}


# ---------------------------------------------------------------- a file from elsewhere


def _read(args: argparse.Namespace, home: Path) -> int:
    if not args.items or (args.items[0] in files.names(home) and len(args.items) < 2):
        raise InputError("read what? give the tool and its output: hotlap tool read fio fio.json")
    named = args.items[0] in files.names(home) or args.items[0].endswith(".toml") or not Path(args.items[0]).is_file()
    tool = files.load(args.items[0], home) if named else _tool_of([Path(item) for item in args.items], home)
    answer = _reading(tool, [Path(item) for item in args.items[named:]])
    if args.json:
        values = [msgspec.to_builtins(value) for value in answer.values]
        terminal.answer(args.json, {"tool": tool.name, "device": answer.device, "values": values, "refused": answer.refused}, "result")
    else:
        print(show.read(tool, answer, terminal.width(), terminal.color()))
    return 0 if any(value.values for value in answer.values) else 3


def _tool_of(given: Sequence[Path], home: Path) -> ToolFile:
    """The one whose numbers stand in the files. Raises InputError where none reads them, or several do."""
    shown = " ".join(str(path) for path in given)
    reads = [tool for tool in files.every(home) if any(value.values for value in _reading(tool, given).values)]
    if not reads:
        raise InputError(f"no tool reads a number in {shown}; name its tool: hotlap tool read NAME {shown} (hotlap tool lists them)")
    if len(reads) > 1:
        names = ", ".join(tool.name for tool in reads)
        raise InputError(f"{shown} may be of {names}; name the tool: hotlap tool read {reads[0].name} {shown}")
    print(f"hotlap: read as the output of {reads[0].name}", file=sys.stderr)
    return reads[0]


def _reading(tool: ToolFile, given: Sequence[Path]) -> reading.ToolReading:
    return reading.read(tool, _output(tool, given), tool.settings({}))


def _output(tool: ToolFile, given: Sequence[Path]) -> ToolOutput:
    """Files as what the tool printed, or as the files that it writes: by their names, else by where its numbers stand."""
    texts = {}
    for path in given:
        try:
            texts[path.name] = path.read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            raise InputError(f"there is no file '{path}'") from None
        except OSError as error:
            raise InputError(f"'{path}' cannot be read: {error.strerror}") from None
    sources = {result.source for result in tool.result}
    written = {source for source in sources if source not in ("stdout", "stderr", "output")}
    everything = "\n".join(texts.values())
    return ToolOutput(
        None, everything if "stdout" in sources or "output" in sources else "", everything if sources == {"stderr"} else "",
        texts if len(given) > 1 else dict.fromkeys(written, everything),
    )  # fmt: skip


# ---------------------------------------------------------------- measuring


def _run(args: argparse.Namespace, home: Path) -> int:
    jobs = _jobs(args.items, home, shlex.split(args.prefix or ""))
    _here(jobs)
    rounds = terminal.whole(args.rounds, "--rounds", most=MOST_ROUNDS)
    progress, limit_s = _Progress(rounds * len(jobs)), _limit_s(args.budget)
    options = ToolOptions(
        rounds, args.target, args.device, terminal.pairs(args.label, "a label"), home=home, wait_s=_wait_s(args), limit_s=limit_s,
        looked=progress.looked, began=progress.began,
    )  # fmt: skip
    progress.begin(jobs, rounds)
    try:
        path = session.run(jobs, options, progress)
    finally:
        progress.end()
    measured = [bundles.load(path)]
    interrupted = measured[0].run.stopped_by("interrupted")
    if interrupted:
        print(f"hotlap: interrupted; everything measured is kept: hotlap show {measured[0].run.id}", file=sys.stderr)
    elif not args.alone and (plan := _ours(jobs, measured[0], rounds)):
        left_s = limit_s - progress.elapsed_s()
        if left_s < LEAST_S:
            print("hotlap: the budget leaves no time for Hotlap's own case; a longer --budget measures it too", file=sys.stderr)
        else:
            measured.append(bundles.load(_measure_ours(plan, args, home, left_s)))
    analysed = [(bundle, tables.rows(bundle)) for bundle in measured]
    code = 130 if interrupted else cases.code(analysed[:1])
    if args.json == shape.SHAPE:
        terminal.print_json(document.of_runs(analysed))
        return code
    if args.json:
        raise InputError("hotlap tool run has shape 3 of JSON alone: --json")
    rows = [row for _, analysed_rows in analysed for row in analysed_rows]
    groups = beside.quantities(rows, {job.tool.name: job.tool.measures for job in jobs})
    print(show.beside(groups, terminal.width(), terminal.color()))
    _below(jobs, analysed[0][1])
    print(f"\nrun     {', '.join(str(bundle.path) for bundle in measured)}")
    print(f"next    hotlap show {measured[0].run.id}")
    return code


def _here(jobs: Sequence[ToolJob]) -> None:
    """Raises Unavailable where none of the tools can be run: there is nothing to hold a device for, or to keep."""
    if any(not job.place.missing for job in jobs):
        return
    reasons = "; ".join(f"{job.tool.name}: {job.place.missing}" for job in jobs)
    brings = dict.fromkeys(job.place.remedy for job in jobs if job.place.remedy and not job.place.program)
    raise Unavailable(f"nothing was run: {reasons}", f"what brings it: {'; '.join(brings)}" if brings else "")


def _below(jobs: Sequence[ToolJob], rows: Sequence[Any]) -> None:
    """Notices of the numbers, each once, and what the tools' numbers do not say."""
    notices = dict.fromkeys(
        notice.text for row in rows for samples in row.result.rounds for notice in samples.notices if notice.code != "differs"
    )  # fmt: skip
    for text in notices:
        print(f"\nnotice  {text}", end="")
    known = [job.tool.name for job in jobs if job.tool.lies]
    if known:
        print(f"\nhotlap tool show {known[0]} says what its numbers do not say", end="")
    print()


def _jobs(items: Sequence[str], home: Path, prefix: Sequence[str] = ()) -> list[ToolJob]:
    """Tools and quantities, with the parameters that each of them has. Raises InputError before anything runs."""
    names = [item for item in items if "=" not in item]
    given = terminal.pairs([item for item in items if "=" in item], "a parameter")
    if not names:
        raise InputError("run which tool? give names, or a quantity as memory; hotlap tool lists them")
    known = files.names(home)
    tools: dict[str, ToolFile] = {}
    for name in names:
        if name in QUANTITIES and name not in known:
            members = [tool for tool in files.every(home) if tool.measures == name and tool.runs and not finding.find(tool).missing]
            if not members:
                raise InputError(f"no tool for {name} can be run here; hotlap tool says what installs one")
            tools |= {tool.name: tool for tool in members}
        else:
            tools[name] = files.load(name, home)
    if prefix:
        tools = {name: _behind(tool, prefix) for name, tool in tools.items()}
    for name in given:
        if not any(name in tool.parameters for tool in tools.values()):
            next(iter(tools.values())).settings({name: given[name]})  # raises with what there is
    return [
        ToolJob(tool, finding.find(tool), running.check(tool, {name: value for name, value in given.items() if name in tool.parameters}))
        for tool in tools.values()
    ]  # fmt: skip


def _behind(tool: ToolFile, prefix: Sequence[str]) -> ToolFile:
    """The tool with a prefix. Raises InputError for one whose numbers stand in a file, which would be elsewhere."""
    written = next((result.source for result in tool.result if result.source not in ("stdout", "stderr", "output")), "")
    if written or tool.run is None or tool.run.server:
        why = f"its numbers stand in a file, {written}" if written else "it needs a server beside it" if tool.run else "it is not run"
        raise InputError(f"--prefix: {tool.name} cannot run elsewhere: {why}; read its output with hotlap tool read {tool.name}")
    return structs.replace(tool, run=structs.replace(tool.run, prefix=list(prefix)))


def _wait_s(args: argparse.Namespace) -> float:
    return units.parse(args.wait or 0.0, "s")


def _limit_s(text: str | None) -> float:
    limit_s = math.inf if text is None else units.parse(text, "s")
    if limit_s <= 0:
        raise InputError(f"--budget is a time above 0, as in '2 min', not {text}")
    return limit_s


def _ours(jobs: Sequence[ToolJob], measured: bundles.Bundle, rounds: int) -> Plan | None:
    """Our own cases that mean what the tools' numbers mean; None where there is none, or no number."""
    texts = dict.fromkeys(
        str(case.params["like"]) for case in measured.run.plan.cases
        if case.params.get("like") and any(samples.case == case.id and samples.values for samples in measured.samples)
    )  # fmt: skip
    wanted = {case.id: case for case in map(work.case_of, texts)}
    if not wanted:
        return None
    plan = Plan(name="beside tools", cases=list(wanted.values()), source="hotlap tool run")
    return plans.override(plan, {"rounds": rounds, "rounds_max": rounds, "round_time": ROUND_S * len(wanted)})


def _measure_ours(plan: Plan, args: argparse.Namespace, home: Path, left_s: float) -> Path:
    options = measuring.SessionOptions(
        target=args.target, device=args.device, labels=terminal.pairs(args.label, "a label"), home=home, wait_s=_wait_s(args),
        limit_s=left_s,
    )  # fmt: skip
    progress = Progress(sys.stderr)
    try:
        return measuring.run(*running_plans.begun(plan, options, None, progress), progress)
    finally:
        progress.end()


class _Progress:
    """One line that is rewritten on a terminal, one an execution in a log (at most one in 5 s), and one for what gave no number."""

    def __init__(self, count: int) -> None:
        self.count, self.done, self.live = count, 0, sys.stderr.isatty()
        self.reasons: set[tuple[str, str]] = set()
        self.began_s = self.last_s = time.monotonic()
        self.logged_s = self.began_s - LOG_S

    def begin(self, jobs: Sequence[ToolJob], rounds: int) -> None:
        """What is going to be executed, and how long each may take."""
        here = [job for job in jobs if not job.place.missing and job.tool.run]
        if here:
            print(f"{show.planned([(job.tool, job.settings) for job in here], rounds)}", file=sys.stderr)

    def looked(self, look: Look) -> None:
        """Says that the machine is busy."""
        if busy_with := warning(look):
            print(f"hotlap: {busy_with}; {UNDEFENDED}", file=sys.stderr)
        self._draw("")

    def began(self) -> None:
        """The device is free: time counts from here."""
        self.began_s = self.last_s = time.monotonic()

    def __call__(self, job: ToolJob, number: int, refused: str) -> None:
        self.done += 1
        now_s = time.monotonic()
        if refused and (job.tool.name, refused) not in self.reasons:
            self.reasons.add((job.tool.name, refused))
            self.end()
            print(f"hotlap: {job.tool.name}: {refused}", file=sys.stderr)
        if not self.live and not job.place.missing and now_s - self.logged_s >= LOG_S:
            self.logged_s = now_s
            print(f"{self.done} of {self.count} executions, {job.tool.name}: {now_s - self.last_s:.1f} s{self._left()}", file=sys.stderr)
        self.last_s = now_s
        self._draw(f"{self._left()}  {job.tool.name}")

    def elapsed_s(self) -> float:
        """Seconds since the first execution began."""
        return time.monotonic() - self.began_s

    def _left(self) -> str:
        left_s = self.elapsed_s() / max(self.done, 1) * (self.count - self.done)
        return f", about {units.show(round(left_s), 's', 2)} left" if left_s >= 1 else ""

    def _draw(self, text: str) -> None:
        if self.live:
            sys.stderr.write(f"\r\x1b[K{self.done} of {self.count} executions{text}")
            sys.stderr.flush()

    def end(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


_VERBS: Mapping[str, Any] = {"list": _list, "show": _show, "run": _run, "read": _read, "test": _test}
