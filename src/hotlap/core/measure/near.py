"""The processors nearest to a GPU, where the process that loads it runs: copies and launches from the other socket take longer.

Linux says which they are: `local_cpulist` and `numa_node` of the PCI device, Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any

from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Device
from hotlap.core.units import stretches

HERE = FileTree()


def facts(device: Device, tree: FileTree) -> dict[str, Any]:
    """`numa_node` of a GPU, and `host_cpus`: where the host's side runs, "" where none of the near processors may be used. Empty for
    other devices, and on machines of a single node."""
    near = _near(device, tree)
    if not near:
        return {}
    node = tree.number(f"sys/bus/pci/devices/{device.pci_address}/numa_node")
    known = {} if node is None or node < 0 else {"numa_node": node}
    return {**known, "host_cpus": _listed(near & _allowed())}


def bind(device: Device, tree: FileTree = HERE) -> str:
    """This process from here on runs on the near processors, as far as it may. Returns why it does not, or ""."""
    near, allowed = _near(device, tree), _allowed()
    if not allowed:
        return ""  # not Linux
    if near and not near & allowed:
        return f"the GPU is near processors {_listed(near)}, and Hotlap may run on {_listed(allowed)} alone"
    wanted = near & allowed or allowed
    try:
        if wanted != os.sched_getaffinity(0):
            os.sched_setaffinity(0, wanted)
    except OSError as error:
        return f"the system does not let Hotlap run on the processors near the GPU, {_listed(near)} ({error.strerror})"
    return ""


def _near(device: Device, tree: FileTree) -> frozenset[int]:
    """Empty where nothing is known, or all are equally near."""
    if device.kind != "gpu" or not device.pci_address:
        return frozenset()
    near = _parsed(tree.text(f"sys/bus/pci/devices/{device.pci_address}/local_cpulist"))
    online = _parsed(tree.text("sys/devices/system/cpu/online"))
    return frozenset() if near >= online else near


@functools.cache
def _allowed() -> frozenset[int]:
    """As the process was started: a round on another device is not held to the processors of the first."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def processors() -> int:
    """How many this process may use."""
    return len(_allowed()) or os.cpu_count() or 1


def _parsed(text: str) -> frozenset[int]:
    """0-3,8 as a set of numbers."""
    numbers: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers |= set(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _listed(numbers: frozenset[int]) -> str:
    """The way back."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in stretches(numbers))
