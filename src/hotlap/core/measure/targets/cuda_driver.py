"""The CUDA driver: loading it, checking what it answers, and the facts of its devices."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
from typing import Any

from hotlap.core import stand_in
from hotlap.core.errors import HotlapError, MachineError, NotSupported, Unavailable
from hotlap.core.measure.targets.base import mig_profile
from hotlap.core.record import Device

REMEDY_BINDINGS = "pip install cuda-bindings nvidia-cuda-nvrtc nvidia-ml-py"
REMEDY_DRIVER = "install NVIDIA's driver; in a container, start it with the GPUs passed in"
CANNOT = {  # answers that mean: not this case on this device; all others mean that the machine or a kernel is at fault
    "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_NOT_SUPPORTED", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_NOT_FOUND",
    "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "CUDA_ERROR_TOO_MANY_PEERS", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
}

REFUSED = {  # answers to code that this driver does not load: other code may do
    "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_IMAGE",
}
ADVICE = {
    "CUDA_ERROR_OUT_OF_MEMORY": "choose smaller sizes, or end what else uses the device (nvidia-smi names it)",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": "another process holds the device: end it, or 'nvidia-smi -c 0' lets several use it",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "choose smaller groups: a kernel has no room for so many registers",
    **dict.fromkeys(("CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_PTX"),
                    "install the nvidia-cuda-nvrtc of the driver's CUDA version, or update the driver"),
    **dict.fromkeys(("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT"),
                    "a kernel failed: compute-sanitizer finds the place; 'dmesg' may hold the driver's message"),
    **dict.fromkeys(("CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_HARDWARE_STACK_ERROR"),
                    "the device is at fault: 'nvidia-smi -q' tells its errors; reset it, or have it replaced"),
}


WSL = "/usr/lib/wsl/lib"
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
STAND_IN = 0x484F5450  # an attribute that the stand-in of the tests answers with 1; a driver answers CUDA_ERROR_INVALID_VALUE


@functools.cache
def driver() -> Any:
    """`cuda.bindings.driver`, initialised. Raises Unavailable: what is missing and what would mend it."""
    try:
        from cuda.bindings import driver as binding
    except ImportError as error:
        if not _installed():  # no package helps before it
            raise Unavailable(f"no NVIDIA driver is here ({LIBRARY} does not load)", _load_remedy()) from error
        raise Unavailable(f"cuda-bindings cannot be imported ({error})", REMEDY_BINDINGS) from error
    try:
        (result,) = binding.cuInit(0)
    except Exception as error:  # the loader has several error types, by version
        raise Unavailable(f"NVIDIA's driver library libcuda does not load ({type(error).__name__})", _load_remedy()) from error
    if result != 0:
        raise Unavailable(f"the CUDA driver does not start ({name_of(result)})", _remedy(name_of(result)))
    return binding


def _installed() -> bool:
    """Whether the driver's library loads at all."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def check(answer: tuple[Any, ...], what: str) -> Any:
    """What a driver call returned beside its result. Raises NotSupported or MachineError with the error's name."""
    result = answer[0]
    if result == 0:
        return answer[1] if len(answer) == 2 else answer[1:]
    raise failure(result, what)


def failure(result: Any, what: str) -> HotlapError:
    """The exception for a result that is not success."""
    name = name_of(result)
    kind = NotSupported if name in CANNOT else MachineError
    return kind(f"CUDA could not {what}: {name}", _advice(name))


def elapsed_s(start: Any, end: Any) -> float:
    """Between two events. Bindings of CUDA 13 ask for a function that came with CUDA 12.8; drivers before it have only the former one,
    which does the same."""
    cu = driver()
    with contextlib.suppress(RuntimeError):
        return float(check(cu.cuEventElapsedTime(start, end), "read the timer")) * 1e-3
    milliseconds = ctypes.c_float()
    former = ctypes.CDLL(LIBRARY).cuEventElapsedTime
    answer = former(ctypes.byref(milliseconds), *(ctypes.c_void_p(int(event)) for event in (start, end)))
    check((cu.CUresult(answer),), "read the timer")
    return milliseconds.value * 1e-3


def major() -> int | None:
    """The CUDA version that the driver brings, its first number; None where there is no driver to ask."""
    try:
        from cuda.bindings import driver as binding

        result, number = binding.cuDriverGetVersion()
    except Exception:  # no binding, or no driver: whoever needs them says so
        return None
    return int(number) // 1000 if result == 0 and number else None


def count() -> int:
    """How many devices there are. Raises Unavailable when there are none."""
    cu = driver()
    result, number = cu.cuDeviceGetCount()
    if result != 0 or not number:
        reason = f" ({name_of(result)})" if result != 0 else ""
        raise Unavailable(f"the CUDA driver sees no device{reason}", "check nvidia-smi and CUDA_VISIBLE_DEVICES")
    return int(number)


def describe(index: int) -> Device:
    """The facts of one device, asked of the driver; none of them needs a context."""
    cu = driver()
    handle = check(cu.cuDeviceGet(index), f"open device {index}")
    address = _pci_address(handle)
    clock_khz = _attribute(handle, "CLOCK_RATE")
    name = _string(check(cu.cuDeviceGetName(256, handle), "read the device's name"))
    profile = mig_profile(name)
    facts = {"compute_capability": _capability(handle), "peers": _peers(handle, index), **_facts(handle)}
    device = Device(
        target="cuda", index=index, kind="gpu", vendor="NVIDIA", name=name,
        uuid=_uuid(check(cu.cuDeviceGetUuid(handle), "read the device's UUID").bytes, profile),
        pci_address=address, pci_id=_pci_id(handle, address),
        driver=_versions(), memory_bytes=int(check(cu.cuDeviceTotalMem(handle), "read the device's memory size")),
        compute_units=_attribute(handle, "MULTIPROCESSOR_COUNT"), clock_max_hz=clock_khz * 1e3 if clock_khz else None,
        cache_bytes=_attribute(handle, "L2_CACHE_SIZE"),
        facts={**facts, "mig": profile} if profile else facts,
    )
    return stand_in.mark(device) if _stands_in(int(handle)) else device


def _stands_in(handle: int) -> bool:
    """Asked of the library itself, which is loaded already: the binding's list of attributes lacks this one."""
    value = ctypes.c_int(0)
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:  # a driver that the binding found by another name
        return False
    result = library.cuDeviceGetAttribute(ctypes.byref(value), ctypes.c_int(STAND_IN), ctypes.c_int(handle))
    return bool(result == 0 and value.value)


def _facts(handle: Any) -> dict[str, Any]:
    memory_khz = _attribute(handle, "MEMORY_CLOCK_RATE")
    facts = {
        "memory_clock_hz": memory_khz * 1e3 if memory_khz else None,
        "memory_bus_bits": _attribute(handle, "GLOBAL_MEMORY_BUS_WIDTH"),
        "ecc": _attribute(handle, "ECC_ENABLED") == 1,
        "copy_engines": _attribute(handle, "ASYNC_ENGINE_COUNT"),
        "shared_per_unit_bytes": _attribute(handle, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        "max_group": _attribute(handle, "MAX_THREADS_PER_BLOCK"),
        "threads_per_unit": _attribute(handle, "MAX_THREADS_PER_MULTIPROCESSOR"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _capability(handle: Any) -> str:
    """As in 9.0. No kernel can be made without it, so that it is no fact that may be missing."""
    cu = driver()
    asked = (getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    return ".".join(str(check(cu.cuDeviceGetAttribute(attribute, handle), "read the device's compute capability")) for attribute in asked)


def _attribute(handle: Any, name: str) -> int | None:
    """One attribute, None where this driver or binding does not know it or answers zero or less."""
    cu = driver()
    attribute = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
    if attribute is None:
        return None
    result, value = cu.cuDeviceGetAttribute(attribute, handle)
    return int(value) if result == 0 and value > 0 else None


def _uuid(raw: bytes, profile: str = "") -> str:
    """In NVML's spelling, so that a device is the same one to targets and sensors: of a MIG slice, which has a profile, MIG-….
    "" when the driver gives only zeros."""
    if not any(raw[:16]):
        return ""
    text = raw[:16].hex()
    return f"{'MIG' if profile else 'GPU'}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _pci_address(handle: Any) -> str:
    result, raw = driver().cuDeviceGetPCIBusId(32, handle)
    match = re.fullmatch(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.?([0-9a-f]?)", _string(raw).lower()) if result == 0 else None
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4] or '0'}" if match else ""


def _pci_id(handle: Any, address: str) -> str:
    """`vendor:device` from sysfs, else from the driver (device above vendor, 16 bits each)."""
    try:
        parts = [_read(f"/sys/bus/pci/devices/{address}/{name}") for name in ("vendor", "device")]
        return ":".join(part.removeprefix("0x") for part in parts)
    except OSError:
        combined = _attribute(handle, "GPU_PCI_DEVICE_ID")
        return f"{combined & 0xFFFF:04x}:{combined >> 16:04x}" if combined and combined >> 16 else ""


def _peers(handle: Any, index: int) -> list[int]:
    """Indices of the devices whose memory this one can reach directly."""
    cu, found = driver(), []
    for other in range(count()):
        if other != index:
            result, able = cu.cuDeviceCanAccessPeer(handle, check(cu.cuDeviceGet(other), f"open device {other}"))
            found += [other] if result == 0 and able else []
    return found


@functools.cache
def _versions() -> str:
    """The kernel driver's release and the CUDA version it brings: `NVIDIA 570.124.06, CUDA 12.8`."""
    number = int(check(driver().cuDriverGetVersion(), "read the driver's version"))
    cuda = f"CUDA {number // 1000}.{number % 1000 // 10}"
    try:
        match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", _read("/proc/driver/nvidia/version"))
    except OSError:
        match = None
    return f"NVIDIA {match[1]}, {cuda}" if match else cuda


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def _string(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace").strip()


def name_of(result: Any) -> str:
    """A result by name; a driver newer than the binding can answer with a number that has none."""
    return str(getattr(result, "name", f"CUDA error {result}"))


def _advice(name: str) -> str:
    """What to do next, after a call of a driver that did start."""
    return ADVICE.get(name, "run 'hotlap devices', and see the driver's own message in 'dmesg'")


def _load_remedy() -> str:
    """What makes libcuda load: on WSL 2 it is there, in a folder that not every program looks into."""
    return f"WSL keeps it in {WSL}: export LD_LIBRARY_PATH={WSL}" if os.path.exists(os.path.join(WSL, LIBRARY)) else REMEDY_DRIVER


def _remedy(name: str) -> str:
    if name == "CUDA_ERROR_NO_DEVICE":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return "check nvidia-smi and CUDA_VISIBLE_DEVICES"
        return f"CUDA_VISIBLE_DEVICES is '{visible}', which hides all devices: unset it, or name devices that 'nvidia-smi -L' lists"
    if name.startswith("CUDA_ERROR_MPS_"):
        return "start the MPS daemon of this user (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY"
    if name in ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"):
        return "the kernel driver and libcuda differ in version: reboot, or remove the CUDA compatibility package"
    return "check that nvidia-smi works"

