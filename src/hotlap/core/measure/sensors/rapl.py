"""Energy and power of processors by RAPL, as Linux shows it under /sys/class/powercap (Intel, and AMD since Zen).

A zone's counter is in µJ and starts anew at `max_energy_range_uj`: on a large server after a few minutes, so that a read at
least every minute misses no turn. Since Linux 5.10 only root may read it, since it leaks what a processor computes
(CVE-2020-8694).
"""

from __future__ import annotations

import contextlib

from hotlap.core.errors import MachineError
from hotlap.core.measure.sensors.gauge import SensorProbe, absent
from hotlap.core.measure.sensors.tree import FileTree

POWERCAP = "sys/class/powercap"
REMEDY = "readable only by root since Linux 5.10; run as root, or have an administrator allow it: chmod a+r"


class Zone:
    """One counter, unrolled: the energy since it was opened."""

    def __init__(self, tree: FileTree, path: str, time_s: float) -> None:
        self.path, self.counter = path, tree.tap(f"{path}/energy_uj")
        self.range_uj = tree.number(f"{path}/max_energy_range_uj")
        self.total_uj = 0
        self.seen: tuple[float, int] | None = None  # time, counter
        self.power_w: float | None = None
        with contextlib.suppress(MachineError, OSError):  # said again, with its reason, at each reading
            self._advance(time_s)

    def energy_j(self, time_s: float) -> float:
        """Since the zone was opened."""
        self._advance(time_s)
        return self.total_uj / 1e6

    def watts(self, time_s: float) -> float:
        """Average since the last reading."""
        self._advance(time_s)
        if self.power_w is None:
            raise MachineError("no power yet: it takes two readings of the energy counter")
        return self.power_w

    def _advance(self, time_s: float) -> None:
        if self.seen and time_s <= self.seen[0]:
            return  # energy and power of one sweep are one reading
        counter = self._counter()
        if self.seen:
            before_s, before_uj = self.seen
            delta_uj = self._delta(before_uj, counter)
            self.total_uj += delta_uj
            self.power_w = delta_uj / 1e6 / (time_s - before_s)
        self.seen = (time_s, counter)

    def _delta(self, before_uj: int, counter_uj: int) -> int:
        if counter_uj >= before_uj:
            return counter_uj - before_uj
        if not self.range_uj:
            raise MachineError(f"/{self.path}: the counter went back and max_energy_range_uj is not known")
        return counter_uj - before_uj + self.range_uj

    def _counter(self) -> int:
        path = f"{self.path}/energy_uj"
        try:
            return int(self.counter.read())
        except PermissionError:
            raise MachineError(f"/{path} may not be read: {REMEDY} /{path}") from None
        except ValueError:
            raise MachineError(f"/{path} holds no number") from None


def gauges(tree: FileTree, time_s: float) -> list[SensorProbe]:
    """energy_j.ZONE and power_w.ZONE for each zone: package0, package0-dram, psys …; `time_s` is now."""
    counters: list[SensorProbe] = []
    for name, path in zones(tree).items():
        zone = Zone(tree, path, time_s)
        counters.append(SensorProbe(f"energy_j.{name}", zone.energy_j, window_s=0.0))
        counters.append(SensorProbe(f"power_w.{name}", zone.watts, window_s="since the last reading"))
    if counters:
        return counters
    reason = f"this kernel shows no RAPL zone under /{POWERCAP}; virtual machines have none"
    return [absent("energy_j", reason), absent("power_w", reason)]


def zones(tree: FileTree) -> dict[str, str]:
    """Name → path. A part of a package carries the package's name before its own."""
    names: dict[str, str] = {}
    for path in tree.glob(f"{POWERCAP}/intel-rapl:*"):  # the other driver, intel-rapl-mmio, counts the same packages again
        place = path.rpartition("/")[2]
        name = tree.text(f"{path}/name") or place.replace("intel-rapl:", "zone-").replace(":", "-")
        if place.count(":") == 2:
            parent = tree.text(f"{POWERCAP}/{place.rpartition(':')[0]}/name")
            name = f"{parent}-{name}" if parent else name
        name = name.replace("package-", "package")  # as clocks and temperatures call it
        if tree.exists(f"{path}/energy_uj"):
            names[name if name not in names else f"{name}-{len(names)}"] = path
    return names
