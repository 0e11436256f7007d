"""Two environments compared: what is the same is left out, what differs is said to matter, not to, or not to be known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from hotlap.core import units
from hotlap.core.record import Device, Difference, RunRecord
from hotlap.core.timing import TIMINGS

ANY: tuple[str, ...] = ()
MEMORY = ("bandwidth", "latency")
HOST = ("latency", "rate", "time")  # launches, programs: what the host takes part in

MATTERS: Sequence[tuple[str, tuple[str, ...]]] = (  # pattern of a fact's name, and the metrics it moves; the first that fits counts
    (r"target|device\.model|device\.memory_bytes|device\.compute_units|device\.cache_bytes", ANY),
    (r"device\.(driver|clock_max_hz|power_limit_w|power_enforced_w|clock\w*|vbios|firmware\w*|persistence\w*|mig\w*|compute_mode)", ANY),
    (r"device\.(ecc\w*|memory_clock\w*|memory_bus\w*)", MEMORY),
    (r"device\.(pcie\w*|link\w*|nvlink\w*)", ("bandwidth",)),
    (r"device\.(numa_node|host_cpus)", ("bandwidth", *HOST)),
    (r"cpu\.|memory_bytes$|virtual|kernel|os$", ANY),
    (r"settings\.(governor|cpufreq driver|energy preference|perf bias|boost|no turbo|smt|isolated cpus|cpus allowed|cgroup .*)", ANY),
    (r"settings\.(transparent huge pages|huge page.*|numa balancing|swappiness|overcommit|MALLOC_.*|GLIBC_.*)", (*MEMORY, "time")),
    (r"settings\.(clocksource|kernel options)", HOST),
    (r"settings\.", ANY),
    (r"software\.(cuda.*|torch|triton|pyopencl|pocl.*|nvidia.*|cupy|rocm.*|oneapi.*|glibc|libc)", ANY),
    (r"device\.(opencl|extensions|vector_bytes|max_group|compute_capability)", ANY),
    (r"injected|hotlap|measure\.(round_s|sample_s|readings_hz)", ANY),
)
HARMLESS = re.compile(
    r"host|device\.(uuid|serial|pci_address|index|name)|order|injected\.seed|labels?\.|software\.(python|numpy|msgspec|pip|psutil|setuptools|nvidia-ml-py)"
    r"|settings\.(PYTHON\w+|TORCH_HOME|TRITON_CACHE_DIR|POCL_CACHE_DIR|CUDA_CACHE_PATH)"
)
NVIDIA = re.compile(r"software\.(cuda|nvidia|cupy)")  # packages that work on CUDA devices alone
PAIRS = re.compile(r"\w+=[^&]*(&\w+=[^&]*)+")  # noise=0.01&seed=7
UNITS = {"_hz": "Hz", "_w": "W", "_s": "s", "_c": "°C"}


def differences(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> list[Difference]:
    """Facts in which two groups of runs differ, those that matter first. A fact that one side does not know is left out if
    the other side does not either; else it counts as differing, since it may."""
    left, right = _facts(a), _facts(b)
    idle = None if any(_on_cuda(run) for run in (*a, *b)) else NVIDIA
    listing = all(any(run.machine.software for run in side) for side in (a, b))  # both know what is installed
    differing = []
    for name in sorted(left.keys() | right.keys()):
        ours, theirs = left.get(name, set()), right.get(name, set())
        if ours != theirs:
            missing = "not installed" if listing and name.startswith("software.") else "not known"
            differing.append(_difference(name, ours, theirs, missing, idle))
    order = {"yes": 0, "unknown": 1, "no": 2}
    return sorted(differing, key=lambda d: (order[d.matters], d.name))


def explaining(differing: Iterable[Difference], metric: str) -> list[str]:
    """Names of the differences that could move a metric; what is unknown could."""
    return [d.name for d in differing if d.matters != "no" and (not d.moves or metric in d.moves)]


def apart(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> str:
    """Why two groups are not comparable: other targets (simulation is one), other models of device; "" when they are."""
    left, right = _facts(a), _facts(b)
    for name, words in (("target", "was measured through"), ("device.model", "is of")):
        ours, theirs = left.get(name, set()), right.get(name, set())
        if ours != theirs:
            return f"A {words} {_said(ours)}, B {words} {_said(theirs)}"
    return ""


def harmless(name: str) -> bool:
    """Whether a fact of this name moves nothing."""
    return bool(HARMLESS.match(name))


def _on_cuda(run: RunRecord) -> bool:
    """Whether it may have used CUDA: all but OpenCL, simulation, and PyTorch on a processor."""
    kind = run.target.partition("?")[0].partition(":")[0]
    if kind in ("opencl", "simulated"):
        return False
    measured = [device for device in run.machine.devices if device.key in run.devices]
    return kind != "torch" or not measured or any(device.kind != "cpu" for device in measured)


def _difference(name: str, ours: set[str], theirs: set[str], missing: str, idle: re.Pattern[str] | None) -> Difference:
    """`missing`: the word for a side without a value. `idle`: names of what neither side used."""
    moves = next((metrics for pattern, metrics in MATTERS if re.match(pattern, name)), None)
    nothing = harmless(name) or (idle is not None and idle.match(name) is not None)
    matters: Literal["yes", "no", "unknown"] = "no" if nothing else "unknown" if moves is None else "yes"
    return Difference(name=name, a=_said(ours, missing), b=_said(theirs, missing), matters=matters, moves=list(moves or ()))


def _said(values: set[str], missing: str = "not known") -> str:
    return ", ".join(sorted(values)) if values else missing


def _facts(runs: Sequence[RunRecord]) -> dict[str, set[str]]:
    """Every fact's values over a group."""
    facts: dict[str, set[str]] = {}
    # Runs that are the same in all that `_of_run` reads count once: a fleet's runs are of few environments.
    alike = {msgspec.json.encode((r.machine, r.devices, r.plan.measure, r.target, r.order, r.hotlap)): r for r in runs}
    for run in alike.values():
        for name, value in _of_run(run):
            facts.setdefault(name, set()).add(value)
    return facts


def _of_run(run: RunRecord) -> Iterable[tuple[str, str]]:
    machine, options = run.machine, run.asked
    named: dict[str, Any] = {
        "host": machine.host, "os": machine.os, "kernel": machine.kernel, "virtual": machine.virtual, "memory_bytes": machine.memory_bytes,
        "cpu.name": machine.cpu.name, "cpu.threads": machine.cpu.threads, "hotlap": run.hotlap,
        "target": run.target.partition("?")[0],
        "order": run.order,
    }
    if options:
        named |= {"measure.round_s": options.round_s, "measure.sample_s": options.sample_s}
    named |= {f"software.{name}": version for name, version in machine.software.items()}
    named |= {f"settings.{name}": value for name, value in machine.settings.items()}
    for device in machine.devices:
        if device.key in run.devices:
            yield from _shown(_of_device(device))
    yield from _shown(named)


def _of_device(device: Device) -> dict[str, Any]:
    named: dict[str, Any] = {
        "device.model": device.model, "device.driver": device.driver,
        "device.memory_bytes": None if device.kind == "cpu" else device.memory_bytes,  # of a processor its driver says what is free
        "device.compute_units": device.compute_units, "device.cache_bytes": device.cache_bytes, "device.clock_max_hz": device.clock_max_hz,
        "device.uuid": device.uuid, "device.serial": device.serial, "device.pci_address": device.pci_address,
    }
    nested = {"nvml": device.facts.get("nvml") or {}, "": {k: v for k, v in device.facts.items() if k != "nvml"}}
    for facts in nested.values():
        for name, value in facts.items():
            named["injected" if name == "injected" else f"device.{name}"] = value
    return named


def _shown(named: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What is known, as text. A table of keys and values, or a text like one, is a fact per key: most keys are mostly the same."""
    for name, value in named.items():
        if isinstance(value, dict):
            yield from _shown({f"{name}.{key}": one for key, one in value.items()})
        elif isinstance(value, str) and PAIRS.fullmatch(value):
            yield from ((f"{name}.{pair.partition('=')[0]}", pair.partition("=")[2]) for pair in value.split("&"))
        elif value not in (None, "", []):
            yield name, _written(name, value)


def _written(name: str, value: Any) -> str:
    """A value for people: with its unit where its name ends in one."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return units.size(value)
        unit = next((unit for end, unit in UNITS.items() if end in name), "")
        return units.show(value, unit, 4)
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    return str(value)


def method_changed(before: str, after: str, where: str, there: str) -> str:
    """That two numbers of a case were timed in ways that mean different things: `Result.timing` of each, and where it is so."""
    ways = (" and ".join(TIMINGS.get(one, one) for one in timing.split("+")) for timing in (before, after))
    return "method changed: the time is of {} {where}, of {} {there}".format(*ways, where=where, there=there)
