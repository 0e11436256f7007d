"""The CUDA target where driver, compiler or host answer what they seldom do: each is told in one line, or leaves a fact out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build
from hotlap.core.errors import HotlapError, MachineError, NotSupported, Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.targets import cuda, cuda_compile, cuda_driver

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing())
SOURCE = "KERNEL void add(GLOBAL uint *a) { if (ID == 0) a[0] += 1; }"


@pytest.fixture
def target() -> Iterator[Any]:
    with build.on() as stand_in:
        spec = targets.TargetSpec("cuda")
        yield targets.open_device(spec, targets.find(spec)[0])
        stand_in.standInRecover()  # from a kernel that failed, for the tests after it


def test_a_device_alone_has_no_peers(target: Any) -> None:
    assert "peer" not in target.features


def test_a_copy_of_nothing_leaves_the_rest_alone(target: Any) -> None:
    cell = target.buffer(np.full(4, 7, np.uint32))
    target.copy(cell, target.buffer(0))
    assert target.read(cell).tolist() == [7, 7, 7, 7]


@pytest.mark.parametrize(("queue", "joins"), [(0, 0), (1, 1)])
def test_a_copy_joins_the_second_queue_only_where_it_runs_there(target: Any, queue: int, joins: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = target.buffer(64), target.buffer(64)
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    target.time(lambda calls: [target.copy(b, a, queue) for _ in range(calls)], 3, graph=True)
    calls = (tmp_path / "calls").read_text().split()
    captured = calls[calls.index("cuStreamBeginCapture_v2") : calls.index("cuStreamEndCapture")]
    assert captured.count("cuStreamWaitEvent") == 2 * joins, "the fork and the join"


def _ended(target: Any) -> Any:
    """A queue that is no more: every use of it is an error."""
    queue = cuda_driver.check(target.cu.cuStreamCreate(1), "make a queue")
    cuda_driver.check(target.cu.cuStreamDestroy(queue), "end it")
    return queue


def test_a_batch_of_the_first_queue_is_timed_on_it_alone(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = target.buffer(64), target.buffer(64)
    monkeypatch.setattr(target, "queues", [target.queues[0], _ended(target)])
    assert target.time(lambda calls: [target.copy(b, a) for _ in range(calls)], 3).wall_s > 0


def test_the_second_queue_is_waited_for_where_it_was_used(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target.copy(target.buffer(64), target.buffer(64), 1)
    monkeypatch.setattr(target, "queues", [target.queues[0], _ended(target)])
    with pytest.raises(HotlapError, match=r"^CUDA could not finish the second queue: CUDA_ERROR_INVALID_HANDLE"):
        target.sync()


def test_a_launch_with_more_values_than_the_last_has_room_for_them(target: Any) -> None:
    cell, kernel = target.buffer(np.zeros(1, np.uint32)), target.kernel(SOURCE, "add")
    for args in ((cell,), (cell, np.uint32(1), np.uint32(2)), (cell,)):
        kernel(64, 64, *args)
    assert target.read(cell).tolist() == [3]


def test_the_former_timer_of_old_drivers_says_the_same(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cu = cuda_driver.driver()
    start, end = (cuda_driver.check(cu.cuEventCreate(0), "make an event") for _ in range(2))
    cell = target.buffer(1 << 20)
    cuda_driver.check(cu.cuEventRecord(start, target.queues[0]), "record")
    target.copy(target.buffer(1 << 20), cell)
    cuda_driver.check(cu.cuEventRecord(end, target.queues[0]), "record")
    target.sync()
    by_the_new = cuda_driver.elapsed_s(start, end)

    class Older:
        CUresult = cu.CUresult

        def cuEventElapsedTime(self, *_: Any) -> None:  # noqa: N802
            raise RuntimeError("function cuEventElapsedTime_v2 is not found")

    monkeypatch.setattr(cuda_driver, "driver", Older)
    assert cuda_driver.elapsed_s(start, end) == by_the_new > 0


@pytest.mark.parametrize(("settings", "major"), [({"driver": 13000}, 13), ({"driver": 12020}, 12), ({"fail": "cuDriverGetVersion:999"}, None)])
def test_the_version_of_the_driver(settings: dict[str, Any], major: int | None) -> None:
    with build.on(**settings):
        assert cuda_driver.major() == major


def test_work_items_that_are_no_whole_groups(target: Any) -> None:
    with pytest.raises(NotSupported, match=r"^100 work-items are not whole groups of 64$"):
        target.kernel(SOURCE, "add")(100, 64, target.buffer(4))


def test_pageable_memory_that_the_host_does_not_give(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than any address space has; the limit of the host's memory, which stands before it, is taken away."""
    monkeypatch.setattr(cuda, "host_bytes", lambda: 2**62)
    with pytest.raises(NotSupported, match=f"^{2**60} B do not fit the host's memory$"):
        target.buffer(2**60, "pageable")


def test_a_kernel_that_fails_is_told_where_the_queue_is_waited_for(target: Any) -> None:
    """By a kernel that writes where no memory is."""
    cell = target.buffer(64)
    target.kernel("KERNEL void far(GLOBAL uint *a) { a[1ul << 34] = 1u; }", "far")(64, 64, cell)
    with pytest.raises(MachineError, match=r"^CUDA could not finish the queue: CUDA_ERROR_ILLEGAL_ADDRESS; a kernel failed: compute-sanitizer") as raised:
        target.sync()
    assert "\n" not in str(raised.value)


@pytest.fixture
def _fresh() -> Iterator[None]:
    """The compiler is looked for once in a process."""
    cuda_compile._nvrtc.cache_clear()
    yield
    cuda_compile._nvrtc.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_without_the_binding_of_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(Unavailable, match=r"^cuda-bindings cannot be imported \(") as raised:
        cuda_compile.version()
    assert raised.value.remedy == "pip install cuda-bindings nvidia-cuda-nvrtc nvidia-ml-py"
    assert cuda_driver.major() is None


@pytest.mark.parametrize(("library", "why"), [("libnothere.so.1", "no NVIDIA driver is here (libnothere.so.1 does not load)"), ("libc.so.6", "cuda-bindings")])
def test_where_no_driver_is_no_package_is_advised(library: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(cuda_driver, "LIBRARY", library)
    cuda_driver.driver.cache_clear()
    with pytest.raises(Unavailable) as raised:
        cuda_driver.driver()
    assert str(raised.value).startswith(why)
    assert ("pip install" in raised.value.remedy) == (library == "libc.so.6")


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(("error", "why"), [(RuntimeError("libnvrtc.so.13: not there\nlooked in /a"), "libnvrtc.so.13: not there"), (OSError(), "OSError")])
def test_without_the_library_of_nvrtc(error: Exception, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's own errors, of which versions have several; the library itself is loaded in this process."""
    from cuda.bindings import nvrtc

    def absent() -> None:
        raise error

    monkeypatch.setattr(nvrtc, "nvrtcVersion", absent)
    with pytest.raises(Unavailable) as raised:
        cuda_compile.version()
    assert str(raised.value).startswith(f"the CUDA compiler library NVRTC cannot be loaded ({why})")
    assert raised.value.remedy == "pip install nvidia-cuda-nvrtc"


def test_an_answer_of_nvrtc_that_is_no_success_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that NVRTC does not know has no log, and no code."""
    from cuda.bindings import nvrtc

    unknown = nvrtc.nvrtcProgram()
    with pytest.raises(NotSupported, match=r"^nvrtcGetPTXSize failed with NVRTC_ERROR_INVALID_PROGRAM$"):
        cuda_compile._code(unknown, "PTX")
    assert cuda_compile._log(unknown) == ""


def test_facts_of_a_device_that_cannot_be_asked_for(target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda_driver._attribute(target.handle, "NONE_THAT_THIS_BINDING_KNOWS") is None
    monkeypatch.setattr(cuda_driver, "LIBRARY", str(tmp_path / "libcuda.so.1"))
    assert not cuda_driver._stands_in(int(target.handle))


def test_the_identity_of_a_device_is_read_from_sysfs(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/sys/bus/pci/devices/0000:1b:00.0/vendor": "0x10de", "/sys/bus/pci/devices/0000:1b:00.0/device": "0x2330"}
    monkeypatch.setattr(cuda_driver, "_read", files.__getitem__)
    assert cuda_driver._pci_id(target.handle, "0000:1b:00.0") == "10de:2330"


@pytest.mark.parametrize(("combined", "shown"), [(0x233010DE, "10de:2330"), (0x10DE, ""), (None, "")])
def test_the_identity_of_a_device_without_sysfs_is_the_driver_s(combined: int | None, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "_attribute", lambda handle, name: combined)
    assert cuda_driver._pci_id(None, "no:such.address") == shown


def test_a_call_s_answer_is_what_stands_beside_its_result() -> None:
    assert (cuda_driver.check((0, 5), "ask"), cuda_driver.check((0, 5, 6), "ask"), cuda_driver.check((0,), "ask")) == (5, (5, 6), ())


@pytest.mark.parametrize(("files", "remedy"), [(["libcuda.so.1"], "WSL keeps it in WSL: export LD_LIBRARY_PATH=WSL"), ([], cuda_driver.REMEDY_DRIVER)])
def test_a_library_that_does_not_load(files: list[str], remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader has errors of several types, by version."""
    from cuda.bindings import driver as binding

    def absent(flags: int) -> None:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setattr(cuda_driver, "WSL", str(tmp_path))
    monkeypatch.setattr(binding, "cuInit", absent)
    cuda_driver.driver.cache_clear()
    try:
        with pytest.raises(Unavailable, match=r"^NVIDIA's driver library libcuda does not load \(RuntimeError\)") as raised:
            cuda_driver.driver()
    finally:
        cuda_driver.driver.cache_clear()
    assert raised.value.remedy == remedy.replace("in WSL", f"in {tmp_path}").replace("PATH=WSL", f"PATH={tmp_path}")


def test_a_file_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "vendor").write_text("0x10de\n")
    assert cuda_driver._read(str(tmp_path / "vendor")) == "0x10de"
