"""What is emptied and rotated past is the last cache, whatever the driver leaves out of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.measure import caches
from hotlap.core.measure.targets import torch_device
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.operators import harness
from hotlap.core.record import Device
from hotlap.core.work import find

MIB = 2**20


def mi300x() -> Device:
    """As PyTorch on ROCm describes one: its L2 is that of a single die."""
    properties = SimpleNamespace(
        name="AMD Instinct MI300X", total_memory=206_141_652_992, gcnArchName="gfx942", multi_processor_count=304, L2_cache_size=4 * MIB,
        clock_rate=2_100_000,
    )
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    version = SimpleNamespace(hip="6.4.43482", cuda=None)
    return torch_device.describe(SimpleNamespace(cuda=cuda, version=version, __version__="2.13.0", get_num_threads=lambda: 1), "cuda", 0)


def device(name: str, memory_bytes: int, cache_bytes: int | None, kind: Any = "gpu", facts: dict[str, Any] | None = None) -> Device:
    return Device(target="cuda", index=0, name=name, kind=kind, memory_bytes=memory_bytes, cache_bytes=cache_bytes, facts=facts or {})


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (mi300x(), 256 * MIB),
        (device("NVIDIA H200", 150_110_011_392, 60 * MIB), 60 * MIB),  # the driver's figure is the larger one
        (device("NVIDIA H200", 150_110_011_392, None), 50 * MIB),
        (device("NVIDIA H200 MIG 1g.18gb", 18_790_481_920, 7 * MIB), 7 * MIB),
        (device("a GPU that is in no table", 2**33, None), 32 * MIB),
        (device("a processor", 2**36, 16 * MIB, "cpu"), 16 * MIB),
    ],
    ids=["MI300X", "driver", "table", "slice", "unknown", "cpu"],
)
def test_the_larger_of_driver_and_machine_table_counts(one: Device, expected: int) -> None:
    assert caches.last_bytes(one) == expected


def test_a_cold_case_on_mi300x_writes_past_its_infinity_cache() -> None:
    sizes: list[int] = []
    target: Any = SimpleNamespace(device=mi300x(), dialect="torch", buffer=lambda nbytes: sizes.append(nbytes))
    assert flusher(target, find("stream").case({"op": "copy", "size": MIB, "cache": "cold"})) is not None
    assert sizes == [512 * MIB]


def test_rotated_inputs_on_mi300x_do_not_fit_its_infinity_cache() -> None:
    target: Any = SimpleNamespace(device=mi300x())
    case = find("gemm").case({"m": 1024, "n": 1024, "k": 1024, "dtype": "bf16", "cache": "rotated"})
    assert harness.sets(target, case, 6 * MIB) == 64  # all that there may be
    assert harness.sets(target, case, 16 * MIB) == 32  # 512 MiB
