"""The process that loads a GPU runs on the processors near it, as sysfs names them, as far as it may."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.core.measure import near
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Device

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to processors")

ADDRESS = "0000:0f:00.0"
GPU = Device(target="opencl", index=0, name="a GPU", kind="gpu", pci_address=ADDRESS)


def two_sockets(root: Path, local: str, node: str = "1", online: str = "0-127") -> FileTree:
    for path, text in ((f"sys/bus/pci/devices/{ADDRESS}/local_cpulist", local), (f"sys/bus/pci/devices/{ADDRESS}/numa_node", node), ("sys/devices/system/cpu/online", online)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return FileTree(str(root))


@pytest.fixture(autouse=True)
def allowed() -> Iterator[set[int]]:
    """What this process may use, given back afterwards."""
    before = os.sched_getaffinity(0)
    near._allowed.cache_clear()
    yield set(before)
    os.sched_setaffinity(0, before)
    near._allowed.cache_clear()


def test_the_host_s_side_runs_on_the_gpu_s_own_node(tmp_path: Path, allowed: set[int]) -> None:
    one = max(allowed)
    tree = two_sockets(tmp_path, f"{one},126-127")
    assert near.bind(GPU, tree) == ""
    assert os.sched_getaffinity(0) == {one}
    assert near.facts(GPU, tree) == {"numa_node": 1, "host_cpus": str(one)}


def test_the_next_device_is_not_held_to_the_processors_of_the_last(tmp_path: Path, allowed: set[int]) -> None:
    near.bind(GPU, two_sockets(tmp_path, str(max(allowed))))
    near.bind(Device(target="opencl", index=1, name="a processor", kind="cpu"), FileTree(str(tmp_path)))
    assert os.sched_getaffinity(0) == allowed


def test_a_process_that_is_kept_elsewhere_stays_there_and_says_so(tmp_path: Path, allowed: set[int]) -> None:
    tree = two_sockets(tmp_path, "4096-4111,4113", online="0-8191")
    far = near.bind(GPU, tree)
    assert far.startswith("the GPU is near processors 4096-4111,4113, and Hotlap may run on ")
    assert far.endswith(" alone")
    assert os.sched_getaffinity(0) == allowed
    assert near.facts(GPU, tree) == {"numa_node": 1, "host_cpus": ""}


@pytest.mark.parametrize("local", ["0-127", ""])
def test_on_one_node_nothing_is_bound_or_recorded(tmp_path: Path, allowed: set[int], local: str) -> None:
    tree = two_sockets(tmp_path, local, node="-1")
    assert near.bind(GPU, tree) == ""
    assert os.sched_getaffinity(0) == allowed
    assert near.facts(GPU, tree) == {}


def test_the_run_records_it(tmp_path: Path, allowed: set[int]) -> None:
    two_sockets(tmp_path, f"{max(allowed)},126")
    (device,) = fingerprint([GPU], str(tmp_path)).devices
    assert device.facts == {"numa_node": 1, "host_cpus": str(max(allowed))}
