"""The fingerprint of a machine: host, processor, devices, software, settings. What it does not show stays unknown."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hotlap.core.measure import near
from hotlap.core.measure.machine import software, virtual
from hotlap.core.measure.machine.cpu import describe
from hotlap.core.measure.machine.settings import settings
from hotlap.core.measure.sensors import nvml
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Device, Machine


def fingerprint(devices: Sequence[Device], root: str = "/", environment: Mapping[str, str] | None = None) -> Machine:
    """This machine as it is now. Never raises; `root` and `environment` stand in for another machine's.

    To GPUs is added where the host's side of their work runs (`near`), to NVIDIA's under `facts["nvml"]` what NVML knows: highest clocks,
    power limit, link, firmware.
    """
    tree = FileTree(root)
    return Machine(
        host=tree.text("proc/sys/kernel/hostname") or platform.node(), os=_os(tree), kernel=_kernel(tree), virtual=virtual.describe(tree),
        cpu=describe(tree), memory_bytes=_memory(tree), devices=[_completed(device, tree) for device in devices],
        software=software.versions(tree), settings=settings(tree, environment),
    )


def _os(tree: FileTree) -> str:
    """The distribution's own name for itself; macOS and Windows by name and version."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        match = re.search(r'^PRETTY_NAME=["\']?([^"\'\n]+)', tree.text(path), re.MULTILINE)
        if match:
            return match[1].strip()
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}".strip()
    if platform.system() == "Windows":
        return f"Windows {platform.release()} {platform.version()}".strip()
    return ""


def _kernel(tree: FileTree) -> str:
    """Name and release, as in ``Linux 6.1.0-31-amd64``."""
    names = [tree.text(f"proc/sys/kernel/{name}") for name in ("ostype", "osrelease")]
    return " ".join(names) if all(names) else f"{platform.system()} {platform.release()}".strip()


def _memory(tree: FileTree) -> int | None:
    """All of the machine's memory, B; a NUMA node's own meminfo shows a part of it."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", tree.text("proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else _memory_elsewhere()


def _memory_elsewhere() -> int | None:
    try:
        import psutil
    except ImportError:
        return None
    return int(psutil.virtual_memory().total)


def _completed(device: Device, tree: FileTree) -> Device:
    if device.target == "simulated":
        return device
    device = msgspec.structs.replace(device, facts={**device.facts, **near.facts(device, tree)})
    if device.kind != "gpu" or "nvidia" not in f"{device.vendor} {device.name}".lower():
        return device
    known: dict[str, Any] = nvml.facts(device)
    if not known:
        return device
    serial = device.serial or str(known.pop("serial", ""))
    return msgspec.structs.replace(device, serial=serial, facts={**device.facts, "nvml": known})
