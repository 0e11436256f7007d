"""Two states of a repository, measured in turns: each in a worktree of its own, built by the user's command, as `bisect` makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure.workloads.command import CommandProgram
from hotlap.core.record import Plan
from hotlap.core.trials import ab, arms, commits, measured
from hotlap.core.trials.worktrees import Worktrees
from hotlap.core.work import label, traits


class RevisionSetting(NamedTuple):
    """What is measured against what."""

    repo: str  # its top folder
    base: str  # as the user named it
    before: str  # its commit
    after: str  # the user's folder as it is
    plan: Plan  # of programs, their folders relative to the repository
    build: str = ""


def setting(plan: Plan, folder: str, base: str, build: str) -> RevisionSetting:
    """Raises InputError: no repository, no such revision, nothing between, a case that no commit changes."""
    repo = commits.top(folder)
    before, after = commits.resolve(repo, base, "--base"), commits.present(repo)
    if before == after:
        raise InputError(f"--base {base} is the commit that is checked out, {before[:10]}; there is no change to judge")
    for case in plan.cases:
        if traits(case.workload).source != "program":
            raise InputError(f"'{label(case)}' is not a program of the repository: no commit changes it; --base takes cases of 'command'")
    placed = replace(plan, cases=[measured.placed(case, repo) for case in plan.cases])
    return RevisionSetting(repo, base, before, after, placed, build)


def measure(
    asked: RevisionSetting, options: ab.AbOptions, home: Path, folder: Path, listen: Callable[[str], None] = lambda _: None
) -> ab.AbOutcome:
    """Base and change by the rule of `ab`. The worktrees stand under `folder` and are removed at the end; logs of builds stay.

    Raises MachineError for one that does not build, and what `ab.ab` raises.
    """
    trees = Worktrees(asked.repo, asked.build, folder, listen)
    try:
        sides = [_side(asked, commit, name, trees) for commit, name in ((asked.before, f"base {asked.base}"), (asked.after, "change"))]
        return ab.ab(sides[0], sides[1], options, home, lambda count, pairs: listen(f"pair {count} of at most {options.most}"))
    finally:
        trees.close()


def _side(asked: RevisionSetting, commit: str, name: str, trees: Worktrees) -> arms.Arm:
    if fault := trees.make(commit):
        raise MachineError(f"{name} {commit[:10]}: {fault}")
    programs = [CommandProgram(measured.within(case, trees.of(commit))) for case in asked.plan.cases]
    return arms.programs_of(f"{name} {commit[:10]}", asked.plan, programs, {"revision": commit[:12]})
