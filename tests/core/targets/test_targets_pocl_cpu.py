"""A name for processors that PoCL's compiler does not know."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

import pytest

from hotlap.core.measure.targets import pocl_cpu

V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
V3 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("flags", "level"),
    [(set(), "x86-64"), (V2, "x86-64-v2"), (V3, "x86-64-v3"), (V4, "x86-64-v4"), (V4 - {"avx2"}, "x86-64-v2"), (V3 - {"ssse3"}, "x86-64")],
)
def test_a_level_needs_all_levels_below_it(flags: set[str], level: str) -> None:
    assert pocl_cpu.level(flags) == level


class Driver:
    """A record of a device as a driver keeps it: numbers, addresses that are none, and pointers to texts."""

    def __init__(self, name: bytes) -> None:
        self.texts = [ctypes.create_string_buffer(text) for text in (b"x86_64-unknown-linux-gnu", name)]
        words = [7, 0xDEAD_BEEF_0000, ctypes.addressof(self.texts[0]), 2**64 - 1, ctypes.addressof(self.texts[1])]
        self.memory = ctypes.create_string_buffer(struct.pack("5Q", *words), pocl_cpu.RECORD_BYTES)
        self.address = ctypes.addressof(self.memory)

    def name(self) -> bytes:
        return ctypes.string_at(struct.unpack_from("Q", self.memory.raw, 32)[0])


@pytest.fixture
def cpuinfo(tmp_path: Path) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nflags\t\t: " + " ".join(sorted(V3)) + "\nbugs\t\t: none\n")
    return path


linux = pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="levels are of x86-64, memory is read as Linux has it")


@linux
def test_the_unknown_name_is_replaced_and_no_other(cpuinfo: Path) -> None:
    driver = Driver(b"generic")
    before = driver.memory.raw
    assert pocl_cpu.name_processor(driver.address, cpuinfo) == "x86-64-v3"
    assert driver.name() == b"x86-64-v3"
    after = driver.memory.raw
    assert [n for n in range(0, len(before), 8) if before[n : n + 8] != after[n : n + 8]] == [32]
    assert pocl_cpu.name_processor(driver.address, cpuinfo) == "", "a name that Clang knows stays"
    known = Driver(b"znver3")
    assert (pocl_cpu.name_processor(known.address, cpuinfo), known.name()) == ("", b"znver3")


@linux
def test_memory_that_is_none_is_no_crash(cpuinfo: Path) -> None:
    assert pocl_cpu.name_processor(8, cpuinfo) == ""


@linux
def test_without_cpuinfo_the_lowest_level_is_taken(tmp_path: Path) -> None:
    driver = Driver(b"generic")
    assert pocl_cpu.name_processor(driver.address, tmp_path / "none") == "x86-64"
