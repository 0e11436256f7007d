"""GPU performance monitoring of NVML, on Hopper and later: averages over the time between two samples.

`utilization.sm` share of SMs that were busy, `utilization.warps` share of the warps that could be resident, `utilization.tensor`
share of time with tensor operations, `utilization.dram` share of the memory bandwidth; shares of 1. It needs neither DCGM's
daemon nor counters that a profiler holds by the driver's profiling interface. It is all the same left alone while a profiler
runs, because both program the same hardware counters; HOTLAP_GPM=0 switches it off.
"""

from __future__ import annotations

import os
import time
import weakref
from typing import Any

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Reading

METRICS = {  # sensor: NVML_GPM_METRIC_*, factor
    "utilization.sm": (2, 1e-2),
    "utilization.warps": (3, 1e-2),
    "utilization.tensor": (5, 1e-2),
    "utilization.dram": (10, 1e-2),
    "pcie_bytes_per_s.sent": (20, 2**20),  # MiB/s
    "pcie_bytes_per_s.received": (21, 2**20),
    "nvlink_bytes_per_s.received": (60, 2**20),
    "nvlink_bytes_per_s.sent": (61, 2**20),
}
SHORTEST_S = 0.1  # between two samples
LOOK_S = 10.0  # between two looks for a profiler
PROFILERS = ("ncu", "nsys", "nv-nsight-cu-cli", "nvprof", "nsight-sys", "dcgmproftester")  # beginnings of names of programs
INJECTED = "CUDA_INJECTION64_PATH"  # set by profilers in what they start
SWITCH = "HOTLAP_GPM"


class Gpm:
    """Raises NotSupported or NVMLError from its constructor where there is none."""

    def __init__(self, binding: Any, handle: Any, tree: FileTree | None = None) -> None:
        self.n, self.h, self.tree = binding, handle, tree or FileTree()
        if os.environ.get(SWITCH) == "0":
            raise NotSupported(f"switched off by {SWITCH}=0")
        if not binding.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise NotSupported("the device has no performance monitoring by NVML; it came with Hopper")
        self.looked_s, self.profiler = float("-inf"), ""
        self.samples: list[Any] = []
        self.end = weakref.finalize(self, _free, binding, self.samples)
        self.samples += [binding.nvmlGpmSampleAlloc() for _ in range(2)]
        self.taken_s: float | None = None  # when samples[0] was filled; None: never, or spoilt
        self._begin()

    def read(self, device: str, time_s: float) -> list[Reading]:
        """One reading a metric; none at all within 0.1 s of the last. Raises MachineError beside a profiler, and NVMLError."""
        now = time.monotonic()
        self._look(now)
        if self.profiler:
            self.taken_s = None
            raise MachineError(f"left to the profiler that runs ({self.profiler})")
        if self.taken_s is None:
            self._begin()
            return []
        window_s = now - self.taken_s
        if window_s < SHORTEST_S:
            return []
        try:
            self.n.nvmlGpmSampleGet(self.h, self.samples[1])
            answers = self._metrics()
        except self.n.NVMLError:
            self.taken_s = None
            raise
        self.samples.reverse()
        self.taken_s = now
        return [self._reading(name, answers[i], (device, time_s, window_s)) for i, name in enumerate(METRICS)]

    def _begin(self) -> None:
        self._look(time.monotonic())
        if not self.profiler:
            self.n.nvmlGpmSampleGet(self.h, self.samples[0])
            self.taken_s = time.monotonic()

    def _metrics(self) -> Any:
        asked = self.n.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = self.n.NVML_GPM_METRICS_GET_VERSION, len(METRICS)
        asked.sample1, asked.sample2 = self.samples
        for i, (number, _) in enumerate(METRICS.values()):
            asked.metrics[i].metricId = number
        return self.n.nvmlGpmMetricsGet(asked).metrics

    def _reading(self, name: str, answer: Any, about: tuple[str, float, float]) -> Reading:
        device, time_s, window_s = about
        if answer.nvmlReturn:
            lacking = answer.nvmlReturn in (2, 3)
            reason = "the device does not have this metric" if lacking else f"NVML: error {answer.nvmlReturn}"
            return Reading(sensor=name, device=device, time_s=time_s, status="not_supported" if lacking else "error", reason=reason)
        value = float(answer.value) * METRICS[name][1]
        if not 0 <= value < float("inf"):
            return Reading(sensor=name, device=device, time_s=time_s, status="error", reason=f"no number of this metric: {answer.value}")
        return Reading(sensor=name, device=device, time_s=time_s, value=value, window_s=window_s)

    def _look(self, now: float) -> None:
        if now - self.looked_s >= LOOK_S:
            self.looked_s, self.profiler = now, profiler(self.tree)


def profiler(tree: FileTree) -> str:
    """The profiler that runs on this machine, as far as its processes can be seen; "" for none."""
    if os.environ.get(INJECTED):
        return f"{INJECTED} is set"
    for path in tree.glob("proc/[0-9]*/comm"):
        name = tree.text(path)
        if name.startswith(PROFILERS):
            return f"{name}, process {path.split('/')[1]}"
    return ""


def _free(binding: Any, samples: list[Any]) -> None:
    for sample in samples:
        try:
            binding.nvmlGpmSampleFree(sample)
        except Exception:  # at the interpreter's end the library may be gone
            return
