"""The CUDA target on the stand-in for its driver: drivers before 12.8, code that a driver refuses, cold calls, and when memory is freed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build, lighter
from hotlap.core import work
from hotlap.core.errors import NotSupported
from hotlap.core.measure import loop, targets
from hotlap.core.measure.targets import cuda_compile, cuda_driver, cuda_memory
from hotlap.core.measure.targets.base import Buffer
from hotlap.core.measure.targets.cuda import CudaTarget
from hotlap.core.record import Case

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing())
SOURCE = "KERNEL void add(GLOBAL uint *a) { if (ID == 0) a[0] += 1; }"
OLD_DRIVER = """
from hotlap.core.measure.targets import cuda, cuda_driver
target = cuda.CudaTarget(cuda_driver.describe(0))
a, b = target.buffer(1 << 20), target.buffer(1 << 20)
timing = target.time(lambda calls: [target.copy(a, b) for _ in range(calls)], 4)
assert 0 < timing.device_s <= timing.wall_s, timing
print(cuda_driver._versions())
"""


@pytest.fixture
def stand_in() -> Iterator[Any]:
    with build.on(devices=2) as library:
        yield library


@pytest.fixture
def target(stand_in: Any) -> CudaTarget:
    return _opened(0)


def _opened(index: int) -> CudaTarget:
    spec = targets.TargetSpec("cuda")
    opened = targets.open_device(spec, targets.find(spec)[index])
    assert isinstance(opened, CudaTarget)
    return opened


def _program(*words: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Another process: a binding asks its driver for functions once, when it is loaded."""
    environment = {**os.environ, **build.settings(**settings)}  # type: ignore[arg-type]
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)


# ---------------------------------------------------------------- older drivers


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("version", [12020, 12060, 12080])
def test_a_driver_before_12_8_has_a_timer(version: int) -> None:
    """It lacks the function that bindings of CUDA 13 ask for to read events."""
    done = _program("-c", OLD_DRIVER, driver=version)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip().endswith(f"CUDA 12.{version % 1000 // 10}")


@pytest.mark.slow("starts a process")
def test_an_nvrtc_newer_than_the_driver_is_refused_with_the_package_that_fits() -> None:
    if int(cuda_compile.version().partition(".")[0]) < 13:
        pytest.skip("needs an NVRTC of CUDA 13 or later")
    done = _program("-m", "hotlap", "run", "quick", "--target", "cuda", driver=12020)
    assert (done.returncode, done.stdout) == (3, "")
    last = done.stderr.strip().splitlines()[-1]
    assert f"the driver is of CUDA 12 and does not load code of NVRTC {cuda_compile.version()}" in last
    assert "pip install nvidia-cuda-nvrtc-cu12" in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("driver", "refused"), [(12, True), (13, False), (14, False), (11, True), (None, False)])
def test_the_majors_of_nvrtc_and_driver_are_compared(driver: int | None, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "major", lambda: driver)
    monkeypatch.setattr(cuda_compile, "version", lambda: "13.0")
    if not refused:
        cuda_compile.fitting()
        return
    with pytest.raises(cuda_compile.Unavailable) as raised:
        cuda_compile.fitting()
    assert raised.value.remedy == ("pip install nvidia-cuda-nvrtc-cu12" if driver == 12 else "update the driver")


def test_the_wheel_of_the_drivers_version_is_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real libraries of both versions would be loaded for good: it is the choice that is looked at here."""
    wheel = tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "other"), str(tmp_path)])
    loaded: list[str] = []
    modes: list[int] = []
    monkeypatch.setattr(cuda_compile.ctypes, "CDLL", lambda path, mode: loaded.append(path) or modes.append(mode))
    for major in (None, 13, 11):
        cuda_compile._prefer(major)
    assert loaded == []
    cuda_compile._prefer(12)
    assert loaded == [str(wheel)]
    assert modes == [os.RTLD_NOW | os.RTLD_GLOBAL]  # the binding looks for it among what all may see


# ---------------------------------------------------------------- code that is refused


def _kernel_works(target: CudaTarget) -> bool:
    cell = target.buffer(np.zeros(1, np.uint32))
    target.kernel(SOURCE, "add")(64, 64, cell)
    return bool(target.read(cell)[0] == 1)


@pytest.mark.parametrize("answer", [200, 209, 218, 222])
def test_ptx_stands_in_for_machine_code_that_the_driver_refuses(stand_in: Any, answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with build.on(cc=90):
        target = _opened(0)
        assert target.capability == 90
        archs: list[str] = []
        real = cuda_compile.compile_source
        monkeypatch.setattr(cuda_compile, "compile_source", lambda source, name, arch, *more: archs.append(arch) or real(source, name, arch, *more))
        monkeypatch.setenv("STAND_IN_FAIL", f"cuModuleLoadData:{answer}!1")
        assert _kernel_works(target)
        assert archs == ["sm_90", "compute_90"]


def test_code_that_is_refused_in_every_form_has_a_remedy(target: CudaTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAIL", "cuModuleLoadData:222")
    with pytest.raises(NotSupported, match=r"load 'add' .*UNSUPPORTED_PTX_VERSION; install the nvidia-cuda-nvrtc of the driver's CUDA version") as refused:
        target.kernel(SOURCE, "add")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("arch", "capability", "instead"),
    [("sm_90", 90, ["compute_90"]), ("compute_120", 121, ["sm_120"]), ("compute_90", 100, []), ("compute_80", 81, ["sm_80"])],
)
def test_what_a_driver_may_load_instead(arch: str, capability: int, instead: list[str]) -> None:
    assert cuda_compile.instead_of(arch, capability) == instead


# ---------------------------------------------------------------- cold calls


def _calls(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def test_a_cold_case_is_flushed_started_called_and_ended_in_one_go(target: CudaTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait between the flush and the end of the call, in any sample."""
    lighter.use(monkeypatch)
    case = Case(workload="stream", params=work.find("stream").parse({"op": "copy", "size": "1 MiB", "cache": "cold"}))
    log = tmp_path / "calls"
    monkeypatch.setenv("STAND_IN_CALLS", str(log))
    samples = loop.measure(target, case, loop.CaseBudget(seconds=0.1))
    assert (samples.status, samples.reason) == ("measured", "")
    assert samples.method.startswith("event-queued-")
    assert samples.check
    assert samples.check.passed
    calls = _calls(log)
    launches = ("cuLaunchKernel", "cuGraphLaunch")
    goes = [
        calls[place : place + 7] for place, name in enumerate(calls[:-7])
        if name == "cuEventRecord" and calls[place + 1] in launches and calls[place + 2] == "cuEventRecord" and calls[place + 3] in launches
    ]
    assert len(goes) >= len(samples.values) >= 3
    for one in goes:
        assert one[4:] == ["cuEventQuery", "cuEventRecord", "cuEventSynchronize"]


def test_what_is_ahead_is_in_the_wall_clock_and_not_in_the_batch(target: CudaTarget) -> None:
    """A copy of 1 MiB ahead of one of 64 bytes."""
    large, other, small, little = (target.buffer(size) for size in (1 << 20, 1 << 20, 64, 64))
    timing = target.time(lambda calls: target.copy(little, small), 1, ahead=lambda: target.copy(other, large))
    assert timing.device_s is not None
    assert timing.whole_s is not None
    assert timing.device_s < timing.whole_s <= timing.wall_s
    plain = target.time(lambda calls: target.copy(little, small), 1)
    assert plain.whole_s is None
    assert plain.host_s is not None


# ---------------------------------------------------------------- freeing


def test_freeing_leaves_the_current_context_alone(target: CudaTarget) -> None:
    other = _opened(1)
    there: Buffer | None = other.buffer(1024)
    target.activate()
    del there
    gc.collect()
    result, now = target.cu.cuCtxGetCurrent()
    assert (result, int(now)) == (0, int(target.context))


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_freed_inside_a_timed_batch(target: CudaTarget, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, temporary = target.buffer(64), target.buffer(64), [target.buffer(64), target.buffer(64)]
    seen: list[list[str]] = []
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))

    def enqueue(calls: int) -> None:
        target.copy(a, b)
        temporary.clear()
        gc.collect()
        seen.append(_calls(tmp_path / "calls"))
        if fails:
            raise NotSupported("on purpose")

    if fails:
        with pytest.raises(NotSupported):
            target.time(enqueue, 1)
    else:
        target.time(enqueue, 1)
    free = [name for name in seen[0] if name.startswith("cuMemFree")]
    assert (len(seen), free) == (1, [])
    assert [name for name in _calls(tmp_path / "calls") if name.startswith("cuMemFree")] != []
    assert (cuda_memory._waiting, cuda_memory._open_batches) == ([], [])


# ---------------------------------------------------------------- slices


def test_a_mig_slice_is_named_as_nvml_names_it_and_says_which_it_is() -> None:
    with build.on(mig=1):
        (device,) = targets.find(targets.TargetSpec("cuda"))
    assert device.uuid == "MIG-fbfbfbfb-fbfb-fbfb-fbfb-fbfbfbfbfb00"
    assert device.facts["mig"] == "1g.10gb"
    with build.on():
        (whole,) = targets.find(targets.TargetSpec("cuda"))
    assert whole.uuid.startswith("GPU-")
    assert "mig" not in whole.facts


# ---------------------------------------------------------------- what else can be seen of it


def test_facts_are_in_base_units() -> None:
    """The driver answers clocks in kHz."""
    with build.on():
        (device,) = targets.find(targets.TargetSpec("cuda"))
    assert (device.clock_max_hz, device.facts["memory_clock_hz"], device.facts["memory_bus_bits"]) == (1.5e9, 1e9, 64)


@pytest.mark.parametrize(("capability", "has"), [(75, False), (80, True), (90, True)])
def test_bf16_comes_with_compute_capability_8(capability: int, has: bool) -> None:
    with build.on(cc=capability):
        assert ("bf16" in _opened(0).features) is has


def test_its_device_is_marked() -> None:
    with build.on():
        assert _opened(0).device.stand_in


def test_a_launch_of_another_shape_is_prepared_anew(target: CudaTarget) -> None:
    cells = target.buffer(np.zeros(256, np.uint32))
    count = target.kernel("KERNEL void count(GLOBAL uint *a) { a[ID] += 1; }", "count")
    for items, group in ((128, 64), (256, 64), (64, 64), (64, 32)):
        count(items, group, cells)
    assert target.read(cells).tolist() == [4] * 64 + [2] * 64 + [1] * 128


def test_the_host_is_not_waited_for_while_the_device_is_still_at_what_came_ahead(target: CudaTarget) -> None:
    large, other, small, little = (target.buffer(size) for size in (64 << 20, 64 << 20, 64, 64))

    def ahead() -> None:
        for _ in range(30):
            target.copy(other, large)

    assert target.time(lambda calls: target.copy(little, small), 1, ahead=ahead).host_s == 0.0


def test_no_context_is_set_inside_a_capture(target: CudaTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = target.buffer(64), target.buffer(64)
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    target.time(lambda calls: [target.copy(b, a) for _ in range(calls)], 3, graph=True)
    calls = _calls(tmp_path / "calls")
    first, last = (next(at for at, name in enumerate(calls) if name.startswith(f"cuStream{word}Capture")) for word in ("Begin", "End"))
    assert "cuCtxSetCurrent" not in calls[first:last]
    assert sum(name.startswith("cuMemcpyDtoDAsync") for name in calls[first:last]) == 3
