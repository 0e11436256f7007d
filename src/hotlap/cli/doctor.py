"""hotlap doctor [PLAN]"""

from __future__ import annotations

import argparse
import sys

from hotlap.cli import run as running
from hotlap.cli import terminal
from hotlap.cli.progress import Progress
from hotlap.core import plan as plans
from hotlap.core.analysis import selftest as testing
from hotlap.core.errors import InputError
from hotlap.core.measure import session
from hotlap.core.show import busy, selftest
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
ROUNDS = 24


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", nargs="?", help="a built-in plan or a TOML file (default: quick)")
    parser.add_argument("--run", default="", metavar="RUN", help="measure nothing: take the rounds of a run that is there")
    parser.add_argument("--rounds", metavar="N", help=f"how many to measure (default: {ROUNDS}; at least {testing.FEWEST_ROUNDS})")
    parser.add_argument("--round-time", metavar="TIME", help="of one round, as in '2 s'")
    parser.add_argument("--target", default="", help="as in hotlap run")
    parser.add_argument("--device", default="", metavar="INDEX|UUID", help="as in hotlap run")


def run(args: argparse.Namespace) -> int:
    """Compares the machine with itself: exit code 0 when it does not cry wolf, 1 when it does, 3 when too little was measured."""
    bundle = _kept(args) if args.run else _measured(args)
    outcome = testing.selftest(select.results(bundle))
    look, governor = bundle.run.look, bundle.run.machine.settings.get("governor", "")
    if args.json:
        found = {"run": bundle.run.id, "look": look, "governor": governor, "selftest": outcome}
        terminal.answer(args.json, found, code=EXIT_CODES[outcome.state])
    else:
        if look:
            print("\n".join([*busy.fitness(look, governor), ""]))
        print(selftest.selftest(outcome, terminal.width(), color=terminal.color()))
    return EXIT_CODES[outcome.state]


def _kept(args: argparse.Namespace) -> bundles.Bundle:
    if args.plan or args.rounds or args.round_time or args.target or args.device:
        raise InputError("--run takes the rounds of a run that is there; leave out the plan and how to measure it")
    found = terminal.runs([args.run])
    if len(found) != 1:
        raise InputError(f"'{args.run}' names {len(found)} runs; --run takes one")
    return found[0]


def _measured(args: argparse.Namespace) -> bundles.Bundle:
    rounds = args.rounds or ROUNDS
    given: dict[str, object] = {"rounds": rounds, "rounds_max": rounds, "budget": "31 d"}
    if args.round_time:
        given["round_time"] = args.round_time
    plan = plans.override(plans.load(args.plan or "quick"), given)
    if plan.measure.rounds < testing.FEWEST_ROUNDS:
        raise InputError(f"--rounds must be at least {testing.FEWEST_ROUNDS}: four pairs are the fewest that can be compared")
    progress = Progress(sys.stderr)
    options = session.SessionOptions(target=args.target, device=args.device, labels={"selftest": "yes"}, home=paths.home())
    plan, options = running.begun(plan, options, None, progress)
    try:
        return bundles.load(session.run(plan, options, progress))
    finally:
        progress.end()
