"""hotlap history bisect --good REV --bad REV --plan P"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from hotlap.cli import terminal
from hotlap.core import plan as plans
from hotlap.core import units, work
from hotlap.core.errors import InputError
from hotlap.core.store import paths
from hotlap.core.trials import bisect, commits, halving, measured
from hotlap.core.trials.bisect import BisectState
from hotlap.core.trials.halving import BisectOutcome
from hotlap.core.trials.levels import LevelStep


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--good", metavar="REV", help="a revision with the old level")
    parser.add_argument("--bad", metavar="REV", help="a later revision with the new level")
    parser.add_argument("--plan", metavar="PLAN", help="a plan with a case of the workload command, run in a worktree of each commit")
    parser.add_argument("--case", metavar="SELECTOR", help="which case, of several: the beginning of its id, or a part of its label")
    parser.add_argument("--repo", metavar="DIR", help="the repository (default: the one of the current folder)")
    parser.add_argument("--build", metavar="CMD", help="run by the shell in each worktree first; a commit where it fails is skipped")
    parser.add_argument("--target", metavar="TARGET", help="take exclusive use of its first device (default: none)")
    parser.add_argument("--margin", metavar="SHARE", help="smallest difference between good and bad worth a search (default: 2 %%)")
    parser.add_argument("--budget", metavar="TIME", help="stop after this, as in '30 min'; --resume goes on")
    parser.add_argument("--resume", metavar="NAME", help="go on with a search that was stopped or killed; 'latest' is the newest")


def run(args: argparse.Namespace) -> int:
    """Searches and prints the culprit; exit code 0 when one commit was found and confirmed, else 3."""
    home, budget_s = paths.home(), units.parse(args.budget, "s") if args.budget else math.inf
    if not budget_s > 0:
        raise InputError(f"--budget is a time above zero, as in '30 min', not {args.budget}")
    state = _resumed(args, home) if args.resume is not None else _begun(args, home)
    progress = _Progress()
    progress(f"search {state.name}", False)
    try:
        outcome = bisect.search(state, home, budget_s, progress)
    finally:
        progress.end()
    code = 0 if outcome.answer == "found" else 3
    if args.json:
        keys = {"name": state.name, "case": state.setting.case, "asked": state.asked, "outcome": outcome}
        terminal.answer(args.json, keys, code=code, judged=False)
    else:
        print("\n".join(_lines(state, outcome)))
    return code


def _resumed(args: argparse.Namespace, home: Path) -> BisectState:
    given = ", ".join(f"--{name}" for name in _OF_THE_SEARCH if getattr(args, name) is not None)
    if given:
        raise InputError(f"--resume goes on with a search as it was begun and takes no {given}; leave it out, or begin a new search")
    return bisect.load(args.resume, home)


_OF_THE_SEARCH = ("good", "bad", "plan", "case", "repo", "build", "target", "margin")


def _begun(args: argparse.Namespace, home: Path) -> BisectState:
    missing = [f"--{name}" for name in ("good", "bad", "plan") if getattr(args, name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise InputError(f"{' and '.join(missing)} {are} missing, as in: hotlap history bisect --good v1.2 --bad HEAD --plan bench.toml")
    margin = terminal.share(args.margin if args.margin is not None else "2 %", "--margin")
    if not 0 <= margin < 1:
        raise InputError(f"--margin is a share from 0 to under 100 %, as in '2 %', not {args.margin}")
    plan = plans.load(args.plan)
    repo = commits.top(args.repo or ".")
    good, bad = commits.resolve(repo, args.good, "--good"), commits.resolve(repo, args.bad, "--bad")
    between, first_parents = commits.history(repo, good, bad)
    case = measured.placed(measured.chosen(plan, args.case or ""), repo)
    setting = measured.MeasureSetting(repo=repo, case=case, options=plan.measure, target=args.target or "", build=args.build or "")
    return bisect.begin(
        setting, halving.BisectOptions(good=good, bad=bad, commits=between, first_parents=first_parents, margin=margin), home
    )


# ---------------------------------------------------------------- the answer in words


def _lines(state: BisectState, outcome: BisectOutcome) -> Iterator[str]:
    for head, text in _rows(state, outcome):
        wrapped = textwrap.wrap(text, max(terminal.width() - 18, 40), break_long_words=False, break_on_hyphens=False) or [""]
        for number, line in enumerate(wrapped):
            yield f"{head if number == 0 else '':<18}{line}"


def _rows(state: BisectState, outcome: BisectOutcome) -> Iterator[tuple[str, str]]:
    """Name and text of each row, the answer first."""
    yield from _answer(state, outcome)
    if outcome.ends and outcome.answer not in ("no difference", "cannot tell"):
        yield "bad against good", _change(state, outcome.ends)
    yield "case", work.label(state.setting.case)
    decided = [step for step in outcome.steps if step.like != "skipped"]
    yield "search", (
        f"{outcome.commits} commit{'' if outcome.commits == 1 else 's'}, {len(decided)} decided, {outcome.measurements} measurements; "
        f"chance of error {units.exact(outcome.alpha, '%')} each: that the ends differ, all decisions together, the check"
    )
    for step in outcome.steps:
        if step.like == "skipped":
            yield "skipped", f"{step.commit[:10]}: {step.reason}"
    for notice in outcome.notices:
        yield "warning", notice.text
    again = "goes on" if outcome.answer == "budget" else "shows this again"
    yield "kept", f"hotlap history bisect --resume {state.name} {again}"


def _answer(state: BisectState, outcome: BisectOutcome) -> Iterator[tuple[str, str]]:
    many = len(outcome.candidates) > 1
    if not outcome.candidates:
        yield "answer", _no_difference(state, outcome)
        return
    if outcome.answer == "budget":
        left = f"the change is in one of {len(outcome.candidates)} commits" if many else "this is not checked yet"
        yield "answer", f"the budget is used up; {left}"
    elif outcome.answer == "not confirmed":
        yield "answer", (
            "not confirmed: measured once more, the commit was not shown to differ from what comes before it as bad does from good; "
            "begin a new search, with more time for a round (round_time of the plan)"
        )
    elif outcome.answer == "in part":
        yield "answer", (
            f"only a part of the change, less than {units.exact(halving.MOST, '%')} of it: others changed the case too, or each build "
            "differs by itself"
        )
    elif many:
        yield "answer", f"one of {len(outcome.candidates)} commits; those between could not be decided"
    head = {"found": "first bad commit", "not confirmed": "not confirmed"}.get(outcome.answer, "candidate")
    for one in outcome.candidates:
        yield head, f"{one.commit[:10]}  {one.subject}  ({one.author}, {one.date[:10]})"
        if len(one.parents) > 1:
            name = one.commit[:10]
            yield "merge", f"it brought others in; search those with --good $(git merge-base {name}^1 {name}^2) --bad {name}^2"
    if outcome.change:
        yield "change", f"{_change(state, outcome.change)}, against {outcome.before[:10]} before it"


def _no_difference(state: BisectState, outcome: BisectOutcome) -> str:
    margin = units.exact(state.asked.margin, "%")
    if outcome.ends is None:
        return "the budget was used up before good and bad could be told apart"
    if outcome.answer == "no difference":
        return f"good and bad do not differ by more than {margin}: {_change(state, outcome.ends)}"
    far = units.percent(max(abs(one - 1) for one in (outcome.ends.low, outcome.ends.high)))
    return (
        f"good and bad do not differ by more than {far}, and whether by more than the margin of {margin} is not known: "
        f"{_change(state, outcome.ends)}; give rounds more time (round_time of the plan)"
    )


def _change(state: BisectState, change: LevelStep) -> str:
    """A change with its interval, what it is of, and whether it is for the worse."""
    worse = (change.ratio > 1) == (state.setting.case.params.get("better") != "higher")
    word = f", {'worse' if worse else 'better'}" if change.low > 1 or change.high < 1 else ""
    return f"{halving.shown(change)}{word}; {change.pairs} pairs"


class _Progress:
    """Lines on standard error; those that the next one replaces on terminals only."""

    def __init__(self) -> None:
        self.live, self.drawn = sys.stderr.isatty(), False

    def __call__(self, text: str, passing: bool) -> None:
        if passing and not self.live:
            return
        self.end()
        sys.stderr.write(text[:140] if passing else f"{text}\n")
        sys.stderr.flush()
        self.drawn = passing

    def end(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self.drawn = False
