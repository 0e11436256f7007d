"""A commit, measured: a worktree of its own, built there by the user's command, and the value of one round of one case; and the
measurements of a search in order, each kept before it is used.

The user's own folder is never touched, save for git's list of worktrees, which is as before once `close` has been called.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from hotlap.errors import HotlapError, InputError, MachineError, SchemaError, Unavailable
from hotlap.measure.inline import Host
from hotlap.measure.loop import Slot
from hotlap.measure.loop import measure as sample
from hotlap.record import Case, MeasureOptions, Plan, Samples
from hotlap.store.fold import fold
from hotlap.tune import arms
from hotlap.work import label
from hotlap.workloads.command import Program

ATTEMPTS = 2  # of a round that gives no number, before its commit is given up
BUILT = ".built"  # beside a worktree: its build ended well


class Commit(msgspec.Struct, frozen=True):
    """What git says of one commit."""

    commit: str
    subject: str = ""
    author: str = ""
    date: str = ""  # ISO 8601, of the author
    parents: list[str] = []


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """One round of the case at one commit. Without a value there is a reason."""

    commit: str
    value: float | None = None  # in the case's unit, above zero
    reason: str = ""
    built: bool = True
    samples: int = 0  # that the value is the median of


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured at every commit, and how."""

    repo: str  # its top folder
    case: Case
    options: MeasureOptions = MeasureOptions()
    target: str = ""  # "": the program on this machine, without a device
    build: str = ""  # run by the shell in the worktree


# ---------------------------------------------------------------- in order, and kept


class Bench(Protocol):
    """What measures commits."""

    def measure(self, commit: str) -> Took: ...

    def forget(self, commit: str) -> None: ...

    def describe(self, commit: str) -> Commit: ...


class OutOfTime(Exception):
    """The budget is used up."""


class Tape:
    """The measurements of a search in order: those that were kept first, then new ones, each kept before it is used."""

    def __init__(
        self, bench: Bench, kept: Sequence[Took] = (), keep: Callable[[list[Took]], None] = lambda _: None,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.bench, self.took, self.keep, self.late = bench, list(kept), keep, late
        self.read = 0

    def take(self, commit: str) -> Took:
        """The next measurement, with or without a number."""
        took = self._next(commit)
        self._pass(took)
        return took

    def must(self, commit: str, name: str) -> float:
        """The number of good or bad. What fails there is not kept, so that it is tried again when the search goes on.

        Raises InputError when it never gave one, MachineError when it did before.
        """
        for _ in range(ATTEMPTS):
            took = self._next(commit)
            if took.value is not None:
                self._pass(took)
                return took.value
        before = any(one.commit == commit for one in self.took)
        raise (MachineError if before else InputError)(f"{name} {commit[:10]} cannot be measured: {took.reason}")

    def _next(self, commit: str) -> Took:
        if self.read < len(self.took):
            if self.took[self.read].commit != commit:
                raise SchemaError("the search that was kept took another way than this version of Hotlap would; begin a new one")
            return self.took[self.read]
        if self.late():
            raise OutOfTime
        return self.bench.measure(commit)

    def _pass(self, took: Took) -> None:
        if self.read == len(self.took):
            self.took.append(took)
            self.keep(self.took)
        self.read += 1


# ---------------------------------------------------------------- git


def git(repo: str | Path, *words: str, fine: Sequence[int] = (0,)) -> str:
    """What git prints, without the last line break. Raises Unavailable without git, MachineError for an exit status not `fine`."""
    done = _git(repo, words)
    if done.returncode not in fine:
        raise MachineError(f"git {words[0]} failed: {_last(done.stderr) or f'status {done.returncode}'}")
    return done.stdout.rstrip("\n")


def _git(repo: str | Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    argv = ["git", "-C", str(repo), "-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", *words]
    try:
        return subprocess.run(
            argv, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False
        )
    except FileNotFoundError:
        raise Unavailable("git is not here", "install it, as in: apt install git") from None


def environment() -> dict[str, str]:
    """Ours without what ties git to one repository: Hotlap may itself be run by a hook."""
    tied = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE")
    return {name: value for name, value in os.environ.items() if name not in tied}


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:300]


def top(folder: str) -> str:
    """The top folder of the repository that holds `folder`. Raises InputError where there is none."""
    if not Path(folder).is_dir():
        raise InputError(f"there is no folder '{folder}'; --repo is the repository to search")
    done = _git(folder, ["rev-parse", "--show-toplevel"])
    if done.returncode:
        raise InputError(f"'{folder}' is not in a git repository with files ({_last(done.stderr)}); give one with --repo")
    return done.stdout.rstrip("\n")


def resolve(repo: str, revision: str, option: str) -> str:
    """The commit that a revision names. Raises InputError."""
    done = _git(repo, ["rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]) if revision[:1] not in ("", "-") else None
    if done is None or done.returncode:
        raise InputError(f"{option}: there is no revision '{revision}' in {repo}; valid: a commit, a branch, a tag, as in v1.2 or HEAD~30")
    return done.stdout.strip()


def history(repo: str, good: str, bad: str) -> tuple[list[str], bool]:
    """Commits after `good` up to `bad`, oldest first, and whether each is the first parent of the next.

    Along first parents where these lead from bad to good. Where good was merged in from the side, all commits that bad has and
    good lacks, in topological order. Raises InputError when bad does not come after good.
    """
    if good == bad:
        raise InputError(f"--good and --bad are the same commit, {good[:12]}; there is nothing to search")
    if _git(repo, ["merge-base", "--is-ancestor", good, bad]).returncode:
        raise InputError(f"--good {good[:12]} is not an ancestor of --bad {bad[:12]}; {_hint(repo, good, bad)}")
    line = git(repo, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
    if parents(repo, line[0])[:1] == [good]:
        return line, True
    return git(repo, "rev-list", "--topo-order", "--reverse", f"{good}..{bad}").split(), False


def _hint(repo: str, good: str, bad: str) -> str:
    if not _git(repo, ["merge-base", "--is-ancestor", bad, good]).returncode:
        return "it comes after it: were the two swapped?"
    if git(repo, "rev-parse", "--is-shallow-repository") == "true":
        return "this clone is shallow: git fetch --unshallow"
    base = _git(repo, ["merge-base", good, bad]).stdout.strip()
    return f"both come from {base[:12]}: if that one is good, give --good {base[:12]}" if base else "they have no commit in common"


def parents(repo: str, commit: str) -> list[str]:
    return git(repo, "rev-list", "--parents", "-n", "1", commit).split()[1:]


def describe(repo: str, commit: str) -> Commit:
    fields = git(repo, "show", "--no-patch", "--no-show-signature", "--format=%H%x00%s%x00%an%x00%aI%x00%P", commit).split("\0")
    return Commit(fields[0], fields[1], fields[2], fields[3], fields[4].split())


# ---------------------------------------------------------------- the case


def chosen(plan: Plan, selector: str) -> Case:
    """The plan's one program, or the one that `selector` names: the beginning of a case's id, or a part of its label. Raises InputError."""
    cases = [case for case in plan.cases if case.workload == "command"]
    if not cases:
        raise InputError(f"the plan '{plan.name}' has no case of the workload 'command': only a program can change with a commit")
    by_id = [case for case in cases if len(selector) >= 4 and case.id.startswith(selector)]
    found = by_id or [case for case in cases if selector in label(case)]
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"{case.id} {label(case)}" for case in found or cases)
    if not selector:
        raise InputError(f"the plan '{plan.name}' has {len(cases)} programs; choose one with --case: {listed}")
    raise InputError(f"--case '{selector}' names {len(found)} programs of the plan '{plan.name}'; an id or a part of one label: {listed}")


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


# ---------------------------------------------------------------- worktrees


class Trees:
    """Worktrees of commits, built and measured on demand.

    A build or program that fails is a Took without a value; what the machine refuses (disk, git) is a MachineError.
    """

    def __init__(self, setting: Setting, folder: Path, listen: Callable[[str], None] = lambda _: None) -> None:
        self.setting, self.folder, self.listen = setting, folder / "trees", listen
        self.logs = folder / "logs"
        self.once: dict[str, Callable[[int], Samples]] = {}
        self.count = 0
        for path in (self.folder, self.logs):
            path.mkdir(parents=True, exist_ok=True)

    def measure(self, commit: str) -> Took:
        """One round of the case. The first of a worktree is preceded by one execution that is not counted: its files are not yet cached."""
        if commit not in self.once:
            failed = self._make(commit)
            if failed:
                return Took(commit=commit, reason=failed, built=False)
        self.count += 1
        try:
            samples = self.once[commit](self.count)
        except MachineError as error:
            return Took(commit=commit, reason=str(error))
        result = fold(self.setting.case, [samples], self.setting.target)
        if result.status != "measured" or not result.values:
            return Took(commit=commit, reason=result.reason)
        if result.values[0] <= 0:
            return Took(commit=commit, reason=f"its number is {result.values[0]:g}; changes are shares of numbers above zero")
        return Took(commit=commit, value=result.values[0], samples=len(samples.seconds))

    def describe(self, commit: str) -> Commit:
        return describe(self.setting.repo, commit)

    def forget(self, commit: str) -> None:
        """Removes a worktree."""
        self.once.pop(commit, None)
        self._remove(self._tree(commit))

    def close(self) -> None:
        """Removes every worktree of this search, those of a search that was killed too."""
        self.once.clear()
        for tree in sorted(self.folder.glob("*")):
            self._remove(tree)
        with suppress(HotlapError):
            git(self.setting.repo, "worktree", "prune")

    def _tree(self, commit: str) -> Path:
        return self.folder / commit[:16]

    def _make(self, commit: str) -> str:
        """A worktree, built, and its program run once; why it could not be built, or ""."""
        tree = self._tree(commit)
        if not tree.with_suffix(BUILT).exists():  # else it was left, built, by a search that was killed
            self._remove(tree)
            git(self.setting.repo, "worktree", "add", "--detach", str(tree), commit)
            if self.setting.build and (failed := self._build(commit, tree)):
                self._remove(tree)
                return failed
            tree.with_suffix(BUILT).touch()
        case = self._case(tree)
        with suppress(HotlapError):
            Program(case).once()
        self.once[commit] = measuring(case, self.setting)
        return ""

    def _build(self, commit: str, tree: Path) -> str:
        log = self.logs / f"{commit[:16]}.log"
        self.listen(f"building {commit[:10]}")
        with open(log, "wb") as file:
            process = subprocess.Popen(
                self.setting.build, shell=True, cwd=tree, env=environment(), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )
            try:
                status = process.wait()
            except BaseException:  # Ctrl-C does not reach a session of its own, and a build leaves many children
                _end(process)
                raise
        return f"it does not build: status {status}; log {log}" if status else ""

    def _case(self, tree: Path) -> Case:
        params = self.setting.case.params
        return replace(self.setting.case, params={**params, "folder": str(tree / str(params["folder"]))})

    def _remove(self, tree: Path) -> None:
        """Whatever is left of it. It must not hide why a search ended, so what cannot be removed stays."""
        tree.with_suffix(BUILT).unlink(missing_ok=True)
        if tree.is_dir():
            with suppress(HotlapError):
                git(self.setting.repo, "worktree", "remove", "--force", "--force", str(tree))
            shutil.rmtree(tree, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    """A process and all that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def measuring(case: Case, setting: Setting) -> Callable[[int], Samples]:
    """What gives one round of a program's case. With a target each round is a fresh process that has it open, as in `hotlap run`.
    Without one no device is asked for: the loop of a round runs here, and what it measures is a fresh process at every execution."""
    if not setting.target:
        host = Host()
        return lambda number: sample(host, case, Slot(seconds=setting.options.round_s, sample_s=setting.options.sample_s, round=number))
    plan = Plan(name="bisect", cases=[case], measure=setting.options, source="hotlap bisect")
    arm = arms.planned("bisect", plan, setting.target, "")
    return lambda number: arm.once(number)[0]
