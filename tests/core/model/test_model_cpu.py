"""Processors from CPUID: rates of known cores, flags that add to them, and clocks that prove or do not."""

from __future__ import annotations

import pytest

from hotlap.core.model import cpu
from hotlap.core.record import Cpu

ZEN4 = ["avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni"]
AMX = ["avx2", "fma", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_int8"]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "name", "fp32"),
    [
        ("AuthenticAMD", 23, 0x31, ["avx2", "fma"], "AMD Zen 2", 32), ("AuthenticAMD", 25, 0x01, ["avx2", "fma"], "AMD Zen 3", 32),
        ("AuthenticAMD", 25, 0x11, ZEN4, "AMD Zen 4", 32), ("AuthenticAMD", 25, 0xA0, ZEN4, "AMD Zen 4", 32),
        ("AuthenticAMD", 26, 0x02, ZEN4, "AMD Zen 5, 512-bit", 64), ("AuthenticAMD", 23, 0x01, ["avx2", "fma"], "AMD Zen", 16),
        ("GenuineIntel", 6, 0x8F, AMX, "Intel server core from Skylake-SP", 64), ("GenuineIntel", 6, 0x9E, ["avx2", "fma"], "Intel core with AVX2", 32),
        ("ARM", None, 0xD0C, ["asimd"], "Arm Neoverse N1", 16), ("ARM", 8, 0xD4F, ["asimd"], "Arm Neoverse V2", 32),
    ],
)
def test_known_cores(vendor: str, family: int | None, model: int, flags: list[str], name: str, fp32: float) -> None:
    spec = cpu.spec(Cpu(vendor=vendor, family=family, model=model, flags=flags, cores=4), 3e9)
    assert spec.architecture == name
    assert spec.flop_per_clock["fma.fp32"] == fp32
    assert spec.flop_per_clock["fma.fp64"] == fp32 / 2
    assert spec.rate("fma.fp32") == 4 * fp32 * 3e9


@pytest.mark.parametrize(
    "unknown", [Cpu(), Cpu(vendor="AuthenticAMD", family=99, flags=ZEN4), Cpu(vendor="AuthenticAMD", family=25, model=0x11), Cpu(vendor="RISC-V")]
)
def test_an_unknown_core_has_no_rates(unknown: Cpu) -> None:
    spec = cpu.spec(unknown, 3e9)
    assert spec.flop_per_clock == {}
    assert spec.rate("fma.fp32") is None
    assert spec.l1_load_bytes_per_clock is None


def test_flags_add_matrix_rates_and_their_absence_does_not() -> None:
    amx = cpu.spec(Cpu(vendor="GenuineIntel", family=6, model=0x8F, flags=AMX, cores=1)).flop_per_clock
    assert (amx["matrix.bf16"], amx["matrix.int8"], amx["fma.fp16"]) == (1024, 2048, 128)
    plain = cpu.spec(Cpu(vendor="GenuineIntel", family=6, model=0x8F, flags=["avx512f"], cores=1)).flop_per_clock
    assert "matrix.bf16" not in plain


def test_the_higher_of_measured_and_reported_clock_counts_and_only_a_measured_one_proves() -> None:
    reported = Cpu(vendor="AuthenticAMD", family=25, model=17, flags=ZEN4, cores=2, clock_max_hz=2.6e9)
    assert (cpu.spec(reported, 3.69e9).clock_max_hz, cpu.spec(reported, 3.69e9).clock_proven) == (3.69e9, True)
    assert cpu.spec(reported, 2.0e9).clock_max_hz == 2.6e9
    assert (cpu.spec(reported).clock_max_hz, cpu.spec(reported).clock_proven) == (2.6e9, False)
    assert cpu.spec(Cpu(vendor="AuthenticAMD")).clock_max_hz is None


def test_a_host_has_no_published_memory_bandwidth() -> None:
    assert cpu.spec(Cpu(vendor="AuthenticAMD", family=25, model=17, flags=ZEN4), 3e9).memory_bandwidth_b_s is None


def test_every_core_names_its_source() -> None:
    assert all(core["source"] and core["flop_per_clock"] for core in cpu.cores())
