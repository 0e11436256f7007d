"""What ran beside a sample and was not ours: the reasons for which a sample is taken again. Never the sample's own time.

    run_delay   threads of this process waited for a processor, and not behind threads of their own (/proc/self/task/*/schedstat)
    processor   others ran, and with our threads there were more than the machine has cores (/proc/loadavg): our threads waited, or
                two threads of one core slow each other down
    process     another process had work on the GPU
    brake       the GPU was slowed down from outside: power brake, hardware slowdown

Throttling by the load itself (power cap, heat) is what the device does under this load: it stays in the numbers and is a flag.
Where nothing can be watched (no /proc, as on macOS and in some containers) `watch` says why, and no sample is replaced.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from hotlap.core.measure.machine.cpu import describe
from hotlap.core.measure.sensors import cpu_clock
from hotlap.core.measure.sensors.base import THROTTLE
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.measure.targets.base import Seen, Target

WAKING_S = 20e-6  # that a thread on an idle core waits for it each time it is woken, at most
WAITED_SHARE, WAITED_S = 0.01, 50e-6  # of a sample, beyond waking: below both together the wait changes nothing
BUSY_SHARE = 0.5  # of a sample's time that makes a thread count as running in it
RELIST = 32  # samples after which threads are listed anew
MOST_CLOCKS = 4  # cores whose clock is read; one reading takes about 1 ms of each
CROWD = 0.25  # of a core, by which others may use the one that a program needs
POLL_S = 0.01  # between two looks while waiting for others to end
EXTERNAL = sum(bit for bit, name in THROTTLE.items() if name in ("hardware slowdown", "hardware power brake"))
UNDISTURBED = Seen()
Latest = Callable[[str], float | None]
"""The last value of a sensor; None where there is none."""


class ForeignWatch(Protocol):
    """Looks beside each sample, outside of its timed region."""

    why_not: str  # why nothing can be watched; "" where it can

    def begin(self) -> None: ...

    def join(self, helpers: Sequence[int]) -> None:
        """Processes that belong to the samples to come, and are no others; none are left of former ones."""

    def end(self, wall_s: float) -> Seen: ...

    def wait(self, seconds: float) -> float:
        """Waits until nothing foreign runs, at most so long; the seconds it took."""

    def steal(self) -> float | None:
        """Share of the processors' time that the hypervisor gave to others since the last call; None where it is not counted."""

    def others(self) -> float | None:
        """Processors that other processes used on average since the last call; None where it is not counted."""

    def crowded(self) -> bool:
        """Whether, since the last call of `others`, other processes left less than a core to a program of this one."""


@dataclass
class Nothing:
    """Where nothing can be watched, or nothing need be: a simulated device."""

    why_not: str = ""

    def begin(self) -> None:
        return

    def join(self, helpers: Sequence[int]) -> None:
        return

    def end(self, wall_s: float) -> Seen:
        return Seen()

    def wait(self, seconds: float) -> float:
        return 0.0

    def steal(self) -> float | None:
        return None

    def others(self) -> float | None:
        return None

    def crowded(self) -> bool:
        return False


def beside(target: Target, latest: Latest = lambda _: None) -> ForeignWatch:
    """What to look at beside the samples of a target. `latest`: what a sensor of a GPU showed last."""
    if target.dialect == "model":
        return getattr(target.library, "watch", None) or ForeignDevice(latest=latest)
    return ForeignDevice(latest=latest) if target.device.kind != "cpu" else ForeignHost()


def clock_beside(target: Target, watch: ForeignWatch) -> Callable[[], float | None]:
    """How the clock is measured between samples: of a CPU's cores that carry the load; a simulated device knows its own."""
    if target.dialect == "model":
        return target.library.clock_hz  # type: ignore[no-any-return]
    if isinstance(watch, ForeignHost):
        return lambda: cpu_clock.of_cores(target.clock, watch.loaded()[:MOST_CLOCKS])
    return lambda: None


class _Ticks(NamedTuple):
    """Of all processors since the machine started, and of this process; in seconds."""

    busy: float
    steal: float
    all: float
    own: float


def _close_files(files: Mapping[str, int]) -> None:
    for file in files.values():
        with suppress(OSError):
            os.close(file)


@dataclass
class ForeignHost:
    """The processors of a Linux host, and what runs on them beside this process."""

    root: Path = Path("/proc")
    why_not: str = ""
    files: dict[str, int] = field(default_factory=dict)  # thread → its open schedstat
    before: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    running: int = 0
    for_steal: _Ticks | None = None
    for_others: _Ticks | None = None
    cores: int = 0  # physical ones: two threads of one core slow each other down
    processors: int = 0  # logical ones
    since: int = 0  # samples since the threads were listed
    helpers: Sequence[int] = ()  # other processes that do a part of the work
    busy: list[str] = field(default_factory=list)  # threads that ran during most of the last sample

    def __post_init__(self) -> None:
        self.cores = self.cores or describe(FileTree(str(self.root.parent))).cores or os.cpu_count() or 1
        self.processors = self.processors or os.cpu_count() or 1
        self.for_steal = self.for_others = self._ticks()
        weakref.finalize(self, _close_files, self.files)
        self.why_not = "" if self._threads() else f"{self.root}/self/task/*/schedstat cannot be read: no sample is replaced"

    def join(self, helpers: Sequence[int]) -> None:
        if self.helpers or helpers:
            self.helpers, self.since = helpers, 0

    def begin(self) -> None:
        if self.since % RELIST == 0:
            self._threads()
        self.since += 1
        self.before = self._read()
        self.running = self._others_running()

    def end(self, wall_s: float) -> Seen:
        now, running = self._read(), self._others_running()
        ran_s, waited_s = dict[str, float](), dict[str, float]()
        for thread, (ran, delayed, slices) in now.items():
            ran_before, delayed_before, slices_before = self.before.get(thread, (ran, delayed, slices))
            ran_s[thread] = ran - ran_before
            waited_s[thread] = max(delayed - delayed_before - WAKING_S * (slices - slices_before), 0.0)
        self.busy = [thread for thread, ran in ran_s.items() if ran >= BUSY_SHARE * wall_s]
        allowed_s, waited = WAITED_SHARE * wall_s + WAITED_S, sum(waited_s.values())
        if waited > allowed_s and (behind_others := self._behind_others(ran_s, waited_s)) > allowed_s:
            return Seen("run_delay", behind_others / max(wall_s, 1e-9))
        others, needed = min(self.running, running), max(round((sum(ran_s.values()) + waited) / max(wall_s, 1e-9)), 1)
        slowed = waited > allowed_s or self.processors > self.cores
        return Seen("processor") if others and slowed and needed + others > self.cores else Seen()

    def _behind_others(self, ran_s: Mapping[str, float], waited_s: Mapping[str, float]) -> float:
        """What of the waiting was not for threads of our own: one waits for those that ran on its processor."""
        places = {thread: self._processor(thread) for thread, ran in ran_s.items() if ran or waited_s[thread]}
        total = 0.0
        for thread in places:
            own = sum(ran_s[other] for other, place in places.items() if other != thread and place == places[thread])
            total += max(waited_s[thread] - own, 0.0)
        return total

    @property
    def _needed(self) -> int:
        """Processors that the last sample kept busy."""
        return max(len(self.busy), 1)

    def loaded(self) -> list[int]:
        """The processors that the busy threads of the last sample ran on; [] where that is not known."""
        return sorted({place for thread in self.busy if (place := self._processor(thread)) is not None})

    def _processor(self, thread: str) -> int | None:
        """The processor that a thread ran on last."""
        with suppress(OSError, ValueError, IndexError):
            return int((self.root / self._folder(thread) / "stat").read_text().rpartition(")")[2].split()[36])
        return None

    def wait(self, seconds: float) -> float:
        began = time.perf_counter()
        quiet = 0
        while quiet < 3 and time.perf_counter() - began < seconds:
            time.sleep(POLL_S)
            quiet = 0 if self._needed + self._others_running() > self.cores else quiet + 1
        return time.perf_counter() - began

    def steal(self) -> float | None:
        before, self.for_steal = self.for_steal, self._ticks()
        if before is None or self.for_steal is None or self.for_steal.all <= before.all:
            return None
        return (self.for_steal.steal - before.steal) / (self.for_steal.all - before.all)

    def others(self) -> float | None:
        before, self.for_others = self.for_others, self._ticks()
        if before is None or self.for_others is None or self.for_others.all <= before.all:
            return None
        used = (self.for_others.busy - before.busy) - (self.for_others.own - before.own)
        return max(used, 0.0) / (self.for_others.all - before.all) * (os.cpu_count() or 1)

    def crowded(self) -> bool:
        return (self.others() or 0.0) > self.cores - 1 + CROWD

    def _threads(self) -> bool:
        """Opens what threads there are; those that ended fail when they are read."""
        try:
            here = set(os.listdir(self.root / "self/task"))
        except OSError:
            return False
        for helper in self.helpers:
            with suppress(OSError):
                here |= {f"{helper}/task/{thread}" for thread in os.listdir(self.root / f"{helper}/task")}
        for gone in self.files.keys() - here:
            os.close(self.files.pop(gone))
        for new in here - self.files.keys():
            with suppress(OSError):
                self.files[new] = os.open(self.root / self._folder(new) / "schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return bool(self.files)

    def _folder(self, thread: str) -> str:
        """Of a thread in /proc; those of helpers are known by it."""
        return thread if "/" in thread else f"self/task/{thread}"

    def _read(self) -> dict[str, tuple[float, float, float]]:
        """Of each thread: seconds run, seconds waited for a processor, turns."""
        found = {}
        for thread, file in self.files.items():
            with suppress(OSError, ValueError):
                ran, delayed, slices = os.pread(file, 96, 0).split()
                found[thread] = (int(ran) * 1e-9, int(delayed) * 1e-9, float(slices))
        return found

    def _others_running(self) -> int:
        """Threads on a processor or waiting for one, but for the one that asks."""
        with suppress(OSError, ValueError, IndexError):
            return max(int((self.root / "loadavg").read_text().split()[3].partition("/")[0]) - 1, 0)
        return 0

    def _ticks(self) -> _Ticks | None:
        try:
            fields = [float(one) for one in (self.root / "stat").read_text().partition("\n")[0].split()[1:9]]
        except (OSError, ValueError):
            return None
        if len(fields) < 8:
            return None
        user, nice, system, idle, waiting, irq, soft, steal = (one / os.sysconf("SC_CLK_TCK") for one in fields)
        busy = user + nice + system + irq + soft
        own = os.times()
        mine = own.user + own.system + own.children_user + own.children_system + sum(map(self._used, self.helpers))
        return _Ticks(busy, steal, busy + idle + waiting + steal, mine)

    def _used(self, helper: int) -> float:
        """Seconds of processors that a process used."""
        with suppress(OSError, ValueError, IndexError):
            user, system = (self.root / f"{helper}/stat").read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return 0.0


@dataclass
class ForeignDevice(Nothing):
    """A GPU, by what its sensors read last."""

    latest: Latest = lambda _: None
    before: Seen = field(default_factory=Seen)

    def begin(self) -> None:
        self.before = self._now()

    def end(self, wall_s: float) -> Seen:
        return self.before if self.before.cause else self._now()

    def _now(self) -> Seen:
        if (self.latest("processes") or 0.0) > 0:
            return Seen("process", 1.0)
        return Seen("brake", 1.0) if int(self.latest("throttle") or 0.0) & EXTERNAL else UNDISTURBED
