"""GPUs of AMD, Intel and others through what the kernel shows of them: hwmon, and the files of their DRM driver.

Needs no library and no root. Power is hwmon's `power1_average`, else `power1_input`; a driver that has only an energy counter
(i915, xe) gives the average since the last reading. A power of exactly 0 W is no measurement: the second die of a package
answers so, and it is an error, never zero. Throttling by cause is put into the bits that all vendors share here.
Source: Linux, Documentation/hwmon/sysfs-interface, Documentation/gpu/amdgpu/thermal, ABI/testing/sysfs-driver-intel-i915-hwmon
and sysfs-driver-intel-xe-hwmon.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from hotlap.core.errors import MachineError, Unavailable
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, absent, read_all
from hotlap.core.measure.sensors.tree import FileTree, Tap
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Device, Reading

CARDS = "sys/class/drm"
VENDORS = {"1002": "AMD", "8086": "Intel", "10de": "NVIDIA"}
MAIN = ("edge", "pkg", "", "junction")  # labels of the temperature that stands for the device, best first
PARTS = {"mem": "memory", "vram": "memory"}
CLOCKS = {"sclk": "clock_hz.sm", "mclk": "clock_hz.memory"}  # labels of hwmon's freqN
CLOCK_FILES = {  # relative to the card; MHz
    "clock_hz.sm": ("device/tile0/gt0/freq0/act_freq", "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz"),
}
REASONS = ("gt/gt0/throttle_reason_*", "device/tile0/gt0/freq0/throttle/reason_*")
BITS = {  # reason: bit of base.THROTTLE
    "pl1": 0x4, "pl2": 0x4, "pl4": 0x4, "ratl": 0x20, "thermal": 0x20, "prochot": 0x40, "vr_thermalert": 0x40, "vr_tdc": 0x80,
}
RAS = {"corrected": "ce", "uncorrected": "ue"}  # kind of error: its line in ras/BLOCK_err_count
OTHER_BIT = 0x8  # a reason without a bit of its own
CORE = {  # what is said to be missing where it is
    "power_w": "power", "temperature_c": "temperature", "clock_hz.sm": "clock", "utilization": "load", "memory_used_bytes": "memory in use",
}


class Drm:
    """The sensors of one card; `card` as in ``sys/class/drm/card0``, `time_s` now."""

    name = "drm"

    def __init__(self, tree: FileTree, card: str, device: str, time_s: float = 0.0) -> None:
        self.device = device
        self.gauges: dict[str, SensorProbe] = {}
        for one in (*_hwmon(tree, card, time_s), *_files(tree, card)):
            self.gauges.setdefault(one.name, one)  # the first way to read a sensor is the best
        driver = _uevent(tree, card).get("DRIVER", "the driver")
        for name, what in CORE.items():
            if name not in self.gauges:
                self.gauges[name] = absent(name, f"{driver} shows no {what} under /{card}/device")

    def names(self) -> Sequence[str]:
        return list(self.gauges)

    def supported(self) -> list[str]:
        """The sensors whose files are there, whether or not they answer now."""
        return [name for name, gauge in self.gauges.items() if not gauge.unsupported]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges.values(), self.device, time_s)


def find(target: Target) -> list[SensorSource]:
    """The card's source; none where the kernel shows none for this device, for the reason in `missing`."""
    try:
        return [opened(target.device, FileTree(), target.clock.now())]
    except Unavailable:
        return []


def missing(target: Target) -> str:
    """Why there is none, and what would mend it."""
    try:
        opened(target.device, FileTree())
    except Unavailable as error:
        return str(error)
    return ""


def opened(device: Device, tree: FileTree, time_s: float = 0.0) -> Drm:
    """Raises Unavailable: no card has the device's PCI address, or without one, several or none are of its vendor."""
    return Drm(tree, _card(device, tree), device.key, time_s)


def critical_c(device: Device, tree: FileTree) -> float | None:
    """The critical temperature of the sensor that stands for the device, from hwmon; None where the kernel shows none."""
    try:
        card = _card(device, tree)
    except Unavailable:
        return None
    for chip in tree.glob(f"{card}/device/hwmon/hwmon*"):
        labels = {tree.text(path.replace("_input", "_label")): path for path in tree.glob(f"{chip}/temp*_input")}
        main = next((label for label in MAIN if label in labels), None)
        found = tree.number(labels[main].replace("_input", "_crit")) if main is not None else None
        if found and found > 0:
            return found / 1e3
    return None


def _card(device: Device, tree: FileTree) -> str:
    """Path of the device's card. Raises Unavailable."""
    by_address = cards(tree)
    if not by_address:
        raise Unavailable(f"the kernel shows no card under /{CARDS}", "load the GPU's kernel driver; in a container, share /sys with it")
    if device.pci_address:
        fitting = [card for card, about in by_address.items() if _address(about.get("PCI_SLOT_NAME", "")) == _address(device.pci_address)]
        reason = f"no card under /{CARDS} has the PCI address {device.pci_address}"
    else:
        named = f"{device.vendor} {device.name}".lower().replace("advanced micro devices", "amd")
        fitting = [card for card, about in by_address.items() if _vendor(about).lower() in named]
        reason = f"{len(fitting)} cards under /{CARDS} could be {device.name}, whose driver gives no PCI address"
    if len(fitting) != 1:
        raise Unavailable(reason, "see lspci -k for the kernel driver of each card")
    return fitting[0]


def devices(tree: FileTree) -> list[Device]:
    """Cards of other vendors than NVIDIA that show at least one sensor, whether or not a library can compute on them."""
    present: list[Device] = []
    for card, about in cards(tree).items():
        vendor = _vendor(about)
        if vendor != "NVIDIA" and Drm(tree, card, "").supported():
            name = f"{vendor} {about.get('PCI_ID', '').lower()}".strip()
            address = _address(about.get("PCI_SLOT_NAME", ""))
            present.append(Device(target="drm", index=len(present), name=name, kind="gpu", vendor=vendor, pci_address=address))
    return present


def cards(tree: FileTree) -> dict[str, dict[str, str]]:
    """Path of each card that hangs on a bus → its uevent."""
    found = {card: _uevent(tree, card) for card in tree.glob(f"{CARDS}/card[0-9]*") if re.search(r"/card\d+\Z", card)}
    return {card: about for card, about in found.items() if about}


# ---------------------------------------------------------------- hwmon


def _hwmon(tree: FileTree, card: str, time_s: float) -> list[SensorProbe]:
    gauges: list[SensorProbe] = []
    for chip in tree.glob(f"{card}/device/hwmon/hwmon*"):
        gauges += [*_power(tree, chip, time_s), *_temperatures(tree, chip), *_fans(tree, chip)]
        for path in tree.glob(f"{chip}/freq*_input"):
            name = CLOCKS.get(tree.text(path.replace("_input", "_label")))
            if name:
                gauges.append(_scaled(tree, name, path, 1.0))
    return gauges


def _power(tree: FileTree, chip: str, time_s: float) -> list[SensorProbe]:
    gauges: list[SensorProbe] = []
    for file in ("power1_average", "power1_input"):
        if tree.exists(f"{chip}/{file}"):
            gauges.append(SensorProbe("power_w", functools.partial(_watts, tree.tap(f"{chip}/{file}"))))
    for file in tree.glob(f"{chip}/energy*_input"):
        label = tree.text(file.replace("_input", "_label"))
        part = f".{label}" if label and label != "card" else ""
        counter = DrmEnergy(tree.tap(file), time_s)
        gauges += [
            _scaled(tree, f"energy_j{part}", file, 1e-6),
            SensorProbe(f"power_w{part}", counter.watts, window_s="since the last reading"),
        ]
    limit = next((file for file in ("power1_cap", "power1_max") if tree.exists(f"{chip}/{file}")), "")
    return [*gauges, *([_scaled(tree, "power_limit_w", f"{chip}/{limit}", 1e-6)] if limit else [])]


class DrmEnergy:
    """Average power between two readings of a counter in µJ."""

    def __init__(self, tap: Tap, time_s: float) -> None:
        self.tap = tap
        self.seen: tuple[float, int] | None = None
        try:
            self.seen = (time_s, _whole(tap))
        except (MachineError, OSError):
            self.seen = None  # said at each reading

    def watts(self, time_s: float) -> float:
        """Raises MachineError: no time has passed, or the counter went back or stands still."""
        before, self.seen = self.seen, (time_s, _whole(self.tap))
        if before is None or time_s <= before[0]:
            raise MachineError("no power yet: it takes two readings of the energy counter")
        if self.seen[1] < before[1]:
            raise MachineError(f"{self.tap.path}: the energy counter went back, from {before[1]} to {self.seen[1]} µJ")
        if self.seen[1] == before[1]:
            raise MachineError(f"{self.tap.path}: the energy counter stands still")
        return (self.seen[1] - before[1]) / 1e6 / (time_s - before[0])


def _watts(tap: Tap, _time_s: float) -> float:
    value = _whole(tap) / 1e6
    if value == 0:
        raise MachineError("answers 0 W: the second die of a package does, whose power stands with the first")
    return value


def _temperatures(tree: FileTree, chip: str) -> list[SensorProbe]:
    labels = {tree.text(path.replace("_input", "_label")): path for path in tree.glob(f"{chip}/temp*_input")}
    main = next((label for label in MAIN if label in labels), None)
    found = []
    for label, path in labels.items():
        part = "" if label == main else f".{PARTS.get(label) or re.sub(r'[^a-z0-9]+', '_', label.lower()) or 'other'}"
        found.append(_scaled(tree, f"temperature_c{part}", path, 1e-3))
    return found


def _fans(tree: FileTree, chip: str) -> list[SensorProbe]:
    fans = []
    for path in tree.glob(f"{chip}/fan*_input"):
        number = path.rpartition("/fan")[2].removesuffix("_input")
        fans.append(_scaled(tree, "fan_rpm" if number == "1" else f"fan_rpm.{number}", path, 1.0))
    most = tree.number(f"{chip}/pwm1_max")
    if tree.exists(f"{chip}/pwm1") and most:
        fans.append(_scaled(tree, "fan", f"{chip}/pwm1", 1 / most))
    return fans


# ---------------------------------------------------------------- files of the DRM drivers


def _files(tree: FileTree, card: str) -> list[SensorProbe]:
    plain = {"utilization": ("gpu_busy_percent", 1e-2), "utilization.memory": ("mem_busy_percent", 1e-2),
             "memory_used_bytes": ("mem_info_vram_used", 1.0), "pcie_width": ("current_link_width", 1.0),
             "pcie_replays": ("pcie_replay_count", 1.0)}  # fmt: skip
    gauges = [
        _scaled(tree, name, f"{card}/device/{file}", by) for name, (file, by) in plain.items() if tree.exists(f"{card}/device/{file}")
    ]
    for name, files in CLOCK_FILES.items():
        path = next((f"{card}/{file}" for file in files if tree.exists(f"{card}/{file}")), "")
        if path:
            gauges.append(_scaled(tree, name, path, 1e6))
    for name, file in (("clock_hz.sm", "pp_dpm_sclk"), ("clock_hz.memory", "pp_dpm_mclk")):
        if tree.exists(f"{card}/device/{file}"):
            gauges.append(SensorProbe(name, functools.partial(_level, tree.tap(f"{card}/device/{file}"))))
    counts = [tree.tap(path) for path in tree.glob(f"{card}/device/ras/*_err_count")]
    if counts:
        gauges += [SensorProbe(f"ecc_{kind}", functools.partial(_ras, counts, sign)) for kind, sign in RAS.items()]
    if tree.exists(f"{card}/device/current_link_speed"):
        gauges.append(SensorProbe("pcie_generation", functools.partial(_generation, tree.tap(f"{card}/device/current_link_speed"))))
    reasons = {_reason(path): tree.tap(path) for pattern in REASONS for path in tree.glob(f"{card}/{pattern}")}
    reasons.pop("status", None)
    return [*gauges, *([SensorProbe("throttle", functools.partial(_mask, reasons))] if reasons else [])]


def _level(tap: Tap, _time_s: float) -> float:
    """The level with the star, as in ``1: 1200Mhz *``."""
    text = tap.read()
    match = re.search(r"^\s*\w+:\s*(\d+)\s*mhz\s*\*", text, re.IGNORECASE | re.MULTILINE)
    if match is None:
        raise MachineError(f"{tap.path}: no level is marked as the current one: {text.strip()[:60]!r}")
    return int(match[1]) * 1e6


def _ras(taps: Sequence[Tap], sign: str, _time_s: float) -> float:
    """The sum over all blocks of lines such as ``ce: 3``."""
    total = 0
    for tap in taps:
        match = re.search(rf"^\s*{sign}\s*:\s*(\d+)", tap.read(), re.MULTILINE)
        if match is None:
            raise MachineError(f"{tap.path}: there is no line '{sign}: COUNT'")
        total += int(match[1])
    return float(total)


def _generation(tap: Tap, _time_s: float) -> float:
    text = tap.read()
    match = re.match(r"\s*(\d+(?:\.\d+)?) GT/s", text)
    speeds = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # GT/s by generation of PCI Express
    if match is None or float(match[1]) not in speeds:
        raise MachineError(f"{tap.path}: no speed of PCI Express: {text.strip()[:40]!r}")
    return float(speeds[float(match[1])])


def _reason(path: str) -> str:
    return path.rpartition("/")[2].removeprefix("throttle_").removeprefix("reason_")


def _mask(reasons: dict[str, Tap], _time_s: float) -> float:
    return float(functools.reduce(int.__or__, (BITS.get(name, OTHER_BIT) for name, tap in reasons.items() if _whole(tap)), 0))


# ---------------------------------------------------------------- common to both


def _scaled(tree: FileTree, name: str, path: str, by: float) -> SensorProbe:
    tap = tree.tap(path)
    ask: Callable[[float], float] = lambda _time_s: _whole(tap) * by  # noqa: E731
    return SensorProbe(name, ask)


def _whole(tap: Tap) -> int:
    text = tap.read().strip()
    try:
        return int(text, 0)
    except ValueError:
        raise MachineError(f"{tap.path} holds no number: {text[:40]!r}") from None


def _uevent(tree: FileTree, card: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in tree.text(f"{card}/device/uevent").splitlines() if "=" in line)


def _vendor(about: dict[str, str]) -> str:
    number = about.get("PCI_ID", "").partition(":")[0].lower()
    return VENDORS.get(number, f"vendor {number}" if number else about.get("DRIVER", "unknown"))


def _address(text: str) -> str:
    """0000:03:00.0, with its domain and in lower case."""
    text = text.strip().lower()
    return text if text.count(":") != 1 else f"0000:{text}"
