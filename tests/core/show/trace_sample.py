"""A small trace made by hand: steps with a wait for data, operators and their kernels, a wait for the device, communication; one slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STEPS, SLOW = 6, 4
STEP_US, SLOW_US = 10_000, 21_000
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>>(int, float)"


class Making:
    """Events in the making, with correlations counted."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "thread 100 (python)"}},
        ]
        self.correlation = 0

    def host(self, cat: str, name: str, ts: float, dur: float, **args: Any) -> None:
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": 100, "ts": ts, "dur": dur, "args": args})

    def launch(self, operator: str, name: str, ts: float, work: tuple[float, float], stream: int = 7, cat: str = "kernel") -> None:
        """An operator of 400 µs, its call, and the work that it launched."""
        self.correlation += 1
        correlation = self.correlation
        self.host("cpu_op", operator, ts, 400, **{"External id": correlation, "Call stack": "train.py(12): step;torch/nn/functional.py(3): f"})
        self.host("cuda_runtime", "cudaLaunchKernel" if cat == "kernel" else "cudaMemcpyAsync", ts + 50, 10, correlation=correlation)
        args = {"device": 0, "stream": stream, "correlation": correlation}
        if cat == "kernel":
            args |= {"grid": [8, 1, 1], "block": [128, 1, 1], "registers per thread": 32, "shared memory": 0}
        else:
            args |= {"bytes": 1 << 20}
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": work[0], "dur": work[1], "args": args})


def events() -> list[dict[str, Any]]:
    making = Making()
    at = 1000.0
    for step in range(STEPS):
        length = SLOW_US if step == SLOW else STEP_US
        making.host("user_annotation", f"ProfilerStep#{step}", at, length - 100)
        making.host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 50, length - 7000)
        begin = at + length - 6800
        making.launch("aten::copy_", "Memcpy HtoD (Pageable -> Device)", begin, (begin + 70, 500), cat="gpu_memcpy")
        for i in range(4):
            making.launch("aten::add", KERNEL, begin + 600 + 500 * i, (begin + 680 + 500 * i, 300))
        making.launch("nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", begin + 2700, (begin + 2800, 1500), stream=20)
        making.host("cpu_op", "aten::item", begin + 3200, 1300)
        making.host("cuda_runtime", "cudaStreamSynchronize", begin + 3210, 1100)
        at += length
    return making.events


def write(path: Path) -> Path:
    said = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Sample GPU", "numSms": 8, "computeMajor": 9, "computeMinor": 0}],
        "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2}, "traceEvents": events(),
    }  # fmt: skip
    path.write_text(json.dumps(said), encoding="utf-8")
    return path
