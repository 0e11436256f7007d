"""What git knows of commits. The user's own folder is only read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hotlap.core.errors import InputError, MachineError, Unavailable


class Commit(msgspec.Struct, frozen=True):
    """What git says of one commit."""

    commit: str
    subject: str = ""
    author: str = ""
    date: str = ""  # ISO 8601, of the author
    parents: list[str] = []


def git(repo: str | Path, *words: str, fine: Sequence[int] = (0,)) -> str:
    """What git prints, without the last line break. Raises Unavailable without git, MachineError for an exit status not `fine`."""
    done = _git(repo, words)
    if done.returncode not in fine:
        raise MachineError(f"git {words[0]} failed: {_last(done.stderr) or f'status {done.returncode}'}")
    return done.stdout.rstrip("\n")


def _git(repo: str | Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    settings = ("core.hooksPath=/dev/null", "advice.detachedHead=false", "user.name=hotlap", "user.email=hotlap@localhost")
    argv = ["git", "-C", str(repo), *(word for setting in settings for word in ("-c", setting)), *words]
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
        shallow = revision[:1] not in ("", "-") and git(repo, "rev-parse", "--is-shallow-repository") == "true"
        hint = "this clone is shallow: git fetch --unshallow" if shallow else "valid: a commit, a branch, a tag, as in v1.2 or HEAD~30"
        raise InputError(f"{option}: there is no revision '{revision}' in {repo}; {hint}")
    return done.stdout.strip()


def present(repo: str) -> str:
    """The commit of the user's folder as it is: HEAD, or where tracked files were changed a commit of these, which no branch has."""
    git(repo, "update-index", "-q", "--refresh", fine=(0, 1))  # a file that was touched and not changed makes `stash create` fail
    return git(repo, "stash", "create") or resolve(repo, "HEAD", "HEAD")


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
