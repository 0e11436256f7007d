"""hotlap gate --measure PLAN --base REF: a change against its base commit, both measured in turns."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from hotlap.cli import looking, terminal
from hotlap.core import plan as plans
from hotlap.core import units
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis import verdicts
from hotlap.core.analysis.base import AgainstBase
from hotlap.core.errors import Interrupted
from hotlap.core.record import Judgement
from hotlap.core.stats.sequential import ALPHA
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select
from hotlap.core.trials import ab, revisions

MOST = 60  # runs a side
FOUND = 0.02  # the smallest change that is looked for


def judged(args: argparse.Namespace, where: Mapping[str, str]) -> Judgement:
    """Measures, and judges the change. Raises InputError before anything is built, Interrupted with both runs kept."""
    plan = plans.load(args.measure)
    if where:
        plan = plans.of_cases(plan, select.cases(plan, where))
    asked, options = revisions.setting(plan, ".", args.base, args.build), _options(args, len(plan.cases))
    home = paths.home()
    folder = paths.create(home / "gates") / bundles.new_id(datetime.now(UTC))
    done = revisions.measure(asked, options, home, folder, _listen)
    shutil.rmtree(folder, ignore_errors=True)  # both were built: nobody reads these logs
    before, after = (bundles.load(path) for path in done.runs)
    if done.stop.kind == "interrupted":
        raise Interrupted(f"interrupted; what was measured is kept: hotlap compare {before.run.id} {after.run.id}")
    if done.stop.kind == "error":
        print(f"hotlap: {done.stop.detail}; judged by what was measured until then", file=sys.stderr)
    standard = AgainstBase(before, f"base {asked.base} ({asked.before[:10]})", done.stop)
    return verdicts.judge(after.run.id, tables.rows(after), standard, args.inconclusive_as)


def _options(args: argparse.Namespace, cases: int) -> ab.AbOptions:
    """The level is shared among the cases: a plan of many is called slower by chance no more often than one of a single case."""
    min_effect = terminal.min_effect(args.min_effect)
    budget_s = units.parse(args.budget, "s") if args.budget else math.inf
    labels: dict[str, object] = dict(terminal.pairs(args.label, "a label"))
    return ab.AbOptions(
        max(FOUND, 2 * min_effect), min_effect, budget_s, MOST, labels, ALPHA / max(cases, 1), looking.wait_s(args), looking.say,
    )


def _listen(text: str) -> None:
    """What passes is shown on terminals only; builds on every log."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:120]}", end="", file=sys.stderr, flush=True)
    elif not text.startswith("pair"):
        print(f"hotlap: {text}", file=sys.stderr)
