"""What a user can ask the simulated GPU to do wrong."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hotlap.core import units, work
from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Case

TIMES = ("tiles", "bound")
INJECTIONS = {  # option: what it injects, an example, what Hotlap then says
    "times": (
        "tiles: kernels played tile by tile, with counters; bound: the roofline limit (the default with efficiency)", "bound",
        "causes and counters; a machine at its limit",
    ),
    "efficiency": ("share of the limit that every case reaches", "0.73", "share of the limit"),
    "noise": ("relative standard deviation of a sample", "0.01", "spread within rounds"),
    "run_noise": ("relative standard deviation between rounds", "0.005", "interval"),
    "drift": ("relative slow-down per minute", "0.02", "notice drift"),
    "step": ("slow-down by a share from a time on", "0.05@30s", "bimodal rounds, a wider interval"),
    "throttle": (
        "clock lowered by a share from a time on, with its reason", "0.3@60s",
        "notices throttled and low_clock, cause power or clock",
    ),
    "slow_link": ("share of the link's rate that is left", "0.5", "share of the link's bound"),
    "timer": ("what the device's timer shows of the true time", "0.5", "invalid: timers differ"),
    "flip": ("share of checks that find a flipped bit", "1", "invalid: wrong result"),
    "dead": ("sensors that give no answer, separated by commas", "power_w,temperature_c", "errors of that sensor, never zero"),
    "lost": ("time at which the device vanishes", "40s", "exit 3, everything measured is kept"),
    "spread": ("relative standard deviation between devices that are all well", "0.002", "how much healthy devices differ"),
    "slow": (
        "some devices whose calls take longer by a share, by their indices; of nodes 17.3, or 17.* for all of node 17", "0.03@2,5",
        "gate --against fleet names them",
    ),
    "slow_kernel": (
        "kernels slower by a share, by workload, or workload and operation as in rowwise.softmax", "1.0@rowwise",
        "first of the opportunities",
    ),
    "reason": (
        "what 'throttle' gives as its reason: software_power_cap, hardware_thermal, software_thermal, hardware_slowdown …",
        "hardware_thermal",
        "throttled, with this cause",
    ),
    "stuck": ("clock held lower by a share from a time on, without a reason", "0.4@60s", "clock stuck low"),
    "mute": ("a sensor that sends nothing from a time on", "power_w@60s", "lost sensor"),
    "frozen": ("a sensor that shows the same value from a time on", "power_w@60s", "frozen sensor"),
    "jump": ("a sensor that shows nonsense from a time on", "temperature_c@60s", "nonsense from sensor"),
    "ecc": ("uncorrected memory errors, from a time on", "3@60s", "errors, with what to do"),
    "ecc_corrected": ("corrected memory errors a second, from a time on", "100@60s", "errors, with what to do"),
    "xid": ("a driver's error code, at a time", "79@60s", "the Xid with its meaning"),
    "remapped": ("memory rows remapped, from a time on", "1@60s", "errors, with what to do"),
    "bursts": (
        "share of the time throttled by 'reason' in bursts that fall between readings, from a time on", "0.2@30s",
        "throttled, with its cause",
    ),
    "pending": ("memory rows wait for a reset, from a time on", "1@30s", "a fail; open where it is there from the beginning"),
    "retiring": ("memory pages wait for a reboot, from a time on", "1@30s", "a fail; open where it is there from the beginning"),
    "spent": ("no spare memory row is left, from a time on", "1@30s", "a fail"),
    "nvlink": ("NVLink errors that were repaired, a second, from a time on", "50@60s", "NVLink replays"),
    "cooling": ("how much hotter than usual the card gets", "0.5", "too hot; the load stops"),
    "fan_speed": ("share at which the fan stands, from a time on", "0@60s", "fan stopped"),
    "pcie_width": ("lanes of the link that are left, from a time on", "4@60s", "link narrowed"),
    "replays": ("link errors that were repaired, a second, from a time on", "50@60s", "link errors"),
    "hang": ("time at which a kernel never ends", "40s", "hung; started again"),
    "dies": ("time at which the process is killed", "40s", "process died; started again"),
    "clock": (
        "no fault: the highest clock that the card may run at, as a user can set it", "1.2GHz",
        "time, power, energy at that clock; not_run where a case is not played tile by tile",
    ),
    "power_cap": ("no fault: the watts that the card may draw, as a user can set them", "500W", "the clock that this leaves"),
    "raster": (
        "share that is left of the rate of pixels, texels, triangles", "0.8",
        "share of the limit; cause rop or texture unit, where a picture takes 20 launches (side=4096)",
    ),
    "stutter": ("calls of what draws in each round that take longer, and by how much", "3@200ms", "notice stutter"),
    "tiles": ("tiles of 8 × 8 pixels that each picture has wrong", "1", "invalid: wrong result"),
    "seed": ("of all noise", "7", "the same numbers again"),
    "count": ("how many such GPUs there are", "2", "--device all, one after another or --together"),
    "nodes": ("how many such machines there are: 'hotlap run' measures each in a run of its own", "200", "a run for each"),
    "node": ("which of the nodes this is, from 0", "17", "that one alone"),
}
ONSETS = (
    "step", "throttle", "stuck", "ecc", "ecc_corrected", "xid", "remapped", "fan_speed", "pcie_width", "replays",
    "bursts", "pending", "retiring", "spent", "nvlink", "stutter",
)
WHOLE = ("seed", "count", "nodes", "node", "tiles")
SETTINGS = {"clock": "Hz", "power_cap": "W"}
REASONS = {  # NVML's clock event reasons
    "idle": 0x1, "application_clocks": 0x2, "software_power_cap": 0x4, "hardware_slowdown": 0x8, "sync_boost": 0x10,
    "software_thermal": 0x20, "hardware_thermal": 0x40, "hardware_power_brake": 0x80, "display_clocks": 0x100,
}
SENSORS = ("power_w", "energy_j", "temperature_c", "clock_hz.sm", "throttle", "utilization", "processes", "fan")


@dataclass(frozen=True)
class Onset:
    """A fault that begins at a time."""

    share: float
    at_s: float

    @classmethod
    def parse(cls, name: str, text: str) -> Onset:
        share, sign, at = text.partition("@")
        return cls(_number(name, share), _time(name, at) if sign else 0.0)


@dataclass(frozen=True)
class SlowFault:
    """Devices that are slower than the others."""

    share: float = 0.0
    devices: frozenset[tuple[int | None, int | None]] = frozenset()  # node and index; no node where none is named, no index for all

    @classmethod
    def parse(cls, text: str) -> SlowFault:
        share, sign, which = text.partition("@")
        places = [re.fullmatch(r"(?:(\d+)\.)?(\d+|(?<=\.)\*)", part.strip()) for part in which.split(",")]
        if not sign or not all(places):
            raise InputError(f"{_wrong('slow', text)}, or with nodes slow=0.03@17.3,18.*: the share once, then all devices")
        pairs = (place.groups() for place in places if place)
        return cls(_number("slow", share), frozenset((int(n) if n else None, None if i == "*" else int(i)) for n, i in pairs))

    def strikes(self, node: int, index: int) -> bool:
        return not self.devices.isdisjoint({(None, index), (node, index), (node, None)})

    def check(self, nodes: int, count: int) -> None:
        """Raises InputError for devices that the nodes do not have."""
        for node, index in self.devices:
            if node is None and nodes == 1 and index is not None and index >= count:
                valid = f"devices are 0 to {count - 1}" if count > 1 else "there is device 0 alone"
                raise InputError(f"simulated: 'slow' names device {index}, but {valid}; count={index + 1} has it")
            if node is None and nodes > 1:
                whose, which = (index, 0) if index is not None and count <= index < nodes else (0, min(index or 0, count - 1))
                write = f"write {whose}.{which} for device {which} of node {whose}, {whose}.* for all of it"
                raise InputError(f"simulated: 'slow' names device {index} of no node; {write}")
            if node is not None and (node >= nodes or (index is not None and index >= count)):
                place = f"{node}.{'*' if index is None else index}"
                raise InputError(f"simulated: 'slow' names {place}, but nodes are 0 to {nodes - 1} and devices 0 to {count - 1}")


@dataclass(frozen=True)
class SlowKernel:
    """Workloads, or single operations of them as in rowwise.softmax, whose kernels are slower than they should be."""

    share: float = 0.0
    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> SlowKernel:
        share, sign, which = text.partition("@")
        names = [part.strip() for part in which.split(",")]
        if not sign or not all(names):
            raise _wrong("slow_kernel", text)
        for name in names:
            work.find(name.partition(".")[0])
        return cls(_number("slow_kernel", share), frozenset(names))

    def factor(self, case: Case) -> float:
        """How many times longer than it should a call takes."""
        named = {case.workload, f"{case.workload}.{case.params.get('op', '')}"} & self.names
        return 1 + self.share if named else 1.0


@dataclass(frozen=True)
class Faults:
    """What was asked to go wrong; the defaults are a perfect machine."""

    times: str = "tiles"
    efficiency: float = 1.0
    noise: float = 0.0
    run_noise: float = 0.0
    drift: float = 0.0
    step: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    throttle: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    slow_link: float = 1.0
    timer: float = 1.0
    flip: float = 0.0
    dead: frozenset[str] = frozenset()
    lost: float = math.inf
    spread: float = 0.0
    slow: SlowFault = field(default_factory=SlowFault)
    slow_kernel: SlowKernel = field(default_factory=SlowKernel)
    reason: str = "software_power_cap"
    stuck: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    mute: tuple[str, float] = ("", math.inf)
    frozen: tuple[str, float] = ("", math.inf)
    jump: tuple[str, float] = ("", math.inf)
    ecc: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    ecc_corrected: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    xid: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    remapped: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    cooling: float = 0.0
    fan_speed: Onset | None = None
    pcie_width: Onset | None = None
    replays: Onset = field(default_factory=lambda: Onset(0.0, 0.0))
    bursts: Onset | None = None
    pending: Onset | None = None
    retiring: Onset | None = None
    spent: Onset | None = None
    nvlink: Onset | None = None
    raster: float = 1.0
    stutter: Onset | None = None  # how many calls of a round, and by how many seconds each is longer
    tiles: int = 0
    hang: float = math.inf
    dies: float = math.inf
    clock: float = math.inf
    power_cap: float = math.inf
    seed: int = 0
    count: int = 1
    nodes: int = 1
    node: int = 0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Faults:
        given: dict[str, Any] = {"times": "bound"} if "efficiency" in options else {}
        for name, text in options.items():
            if name not in INJECTIONS:
                raise InputError(f"simulated has no option '{name}'; {nearest(name, INJECTIONS)}")
            if name in ONSETS:
                given[name] = Onset.parse(name, text)
            elif name == "times":
                given[name] = _times(text)
            elif name == "dead":
                given[name] = _sensors(text)
            elif name == "slow":
                given[name] = SlowFault.parse(text)
            elif name == "slow_kernel":
                given[name] = SlowKernel.parse(text)
            elif name == "reason":
                given[name] = _reason(text)
            elif name in SETTINGS:
                given[name] = _setting(name, text)
            elif name in ("frozen", "jump", "mute"):
                given[name] = _sensor_at(name, text)
            elif name in ("lost", "hang", "dies"):
                given[name] = _time(name, text.removeprefix("@"))
            else:
                given[name] = _whole_number(name, text) if name in WHOLE else _number(name, text)
        faults = cls(**given)
        faults._check()
        return faults

    def _check(self) -> None:
        """Raises InputError for what no machine can do."""
        for name in ("efficiency", "slow_link", "timer", "raster"):
            if getattr(self, name) <= 0:
                raise InputError(f"simulated: '{name}' must be above 0, as in {name}={INJECTIONS[name][1]}")
        for name, value, most in (
            ("throttle", self.throttle.share, 0.99), ("stuck", self.stuck.share, 0.99), ("cooling", self.cooling, 10.0),
            ("tiles", self.tiles, 64), ("stutter", self.stutter.share if self.stutter else 0.0, 1000),
            ("flip", self.flip, 1.0), ("noise", self.noise, 1.0), ("count", self.count, 1024), ("nodes", self.nodes, 100_000),
            ("node", self.node, self.nodes - 1),
            ("run_noise", self.run_noise, 1.0), ("step", self.step.share, 100.0), ("drift", self.drift, 1000.0),
            ("spread", self.spread, 1.0), ("slow", self.slow.share, 100.0), ("slow_kernel", self.slow_kernel.share, 100.0),
            ("bursts", self.bursts.share if self.bursts else 0.0, 1.0),
        ):
            least = int(name in ("count", "nodes"))
            if not least <= value <= most:
                raise InputError(f"simulated: '{name}' must be from {least} to {most:g}, as in {name}={INJECTIONS[name][1]}")
        self.slow.check(self.nodes, self.count)
        if self.raster > 1:
            raise InputError(f"simulated: 'raster' is the share that is left, up to 1, not {self.raster:g}; as in raster=0.8")
        if self.stutter and not (self.stutter.share.is_integer() and self.stutter.at_s > 0):
            raise InputError("simulated: 'stutter' is a whole number of calls, and by how much each takes longer, as in stutter=3@200ms")

    @property
    def stream(self) -> str:
        """Of the noise of a node; node 0 has that of a single machine with this seed."""
        return f"{self.seed} node {self.node}" if self.node else str(self.seed)

    def of_device(self, index: int) -> float:
        """How many times longer than the others' a device's calls take."""
        own = math.exp(random.Random(f"device {self.stream} {index}").gauss(0.0, self.spread)) if self.spread else 1.0
        return own * (1 + self.slow.share) if self.slow.strikes(self.node, index) else own


def never_came(options: Mapping[str, str], end_s: float) -> list[str]:
    """Faults that were to begin only after a run had ended, each with what to do; `end_s` is the run's last virtual second."""
    faults = Faults.parse(options)
    begins = {"step": faults.step.at_s, "throttle": faults.throttle.at_s, "lost": faults.lost, "hang": faults.hang, "dies": faults.dies}
    begins |= {"stuck": faults.stuck.at_s, "ecc": faults.ecc.at_s, "xid": faults.xid.at_s}
    later = ("bursts", "pending", "retiring", "spent", "nvlink")
    begins |= {name: onset.at_s for name in later if (onset := getattr(faults, name)) is not None}
    begins |= {"frozen": faults.frozen[1], "jump": faults.jump[1], "mute": faults.mute[1]}
    return [
        f"the fault {name}={options[name]} never came: the run ended at {end_s:.0f} s of virtual time; set it earlier, or run longer"
        for name, at_s in begins.items() if name in options and at_s > end_s
    ]


def _setting(name: str, text: str) -> float:
    """A clock or watts, above 0."""
    try:
        value = units.parse(text, SETTINGS[name])
    except (InputError, ValueError):
        raise _wrong(name, text) from None
    if not 0 < value < math.inf:
        raise _wrong(name, text)
    return value


def _reason(text: str) -> str:
    if text not in REASONS:
        raise InputError(f"simulated: there is no reason '{text}'; {nearest(text, REASONS)}")
    return text


def _sensor_at(name: str, text: str) -> tuple[str, float]:
    sensor, sign, at = text.partition("@")
    _sensors(sensor)
    return sensor, _time(name, at) if sign else 0.0


def _sensors(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    for name in names - set(SENSORS):
        raise InputError(f"simulated has no sensor '{name}'; {nearest(name, SENSORS)}")
    return names


def _times(text: str) -> str:
    if text not in TIMES:
        raise InputError(f"simulated: 'times' cannot be '{text}'; {nearest(text, TIMES)}")
    return text


def _number(name: str, text: str) -> float:
    try:
        value = float(text.removesuffix("/min") if name == "drift" else text)
        if not math.isfinite(value):
            raise ValueError
        return value
    except ValueError:
        raise _wrong(name, text) from None


def _whole_number(name: str, text: str) -> int:
    value = _number(name, text)
    if value != int(value):
        raise _wrong(name, text)
    return int(value)


def _time(name: str, text: str) -> float:
    """Seconds since the run began, from 0 on."""
    try:
        value = units.parse(text, "s")
        if not 0 <= value < math.inf:
            raise ValueError
        return value
    except (InputError, ValueError):
        hint = units.meant(text, "s")
        raise _wrong(name, text, f" at the time '{text}'" + (f" ({hint})" if hint else "")) from None


def _wrong(name: str, text: str, problem: str = "") -> InputError:
    quoted = f" '{text}'"
    return InputError(f"simulated: '{name}' cannot be{problem or quoted}; write it as in {name}={INJECTIONS[name][1]}")
