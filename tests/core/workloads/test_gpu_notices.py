"""What cases say of themselves on a GPU; the GPU here runs nothing and takes a millisecond for it, for nothing of this is a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hotlap.core.measure import workloads
from hotlap.core.measure.targets.base import Buffer, SystemClock, Timing
from hotlap.core.record import Case, Device, Notice
from hotlap.core.work import find


class IdleGpu:
    """An H200 whose kernels do nothing."""

    dialect, library, timer_resolution_s = "c", None, 1e-6
    features = frozenset({"fp32", "int8", "int32"})

    def __init__(self, **device: Any) -> None:
        facts = {"shared_per_unit_bytes": 228 * 1024, "max_group": 1024}
        given = {"target": "cuda", "name": "NVIDIA H200", "vendor": "NVIDIA", "compute_units": 132, "cache_bytes": 60 * 2**20, "facts": facts}
        self.device, self.clock = Device(**{"index": 0, "kind": "gpu", **given, **device}), SystemClock()

    def buffer(self, data: Any, where: Any = "device") -> Buffer:
        return Buffer(None, data if isinstance(data, int) else data.nbytes, where, np.dtype(np.uint8))

    def kernel(self, source: str, name: str, defines: Any = ()) -> Any:
        return lambda items, group, *given: None

    def time(self, enqueue: Any, calls: int, graph: bool = False) -> Timing:
        return Timing(1e-3, 1e-3)

    def sync(self, event: bool = False) -> None:
        pass


def notices(target: Any, case: Case) -> list[Notice]:
    prepared = workloads.prepare(target, case, 1)
    return prepared.notices() if prepared.notices else []


def stream(op: str, size: str) -> Case:
    return find("stream").case({"op": op, "size": size})


def test_a_small_read_says_that_it_comes_from_the_first_cache() -> None:
    (notice,) = notices(IdleGpu(), stream("read", "32 KiB"))
    assert notice.code == "first_cache"
    assert notice.seen == "8 blocks read 32 KiB again and again: from the first cache of each unit that runs one, not from L2"


@pytest.mark.parametrize(
    ("op", "size", "noticed"),
    [
        ("read", "200 KiB", True), ("read", "240 KiB", True), ("read", "4 MiB", False), ("copy", "256 KiB", True), ("copy", "4 MiB", False),
        ("write", "32 KiB", False),
    ],
)
def test_what_one_unit_can_hold_or_few_blocks_read_is_noticed(op: str, size: str, noticed: bool) -> None:
    """An H200's SM has 228 KiB of shared memory and first cache; 240 KiB are read by 60 blocks on 132 SMs."""
    assert [one.code for one in notices(IdleGpu(), stream(op, size))] == ["first_cache"] * noticed


def test_a_processor_s_caches_are_those_that_are_asked_about() -> None:
    assert notices(IdleGpu(kind="cpu", target="opencl", name="a processor", compute_units=8, facts={}), stream("read", "32 KiB")) == []


def test_8_bit_multiply_adds_on_nvidia_s_vector_units_are_said_to_be_emulated() -> None:
    (notice,) = notices(IdleGpu(), find("fma").case({"dtype": "int8"}))
    assert notice.code == "emulated"
    for words in ("PRMT", "IMAD", "half the rate of int32", "no dp4a", "no tensor cores"):
        assert words in notice.seen
    assert notices(IdleGpu(), find("fma").case({"dtype": "int32"})) == []
    assert notices(IdleGpu(target="opencl", vendor="AMD", name="gfx942"), find("fma").case({"dtype": "int8"})) == []
