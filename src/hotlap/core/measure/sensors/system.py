"""The host: how busy it is, and what its processor shows of clock, temperature and power.

On Linux straight from /proc and /sys, which costs less than psutil does and can be pointed at a recorded tree; elsewhere
through psutil. Shares (utilization, pressure) are of 1 and cover the time since the last reading; `pressure` is the share of
time in which some task waited for a processor, from the total of /proc/pressure/cpu, because that file's own 10 s average
would count the case before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure.sensors import rapl
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, absent, read_all
from hotlap.core.measure.sensors.tree import FileTree, Tap
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Reading

CPU = "sys/devices/system/cpu"
CORES_READ = 8  # of a package, for its clock: each file can cost the kernel an interrupt on that core
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")  # hwmon drivers of processors
ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "cpu0-thermal", "soc_thermal", "soc-thermal")  # thermal zones of processors
NO_TIME = "no time has passed since the last reading"


class System:
    """The host's sensors; `time_s` is now, the beginning of the first stretch that shares and power cover."""

    name, device = "system", "host"

    def __init__(self, time_s: float = 0.0, root: str = "/") -> None:
        tree = FileTree(root)
        self.gauges = _linux(tree, time_s) if tree.text("proc/stat").startswith("cpu ") else portable()

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)


def find(target: Target) -> list[SensorSource]:
    """The host's source, wherever Hotlap runs; what this host does not show is not supported, sensor by sensor."""
    return [System(target.clock.now())]


def missing(target: Target) -> str:
    return ""


# ---------------------------------------------------------------- Linux


def _linux(tree: FileTree, time_s: float) -> list[SensorProbe]:
    return [
        SensorProbe("utilization", BusyShare(tree).since, window_s="since the last reading"),
        SensorProbe("load", functools.partial(_load, tree.tap("proc/loadavg"))),
        SensorProbe("memory_used_bytes", functools.partial(_memory_used, tree.tap("proc/meminfo")), window_s=0.0),
        _pressure(tree, time_s),
        *_clocks(tree),
        *_temperatures(tree),
        *rapl.gauges(tree, time_s),
    ]


class BusyShare:
    """Share of all cores' time that was not idle since the last call, from the first line of /proc/stat."""

    def __init__(self, tree: FileTree) -> None:
        self.stat = tree.tap("proc/stat")
        self.before = self._ticks()

    def since(self, _time_s: float) -> float:
        before, self.before = self.before, self._ticks()
        idle, total = self.before[0] - before[0], self.before[1] - before[1]
        if total <= 0:
            raise MachineError(NO_TIME)
        return 1 - idle / total

    def _ticks(self) -> tuple[int, int]:
        # user nice system idle iowait irq softirq steal; guest time, behind them, is in user already
        ticks = [int(number) for number in self.stat.read().split("\n", 1)[0].split()[1:9]]
        return sum(ticks[3:5]), sum(ticks)


def _load(tap: Tap, _time_s: float) -> float:
    return float(tap.read().split()[0])


def _memory_used(tap: Tap, _time_s: float) -> float:
    """What programs could not get: MemTotal − MemAvailable."""
    kilobytes = dict(line.split()[:2] for line in tap.read().splitlines()[:3])
    return (int(kilobytes["MemTotal:"]) - int(kilobytes["MemAvailable:"])) * 1024.0


class Waiting:
    """Share of the time in which some task waited for a processor since the last call."""

    def __init__(self, tree: FileTree, time_s: float) -> None:
        self.pressure = tree.tap("proc/pressure/cpu")
        self.before = (time_s, self._total_s())

    def since(self, time_s: float) -> float:
        before_s, before_total_s = self.before
        if time_s <= before_s:
            raise MachineError(NO_TIME)
        total_s = self._total_s()
        self.before = (time_s, total_s)
        return min((total_s - before_total_s) / (time_s - before_s), 1.0)

    def _total_s(self) -> float:
        some = self.pressure.read().split("\n", 1)[0]
        return int(some.rpartition("total=")[2]) / 1e6


def _pressure(tree: FileTree, time_s: float) -> SensorProbe:
    try:
        return SensorProbe("pressure", Waiting(tree, time_s).since, window_s="since the last reading")
    except (OSError, ValueError):
        return absent("pressure", "this kernel gives no pressure stall information; boot it with psi=1")


def _clocks(tree: FileTree) -> list[SensorProbe]:
    """clock_hz.packageN: the highest among a few of its cores, since idle ones say nothing."""
    packages: dict[str, list[str]] = {}
    for path in tree.glob(f"{CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq"):
        package = tree.text(path.replace("cpufreq/scaling_cur_freq", "topology/physical_package_id"))
        packages.setdefault(package if package not in ("", "-1") else "0", []).append(path)
    if not packages:
        return [absent("clock_hz", f"the kernel shows no cpufreq under /{CPU}; virtual machines have none")]
    taps = {name: [tree.tap(path) for path in _spread(paths)] for name, paths in packages.items()}
    return [SensorProbe(f"clock_hz.package{name}", functools.partial(_fastest, cores)) for name, cores in taps.items()]


def _fastest(cores: Sequence[Tap], _time_s: float) -> float:
    return max(int(core.read()) for core in cores) * 1e3  # kHz


def _spread(paths: Sequence[str]) -> list[str]:
    """At most CORES_READ of them, evenly over the package."""
    count = min(len(paths), CORES_READ)
    return [paths[i * len(paths) // count] for i in range(count)]


def _temperatures(tree: FileTree) -> list[SensorProbe]:
    """temperature_c.packageN from the processor's own driver, else from a thermal zone."""
    paths = [path for chip in tree.glob("sys/class/hwmon/hwmon*") if tree.text(f"{chip}/name") in CHIPS for path in _of_package(tree, chip)]
    if not paths:
        zones = tree.glob("sys/class/thermal/thermal_zone*")
        paths = [f"{zone}/temp" for zone in zones if tree.text(f"{zone}/type") in ZONES]
    if not paths:
        return [absent("temperature_c", "the kernel shows no temperature of the processor; virtual machines have none")]
    return [
        SensorProbe(f"temperature_c.package{i}", functools.partial(_celsius, tree.tap(path)), window_s=0.0) for i, path in enumerate(paths)
    ]


def _of_package(tree: FileTree, chip: str) -> list[str]:
    """The inputs of a chip that stand for a whole package. AMD's Tctl may carry an offset, Tdie does not."""
    labels = {tree.text(path): path.replace("_label", "_input") for path in tree.glob(f"{chip}/temp*_label")}
    packages = [path for label, path in labels.items() if label.startswith("Package id")]
    named = packages or [labels[label] for label in ("Tdie", "Tctl") if label in labels][:1]
    return named or tree.glob(f"{chip}/temp1_input")


def _celsius(tap: Tap, _time_s: float) -> float:
    return int(tap.read()) / 1e3


# ---------------------------------------------------------------- elsewhere


def portable() -> list[SensorProbe]:
    """What psutil tells of any system."""
    ask: dict[str, Callable[[Any], float]] = {
        "utilization": lambda p: p.cpu_percent(interval=None) / 100,
        "load": lambda p: p.getloadavg()[0],
        "memory_used_bytes": _memory_used_portable,
        "clock_hz": _clock_portable,
    }
    try:
        import psutil
    except ImportError:
        return [absent(name, "psutil is not installed: pip install psutil") for name in ask]
    psutil.cpu_percent(interval=None)  # begins the stretch that the first reading covers
    return [SensorProbe(name, functools.partial(_asked, psutil, function)) for name, function in ask.items()]


def _asked(psutil: Any, function: Callable[[Any], float], _time_s: float) -> float:
    return function(psutil)


def _memory_used_portable(psutil: Any) -> float:
    memory = psutil.virtual_memory()
    return float(memory.total - memory.available)


def _clock_portable(psutil: Any) -> float:
    frequency = psutil.cpu_freq()
    if frequency is None or not frequency.current:
        raise NotSupported("this system does not show the processor's clock")
    return float(frequency.current) * 1e6
