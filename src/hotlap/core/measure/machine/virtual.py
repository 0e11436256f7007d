"""Whether the machine is a virtual one, and whether this is a container."""

from __future__ import annotations

import re

from hotlap.core.measure.sensors.tree import FileTree

CLOCKS = {"kvm-clock": "KVM", "hyperv": "Hyper-V", "xen": "Xen"}  # clock sources that only guests have
CONTAINERS = {"docker": "docker", "kubepods": "kubernetes", "libpod": "podman", "lxc": "lxc", "containerd": "containerd"}  # cgroup names


def describe(tree: FileTree) -> str:
    """As in ``virtual machine (KVM), container (docker)``; "" where nothing says so, which is not a proof of bare metal."""
    machine, container = _machine(tree), _container(tree)
    return ", ".join(part for part in (machine, container) if part)


def _machine(tree: FileTree) -> str:
    if "microsoft" in tree.text("proc/sys/kernel/osrelease").lower():
        return "virtual machine (WSL)"
    name = _hypervisor(tree)
    flagged = re.search(r"^flags\s*:.*\bhypervisor\b", tree.text("proc/cpuinfo"), re.MULTILINE)
    if name:
        return f"virtual machine ({name})"
    return "virtual machine" if flagged else ""


def _hypervisor(tree: FileTree) -> str:
    """By the guest's clock sources, the hypervisor's own file, or the name of the emulated board."""
    sources = tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource")
    for mark, name in CLOCKS.items():
        if mark in sources:
            return name
    kind = tree.text("sys/hypervisor/type")
    if kind:
        return kind
    board = f"{tree.text('sys/class/dmi/id/sys_vendor')} {tree.text('sys/class/dmi/id/product_name')}".strip()
    guests = ("qemu", "kvm", "vmware", "virtualbox", "virtual machine", "amazon ec2", "google compute engine", "openstack", "bochs", "xen")
    return board if any(guest in board.lower() for guest in guests) and "metal" not in board.lower() else ""


def _container(tree: FileTree) -> str:
    if tree.exists("run/.containerenv"):
        return "container (podman)"
    if tree.exists(".dockerenv"):
        return "container (docker)"
    groups = tree.text("proc/1/cgroup") or tree.text("proc/self/cgroup")
    for mark, name in CONTAINERS.items():
        if mark in groups:
            return f"container ({name})"
    match = re.search(r"(?:^|\0)container=([\w-]+)", tree.text("proc/1/environ"))
    return f"container ({match[1]})" if match else ""
