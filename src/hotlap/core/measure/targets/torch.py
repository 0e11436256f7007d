"""PyTorch: CPU, CUDA, ROCm, XPU and MPS through one code path. Kernels are the library's own, through `target.library`."""

from __future__ import annotations

import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hotlap.core.errors import InputError, NotSupported, Unavailable
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, SystemClock, TargetKernel, Timing, Where
from hotlap.core.measure.targets.host import host_memory
from hotlap.core.measure.targets.sticky import refused
from hotlap.core.measure.targets.torch_device import describe, features
from hotlap.core.record import Device

PARTS = ("cuda", "xpu", "mps", "cpu")  # in order of preference when none is named; ROCm answers as cuda
EVENT_RESOLUTION_S = {"cuda": 0.5e-6, "xpu": 1e-6, "mps": 1e-6}  # CUDA's manual; the others as coarse as their clocks may be
GRAPHS_KEPT = 8


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """Every device of one part of PyTorch: cpu, cuda (ROCm too), xpu or mps; without a part, of the best one that is here."""
    _no_options(options)
    if part and part not in PARTS:
        raise InputError(f"torch has no part '{part}'; valid: {', '.join(f'torch:{p}' for p in PARTS)}")
    torch = _torch()
    part = part or next(p for p in PARTS if _count(torch, p))
    if not _count(torch, part):
        raise Unavailable(f"PyTorch {torch.__version__} sees no {part} device", _remedy(torch, part))
    return [describe(torch, part, index) for index in range(_count(torch, part))]


def _remedy(torch: Any, part: str) -> str:
    """A build for GPUs that sees none lacks the driver or is told to look away, not another build."""
    built = torch.version.cuda or torch.version.hip if part == "cuda" else None
    if not built:
        return f"install its build for {part}, or use torch:cpu"
    platform, tool = ("CUDA", "nvidia-smi") if torch.version.cuda else ("ROCm", "rocm-smi")
    return f"it is built for {platform} {built}: check {tool} and {platform.replace('ROCm', 'HIP')}_VISIBLE_DEVICES, or use torch:cpu"


def open(device: Device, options: Mapping[str, str] | None = None) -> TorchTarget:
    """The device, made PyTorch's current one, with a second stream where there are streams."""
    _no_options(options)
    return TorchTarget(_torch(), device)


def _no_options(options: Mapping[str, str] | None) -> None:
    if options:
        raise InputError(f"torch takes no options, not '{next(iter(options))}'")


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise Unavailable(f"PyTorch cannot be imported ({error})", "pip install torch") from error
    except OSError as error:  # a shared library of a GPU build that is not here
        raise Unavailable(f"PyTorch cannot load its libraries ({error})", "pip install --force-reinstall torch") from error
    return torch


def _count(torch: Any, part: str) -> int:
    if part in ("cuda", "xpu"):
        module = getattr(torch, part, None)
        return int(module.device_count()) if module is not None and module.is_available() else 0
    return int(torch.backends.mps.is_available()) if part == "mps" else 1


class TorchTarget:
    """One device of PyTorch, opened. `place` is its torch.device; `Buffer.handle` is a flat tensor.

    Queue 0 is whatever stream is current, which is where the library's operations go.
    """

    dialect: Literal["torch"] = "torch"

    def __init__(self, torch: Any, device: Device) -> None:
        self.library, self.device, self.clock = torch, device, SystemClock()
        self.place = torch.device(device.facts["place"])
        self.part: str = self.place.type
        self.module = getattr(torch, self.part)  # torch.cuda, torch.xpu, torch.mps or torch.cpu
        self.streams = self.part in ("cuda", "xpu")
        if self.streams:
            self.module.set_device(device.index)
            self.second = self.module.Stream(device=self.place)
        self._event: Any = self.module.Event if self.streams else torch.mps.event.Event
        self.features = features(torch, self.part, device)
        clock_s = time.get_clock_info("perf_counter").resolution
        self.timer_resolution_s: float = EVENT_RESOLUTION_S.get(self.part, clock_s)
        self._forked: Any = None  # while a batch is open: the event that the second queue has to wait for, first
        self._joining = False  # the second queue was used in this batch
        self._graphs: OrderedDict[tuple[Enqueue, int], Any] = OrderedDict()

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        host = None if isinstance(data, int) else np.ascontiguousarray(data).reshape(-1)
        nbytes = data if isinstance(data, int) else int(data.nbytes)
        dtype = np.dtype(np.uint8) if host is None else host.dtype
        tensor = self._allocate(nbytes, where)
        if host is None:
            tensor.zero_()
        else:
            with warnings.catch_warnings():  # the source is only read from, so that it may be read-only
                warnings.simplefilter("ignore", UserWarning)
                tensor.copy_(self.library.from_numpy(host.view(np.uint8)))
        return Buffer(self._typed(tensor, dtype), nbytes, where, dtype)

    def _allocate(self, nbytes: int, where: Where) -> Any:
        pinned, on_host = where == "pinned", where != "device" or self.part == "cpu"
        if pinned and not self.streams:
            raise NotSupported(f"PyTorch pins no memory for {self.part}")
        available = host_memory("MemAvailable") if on_host else self.device.memory_bytes
        if available is not None and nbytes > available:  # the host's allocator would promise what it does not have
            raise NotSupported(f"{nbytes} B do not fit: {available} B of {'host' if on_host else 'device'} memory")
        try:
            place = self.library.device("cpu") if on_host else self.place
            return self.library.empty(nbytes, dtype=self.library.uint8, device=place, pin_memory=pinned)
        except RuntimeError as error:
            raise refused(error, f"{nbytes} B do not fit") from error

    def _typed(self, tensor: Any, dtype: np.dtype[Any]) -> Any:
        """The bytes as PyTorch's type of the same name, where it and the device have one."""
        kind = getattr(self.library, dtype.name, None)
        if not isinstance(kind, self.library.dtype) or (self.part == "mps" and dtype.name == "float64"):
            return tensor
        return tensor.view(kind)

    def read(self, buffer: Buffer) -> Array:
        self.sync()
        octets: Array = buffer.handle.view(self.library.uint8).cpu().numpy()
        return np.array(octets).view(buffer.dtype)

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        a, b = to.handle, source.handle
        if to.nbytes != source.nbytes or a.dtype != b.dtype:
            nbytes = min(to.nbytes, source.nbytes)
            a, b = (t.view(self.library.uint8)[:nbytes] for t in (a, b))
        if queue == 0 or not self.streams:
            a.copy_(b, non_blocking=True)
            return
        if self._forked is not None and not self._joining:
            self.second.wait_event(self._forked)
            self._joining = True
        with self.module.stream(self.second):
            a.copy_(b, non_blocking=True)

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> TargetKernel:
        raise NotSupported(f"PyTorch runs its own operations, not '{name}' in C; the targets cuda and opencl do")

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        recorded = self._graph(enqueue, calls) if graph else None
        self.sync()
        if "events" not in self.features:
            began = self.clock.now()
            enqueue(calls)
            self.sync()
            return Timing(None, self.clock.now() - began)
        first, start, end = (self._event(enable_timing=True) for _ in range(3))
        began = self.clock.now()
        if ahead is not None:
            first.record()
            ahead()
        start.record()
        launched = self.clock.now()
        if recorded is not None:
            recorded.replay()
        else:
            self._fill(enqueue, calls, start)
        host_s = self.clock.now() - launched
        if ahead is not None and not start.query():
            host_s = 0.0  # the device was still at what came ahead: it never waited for the host
        end.record()
        self.sync()  # all streams: work on one that the end does not wait for makes the wall clock disagree with the events
        wall_s = self.clock.now() - began
        whole_s = float(first.elapsed_time(end)) * 1e-3 if ahead is not None else None
        return Timing(float(start.elapsed_time(end)) * 1e-3, wall_s, host_s, whole_s)

    def _fill(self, enqueue: Enqueue, calls: int, fork: Any) -> None:
        """Enqueues the calls; the second queue, where they use it, starts after `fork` and ends before the batch does."""
        self._forked, self._joining = fork, False
        try:
            enqueue(calls)
            if self._joining:
                self.module.current_stream(self.place).wait_stream(self.second)
        finally:
            self._forked = None

    def _graph(self, enqueue: Enqueue, calls: int) -> Any:
        if "graph" not in self.features:
            raise NotSupported(f"PyTorch records no graphs on {self.part}")
        key = (enqueue, calls)
        if key not in self._graphs:
            self._graphs[key] = self._record(enqueue, calls)
            if len(self._graphs) > GRAPHS_KEPT:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def _record(self, enqueue: Enqueue, calls: int) -> Any:
        """A graph of the calls, which are not run by this. The library of matrix products starts up outside of it."""
        cuda, graph, side = self.library.cuda, self.library.cuda.CUDAGraph(), self.library.cuda.Stream(device=self.place)
        with cuda.stream(side):
            one = self.library.ones((16, 16), device=self.place)
            self.library.matmul(one, one)
        self.sync()
        current = cuda.current_stream(self.place)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*CUDA Graph is empty.*")  # calls = 0 asks for just that
                with cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                    fork = cuda.Event()
                    fork.record()
                    self._fill(enqueue, calls, fork)
        except RuntimeError as error:
            raise refused(error, "PyTorch could not record a graph") from error
        finally:
            cuda.set_stream(current)  # a capture that fails leaves its own stream as the current one
        return graph

    def sync(self, event: bool = False) -> None:
        if self.part == "cpu":
            return  # its operations have ended when they return
        if event and self.streams:
            mark = self.module.Event()
            mark.record()
            mark.synchronize()
        elif self.streams:
            self.module.synchronize(self.place)
        else:
            self.library.mps.synchronize()
