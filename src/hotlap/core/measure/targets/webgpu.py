"""WebGPU through wgpu: Vulkan, Metal or Direct3D 12, whatever adapter is found. Kernels are in WGSL (`targets.wgsl`).

Two traps are handled here. Drivers' timestamps may be no times at all (Mesa's software adapter shows 4 ms for a pass of 442 ms): they are
checked against the wall clock when a device is opened, and refused by themselves. `on_submitted_work_done` of wgpu 0.32 raises: waiting
is done by reading four bytes.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from hotlap.core.errors import DoesNotCompile, InputError, MachineError, NotSupported, Unavailable
from hotlap.core.measure.targets import wgsl
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, SystemClock, Timing, Where, cpu_cache_bytes
from hotlap.core.measure.targets.host import host_memory
from hotlap.core.measure.targets.sticky import ended, sticky
from hotlap.core.record import Device

KINDS: Mapping[str, Literal["gpu", "cpu"]] = {"DiscreteGPU": "gpu", "IntegratedGPU": "gpu", "VirtualGPU": "gpu", "CPU": "cpu"}
PARTS = ("", "gpu", "cpu")
WANTED = ("timestamp-query", "timestamp-query-inside-encoders", "pipeline-statistics-query", "float32-blendable", "float32-filterable")
LIMITS = ("max-buffer-size", "max-storage-buffer-binding-size", "max-texture-dimension-2d", "max-texture-array-layers",
          "max-compute-workgroup-size-x", "max-compute-invocations-per-workgroup", "max-color-attachment-bytes-per-sample")  # fmt: skip
UNSUBMITTED = 512  # commands that wait before they are submitted
BINDINGS = 64  # of a kernel that are kept
TRIAL_S, TRIALS = 0.02, 3  # of the timer's check
HONEST = (0.95, 1.02)  # device timer ÷ wall clock: the best trial's at least, for submitting takes a part; no trial's more
SPIN_TURNS = 50_000
SPIN = """
KERNEL spin(out: write f32, loops: u32) {
    var x = f32(ID % 7u) * 0.1;
    for (var l = 0u; l < loops; l++) { x = x * 0.999 + 0.001; }
    out[ID % arrayLength(&out)] = x;
}
"""
LLVMPIPE_TURNS = 65_535  # Mesa's lp_limits.h, LP_MAX_TGSI_LOOP_ITERATIONS: it leaves the loops of a work-item after so many turns, silently


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """Every adapter, GPUs first. `part` is gpu or cpu (software adapters), or empty for all."""
    _no_options(options)
    if part not in PARTS:
        raise InputError(f"webgpu has no part '{part}'; valid: webgpu, webgpu:gpu, webgpu:cpu")
    chosen = [device for device in map(_describe, _adapters(), range(len(_adapters()))) if part in ("", device.kind)]
    if not chosen:
        raise Unavailable(f"wgpu finds no {'software adapter' if part == 'cpu' else 'GPU'} here", "hotlap devices lists what there is")
    return chosen


def open(device: Device, options: Mapping[str, str] | None = None) -> WebGpuTarget:
    """The adapter's device, its timer checked."""
    _no_options(options)
    found = _adapters()
    if device.index >= len(found):
        raise Unavailable(f"the adapter {device.name} has vanished", "hotlap devices lists what there is")
    return WebGpuTarget(found[device.index], device)


def _no_options(options: Mapping[str, str] | None) -> None:
    if options:
        raise InputError(f"webgpu takes no options, not '{next(iter(options))}'")


@functools.cache
def _wgpu() -> Any:
    try:
        import wgpu
        import wgpu.backends.wgpu_native as native
    except Exception as error:  # its library is loaded here, and fails in many ways
        raise Unavailable(f"wgpu cannot be imported ({_line(error)})", "pip install wgpu") from error
    os.environ.setdefault("NODEVICE_SELECT", "1")  # a layer of Mesa that complains to stderr where there is no display
    with suppress(RuntimeError):  # the process has used wgpu before
        native.extras.set_instance_extras(backends=["Primary"])  # Vulkan, Metal, Direct3D 12: OpenGL would show the same device again
    return wgpu


@functools.cache
def _adapters() -> list[Any]:
    """Raises Unavailable."""
    gpu = _wgpu().gpu
    try:
        adapters = [one for one in gpu.enumerate_adapters_sync() if one.info["backend_type"] not in ("OpenGL", "OpenGLES")]
    except Exception as error:  # drivers raise kinds of their own
        raise Unavailable(f"wgpu's adapters cannot be listed ({_line(error)})", "hotlap devices lists what else there is") from error
    if not adapters:
        driver = "install a driver of Vulkan, Metal or Direct3D 12; without a GPU: apt-get install mesa-vulkan-drivers"
        raise Unavailable("wgpu finds no adapter", driver)
    return sorted(adapters, key=lambda one: ("DiscreteGPU", "IntegratedGPU").index(one.info["adapter_type"]) if _is_gpu(one) else 2)


def _is_gpu(adapter: Any) -> bool:
    return adapter.info["adapter_type"] in ("DiscreteGPU", "IntegratedGPU")


def _describe(adapter: Any, index: int) -> Device:
    """What WebGPU tells, which is little: no memory, no compute units, no clock. A software adapter is this host."""
    info, limits = adapter.info, adapter.limits
    software = info["adapter_type"] == "CPU"
    return Device(
        target="webgpu", index=index, name=info["device"].strip() + (", a software adapter" if software else ""),
        kind=KINDS.get(info["adapter_type"], "other"), vendor=info["vendor"].strip(),
        driver=f"{info['backend_type']} {info['description']}".strip(), memory_bytes=host_memory() if software else None,
        compute_units=os.cpu_count() if software else None, cache_bytes=cpu_cache_bytes() if software else None,
        facts={
            "backend": info["backend_type"], "software": software, "wgpu": _wgpu().__version__, "vector_bytes": 16,
            "max_group": int(limits["max-compute-invocations-per-workgroup"]),
        } | ({"most_turns": LLVMPIPE_TURNS} if "llvmpipe" in info["device"] else {}),
    )  # fmt: skip


class WebGpuKernel:
    """A kernel with its pipelines, one for each size of a group."""

    def __init__(self, target: WebGpuTarget, source: wgsl.WgslSource, name: str) -> None:
        self.target, self.source, self.name = target, source, name
        kinds = ["read-only-storage" if access == "read" else "storage" for access in source.buffers]
        kinds += ["uniform"] if source.scalars else []
        entries = [{"binding": n, "visibility": target.flags.ShaderStage.COMPUTE, "buffer": {"type": kind}} for n, kind in enumerate(kinds)]
        self.layout = target.raw.create_bind_group_layout(entries=entries)
        self.pipelines: dict[int, Any] = {}
        self.bound: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        target.shader(source.sized(1), name)  # refused here, and not at its first call

    def _pipeline(self, group: int) -> Any:
        if group not in self.pipelines:
            module = self.target.shader(self.source.sized(group), self.name)
            layout = self.target.raw.create_pipeline_layout(bind_group_layouts=[self.layout])
            stage = {"module": module, "entry_point": wgsl.ENTRY}
            self.pipelines[group] = self.target.raw.create_compute_pipeline(layout=layout, compute=stage)
        return self.pipelines[group]

    def _bindings(self, buffers: Sequence[Buffer], scalars: bytes) -> Any:
        """The bind group of these arguments, made once."""
        key = (*(id(one.handle) for one in buffers), scalars)
        if key not in self.bound:
            if len(self.bound) >= BINDINGS:
                self.bound.clear()
            handles = [one.handle for one in buffers]
            if scalars:
                handles.append(self.target.uniform(scalars))
            entries = [{"binding": n, "resource": {"buffer": one, "offset": 0, "size": one.size}} for n, one in enumerate(handles)]
            self.bound[key] = (self.target.raw.create_bind_group(layout=self.layout, entries=entries), handles)
        return self.bound[key][0]

    def __call__(self, items: int, group: int, *args: Buffer | np.generic) -> None:
        buffers = [one for one in args if isinstance(one, Buffer)]
        if len(buffers) != len(self.source.buffers):
            raise NotSupported(f"the kernel takes {len(self.source.buffers)} buffers, not {len(buffers)}")
        self.target.binds(buffers)
        scalars = self.source.packed([one for one in args if not isinstance(one, Buffer)])
        self.target.dispatch(self._pipeline(group), self._bindings(buffers, scalars), -(-items // group))


class WebGpuTarget:
    """One adapter, opened."""

    dialect: Literal["wgsl"] = "wgsl"
    library = None

    def __init__(self, adapter: Any, device: Device) -> None:
        self.wgpu, self.device, self.clock = _wgpu(), device, SystemClock()
        self.flags = self.wgpu
        self.extras = frozenset(set(WANTED) & set(adapter.features))
        self.limits = {name: adapter.limits[name] for name in LIMITS}
        try:
            self.raw = adapter.request_device_sync(required_features=sorted(self.extras), required_limits=self.limits)
        except Exception as error:  # drivers raise kinds of their own
            raise Unavailable(f"{device.name} cannot be opened ({_line(error)})", "hotlap devices lists what else there is") from error
        self.queue = self.raw.queue
        self._encoder: Any = None
        self._pass: Any = None
        self._waiting = 0
        self._cell = self._allocated(4)
        self.timer_resolution_s = time.get_clock_info("perf_counter").resolution
        self._stamps: Any = None  # a query set, where timestamps are used
        self._resolved: Any = None
        software = bool(device.facts.get("software"))  # its timestamps are of this host's own clock, and of no use beside it
        self.timer_refused = "a software adapter has no timer of its own" if software else self._timer_fault()
        self.features = frozenset({"fp32", "int32"} if self.timer_refused else {"fp32", "int32", "events"})

    # ------------------------------------------------------------ memory

    def _allocated(self, nbytes: int) -> Any:
        usage = self.flags.BufferUsage
        return self.raw.create_buffer(size=max(-(-nbytes // 4) * 4, 4), usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)

    def uniform(self, content: bytes) -> Any:
        """A small buffer of scalars."""
        usage = self.flags.BufferUsage
        handle = self.raw.create_buffer(size=-(-len(content) // 16) * 16, usage=usage.UNIFORM | usage.COPY_DST)
        self.queue.write_buffer(handle, 0, content)
        return handle

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        nbytes = data if isinstance(data, int) else data.nbytes
        dtype = np.dtype(np.uint8) if isinstance(data, int) else data.dtype
        if where == "pinned":
            raise NotSupported("WebGPU has no pinned memory that both sides use")
        try:
            if where == "pageable":
                return Buffer(np.zeros(nbytes, np.uint8) if isinstance(data, int) else np.array(data), nbytes, where, dtype)
            if nbytes > self.limits["max-buffer-size"]:
                raise NotSupported(f"{nbytes} B are more than the adapter's largest buffer, {self.limits['max-buffer-size']} B")
            handle = self._allocated(nbytes)
            if isinstance(data, int):
                self.encoder().clear_buffer(handle)
            elif nbytes:
                self.queue.write_buffer(handle, 0, _padded(data))
            self.sync()
            return Buffer(handle, nbytes, where, dtype)
        except (MemoryError, self.wgpu.GPUError) as error:
            raise (ended(error) if sticky(error) else NotSupported(f"{nbytes} B do not fit the {where} memory ({_line(error)})")) from error

    def binds(self, buffers: Sequence[Buffer]) -> None:
        """Raises NotSupported for a buffer that is larger than a kernel may see."""
        most = self.limits["max-storage-buffer-binding-size"]
        largest = max((one.nbytes for one in buffers), default=0)
        if largest > most:
            raise NotSupported(f"{largest} B are more than a kernel of this adapter may see of one buffer, {most} B")

    def read(self, buffer: Buffer) -> Array:
        self.sync()
        if buffer.where != "device":
            return np.array(buffer.handle)
        return np.frombuffer(self.queue.read_buffer(buffer.handle), np.uint8)[: buffer.nbytes].view(buffer.dtype).copy()

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        """Between device buffers enqueued; to and from the host WebGPU's queue does it by itself, from the device it waits."""
        nbytes = min(to.nbytes, source.nbytes)
        whole = nbytes // 4 * 4
        if to.where == source.where == "device":
            if whole:
                self.encoder().copy_buffer_to_buffer(source.handle, 0, to.handle, 0, whole)
            if whole < nbytes:
                self._patch(to, self._bytes(source)[whole:nbytes], whole)
        elif to.where == "device":
            self.submit()
            if whole:
                self.queue.write_buffer(to.handle, 0, self._bytes(source)[:whole])
            if whole < nbytes:
                self._patch(to, self._bytes(source)[whole:nbytes], whole)
        else:
            self._bytes(to)[:nbytes] = self._bytes(source)[:nbytes]

    def _bytes(self, buffer: Buffer) -> Array:
        """The host's own, or a copy of the device's."""
        if buffer.where != "device":
            return buffer.handle.reshape(-1).view(np.uint8)  # type: ignore[no-any-return]
        return self.read(buffer).view(np.uint8)

    def _patch(self, to: Buffer, tail: Array, at: int) -> None:
        """Fewer than four bytes: WebGPU writes whole words."""
        self.sync()
        word = np.frombuffer(self.queue.read_buffer(to.handle, at, 4), np.uint8).copy()
        word[: len(tail)] = tail
        self.queue.write_buffer(to.handle, at, word)

    # ------------------------------------------------------------ commands

    def encoder(self) -> Any:
        """The one that commands are put into, outside of a pass."""
        self._end_pass()
        if self._waiting >= UNSUBMITTED:
            self.submit()
        if self._encoder is None:
            self._encoder = self.raw.create_command_encoder()
        self._waiting += 1
        return self._encoder

    def _end_pass(self) -> None:
        if self._pass is not None:
            self._pass.end()
            self._pass = None

    def dispatch(self, pipeline: Any, bindings: Any, groups: int) -> None:
        """Enqueues one kernel."""
        if groups > 65535:
            raise NotSupported(f"{groups} groups are more than WebGPU starts at once, 65535")
        if self._pass is None:
            self._pass = self.encoder().begin_compute_pass()
        self._pass.set_pipeline(pipeline)
        self._pass.set_bind_group(0, bindings)
        self._pass.dispatch_workgroups(groups)
        self._waiting += 1
        if self._waiting >= UNSUBMITTED:
            self.submit()

    def submit(self) -> None:
        """Hands over what was encoded, without waiting."""
        self._end_pass()
        if self._encoder is not None:
            encoder, self._encoder, self._waiting = self._encoder, None, 0
            self.queue.submit([encoder.finish()])

    def sync(self, event: bool = False) -> None:
        """Waits by reading four bytes after all that was submitted."""
        self.submit()
        try:
            self.queue.read_buffer(self._cell)
        except self.wgpu.GPUError as error:
            raise MachineError(f"{self.device.name} is lost ({_line(error)})") from error

    def shader(self, text: str, name: str) -> Any:
        """A module. Raises DoesNotCompile with the first error."""
        try:
            return self.raw.create_shader_module(code=text)
        except self.wgpu.GPUError as error:
            reason = _line(error, "Shader ''")
            raise DoesNotCompile(f"the kernel '{name}' does not compile: {reason}") from error

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> WebGpuKernel:
        return WebGpuKernel(self, wgsl.taken(source, name, defines), name)

    # ------------------------------------------------------------ time

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        if graph:
            raise NotSupported("WebGPU records no graphs of compute work")
        self.sync()
        stamped = self._stamps is not None
        start = self.clock.now()
        if stamped:
            self.wgpu.backends.wgpu_native.extras.write_timestamp(self.encoder(), self._stamps, 0)
        enqueue(calls)
        if stamped:
            self.wgpu.backends.wgpu_native.extras.write_timestamp(self.encoder(), self._stamps, 1)
        self.sync()
        wall_s = self.clock.now() - start
        return Timing(self._stamped_s() if stamped else None, wall_s)

    def _stamped_s(self) -> float:
        usage = self.flags.BufferUsage
        if self._resolved is None:
            self._resolved = self.raw.create_buffer(size=256, usage=usage.QUERY_RESOLVE | usage.COPY_SRC)
        self.encoder().resolve_query_set(self._stamps, 0, 2, self._resolved, 0)
        self.submit()
        begin, end = np.frombuffer(self.queue.read_buffer(self._resolved, 0, 16), np.uint64)
        return float(int(end) - int(begin)) * 1e-9

    def _timer_fault(self) -> str:
        """Why the device's timestamps are not used, "" where they agree with the wall clock over kernels of some milliseconds."""
        if not {"timestamp-query", "timestamp-query-inside-encoders"} <= self.extras:
            return "the adapter has no timestamps"
        self._stamps = self.raw.create_query_set(type="timestamp", count=2)
        self.timer_resolution_s = 1e-6
        kernel, out = self.kernel(SPIN, "spin"), self.buffer(2**16)
        items, took_s = 16, 0.0

        def spin(_: int) -> None:
            kernel(items, 64, out, np.uint32(SPIN_TURNS))

        self.time(spin, 1)  # drivers compile at the first call
        while took_s < TRIAL_S and items < 2**21:
            items *= 4
            took_s = self.time(spin, 1).wall_s
        trials = [self.time(spin, 1) for _ in range(TRIALS)]
        ratio = max((one.device_s or 0.0) / one.wall_s for one in trials)
        if HONEST[0] <= ratio <= HONEST[1]:
            return ""
        self._stamps, self.timer_resolution_s = None, time.get_clock_info("perf_counter").resolution
        return f"the adapter's timestamps show {ratio:.2g} times the wall clock over kernels of {took_s * 1e3:.0f} ms"


def _padded(data: Array) -> Array:
    """The bytes, up to a whole word."""
    raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.concatenate([raw, np.zeros(-len(raw) % 4, np.uint8)]) if len(raw) % 4 else raw


def _line(error: BaseException, sign: str = "") -> str:
    """The line of a driver's message that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    best = next((line.removeprefix(sign).strip() for line in lines if sign and line.startswith(sign)), lines[-1] if lines else "no message")
    return best[:200]
