"""Sources compiled in processes of their own: CUDA C++, OpenCL, PTX and Triton where their compilers are here; and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from hotlap import cli
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.record import Notice
from hotlap.core.show.document import Document
from hotlap.kernels.advice import findings, study
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.compiled import disassembling, making
from hotlap.kernels.compiled.asking import CompileRequest, kernels
from hotlap.kernels.show import compiled as report

SOURCE = Path(__file__).parent / "kernels.cu"
TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1.0, mask=at < n)
"""
SIGNATURE = "x_ptr=*fp32:16, y_ptr=*fp32:16, n=i32, BLOCK=1024, num_warps=8"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Compiled], Path]:
    pytest.importorskip("cuda.bindings.nvrtc")
    keep = tmp_path_factory.mktemp("kept")
    return list(kernels(str(SOURCE), CompileRequest(architectures=["sm_90"], keep=keep, rounds=2))), keep


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_cuda_is_compiled_with_its_spills_and_kept(made: tuple[list[Compiled], Path]) -> None:
    found, keep = made
    heavy = next(one for one in found if one.kernel == "heavy")
    assert heavy.registers == 32
    assert heavy.spills
    assert len(heavy.compile_s) == 2
    assert all(0 < seconds < 120 for seconds in heavy.compile_s)
    assert sorted(path.name for path in keep.iterdir()) == ["kernels.sm_90.cubin", "kernels.sm_90.ptx"]
    assert heavy.of == ("SASS" if disassembling.tool("nvdisasm") else "PTX")


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_a_kept_cubin_and_ptx_are_read_again(made: tuple[list[Compiled], Path]) -> None:
    found, keep = made
    again = list(kernels(str(keep / "kernels.sm_90.cubin"), CompileRequest()))
    assert [(one.kernel, one.registers, one.stack_bytes) for one in again] == [(one.kernel, one.registers, one.stack_bytes) for one in found]
    ptx = {one.kernel: one for one in kernels(str(keep / "kernels.sm_90.ptx"), CompileRequest())}
    assert ptx["heavy"].threads == 1024
    assert ptx["heavy"].registers == (32 if disassembling.ptxas("sm_90") else None)


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_flags_are_variants_side_by_side(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["kernel", "compiled", str(SOURCE), "--flags=", "--flags=--maxrregcount=24", "--arch", "sm_80"]) == 0
    out = capsys.readouterr().out
    assert "sm_80 --maxrregcount=24" in " ".join(out.split())
    assert "registers are spilled to memory" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_the_example_spills_and_its_fix_does_not() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    example = Path(__file__).parents[2] / "examples" / "spills.cu"
    spilled, fixed = kernels(str(example), CompileRequest(flags=["", "-DFIX"]))
    assert spilled.spills
    assert not fixed.spills
    assert [one.rule for one in findings([study(spilled)])] == ["compiled-spills"]


def test_a_source_that_does_not_compile_is_named_with_its_line(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "bad.cu").write_text("__global__ void k(int* a) { a[0] = nothing; }\n")
    with pytest.raises(NotSupported, match=r"bad\.cu\(1\): error"):
        list(kernels(str(tmp_path / "bad.cu"), CompileRequest()))


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_what_could_be_compiled_is_shown_beside_what_could_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "bad.cu").write_text("__global__ void k(int* a) { a[0] = nothing; }\n")
    assert cli.main(["kernel", "compiled", str(SOURCE), str(tmp_path / "bad.cu")]) == 3
    said = capsys.readouterr()
    assert "saxpy" in said.out
    assert "nothing" in said.err
    (tmp_path / "none.cu").write_text("__device__ int plain(int a) { return a; }\n")
    assert cli.main(["kernel", "compiled", str(tmp_path / "none.cu")]) == 2
    assert "no __global__ function" in capsys.readouterr().err


@pytest.mark.slow("compiles by NVRTC")
@pytest.mark.parametrize(
    ("source", "architecture", "said"),
    [
        ("nothing.cu", "", "there is no file"), ("kernel.txt", "", "neither a source nor a binary"), ("kernel.py", "", "name the Triton function"),
        ("kernel.cu", "sm_12", "makes no code for sm_12"), ("kernel.cu", "hopper", "no architecture of NVIDIA"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, architecture: str, said: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.chdir(tmp_path)
    for name in ("kernel.txt", "kernel.py", "kernel.cu"):
        (tmp_path / name).write_text("text")
    with pytest.raises(InputError, match=said):
        list(kernels(source, CompileRequest(architectures=[architecture] if architecture else [])))


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_opencl_is_asked_of_its_driver(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    (tmp_path / "k.cl").write_text("__kernel void k(__global float* a) { __local float t[64]; int i = get_local_id(0); t[i] = a[i]; barrier(1); a[i] = t[63 - i]; }")
    (one,) = kernels(str(tmp_path / "k.cl"), CompileRequest())
    assert one.kernel == "k"
    assert one.shared_bytes == 256
    assert one.compile_s[0] > 0


def test_an_example_of_a_signature_says_pointers_and_constants() -> None:
    """Of x, which is loaded from, out, which is stored to, columns and block, a constant: as its own types would be."""
    source = "def rms(x, out, columns, block):\n    v = tl.load(x + tl.arange(0, block))\n    tl.store( out, v)\n"
    function = SimpleNamespace(arg_names=["x", "out", "columns", "block"], src=source, params=[SimpleNamespace(name="block", is_constexpr=True)])
    assert making._likely(function) == {"x": "*fp32", "out": "*fp32", "columns": "i32", "block": "1024"}


def test_triton_is_compiled_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    (tmp_path / "add.py").write_text(TRITON)
    (one,) = kernels(f"{tmp_path}/add.py:add", CompileRequest(architectures=["sm_90"], signature=SIGNATURE))
    assert (one.threads, one.registers is not None, one.spill_store_bytes) == (256, True, 0)
    with pytest.raises(InputError, match="--signature lacks n, BLOCK; as in --signature"):
        list(kernels(f"{tmp_path}/add.py:add", CompileRequest(signature="x_ptr=*fp32, y_ptr=*fp32")))
    with pytest.raises(InputError, match="has no function 'ad'; did you mean 'add'"):
        list(kernels(f"{tmp_path}/add.py:ad", CompileRequest(signature=SIGNATURE)))


# ---------------------------------------------------------------- what is said


def kernel(**fields: object) -> Compiled:
    given = {"kernel": "k", "architecture": "sm_90", "registers": 128, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0, "threads": 256}
    return Compiled(**{**given, **fields})  # type: ignore[arg-type]


def test_occupancy_is_that_of_the_calculator() -> None:
    held = study(kernel()).occupancy
    assert held is not None
    assert (held.warps, held.most, held.limited_by) == (16, 64, ["registers per thread"])  # 65536 ÷ (128 × 32) = 16 warps
    shared = study(kernel(registers=32, shared_bytes=100 * 1024)).occupancy
    assert shared is not None
    assert (shared.warps, shared.limited_by) == (16, ["shared memory per block"])  # 2 blocks of 101 KiB in 228 KiB
    wave = study(kernel(architecture="gfx942", registers=128, threads=256)).occupancy
    assert wave is not None
    assert wave.warps == 16  # 512 registers a lane ÷ 128 = 4 waves on each of 4 SIMDs


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"spill_store_bytes": 12, "spill_load_bytes": 16}, "compiled-spills"),
        ({"spill_store_bytes": None, "spill_load_bytes": None, "stack_bytes": 64}, "compiled-local"),
        ({"instructions": {"fma": 512, "global": 16, "shared": 32}, "of": "SASS", "dtypes": ["bf16"], "registers": 32}, "compiled-matrix"),
        ({"registers": 200}, "compiled-occupancy"), ({"shared_bytes": 300 * 1024}, "compiled-launch"),
    ],
)  # fmt: skip
def test_each_finding_is_found(fields: dict[str, object], rule: str) -> None:
    assert rule in [one.rule for one in findings([study(kernel(**fields))])]


@pytest.mark.parametrize(
    "fields",
    [
        {"registers": 32},
        {"registers": 32, "instructions": {"fma": 512, "global": 16}, "of": "SASS", "matrix": {"HMMA": 3}, "dtypes": ["bf16"]},
        {"registers": 32, "instructions": {"fma": 512, "global": 16}, "of": "SASS", "dtypes": []},  # fp32 wants no matrix unit
        {"registers": 32, "instructions": {"fma": 8, "global": 16}, "of": "SASS", "dtypes": ["bf16"]},  # an element-wise kernel
    ],
)
def test_nothing_is_found_where_nothing_is(fields: dict[str, object]) -> None:
    assert findings([study(kernel(**fields))]) == []


def test_the_table_says_what_is_not_known() -> None:
    studied = [study(kernel(registers=None, of="", threads=None, notices=[Notice("not_compiled", "registers are not known: why")]))]
    out = report.compiled(studied, findings(studied), 80)
    assert "no occupancy: its registers are not known" in out
    assert "registers are not known: why" in out
    assert "256?" in out


@pytest.mark.slow("compiles by NVRTC, or a driver")
def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    assert cli.main(["kernel", "compiled", str(SOURCE), "--json", "--machine", "h200-sxm"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert msgspec.convert(told, Document).exit_code is None
    assert {one["compiled"]["kernel"] for one in told["kernels"]} == {"saxpy", "heavy"}
    assert told["findings"][0]["rule"] == "compiled-spills"
