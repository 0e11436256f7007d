"""Machine code of Hotlap's own CUDA kernels: their loops can reach the peak that they measure, spill nothing, and keep enough loads under way."""

from __future__ import annotations

import importlib.resources
import re

import pytest

from benchmarks import sass
from hotlap.core.measure.targets import cuda_compile
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.arithmetic import Variant
from hotlap.kernels.binaries import cubin
from hotlap.kernels.compiled import disassembling
from hotlap.stress.units.products import TYPES

needs_nvdisasm = pytest.mark.skipif(disassembling.tool("nvdisasm") is None, reason=f"no nvdisasm is here: {disassembling.REMEDY}")
BELOW = {("sm_80", "fp64")}  # 0.93 of the instructions, at a unit that takes twice as long as the scheduler: its peak is reached all the same

LISTING = """
	.section	.text.own,"ax",@progbits
own:
.text.own:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_2:
        /*0010*/                   IMAD.MOV.U32 R9, RZ, RZ, R3 ;
.L_x_1:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E.64 R8, desc[UR4][R2.64+0x10] ;
        /*0040*/                   IADD3 R2, P0, R2, UR6, RZ ;
        /*0050*/                   FFMA R6, R6, R20, R21 ;
        /*0060*/                   LDG.E R10, desc[UR4][R2.64] ;
        /*0070*/                   NOP ;
        /*0080*/                   FADD R7, R10, R7 ;
        /*0090*/              @!P0 BRA `(.L_x_1) ;
        /*00a0*/               @P1 BRA `(.L_x_2) ;
        /*00b0*/                   EXIT ;
	.section	.text.other,"ax",@progbits
.text.other:
        /*0000*/                   FFMA R6, R6, R20, R21 ;
"""


def test_the_innermost_loop_is_read_from_a_listing() -> None:
    (loop,) = sass.loops(LISTING, "own")
    assert [one.name for one in loop] == ["LDG", "LDG", "IADD3", "FFMA", "LDG", "NOP", "FADD", "BRA"]
    assert sass.loops(LISTING, "ow") == []


def test_loads_are_under_way_until_one_of_their_registers_is_used() -> None:
    (loop,) = sass.loops(LISTING, "own")
    assert sass.in_flight(loop) == 16 + 8  # R6 is the third of R4 to R7; the third load waits behind that


def test_a_share_is_of_what_the_scheduler_issues() -> None:
    (loop,) = sass.loops(LISTING, "own")
    assert sass.share(loop, "fp32") == 1 / 7
    assert sass.reachable(0.9, "fp32", None) == 0.9
    assert sass.reachable(0.9, "fp32", 256.0) == 0.9  # four warps in a clock: as many as are issued
    assert sass.reachable(0.4, "fp64", 128.0) == 0.8  # two
    assert sass.reachable(0.9, "fp64", 4.0) == 1.0


@needs_nvdisasm
@pytest.mark.slow("compiles by NVRTC")
@pytest.mark.parametrize("architecture", sass.ARCHITECTURES)
def test_multiply_adds_fill_the_loops_of_peaks(architecture: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    rows = list(sass.arithmetic([architecture]))
    assert len(rows) == 30
    assert sass.problems(rows, []) == []
    by_type = {row.dtype: row for row in sass.best(rows)}
    assert {one for one, row in by_type.items() if row.share < sass.LEAST} == {"int8"} | {dtype for arch, dtype in BELOW if arch == architecture}
    assert 0.45 < by_type["int8"].share < 0.5  # a move of bytes for every multiply-add


@needs_nvdisasm
@pytest.mark.slow("compiles by NVRTC")
def test_enough_loads_are_under_way_for_the_bandwidth() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    rows = list(sass.memory())
    assert len(rows) == 3 * 2 * 5
    assert sass.problems([], rows) == []
    assert {row.thread_bytes for row in rows if row.op == "copy"} == {16}  # one load of 16 bytes: not unrolled


@pytest.mark.slow("compiles by NVRTC")
@pytest.mark.parametrize("architecture", sass.ARCHITECTURES)
@pytest.mark.parametrize(("file", "defines"), [
    *(("compute", Variant(16 // size, 4).defines(scalar)) for scalar, size in (("double", 8), ("float", 4))),  # as `intensity` takes it; `fma` is above
    *(("memory", [f"S={scalar}", f"T=VEC({scalar},{16 // size})"]) for scalar, size in (("double", 8), ("float", 4))),
    ("memory", ["S=float", "T=float"]), ("latency", []),
    *(("stress", [f"T={element}", f"R={result}"]) for element, result, *_ in TYPES.values()),
])  # fmt: skip
def test_no_kernel_of_a_file_spills(file: str, defines: list[str], architecture: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    text = source(file)
    code = cuda_compile.compile_source(text, file, architecture, tuple(defines))
    kernels = {one.kernel: one for one in cubin.read(code, file)}
    assert set(kernels) == _names(text)
    assert {one.architecture for one in kernels.values()} == {architecture}
    assert {name: one.stack_bytes for name, one in kernels.items() if one.stack_bytes} == {}
    assert {name: one.registers for name, one in kernels.items() if not one.registers or one.registers > 128} == {}


def _names(text: str) -> set[str]:
    """Of the kernels in a source; `memory` makes some by a macro."""
    return set(re.findall(r"KERNEL void (\w+)\(", text)) | {f"stream_{name}" for name in re.findall(r"^STREAM\((\w+),", text, re.MULTILINE)}


def test_every_file_of_kernels_is_looked_at() -> None:
    (marks,) = (one for one in test_no_kernel_of_a_file_spills.pytestmark if one.args and one.args[0] == ("file", "defines"))
    folder = importlib.resources.files("hotlap.core.measure.workloads") / "kernels"
    assert {file for file, _ in marks.args[1]} == {one.name[:-2] for one in folder.iterdir() if "KERNEL void" in one.read_text()}


def test_a_kernel_that_spills_is_seen() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    text = "KERNEL void own(GLOBAL uint *a) { uint held[64]; for (int p = 0; p < 999; p++) held[a[p] & 63] += p; a[ID] = held[a[ID] & 63]; }"
    (one,) = cubin.read(cuda_compile.compile_source(text, "own", "sm_90"), "own")
    assert one.stack_bytes == 256


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (sass.Arithmetic("sm_90", "fp32", "float1 × 4 chains", 0.8, 0.8, 70, 20, 0), "0.800 of the peak"),
        (sass.Arithmetic("sm_90", "fp32", "float1 × 4 chains", 0.96, 0.96, 70, 255, 16), "16 B of stack"),
        (sass.Memory("b200", "copy", "fp32", 16, 16, 8192.0, 20000.0, 0), "8192 B of loads under way, 20000 B needed"),
        (sass.Memory("b200", "copy", "fp32", 16, 64, 32768.0, 20000.0, 8), "8 B of stack"),
    ],
)  # fmt: skip
def test_what_falls_short_is_named(row: sass.Arithmetic | sass.Memory, said: str) -> None:
    (problem,) = sass.problems([row], []) if isinstance(row, sass.Arithmetic) else sass.problems([], [row])
    assert said in problem
