"""What a profiler would have recorded of a program on a simulated GPU: a trace in Kineto's JSON, kernels at the card's own times.

A program is written as calls of `Program`: operators that launch kernels, waits, steps. The host's clock runs ahead of the device's
until it waits; a kernel begins when its launch has reached the device and the kernel before it is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotlap.core.errors import MachineError
from hotlap.core.measure.targets.base import Prepared
from hotlap.core.measure.targets.simulated import WALL_EXTRA_S, SimulatedTarget
from hotlap.core.record import Case

OPERATOR_S = 4e-6  # of the host for an operator beside its launch: assumed, of the size PyTorch shows
PID, THREAD, STREAM = 1, 1, 7
LEAST_KERNEL_S = 1e-6  # the shortest that a kernel takes on its own: assumed, of the size NVIDIA GPUs show


class SimulatedProgram:
    """A program on one simulated GPU, recorded as it goes. Times are seconds of the card's clock."""

    def __init__(self, target: SimulatedTarget, operator_s: float = OPERATOR_S) -> None:
        self.target, self.operator_s = target, operator_s
        self.host_s = self.done_s = target.clock.now()
        self.began_s = self.host_s
        self.events: list[dict[str, Any]] = []
        self.prepared: dict[str, Prepared] = {}
        self.launches = self.steps = 0

    def launch(self, operator: str, kernel: str, case: Case) -> None:
        """An operator that launches one kernel, which does the work of `case` once."""
        if case.id not in self.prepared:
            self.prepared[case.id] = self.target.prepare(case)
        self.launches += 1
        number, began = self.launches, self.host_s
        called = began + self.operator_s / 2
        returned = called + self.target.launch_s
        ready = max(returned + self.target.reach_s, self.done_s + self.target.turn_s if self.launches > 1 else 0.0)
        start, end = self.target.play(self.prepared[case.id].enqueue, ready)
        short = LEAST_KERNEL_S - (end - start)
        if short > 0:  # a case's time may be its share of a long launch
            self.target.gpu.advance(short, busy=True)
            end += short
        self.done_s = end
        self.host_s = returned + self.operator_s / 2
        self._event("cpu_op", operator, began, self.host_s, **{"External id": number})
        self._event("cuda_runtime", "cudaLaunchKernel", called, returned, correlation=number, **{"External id": number})
        self._event("kernel", kernel, start, end, device=0, stream=STREAM, correlation=number, **{"External id": number})

    def synchronise(self, around: str = "") -> None:
        """The host waits until the device has done all; `around` is the operator that does it, such as aten::item."""
        began, called = self.host_s, self.host_s + (self.operator_s / 2 if around else 0.0)
        returned = max(called, self.done_s) + WALL_EXTRA_S
        self.launches += 1
        self._event("cuda_runtime", "cudaDeviceSynchronize", called, returned, correlation=self.launches)
        self.host_s = returned + (self.operator_s / 2 if around else 0.0)
        if around:
            self._event("cpu_op", around, began, self.host_s)

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of the program."""
        number, began = self.steps, self.host_s
        self.steps += 1
        yield
        self._event("user_annotation", f"ProfilerStep#{number}", began, self.host_s)

    def write(self, path: Path) -> None:
        """The trace; raises MachineError when the system refuses."""
        device = self.target.device
        text = json.dumps({
            "schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 0,
            "deviceProperties": [{"id": 0, "name": device.name, "numSms": device.compute_units, "totalGlobalMem": device.memory_bytes}],
            "hotlap": {"recorded": "simulated", "device": device.uuid, "injected": device.facts.get("injected", {})},
            "traceEvents": self.events,
        })  # fmt: skip
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None

    def _event(self, category: str, name: str, began_s: float, ended_s: float, **args: int) -> None:
        place = {"pid": 0, "tid": args["stream"]} if category == "kernel" else {"pid": PID, "tid": THREAD}
        since = round((began_s - self.began_s) * 1e6, 3)
        length = round((ended_s - self.began_s) * 1e6, 3) - since
        self.events.append({"ph": "X", "cat": category, "name": name, **place, "ts": since, "dur": round(length, 3), "args": args})
