"""hotlap run [PLAN]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hotlap import plan as plans
from hotlap import units
from hotlap.cli import terminal
from hotlap.cli.progress import Progress
from hotlap.errors import HotlapError, InputError, Interrupted
from hotlap.measure import session
from hotlap.report import export, html, listing, tables, text
from hotlap.store import bundle as bundles
from hotlap.store import paths


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", default="quick", help="a built-in plan or a TOML file (default: quick)")
    parser.add_argument("--target", default="", help="opencl, cuda, torch:cpu, simulated:h200-sxm?noise=0.01 … (default: the best here)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="which device of the target (default: the first)")
    parser.add_argument("--together", action="store_true", help="with --device all: at once instead of one after another")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="kept with the run; may be repeated")
    parser.add_argument("--rounds", type=int, metavar="N", help="exactly so many rounds")
    parser.add_argument("--round-time", metavar="TIME", help="of one round, as in '8 s'")
    parser.add_argument("--budget", metavar="TIME", help="no further round after this, as in '10 min'")
    parser.add_argument("--precision", metavar="SHARE", help="asked half-width of the interval, as in '1 %%'")
    parser.add_argument("--seed", type=int, help="of the order of cases and of their input")
    parser.add_argument("--wait", default="0 s", metavar="TIME", help="for a device that another run holds (default: refuse at once)")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was interrupted or killed")
    parser.add_argument("--no-report", action="store_true", help="write no HTML page")


def run(args: argparse.Namespace) -> int:
    """Measures, prints the table and says where everything was kept."""
    home, code = paths.home(), 0
    progress = Progress(sys.stderr)
    try:
        if args.resume:
            path = _resume(args.resume, home, progress)
        else:
            plan = plans.override(plans.load(args.plan), _measuring(args))
            options = session.Options(
                target=args.target, device=args.device, together=args.together, labels=terminal.pairs(args.label, "a label"),
                wait_s=units.parse(args.wait, "s"), home=home,
            )
            progress.begin(plan)
            path = session.run(plan, options, progress)
    except Interrupted as error:
        progress.end()
        print(f"hotlap: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        progress.end()
    _show(bundles.load(path), args)
    return code


def _measuring(args: argparse.Namespace) -> dict[str, object]:
    """What the command line says of how to measure, as keys of a plan."""
    given = {"rounds": args.rounds, "round_time": args.round_time, "budget": args.budget, "precision": args.precision, "seed": args.seed}
    if args.rounds is not None:
        given["rounds_max"] = args.rounds
    return {key: value for key, value in given.items() if value is not None}


def _resume(selector: str, home: Path, progress: Progress) -> Path:
    found = terminal.runs([selector])
    if len(found) != 1:
        raise InputError(f"'{selector}' names {len(found)} runs; --resume takes one")
    progress.begin(found[0].run.plan)
    return session.resume(found[0].path, home, progress)


def _show(bundle: bundles.Bundle, args: argparse.Namespace) -> None:
    rows = tables.rows(bundle)
    page = bundle.path / "report.html"
    if not args.no_report:
        try:
            page.write_text(html.page([bundle]), encoding="utf-8")
        except (OSError, HotlapError) as error:
            print(f"hotlap: the report was not written: {error}", file=sys.stderr)
    if args.json:
        terminal.print_json(export.to_json(bundle, rows))
        return
    print(listing.heading(bundle))
    print(text.table(rows, terminal.width(), color=terminal.color()))
    print(f"\nrun     {bundle.path}")
    if page.exists():
        print(f"report  {page}")
    print(f"next    hotlap explain {bundle.run.id}")
