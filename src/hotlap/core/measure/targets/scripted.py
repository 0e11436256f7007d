"""No device at all: what each call takes, by either timer, stands in a file. To test what makes numbers of timings, to the digit.

`scripted:script.json`: for each workload a page per round, on each page a step per sample; the last page, and the last step of a page,
are repeated. Batches multiply a step by their calls. Time passes only when something is timed. No other target is exact: even the
simulated GPU has a model behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from hotlap.core.errors import InputError, MachineError, NotSupported
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, Prepared, Seen, TargetKernel, Timing, Where
from hotlap.core.measure.targets.virtual_clock import VirtualClock
from hotlap.core.record import Case, Check, Device, Record


class ScriptedStep(Record, frozen=True, kw_only=True):
    """One sample."""

    device_s: float | None = None  # of one call, by the device's timer; None: it has none
    wall_s: float | None = None  # of one call, by the wall clock; None: as the device's
    late_s: float = 0.0  # that the wall clock shows beside the calls: a scheduler's delay, once per sample
    clock_hz: float | None = None  # from this sample on
    foreign: Literal["", "run_delay", "processor", "process", "brake"] = ""  # what runs beside it
    waited: float = 0.0  # share of the sample that our threads waited for a processor
    error: str = ""  # the call fails with these words


class Page(Record, frozen=True, kw_only=True):
    """One case in one round."""

    steps: list[ScriptedStep]
    right: bool = True  # the answer
    error: float = 1.0  # of a wrong one, against 0.5 allowed
    steal: float | None = None
    others: float | None = None
    quiet_after_s: float = 0.0  # waiting so long for others ends what is foreign


class Script(Record, frozen=True, kw_only=True):
    """Everything that will happen."""

    cases: dict[str, list[Page]]  # workload → a page per round
    device_overhead_s: float = 0.0  # of timing nothing
    wall_overhead_s: float = 0.0
    resolution_s: float = 1e-9
    kind: Literal["gpu", "cpu"] = "gpu"


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """One device for a script that can be read. Raises InputError for anything else."""
    if not part:
        raise InputError("scripted needs a file, as in scripted:script.json; docs/simulated.md describes it")
    if options:
        raise InputError(f"scripted takes no option '{next(iter(options))}'; all stands in the file")
    script = _read(part)
    return [Device(target="scripted", index=0, name=Path(part).name, kind=script.kind, driver="script", facts={"script": part})]


def _read(part: str) -> Script:
    try:
        return msgspec.json.decode(Path(part).read_bytes(), type=Script)
    except OSError as error:
        raise InputError(f"the script '{part}' cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise InputError(f"the script '{part}' is no script: {error}") from None


def open(device: Device, options: Mapping[str, str] | None = None) -> ScriptedTarget:
    """The script, at its first page."""
    return ScriptedTarget(device, _read(str(device.facts["script"])))


class ScriptedTarget:
    """A target that does what its script says. Its `library` is itself: it prepares any case."""

    dialect: Literal["model"] = "model"
    features = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int32", "graph", "events", "pinned", "two_queues"})

    def __init__(self, device: Device, script: Script) -> None:
        self.device, self.script, self.clock = device, script, VirtualClock()
        self.timer_resolution_s, self.library, self.watch = script.resolution_s, self, ScriptedWatch(self)
        self.round, self.place, self.quiet = 0, 0, False
        self.page = Page(steps=[ScriptedStep(device_s=1e-3)])

    def turn_to(self, number: int) -> None:
        """The pages of this round."""
        self.round = number

    def prepare(self, case: Case) -> Prepared:
        """Raises NotSupported for a workload that is not in the script."""
        pages = self.script.cases.get(case.workload)
        if not pages:
            raise NotSupported(f"the script has no pages for '{case.workload}'")
        self.page, self.place, self.quiet = pages[min(self.round, len(pages) - 1)], 0, False
        return Prepared(lambda _: None, self._check, variant="scripted")

    @property
    def step(self) -> ScriptedStep:
        """The one of the next sample."""
        return self.page.steps[min(self.place, len(self.page.steps) - 1)]

    def _check(self) -> Check:
        error = 0.0 if self.page.right else self.page.error
        return Check(passed=self.page.right, what="scripted answer", error=error, tolerance=0.5)

    def clock_hz(self) -> float | None:
        return self.step.clock_hz

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        if not calls:
            self.clock.sleep(self.script.wall_overhead_s)
            return Timing(self.script.device_overhead_s, self.script.wall_overhead_s)
        step = self.step
        if step.error:
            raise MachineError(step.error)
        wall_s = step.wall_s if step.wall_s is not None else step.device_s or 0.0
        passed_s = wall_s * calls + step.late_s + self.script.wall_overhead_s
        self.clock.sleep(passed_s)
        device_s = None if step.device_s is None else step.device_s * calls + self.script.device_overhead_s
        return Timing(device_s, passed_s)

    def turn_over(self) -> None:
        """The step is over: the next sample is the next one."""
        self.place += 1

    def sync(self, event: bool = False) -> None:
        return

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        raise NotSupported("a script has no memory")

    def read(self, buffer: Buffer) -> Array:
        raise NotSupported("a script has no memory")

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        raise NotSupported("a script has no memory")

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> TargetKernel:
        raise NotSupported("a script runs no kernels")


class ScriptedWatch:
    """What runs beside the samples, as the script says. `end` turns over to the next step: sizing a batch uses none up."""

    why_not = ""

    def __init__(self, target: ScriptedTarget) -> None:
        self.target = target

    def begin(self) -> None:
        return

    def join(self, helpers: Sequence[int]) -> None:
        return

    def end(self, wall_s: float) -> Seen:
        step, quiet = self.target.step, self.target.quiet
        self.target.turn_over()
        return Seen() if quiet else Seen(step.foreign, step.waited)

    def wait(self, seconds: float) -> float:
        waited_s = min(seconds, self.target.page.quiet_after_s or seconds)
        self.target.clock.sleep(waited_s)
        self.target.quiet = 0 < self.target.page.quiet_after_s <= seconds
        return waited_s

    def steal(self) -> float | None:
        return self.target.page.steal

    def others(self) -> float | None:
        return self.target.page.others

    def crowded(self) -> bool:
        return False
