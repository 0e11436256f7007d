"""hotlap gate [RUN …]"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import suppress

from hotlap.cli import against, cases, gate_base, gate_fleet, gate_peers, looking, reports, terminal
from hotlap.cli.progress import Progress
from hotlap.cli.read_progress import ReadProgress
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.analysis import absent, fleet, standards, verdicts
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.measure import session
from hotlap.core.record import Judgement, Plan
from hotlap.core.show import document, judgement, judgements, kinds, shape
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="*", help="which runs (default: latest)")
    about = "what it is compared with (default: the promoted baseline); a FILE is a baseline or rules"
    parser.add_argument("--against", metavar="|".join(against.NAMES), help=about)
    match = "a baseline's runs of this host (default), or of machines of its class: processor, logical cores, device model, OS release"
    parser.add_argument("--match", choices=("host", "class"), default="host", help=match)
    parser.add_argument("--share", metavar="SHARE", help="of the limit that passes, as in '80 %%' (with --against limit)")
    parser.add_argument("--min-effect", default="2 %", metavar="SHARE", help="smallest loss that fails (default: 2 %%)")
    parser.add_argument("--where", action="append", default=[], metavar="NAME=VALUE", help="only these cases: a workload or parameter")
    read_as = "what an inconclusive verdict of the run is read as; the verdict says so"
    parser.add_argument("--inconclusive-as", choices=("pass", "fail"), default="", help=read_as)
    parser.add_argument("--out", metavar="FILE", help="of runs of more than 8 devices: also as one page, HTML or PDF")
    parser.add_argument("--junit", metavar="FILE", help="also as JUnit XML, for CI")
    about = f"also for CI, into a file ('-' is standard output; markdown is added to it); KIND: {', '.join(reports.KINDS)}"
    parser.add_argument("--report", action="append", default=[], metavar="KIND=FILE", help=about)
    parser.add_argument("--base", metavar="REF", help="of --measure: measure this commit and the present one in turns, as in origin/main")
    parser.add_argument("--build", default="", metavar="CMD", help="of --base: run by the shell in the worktree of each commit first")
    parser.add_argument("--measure", metavar="PLAN", help="measure this plan first, then judge it: a gate in one command")
    parser.add_argument("--budget", metavar="TIME", help="of --measure: all of it ends within about this, measured or not, as in '60 s'")
    parser.add_argument("--target", default="", help="of --measure: as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="of --measure: as in hotlap run")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="of --measure: kept with the run")
    parser.add_argument("--wait", metavar="TIME", help="of --measure: for a device that another run holds (default: refuse at once)")


def run(args: argparse.Namespace) -> int:
    """One verdict per case and one per run; exit code 0 pass, 1 fail, 3 neither could be said."""
    _refuse(args)
    if args.out:
        terminal.page_file(args.out)
    written = reports.read(args)
    where = terminal.filters(args.where)
    with reports.shielded(written):
        if gate_fleet.many(args):
            bundles = gate_fleet.runs(args)
            fleet_verdict = gate_fleet.judge(bundles, args, where)
            hosts = {bundle.run.id: bundle.run.machine.host for bundle in bundles}
            reports.write(written, gate_fleet.judgements(fleet_verdict, bundles) if written else [], hosts)
            return fleet_verdict.exit_code
        if args.out and (args.measure or not cases.many_asked(args.run)):
            raise InputError("--out is the page of runs of more than 8 devices; of fewer: hotlap report RUN --out FILE")
        judged, above = ([gate_base.judged(args, where)], "") if args.base else _judged(args, where)
        if args.json == shape.SHAPE:
            terminal.print_json(document.of_verdicts(judged, _hosts(args, judged), verdicts.exit_code(judged)))
        elif args.json:
            terminal.print_former(judged)
        else:
            print(above + _text(args, judged))
        if args.out:
            terminal.page(args.out, judgements.page_of(judged, _hosts(args, judged)), args.json)
    reports.write(written, judged, _hosts(args, judged) if written else {}, args.measure or "", args.against or "")
    return verdicts.exit_code(judged)


def _text(args: argparse.Namespace, judged: Sequence[Judgement]) -> str:
    """A block per run; of runs of many devices one screen for all."""
    width, color = terminal.width(), terminal.color()
    if judgements.are_many(judged):
        return judgements.judgements(judged, _hosts(args, judged), width, color)
    return "\n\n".join(judgement.judgement(one, width, color=color) for one in judged)


def _hosts(args: argparse.Namespace, judged: Sequence[Judgement]) -> dict[str, str]:
    """Where each run was measured."""
    kept = [paths.runs(paths.home()) / one.run for one in judged]
    given = [] if args.measure else [entry.path for entry in select.entries(args.run or ["latest"], paths.home())]
    runs = [bundles.read_run(path) for path in {*kept, *given} if path.exists()]
    return {run.id: run.machine.host for run in runs}


def _judged(args: argparse.Namespace, where: dict[str, str]) -> tuple[list[Judgement], str]:
    """The verdicts, and of a fleet what stands above them."""
    asked = against.read(args.against, paths.home()) if args.against else None
    bundles = [] if args.measure else terminal.runs(args.run or ["latest"])
    for one in bundles:
        kinds.refuse_gate(one)
    asked = asked or against.read("baseline", paths.home())
    if args.measure:
        bundles = [_measured(*_prepared(args, where, asked))]
    lost = gate_fleet.missing_nodes(args.run, bundles)
    with ReadProgress() as progress:
        known = gate_peers.known(bundles, progress) if args.against == "fleet" else None
        held = [(bundle, _standard(bundle, args, asked, known)) for bundle in bundles]
        planned = plans.load(args.measure).cases if args.measure and where else []
        judged = []
        for number, (bundle, standard) in enumerate(held, 1):
            rows = tables.rows(bundle, where)
            if where and rows and isinstance(standard, standards.AgainstRules):
                standard = standard.of_part([row.case for row in rows], [*planned, *(one.case for one in select.results(bundle))])
            missing = {**absent.of_run(bundle), **absent.cut(bundle, rows), **lost.get(bundle.run.id, {})}
            judged.append(verdicts.judge(bundle.run.id, rows, standard, args.inconclusive_as, missing))
            progress.count(number, len(held), "runs judged")
    if where and not any(one.rows for one in judged):
        raise select.no_match_error(bundles, where)
    if not known:
        return judged, ""
    fleets = [(one, by.rows) for (_, one), by in zip(held, judged, strict=True) if isinstance(one, fleet.AgainstFleet)]
    findings = [finding for one, rows in fleets for finding in one.findings(rows)]
    if not any(one.rows for one in judged):
        return judged, ""
    return judged, judgement.fleet(findings, judged, terminal.width(), color=terminal.color()) + "\n"


def _refuse(args: argparse.Namespace) -> None:
    """Options that do not go together."""
    if args.measure and args.run:
        raise InputError("--measure makes a run of its own; leave out the run, or --measure")
    if args.base:
        _refuse_beside_base(args)
    given = [name for name in ("budget", "target", "device", "label", "base", "wait") if getattr(args, name)]
    if given and not args.measure:
        _refuse_kinds(args.run)
        raise InputError(f"--{given[0]} is for --measure PLAN, which measures first; the run to judge is there already")
    if args.share and args.against != "limit":
        raise InputError("--share is a share of the limit; give --against limit with it")
    if args.build and not args.base:
        raise InputError("--build is of --base REF, whose commits are built")
    if args.match == "class" and args.against in ("limit", "expected", "fleet"):
        raise InputError(f"--match is about a baseline's runs; leave it out with --against {args.against}")
    terminal.min_effect(args.min_effect)
    _share(args.share)


def _refuse_kinds(selectors: Sequence[str]) -> None:
    """Raises InputError for runs that gate never takes, with what does. Without a run the options are what is wrong."""
    try:
        asked = terminal.runs(list(selectors) or ["latest"])
    except InputError:
        return
    for one in asked:
        kinds.refuse_gate(one)


def _refuse_beside_base(args: argparse.Namespace) -> None:
    """What says something else than that the base commit is the reference."""
    other = [name for name in ("against", "target", "device", "share") if getattr(args, name)]
    if other:
        raise InputError(f"--base compares programs of two commits on this host; leave out --{other[0]}")


def _prepared(args: argparse.Namespace, where: dict[str, str], asked: against.Against) -> tuple[Plan, session.SessionOptions]:
    """The cases that are judged, cut to the budget: everything that can be refused is refused here."""
    plan, home, limit_s = plans.load(args.measure), paths.home(), math.inf
    if where:
        plan = plans.of_cases(plan, select.cases(plan, where))
    if args.budget:
        plan = plans.within(plan, args.budget)
        limit_s = plan.measure.budget_s
    options = session.SessionOptions(
        target=args.target, device=args.device, labels=terminal.pairs(args.label, "a label"), home=home, limit_s=limit_s,
        wait_s=units.parse(args.wait or 0.0, "s"),
    )
    asked.check(plan, options, args.match, part=bool(where))
    return plan, options


def _measured(plan: Plan, options: session.SessionOptions) -> bundles.Bundle:
    """A run of its own."""
    progress, options = Progress(sys.stderr), looking.before(plan, options, None)
    progress.begin(plan)
    try:
        return bundles.load(session.run(plan, options, progress))
    finally:
        progress.end()


def _standard(
    bundle: bundles.Bundle, args: argparse.Namespace, asked: against.Against, known: gate_peers.FleetKnown | None
) -> standards.Standard:
    min_effect = terminal.min_effect(args.min_effect)
    if known:
        return known.standard(bundle, min_effect)
    return asked.standard(bundle.run.machine, min_effect, args.match) or standards.AgainstLimit(_share(args.share))


def _share(text: str | None) -> float | None:
    if not text:
        return None
    bare = 0.0
    with suppress(ValueError):
        bare = float(text)
    share = bare / 100 if bare > 100 else terminal.share(text, "--share")
    if not 0 < share <= 1:
        raise InputError(f"--share is above 0 and at most 100 %, as in '80 %', not {text}")
    return share
