"""What needs more of the stand-in than one device of CUDA 13: two devices, slices, machine code, a device that another process holds."""

from __future__ import annotations

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
from hotlap.core.errors import MachineError, NotSupported, Unavailable
from hotlap.core.measure import workloads
from hotlap.core.measure.targets import cuda, cuda_compile, cuda_driver
from hotlap.core.record import Case

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")

OPEN = """
import sys
from hotlap.core.errors import HotlapError
from hotlap.core.measure.targets import cuda
try:
    target = cuda.open(cuda.find()[0])
    print("opened", flush=True)
except HotlapError as error:
    print(error, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    cuda_driver.driver.cache_clear()


def test_two_devices_reach_each_others_memory() -> None:
    data = np.random.default_rng(3).integers(0, 256, 10_001, np.uint8)
    with build.on(devices=2):
        devices = cuda.find()
        assert [device.facts["peers"] for device in devices] == [[1], [0]]
        assert len({(device.uuid, device.pci_address) for device in devices}) == 2
        first, second = map(cuda.open, devices)
        assert "peer" in first.features & second.features
        here, there = first.buffer(len(data)), second.buffer(data)
        for target in (first, second):
            target.copy(here, there)
            target.sync()
            assert np.array_equal(first.read(here), data)
        timing = second.time(lambda calls: [second.copy(there, here) for _ in range(calls)], 3, graph=True)
        assert timing.wall_s > 0
        assert np.array_equal(second.read(there), data)


def test_each_device_has_its_own_memory_and_kernels() -> None:
    source = "KERNEL void mark(GLOBAL uint *cell, const uint value) { cell[ID] = value; }"
    with build.on(devices=2):
        marked = []
        for value, target in enumerate(list(map(cuda.open, cuda.find())), 1):
            cell, kernel = target.buffer(np.zeros(64, np.uint32)), target.kernel(source, "mark")
            marked.append((target, cell, kernel, value))
        for _, cell, kernel, value in marked:  # one after the other, both open: each launch has to find its own context
            kernel(64, 64, cell, np.uint32(value))
        for target, cell, _, value in marked:
            assert (target.read(cell) == value).all()


def test_an_order_of_devices_that_the_user_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with build.on(devices=2):
        plain = [device.uuid for device in cuda.find()]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
        assert [device.uuid for device in cuda.find()] == plain[::-1]
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        with pytest.raises(Unavailable, match="sees no device; check nvidia-smi and CUDA_VISIBLE_DEVICES"):
            cuda.find()


def test_a_slice_of_a_device_measures() -> None:
    with build.on(mig=1, units=1):
        (device,) = cuda.find()
        assert "MIG 1g.10gb" in device.name
        target = cuda.open(device)
        assert np.array_equal(target.read(target.buffer(np.arange(10))), np.arange(10))


@pytest.mark.slow("kernels are compiled to machine code and to C")
@pytest.mark.parametrize("capability", [90, 100, 120])
def test_machine_code_is_asked_for_and_runs(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver answers a cubin by the PTX of the same compilation: that it is one, of this chip, and taken, is what is shown."""
    assert cuda_compile.architecture(capability) == f"sm_{capability}"
    with build.on(cc=capability, units=1):
        lighter.use(monkeypatch)
        cuda_compile.compile_source.cache_clear()
        target = cuda.open(cuda.find()[0])
        for name, given in (("stream", {"op": "triad", "size": "1 MiB"}), ("chase", {"size": 4096, "hops": 1000}), ("barrier", {"repeats": 6, "group": 32})):
            prepared = workloads.prepare(target, Case(workload=name, params=work.find(name).parse(given)), seed=5)
            target.time(prepared.enqueue, prepared.multiple, prepared.graph)
            check = prepared.check()
            assert check.passed, check


def test_a_device_that_another_process_holds_is_told(tmp_path: Path) -> None:
    with build.on(exclusive=tmp_path / "lock"):
        environment: dict[str, Any] = dict(os.environ)
        started = [sys.executable, "-c", OPEN]
        holder = subprocess.Popen(started, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == "opened\n"
            with pytest.raises(MachineError, match="could not make a context: CUDA_ERROR_DEVICE_UNAVAILABLE; another process holds the device"):
                cuda.open(cuda.find()[0])
        finally:
            holder.communicate()
        assert cuda.open(cuda.find()[0]).device.name  # it is free again


def test_of_more_recorded_graphs_than_are_kept_the_oldest_goes() -> None:
    with build.on():
        target = cuda.open(cuda.find()[0])
        a, b = target.buffer(np.arange(4, dtype=np.int32)), target.buffer(16)

        def enqueue(calls: int) -> None:
            for _ in range(calls):
                target.copy(b, a)

        lengths = range(1, cuda.GRAPHS_KEPT + 2)
        for calls in lengths:
            target.time(enqueue, calls, graph=True)
        assert [calls for _, calls in target._graphs] == [*lengths][1:]
        newest = target._graphs[enqueue, lengths[-1]]
        target.time(enqueue, lengths[-1], graph=True)
        assert target._graphs[enqueue, lengths[-1]] is newest
        target.time(enqueue, 1, graph=True)  # recorded anew
        assert target.read(b).view(np.int32).tolist() == [0, 1, 2, 3]


def test_a_launch_that_the_driver_refuses_at_once_is_an_error() -> None:
    """The wait after it would end well: nothing was enqueued."""
    with build.on():
        target = cuda.open(cuda.find()[0])
        kernel = target.kernel("KERNEL void nothing(GLOBAL uint *a) { a[ID] = 1; }", "nothing")
        with pytest.raises(NotSupported, match="launch 'nothing' with 4096 work-items in groups of 4096"):
            kernel(4096, 4096, target.buffer(4 * 4096))
