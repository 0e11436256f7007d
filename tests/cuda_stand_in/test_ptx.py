"""The translator against results that are known: each line of PTX run by the stand-in, beside NumPy's or a hand-made answer."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build, ptx
from cuda_stand_in.test_driver import Driver

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")

HEAD = """.version 9.0\n.target sm_80\n.address_size 64
.visible .entry k(.param .u64 k_out, .param .u64 k_n) {
 .reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b16 %rs<9>; .reg .pred %p<9>;
 ld.param.u64 %rd1, [k_out];
"""
INF, NAN = "0f7F800000", "0f7FFFFFFF"
ROWS = [  # PTX that leaves an answer in %r1, and that answer
    ("add.s32 %r1, -7, 9;", 2), ("sub.s32 %r1, 3, 5;", 2**32 - 2), ("mul.lo.s32 %r1, 65537, 65537;", 65537**2 % 2**32),
    ("mul.hi.u32 %r1, -1, -1;", 2**32 - 2), ("mul.hi.s32 %r1, -1, -1;", 0), ("mul.wide.s32 %rd2, -3, 5; cvt.u32.u64 %r1, %rd2;", 2**32 - 15),
    ("mul.wide.u32 %rd2, -1, 2; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;", 1), ("mad.lo.s32 %r1, 7, 6, -2;", 40),
    ("mad.wide.s32 %rd2, -1, 4, 4; cvt.u32.u64 %r1, %rd2;", 0), ("div.s32 %r1, -7, 2;", 2**32 - 3), ("div.u32 %r1, -7, 2;", (2**32 - 7) // 2),
    ("rem.s32 %r1, -7, 2;", 2**32 - 1), ("rem.u32 %r1, 17, 5;", 2), ("div.u32 %r1, 5, 0;", 2**32 - 1), ("min.s32 %r1, -1, 1;", 2**32 - 1),
    ("min.u32 %r1, -1, 1;", 1), ("max.s32 %r1, -1, 1;", 1), ("and.b32 %r1, 12, 10;", 8), ("or.b32 %r1, 12, 10;", 14), ("xor.b32 %r1, 12, 10;", 6),
    ("not.b32 %r1, 0;", 2**32 - 1), ("neg.s32 %r1, 5;", 2**32 - 5), ("abs.s32 %r1, -5;", 5), ("popc.b32 %r1, 255;", 8), ("clz.b32 %r1, 1;", 31),
    ("clz.b32 %r1, 0;", 32), ("mov.b64 %rd2, 1; clz.b64 %r1, %rd2;", 63), ("shl.b32 %r1, 1, 31;", 2**31), ("shl.b32 %r1, 1, 32;", 0),
    ("shr.u32 %r1, -1, 28;", 15), ("shr.s32 %r1, -16, 2;", 2**32 - 4), ("shr.s32 %r1, -16, 40;", 2**32 - 1), ("shr.u32 %r1, -1, 32;", 0),
    ("shf.l.wrap.b32 %r1, 0x80000000, 1, 1;", 3), ("shf.r.wrap.b32 %r1, 0, 1, 1;", 2**31), ("shf.l.clamp.b32 %r1, 5, 1, 40;", 5),
    ("prmt.b32 %r1, 0x33221100, 0x77665544, 0x7410;", 0x77441100), ("prmt.b32 %r1, 0x80, 0, 0x8888;", 0xFFFFFFFF),
    ("dp4a.s32.s32 %r1, 0x0102FF04, 0x01010101, 10;", 16), ("dp4a.u32.u32 %r1, 0x0102FF04, 0x01010101, 10;", 272),
    ("cvt.s32.s8 %r1, 200;", 2**32 - 56), ("cvt.u32.u8 %r1, 456;", 200), ("cvt.s64.s32 %rd2, -1; shr.u64 %rd2, %rd2, 32; cvt.u32.u64 %r1, %rd2;", 2**32 - 1),
    ("cvt.rzi.s32.f32 %r1, 0fC0200000;", 2**32 - 2), ("cvt.rni.s32.f32 %r1, 0f40200000;", 2), ("cvt.rpi.s32.f32 %r1, 0f40200000;", 3),
    ("cvt.rmi.s32.f32 %r1, 0fC0200000;", 2**32 - 3), ("cvt.rn.f32.s32 %f1, -3; mov.b32 %r1, %f1;", 0xC0400000),
    ("add.f32 %f1, 0f3F800000, 0f3F800000; mov.b32 %r1, %f1;", 0x40000000), ("fma.rn.f32 %f1, 0f40000000, 0f40400000, 0f3F800000; mov.b32 %r1, %f1;", 0x40E00000),
    ("min.f32 %f1, 0f3F800000, 0f40000000; mov.b32 %r1, %f1;", 0x3F800000), ("neg.f32 %f1, 0f3F800000; mov.b32 %r1, %f1;", 0xBF800000),
    ("ex2.approx.f32 %f1, 0f40400000; mov.b32 %r1, %f1;", 0x41000000), ("rcp.rn.f32 %f1, 0f40800000; mov.b32 %r1, %f1;", 0x3E800000),
    ("fma.rn.f64 %fd1, 0d4000000000000000, 0d4008000000000000, 0d3FF0000000000000; cvt.rzi.s32.f64 %r1, %fd1;", 7),
    ("mov.b32 %r2, 0x3C003C00; mov.b32 %r3, 0x40004000; fma.rn.f16x2 %r1, %r2, %r3, %r2;", 0x42004200),
    ("mov.b32 %r2, 0x3F803F80; mov.b32 %r3, 0x40004000; fma.rn.bf16x2 %r1, %r2, %r3, %r2;", 0x40404040),
    ("mov.b16 %rs1, 0x1234; mov.b16 %rs2, 0x5678; mov.b32 %r1, {%rs1, %rs2};", 0x56781234),
    ("mov.b32 {%rs1, %rs2}, 0x56781234; cvt.u32.u16 %r1, %rs2;", 0x5678),
    ("setp.lt.s32 %p1, -1, 1; selp.b32 %r1, 5, 6, %p1;", 5), ("setp.lo.u32 %p1, -1, 1; selp.b32 %r1, 5, 6, %p1;", 6),
    ("setp.eq.s32 %p1, 1, 1; setp.lt.and.s32 %p2, 2, 1, %p1; selp.b32 %r1, 5, 6, %p2;", 6),
    (f"setp.lt.f32 %p1, {NAN}, 0f3F800000; selp.b32 %r1, 5, 6, %p1;", 6), (f"setp.ltu.f32 %p1, {NAN}, 0f3F800000; selp.b32 %r1, 5, 6, %p1;", 5),
    (f"setp.ne.f32 %p1, {NAN}, {NAN}; selp.b32 %r1, 5, 6, %p1;", 6), (f"setp.neu.f32 %p1, {NAN}, {NAN}; selp.b32 %r1, 5, 6, %p1;", 5),
    (f"setp.nan.f32 %p1, {NAN}, {INF}; selp.b32 %r1, 5, 6, %p1;", 5), ("setp.ge.s32 %p1|%p2, 1, 2; selp.b32 %r1, 5, 6, %p2;", 5),
    ("mov.b32 %r1, 1; setp.eq.s32 %p1, 1, 1; @%p1 mov.b32 %r1, 2; @!%p1 mov.b32 %r1, 3;", 2),
    ("mov.b32 %r1, 0; $again: add.s32 %r1, %r1, 3; setp.lt.s32 %p1, %r1, 10; @%p1 bra $again;", 12),
    ("st.global.u32 [%rd1], 40; atom.global.add.u32 %r2, [%rd1], 2; ld.global.u32 %r3, [%rd1]; add.s32 %r1, %r2, %r3;", 82),
    ("st.global.u32 [%rd1], 40; red.global.add.u32 [%rd1], 2; ld.global.u32 %r1, [%rd1];", 42),
    ("st.global.u32 [%rd1], 40; atom.global.exch.b32 %r2, [%rd1], 7; ld.global.u32 %r1, [%rd1];", 7),
    ("st.global.v2.u32 [%rd1], {3, 4}; ld.global.v2.u32 {%r2, %r3}, [%rd1]; sub.s32 %r1, %r3, %r2;", 1),
    ("st.global.u8 [%rd1], 200; ld.global.s8 %r1, [%rd1];", 2**32 - 56), ("st.global.u8 [%rd1], 200; ld.global.u8 %r1, [%rd1];", 200),
    ("ld.param.u32 %r1, [k_n+4];", 0x11), ("mov.u32 %r1, %ntid.x;", 1), ("mov.u32 %r1, %ctaid.y;", 0),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """One kernel of all rows: each has a label's scope of its own and stores at its own place."""
    body = "".join(f"{row.replace('$again', f'$again{i}')} st.global.u32 [%rd1+{16 + 4 * i}], %r1;\n" for i, (row, _) in enumerate(ROWS))
    with build.on() as library:
        cu = Driver(library)
        cu.get("cuInit", 0)
        cu.get("cuCtxSetCurrent", cu.get("cuDevicePrimaryCtxRetain", 0))
        queue, out = cu.get("cuStreamCreate", 1), np.zeros(len(ROWS), np.uint32)
        memory = int(cu.get("cuMemAlloc", 16 + out.nbytes))
        function = cu.get("cuModuleGetFunction", cu.get("cuModuleLoadData", (HEAD + body + " ret;\n}\0").encode()), b"k")
        assert cu.launch(function, queue, memory, 0x11 << 32) == "SUCCESS"
        cu.get("cuMemcpyDtoHAsync", out.ctypes.data, memory + 16, out.nbytes, queue)
        yield out.tolist()


@pytest.mark.parametrize("row", range(len(ROWS)), ids=[text[:60] for text, _ in ROWS])
def test_an_instruction_gives_what_is_known(answers: list[int], row: int) -> None:
    assert answers[row] == ROWS[row][1]


@pytest.mark.parametrize("line", [
    "shfl.sync.down.b32 %r1, %r2, 1, 31, -1;", "vote.sync.ballot.b32 %r1, %p1, -1;", "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, {%r1, %r2}];",
    "cvt.rzi.sat.u8.f32 %rs1, %f1;", "atom.global.cas.b32 %r1, [%rd1], 1, 2;", "atom.global.add.f32 %f1, [%rd1], %f2;", "ld.local.u32 %r1, [%rd1];",
    "bar.sync 1;", "bar.sync 0, 32;", "mov.u32 %r1, %laneid;", "add.f16 %rs1, %rs2, %rs3;", "mov.u32 %r99, 1;", "call.uni f, (%r1);", "prmt.b32.f4e %r1, %r2, %r3, 1;",
])  # fmt: skip
def test_what_is_not_known_is_refused_by_name(line: str) -> None:
    with pytest.raises(ptx.Untranslatable):
        ptx.translate(HEAD + line + "\n ret;\n}")


@pytest.mark.parametrize("outside", [".global .align 4 .b8 table[16];", ".func (.param .b32 r) f() { ret; }", ".extern .shared .align 4 .b8 s[];"])
def test_what_stands_outside_of_a_kernel_is_refused(outside: str) -> None:
    with pytest.raises(ptx.Untranslatable, match="outside of a kernel"):
        ptx.translate(HEAD.replace(".visible", f"{outside}\n.visible") + " ret;\n}")


def test_halves_are_rounded_once(tmp_path: Path) -> None:
    """To the nearest, ties to even, through an fp32 that is odd where something was cut off: beside NumPy's rounding from fp64."""
    values: Any = np.random.default_rng(1).standard_normal(20_000) * np.exp2(np.random.default_rng(2).integers(-26, 17, 20_000))
    values = np.concatenate([values, [1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 3 * 2**-11, 65519.99, 65520.0, 2**-25, np.inf, -np.inf, 0.0]])
    source = tmp_path / "halves.c"
    source.write_text('#include "ptx.h"\nvoid halves(const double *x, uint16_t *out, int n) { for (int i = 0; i < n; i++) out[i] = to_f16_bits(x[i]); }\n')
    library = tmp_path / "halves.so"
    subprocess.run(["gcc", *ptx.FLAGS, f"-I{build.HERE}", "-o", str(library), str(source), "-lm"], check=True)
    out = np.zeros(len(values), np.uint16)
    ctypes.CDLL(str(library)).halves(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(out.ctypes.data), len(values))
    with np.errstate(over="ignore"):
        assert np.array_equal(out, values.astype(np.float16).view(np.uint16))
