"""A commit, measured: the value of one round of one case in its worktree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import HotlapError, InputError, MachineError
from hotlap.core.measure import programs
from hotlap.core.measure.loop import CaseBudget
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads.command import CommandProgram
from hotlap.core.record import Case, MeasureOptions, Plan
from hotlap.core.store.fold import fold
from hotlap.core.trials.commits import Commit, describe
from hotlap.core.trials.tape import TapeSample
from hotlap.core.trials.worktrees import Worktrees
from hotlap.core.work import label, traits
from hotlap.core.work.program import COMMAND


class MeasureSetting(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured at every commit, and how."""

    repo: str  # its top folder
    case: Case
    options: MeasureOptions = MeasureOptions()
    target: str = ""  # whose device is compared with other runs; "": none
    build: str = ""  # run by the shell in the worktree


# ---------------------------------------------------------------- the case


def chosen(plan: Plan, selector: str) -> Case:
    """The plan's one program, or the one that `selector` names: the beginning of a case's id, or a part of its label. Raises InputError."""
    cases = [case for case in plan.cases if traits(case.workload).source == "program"]
    if not cases:
        raise InputError(f"the plan '{plan.name}' has no case of the workload '{COMMAND.name}': only a program can change with a commit")
    by_id = [case for case in cases if len(selector) >= 4 and case.id.startswith(selector)]
    selected = by_id or [case for case in cases if selector in label(case)]
    if len(selected) == 1:
        return selected[0]
    listed = "; ".join(f"{case.id} {label(case)}" for case in selected or cases)
    if not selector:
        raise InputError(f"the plan '{plan.name}' has {len(cases)} programs; choose one with --case: {listed}")
    raise InputError(
        f"--case '{selector}' names {len(selected)} programs of the plan '{plan.name}'; an id or a part of one label: {listed}"
    )


def placed(case: Case, repo: str) -> Case:
    """The case with its folder relative to the repository's top. Raises InputError where the program would not be the commit's own:
    a folder outside the repository, or an argument or variable that names the user's own copy."""
    folder, home = str(case.params["folder"]), Path(repo).resolve()
    inside = os.path.normpath(os.path.join(home, folder))
    if not Path(inside).is_relative_to(home):
        raise InputError(f"the case's folder '{folder}' lies outside the repository {repo}: every commit would run the same program there")
    for name in ("argv", "environment"):
        given = case.params[name]
        for word in given if isinstance(given, list) else []:
            if any(re.search(rf"(?<![\w./-]){re.escape(place)}(?=[/:]|$)", word) for place in {str(home), repo}):
                raise InputError(f"'{word}' of the case's {name} is your own copy, not the commit's; write it relative to its folder")
    return replace(case, params={**case.params, "folder": os.path.relpath(inside, home)})


# ---------------------------------------------------------------- commits


class Trees:
    """Commits, built and measured on demand.

    A build or program that fails is a Took without a value; what the machine refuses (disk, git) is a MachineError.
    """

    def __init__(self, setting: MeasureSetting, folder: Path, listen: Callable[[str], None] = lambda _: None) -> None:
        self.setting, self.trees = setting, Worktrees(setting.repo, setting.build, folder, listen)
        self.cases: dict[str, Case] = {}  # of the commits whose worktree stands, built
        self.host, self.count = HostTarget(), 0

    def measure(self, commit: str) -> TapeSample:
        """One round of the case. The first of a worktree is preceded by one execution that is not counted: its files are not yet cached."""
        if commit not in self.cases and (failed := self._make(commit)):
            return TapeSample(commit=commit, reason=failed, built=False)
        self.count += 1
        options, case = self.setting.options, self.cases[commit]
        try:
            samples = programs.measure(self.host, case, CaseBudget(seconds=options.round_s, sample_s=options.sample_s, round=self.count))
        except MachineError as error:
            return TapeSample(commit=commit, reason=str(error))
        result = fold(case, [samples], "host")
        if result.status != "measured" or not result.values:
            return TapeSample(commit=commit, reason=result.reason, samples=samples)
        if result.values[0] <= 0:
            reason = f"its number is {result.values[0]:g}; changes are shares of numbers above zero"
            return TapeSample(commit=commit, reason=reason, samples=samples)
        return TapeSample(commit=commit, value=result.values[0], samples=samples)

    def describe(self, commit: str) -> Commit:
        return describe(self.setting.repo, commit)

    def forget(self, commit: str) -> None:
        """Removes a worktree."""
        self.cases.pop(commit, None)
        self.trees.remove(commit)

    def close(self) -> None:
        """Removes every worktree of this search, those of a search that was killed too."""
        self.cases.clear()
        self.trees.close()

    def _make(self, commit: str) -> str:
        """A worktree, built, and its program run once; why it could not be built, or ""."""
        if fault := self.trees.make(commit):
            return fault
        case = within(self.setting.case, self.trees.of(commit))
        with suppress(HotlapError):
            CommandProgram(case).once()
        self.cases[commit] = case
        return ""


def within(case: Case, tree: Path) -> Case:
    """A placed case in a worktree."""
    return replace(case, params={**case.params, "folder": str(tree / str(case.params["folder"]))})
