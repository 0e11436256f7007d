"""The contract of a target: a place where code runs, with a clock of its own.

A target module has `find() -> list[Device]` (raises Unavailable: the reason, and what would mend it) and
`open(device, options) -> Target`. A Target has six methods; `dialect` says what its kernels are written in:

    c       kernel source in the common C dialect of `workloads/kernels` (OpenCL C, CUDA C++)
    wgsl    kernel source in WGSL (webgpu)
    torch   PyTorch operations, through `target.library`
    host    none: programs and callables run as they are (host)
    model   none: the target answers from the model (simulated)

Queue 0 is the default; a second queue is there for transfers that run at the same time.
"""

from __future__ import annotations

import re
import threading
import time as _time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Check, Device, Notice

Where = Literal["device", "pinned", "pageable"]
Array = NDArray[Any]
Enqueue = Callable[[int], None]
"""Puts n calls on the device's queue without waiting for them."""
Ahead = Callable[[], None]
"""Puts what is to be done before a batch on the same queue, without waiting for it."""


class Clock(Protocol):
    """The run's only time. Real targets share the operating system's monotonic clock; a simulated GPU has its own."""

    def now(self) -> float:
        """Seconds, monotonic, from any start."""

    def sleep(self, seconds: float) -> None:
        """Lets time pass."""

    def every(self, period_s: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls `call` every `period_s` until the returned function is called."""


class SystemClock:
    """The operating system's monotonic clock; the same in every process of the machine."""

    now = staticmethod(_time.perf_counter)
    sleep = staticmethod(_time.sleep)

    def every(self, period_s: float, call: Callable[[], None]) -> Callable[[], None]:
        done = threading.Event()

        def loop() -> None:
            due = _time.perf_counter()
            while not done.wait(max(due - _time.perf_counter(), 0.0)):
                call()
                due = max(due + period_s, _time.perf_counter())

        thread = threading.Thread(target=loop, name="hotlap-sampler", daemon=True)
        thread.start()

        def stop() -> None:
            done.set()
            thread.join(timeout=5.0)

        return stop


def cpu_cache_bytes(root: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """All instances of the processor's last level of cache together, as Linux describes them; None where it does not."""
    sizes: dict[tuple[int, str], int] = {}
    for folder in root.glob("cpu[0-9]*/cache/index*"):
        try:
            level, shared = int((folder / "level").read_text()), (folder / "shared_cpu_list").read_text().strip()
            sizes[level, shared] = int((folder / "size").read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last) or None


def mig_profile(name: str) -> str:
    """The profile of a MIG slice, as the driver's name of it ends: 1g.10gb. "" for a whole GPU."""
    found = re.search(r" MIG ((?:\d+c\.)?\d+g\.\d+gb\S*)$", name)
    return found[1] if found else ""


@dataclass(frozen=True)
class Timing:
    """One batch. `device_s` is by the device's own timer, None where it has none; `wall_s` by the target's clock, from
    before the first command to after the last one has ended. Where something was enqueued ahead of the batch, `wall_s` and
    `whole_s` hold it too, `device_s` does not."""

    device_s: float | None
    wall_s: float
    host_s: float | None = None  # that the host took to enqueue the calls; 0: the device had other work meanwhile; None: not known
    whole_s: float | None = None  # by the device's timer, over what `wall_s` covers; None: as device_s


class Seen(NamedTuple):
    """What ran beside one sample; "" is nothing. `share` orders disturbed samples: waiting ÷ the sample's length."""

    cause: str = ""
    share: float = 0.0


@dataclass
class Buffer:
    """Memory of a target; `handle` is the target's own object. It is touched (every page written) when made."""

    handle: Any
    nbytes: int
    where: Where
    dtype: np.dtype[Any]


@dataclass
class Prepared:
    """A case, ready to run on a target: memory allocated, touched and filled with fresh random input."""

    enqueue: Enqueue  # n calls, not waiting
    check: Callable[[], Check]  # against a reference; called after the samples were taken
    timer: Literal["device", "wall"] = "device"
    graph: bool = False  # time a recorded graph of the calls
    batch: int | None = None  # fixed number of calls in a sample; None: sized by the timer's resolution
    multiple: int = 1  # calls in a sample are a multiple of this (calls that share one launch)
    variant: str = ""  # what was chosen for this device
    code_path: str = ""  # as in Samples
    no_counters: str = ""  # as in Samples
    passes: int = 1  # calls that share one launch
    operations: float | None = None  # of one call, where rounding made it differ from the case's work
    flush: Ahead | None = None  # empties the caches before every sample (cache = cold)
    capture: bool = False  # replays of a recorded graph do the same work, and leave what the check needs
    host_part: bool = False  # the host's part of a call belongs to its time: copies of pageable memory
    rotation: int = 1  # sets of inputs that calls go round: a recorded batch holds each of them
    counters: Callable[[], dict[str, float]] | None = None  # of one call, as in Samples; called after the samples were taken
    before: Callable[[], None] | None = None  # called before every sample, outside the timed region, and before `flush`
    after: Callable[[], None] | None = None  # called right after every sample
    metrics: Callable[[], dict[str, float]] | None = None  # other numbers of the case; called after the check
    notices: Callable[[], list[Notice]] | None = None  # what the case has to say of itself; called after the check
    helpers: tuple[int, ...] = ()  # processes beside this one that do a part of a call
    close: Callable[[], None] | None = None  # called when the case is over, however it ended
    keep: list[object] = field(default_factory=list)  # whatever must live as long


class TargetKernel(Protocol):
    """A compiled kernel. Scalars are NumPy scalars, so that their width is known."""

    def __call__(self, items: int, group: int, *args: Buffer | np.generic) -> None:
        """Enqueues `items` work-items in groups of `group`, without waiting."""


class Target(Protocol):
    """Where code runs: one device, opened."""

    @property
    def device(self) -> Device: ...

    @property
    def dialect(self) -> Literal["c", "wgsl", "torch", "host", "model"]: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def timer_resolution_s(self) -> float:
        """Of the device timer, or of the clock where it has none."""

    @property
    def features(self) -> frozenset[str]:
        """What cases may need: fp64 fp32 tf32 fp16 bf16 fp8 int8 int32 graph events pinned two_queues; and
        ahead: `time` takes work to be enqueued ahead of the batch."""

    @property
    def library(self) -> Any:
        """torch for the torch dialect, the target itself for the model dialect, else None."""

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        """Memory holding `data`, or that many bytes of zeros. Raises NotSupported when it does not fit."""

    def read(self, buffer: Buffer) -> Array:
        """The buffer's content on the host, after all that was enqueued."""

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        """Enqueues a copy of the whole of the smaller one; does not wait."""

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> TargetKernel:
        """Compiles `source` (dialects c and wgsl) with `defines` ("T=float16"). `options` of the compiler (OpenCL, CUDA); None: those of
        our own kernels, [] its defaults. Raises DoesNotCompile with the compiler's first error."""

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        """Runs `enqueue(calls)` on an idle device and waits. `calls` may be 0: the cost of timing itself.
        With `graph`, one recorded graph of `calls` calls is replayed once; NotSupported where there are none. What `ahead` enqueues
        comes first, in the same go, so that the device is not idle when the batch begins; only with the feature of that name."""

    def sync(self, event: bool = False) -> None:
        """Waits for every queue; with `event`, records an event on queue 0 and waits for that alone."""
