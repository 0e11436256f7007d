"""This machine itself, by its wall clock: programs, and callables of this process. It has no memory and no kernels of its own."""

from __future__ import annotations

import builtins
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from typing import Literal, NoReturn

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, SystemClock, TargetKernel, Timing, Where
from hotlap.core.record import Device


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """The one host there is."""
    if part:
        raise InputError(f"host has no part '{part}'; valid: host")
    _no_options(options)
    return [describe()]


def open(device: Device, options: Mapping[str, str] | None = None) -> HostTarget:
    """Costs nothing: nothing is loaded."""
    _no_options(options)
    return HostTarget(device)


def describe() -> Device:
    """The host as a device: its processor's name, its logical cores, its memory."""
    return Device(target="host", index=0, name=cpu_name(), kind="cpu", compute_units=os.cpu_count(), memory_bytes=host_memory())


class HostTarget:
    """A target that times what is called, in this process, by the wall clock."""

    dialect: Literal["host"] = "host"
    features: frozenset[str] = frozenset()
    library = None

    def __init__(self, device: Device | None = None) -> None:
        self.clock = SystemClock()
        self.device = device or describe()
        self.timer_resolution_s = time.get_clock_info("perf_counter").resolution

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        _refuse("has no device memory")

    def read(self, buffer: Buffer) -> Array:
        _refuse("has no device memory")

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        _refuse("has no device memory")

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> TargetKernel:
        _refuse("runs no kernels")

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        if graph:
            _refuse("records no graphs")
        start = self.clock.now()
        enqueue(calls)
        return Timing(None, self.clock.now() - start)

    def sync(self, event: bool = False) -> None:
        return


def _refuse(what: str) -> NoReturn:
    raise NotSupported(f"the target host {what}: it times programs and Python callables; for kernels give --target opencl, cuda or torch")


def _no_options(options: Mapping[str, str] | None) -> None:
    if options:
        raise InputError(f"host takes no options, not '{next(iter(options))}'")


def cpu_name() -> str:
    """As the kernel shows it, else as Python knows it."""
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine() or "this machine"


def host_memory(field: str = "MemTotal") -> int | None:
    """A figure of /proc/meminfo, B; None where there is none."""
    match = re.search(rf"^{field}:\s*(\d+) kB", _read("/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _read(path: str) -> str:
    try:
        with builtins.open(path) as file:
            return file.read()
    except OSError:
        return ""
