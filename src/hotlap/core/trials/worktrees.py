"""Worktrees of commits, each built by the user's command.

The user's own folder is never touched, save for git's list of worktrees, which is as before once `close` has been called.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hotlap.core.errors import HotlapError
from hotlap.core.measure.supervisor import kill
from hotlap.core.trials.commits import environment, git

BUILT = ".built"  # beside a worktree: its build ended well


class Worktrees:
    """Under `folder`: a worktree per commit in `trees`, what its build printed in `logs`."""

    def __init__(self, repo: str, build: str, folder: Path, listen: Callable[[str], None] = lambda _: None) -> None:
        self.repo, self.build, self.listen = repo, build, listen
        self.folder, self.logs = folder / "trees", folder / "logs"
        for path in (self.folder, self.logs):
            path.mkdir(parents=True, exist_ok=True)

    def of(self, commit: str) -> Path:
        """Where a commit's worktree stands, or would."""
        return self.folder / commit[:16]

    def make(self, commit: str) -> str:
        """Checks a commit out and builds it, where that is not done; why it does not build, or "". Raises MachineError."""
        tree = self.of(commit)
        if tree.with_suffix(BUILT).exists():  # left, built, by a search that was killed
            return ""
        self._remove(tree)
        git(self.repo, "worktree", "add", "--detach", str(tree), commit)
        if self.build and (fault := self._build(commit, tree)):
            self._remove(tree)
            return fault
        tree.with_suffix(BUILT).touch()
        return ""

    def remove(self, commit: str) -> None:
        """One worktree."""
        self._remove(self.of(commit))

    def close(self) -> None:
        """Removes every worktree."""
        for tree in sorted(self.folder.glob("*")):
            self._remove(tree)
        with suppress(HotlapError):
            git(self.repo, "worktree", "prune")

    def _build(self, commit: str, tree: Path) -> str:
        log = self.logs / f"{commit[:16]}.log"
        self.listen(f"building {commit[:10]}")
        with open(log, "wb") as file:
            process = subprocess.Popen(
                self.build, shell=True, cwd=tree, env=environment(), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True,
            )
            try:
                status = process.wait()
            except BaseException:  # Ctrl-C does not reach a session of its own, and a build leaves many children
                kill(process)
                raise
        return f"it does not build: status {status}; log {log}" if status else ""

    def _remove(self, tree: Path) -> None:
        """Whatever is left of it. It must not hide why a search ended, so what cannot be removed stays."""
        tree.with_suffix(BUILT).unlink(missing_ok=True)
        if tree.is_dir():
            with suppress(HotlapError):
                git(self.repo, "worktree", "remove", "--force", "--force", str(tree))
            shutil.rmtree(tree, ignore_errors=True)
