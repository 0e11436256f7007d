"""The CUDA target when the driver answers with an error: every call that it makes, every kind of error, on the stand-in."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cuda_stand_in import build
from hotlap.core.errors import HotlapError
from hotlap.core.measure.targets import cuda, cuda_driver

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")

KERNEL = "KERNEL void count(GLOBAL uint *cell) { if (ID == 0) cell[0] += 1; }"
CODES = {
    "INVALID_VALUE": 1, "OUT_OF_MEMORY": 2, "NOT_INITIALIZED": 3, "DEVICE_UNAVAILABLE": 46, "NO_DEVICE": 100, "INVALID_CONTEXT": 201,
    "NO_BINARY_FOR_GPU": 209, "ECC_UNCORRECTABLE": 214, "UNSUPPORTED_PTX_VERSION": 222, "INVALID_HANDLE": 400, "ILLEGAL_ADDRESS": 700,
    "LAUNCH_FAILED": 719, "NOT_PERMITTED": 800, "SYSTEM_NOT_READY": 802, "SYSTEM_DRIVER_MISMATCH": 803, "UNKNOWN": 999,
}
TOLERATED = {  # what is not told costs a fact of the device, or nothing
    "cuDeviceGetAttribute", "cuDeviceGetPCIBusId", "cuDeviceCanAccessPeer", "cuFuncLoad", "cuGraphDestroy", "cuGraphExecDestroy", "cuMemFree_v2",
    "cuMemFreeHost", "cuCtxGetCurrent",
}


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with build.on(devices=2):
        yield
    cuda_driver.driver.cache_clear()


def everything() -> tuple[int, float]:
    """Each call that the target makes: finds, opens, allocates, copies both ways and between devices, launches, records, times, reads.
    Returns a count that is known, and seconds."""
    cuda_driver.driver.cache_clear()
    cuda_driver._versions.cache_clear()
    first, second = (cuda.open(device) for device in cuda.find())
    cell, pinned, pageable = first.buffer(np.zeros(64, np.uint32)), first.buffer(256, "pinned"), first.buffer(256, "pageable")
    far, other = second.buffer(256), first.buffer(256)
    kernel = first.kernel(KERNEL, "count")

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            kernel(64, 64, cell)
            first.copy(other, cell)
            first.copy(pinned, other, queue=1)

    seconds = first.time(enqueue, 2).device_s or 0.0
    seconds += first.time(enqueue, 3, graph=True).device_s or 0.0
    first.copy(other, far)
    first.copy(cell, pinned)
    first.copy(pageable, cell)
    first.sync(event=True)
    return int(first.read(cell)[0]), seconds


@functools.cache
def calls() -> tuple[str, ...]:
    """The calls that are made, in order of the first of each, as the stand-in notes them."""
    with tempfile.TemporaryDirectory() as folder, build.on(devices=2, calls=Path(folder) / "calls"):
        assert everything()[0] == 5
        seen = (Path(folder) / "calls").read_text().split()
    return tuple(call for call in dict.fromkeys(seen) if call != "cuGetProcAddress_v2")


def test_the_calls_are_all_that_the_target_can_make() -> None:
    """A call that the target makes and `everything` does not would go untested."""
    folder = Path(cuda.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("cuda*.py"))
    made = {name.removesuffix("_v2").removesuffix("WithFlags") for name in calls()}
    known = {word for word in re.findall(r"\bcu[A-Z]\w+", source) if hasattr(cuda_driver.driver(), word)}
    assert known - made <= {"cuMemFree", "cuMemFreeHost", "cuGraphExecDestroy", "cuCtxGetCurrent", "cuEventQuery"}  # these clean up, later


@pytest.mark.parametrize("code", CODES)
def test_every_call_that_fails_is_told_in_one_line(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    silent, wrong = set(), {}
    for call in calls():
        monkeypatch.setenv("STAND_IN_FAIL", f"{call}:{CODES[code]}")
        try:
            count, _ = everything()
        except HotlapError as error:
            text = str(error)
            if "\n" in text or f"CUDA_ERROR_{code}" not in text or not _has_meaning(error) or "Traceback" in text:
                wrong[call] = text
        else:
            assert count == 5, f"{call} failed and the result is wrong"
            silent.add(call)
    assert not wrong
    through_the_host = {"cuCtxEnablePeerAccess"} if f"CUDA_ERROR_{code}" in cuda_driver.CANNOT else set()
    assert silent <= TOLERATED | through_the_host


def _has_meaning(error: HotlapError) -> bool:
    """What could not be done, in words, and what to do next."""
    text, _, remedy = str(error).partition("; ")
    return len(text.split()) > 3 and bool(remedy)
