"""OpenCL: any vendor's driver. PoCL on the CPU comes with `pip install 'pyopencl[pocl]'` and is the embedded default."""

from __future__ import annotations

import functools
import importlib.resources
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from hotlap.core.errors import DoesNotCompile, InputError, NotSupported, Unavailable
from hotlap.core.measure.targets import opencl_link, pocl_cpu
from hotlap.core.measure.targets.base import Ahead, Array, Buffer, Enqueue, SystemClock, Timing, Where, cpu_cache_bytes
from hotlap.core.record import Device

BUILD = ("-cl-fast-relaxed-math", "-cl-mad-enable")  # of our own kernels
POCL = "Portable Computing Language"
_compiled_for: dict[int, str] = {}  # by address of the device: the x86-64 level of its code, where PoCL has no name for it


def find(part: str = "", options: Mapping[str, str] | None = None) -> list[Device]:
    """Every OpenCL device, GPUs first. `part` is cpu or gpu, or empty for all."""
    _no_options(options)
    if part not in ("", "cpu", "gpu"):
        raise InputError(f"opencl has no part '{part}'; valid: opencl, opencl:cpu, opencl:gpu")
    found = sorted(raw_devices(), key=lambda d: d.type != _cl().device_type.GPU)
    devices = [_describe(d, i) for i, d in enumerate(found)]
    chosen = [d for d in devices if part in ("", d.kind)]
    if not chosen:
        raise Unavailable(f"OpenCL has no {part or 'device'} here", "hotlap devices lists what there is")
    return chosen


def open(device: Device, options: Mapping[str, str] | None = None) -> OpenClTarget:
    """A context and two profiling queues on the device."""
    _no_options(options)
    found = sorted(raw_devices(), key=lambda d: d.type != _cl().device_type.GPU)
    if device.index >= len(found):
        raise Unavailable(f"the OpenCL device {device.name} has vanished", "hotlap devices lists what there is")
    return OpenClTarget(found[device.index], device)


def _no_options(options: Mapping[str, str] | None) -> None:
    if options:
        raise InputError(f"opencl takes no options, not '{next(iter(options))}'")


@functools.cache
def _cl() -> Any:
    """The package, with the one thing that would abort the process looked for first."""
    try:
        import pyopencl
    except ImportError as error:
        raise Unavailable(f"pyopencl cannot be imported ({error})", "pip install 'pyopencl[pocl]'") from error
    return pyopencl


@functools.cache
def raw_devices() -> list[Any]:
    """The driver's devices, of pyopencl. Raises Unavailable."""
    cl = _cl()
    if shutil.which("ld") is None:
        raise Unavailable("PoCL needs the linker 'ld' and would abort the process without it", "apt-get install binutils")
    opencl_link.supply()
    _bind_threads()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise Unavailable(f"no OpenCL driver answers ({error})", "pip install 'pyopencl[pocl]' brings one for the CPU") from error
    devices: dict[tuple[str, str, str], Any] = {}
    for platform in platforms:
        try:
            for device in platform.get_devices():
                if devices.setdefault(_identity(platform, device), device) is device and POCL in platform.name:
                    _compiled_for[device.int_ptr] = pocl_cpu.name_processor(device.int_ptr)
        except cl.Error:
            continue  # a driver without a device
    return list(devices.values())


def _bind_threads() -> None:
    """PoCL's threads, one to each processor, as STREAM is run: else Linux may leave two of them on one, at half the speed. The
    environment of who calls goes first; where not all processors are ours, PoCL would bind to those that are not."""
    with suppress(AttributeError):  # no affinity, as on macOS
        if os.sched_getaffinity(0) == set(range(os.cpu_count() or 1)):
            os.environ.setdefault("POCL_AFFINITY", "1")


def _identity(platform: Any, device: Any) -> tuple[str, str, str]:
    """Two PoCL installations show the same processor twice: one of them is enough."""
    if POCL in platform.name:
        return (POCL, str(device.type), "")
    return (platform.name, device.name, str(device.int_ptr))


def _describe(device: Any, index: int) -> Device:
    cl = _cl()
    kinds: dict[int, Literal["gpu", "cpu"]] = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    kind: Literal["gpu", "cpu", "other"] = kinds.get(device.type & (cl.device_type.GPU | cl.device_type.CPU), "other")
    return Device(
        target="opencl", index=index, name=device.name.strip(), kind=kind, vendor=device.vendor.strip(),
        uuid=_ask(device, "uuid_khr", lambda u: _uuid(device.vendor, bytes(u).hex())), pci_address=_ask(device, "pci_bus_info_khr", _pci),
        driver=f"{device.platform.name.strip()} {device.driver_version}".strip(), memory_bytes=int(device.global_mem_size),
        compute_units=int(device.max_compute_units), clock_max_hz=device.max_clock_frequency * 1e6 or None,
        cache_bytes=_llc_bytes(device, kind), facts={
            "opencl": device.version.strip(), "extensions": _extensions(device),
            "vector_bytes": 4 * max(int(device.native_vector_width_float), 1), "max_group": int(device.max_work_group_size),
        } | ({"compiled_for": _compiled_for[device.int_ptr]} if _compiled_for.get(device.int_ptr) else {}),
    )


def _ask(device: Any, name: str, show: Any) -> str:
    """A fact behind an extension; PoCL gives all of its devices one UUID made of zeros, which is none."""
    try:
        text = str(show(getattr(device, name)))
    except Exception:  # pyopencl raises several kinds for a query that the driver does not know
        return ""
    return "" if not text.strip("0:.-") or POCL in device.platform.name else text


def _uuid(vendor: str, digits: str) -> str:
    """As every other tool spells it, so that one GPU has one key in all targets."""
    text = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return f"GPU-{text}" if "nvidia" in vendor.lower() else text


def _pci(info: Any) -> str:
    return f"{info.pci_domain:04x}:{info.pci_bus:02x}:{info.pci_device:02x}.{info.pci_function}"


def _llc_bytes(device: Any, kind: str) -> int | None:
    size = int(device.global_mem_cache_size)
    return max(size, cpu_cache_bytes() or 0) if kind == "cpu" else size or None  # PoCL reports what hwloc finds; sysfs knows more


def _extensions(device: Any) -> list[str]:
    return sorted(set(device.extensions.split()) & {"cl_khr_fp64", "cl_khr_fp16", "cl_khr_int64_base_atomics", "cl_khr_command_buffer"})


@functools.cache
def prelude() -> str:
    return (importlib.resources.files("hotlap.core.measure.targets") / "prelude" / "opencl.c").read_text()


class OpenClKernel:
    """A kernel with its queue; arguments are set at each call."""

    def __init__(self, target: OpenClTarget, kernel: Any) -> None:
        self.target, self.kernel = target, kernel

    def __call__(self, items: int, group: int, *args: Buffer | np.generic) -> None:
        self.kernel.set_args(*(a.handle if isinstance(a, Buffer) else a for a in args))
        self.target.note(self.target.cl.enqueue_nd_range_kernel(self.target.queues[0], self.kernel, (items,), (group,)))


class OpenClTarget:
    """One OpenCL device, opened."""

    dialect: Literal["c"] = "c"
    library = None

    def __init__(self, raw: Any, device: Device) -> None:
        self.cl, self.raw, self.device, self.clock = _cl(), raw, device, SystemClock()
        self.context = self.cl.Context([raw])
        profiling = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queues = [self.cl.CommandQueue(self.context, properties=profiling) for _ in range(2)]
        self.timer_resolution_s = max(float(raw.profiling_timer_resolution), 1.0) * 1e-9
        extensions = device.facts.get("extensions", [])
        names = {"events", "pinned", "int8", "int32", "two_queues"}
        names |= {"fp32"} | {"fp64" for e in extensions if "fp64" in e} | {"fp16" for e in extensions if "fp16" in e}
        self.features = frozenset(names)
        self._events: dict[int, tuple[Any, Any]] | None = None

    def note(self, event: Any, queue: int = 0) -> None:
        """Keeps the first and the last event of each queue in a batch that is being timed; the others may go."""
        if self._events is not None:
            first, _ = self._events.get(queue, (event, event))
            self._events[queue] = (first, event)

    def buffer(self, data: Array | int, where: Where = "device") -> Buffer:
        nbytes = data if isinstance(data, int) else data.nbytes
        dtype = np.dtype(np.uint8) if isinstance(data, int) else data.dtype
        try:
            if where == "pageable":
                return Buffer(np.zeros(nbytes, np.uint8) if isinstance(data, int) else np.array(data), nbytes, where, dtype)
            self._fits(nbytes)
            return self._pinned(data, nbytes, dtype) if where == "pinned" else self._on_device(data, nbytes, dtype)
        except (self.cl.MemoryError, self.cl.LogicError, self.cl.RuntimeError, MemoryError) as error:
            raise NotSupported(f"{nbytes} B do not fit the {where} memory ({_first_error(str(error))})") from error

    def _pinned(self, data: Array | int, nbytes: int, dtype: np.dtype[Any]) -> Buffer:
        """Memory that the driver allocated on the host, mapped for good."""
        cl, flags = self.cl, self.cl.mem_flags
        memory = cl.Buffer(self.context, flags.READ_WRITE | flags.ALLOC_HOST_PTR, max(nbytes, 1))
        access, shape = cl.map_flags.READ | cl.map_flags.WRITE, (nbytes // dtype.itemsize,)
        mapped, _ = cl.enqueue_map_buffer(self.queues[0], memory, access, 0, shape, dtype, is_blocking=True)
        mapped[...] = 0 if isinstance(data, int) else data.reshape(-1)
        return Buffer(mapped, nbytes, "pinned", dtype)

    def _on_device(self, data: Array | int, nbytes: int, dtype: np.dtype[Any]) -> Buffer:
        cl = self.cl
        memory = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(nbytes, 1))
        if nbytes and isinstance(data, int):
            cl.enqueue_fill_buffer(self.queues[0], memory, np.uint8(0), 0, nbytes).wait()
        elif nbytes and not isinstance(data, int):
            cl.enqueue_copy(self.queues[0], memory, np.ascontiguousarray(data)).wait()
        return Buffer(memory, nbytes, "device", dtype)

    def _fits(self, nbytes: int) -> None:
        limit = int(self.raw.max_mem_alloc_size)
        if nbytes > limit:
            raise NotSupported(f"{nbytes} B are more than the device's largest buffer, {limit} B")

    def read(self, buffer: Buffer) -> Array:
        self.sync()
        if buffer.where != "device":
            return np.array(buffer.handle)
        out = np.empty(buffer.nbytes // buffer.dtype.itemsize, buffer.dtype)
        if out.nbytes:
            self.cl.enqueue_copy(self.queues[0], out, buffer.handle, is_blocking=True)
        return out

    def copy(self, to: Buffer, source: Buffer, queue: int = 0) -> None:
        nbytes, q = min(to.nbytes, source.nbytes), self.queues[queue]
        if to.where != "device" and source.where != "device":
            self.sync()  # host to host is no device's work
            _bytes(to.handle)[:nbytes] = _bytes(source.handle)[:nbytes]
        elif to.where == "device" and source.where == "device":
            self.note(self.cl.enqueue_copy(q, to.handle, source.handle, byte_count=nbytes), queue)
        elif to.where == "device":
            self.note(self.cl.enqueue_copy(q, to.handle, _bytes(source.handle)[:nbytes], is_blocking=False), queue)
        else:
            self.note(self.cl.enqueue_copy(q, _bytes(to.handle)[:nbytes], source.handle, is_blocking=False), queue)

    def kernel(self, source: str, name: str, defines: Sequence[str] = (), options: Sequence[str] | None = None) -> OpenClKernel:
        try:
            chosen = BUILD if options is None else options
            program = self.cl.Program(self.context, prelude() + source).build([*chosen, *(f"-D{d}" for d in defines)])
            return OpenClKernel(self, self.cl.Kernel(program, name))
        except (self.cl.RuntimeError, self.cl.LogicError) as error:
            taken = f"; '{name}' may be a function of OpenCL C: give the kernel another name"
            reserved = taken if "INVALID_KERNEL_NAME" in str(error) else ""
            raise DoesNotCompile(f"the kernel '{name}' does not compile: {_first_error(str(error))}{reserved}") from error

    def time(self, enqueue: Enqueue, calls: int, graph: bool = False, ahead: Ahead | None = None) -> Timing:
        if graph:
            raise NotSupported("OpenCL has no graphs (command buffers are an extension that no driver here offers)")
        self.sync()
        events: dict[int, tuple[Any, Any]] = {}
        self._events = events
        try:
            start = self.clock.now()
            enqueue(calls)
            self.sync()
            wall = self.clock.now() - start
        finally:
            self._events = None
        if not events:
            return Timing(None if calls else 0.0, wall)
        start_ns = min(first.profile.start for first, _ in events.values())
        return Timing((max(last.profile.end for _, last in events.values()) - start_ns) * 1e-9, wall)

    def sync(self, event: bool = False) -> None:
        if event:
            self.cl.enqueue_marker(self.queues[0]).wait()
            return
        for queue in self.queues:
            queue.finish()


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no message")
