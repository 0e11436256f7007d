"""A program on a host and one accelerator, event by event, and the file that a profiler would write of it.

Times are in µs. A kernel starts 1 µs after its stream's last work ended, and 2 µs after its launch returned at the earliest. The driver
keeps at most 1,000 launches; then a launch waits (CUDA does at about 1,024). The queue model is a fresh reader's. The format is Chrome's
trace format as PyTorch's profiler writes it (github.com/pytorch/kineto, libkineto/README.md; categories and arguments as in published traces).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

A100 = {"name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108, "maxThreadsPerMultiprocessor": 2048}
H200 = {"name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
MI300X = {"name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "numSms": 304, "maxThreadsPerMultiprocessor": 2048}
GAP_US, LAUNCH_US, WAKE_US, QUEUE = 1.0, 2.0, 3.0, 1000
HOST_PID = 4000
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Program:
    """`now` is the host's clock, `free` when each stream is done; `skew` is what this rank's clock is ahead in the file."""

    def __init__(self, rank: int = 0, ranks: int = 1, skew: float = 0.0, gpu: dict[str, Any] = H200) -> None:
        self.rank, self.ranks, self.skew, self.gpu = rank, ranks, skew, gpu
        self.vendor = "hip" if "AMD" in gpu.get("name", "") else "cuda"
        self.now = self.began = 1_000_000.0
        self.thread = 1
        self.free: dict[int, float] = {}
        self.ends: list[float] = []  # of launched work, in order
        self.events: list[dict[str, Any]] = []
        self.correlation, self.external = 1000, [0]
        self.about: dict[str, Any] = {}  # more for the head of the file

    def add(self, cat: str, name: str, row: int | str, start: float, length: float, **args: Any) -> None:
        pid: int | str = self.rank if cat in ON_DEVICE else HOST_PID + self.rank
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": row, "ts": start, "dur": length, "args": args})

    def host(self, us: float) -> None:
        """Time of the host without any event."""
        self.now += us

    @contextmanager
    def operator(self, name: str, before: float = 0.0, after: float = 0.0, cat: str = "cpu_op", **args: Any) -> Iterator[None]:
        """An operator, and its own time before and after what it calls."""
        start, thread = self.now, self.thread
        self.external.append(len(self.events) + 5_000)
        self.now += before
        yield
        self.now += after
        self.add(cat, name, thread, start, self.now - start, **{"External id": self.external.pop(), **args})

    def leaf(self, name: str, us: float, cat: str = "cpu_op", **args: Any) -> None:
        """An operator or marker that calls nothing."""
        with self.operator(name, us, 0.0, cat, **args):
            pass

    def step(self, number: int) -> Any:
        return self.operator(f"ProfilerStep#{number}", cat="user_annotation")

    def call(self, name: str, us: float, **args: Any) -> None:
        """A call of the driver."""
        self.correlation += 1
        self.add("cuda_runtime", name, self.thread, self.now, us, correlation=self.correlation, **args)
        self.now += us

    def work(self, cat: str, name: str, us: float, stream: int = 7, start: float | None = None, **args: Any) -> None:
        """What the call before it put on a stream."""
        begins = max(self.free.get(stream, 0.0) + GAP_US, self.now + LAUNCH_US) if start is None else start
        self.free[stream] = begins + us
        self.ends.append(begins + us)
        ids = {"stream": stream, "device": self.rank, "correlation": self.correlation, "External id": self.external[-1]}
        self.add(cat, name, stream, begins, us, **ids, **args)

    def kernel(self, name: str, us: float, stream: int = 7, call: float = 5.0, start: float | None = None, **args: Any) -> None:
        """A launch, and its kernel; `grid` and `block` among the arguments are numbers of blocks and threads."""
        takes = max(call, self.ends[-QUEUE] - self.now) if len(self.ends) >= QUEUE else call
        self.call(f"{self.vendor}LaunchKernel", takes)
        shape = {"grid": [args.pop("grid", 264), 1, 1], "block": [args.pop("block", 256), 1, 1]}
        self.work("kernel", name, us, stream, start, **shape, **args)

    def copy(self, kind: str, size: int, us: float, stream: int = 7, call: float = 5.0, block: bool = False) -> None:
        """A copy of `size` bytes; where it blocks, the call returns when it is done."""
        start = max(self.free.get(stream, 0.0) + GAP_US, self.now + call + LAUNCH_US)
        self.call(f"{self.vendor}MemcpyAsync", start + us + LAUNCH_US - self.now if block else call)
        self.work("gpu_memcpy", f"Memcpy {kind}", us, stream, start, bytes=size)

    def graph(self, kernels: Sequence[tuple[str, float]], grid: int = 264) -> None:
        """One launch of a CUDA graph, whose kernels follow each other."""
        self.call("cudaGraphLaunch", 12.0)
        for name, us in kernels:
            self.work("kernel", name, us, grid=[grid, 1, 1], block=[256, 1, 1])

    def inflight(self, name: str, us: float, count: int, stream: int = 7) -> None:
        """Kernels launched before the trace began: no call of theirs is in it."""
        for _ in range(count):
            self.correlation += 1
            self.work(
                "kernel",
                name,
                us,
                stream,
                max(self.free.get(stream, self.began - GAP_US) + GAP_US, self.began),
                grid=[264, 1, 1],
                block=[256, 1, 1],
            )

    def wait(self, name: str = "StreamSynchronize", until: float | None = None) -> None:
        """The host waits for all of its work, or until a moment."""
        done = max(self.free.values(), default=0.0) if until is None else until
        self.call(f"{self.vendor}{name}", max(done + WAKE_US - self.now, 2.0))

    def item(self) -> None:
        """`tensor.item()`: four bytes to the host, and a wait."""
        with self.operator("aten::item", 1, 1), self.operator("aten::_local_scalar_dense", 1, 1):
            self.copy("DtoH (Device -> Pageable)", 4, 1, call=6)
            self.wait()

    def end(self) -> Program:
        self.wait("DeviceSynchronize")
        return self

    @property
    def length(self) -> float:
        """µs from the first event's begin to the last one's end."""
        timed = [event for event in self.events if "dur" in event]
        return max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed)

    def save(self, path: Path, leave_out: str = "") -> None:
        """`leave_out`: what the profiler does not record: "calls" of the driver, or all of the "host"."""
        kept = [event for event in self.events if not (leave_out == "host" and event["cat"] not in ON_DEVICE)]
        kept = [event for event in kept if not (leave_out and event["cat"] == "cuda_runtime")]
        moved = [
            event | {"ts": round(event["ts"] + self.skew, 3)} | ({"dur": round(event["dur"], 3)} if "dur" in event else {})
            for event in kept
        ]
        device = any(event["cat"] in ON_DEVICE for event in kept)
        about: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [self.gpu | {"id": self.rank}] if device and self.gpu else []}
        if self.ranks > 1:
            group = {
                "pg_name": "0",
                "pg_desc": "default_pg",
                "backend_config": "cuda:nccl",
                "ranks": list(range(self.ranks)),
                "pg_size": self.ranks,
            }
            about["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.ranks, "pg_config": [group]}
        path.write_text(json.dumps(about | self.about | {"traceEvents": moved}), encoding="utf-8")


def collective(name: str, size: int, count: int, dtype: str = "BFloat16", width: int = 2) -> dict[str, Any]:
    """The arguments that PyTorch writes to a collective's kernel; `size` in bytes."""
    return {
        "Collective name": name, "dtype": dtype, "In msg nelems": size // width, "Out msg nelems": size // width, "Group size": count,
        "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": str(list(range(count))),
    }  # fmt: skip
