"""`kernel new`: the heading of a kernel from its signature; and `kernel plan --beside` where the library runs elsewhere."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.core import plan as plans
from hotlap.core.analysis.implementations import Beside, ImplementationEntry
from hotlap.core.errors import InputError
from hotlap.core.record import Case
from hotlap.core.show.implementations import beside
from hotlap.kernels.own.describe import HEADER, describe
from hotlap.kernels.own.heading import guessed

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


def heading(path: Path, text: str = "", like: str = "") -> dict[str, Any]:
    if text:
        path.write_text(text)
    written = guessed(path, like)
    assert text in written
    return tomllib.loads("\n".join(line[2] for line in map(HEADER.match, written.splitlines()) if line))


def test_a_workload_s_kernel_has_its_parameters_operation_and_type(folder: Path) -> None:
    assert heading(folder / "rms.cl", RMS, "rowwise") == {
        "workload": "rowwise", "only": {"op": "rmsnorm", "dtype": "fp32"}, "cases": [{"rows": 1024, "columns": 1024}],
        "function": "rms", "outputs": {"out": {"shape": ["rows", "columns"], "dtype": "dtype"}},
        "arguments": ["x", "weight", "out", "rows:int32", "columns:int32", "1e-6:fp32"], "items": "rows", "group": 64,
    }  # fmt: skip


def test_a_backward_pass_is_named_and_a_file_with_another_name_names_its_function(folder: Path) -> None:
    found = heading(folder / "softmax_bwd.cu", "__global__ void f(const double *g, double* dx, long rows, unsigned columns) {}", "rowwise")
    assert found["only"] == {"op": "softmax_backward", "dtype": "fp64"}
    assert found["function"] == "f"
    assert found["arguments"] == ["g", "dx", "rows:int64", "columns:uint32"]


@pytest.mark.parametrize(("name", "like"), [("new.cl", "rowwise"), ("new.cu", "gemm"), ("alone.cl", ""), ("alone.cu", "")])
def test_a_file_that_is_not_there_is_begun_and_what_is_written_can_be_kept(folder: Path, name: str, like: str) -> None:
    path = folder / name
    path.write_text(guessed(path, like))
    assert describe(path).workload == like
    assert ("__kernel void new" if name == "new.cl" else "void ") in path.read_text()


@pytest.mark.parametrize(("name", "text", "like", "message"), [
    ("a.py", "", "rowwise", "'a.py' gets no heading; valid: .cl, .cu"), ("a.cl", "void f(int n) {}", "rowwise", "no function that begins with"),
    ("a.cl", "//: name = 'x'\n" + RMS, "rowwise", "begin with //: already"), ("a.cl", RMS, "rowise", "kernels can implement"),
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
    assert "-o FILE writes a plan for each" in capsys.readouterr().err
    assert main(["kernel", "plan", "rms", "--beside", "-o", "p.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "hotlap run p.library.toml --target torch:cpu --label beside=rms", "hotlap run p.toml --target opencl --label beside=rms",
        "hotlap compare beside=rms --by implementation",
    ]
    ours, own = (plans.load(name).cases for name in ("p.library.toml", "p.toml"))
    assert [one.implementation for one in (*ours, *own)] == ["", "rms"]
    assert ours[0].params == own[0].params


def test_a_module_that_is_missing_comes_with_its_remedy(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "triton.py").write_text("raise ModuleNotFoundError(\"No module named 'triton'\", name='triton')")
    (folder / "gelu.py").write_text("import triton\n")
    assert main(["kernel", "add", "gelu.py"]) == 2
    assert "No module named 'triton'; pip install triton" in capsys.readouterr().err


def test_what_was_not_run_is_not_counted_as_wrong() -> None:
    def entry(name: str, status: str) -> ImplementationEntry:
        return ImplementationEntry(name, status, "needs torch" if status == "not_run" else "", None, None, "s", None, None)

    case = Case(workload="rowwise", params={"rows": 8})
    text = beside([Beside(case, [entry("library", "not_run"), entry("mine", "invalid")])], 100, False)
    assert "library  1 not run; needs torch" in text
    assert "mine     0 of 1 right" in text
