"""A small device's board: thermal zones, power rails, batteries and clocks as the kernel shows them, the rest by `tegrastats`.

Zones, rails and clocks are read where the firmware gives a device tree, as on Jetson, Raspberry Pi and phones; a battery wherever there is
one. A rail feeds more than one part as a rule, so none is the power of a device until the user names it: `hotlap energy RUN --rail NAME`.
Sources: Linux, Documentation/ABI/testing/sysfs-class-thermal, sysfs-class-power, sysfs-class-devfreq; Documentation/hwmon/ina3221, ina2xx.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from hotlap.core.errors import MachineError
from hotlap.core.measure.sensors import tegrastats
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, read_all
from hotlap.core.measure.sensors.system import ZONES
from hotlap.core.measure.sensors.tree import FileTree, Tap
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Reading

MODELS = ("sys/firmware/devicetree/base/model", "proc/device-tree/model")
COLDEST_C, HOTTEST_C = -40.0, 250.0  # that a thermometer of such a board can tell
BROKEN_MC = (-1, -1000)  # what drivers give where there is no answer
FIXED_C = 100.0  # that Tegra's power chip tells whatever it is
METERS = ("ina219", "ina220", "ina226", "ina230", "ina231", "ina260")  # of one rail; the ina3221 has three


class Board:
    """The sensors of this machine's board; `root` is that of the files."""

    name, device = "board", "host"

    def __init__(self, tree: FileTree) -> None:
        gauges = [*_batteries(tree)]
        if small(tree):
            gauges += [*_zones(tree), *_rails(tree), *_clocks(tree)]
        self.gauges = list({one.name: one for one in gauges}.values())

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)


def small(tree: FileTree) -> bool:
    """Whether the firmware describes the board: ACPI machines have the sources of `system` and `drm`."""
    return any(tree.exists(path) for path in MODELS)


def find(target: Target) -> list[SensorSource]:
    """The board's source and tegrastats, each where it has a sensor."""
    board = Board(FileTree())
    sources: list[SensorSource] = [board] if board.gauges else []
    return [*sources, *tegrastats.find(board.names())]


def missing(target: Target) -> str:
    """What a board lacks, nobody mends."""
    return ""


def part(text: str) -> str:
    """A name of the kernel as the part of a sensor's: no dot, no space."""
    return "".join(sign if sign.isalnum() or sign in "_-" else "_" for sign in text.strip()) or "unnamed"


def _number(tap: Tap) -> int:
    text = tap.read().strip(" \t\n\0")
    try:
        return int(text)
    except ValueError:
        raise MachineError(f"{tap.path} holds no number: {text[:40]!r}") from None


def _zones(tree: FileTree) -> list[SensorProbe]:
    """Of all parts but the processor's, which stands with the host's sensors."""
    kinds = {zone: tree.text(f"{zone}/type") for zone in tree.glob("sys/class/thermal/thermal_zone*")}
    return [
        SensorProbe(f"temperature_c.{part(kind)}", functools.partial(_celsius, tree.tap(f"{zone}/temp"), kind), window_s=0.0)
        for zone, kind in kinds.items() if kind not in ZONES and tree.exists(f"{zone}/temp")
    ]  # fmt: skip


def _celsius(tap: Tap, kind: str, _time_s: float) -> float:
    value = _number(tap)
    celsius = value / 1e3
    if value in BROKEN_MC or not COLDEST_C < celsius < HOTTEST_C:
        raise MachineError(f"{tap.path}: {value} is what the driver gives where the thermometer does not answer")
    if kind.casefold().startswith("pmic") and celsius == FIXED_C:
        raise MachineError(f"{tap.path}: 100 °C is what this power chip gives whatever its temperature is")
    return celsius


def _rails(tree: FileTree) -> list[SensorProbe]:
    probes = []
    for chip in tree.glob("sys/class/hwmon/hwmon*"):
        name = tree.text(f"{chip}/name")
        if name == "ina3221":
            for path in tree.glob(f"{chip}/curr[1-3]_input"):
                number = path.rpartition("/curr")[2].removesuffix("_input")
                label = tree.text(f"{chip}/in{number}_label")
                if label and label != "NC" and tree.exists(f"{chip}/in{number}_input"):
                    taps = tree.tap(f"{chip}/in{number}_input"), tree.tap(path)
                    probes.append(SensorProbe(f"power_w.{part(label)}", functools.partial(_product, *taps, 1e-6)))
        elif name in METERS and tree.exists(f"{chip}/power1_input"):
            label = tree.text(f"{chip}/label") or f"{name}-{chip.rpartition('/hwmon')[2]}"
            probes.append(SensorProbe(f"power_w.{part(label)}", _scaled(tree.tap(f"{chip}/power1_input"), 1e-6)))
    return probes


def _product(volts: Tap, amperes: Tap, by: float, _time_s: float) -> float:
    return _number(volts) * _number(amperes) * by


def _scaled(tap: Tap, by: float) -> Callable[[float], float]:
    return lambda _time_s: _number(tap) * by


def _batteries(tree: FileTree) -> list[SensorProbe]:
    """Of the machine itself, not of a mouse."""
    probes = []
    for path in tree.glob("sys/class/power_supply/*"):
        if tree.text(f"{path}/type") != "Battery" or tree.text(f"{path}/scope") == "Device":
            continue
        name = part(path.rpartition("/")[2])
        status = tree.tap(f"{path}/status")
        if tree.exists(f"{path}/power_now"):
            watts = _scaled(tree.tap(f"{path}/power_now"), 1e-6)
            probes.append(SensorProbe(f"power_w.{name}", functools.partial(_drawn, status, watts)))
        elif tree.exists(f"{path}/voltage_now") and tree.exists(f"{path}/current_now"):
            watts = functools.partial(_product, tree.tap(f"{path}/voltage_now"), tree.tap(f"{path}/current_now"), 1e-12)
            probes.append(SensorProbe(f"power_w.{name}", functools.partial(_drawn, status, watts)))
        if tree.exists(f"{path}/capacity"):
            probes.append(SensorProbe(f"battery.{name}", _scaled(tree.tap(f"{path}/capacity"), 1e-2), window_s=0.0))
    return probes


def _drawn(status: Tap, watts: Callable[[float], float], time_s: float) -> float:
    """What the machine draws, while it is all from the battery. Drivers differ in the sign."""
    state = status.read().strip()
    if state != "Discharging":
        raise MachineError(f"{status.path}: {state}: what flows at the battery is not what the machine draws; unplug it")
    return abs(watts(time_s))


def _clocks(tree: FileTree) -> list[SensorProbe]:
    """Of GPUs and other parts whose clock devfreq sets: 17000000.gpu is clock_hz.gpu."""
    files = {path.rpartition("/")[2]: f"{path}/cur_freq" for path in tree.glob("sys/class/devfreq/*")}
    return [
        SensorProbe(f"clock_hz.{part(name.partition('.')[2] or name)}", _scaled(tree.tap(file), 1.0))
        for name, file in files.items() if tree.exists(file)
    ]  # fmt: skip
