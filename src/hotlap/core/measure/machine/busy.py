"""One look at how busy the machine is, before anything of ours runs: who uses the processor and the device, and what they take of it.

From /proc and the device's sensors, over about a second. What cannot be looked at says why in `missing`; nothing here raises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hotlap.core.measure import sensors
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.record import Device, Look, RunningProcess

SLICES = 10  # how often runnable tasks are counted
BUSIEST = 2
LEAST_CORES = 0.02  # a process below it is not named


def look(
    devices: Sequence[Device], seconds: float = 1.0, tree: FileTree | None = None, sleep: Callable[[float], None] = time.sleep,
    sources: Sequence[SensorSource] | None = None,
) -> Look:
    """What others do now, on the processor and on the first of `devices`' kind, over `seconds`.

    `tree`, `sleep` and `sources` stand in for this machine, its time, and the devices' sensors.
    """
    tree = tree or FileTree()
    begin = _Moment.of(tree)
    counted = []
    for _ in range(SLICES):
        sleep(seconds / SLICES)
        counted.append(_running(tree.text("proc/stat")))
    end, missing = _Moment.of(tree), dict[str, str]()
    pressure = _pressure(begin, end, seconds)
    if pressure is None:
        missing["pressure"] = "the kernel gives no pressure stall information"
    processor = _processor(begin, end, counted, missing)
    kind = devices[0].kind if devices else "cpu"
    on_device = _device(devices, sources, missing) if kind == "gpu" else {}
    return Look(
        seconds=seconds, kind=kind, pressure_share=pressure, load=_load(tree), missing=missing,
        processes=int(on_device["processes"]) if "processes" in on_device else None,
        device_share=on_device.get("utilization"), **processor,  # type: ignore[arg-type]
    )


class _Moment(NamedTuple):
    """Counters at one time."""

    ticks: list[int]  # of all cores: user nice system idle iowait irq softirq steal; empty where /proc/stat is not there
    cores: int
    waited_us: int | None  # time in which some task waited for a processor
    processes: Mapping[tuple[int, int], tuple[str, int]]  # pid and start → name and ticks

    @staticmethod
    def of(tree: FileTree) -> _Moment:
        lines = tree.text("proc/stat").splitlines()
        head = lines[0].split() if lines else []
        ticks = [int(number) for number in head[1:9] if number.isdigit()] if head[:1] == ["cpu"] else []
        cores = sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines)
        waited = tree.text("proc/pressure/cpu").partition("\n")[0].rpartition("total=")[2]
        return _Moment(ticks if len(ticks) == 8 else [], cores, int(waited) if waited.isdigit() else None, _processes(tree))


def _processes(tree: FileTree) -> dict[tuple[int, int], tuple[str, int]]:
    """A process is known by its pid and when it started, since pids are used again."""
    processes = {}
    for path in tree.glob("proc/[0-9]*/stat"):
        head, _, rest = tree.text(path).rpartition(")")  # a name in parentheses may hold anything
        fields = rest.split()
        if len(fields) > 19:
            processes[int(path.split("/")[1]), int(fields[19])] = (head.partition("(")[2], int(fields[11]) + int(fields[12]))
    return processes


def _processor(before: _Moment, after: _Moment, counted: Sequence[int | None], missing: dict[str, str]) -> dict[str, object]:
    """What others took of all cores' time, as fields of Look."""
    took = [b - a for a, b in zip(before.ticks, after.ticks, strict=False)]
    total = sum(took)
    if total <= 0 or not after.cores:
        missing["processor"] = "/proc/stat does not show how busy the processor is" if after.ticks else "there is no /proc/stat here"
        return {"cores": os.cpu_count()}
    own = sum(ticks - before.processes.get(key, ("", 0))[1] for key, (_, ticks) in after.processes.items() if key[0] == os.getpid())
    busy = total - took[3] - took[4] - took[7]
    seen = [max(count - 1, 0) for count in counted if count is not None]  # one of them is us, reading
    return {
        "cores": after.cores, "others_share": max(busy - own, 0) / total, "steal_share": took[7] / total,
        "runnable": sum(seen) / len(seen) if seen else None, "busiest": _busiest(before, after, total / after.cores),
    }


def _busiest(before: _Moment, after: _Moment, core_ticks: float) -> list[RunningProcess]:
    """The processes beside ours that took most, at most two, by how many cores they kept busy."""
    found = []
    for (pid, start), (name, ticks) in after.processes.items():
        cores = (ticks - before.processes.get((pid, start), (name, 0))[1]) / core_ticks
        if pid != os.getpid() and cores >= LEAST_CORES:
            found.append(RunningProcess(name=name, pid=pid, cores=cores))
    return sorted(found, key=lambda one: -one.cores)[:BUSIEST]


def _pressure(before: _Moment, after: _Moment, seconds: float) -> float | None:
    if before.waited_us is None or after.waited_us is None:
        return None
    return min((after.waited_us - before.waited_us) / 1e6 / seconds, 1.0)


def _running(stat: str) -> int | None:
    """Tasks that run or wait for a processor at this moment, ours included."""
    number = stat.partition("procs_running ")[2].partition("\n")[0]
    return int(number) if number.isdigit() else None


def _load(tree: FileTree) -> float | None:
    words = tree.text("proc/loadavg").split()
    try:
        return float(words[0]) if words else os.getloadavg()[0]
    except (OSError, ValueError, AttributeError):
        return None


def _device(devices: Sequence[Device], sources: Sequence[SensorSource] | None, missing: dict[str, str]) -> dict[str, float]:
    """Other processes on the devices and how busy they keep them: of several devices the most."""
    if sources is None:
        sources = [source for device in devices for source in sensors.find(HostTarget(device)) if source.device != "host"]
    readings = [reading for source in sources for reading in source.read(SystemClock.now())]
    shares: dict[str, float] = {}
    for name in ("processes", "utilization"):
        values = [one.value for one in readings if one.sensor == name and one.status == "ok" and one.value is not None]
        if values:
            shares[name] = max(values)
        else:
            missing[name] = next((one.reason for one in readings if one.sensor == name and one.reason), "no sensor of the device shows it")
    return shares
