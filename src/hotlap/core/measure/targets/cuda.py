"""NVIDIA GPUs through the CUDA driver: kernels by NVRTC, two streams, events, graphs, pinned memory, peers."""

from __future__ import annotations

import contextlib
import ctypes
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.targets import cuda_compile
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, SystemClock, Timing, Where
from hotlap.core.measure.targets.cuda_driver import CANNOT, REFUSED, check, count, describe, driver, elapsed_s, failure, name_of
from hotlap.core.measure.targets.cuda_kernel import CudaKernel
from hotlap.core.measure.targets.cuda_memory import CudaMemory, batch, host_bytes
from hotlap.core.record import Device

RESOLUTION_S = 0.5e-6  # of cuEventElapsedTime, from the CUDA driver API manual
GRAPHS_KEPT = 8  # recorded graphs, the latest; a long one holds memory on the device


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """Every CUDA device, in the driver's order. There are no parts and no options."""
    _no_options(part, options)
    devices = [describe(index) for index in range(count())]
    cuda_compile.fitting()  # a target without its compiler, or with one that the driver does not understand, could run next to nothing
    return devices


def open(device: Device, options: Mapping[str, str] | None = None) -> CudaTarget:
    """The device's primary context, which PyTorch shares, with two streams of its own."""
    _no_options("", options)
    return CudaTarget(device)


def _no_options(part: str, options: Mapping[str, str] | None) -> None:
    if part:
        raise InputError(f"cuda has no part '{part}'; valid: cuda (choose one device with --device)")
    if options:
        raise InputError(f"cuda takes no options, not '{next(iter(options))}'")


class CudaTarget:
    """One CUDA device, opened."""

    dialect: Literal["c"] = "c"
    library = None
    timer_resolution_s = RESOLUTION_S

    def __init__(self, device: Device) -> None:
        self.cu, self.device, self.clock = driver(), device, SystemClock()
        self.busy = False  # inside `time`: the context is current, and launches need not see to it
        self.handle = check(self.cu.cuDeviceGet(device.index), f"open device {device.index}")
        self.context = check(self.cu.cuDevicePrimaryCtxRetain(self.handle), "make a context")
        self.activate()
        apart = self.cu.CUstream_flags.CU_STREAM_NON_BLOCKING  # not ordered against the default stream of others
        self.queues = [check(self.cu.cuStreamCreate(apart), "make a stream") for _ in range(2)]
        events = [check(self.cu.cuEventCreate(0), "make an event") for _ in range(6)]
        self._start, self._end, self._fork, self._join, self._waited, self._first = events
        self._forked: Any = None  # while a batch is open: the event that the second queue has to wait for, first
        self._second_used = False  # since the last wait: an idle queue need not be waited for
        self._joining = False  # the second queue was used in this batch
        self._reached: set[int] = set()  # contexts of other devices whose memory may be used from here
        self._graphs: OrderedDict[tuple[Enqueue, int], Any] = OrderedDict()
        self.capability = int(device.facts["compute_capability"].replace(".", ""))
        names = {"fp64", "fp32", "fp16", "int32", "int8", "graph", "events", "ahead", "pinned", "two_queues"}
        names |= {"bf16"} if self.capability >= 80 else set()
        self.features = frozenset(names | ({"peer"} if device.facts.get("peers") else set()))

    def activate(self) -> None:
        """Makes this device's context the thread's current one; another target may have been used in between."""
        check(self.cu.cuCtxSetCurrent(self.context), "use the context")

    # ------------------------------------------------------------ memory

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        self.activate()
        host = None if isinstance(data, int) else np.ascontiguousarray(data).ravel()
        nbytes = data if isinstance(data, int) else int(data.nbytes)
        dtype = np.dtype(np.uint8) if host is None else host.dtype
        memory = self._on_device(nbytes, host) if where == "device" else self._on_host(nbytes, host, where)
        return Buffer(memory, nbytes, where, dtype)

    def _on_device(self, nbytes: int, host: Array | None) -> CudaMemory:
        what, queue = f"allocate {nbytes} B on {self.device.name}", self.queues[0]
        if self.device.memory_bytes is not None and nbytes > self.device.memory_bytes:
            raise NotSupported(f"{nbytes} B are more than {self.device.name} has, {self.device.memory_bytes} B")
        pointer = check(self.cu.cuMemAlloc(max(nbytes, 1)), what)
        memory = CudaMemory(int(pointer), self.context, free="cuMemFree")
        if nbytes:
            fill, source = (self.cu.cuMemsetD8Async, 0) if host is None else (self.cu.cuMemcpyHtoDAsync, host.ctypes.data)
            check(fill(pointer, source, nbytes, queue), "fill a buffer")
        check(self.cu.cuStreamSynchronize(queue), "fill a buffer")
        return memory

    def _on_host(self, nbytes: int, host: Array | None, where: Where) -> CudaMemory:
        if nbytes > (limit := host_bytes()):
            raise NotSupported(f"{nbytes} B are more than the host has, {limit} B")
        if where == "pinned":
            address = int(check(self.cu.cuMemHostAlloc(max(nbytes, 1), self.cu.CU_MEMHOSTALLOC_PORTABLE), f"pin {nbytes} B of host memory"))
            view: Array = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
            memory = CudaMemory(address, self.context, view, "cuMemFreeHost")
        else:
            try:
                view = np.empty(nbytes, np.uint8)
            except MemoryError as error:
                raise NotSupported(f"{nbytes} B do not fit the host's memory") from error
            memory = CudaMemory(view.ctypes.data, self.context, view)
        view[:] = 0 if host is None else host.view(np.uint8)
        return memory

    def read(self, buffer: Buffer) -> Array:
        self.sync()
        if buffer.handle.array is not None:
            return np.array(buffer.handle.array).view(buffer.dtype)
        out = np.empty(buffer.nbytes // buffer.dtype.itemsize, buffer.dtype)
        if out.nbytes:
            check(self.cu.cuMemcpyDtoHAsync(out.ctypes.data, buffer.handle.address, out.nbytes, self.queues[0]), "read a buffer")
            check(self.cu.cuStreamSynchronize(self.queues[0]), "read a buffer")
        return out

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        if not self.busy:
            self.activate()
        if queue == 1:
            self._enter_second()
        nbytes, stream, a, b = min(to.nbytes, source.nbytes), self.queues[queue], to.handle, source.handle
        if nbytes == 0:
            return
        if a.array is None and b.array is None:
            answer = self._between_devices(a, b, nbytes, stream)
        elif a.array is None:
            answer = self.cu.cuMemcpyHtoDAsync(a.address, b.address, nbytes, stream)
        elif b.array is None:
            answer = self.cu.cuMemcpyDtoHAsync(a.address, b.address, nbytes, stream)
        else:
            self.sync()  # host to host is no device's work
            a.array[:nbytes] = b.array[:nbytes]
            return
        if answer[0]:
            raise failure(answer[0], f"copy {nbytes} B")

    def _between_devices(self, to: CudaMemory, source: CudaMemory, nbytes: int, stream: Any) -> Any:
        if int(to.context) == int(source.context):
            return self.cu.cuMemcpyDtoDAsync(to.address, source.address, nbytes, stream)
        self._reach(source.context if int(to.context) == int(self.context) else to.context)
        return self.cu.cuMemcpyPeerAsync(to.address, to.context, source.address, source.context, nbytes, stream)

    def _reach(self, other: Any) -> None:
        """Direct access to another device's memory where the hardware has it; else the driver goes through the host."""
        if int(other) in self._reached:
            return
        result = self.cu.cuCtxEnablePeerAccess(other, 0)[0]
        if result and name_of(result) not in {*CANNOT, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"}:
            raise failure(result, "reach the other device's memory")
        self._reached.add(int(other))

    # ------------------------------------------------------------ kernels

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> CudaKernel:
        module = self._module(source, name, tuple(defines), tuple(options or ()))
        function = check(self.cu.cuModuleGetFunction(module, name.encode()), f"find the kernel '{name}'")
        with contextlib.suppress(RuntimeError, AttributeError):  # a driver or binding before CUDA 12.4 loads in the first launch
            check(self.cu.cuFuncLoad(function), f"load the kernel '{name}'")
        return CudaKernel(self, function, name)

    def _module(self, source: str, name: str, defines: tuple[str, ...], options: tuple[str, ...]) -> Any:
        """Loaded as machine code or PTX, whichever this driver takes: of another version than NVRTC it may refuse one of them."""
        first = cuda_compile.architecture(self.capability)
        what = f"load '{name}' (NVRTC {cuda_compile.version()}, driver {self.device.driver})"
        answers = []
        for arch in (first, *cuda_compile.instead_of(first, self.capability)):
            code = cuda_compile.compile_source(source, name, arch, defines, options)
            self.activate()
            answers.append(self.cu.cuModuleLoadData(code))
            if name_of(answers[-1][0]) not in REFUSED:
                return check(answers[-1], what)
        raise failure(answers[0][0], what)

    # ------------------------------------------------------------ time

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        self.activate()
        recorded = self._graph(enqueue, calls) if graph else None
        self.sync()
        with batch():
            self.busy = True
            try:
                began = self.clock.now()
                if ahead is not None:
                    check(self.cu.cuEventRecord(self._first, self.queues[0]), "record an event")
                    ahead()
                check(self.cu.cuEventRecord(self._start, self.queues[0]), "record an event")
                launched = self.clock.now()
                if graph:
                    check(self.cu.cuGraphLaunch(recorded, self.queues[0]), "launch a graph")
                else:
                    self._fill(enqueue, calls, self._start)
                host_s = self.clock.now() - launched
                if ahead is not None and self.cu.cuEventQuery(self._start)[0] != 0:
                    host_s = 0.0  # the device was still at what came ahead: it never waited for the host
                check(self.cu.cuEventRecord(self._end, self.queues[0]), "record an event")
                check(self.cu.cuEventSynchronize(self._end), "finish the batch")
                wall_s = self.clock.now() - began
            finally:
                self.busy = False
        whole_s = elapsed_s(self._first, self._end) if ahead is not None else None
        return Timing(elapsed_s(self._start, self._end), wall_s, host_s, whole_s)

    def _fill(self, enqueue: Enqueue, calls: int, fork: Any) -> None:
        """Enqueues the calls; the second queue, where they use it, starts after `fork` and ends before the batch does."""
        self._forked, self._joining = fork, False
        try:
            enqueue(calls)
            if self._joining:
                check(self.cu.cuEventRecord(self._join, self.queues[1]), "record an event")
                check(self.cu.cuStreamWaitEvent(self.queues[0], self._join, 0), "join the queues")
        finally:
            self._forked = None

    def _enter_second(self) -> None:
        self._second_used = True
        if self._forked is not None and not self._joining:
            check(self.cu.cuStreamWaitEvent(self.queues[1], self._forked, 0), "fork the queues")
            self._joining = True

    def _graph(self, enqueue: Enqueue, calls: int) -> Any:
        key = (enqueue, calls)
        if key not in self._graphs:
            self._graphs[key] = self._record(enqueue, calls)
            if len(self._graphs) > GRAPHS_KEPT:
                _, oldest = self._graphs.popitem(last=False)
                self.cu.cuGraphExecDestroy(oldest)
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def _record(self, enqueue: Enqueue, calls: int) -> Any:
        """A graph of the calls, instantiated and sent to the device, so that its replay is all that is timed."""
        cu, queue = self.cu, self.queues[0]
        self.sync()
        check(cu.cuStreamBeginCapture(queue, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED), "begin recording a graph")
        self.busy = True
        try:
            check(cu.cuEventRecord(self._fork, queue), "record an event")
            self._fill(enqueue, calls, self._fork)
        except BaseException:
            cu.cuStreamEndCapture(queue)  # else the stream stays in capture; the first error is the one to tell
            raise
        finally:
            self.busy = False
        graph = check(cu.cuStreamEndCapture(queue), "record a graph")
        try:
            recorded = check(cu.cuGraphInstantiate(graph, 0), "instantiate a graph")
        finally:
            cu.cuGraphDestroy(graph)
        check(cu.cuGraphUpload(recorded, queue), "send a graph to the device")
        return recorded

    def sync(self, event: bool = False) -> None:
        if not self.busy:
            self.activate()
        if event:
            check(self.cu.cuEventRecord(self._waited, self.queues[0]), "record an event")
            check(self.cu.cuEventSynchronize(self._waited), "wait for an event")
            return
        (result,) = self.cu.cuStreamSynchronize(self.queues[0])
        if result:
            raise failure(result, "finish the queue")
        if self._second_used:
            check(self.cu.cuStreamSynchronize(self.queues[1]), "finish the second queue")
            self._second_used = False
