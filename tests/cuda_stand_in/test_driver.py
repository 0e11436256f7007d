"""The stand-in refuses what a driver refuses: each rule of its README, broken once through the real binding."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")
ATTRIBUTE = 0x484F5450
PTX = """.version {version}\n.target sm_{sm}\n.address_size 64
.visible .entry k(.param .u64 k_a, .param .u64 k_n) {{
 .reg .b64 %rd<4>; .reg .b32 %r<3>; .reg .pred %p<2>; .shared .align 4 .b8 s[64];
{body}
 ret;
}}\0"""
STORE = " ld.param.u64 %rd1, [k_a]; ld.param.u64 %rd2, [k_n]; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], 7;"
PARTED = " mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra $one; bar.sync 0; bra.uni $end; $one: bar.sync 0; $end:"


class Driver:
    """The real binding; each call by the name of its answer, with what it returned beside it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        from cuda.bindings import driver

        self.binding, self.library = driver, library

    def __getattr__(self, call: str) -> Any:
        def ask(*args: Any) -> Any:
            result, *values = getattr(self.binding, call)(*args)
            name = result.name.removeprefix("CUDA_ERROR_").removeprefix("CUDA_")
            return (name, *values)

        return ask

    def get(self, call: str, *args: Any) -> Any:
        name, *values = getattr(self, call)(*args)
        assert name == "SUCCESS", f"{call}: {name}"
        return values[0] if values else None

    def function(self, body: str = STORE, version: str = "9.0", sm: int = 80) -> Any:
        module = self.get("cuModuleLoadData", PTX.format(body=body, version=version, sm=sm).encode())
        return self.get("cuModuleGetFunction", module, b"k")

    def launch(self, function: Any, stream: Any, address: int = 0, offset: int = 0, threads: int = 1) -> str:
        values = (ctypes.c_uint64 * 2)(int(address), offset)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(values) + 8 * i for i in range(2)))
        return self.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(pointers), 0)[0]  # type: ignore[no-any-return]


@pytest.fixture
def cu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with build.on(devices=2) as library:
        driver = Driver(library)
        driver.get("cuInit", 0)
        driver.get("cuCtxSetCurrent", driver.get("cuDevicePrimaryCtxRetain", 0))
        yield driver
        library.standInRecover()


@pytest.fixture
def queue(cu: Driver) -> Any:
    return cu.get("cuStreamCreate", 1)


@pytest.mark.parametrize(("required", "ends"), [("", "no C compiler (gcc): the stand-in for CUDA cannot be built"), ("required", "RuntimeError")])
def test_without_a_compiler_tests_are_skipped_and_ci_fails(tmp_path: Path, required: str, ends: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"} | {"PATH": str(tmp_path), "HOTLAP_TEST_STAND_IN": required}
    code = "import sys; sys.path.insert(0, sys.argv[1])\nfrom cuda_stand_in import build\ntry: print(build.missing())\nexcept RuntimeError: print('RuntimeError')"
    done = subprocess.run([sys.executable, "-c", code, str(build.HERE.parent)], env=environment, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == ends


def test_only_the_stand_in_answers_its_attribute(cu: Driver) -> None:
    value = ctypes.c_int()
    assert cu.library.cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTE, 0) == 0
    assert value.value == 1
    assert cu.library.cuDeviceGetAttribute(ctypes.byref(value), ATTRIBUTE + 1, 0) == 1
    assert "no GPU" in cu.get("cuDeviceGetName", 100, 0).decode()


@pytest.mark.parametrize(("visible", "count"), [("", 0), ("-1", 0), ("1", 1), ("1,0", 2), ("0,7,1", 1), ("GPU-unknown", 0)])
def test_devices_are_hidden_as_by_the_driver(cu: Driver, monkeypatch: pytest.MonkeyPatch, visible: str, count: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cu.get("cuDeviceGetCount") == count
    assert cu.cuDeviceGet(count)[0] == "INVALID_DEVICE"
    if visible.startswith("1"):
        assert cu.get("cuDeviceGetPCIBusId", 32, 0).startswith(b"0000:F1")


def test_a_call_needs_a_current_context(cu: Driver) -> None:
    cu.get("cuCtxSetCurrent", 0)
    assert cu.cuMemAlloc(4)[0] == "INVALID_CONTEXT"
    assert cu.cuStreamCreate(0)[0] == "INVALID_CONTEXT"


def test_a_forked_process_has_no_driver(cu: Driver) -> None:
    child = os.fork()
    if child == 0:
        count = ctypes.c_int()
        os._exit(cu.library.cuDeviceGetCount(ctypes.byref(count)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3  # CUDA_ERROR_NOT_INITIALIZED


def test_fresh_memory_is_poisoned_and_freed_once(cu: Driver, queue: Any) -> None:
    address = cu.get("cuMemAlloc", 1000)
    out = np.zeros(1000, np.uint8)
    cu.get("cuMemcpyDtoHAsync", out.ctypes.data, address, 1000, queue)
    assert (out == 0xCD).all()
    cu.get("cuMemFree", address)
    assert cu.cuMemFree(address)[0] == "INVALID_VALUE"
    assert cu.cuMemcpyDtoHAsync(out.ctypes.data, address, 1000, queue)[0] == "INVALID_VALUE"


def test_copies_stay_within_their_memory(cu: Driver, queue: Any) -> None:
    address, host = int(cu.get("cuMemAlloc", 100)), np.zeros(200, np.uint8)
    assert cu.cuMemcpyHtoDAsync(address, host.ctypes.data, 101, queue)[0] == "INVALID_VALUE"
    assert cu.cuMemcpyHtoDAsync(host.ctypes.data, host.ctypes.data, 100, queue)[0] == "INVALID_VALUE"
    assert cu.cuMemcpyDtoHAsync(address, address, 100, queue)[0] == "INVALID_VALUE"
    assert cu.cuMemsetD8Async(address + 1, 0, 100, queue)[0] == "INVALID_VALUE"


def test_memory_runs_out(cu: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    free, total = cu.cuMemGetInfo()[1:]
    monkeypatch.setenv("STAND_IN_MEMORY", str(total - free + 1000))
    assert cu.cuMemAlloc(1001)[0] == "OUT_OF_MEMORY"
    cu.get("cuMemFree", cu.get("cuMemAlloc", 1000))


@pytest.mark.parametrize(("offset", "address"), [(300, "device"), (0, "host"), (0, "null")])
def test_a_fault_of_a_kernel_is_sticky(cu: Driver, queue: Any, offset: int, address: str) -> None:
    host = np.zeros(16, np.uint8)
    start = {"device": int(cu.get("cuMemAlloc", 256)), "host": host.ctypes.data, "null": 0}[address]
    assert cu.launch(cu.function(), queue, start, offset) == "SUCCESS"
    for call, args in (("cuStreamSynchronize", (queue,)), ("cuMemAlloc", (4,)), ("cuCtxSynchronize", ())):
        assert getattr(cu, call)(*args)[0] == "ILLEGAL_ADDRESS"
    assert not host.any()


def test_a_buffer_ends_where_it_ends(cu: Driver, queue: Any) -> None:
    address = int(cu.get("cuMemAlloc", 256))
    assert cu.launch(cu.function(), queue, address, 252) == "SUCCESS"
    assert cu.cuStreamSynchronize(queue)[0] == "SUCCESS"
    cu.launch(cu.function(), queue, address, 256)
    assert cu.cuStreamSynchronize(queue)[0] == "ILLEGAL_ADDRESS"


def test_another_devices_memory_needs_access(cu: Driver, queue: Any) -> None:
    here, there = cu.get("cuCtxGetCurrent"), cu.get("cuDevicePrimaryCtxRetain", 1)
    cu.get("cuCtxSetCurrent", there)
    far = int(cu.get("cuMemAlloc", 256))
    cu.get("cuCtxSetCurrent", here)
    near, function = int(cu.get("cuMemAlloc", 256)), cu.function()
    assert cu.cuMemcpyDtoDAsync(near, far, 256, queue)[0] == "INVALID_VALUE"
    assert cu.cuMemcpyPeerAsync(near, there, far, here, 256, queue)[0] == "INVALID_VALUE"
    assert cu.cuMemcpyPeerAsync(near, here, far, there, 256, queue)[0] == "SUCCESS"
    cu.launch(function, queue, far)
    assert cu.cuStreamSynchronize(queue)[0] == "ILLEGAL_ADDRESS"
    cu.library.standInRecover()
    cu.get("cuCtxEnablePeerAccess", there, 0)
    assert cu.cuCtxEnablePeerAccess(there, 0)[0] == "PEER_ACCESS_ALREADY_ENABLED"
    cu.launch(function, queue, far)
    assert cu.cuStreamSynchronize(queue)[0] == "SUCCESS"


def test_threads_of_a_block_meet_at_one_barrier(cu: Driver, queue: Any) -> None:
    cu.launch(cu.function(PARTED), queue, threads=1)
    assert cu.cuStreamSynchronize(queue)[0] == "SUCCESS"
    cu.launch(cu.function(PARTED), queue, threads=2)
    assert cu.cuStreamSynchronize(queue)[0] == "LAUNCH_FAILED"


def test_launches_have_limits(cu: Driver, queue: Any) -> None:
    function = cu.function()
    assert cu.launch(function, queue, threads=1025) == "INVALID_VALUE"
    assert cu.launch(function, queue, threads=0) == "INVALID_VALUE"
    assert cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 49152, queue, 0, 0)[0] == "INVALID_VALUE"


@pytest.mark.parametrize(("driver", "version", "answer"), [
    (13000, "9.0", "SUCCESS"), (13000, "9.1", "UNSUPPORTED_PTX_VERSION"), (12080, "8.7", "SUCCESS"), (12080, "8.8", "UNSUPPORTED_PTX_VERSION"),
    (12020, "8.2", "SUCCESS"), (12020, "8.3", "UNSUPPORTED_PTX_VERSION"), (12020, "9.0", "UNSUPPORTED_PTX_VERSION"),
])  # fmt: skip
def test_ptx_newer_than_the_driver_is_refused(cu: Driver, monkeypatch: pytest.MonkeyPatch, driver: int, version: str, answer: str) -> None:
    monkeypatch.setenv("STAND_IN_DRIVER", str(driver))
    assert cu.cuModuleLoadData(PTX.format(body=STORE, version=version, sm=80).encode())[0] == answer


def test_code_of_another_chip_and_no_code_are_refused(cu: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    assert cu.cuModuleLoadData(PTX.format(body=STORE, version="9.0", sm=90).encode())[0] == "NO_BINARY_FOR_GPU"
    assert cu.cuModuleLoadData(b"no PTX\0")[0] == "INVALID_PTX"
    assert cu.cuModuleLoadData(PTX.format(body=" shfl.sync.down.b32 %r1, %r2, 1, 31, -1;", version="9.0", sm=80).encode())[0] == "INVALID_PTX"
    assert "cannot run this kernel: instruction shfl.sync.down.b32" in capfd.readouterr().err
    module = cu.get("cuModuleLoadData", PTX.format(body=STORE, version="9.0", sm=80).encode())
    assert cu.cuModuleGetFunction(module, b"nothing")[0] == "NOT_FOUND"


def test_a_cubin_runs_where_it_was_made_for(cu: Driver, queue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hotlap.core.measure.targets import cuda_compile

    cubin, ptx, _ = cuda_compile.compile_plain('extern "C" __global__ void k(int *a, long n) { a[n] = 7; }', "k.cu", ["--gpu-architecture=sm_90"])
    assert build._elf_bytes(cubin) <= len(cubin)
    monkeypatch.setenv("STAND_IN_CC", "90")
    monkeypatch.setenv("STAND_IN_CACHE", str(build.folder() / "empty"))
    assert cu.cuModuleLoadData(cubin)[0] == "NO_BINARY_FOR_GPU"  # of which it has no PTX
    monkeypatch.setenv("STAND_IN_CACHE", str(build.folder()))
    build.pair(cubin, ptx)
    for capability, driver, answer in ((90, 13000, "SUCCESS"), (100, 13000, "NO_BINARY_FOR_GPU"), (90, 12080, "NO_BINARY_FOR_GPU")):
        monkeypatch.setenv("STAND_IN_CC", str(capability))
        monkeypatch.setenv("STAND_IN_DRIVER", str(driver))
        assert cu.cuModuleLoadData(cubin)[0] == answer
    monkeypatch.setenv("STAND_IN_CC", "90")
    monkeypatch.setenv("STAND_IN_DRIVER", "13000")
    address, out = cu.get("cuMemAlloc", 40), np.zeros(10, np.int32)
    cu.launch(cu.get("cuModuleGetFunction", cu.get("cuModuleLoadData", cubin), b"k"), queue, int(address), 9)
    cu.get("cuMemcpyDtoHAsync", out.ctypes.data, address, 40, queue)
    assert out[9] == 7


def test_stale_and_foreign_handles_are_known(cu: Driver, queue: Any) -> None:
    event, module = cu.get("cuEventCreate", 0), cu.get("cuModuleLoadData", PTX.format(body=STORE, version="9.0", sm=80).encode())
    function = cu.get("cuModuleGetFunction", module, b"k")
    cu.get("cuModuleUnload", module)
    assert cu.launch(function, queue) == "INVALID_HANDLE"
    assert cu.cuModuleGetFunction(module, b"k")[0] == "INVALID_HANDLE"
    cu.get("cuEventDestroy", event)
    assert cu.cuEventRecord(event, queue)[0] == "INVALID_HANDLE"
    assert cu.cuEventRecord(cu.get("cuEventCreate", 0), int(module))[0] == "INVALID_HANDLE"
    cu.get("cuStreamDestroy", queue)
    assert cu.cuStreamSynchronize(queue)[0] == "INVALID_HANDLE"
    other = cu.get("cuStreamCreate", 1)
    cu.get("cuCtxSetCurrent", cu.get("cuDevicePrimaryCtxRetain", 1))
    assert cu.cuStreamSynchronize(other)[0] == "INVALID_HANDLE"


def test_events_have_a_time_only_when_they_are_done(cu: Driver, queue: Any) -> None:
    never, untimed, first, last = (cu.get("cuEventCreate", flags) for flags in (0, 2, 0, 0))
    assert cu.cuEventElapsedTime(never, never)[0] == "INVALID_HANDLE"
    for event in (untimed, first, last):
        cu.get("cuEventRecord", event, queue)
    cu.get("cuEventSynchronize", last)
    assert cu.get("cuEventElapsedTime", first, last) >= 0
    assert cu.cuEventElapsedTime(untimed, last)[0] == "INVALID_HANDLE"


@pytest.mark.parametrize(("driver", "answer"), [(12020, 1), (12080, 0), (13000, 0)])
def test_a_function_newer_than_the_driver_is_not_given(cu: Driver, monkeypatch: pytest.MonkeyPatch, driver: int, answer: int) -> None:
    monkeypatch.setenv("STAND_IN_DRIVER", str(driver))
    address = ctypes.c_void_p()
    assert cu.library.cuGetProcAddress_v2(b"cuEventElapsedTime", ctypes.byref(address), 12080, ctypes.c_uint64(0), None) == answer
    assert bool(address) == (answer == 0)


@pytest.mark.parametrize(("demand", "answers"), [("cuMemGetInfo:2@2", [0, 2, 2]), ("cuMemGetInfo:719!2", [0, 719, 0]), ("cuMemGetInfo:1", [1, 1, 1])])
def test_faults_come_on_demand(cu: Driver, monkeypatch: pytest.MonkeyPatch, demand: str, answers: list[int]) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", demand)
    a, b = ctypes.c_size_t(), ctypes.c_size_t()
    assert [cu.library.cuMemGetInfo_v2(ctypes.byref(a), ctypes.byref(b)) for _ in answers] == answers
