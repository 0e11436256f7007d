"""Whose processes a driver lists: ours, those it started, and others; on trees of files that the tests make."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import NotSupported
from hotlap.core.measure.sensors.processes import FIRST_NAMESPACE, others
from hotlap.core.measure.sensors.tree import FileTree


def tree_of(root: Path, namespace: int, parents: dict[int, tuple[str, int]] | None = None) -> FileTree:
    """A /proc with a PID namespace and some processes: number → name, parent's number."""
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(f"pid:[{namespace}]")
    for pid, (name, parent) in (parents or {}).items():
        (root / f"proc/{pid}").mkdir()
        (root / f"proc/{pid}/stat").write_text(f"{pid} ({name}) S {parent} 1 1\n")
    return FileTree(str(root))


def test_processes_that_ours_started_are_not_others(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, FIRST_NAMESPACE, {20: ("python", 1), 30: ("sh (a) b", 20), 31: ("train", 30), 40: ("else", 1)})
    assert others([20, 31, 40, 41], own=20, tree=tree) == 2
    assert others([31], own=20, tree=tree) == 0
    assert others([], own=20, tree=tree) == 0


def test_in_a_container_one_of_those_listed_is_ours(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, 4026532270)
    assert others([5001, 5002], own=20, tree=tree) == 1
    assert others([20, 5002], own=20, tree=tree) == 1
    assert others([5001], own=20, tree=tree) == 0


def test_a_container_that_hides_all_processes_is_not_an_idle_device(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="namespace hides"):
        others([], own=20, tree=tree_of(tmp_path, 4026532270))
