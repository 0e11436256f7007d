"""How many of the processes on a device are not ours."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.errors import NotSupported
from hotlap.core.measure.sensors.tree import FileTree

FIRST_NAMESPACE = 4026531836  # inode of the initial PID namespace: PROC_PID_INIT_INO of Linux, include/linux/proc_ns.h
GENERATIONS = 32  # how far up a process's parents are followed


def others(pids: Sequence[int], own: int, tree: FileTree | None = None) -> int:
    """Processes of a driver's list beside ours, which has the device open, and those it started.

    In a container drivers list the host's process numbers, among which ours cannot be recognised: then one of those listed
    is taken to be ours. An empty list means that the container hides them all: raises NotSupported.
    """
    tree = tree or FileTree()
    listed = set(pids)
    if own in listed or not in_container(tree):
        return sum(not descends(pid, own, tree) for pid in listed)
    if not listed:
        raise NotSupported("the container's process namespace hides the processes on the device")
    return len(listed) - 1


def in_container(tree: FileTree) -> bool:
    """Whether this process has a PID namespace of its own."""
    inode = tree.link_number("proc/self/ns/pid")
    return inode is not None and inode != FIRST_NAMESPACE


def descends(pid: int, own: int, tree: FileTree) -> bool:
    """Whether `pid` is `own` or was started by it, however far down."""
    for _ in range(GENERATIONS):
        if pid == own:
            return True
        fields = tree.text(f"proc/{pid}/stat").rpartition(")")[2].split()  # a name in parentheses may hold spaces
        if len(fields) < 2 or int(fields[1]) <= 1:
            return False
        pid = int(fields[1])
    return False
