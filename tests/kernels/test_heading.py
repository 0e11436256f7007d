"""`kernel new`: the heading of a kernel from its signature; and `kernel plan --beside` where the library runs elsewhere."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import hotlap
from hotlap.cli import main
from hotlap.core import plan as plans
from hotlap.core.analysis.implementations import Beside, ImplementationEntry
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.workloads.operators import FAMILIES, rowwise
from hotlap.core.measure.workloads.operators.making import Tensors
from hotlap.core.record import Case, Plan
from hotlap.core.show.implementations import beside
from hotlap.core.work import find
from hotlap.kernels import kept as kernels
from hotlap.kernels.cli import halves
from hotlap.kernels.own import needed
from hotlap.kernels.own.describe import HEADER, describe
from hotlap.kernels.own.heading import EPSILON, guessed

Capture = pytest.CaptureFixture[str]
RMS = """/* __kernel void not_this(int a) */
__kernel void rms(__global const float *restrict x, __global const float *weight, __global float *out, const int rows, int cols, float eps)
{
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_right(capsys: Capture, *words: str) -> bool:
    """By its results alone: on a busy machine the timers may disagree, which is another reason to end with 1."""
    capsys.readouterr()
    main(["kernel", "check", *words, "--target", "opencl", "--json"])
    (checked,) = json.loads(capsys.readouterr().out)["checks"]
    return bool(checked["samples"]["check"]["passed"])


def heading(path: Path, text: str = "", like: str = "") -> dict[str, Any]:
    if text:
        path.write_text(text)
    written = guessed(path, like)
    assert text in written
    return tomllib.loads("\n".join(line[2] for line in map(HEADER.match, written.splitlines()) if line))


def test_a_kernel_that_sums_over_a_size_says_how_many_numbers_an_element_sums(folder: Path) -> None:
    """Else only some units in the last place would be allowed, and a right kernel is wrong at large sizes."""
    text = "__kernel void f(__global const float *x, __global float *y, int rows, int cols)\n{{\n    float s = 0;\n    {loop}\n}}\n"
    for loop, terms in (
        ("for (int i = 0; i < cols; ++i) s += x[i] * x[i];", "cols"), ("for (int i = get_local_id(0); i < cols; i += 64) s = fma(x[i], x[i], s);", "cols"),
        ("for (int i = 0; i < rows; i++) for (int j = 0; j < cols; j++) s += x[i];", "rows * cols"), ("for (int i = 0; i < cols; i += 64) y[i] = 2 * x[i];", None),
    ):
        (folder / "f.cl").unlink(missing_ok=True)
        assert heading(folder / "f.cl", text.format(loop=loop)).get("terms") == terms


def test_a_kernel_that_leaves_out_nothing_beyond_its_items_is_said_what_runs(folder: Path, capsys: Capture) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyopencl")
    (folder / "twice.cl").write_text("__kernel void twice(__global const float *x, __global float *y, int n)\n{\n    y[get_global_id(0)] = 2 * x[get_global_id(0)];\n}\n")
    assert main(["kernel", "new", "twice.cl"]) == 0
    text = (folder / "twice.cl").read_text()
    assert 'items = "n"  # work-items in all; whole groups run, so leave out those beyond it' in text
    (folder / "twice.cl").write_text(text.replace('reference = "x"', 'reference = "2 * x"'))
    assert main(["kernel", "add", "twice.cl"]) == 0
    assert is_right(capsys, "twice", "n=1024")
    assert main(["kernel", "check", "twice", "n=1000", "--target", "opencl"]) == 1
    seen = " ".join(capsys.readouterr().out.split())
    assert "1024 work-items run for 1000, since groups of 64 are whole: a kernel must leave out those beyond its size" in seen


def test_a_right_kernel_that_sums_is_said_what_its_file_leaves_out(folder: Path, capsys: Capture) -> None:
    """An element sums 8192 squares, one after the other in fp32, and the file does not say so."""
    pytest.importorskip("torch")
    pytest.importorskip("pyopencl")
    text = "__kernel void sums(__global const float *x, __global float *y, int rows, int cols)\n{\n    int r = get_global_id(0);\n    if (r >= rows) return;\n    float s = 0;\n    for (int i = 0; i < cols; i++) { float v = x[(long)r * cols + i]; s += v * v; }\n    y[r] = s;\n}\n"
    (folder / "sums.cl").write_text(text)
    assert main(["kernel", "new", "sums.cl"]) == 0
    whole = (folder / "sums.cl").read_text()
    assert 'terms = "cols"' in whole
    right = whole.replace('reference = "x"', 'reference = "x.square().sum(1)"').replace('y = { shape = ["rows", "cols"] }', 'y = { shape = ["rows"] }')
    for name, file in (("sums", right), ("short", re.sub(r"//: terms.*\n", "", right))):
        (folder / f"{name}.cl").write_text(file)
        assert main(["kernel", "add", f"{name}.cl"]) == 0
    assert is_right(capsys, "sums", "rows=64", "cols=8192")
    assert main(["kernel", "check", "short", "rows=64", "cols=8192", "--target", "opencl"]) == 1
    assert "where an element sums many numbers, the file says how many by terms" in " ".join(capsys.readouterr().out.split())


def test_a_workload_s_kernel_has_its_parameters_operation_and_type(folder: Path) -> None:
    assert heading(folder / "rms.cl", RMS, "rowwise") == {
        "workload": "rowwise", "only": {"op": "rmsnorm", "dtype": "fp32"}, "cases": [{"rows": 1024, "columns": 1024}],
        "function": "rms", "outputs": {"out": {"shape": ["rows", "columns"], "dtype": "dtype"}},
        "arguments": ["x", "weight", "out", "rows:int32", "columns:int32", "1e-5:fp32"], "items": "rows", "group": 64,
    }  # fmt: skip


def test_an_extent_that_the_kernel_is_not_given_stands_in_the_output(folder: Path) -> None:
    """It runs once for each row; an output of one row would be written beyond its end."""
    found = heading(folder / "rms.cl", "__kernel void rms(__global const float *x, __global float *out, int columns) {}", "rowwise")
    assert (found["outputs"]["out"]["shape"], found["items"]) == (["rows", "columns"], "rows")
    assert found["cases"] == [{"rows": 1024, "columns": 1024}]


def test_a_backward_pass_is_named_and_a_file_with_another_name_names_its_function(folder: Path) -> None:
    found = heading(folder / "softmax_bwd.cu", "__global__ void f(const double *g, double* dx, long rows, unsigned columns) {}", "rowwise")
    assert found["only"] == {"op": "softmax_backward", "dtype": "fp64"}
    assert found["function"] == "f"
    assert found["arguments"] == ["g", "dx", "rows:int64", "columns:uint32"]


def test_a_size_of_another_name_is_the_extent_that_the_code_counts_to_or_all_of_them(folder: Path) -> None:
    loop = "__kernel void rms(__global const float *x, __global float *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }"
    found = heading(folder / "rms.cl", loop, "rowwise")
    assert (found["arguments"][-1], found["items"]) == ("columns:int32", "rows")
    each = "__kernel void rms(__global const float *x, __global float *y, int n) { int i = get_global_id(0); if (i < n) y[i] = x[i]; }"
    found = heading(folder / "each.cl", each, "rowwise")
    assert (found["arguments"][-1], found["items"]) == ("rows * columns:int32", "rows * columns")
    assert found["outputs"] == {"y": {"shape": ["rows", "columns"], "dtype": "dtype"}}


def test_a_heading_that_names_no_parameter_of_its_workload_is_refused_when_it_is_added(folder: Path, capsys: Capture) -> None:
    text = "__kernel void rms(__global const float *x, __global float *y, int columns) {}"
    (folder / "rms.cl").write_text(text)
    assert main(["kernel", "new", "rms.cl", "--like", "rowwise"]) == 0
    (folder / "rms.cl").write_text((folder / "rms.cl").read_text().replace("columns:int32", "n:int32"))
    assert main(["kernel", "add", "rms.cl"]) == 2
    assert "rms.cl: 'n' names 'n', which is no parameter; valid: columns, dtype, op, rows; it implements rowwise" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "like"), [("new.cl", "rowwise"), ("new.cu", "gemm"), ("alone.cl", ""), ("alone.cu", "")])
def test_a_file_that_is_not_there_is_begun_and_what_is_written_can_be_kept(folder: Path, name: str, like: str) -> None:
    path = folder / name
    path.write_text(guessed(path, like))
    assert describe(path).workload == like
    assert ("__kernel void new" if name == "new.cl" else "void ") in path.read_text()


@pytest.mark.parametrize(("name", "arguments"), [
    ("my_rms.cl", ["x", "weight", "out"]), ("my_rms.cu", ["x", "weight", "out"]), ("softmax.cl", ["x", "out"]),
    ("batchnorm.cl", ["x", "weight", "bias", "out"]), ("cross_entropy.cl", ["x", "classes", "out"]),
])  # fmt: skip
def test_a_file_that_is_begun_has_every_input_of_its_operation(folder: Path, name: str, arguments: list[str]) -> None:
    assert heading(folder / name, like="rowwise")["arguments"] == [*arguments, "rows:int32", "columns:int32"]
    assert ("const long *classes" in guessed(folder / name, "rowwise")) == ("classes" in arguments)


OPERATIONS = [(name, op) for name in sorted(FAMILIES) for op in (getattr(find(name).param("op"), "choices", ()) or [""])]


@pytest.mark.slow("PyTorch computes the reference of every operation")
@pytest.mark.parametrize(("workload", "op"), OPERATIONS)
def test_the_table_of_inputs_is_what_pytorch_s_references_use(workload: str, op: str) -> None:
    torch = pytest.importorskip("torch")
    spec = find(workload)
    small = {p.name: 32 for p in spec.params if p.kind == "int" and p.low == 1 and p.default != 7}
    only = ({"op": op} if op else {}) | ({"dtype": "fp32"} if spec.param("dtype") else {})
    case = Case(workload=workload, params=spec.full({**dict(list(small.items())[:3]), **only}))
    family = importlib.import_module(f"hotlap.core.measure.workloads.operators.{FAMILIES[workload]}")
    try:
        ours = family.operator(case, torch)
        inputs = ours.inputs(Tensors(torch, "cpu", 1))
        used = [name for name in needed.used(ours, inputs) if name not in ours.writes]
    except (NotSupported, RuntimeError):
        assert needed.of_workload(workload, op) == {}, "the table has what PyTorch has not"
        return
    whole = {name: "" if inputs[name].is_floating_point() else str(inputs[name].dtype).removeprefix("torch.") for name in used}
    assert needed.of_workload(workload, op) == whole


WITHOUT_WEIGHT = """__kernel void rms(__global const float *x, __global float *out, int rows, int columns)
{
    int row = get_global_id(0);
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < columns; i++) sum += x[row * columns + i] * x[row * columns + i];
    for (int i = 0; i < columns; i++) out[row * columns + i] = x[row * columns + i] * rsqrt(sum / columns + 1e-6f);
}
"""


def test_an_input_that_the_arguments_leave_out_is_named(folder: Path, capsys: Capture) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyopencl")
    (folder / "rms.cl").write_text(WITHOUT_WEIGHT)
    left_out = "the input 'weight' of rowwise rmsnorm is not among the kernel's arguments"
    assert main(["kernel", "new", "rms.cl", "--like", "rowwise"]) == 0
    assert f"//: # {left_out}" in capsys.readouterr().out
    assert main(["kernel", "add", "rms.cl"]) == 0
    assert main(["kernel", "check", "rms", "rows=8", "columns=64", "--target", "opencl", "--json"]) == 1
    (checked,) = json.loads(capsys.readouterr().out.partition("\n")[2].partition("\n")[2])["checks"]
    assert checked["samples"]["check"]["what"].endswith(f"allowed; {left_out}")


MM = "__kernel void mm(__global const float *A, __global const float *B, __global float *C, int M, int N, int K)\n"
PRODUCT = "{ int i = get_global_id(0); if (i >= M * N) return; float s = 0; for (int j = 0; j < K; j++) s += A[i / N * K + j] * B[j * N + i % N]; C[i] = s; }\n"


def test_a_matrix_product_has_its_shapes_and_is_compared_with_the_library_s(folder: Path) -> None:
    assert heading(folder / "mm.cl", MM + PRODUCT, "gemm") == {
        "workload": "gemm", "only": {"dtype": "fp32", "batch": 1, "layout": "nn", "epilogue": "none", "pad": 0},
        "cases": [{"m": 512, "n": 512, "k": 512}], "function": "mm", "writes": ["c"],
        "arguments": ["a", "b", "c", "m:int32", "n:int32", "k:int32"], "items": "m * n", "group": 64,
    }  # fmt: skip
    alone = heading(folder / "own.cl", MM + PRODUCT)
    assert alone["inputs"] == {"A": {"shape": ["M", "K"]}, "B": {"shape": ["K", "N"]}}
    assert alone["outputs"] == {"C": {"shape": ["M", "N"]}}
    assert (alone["reference"], alone["terms"], alone["operations"]) == ("A @ B", "K", "2 * M * N * K")
    assert (alone["read_bytes"], alone["written_bytes"]) == ("(M * K + K * N) * size(dtype)", "M * N * size(dtype)")


def test_a_product_as_of_blas_has_leading_dimensions_and_factors(folder: Path) -> None:
    text = "__global__ void sgemm(int M, int N, int K, float alpha, float *A, int lda, float *B, int ldb, float beta, float *C, int ldc) {}"
    assert heading(folder / "sgemm.cu", text, "gemm")["arguments"] == [
        "m:int32", "n:int32", "k:int32", "1:fp32", "a", "k:int32", "b", "n:int32", "0:fp32", "c", "n:int32",
    ]


@pytest.mark.parametrize(("body", "group"), [
    ("__shared__ float part[256];", 256), ("__shared__ float tile[16][17];", 64), ("__shared__ float scale[8];", 64), ("", 64),
])  # fmt: skip
def test_a_group_is_as_large_as_the_array_that_it_shares(folder: Path, body: str, group: int) -> None:
    text = f"__global__ void norm(const float *x, float *out, int rows, int columns) {{ {body} int row = blockIdx.x; }}"
    said = heading(folder / "norm.cu", text, "rowwise")
    assert (said["group"], said["items"]) == (group, f"rows * {group}")


def test_launch_bounds_say_the_group(folder: Path) -> None:
    text = "__global__ void __launch_bounds__(128, 2) norm(const float *x, float *out, int rows, int columns) { __shared__ float part[256]; int row = blockIdx.x; }"
    assert heading(folder / "norm.cu", text, "rowwise")["group"] == 128


def test_a_table_that_is_no_product_is_none(folder: Path) -> None:
    text = "__kernel void add(__global const float *x, __global const float *y, __global float *out, int n) {}"
    assert heading(folder / "add.cl", text)["params"] == {"n": 1024, "dtype": "fp32"}


@pytest.mark.parametrize(("file", "like"), [("mm.cl", "gemm"), ("own.cl", ""), ("begun.cl", "gemm")])
def test_what_is_written_for_a_product_is_checked_as_right(folder: Path, file: str, like: str, capsys: Capture) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyopencl")
    if file != "begun.cl":
        (folder / file).write_text(MM + PRODUCT)
    name = Path(file).stem
    assert main(["kernel", "new", file, *(["--like", like] if like else [])]) == 0
    assert main(["kernel", "add", file]) == 0
    sizes = ["m=64", "n=48", "k=32"] if like else ["M=64", "N=48", "K=32"]
    assert is_right(capsys, name, *sizes)


@pytest.mark.parametrize(("name", "text", "like", "message"), [
    ("a.py", "", "rowwise", "'a.py' gets no heading; valid: .cl, .cu"), ("a.cl", "void f(int n) {}", "rowwise", "no function that begins with"),
    ("a.cl", "//: name = 'x'\n" + RMS, "rowwise", "begin with //: already"), ("a.cl", RMS, "rowise", "cannot implement 'rowise'; did you mean 'rowwise'"), ("a.cl", RMS, "rowwise op=rmsnorm", "did you mean 'rowwise'"),
])  # fmt: skip
def test_what_gets_no_heading_says_why(folder: Path, name: str, text: str, like: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=message):
        guessed(folder / name, like)


def test_the_library_beside_a_kernel_of_another_target_is_a_plan_of_its_own(folder: Path, capsys: Capture) -> None:
    (folder / "rms.cl").write_text(RMS)
    assert main(["kernel", "new", "rms.cl", "--like", "rowwise"]) == 0
    assert main(["kernel", "add", "rms.cl"]) == 0
    assert main(["kernel", "plan", "rms", "--beside"]) == 0
    assert "-o FILE writes a plan for each, hotlap kernel run rms --beside runs them" in capsys.readouterr().err
    assert main(["kernel", "plan", "rms", "--beside", "-o", "p.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "hotlap run p.library.toml --target torch:cpu --label beside=rms", "hotlap run p.toml --target opencl --label beside=rms",
        "hotlap compare beside=rms --by implementation",
    ]
    ours, own = (plans.load(name).cases for name in ("p.library.toml", "p.toml"))
    assert [one.implementation for one in (*ours, *own)] == ["", "rms"]
    assert ours[0].params == own[0].params


@pytest.mark.slow("PyTorch and OpenCL measure")
def test_both_halves_run_on_their_targets(folder: Path, capsys: Capture) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pyopencl")
    (folder / "mm.cl").write_text(MM + PRODUCT)
    assert main(["kernel", "new", "mm.cl", "--like", "gemm"]) == 0
    assert main(["kernel", "add", "mm.cl"]) == 0
    capsys.readouterr()
    assert main(["kernel", "run", "mm", "m=64", "n=48", "k=32", "--beside", "--rounds", "1", "--budget", "2 min"]) == 0
    out, said = capsys.readouterr()
    assert said.count("1 case each on 2 targets, in turns") == 1
    assert "library  1 of 1 right" in out
    assert "mm       1 of 1 right" in out
    ids = [line.split("/")[-1] for line in out.splitlines() if line.startswith("run  ")]
    assert [hotlap.load(one).bundle.run.target for one in ids] == ["torch:cpu", "opencl"]
    assert [hotlap.load(one).bundle.run.plan.measure.budget_s for one in ids] == [60.0, 60.0]
    assert main(["kernel", "run", "mm", "m=64", "n=48", "k=32", "--rounds", "1", "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert case["implementation"] == "mm"


def test_beside_a_kernel_that_cannot_run_nothing_is_measured(folder: Path, capsys: Capture) -> None:
    pytest.importorskip("torch")
    text = 'raise RuntimeError("0 active drivers ([]). There should only be one.")'
    (folder / "soft.py").write_text(f"workload = 'rowwise'\nonly = {{'op': 'softmax'}}\ndef launch(inputs, params):\n    {text}\n")
    assert main(["kernel", "add", "soft.py"]) == 0
    capsys.readouterr()
    assert main(["kernel", "run", "soft", "--beside", "--target", "torch:cpu"]) == 3
    assert "not run, because Triton finds no GPU here" in " ".join(capsys.readouterr().out.split())
    assert not list(folder.glob("**/runs/*/run.json"))


def without(folder: Path, missing: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Hotlap where some packages cannot be imported."""
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    for name in missing.split():
        place = stubs / name if "." not in name else stubs / name.replace(".", "/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')")
    environment = {**os.environ, "PYTHONPATH": str(stubs)}
    command = [sys.executable, "-m", "hotlap", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)


GELU = "import triton\nworkload = 'pointwise'\nonly = {'op': 'gelu'}\n\n\ndef launch(inputs, params):\n    return inputs['x']\n"


@pytest.mark.slow("a process for each verb, and PyTorch in most of them")
@pytest.mark.parametrize(("missing", "words", "message"), [
    ("torch", ["run", "mm", "--beside"], "the library needs the target torch:cpu: PyTorch cannot be imported (No module named 'torch'); pip install torch"),
    ("pyopencl", ["run", "mm"], "mm needs the target opencl: pyopencl cannot be imported (No module named 'pyopencl'); pip install 'pyopencl[pocl]'"),
    ("pyopencl", ["check", "mm"], "pip install 'pyopencl[pocl]'"), ("torch", ["check", "mm"], "pip install torch"),
    ("pyopencl", ["compiled", "mm.cl"], "pip install 'pyopencl[pocl]'"), ("cuda", ["compiled", "mm.cu"], "pip install "),
    ("cuda", ["check", "mmu"], "pip install"), ("cuda", ["run", "mmu"], "install "),  # NVIDIA's driver where there is none, else packages
    ("triton", ["add", "gelu.py"], "pip install triton"), ("triton", ["check", "gelu"], "pip install triton"),
    ("triton", ["run", "gelu", "--rounds", "1"], "pip install triton"), ("triton", ["compiled", "gelu.py:launch"], "pip install triton"),
])  # fmt: skip
def test_a_compiler_that_is_missing_comes_with_its_remedy(folder: Path, missing: str, words: list[str], message: str) -> None:
    pytest.importorskip("torch")
    if "mmu" in words or "mm.cu" in words:
        (folder / "mm.cu").write_text(MM.replace("__kernel", "__global__").replace("__global ", "") + "{}\n")
        assert main(["kernel", "new", "mm.cu", "--like", "gemm"]) == 0
        (folder / "mmu.cu").write_text((folder / "mm.cu").read_text())
        assert main(["kernel", "add", "mmu.cu"]) == 0
    elif "mm" in words or "mm.cl" in words:
        (folder / "mm.cl").write_text(MM + PRODUCT)
        assert main(["kernel", "new", "mm.cl", "--like", "gemm"]) == 0
        assert main(["kernel", "add", "mm.cl"]) == 0
    else:
        (folder / "gelu.py").write_text(GELU if words[0] == "add" else GELU.replace("import triton", "import types as triton"))
        if words[0] != "add":
            assert main(["kernel", "add", "gelu.py"]) == 0
            for kept in (folder / "home" / "kernels").rglob("gelu.py"):
                kept.chmod(0o644)
                kept.write_text(GELU)
            (folder / "gelu.py").write_text(GELU)
    done = without(folder, missing, "kernel", *words)
    assert message in done.stdout + done.stderr, done
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode in (1, 2, 3)


def test_a_module_that_is_missing_comes_with_its_remedy(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "triton.py").write_text("raise ModuleNotFoundError(\"No module named 'triton'\", name='triton')")
    (folder / "gelu.py").write_text("import triton\n")
    assert main(["kernel", "add", "gelu.py"]) == 3
    assert "No module named 'triton'; pip install triton" in capsys.readouterr().err


def test_what_was_not_run_is_not_counted_as_wrong() -> None:
    def entry(name: str, status: str) -> ImplementationEntry:
        return ImplementationEntry(name, status, "needs torch" if status == "not_run" else "", None, None, "s", None, None)

    case = Case(workload="rowwise", params={"rows": 8})
    text = beside([Beside(case, [entry("library", "not_run"), entry("mine", "invalid")])], 100, False)
    assert "library  1 not run; needs torch" in text
    assert "mine     0 of 1 right" in text


SCALE = """//: params = { n = 4096 }
//: read_bytes = "n * 4"
//: written_bytes = "n * 4"
//: function = "scale"
//: inputs = { x = { shape = ["n"] } }
//: outputs = { out = { shape = ["n"] } }
//: reference = "x * 2"
//: arguments = ["x", "out", "n:int32"]
//: items = "n"
//: group = 64
"""


def test_a_kernel_that_is_a_workload_of_its_own_runs_where_its_kind_does(folder: Path, capsys: Capture) -> None:
    """No library is asked for, so none is needed."""
    (folder / "scale.cu").write_text(SCALE + "__global__ void scale(const float *x, float *out, int n) {}\n")
    kernel = describe(folder / "scale.cu")
    plan = Plan(name="scale", cases=[kernels.case(kernel, {})])
    assert [(half.target, half.library) for half in halves.of(plan, [kernel])] == [("cuda", False)]
    pytest.importorskip("pyopencl")
    body = "{ int i = get_global_id(0); if (i < n) out[i] = 2 * x[i]; }"
    (folder / "scale.cl").write_text(SCALE + f"__kernel void scale(__global const float *x, __global float *out, int n) {body}\n")
    assert main(["kernel", "add", "scale.cl"]) == 0
    assert "a workload of its own with 1 parameter, revision" in capsys.readouterr().out
    assert main(["kernel", "run", "scale", "--rounds", "1", "--json"]) in (0, 3)
    assert [run["target"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["opencl"]


def test_threads_that_a_heading_says_are_not_assumed(folder: Path, capsys: Capture) -> None:
    pytest.importorskip("cuda.bindings")
    (folder / "scale.cu").write_text(SCALE + 'extern "C" __global__ void scale(const float *x, float *out, int n) { if (n > 1) out[0] = x[1]; }\n')
    assert main(["kernel", "compiled", "scale.cu", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (kernel["threads"], kernel.get("assumed", False)) == (64, False)
    assert main(["kernel", "compiled", "scale.cu"]) == 0
    assert "64?" not in capsys.readouterr().out


def test_a_group_a_row_and_names_of_its_own_are_seen(folder: Path) -> None:
    """One of 64 groups would be launched, and `w` is nothing of the workload's."""
    pytest.importorskip("torch")
    for file, row in (("rms.cl", "get_group_id(0)"), ("rms.cu", "blockIdx.x")):
        text = RMS.replace("*weight", "*w").replace("{\n}", "{ int row = ROW; }".replace("ROW", row))
        if file == "rms.cu":
            text = text.replace("__kernel", "__global__").replace("__global const", "const").replace("__global float", "float")
        found = heading(folder / file, text, "rowwise")
        assert (found["items"], found["group"]) == ("rows * 64", 64)
        assert found["arguments"][:3] == ["x", "weight", "out"]
    assert float(EPSILON) == rowwise.EPSILON


def test_a_file_in_another_language_that_takes_a_kernel_s_place_is_said(folder: Path, capsys: Capture) -> None:
    (folder / "rms.cl").write_text(RMS)
    (folder / "rms.cu").write_text(RMS.replace("__kernel", "__global__").replace("__global const", "const").replace("__global float", "float"))
    for name, words in (("rms.cl", ""), ("rms.cu", "it takes the place of rms.cl; to keep both, set another name in rms.cu and add rms.cl again")):
        assert main(["kernel", "new", name, "--like", "rowwise"]) == 0
        capsys.readouterr()
        assert main(["kernel", "add", name]) == 0
        assert ("takes the place" in (printed := capsys.readouterr().out)) == bool(words)
        assert words in printed
    (folder / "rms.cu").write_text((folder / "rms.cu").read_text().replace("//: workload", '//: name = "rms-cuda"\n//: workload', 1))
    assert main(["kernel", "add", "rms.cu"]) == main(["kernel", "add", "rms.cl"]) == 0
    assert "takes the place" not in capsys.readouterr().out, "both are kept, as was advised"
