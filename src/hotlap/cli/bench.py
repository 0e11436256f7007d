"""hotlap bench COMMAND … | hotlap bench WORKLOAD NAME=VALUE …"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hotlap.cli import bench_commands, looking, terminal
from hotlap.cli import run as running
from hotlap.cli.progress import LOG_S, Progress
from hotlap.core import plan as plans
from hotlap.core import units, work
from hotlap.core.analysis import commands as analysis
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.measure import session
from hotlap.core.record import Comparison, Plan
from hotlap.core.show import commands as showing
from hotlap.core.show import document, export, shape
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.core.trials import bench
from hotlap.core.trials.bench import BenchLeft

ROUND_S = 0.5  # of a case of a workload in one round
MOST_NAMED = 4  # commands whose numbers of runs are said beforehand
FILES = ("export_json", "export_markdown", "export_csv", "save_plan")


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="*", metavar="COMMAND", help="commands in quotes, or a workload and its NAME=VALUE[,VALUE …]")
    bench_commands.add(parser)
    kept = parser.add_argument_group("files and labels")
    kept.add_argument("--export-json", metavar="FILE", help="results in the JSON of hyperfine, with intervals and comparisons beside them")
    kept.add_argument("--export-markdown", metavar="FILE", help="the table in Markdown")
    kept.add_argument("--export-csv", metavar="FILE", help="the statistics in CSV, in seconds")
    kept.add_argument("--save-plan", metavar="FILE", help="what was measured, as a plan for 'hotlap run'")
    kept.add_argument("--replace", action="store_true", help="overwrite files that exist")
    kept.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run; may be repeated")
    looking.wait(parser, "for a device that another run holds (default: a workload is refused, of commands it is said)")
    workload = parser.add_argument_group("of a workload only")
    workload.add_argument("--target", default="", help="as in hotlap run")
    workload.add_argument("--device", default="", metavar="INDEX|UUID|all", help="as in hotlap run")
    workload.add_argument("--implementation", metavar="NAME[,NAME …]", help="which of the workload's implementations")
    workload.add_argument("--precision", metavar="SHARE", help="asked half-width of the interval, as in '1 %%'")
    workload.add_argument("--dry-run", action="store_true", help="write the plan of --save-plan, and measure nothing")


def rewritten(words: Sequence[str]) -> list[str]:
    """Words behind ``--`` are commands, also where they have the name of a workload or begin with a dash."""
    if "--" not in words:
        return list(words)
    place = list(words).index("--")
    return [*words[:place], *(f"--command={word}" for word in words[place + 1 :])]


def run(args: argparse.Namespace) -> int:
    """Measures the commands or the workload, prints the table, and says where it is kept."""
    _free([getattr(args, name) for name in FILES], args.replace)
    if args.what and args.what[0] in work.WORKLOADS and not args.command:
        return _workload(args)
    return _commands(args)


def _free(names: Sequence[str | None], replace: bool) -> None:
    """Raises InputError, before anything is measured, for a file that cannot be written."""
    for name in filter(None, names):
        path = Path(name)
        if path.exists() and not replace:
            raise InputError(f"'{name}' exists; --replace overwrites it")
        if not path.absolute().parent.is_dir():
            raise InputError(f"'{name}' cannot be written: there is no folder {path.parent}")


# ---------------------------------------------------------------- commands


def _commands(args: argparse.Namespace) -> int:
    given = [name for name in ("target", "device", "implementation", "precision", "dry_run") if getattr(args, name)]
    if given:
        raise InputError(f"--{given[0].replace('_', '-')} is for workloads; '{' '.join(args.what)[:60]}' is taken for commands")
    commands, options = bench_commands.commands(args), bench_commands.options(args)
    progress = _Progress([(one.letter, one.name) for one in commands])
    try:
        outcome = bench.bench(commands, options, paths.home(), progress)
    except bench.NothingMeasured as error:
        raise InputError(f"{error}{bench_commands.remedy(error.status, args)}") from None
    finally:
        progress.end()
    measured = analysis.of(bundles.load(outcome.path))
    assert measured is not None
    _write(args, measured)
    code = _code(outcome, measured, args)
    if args.json == shape.SHAPE:
        answers = code if args.until_sure or code else None
        terminal.print_json(document.of_commands(measured.run, measured.rows, measured.comparisons, answers))
    elif args.json:
        terminal.print_former(showing.to_json(measured))
    else:
        print(showing.text(measured, terminal.width(), terminal.color()))
        print(f"\nrun     {outcome.path}")
        print(f"next    {_next(measured, args)}")
    _ended(outcome, measured.run.id, args)
    return code


def _next(measured: analysis.MeasuredCommands, args: argparse.Namespace) -> str:
    unsure = any(one.answer == "inconclusive" for one in measured.comparisons)
    if unsure and measured.in_turns and not args.until_sure:
        runs = analysis.runs_wanted(measured)
        if runs is None:
            return "no number of runs answers beside this noise: stop other programs, or look for a larger change (--until-sure --resolve)"
        takes = units.show(runs * sum(row.mean_s for row in measured.rows), "s", 2)
        limit = f" --max-runs {runs}" if runs > analysis.MOST_SURE else ""
        again = f"--until-sure{limit} measures anew until the answer is sure"
        return f"{again}; {runs} runs of each ({takes}) should do if change and noise are what they look like now"
    return f"hotlap show {measured.run.id}"


def _code(outcome: bench.BenchOutcome, measured: analysis.MeasuredCommands, args: argparse.Namespace) -> int:
    ended = {"interrupted": 130, "error": 3}.get(outcome.stop.kind)
    return ended or (_answer(measured.comparisons) if args.until_sure else 0)


def _ended(outcome: bench.BenchOutcome, run: str, args: argparse.Namespace) -> None:
    """Says why it ended early."""
    if outcome.stop.kind == "interrupted":
        print(f"hotlap: interrupted; everything measured is kept: hotlap show {run}", file=sys.stderr)
    if outcome.stop.kind == "error":
        advice = bench_commands.remedy(outcome.status, args)
        print(f"hotlap: {outcome.stop.detail}{advice}; what was measured until then is kept", file=sys.stderr)


def _answer(comparisons: Sequence[Comparison]) -> int:
    """As of `ab`."""
    answers = {one.answer for one in comparisons}
    return 1 if "slower" in answers else 3 if "inconclusive" in answers else 0


def _write(args: argparse.Namespace, measured: analysis.MeasuredCommands) -> None:
    _export(args, {
        "export_json": lambda: terminal.json_text(showing.to_json(measured)), "export_markdown": lambda: showing.markdown(measured),
        "export_csv": lambda: showing.csv(measured),
    })
    if args.save_plan:
        once = {name: getattr(args, name) for name in ("setup", "cleanup")}
        _save_plan(args.save_plan, measured.run.plan, [f"run it yourself, as --{name} did: {text}" for name, text in once.items() if text])


def _export(args: argparse.Namespace, contents: Mapping[str, Callable[[], str]]) -> None:
    for option, content in contents.items():
        if name := getattr(args, option):
            terminal.write(Path(name), content())


def _save_plan(name: str, plan: Plan, notes: Sequence[str] = ()) -> None:
    terminal.write(Path(name), plans.text(plan, [f"made by hotlap bench; measured by: hotlap run {name}", *notes]))
    print(f"hotlap: the plan is written to {name}", file=sys.stderr)


class _Progress:
    """One line that is rewritten on a terminal; in a log how long it takes, and a line at most each LOG_S."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self.names, self.live, self.said_s, self.announced = names, sys.stderr.isatty(), time.monotonic(), False

    def __call__(self, which: int, done: int, last_s: float | None, left: BenchLeft | None) -> None:
        last = f", the last took {units.show(last_s, 's')}" if last_s is not None else ""
        letter, text = self.names[which]
        if self.live:
            sys.stderr.write(f"\r\x1b[K{letter}  run {done + 1}{last}  {text}"[:120])
            sys.stderr.flush()
            return
        most = "at most " if left and left.most else ""
        if left and not self.announced:
            self.announced = True
            if left.seconds >= LOG_S:
                takes = f"{most or 'about '}{units.show(left.seconds, 's', 2)}"
                print(f"{most}{self._runs(left)}, which takes {takes}", file=sys.stderr)
        elif time.monotonic() - self.said_s >= LOG_S:
            self.said_s = time.monotonic()
            of = f" of {most}{left.runs[which]}" if left and which in left.runs else ""
            rest = f"; {most or 'about '}{units.show(left.seconds, 's', 2)} left" if left else ""
            print(f"{letter}  run {done + 1}{of}{last}{rest}", file=sys.stderr)

    def _runs(self, left: BenchLeft) -> str:
        """Of each command, in one word where all have as many."""
        numbers = list(left.runs.values())
        if len(set(numbers)) == 1:
            return f"{numbers[0]} runs{' of each' if len(numbers) > 1 else ''}"
        each = [f"{self.names[which][0]} {count}" for which, count in left.runs.items()]
        return f"runs: {', '.join([*each[:MOST_NAMED], *(['…'] if len(each) > MOST_NAMED else [])])}"

    def end(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# ---------------------------------------------------------------- workloads


def _workload(args: argparse.Namespace) -> int:
    plan = _plan(args)
    options = session.SessionOptions(
        target=args.target, device=args.device, labels=terminal.pairs(args.label, "a label"), home=paths.home(),
        wait_s=looking.wait_s(args), limit_s=plan.measure.budget_s if args.budget is not None else math.inf,
    )
    if args.dry_run and not args.save_plan:
        raise InputError("--dry-run writes a plan and measures nothing: give --save-plan FILE with it")
    if args.save_plan:
        _save_plan(args.save_plan, plan)
    if args.dry_run:
        where = [f"--{name} {shlex.quote(getattr(args, name))}" for name in ("target", "device") if getattr(args, name)]
        print(f"next    {' '.join(['hotlap run', shlex.quote(args.save_plan), *where])}")
        return 0
    progress = Progress(sys.stderr)
    try:
        path = session.run(*running.begun(plan, options, None, progress), progress)
    finally:
        progress.end()
    bundle = bundles.load(path)
    rows = tables.rows(bundle)
    _export(args, {
        "export_json": lambda: terminal.json_text(export.to_json(bundle, rows)),
        "export_markdown": lambda: export.to_markdown(bundle, rows),
        "export_csv": lambda: export.to_csv(bundle, rows),
    })
    return running.finished(bundle, args.json, page=False)


def _plan(args: argparse.Namespace) -> Plan:
    """The workload with its axes: values with commas between, but of a parameter that is a list itself."""
    name, *words = args.what
    if wrong := bench_commands.given(args, beside=("runs", "min_runs", "max_runs", "budget")):
        option = wrong[0].replace("_", "-")
        raise InputError(f"--{option} is for commands, and '{name}' is a workload; hotlap bench -- {name} runs the program")
    spec, axes = work.find(name), terminal.pairs(words, "a parameter of a workload")
    if args.implementation:
        axes["implementation"] = args.implementation
    params = {param.name: param for param in spec.params}
    lists = {key for key, param in params.items() if param.kind == "list"}
    values = {key: text if key in lists or "," not in text else [part.strip() for part in text.split(",")] for key, text in axes.items()}
    plan = plans.of_workload(name, values, "bench", "hotlap bench")
    asked = {"rounds": args.runs or args.min_runs, "rounds_max": args.runs or args.max_runs, "precision": args.precision}
    asked |= {"budget": args.budget, "round_time": None if plan.measure.round_s < ROUND_S else ROUND_S * len(plan.cases)}
    return plans.override(plan, {key: value for key, value in asked.items() if value is not None})
