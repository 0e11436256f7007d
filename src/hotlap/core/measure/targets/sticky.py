"""Errors after which a device answers nothing more: every later call of the process fails too, so that the run has to end."""

from __future__ import annotations

from hotlap.core.errors import HotlapError, MachineError, NotSupported

MARKS = ("CUDA error: ", "HIP error: ", "Triton Error [CUDA]: ", "Triton Error [HIP]: ", "UR_RESULT_ERROR_DEVICE_LOST")
HARMLESS = (  # texts of the runtime's errors that leave the device as it was: the one call is refused
    "out of memory", "no kernel image is available", "invalid device function", "invalid configuration argument", "invalid argument",
    "operation not supported", "too many resources requested", "unsupported toolchain", "PTX JIT", "captur",
)
LOST = "device is lost"  # wgpu's, below a heading that says nothing


def sticky(error: BaseException) -> str:
    """The line that says that the device itself failed, the first but for wgpu; "" for what concerns a single call, as a lack of memory."""
    lines = str(error).strip().splitlines() or [""]
    first = next((line.strip() for line in lines if LOST in line), lines[0])[:300]
    of_device = type(error).__name__ == "AcceleratorError" or any(mark in first for mark in (*MARKS, LOST))
    return first if of_device and not any(text in first for text in HARMLESS) else ""


def ended(error: BaseException) -> MachineError:
    """For an error that is sticky."""
    what = f"the device failed ({sticky(error)}), and this process can use it no more"
    return MachineError(what, "'dmesg' may hold the driver's own message")


def refused(error: BaseException, what: str) -> HotlapError:
    """An exception of a library as ours: NotSupported, or MachineError where the device is lost with it."""
    if sticky(error):
        return ended(error)
    return NotSupported(f"{what} ({(str(error).splitlines() or [''])[0]})")
