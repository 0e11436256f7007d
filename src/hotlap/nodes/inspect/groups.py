"""Limits that control groups of version 1 or 2 set to this process: processors, memory, and which cores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hotlap.nodes.inspect.noting import FactNotes, listed
from hotlap.nodes.inspect.place import FactPlace

ROOT = "sys/fs/cgroup"
NONE_BYTES = 1 << 60  # version 1 writes about 2^63 for no limit


def collect(notes: FactNotes) -> None:
    """``cgroup.cpus``, ``cgroup.memory_bytes``, ``cgroup.cpuset``, ``cpu.allowed``; no groups to be seen is not known, not no limit."""
    place = notes.place
    version = 2 if place.exists(f"{ROOT}/cgroup.controllers") else 1 if place.exists(f"{ROOT}/memory") or place.exists(f"{ROOT}/cpu") else 0
    notes.note("cgroup.version", version or None, ROOT, reason="no control groups are mounted")
    if version:
        cores, memory = (_cores(place, version), _memory(place, version))
        notes.note("cgroup.cpus", cores, f"{ROOT}/…/cpu.max" if version == 2 else f"{ROOT}/cpu/…/cpu.cfs_quota_us", reason="no limit set")
        source = f"{ROOT}/…/memory.max" if version == 2 else f"{ROOT}/memory/…/memory.limit_in_bytes"
        notes.note("cgroup.memory_bytes", memory, source, "B", "no limit set")
    else:
        for name, unit in (("cpus", ""), ("memory_bytes", "B")):
            notes.missing(f"cgroup.{name}", ROOT, unit, "error", "no control groups are mounted, so their limits cannot be seen")
    cpuset = next(_values(place, version, "cpuset", "cpuset.cpus"), None)
    notes.note("cgroup.cpuset", cpuset, f"{ROOT}/…/cpuset.cpus", reason="no limit set")
    match = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)", place.text("proc/self/status"), re.MULTILINE)
    notes.note("cpu.allowed", listed(match[1]) if match else None, "proc/self/status")


def _values(place: FactPlace, version: int, controller: str, leaf: str) -> Iterator[str]:
    """What the groups of this process hold, its own first, then those above."""
    pattern = r"^0::/?(\S*)$" if version == 2 else rf"^\d+:(?:[\w=]+,)*{controller}(?:,[\w=]+)*:/?(\S*)$"
    match = re.search(pattern, place.text("proc/self/cgroup"), re.MULTILINE)
    top = PurePosixPath(ROOT) / (controller if version == 1 else "")
    folder = top / (match[1] if match else "")
    for group in (folder, *folder.parents):
        if version and (group == top or top in group.parents) and (text := place.text(f"{group}/{leaf}")):
            yield text


def _cores(place: FactPlace, version: int) -> float | None:
    """The tightest quota in processors; of version 1 the period stands beside it."""
    if version == 2:
        pairs = [text.split() for text in _values(place, version, "cpu", "cpu.max")]
    else:
        leaves = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        pairs = [list(pair) for pair in zip(*(_values(place, version, "cpu", leaf) for leaf in leaves), strict=False)]
    known = [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2 and all(part.isdigit() for part in pair)]
    return min((quota / period for quota, period in known if period), default=None)


def _memory(place: FactPlace, version: int) -> int | None:
    leaf = "memory.max" if version == 2 else "memory.limit_in_bytes"
    return min((int(text) for text in _values(place, version, "memory", leaf) if text.isdigit() and int(text) < NONE_BYTES), default=None)
