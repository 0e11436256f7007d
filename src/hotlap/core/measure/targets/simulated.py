"""Any GPU of the machine table, on a virtual clock: kernels played tile by tile (or bound ÷ efficiency), seeded noise, faults.

`simulated:h200-sxm?efficiency=0.73&noise=0.01&throttle=0.3@60s&seed=7`. Target and sensors share one clock, so a day
runs in minutes. It takes its times from `model`, which is never tested against it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from hotlap.core import units, work
from hotlap.core.errors import InputError, MachineError, NotSupported, closest
from hotlap.core.measure import pictures
from hotlap.core.measure.targets import TargetSpec, injected
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, Prepared, TargetKernel, Timing, Where
from hotlap.core.measure.targets.faults import Faults
from hotlap.core.measure.targets.virtual_clock import VirtualClock
from hotlap.core.model import machines
from hotlap.core.model.simulate import cases, expected_call_s, launch, thermal
from hotlap.core.record import Case, Check, Device

IDLE_SHARE = 0.12  # of the power limit: assumed
BUSY_SHARE = 0.95  # of it, while something runs whose power is not simulated: assumed
POWER_UNKNOWN_W = 300.0
POWER_CAP, IDLE = 0x4, 0x1  # reasons of a throttle reading
NO_HOST = "a simulated GPU has no host with a disk and a network; give --target host"
WALL_EXTRA_S = 4e-6  # from the call to the device and back: assumed, of the size drivers show


def machine_like(name: str) -> str:
    """The machine of the table that a word is close to; "" where none is."""
    return closest(name, machines.names())


class Gpu:
    """The simulated card: its state over virtual time, which target and sensors read."""

    def __init__(self, spec: machines.Spec, faults: Faults, clock: VirtualClock, index: int = 0) -> None:
        self.spec, self.faults, self.clock, self.slower = spec, faults, clock, faults.of_device(index)
        self.dead = faults.dead
        self.limit_w = spec.power_w or POWER_UNKNOWN_W
        self.thermal = thermal.for_limit(self.limit_w)
        self.energy_j, self.busy, self.settled_s = 0.0, False, clock.time_s
        self.load: cases.SimulatedCall | None = None  # what runs, or ran last: it sets power and clock; None: at times of the bound
        self.kept: dict[str, float | None] = {}  # what a frozen sensor goes on showing

    @property
    def throttled(self) -> bool:
        return self.faults.throttle.share > 0 and self.clock.time_s >= self.faults.throttle.at_s

    @property
    def clock_hz(self) -> float | None:
        top = min(self.spec.clock_max_hz, self.faults.clock) if self.spec.clock_max_hz else None
        held = (self.load.clock_hz if self.load else None) or top
        return held * (1 - self.faults.throttle.share) if held and self.throttled else held  # below a power cap's, as times are

    def slowdown(self, link: bool) -> float:
        """How many times longer than the model's time a call takes now."""
        now, f = self.clock.time_s, self.faults
        factor = self.slower * (1 + f.drift * now / 60) / f.efficiency
        if f.step.share and now >= f.step.at_s:
            factor *= 1 + f.step.share
        factor *= injected.stuck(f, now)
        if self.throttled and not link:
            factor /= 1 - f.throttle.share
        return factor / f.slow_link * injected.narrowed(f, now, self.spec.pcie_lanes) if link else factor

    def advance(self, seconds: float, busy: bool) -> None:
        """Time passes in steps of at most 50 ms, so that sensors see power and temperature move."""
        self.settle()
        self.busy = busy
        while seconds > 0:
            step = min(seconds, 0.05)
            self.clock.sleep(step)
            self.settle()
            seconds -= step
        self.busy = False

    def settle(self) -> None:
        """Energy and heat up to now. The card draws its idle power while others let time pass, and sensors read in the middle of a step."""
        step = self.clock.time_s - self.settled_s
        if step > 0:
            watts = self.power_w
            self.energy_j += watts * step
            self.thermal.after(watts, step)
            self.settled_s = self.clock.time_s

    @property
    def power_w(self) -> float:
        return self.watts(self.busy)

    def watts(self, busy: bool) -> float:
        """What the card draws now, were it busy or not."""
        idle = IDLE_SHARE * self.limit_w
        if not busy:
            return idle
        slower = (1 - self.faults.throttle.share * self.throttled) / injected.stuck(self.faults, self.clock.time_s)
        if self.load is None or self.load.power_w is None:
            return BUSY_SHARE * self.limit_w * slower
        return min(idle, self.load.power_w) + max(self.load.power_w - idle, 0.0) * slower

    @property
    def reasons(self) -> int:
        """Why the clock is not higher, as a driver's bits."""
        low = injected.stuck(self.faults, self.clock.time_s) > 1  # then it draws less than the cap
        held = self.throttled or (self.busy and self.load is not None and self.load.capped and not low)
        return POWER_CAP if held else 0 if self.busy else IDLE

    def readings(self, time_s: float) -> dict[str, float | None]:
        """What its sensors show; None is not supported."""
        self.settle()
        true: dict[str, float | None] = {
            "power_w": self.power_w, "energy_j": self.energy_j, "temperature_c": self.thermal.temperature_c,
            "clock_hz.sm": self.clock_hz, "throttle": float(self.reasons),
            "utilization": float(self.busy), "processes": 0.0, "fan": None,
        }
        if not math.isinf(self.faults.power_cap):
            true["power_limit_w"] = min(self.faults.power_cap, self.limit_w)
        return injected.shown(self.faults, time_s, true, self.kept)


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """Devices of the machine named by `part`, one or `count`. Raises InputError for unknown machines and options."""
    faults = Faults.parse(options or {})
    if not part:
        raise InputError("simulated needs a machine, as in simulated:h200-sxm; 'hotlap model machines' lists them")
    if faults.nodes > 1 and "node" not in (options or {}):
        asked = TargetSpec("simulated", part, dict(options or {})).text
        plans = "PLAN: quick, or a file; 'hotlap bench … --save-plan FILE --dry-run' writes one"
        remedy = f"measure all of them with: hotlap run PLAN --target '{asked}' --device all ({plans}); or name one, as in '{asked}&node=0'"
        raise InputError(f"simulated: nodes={faults.nodes} are {faults.nodes} machines, each with a run of its own; {remedy}")
    spec, node = machines.load(part), f"n{faults.node}-" if faults.node else ""
    facts = {"injected": dict(options or {})}
    return [
        Device(
            target="simulated", index=index, name=f"{spec.name} (simulated)", kind="gpu", vendor=spec.vendor, driver="virtual clock",
            uuid=f"simulated-{spec.slug}-{node}{index}", memory_bytes=_whole(spec.memory_bytes), compute_units=spec.compute_units,
            clock_max_hz=spec.clock_max_hz, cache_bytes=_whole(spec.cache_bytes), machine=spec.slug, facts=facts,
        )
        for index in range(faults.count)
    ]


def _whole(value: float | None) -> int | None:
    return int(value) if value else None


def open(device: Device, options: Mapping[str, str] | None = None) -> SimulatedTarget:
    """The machine, switched on at virtual time 0."""
    return SimulatedTarget(device, Faults.parse(options or {}))


def _copied(case: Case) -> bool:
    link = work.find(case.workload).link
    return link is not None and link.copied


class SimulatedTarget:
    """A target that answers from the model. Its `library` is itself: it prepares any case."""

    dialect: Literal["model"] = "model"
    timer_resolution_s = 1e-9
    launch_s, reach_s, turn_s = launch.HOST_S, launch.REACH_S, launch.gap_s("stream")  # of a call; from it to the device; between kernels
    features = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int32", "graph", "events", "pinned", "two_queues"})

    def __init__(self, device: Device, faults: Faults) -> None:
        self.device, self.faults, self.clock = device, faults, VirtualClock()
        self.spec = machines.load(device.machine)
        self.gpu = Gpu(self.spec, faults, self.clock, device.index)
        self.library = self
        self.random = random.Random(faults.seed)
        self.round_factor: float | None = None
        self.pending_s, self.on_link, self.stutter = 0.0, False, injected.Stutter(faults)

    def prepare(self, case: Case) -> Prepared:
        """Any workload but users' own programs and kernels."""
        if not (kind := work.find(case.workload)).counted:
            raise NotSupported(NO_HOST if kind.on_host else "a simulated GPU cannot run programs")
        if case.implementation and case.implementation not in kind.implementations:
            raise NotSupported(f"a simulated GPU runs no code, so not the kernel {case.implementation}: it plays workloads from a model")
        played, base_s = self._played(case)
        needed = _working_set(case)
        if self.device.memory_bytes and needed > self.device.memory_bytes:
            raise NotSupported(f"{units.size(needed)} do not fit the device's memory of {units.size(self.device.memory_bytes)}")
        link = _copied(case)
        self.gpu.load = played  # until another case runs
        draws = kind.heading == "graphics"
        late = self.faults.slow_kernel.factor(case) / (self.faults.raster if kind.drawn else 1.0)
        if draws:
            self.stutter = injected.Stutter(self.faults)

        def enqueue(calls: int) -> None:
            self.pending_s += base_s * late * calls + (self.stutter.next_s(calls) if draws and calls else 0.0)
            self.on_link, self.gpu.load = link, played

        def counters() -> dict[str, float]:
            return self._counters(played, link, late) if played else {}

        check = self._picture if draws else self._check
        if not played:
            return Prepared(enqueue, check, variant="model", counters=counters)
        return Prepared(
            enqueue, check, variant=played.how, code_path=played.path, no_counters=played.plain, passes=played.passes,
            counters=counters,
        )  # fmt: skip

    def _played(self, case: Case) -> tuple[cases.SimulatedCall | None, float]:
        setting = cases.SimulationSetting(self.faults.clock, self.faults.power_cap)
        if self.faults.times != "tiles" and not setting.free:
            raise NotSupported("times=bound (and efficiency) knows no clock and no power cap; leave it out, or clock and power_cap")
        played = cases.call(case, self.spec, setting) if self.faults.times == "tiles" else None
        return played, played.seconds if played else expected_call_s(case, self.spec)

    def call_s(self, case: Case) -> float:
        """Of one call, where nothing is wrong with the card."""
        return self._played(case)[1]

    def _counters(self, played: cases.SimulatedCall, link: bool, late: float) -> dict[str, float]:
        """Of the played call as it ran: what was injected is a cause of its own, and power and clock are those of this machine."""
        if not played.counters:
            return {}
        factor, gpu = self.gpu.slowdown(link) * late, self.gpu
        watts = gpu.watts(busy=True)
        clock = {"clock_hz": gpu.clock_hz} if gpu.clock_hz else {}
        late_s = played.seconds * (factor - 1)
        injected = {"stall_s.injected": late_s} if abs(late_s) > 1e-9 * played.seconds else {}
        return {**played.counters, "power_w": watts, "energy_j": watts * played.seconds * factor, **clock, **injected}

    def _check(self) -> Check:
        self.gpu.advance(1e-3, busy=True)
        flipped = self.random.random() < self.faults.flip
        return Check(passed=not flipped, what="simulated result, one bit compared", error=float(flipped), tolerance=0.0)

    def _picture(self) -> Check:
        """A picture in which so many tiles are wrong; a flipped bit makes one wrong too."""
        self.gpu.advance(1e-3, busy=True)
        flipped = self.random.random() < self.faults.flip
        return pictures.simulated(self.faults.tiles + flipped, self.random.randrange(2**32))

    def clock_hz(self) -> float | None:
        return self.gpu.clock_hz

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        host = np.zeros(data, np.uint8) if isinstance(data, int) and data < 1 << 30 else data
        if isinstance(host, int):
            raise NotSupported("a simulated GPU keeps at most 1 GiB of real data in one buffer")
        array = np.array(host)
        return Buffer(array, array.nbytes, where, array.dtype)

    def read(self, buffer: Buffer) -> Array:
        return np.array(buffer.handle)

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        nbytes = min(to.nbytes, source.nbytes)
        to.handle.reshape(-1).view(np.uint8)[:nbytes] = source.handle.reshape(-1).view(np.uint8)[:nbytes]

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> TargetKernel:
        raise NotSupported("a simulated GPU runs no kernels; it knows the workloads of the plan")

    def _work(self, enqueue: Enqueue, calls: int) -> float:
        """The device works off these calls; the seconds it took."""
        self.pending_s, self.on_link = 0.0, False
        enqueue(calls)
        true_s = self.pending_s * self.gpu.slowdown(self.on_link) * self._noise()
        injected.strike(self.faults, self.clock.time_s + true_s)
        if self.clock.time_s + true_s > self.faults.lost:
            raise MachineError(f"{self.device.name} has fallen off the bus at {self.faults.lost:g} s (injected)")
        self.gpu.advance(true_s, busy=True)
        return true_s

    def play(self, enqueue: Enqueue, ready_s: float) -> tuple[float, float]:
        """One call, begun at `ready_s` by the device's clock or, where that is past, now: its begin and end. It idles until then."""
        self.gpu.advance(max(ready_s - self.clock.now(), 0.0), busy=False)
        began_s = self.clock.now()
        self._work(enqueue, 1)
        return began_s, self.clock.now()

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        true_s = self._work(enqueue, calls)
        self.gpu.advance(WALL_EXTRA_S, busy=False)
        wall_s = true_s + WALL_EXTRA_S if calls else WALL_EXTRA_S
        return Timing(true_s * self.faults.timer, wall_s)

    def _noise(self) -> float:
        if self.round_factor is None:  # the first sample of a process: this round's own level
            self.random = random.Random(f"{self.faults.stream} {self.device.index} {self.clock.time_s:.9f}")
            self.round_factor = math.exp(self.random.gauss(0.0, self.faults.run_noise))
        return self.round_factor * math.exp(self.random.gauss(0.0, self.faults.noise))

    def sync(self, event: bool = False) -> None:
        self.gpu.advance(WALL_EXTRA_S, busy=False)


def _working_set(case: Case) -> float:
    return work.find(case.workload).work(case.params).working_set_bytes
