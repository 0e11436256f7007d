"""hotlap run [PLAN]"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

from hotlap.cli import cases, looking, many, terminal
from hotlap.cli.progress import Progress
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.analysis import fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.measure import session, simulated_nodes
from hotlap.core.record import Plan, RunRecord
from hotlap.core.show import document, export, kinds, lasting, listing, report, shape, text
from hotlap.core.show.busy import warning
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="a built-in plan or a TOML file (default: quick)")
    parser.add_argument("--target", default="", help="opencl, cuda, torch:cpu, simulated:h200-sxm?noise=0.01 … (default: the best here)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="which devices, with commas (default: the first)")
    parser.add_argument("--together", action="store_true", help="with several devices: at once instead of one after another")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run; may be repeated")
    parser.add_argument("--rounds", metavar="N", help="so many good rounds; disturbed ones are replaced, and counted beside them")
    parser.add_argument("--round-time", metavar="TIME", help="of one round, as in '8 s'")
    parser.add_argument("--budget", metavar="TIME", help="all of it ends within about this, as in '10 min'; rounds are shortened to fit")
    lasts = "go on for this long, as in '30 min', and say whether the rate at first lasts; in place of rounds and a budget"
    parser.add_argument("--sustain", metavar="TIME", help=lasts)
    parser.add_argument("--deadline", metavar="TIME", help="of a call, as in '33.3 ms': the share that misses it, and the longest streak")
    parser.add_argument("--precision", metavar="SHARE", help="asked half-width of the interval, as in '1 %%'")
    parser.add_argument("--seed", metavar="N", help="of the order of cases and of their input")
    looking.add(parser)
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was interrupted or killed")
    parser.add_argument("--no-report", action="store_true", help="write no HTML page")


def run(args: argparse.Namespace) -> int:
    """Measures, prints the table and says where everything was kept."""
    home = paths.home()
    progress = Progress(sys.stderr)
    try:
        if args.resume:
            path = _resume(args, progress)
        else:
            _check_lasting(args)
            plan = plans.override(plans.load(args.plan or "quick"), _measuring(args))
            plan = plans.within(plan, args.budget) if args.budget is not None else plan
            options = _options(args, plan, home)
            if nodes := simulated_nodes.each(options):
                return many.run(plan, nodes, progress, args.json)
            _say_of_several(plan, options)
            path = session.run(*begun(plan, options, args.wait_quiet, progress), progress)
    finally:
        progress.end()
    return finished(bundles.load(path), args.json, page=not args.no_report)


def _options(args: argparse.Namespace, plan: Plan, home: Path) -> session.SessionOptions:
    return session.SessionOptions(
        target=args.target, device=args.device, together=args.together, labels=terminal.pairs(args.label, "a label"),
        wait_s=units.parse(args.wait or 0.0, "s"), home=home, limit_s=plan.measure.budget_s if args.budget is not None else math.inf,
    )


def _say_of_several(plan: Plan, options: session.SessionOptions) -> None:
    """That one of several devices is measured, where none was asked for."""
    if not options.device and (count := len(session.places(plan, replace(options, device="all"))[1])) > 1:
        print(f"hotlap: the first of {count} devices is measured; --device all measures each of them", file=sys.stderr)


def begun(plan: Plan, options: session.SessionOptions, wait: str | None, progress: Progress) -> tuple[Plan, session.SessionOptions]:
    """The plan and its options with what one look at the machine showed, which counts towards the budget; says how long it will take."""
    options = looking.before(plan, options, wait)
    several = options.device == "all" or "," in options.device
    if several:
        progress.several(len(session.places(plan, options)[1]), options.together)
    progress.begin(plan, "" if several else options.target, options.limit_s, busy=bool(options.look and warning(options.look)))
    return plan, options


def _check_lasting(args: argparse.Namespace) -> None:
    other = next((name for name in ("rounds", "budget", "precision") if getattr(args, name) is not None), "")
    if args.sustain is not None and other:
        raise InputError(f"--sustain says how long the run is, so that --{other} has no say; leave one of them out")


def _measuring(args: argparse.Namespace) -> dict[str, object]:
    """What the command line says of how to measure, as keys of a plan."""
    given = {name: getattr(args, name) for name in ("rounds", "round_time", "sustain", "deadline", "precision", "seed")}
    if args.rounds is not None:
        given["rounds_max"] = args.rounds
    return {key: value for key, value in given.items() if value is not None}


def _resume(args: argparse.Namespace, progress: Progress) -> Path:
    entries = select.entries([args.resume], paths.home())
    if len(entries) != 1:
        raise InputError(f"'{args.resume}' names {len(entries)} runs; --resume takes one")
    given = [name for name in _OF_THE_RUN if getattr(args, name)]
    if given:
        shown = ", ".join(name if name == "plan" else f"--{name.replace('_', '-')}" for name in given)
        raise InputError(f"--resume goes on with a run as it was begun and takes no {shown}; leave it out, or begin a new run")
    kept = bundles.load(entries[0].path, readings=False)
    run, before = kept.run, len(kept.samples)
    _refuse(run)
    progress.begin(run.plan)
    for samples in kept.samples:
        progress.count(samples)
    path = session.resume(entries[0].path, progress, wait_s=units.parse(args.wait or 0.0, "s"))
    if len(bundles.load(path).samples) == before:
        print(f"hotlap: nothing was left to do of {run.id}: {listing.ending(run)}; begin a new run for more rounds", file=sys.stderr)
    return path


def _refuse(run: RunRecord) -> None:
    """Raises InputError for what `run` did not begin: it would go on without what was set, or end a run of another kind."""
    if run.part_of:
        raise InputError(
            f"{run.id} cannot go on by itself, without the turns with others or the settings that its command gave it; what it measured "
            f"is kept: hotlap show {run.id}; begin anew: {run.part_of}"
        )
    if run.kind != kinds.PLAN:
        own = kinds.unfinished(run.kind)
        raise InputError(f"{run.id} is a run of kind {run.kind}, and hotlap run --resume is for runs of a plan; where it is {own}")


_OF_THE_RUN = (
    "plan", "target", "device", "together", "label", "rounds", "round_time", "budget", "sustain", "deadline", "precision", "seed",
    "wait_quiet",
)


def finished(bundle: bundles.Bundle, as_json: int, page: bool) -> int:
    """The table and where everything is kept; exit code 3 when no case gave a number."""
    rows = tables.rows(bundle)
    file = bundle.path / "report.html"
    if page:
        try:
            file.write_text(report.render([(bundle, rows)]), encoding="utf-8")
        except (OSError, HotlapError) as error:
            print(f"hotlap: the report was not written: {error}", file=sys.stderr)
    if as_json:
        if as_json == shape.SHAPE:
            terminal.print_json(document.of_runs([(bundle, rows)]))
        else:
            terminal.print_former(export.to_json(bundle, rows))
        return cases.code([(bundle, rows)])
    print(listing.heading(bundle, rows))
    print(text.table(rows, terminal.width(), terminal.color(), bundle.run.id, bundle.run.asked.precision if bundle.run.asked else None))
    for line in lasting.lines(rows, bundle.run.asked, terminal.width()):
        print(line)
    print(f"\nrun     {bundle.path}")
    if file.exists():
        print(f"report  {file}")
    many_devices = len({row.device for row in rows}) > fleets.MANY
    print(f"next    hotlap gate {bundle.run.id} --against fleet" if many_devices else f"next    hotlap explain {bundle.run.id}")
    return cases.code([(bundle, rows)])
