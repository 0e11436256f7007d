"""The table of targets, and how a specification (`opencl`, `torch:cuda`, `torch:cuda:0`, `simulated:h200-sxm?noise=0.01`) is read."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType

from hotlap.core.errors import HINT, HotlapError, InputError, Unavailable, closest, nearest
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Case, Device
from hotlap.core.work import traits

TARGETS = {  # in order of preference when none is named
    "cuda": "NVIDIA GPUs through the CUDA driver",
    "opencl": "any vendor's OpenCL driver; PoCL on the CPU is built in",
    "torch": "PyTorch: CPU, CUDA, ROCm, XPU, MPS",
    "webgpu": "any GPU that Vulkan, Metal or Direct3D 12 reaches, through wgpu: it draws, too",
    "host": "this machine by its wall clock: programs, Python callables, its disk and its network",
    "simulated": "any GPU of the machine table, with faults on request",
    "scripted": "no device: seconds, clocks and faults of each call from a file, to test what makes numbers of them",
}
CALLED = {  # names of hardware and drivers → the target that reaches them
    "cpu": "opencl:cpu", "gpu": "cuda", "nvidia": "cuda", "amd": "opencl", "intel": "opencl", "rocm": "torch", "hip": "torch",
    "xpu": "torch", "mps": "torch", "pytorch": "torch", "vulkan": "webgpu", "metal": "webgpu", "d3d12": "webgpu",
}  # fmt: skip
VIRTUAL = ("simulated", "scripted")  # no hardware behind them: a clock of their own, nothing to lock, nobody to share with


@dataclass(frozen=True)
class TargetSpec:
    """A target as asked for: its name, a part (`cpu`, `h200-sxm`) and options."""

    name: str
    part: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        query = "&".join(f"{k}={v}" for k, v in self.options.items())
        return self.name + (f":{self.part}" if self.part else "") + (f"?{query}" if query else "")


def _meant(name: str) -> str:
    """A hint for what is no target: hardware or a driver that a target reaches, or a machine of the table; else ""."""
    from hotlap.core.measure.targets import simulated

    if name.lower() in CALLED:
        return f"{HINT} '{CALLED[name.lower()]}'? "
    machine = "" if closest(name, TARGETS) else simulated.machine_like(name)
    return f"a simulated one is simulated:{machine}; " if machine else ""


def parse(text: str) -> TargetSpec:
    """`name[:part][?key=value&…]`. Raises InputError naming the targets there are."""
    head, _, query = text.partition("?")
    name, _, part = head.partition(":")
    if name not in TARGETS:
        raise InputError(f"there is no target '{name}'; {_meant(name)}{nearest('' if name.lower() in CALLED else name, TARGETS)}")
    options: dict[str, str] = {}
    for item in filter(None, query.split("&")):
        key, sign, value = item.partition("=")
        if not sign:
            raise InputError(f"'{item}' in '{text}' is not key=value, as in {name}?seed=7")
        if key in options:
            (first, _, here), (second, _, there) = options[key].partition("@"), value.partition("@")
            nodes = "nodes=" in query and key == "slow"
            here, there = (one if "." in one or not nodes else f"{one}.*" for one in (here, there))
            how = f", as {key}={first}@{here},{there}" if first == second and here and there else ""
            raise InputError(f"the option '{key}' is given twice, as {options[key]} and {value}, in '{text}'; give it once{how}")
        options[key] = value
    return TargetSpec(name, part, options)


def module(name: str) -> ModuleType:
    """The target's module, imported now; its third-party packages are imported by its functions."""
    return importlib.import_module(f"hotlap.core.measure.targets.{name}")


def find(spec: TargetSpec) -> list[Device]:
    """The devices of this target; the one alone whose index ends the part, as in ``torch:cuda:0`` or ``opencl:0``, by which `devices`
    calls it. Raises Unavailable with reason and remedy, InputError for a part, an index or an option that is not valid."""
    part, _, index = spec.part.rpartition(":")
    if spec.name in VIRTUAL or not index.isdecimal():
        part, index = spec.part, ""
    devices: list[Device] = module(spec.name).find(part, spec.options)
    chosen = [device for device in devices if index in ("", str(device.index))]
    if not chosen:
        text = TargetSpec(spec.name, part).text
        valid = ", ".join(f"{text}:{device.index}" for device in devices)
        raise InputError(f"{text} has no device {index}; valid: {text}, {valid}")
    return chosen


def open_device(spec: TargetSpec, device: Device) -> Target:
    """One device, ready to run."""
    target: Target = module(spec.name).open(device, spec.options)
    return target


def survey() -> tuple[list[Device], dict[str, HotlapError]]:
    """Every device of every real target, and for each target that is not usable the error that says why."""
    devices: list[Device] = []
    missing: dict[str, HotlapError] = {}
    for name in TARGETS:
        if name in VIRTUAL:
            continue
        try:
            devices += find(TargetSpec(name))
        except HotlapError as error:
            missing[name] = error
    return devices, missing


def default() -> TargetSpec:
    """The best target for kernels here: a real GPU by cuda, opencl, torch or webgpu, else OpenCL on the CPU, else PyTorch on the
    CPU; never a software adapter."""
    devices, missing = survey()
    for kind in ("gpu", "other", "cpu"):
        for device in devices:
            if device.kind == kind and device.target != "host" and not device.facts.get("software"):
                return TargetSpec(device.target)
    reasons = "; ".join(f"{name}: {error}" for name, error in missing.items())
    raise Unavailable(f"no target is usable here ({reasons})", "hotlap devices says what would make each usable")


def chosen(text: str, cases: Sequence[Case]) -> TargetSpec:
    """The target asked for; where none is, the host for programs, its disk and its network alone, else the best one here."""
    if text:
        return parse(text)
    return TargetSpec("host") if cases and all(traits(case.workload).of_host for case in cases) else default()
