"""Cubins against what the compiler itself says of them; text and metadata against samples of the formats; damaged files against bad ends."""

from __future__ import annotations

import contextlib
import functools
import struct
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.errors import InputError, Unavailable
from hotlap.core.measure.targets import cuda_compile
from hotlap.kernels.binaries import classes, cubin, hsaco, spirv, text
from hotlap.kernels.binaries.elf import AMDGPU, Elf

SOURCE = (Path(__file__).with_name("kernels.cu")).read_text()


@functools.cache
def compiled(arch: str, *flags: str) -> tuple[bytes, bytes, str]:
    try:
        return cuda_compile.compile_plain(SOURCE, "kernels.cu", [f"--gpu-architecture={arch}", "--ptxas-options=-v", *flags])
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def hopper() -> tuple[bytes, bytes, str]:
    return compiled("sm_90")


# ---------------------------------------------------------------- cubin


@pytest.mark.slow("compiles by NVRTC")
@pytest.mark.parametrize(("arch", "flag"), [("sm_75", ""), ("sm_90", "--maxrregcount=64"), ("sm_100", "")])
def test_registers_stack_and_shared_memory_are_those_that_ptxas_says(arch: str, flag: str) -> None:
    code, _, log = compiled(arch, *([flag] if flag else []))
    told = {kernel.kernel: kernel for kernel in cubin.read(code, "a.cubin")}
    assert set(told) == {"saxpy", "heavy"}
    for name, kernel in told.items():
        part = log.split(f"Compiling entry function '{name}'")[1].split("Compiling entry function")[0]
        assert f"Used {kernel.registers} registers" in part
        assert f"{kernel.stack_bytes} bytes stack frame" in part
        assert (f"{kernel.shared_bytes} bytes smem" in part) == bool(kernel.shared_bytes)
        assert kernel.architecture == arch
    assert told["heavy"].threads == 1024
    assert told["saxpy"].threads is None
    assert told["heavy"].shared_bytes == 4096
    assert (told["heavy"].code_bytes or 0) > (told["saxpy"].code_bytes or 0) > 0


@pytest.mark.slow("compiles by NVRTC")
def test_spills_are_read_from_the_compilers_words(hopper: tuple[bytes, bytes, str]) -> None:
    spills = text.ptxas(hopper[2])
    assert spills["saxpy"] == (0, 0)
    assert spills["heavy"][0] > 100
    assert f"{spills['heavy'][0]} bytes spill stores, {spills['heavy'][1]} bytes spill loads" in hopper[2]


@pytest.mark.parametrize("length", [0, 3, 40, 63, 64, 500])
def test_a_cubin_cut_short_is_named(hopper: tuple[bytes, bytes, str], length: int) -> None:
    with pytest.raises(InputError, match=r"a\.cubin"):
        cubin.read(hopper[0][:length], "a.cubin")


@settings(max_examples=examples(150))
@given(st.data())
def test_damage_never_ends_in_anything_but_an_answer(data: st.DataObject) -> None:
    code = bytearray(compiled("sm_90")[0])
    for _ in range(data.draw(st.integers(1, 4))):
        code[data.draw(st.integers(4, len(code) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InputError):
        assert all(one.kernel for one in cubin.read(bytes(code), "a.cubin"))


def test_another_machines_elf_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not of NVIDIA's machine code"):
        cubin.read(elf_with([], AMDGPU), "x.hsaco")


# ---------------------------------------------------------------- PTX and disassembly


def test_ptx_of_the_compiler_is_read_kernel_by_kernel(hopper: tuple[bytes, bytes, str]) -> None:
    found = text.ptx(hopper[1].decode().rstrip("\0"), "a.ptx")
    assert found.target == "sm_90"
    kernels = {one.name: one for one in found.kernels}
    counts, matrix = classes.mix(kernels["saxpy"].instructions, "PTX")
    assert (counts["fma"], counts["global"], matrix) == (1, 3, {})
    assert counts["constant"] == 4  # its parameters
    assert kernels["heavy"].threads == 1024
    assert kernels["heavy"].shared_bytes == 4096
    assert classes.mix(kernels["heavy"].instructions, "PTX")[0]["special"] == 96


def test_sass_is_read_from_either_tools_listing() -> None:
    nvdisasm = """
.section	.text.product,"ax",@progbits
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @P0  LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   HMMA.16816.F32.BF16 R8, R4, R6, R8 ;
        /*0030*/                   HFMA2 R5, -RZ, RZ, 1.875, 0 ;
        /*0040*/             @!UP0 STL.64 [R1+0x8], R8 ;
        /*0050*/                   EXIT ;
        /*0060*/                   NOP;
"""
    found = text.sass(nvdisasm)
    assert found["product"] == ["LDC", "LDG.E.128.CONSTANT", "HMMA.16816.F32.BF16", "MOV", "STL.64", "EXIT", "NOP"]
    counts, matrix = classes.mix(found["product"], "SASS")
    assert counts == {"matrix": 1, "global": 1, "local": 1, "constant": 1, "control": 1, "other": 1}
    assert matrix == {"HMMA.16816.F32.BF16": 1}
    assert text.sass("\t\tFunction : k\n        /*0000*/                   FFMA R0, R0, R0, R0 ;")["k"] == ["FFMA"]


@pytest.mark.parametrize(
    ("name", "language", "wanted"),
    [
        ("HGMMA.64x256x16.F32.BF16", "SASS", "matrix"), ("UTCHMMA", "SASS", "matrix"), ("IMMA.16832.S8.S8", "SASS", "matrix"),
        ("QGMMA.64x64x32.F32.E4M3.E4M3", "SASS", "matrix"), ("DMMA.8x8x4", "SASS", "matrix"), ("MUFU.EX2", "SASS", "special"),
        ("HFMA2.BF16_V2", "SASS", "half"), ("DFMA", "SASS", "double"), ("UTMALDG.2D", "SASS", "global"), ("LDSM.16.M88.4", "SASS", "shared"),
        ("IMAD.MOV.U32", "SASS", "integer"), ("BAR.SYNC", "SASS", "control"), ("F2FP.BF16.F32.PACK_AB", "SASS", "convert"),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "PTX", "matrix"), ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "PTX", "matrix"),
        ("fma.rn.f32", "PTX", "fma"), ("ld.global.v4.u32", "PTX", "global"), ("ld.shared.f32", "PTX", "shared"), ("ex2.approx.ftz.f32", "PTX", "special"),
        ("cvt.rn.bf16x2.f32", "PTX", "convert"), ("v_mfma_f32_32x32x8_bf16", "AMDGCN", "matrix"), ("v_wmma_f32_16x16x16_f16", "AMDGCN", "matrix"),
        ("ds_read_b128", "AMDGCN", "shared"), ("global_load_dwordx4", "AMDGCN", "global"), ("s_waitcnt", "AMDGCN", "control"),
        ("v_fma_f32", "AMDGCN", "fma"), ("scratch_store_dword", "AMDGCN", "local"), ("OpFMul", "SPIR-V", "fma"), ("OpLoad", "SPIR-V", "global"),
    ],
)  # fmt: skip
def test_instructions_have_their_class(name: str, language: str, wanted: str) -> None:
    assert classes.kind(name, language) == wanted


def test_narrow_types_are_those_of_products() -> None:
    assert classes.narrow(["cvt.rn.bf16x2.f32", "fma.rn.f32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"]) == ["bf16", "fp8"]


# ---------------------------------------------------------------- AMD's code objects


def elf_with(sections: list[tuple[str, int, bytes]], machine: int) -> bytes:
    """A small ELF file of these sections."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".names\0"
    parts, at = [], 64
    for name, kind, data in [*sections, (".names", 3, names)]:
        parts.append((names.index(name.encode() + b"\0"), kind, at, data))
        at += len(data)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 3, machine, 1, 0, 0, at, 0, 64, 0, 0, 64, len(parts) + 1, len(parts))
    table = bytes(64) + b"".join(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, where, len(data), 0, 0, 1, 0) for name, kind, where, data in parts)
    return head + b"".join(data for *_, data in parts) + table


def note(told: object) -> bytes:
    body = msgspec.msgpack.encode(told)
    return struct.pack("<III", 7, len(body), 32) + b"AMDGPU\0\0" + body + bytes(-len(body) % 4)


KERNEL = {
    ".name": "k", ".vgpr_count": 96, ".agpr_count": 32, ".sgpr_count": 40, ".vgpr_spill_count": 5, ".sgpr_spill_count": 0,
    ".group_segment_fixed_size": 16384, ".private_segment_fixed_size": 24, ".max_flat_workgroup_size": 512,
}  # fmt: skip


def test_metadata_of_a_code_object_are_read() -> None:
    told = {"amdhsa.target": "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "amdhsa.kernels": [KERNEL]}
    (one,) = hsaco.read(elf_with([(".note", 7, note(told))], AMDGPU), "k.hsaco")
    assert (one.kernel, one.architecture, one.registers, one.scalar_registers) == ("k", "gfx942", 96, 40)
    assert (one.spill_store_bytes, one.stack_bytes, one.shared_bytes, one.threads) == (20, 24, 16384, 512)
    assert "32 of its registers" in one.notices[0].seen


@pytest.mark.parametrize("told", [{}, {"amdhsa.kernels": [{}]}, [1], {"amdhsa.kernels": 3}])
def test_metadata_that_are_damaged_are_named(told: object) -> None:
    with pytest.raises(InputError, match=r"k\.hsaco: its metadata cannot be read"):
        hsaco.read(elf_with([(".note", 7, note(told))], AMDGPU), "k.hsaco")


def test_sections_and_symbols_of_a_cubin(hopper: tuple[bytes, bytes, str]) -> None:
    elf = Elf(hopper[0], "a")
    assert elf.section(".text.heavy") is not None
    assert {"heavy", "saxpy"} <= {one.name for one in elf.symbols}


# ---------------------------------------------------------------- SPIR-V


def words(*instructions: tuple[int, ...]) -> bytes:
    body = [number for opcode, *rest in instructions for number in ((len(rest) + 1) << 16 | opcode, *rest)]
    return struct.pack(f"<{5 + len(body)}I", 0x07230203, 0x10600, 0, 10, 0, *body)


def test_spirv_is_read_by_entry_point() -> None:
    main = struct.unpack("<I", b"add\0")[0]
    module = words((15, 6, 4, main), (54, 1, 4, 0, 2), (248, 5), (61, 1, 6, 7), (129, 1, 8, 6, 6), (62, 7, 8), (253,), (56,))
    assert spirv.read(module, "a.spv") == {"add": ["OpLoad", "OpFAdd", "OpStore", "OpReturn"]}
    with pytest.raises(InputError, match="cut short"):
        spirv.read(module[:-4] + struct.pack("<I", 9 << 16), "a.spv")
    with pytest.raises(InputError, match="not SPIR-V"):
        spirv.read(b"text" * 8, "a.spv")
