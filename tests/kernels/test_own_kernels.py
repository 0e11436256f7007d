"""Users' kernels: described, kept with revisions, run on the targets that are here, and named where they are wrong."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.core import work
from hotlap.core.errors import HotlapError, InputError, Unavailable
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.workloads.operators.compare import held
from hotlap.core.model import limits, machines
from hotlap.core.record import Case, Samples
from hotlap.kernels import checked as measuring
from hotlap.kernels import kept as kernels
from hotlap.kernels import own
from hotlap.kernels.compiled.protocol import ARCHITECTURE
from hotlap.kernels.cost import evaluate
from hotlap.kernels.own import describe, python
from loaded import ran

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@functools.cache
def _target(name: str) -> Any:
    pytest.importorskip("torch")
    try:
        spec = targets.parse(name)
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        pytest.skip(f"{name}: {error}")


def _kept(path: Path, home: Path) -> kernels.KeptKernel:
    return kernels.keep(describe.describe(path), describe.files(path), home)


def _measured(case: Case, target: str) -> Samples:
    return measure(_target(target), case, CaseBudget(seconds=0.02, seed=1))


def _written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize(("expression", "value"), [("4 * n * size(dtype)", 8000.0), ("ceil(n / 3) ** 2", 334.0**2), (7, 7.0), ("-n // 3", -334.0)])
def test_costs_are_arithmetic_over_parameters(expression: str | float, value: float) -> None:
    assert evaluate(expression, {"n": 1000, "dtype": "bf16"}) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [("4 * m", "names 'm'"), ("__import__('os')", "not arithmetic"), ("n.bit_length()", "not arithmetic"), ("1 / 0", "is no number"), ("size(n)", "takes a type"), ("n **", "is no number"), ("9e999", "must be finite")],
)
def test_what_is_no_cost_is_named(expression: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        evaluate(expression, {"n": 8})


def test_a_kernel_of_python_is_right_and_modelled(home: Path) -> None:
    pytest.importorskip("torch")
    kernel = _kept(EXAMPLES / "axpy.py", home)
    case = kernels.case(kernel, {"n": "4 Ki", "a": 3})
    assert case.params["bytes"] == 2 * 4096 * 4
    assert case.params["settings"] == ["n=4096", "a=3.0", "dtype=fp32"]
    found = _measured(case, "torch:cpu")
    assert ran(found), found.reason
    assert found.variant == f"axpy {kernel.revision}"
    limit = limits.limit(case, machines.load("h200-sxm"))
    assert limit.bound_s is not None  # from the cost that travels in the case, where the kernel's code is not read
    assert work.label(case) == "axpy n=4096 a=3.0 dtype=fp32"


def test_an_error_is_held_against_what_cancelled_in_an_element() -> None:
    torch = pytest.importorskip("torch")

    def difference(inputs: dict[str, Any], _: object) -> Any:
        inputs.pop("order")  # of the mapping that it is given, not of ours
        return [inputs["x"].sum(1) - inputs["y"]]

    x = torch.randn(5000, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    inputs = {"x": x, "y": x.sum(1) * (1 + 1e-5), "order": torch.arange(3)}
    (exact,) = python.reference(difference, {}, 40, torch)(dict(inputs))
    fine = (x.float().sum(1) - inputs["y"].float()).double()
    error, allowed, _ = held(fine, exact, "fp32")
    assert 0 < error < allowed
    assert held(fine, exact._replace(slack=None), "fp32")[0] > 10 * allowed  # against the difference itself nothing is exact
    coarse = (x.bfloat16().float().sum(1) - inputs["y"].float()).double()
    assert held(coarse, exact, "fp32")[0] > 100 * allowed
    assert exact.slack is not None
    parts = (inputs["y"] ** 2 + (x**2).sum(1)).sqrt() * (2 + 4 * 40**0.5) * 2**-23
    ratio = exact.slack() / parts
    assert float(ratio.min()) > 0.3
    assert float(ratio.max()) < 3


def test_a_plan_that_states_another_cost_is_not_run(home: Path) -> None:
    pytest.importorskip("torch")
    case = kernels.case(_kept(EXAMPLES / "axpy.py", home), {})
    lying = Case(workload="kernel", params={**case.params, "bytes": 1.0})
    assert "states another cost" in _measured(lying, "torch:cpu").reason


def test_a_kernel_of_python_implements_a_workload(home: Path) -> None:
    pytest.importorskip("torch")
    kernel = _kept(EXAMPLES / "softmax_steps.py", home)
    case = kernels.case(kernel, {"rows": 64, "columns": 128})
    assert (case.workload, case.implementation) == ("rowwise", "softmax-steps")
    assert ran(_measured(case, "torch:cpu"))
    other = Case(workload="rowwise", params=work.find("rowwise").parse({"op": "sum"}), implementation="softmax-steps")
    assert "does op = softmax" in _measured(other, "torch:cpu").reason
    with pytest.raises(InputError, match="does op = softmax, not sum"):
        kernels.case(kernel, {"op": "sum"})


def test_a_shared_library_through_ctypes(home: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    shutil.copy(EXAMPLES / "softmax_c.toml", tmp_path)
    made = tmp_path / "softmax_c.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(EXAMPLES / "softmax_c.c"), "-lm"], check=True)
    found = _measured(kernels.case(_kept(made, home), {"rows": 64, "columns": 128}), "torch:cpu")
    assert ran(found), found.reason


IN_PLACE = """//: name = "add-to"
//: params = { n = 1000, a = 3 }
//: inputs = { x = { shape = ["n"] }, y = { shape = ["n"] } }
//: writes = ["y"]
//: arguments = ["x", "y", "n:int32", "a:fp32"]
//: reference = "a * x + y"
//: items = "n"
//: function = "add_to"
__kernel void add_to(__global float *x, __global float *y, int n, float a) { int i = get_global_id(0); if (i < n) { BODY } }
"""


@pytest.mark.parametrize("factor", ["a", "1"])
def test_a_shared_library_that_changes_its_input_in_place(home: Path, tmp_path: Path, factor: str) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    body = f"void add_to(const float *x, float *y, int n, float a) {{ for (int i = 0; i < n; i++) y[i] += {factor} * x[i]; }}"
    made = tmp_path / "add_to.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(made), str(_written(tmp_path, "add_to.c", body))], check=True)
    _written(tmp_path, "add_to.toml", "\n".join(line[4:] for line in IN_PLACE.splitlines() if line.startswith("//: ") and "items" not in line))
    found = _measured(kernels.case(_kept(made, home), {}), "torch:cpu")
    assert ran(found) == (factor == "a"), found.reason


def test_opencl_c_on_its_target_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = kernels.case(_kept(EXAMPLES / "softmax_rows.cl", home), {"rows": 70, "columns": 33})
    found = _measured(case, "opencl")
    assert ran(found), found.reason
    assert found.metrics["deterministic"] == 1.0
    elsewhere = _measured(case, "torch:cpu")
    assert elsewhere.status == "not_run"
    assert "runs on the target opencl" in elsewhere.reason
    for verb in ("check", "run"):  # before a driver is looked for that would be of no use
        assert main(["kernel", verb, "softmax-rows", "--target", "cuda"]) == 2
        assert "(softmax_rows.cl) runs on the target opencl, not on cuda; leave --target out" in capsys.readouterr().err


def test_opencl_c_that_does_not_compile_is_an_error_in_the_users_file_and_line(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _target("opencl")
    text = (EXAMPLES / "softmax_rows.cl").read_text(encoding="utf-8").replace("softmax-rows", "broken").replace("top = fmax(", "top = nothing(")
    line = 1 + text[: text.index("nothing(")].count("\n")
    kept = _kept(_written(tmp_path, "other.cl", text), home)
    found = _measured(kernels.case(kept, {}), "opencl")
    assert found.status == "error"
    assert f" other.cl:{line}:" in found.reason
    assert main(["kernel", "check", "broken"]) == 1
    assert "✗" in capsys.readouterr().out


def test_triton_without_a_gpu_is_not_run(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    text = FICKLE.replace('return inputs["x"] * 2\ndef', 'raise RuntimeError("0 active drivers ([]). There should only be one.")\ndef')
    kept = _kept(_written(tmp_path, "tritonic.py", text), home)
    found = _measured(kernels.case(kept, {}), "torch:cpu")
    assert (found.status, found.reason) == ("not_run", own.NO_GPU)
    assert main(["kernel", "check", "tritonic"]) == 3
    assert "not run, because Triton finds no GPU here" in capsys.readouterr().out


DOUBLE = """//: name = "double"
//: params = { n = 1000, dtype = "fp32" }
//: read_bytes = "4 * n"
//: inputs = { x = { shape = ["n"] } }
//: outputs = { out = { shape = ["n"] } }
//: arguments = ["x", "out", "n:int32"]
//: reference = "2 * x"
//: items = "n"
//: function = "twice"
__kernel void twice(__global float *x, __global float *out, int n) { int i = get_global_id(0); if (i < BOUND) { out[i] = 2 * x[i]; } }
"""


@pytest.mark.parametrize(("options", "compiles"), [("", False), ("//: options = ['-cl-fast-relaxed-math']\n", True)])
def test_opencl_c_is_built_with_the_options_of_its_heading_and_no_others(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, compiles: bool
) -> None:
    text = options + DOUBLE.replace("BOUND", "n") + "#ifndef __FAST_RELAXED_MATH__\n#error exact\n#endif\n"
    kept = _kept(_written(tmp_path, "double.cl", text), home)
    found = _measured(kernels.case(kept, {}), "opencl")
    assert ran(found) == compiles, found.reason
    assert main(["kernel", "show", "double"]) == 0
    assert f"options     {'-cl-fast-relaxed-math' if compiles else 'of the compiler: none'}" in capsys.readouterr().out


def test_options_that_are_none_are_refused(home: Path, tmp_path: Path) -> None:
    kept = _kept(_written(tmp_path, "double.cl", "//: options = ['fast']\n" + DOUBLE.replace("BOUND", "n")), home)
    assert "'options' is a list of options of the compiler" in _measured(kernels.case(kept, {}), "opencl").reason


def test_a_heading_of_other_arguments_than_the_function_s_is_refused(tmp_path: Path) -> None:
    text = DOUBLE.replace("BOUND", "n").replace('"out", "n:int32"]', '"out"]')
    with pytest.raises(InputError, match=r"twice takes 3 arguments \(x, out, n\), and 'arguments' lists 2"):
        describe.describe(_written(tmp_path, "double.cl", text))


@pytest.mark.parametrize(
    ("bound", "said"), [("n", ""), ("n + 20", "wrote outside the memory of 'out'"), ("n - 1", "was wrong")],
)
def test_opencl_c_of_a_workload_of_its_own(home: Path, tmp_path: Path, bound: str, said: str) -> None:
    path = _written(tmp_path / bound.replace(" ", ""), "double.cl", DOUBLE.replace("BOUND", bound))
    found = _measured(kernels.case(_kept(path, home), {}), "opencl")
    assert ran(found) == (not said), found.reason
    assert said in found.reason


@pytest.mark.parametrize(
    ("body", "said"),
    [("y[i] += a * x[i];", ""), ("y[i] += a * x[i] * (i > 0);", "was wrong"), ("x[i] = y[i] += a * x[i];", "changed its input 'x'")],
)
def test_opencl_c_that_changes_its_input_in_place(home: Path, tmp_path: Path, body: str, said: str) -> None:
    found = _measured(kernels.case(_kept(_written(tmp_path, "add.cl", IN_PLACE.replace("BODY", body)), home), {}), "opencl")
    assert ran(found) == (not said), found.reason
    assert said in found.reason


DESCENT = """//: name = "descent"
//: workload = "optimizer"
//: only = { op = "sgd", dtype = "fp32" }
//: writes = ["WEIGHT"]
//: arguments = ["weight", "gradient", "elements:int32"]
//: items = "elements"
//: function = "descent"
__kernel void descent(__global float *w, __global const float *g, int n) { int i = get_global_id(0); if (i < n) w[i] -= 1e-3f * g[i]; }
"""


def test_opencl_c_of_an_optimiser(home: Path, tmp_path: Path) -> None:
    found = _measured(kernels.case(_kept(_written(tmp_path, "descent.cl", DESCENT.replace("WEIGHT", "weight")), home), {"elements": 5000}), "opencl")
    assert ran(found), found.reason
    other = _kept(_written(tmp_path, "other.cl", DESCENT.replace("WEIGHT", "wait").replace('name = "descent"', 'name = "other"')), home)
    assert "'writes' names 'wait', which is no input; " in _measured(kernels.case(other, {"elements": 5000}), "opencl").reason


@pytest.mark.slow("a process of its own")
def test_cuda_compiles_where_there_is_no_gpu(home: Path, tmp_path: Path) -> None:
    case = kernels.case(_kept(EXAMPLES / "softmax_block.cu", home), {})
    (found,) = measuring.checked([case], "cuda")
    if ran(found):
        return
    assert found.status == "not_run"
    assert f"compiles for {ARCHITECTURE}," in found.reason or "not known" in found.reason
    text = (EXAMPLES / "softmax_block.cu").read_text(encoding="utf-8").replace("softmax-block", "broken-block").replace("/ sum;", "/ nothing;")
    (broken,) = measuring.checked([kernels.case(_kept(_written(tmp_path / "b", "broken.cu", text), home), {})], "cuda")
    assert broken.status == "error" or "not known" in broken.reason
    if broken.status == "error":
        line = 1 + text[: text.index("nothing")].count("\n")
        assert f'broken.cu({line}): error: identifier "nothing" is undefined' in broken.reason


FICKLE = """import torch
params = {"n": 64}
def inputs(make, params): return {"x": make.normal(params["n"], dtype="fp32")}
def launch(inputs, params): return inputs["x"] * 2
def reference(inputs, params): return inputs["x"] * 2 + torch.rand(params["n"])
"""


def test_a_reference_that_disagrees_with_itself_is_named(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    found = _measured(kernels.case(_kept(_written(tmp_path, "fickle.py", FICKLE), home), {}), "torch:cpu")
    assert found.status == "invalid"
    assert "the reference disagrees with itself" in found.reason


def test_a_kernel_that_raises_is_an_error_of_its_own(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = FICKLE.replace('return inputs["x"] * 2\ndef', 'return inputs["x"] @ torch.ones(3)\ndef').replace("64", "65")
    found = _measured(kernels.case(_kept(_written(tmp_path, "raises.py", text), home), {}), "torch:cpu")
    assert found.status == "error"
    assert "the kernel raises fails: RuntimeError" in found.reason


def test_a_changed_file_is_a_new_revision_and_the_old_one_stays(home: Path, tmp_path: Path) -> None:
    first = _kept(_written(tmp_path, "double.cl", DOUBLE.replace("BOUND", "n")), home)
    second = _kept(_written(tmp_path, "double.cl", DOUBLE.replace("BOUND", "n - 1")), home)
    assert [one.hash for one in second.revisions] == [first.revision, second.revision]
    assert (kernels.folder(home) / "double" / first.revision / "double.cl").is_file()
    assert kernels.kept(home) == [second]
    kernels.remove("double", home)
    assert kernels.names(home) == []


def test_a_file_that_changed_since_it_was_added_is_named(home: Path, tmp_path: Path) -> None:
    path = _written(tmp_path, "double.cl", DOUBLE.replace("BOUND", "n"))
    kept = _kept(path, home)
    assert not kernels.changed(kept)
    path.write_text(DOUBLE.replace("BOUND", "n - 1"))
    assert kernels.changed(kept)
    assert not kernels.changed(_kept(path, home))
    path.unlink()
    assert not kernels.changed(kept)  # nothing is known of it


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.py", "def launch(inputs, params): pass", "has no function inputs"), ("a.py", "workload = 'rowwise'", "has no function launch"),
        ("a.py", "workload = 'chase'\ndef launch(i, p): pass", "kernels cannot implement 'chase'"), ("a.py", "import nothing_of_this_name", "cannot be loaded: ModuleNotFoundError"),
        ("a.py", "workload = 'rowwise'\nonly = {'opp': 'sum'}\ndef launch(i, p): pass", "'opp', which is no parameter of rowwise"),
        ("a.cl", "__kernel void f() {}", "does not say how to launch it"), ("a.cl", "//: items = 3", "'outputs' is missing"), ("a.cl", "//: item = 3", "there is no key 'item'"),
        ("a.cl", "//: = 3", "not valid TOML"), ("a.f90", "", "is no kernel; valid: .py"), ("a.so", "", "needs a.toml beside it"),
        ("a.py", "params = {'dtype': 'float32'}\ninputs = launch = reference = print", "'dtype' cannot be 'float32'"),
        ("a.py", "params = {'dtype': {'default': 'int32', 'choices': ['int32', 'int64']}}\ninputs = launch = reference = print", "no dtype 'int64'"),
        ("a.py", "params = {'n': 3}\nterms = 'rows'\ninputs = launch = reference = print", "'rows' names 'rows', which is no parameter"),
        ("a.py", "params = {'n': None}\ninputs = launch = reference = print", "needs a default"),
        ("a.py", "params = {'n': 1}\nread_bytes = '4 * m'\ninputs = launch = reference = print", "names 'm'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_a_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        describe.describe(_written(tmp_path, name, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow("a process of its own")
def test_a_file_that_ends_its_process_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ended the process that loaded it"):
        measuring.described(_written(tmp_path, "a.py", "import os\nos._exit(7)"))


def test_the_cutlass_profilers_csv_becomes_a_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "add", str(EXAMPLES / "cutlass.csv")]) == 0
    assert "1 run added: 3 kernels" in capsys.readouterr().out
    assert main(["show", "latest", "--json"]) == 0
    assert "'incorrect' is not a number" in capsys.readouterr().out


def test_a_run_goes_on_past_a_kernel_that_crashes(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _target("torch:cpu")
    _kept(EXAMPLES / "softmax_steps.py", home)
    crash = 'import os\nname = "crash"\nworkload = "rowwise"\ndef launch(inputs, params): os.abort()\n'
    _kept(_written(tmp_path, "crash.py", crash), home)
    tables = ['[[case]]\nworkload = "rowwise"\nop = "softmax"\nrows = 32\ncolumns = 64\ndtype = "fp32"\n' + line for line in ('implementation = "crash"', "", 'implementation = "softmax-steps"')]
    plan = _written(tmp_path, "three.toml", "\n".join(tables))
    assert main(["run", str(plan), "--target", "torch:cpu", "--rounds", "1", "--round-time", "0.3", "--label", "k=v"]) == 0
    capsys.readouterr()
    assert main(["kernel", "remove", "softmax-steps"]) == 0  # the run is read where the kernel is not
    assert main(["compare", "k=v", "--by", "implementation"]) == 1
    said = capsys.readouterr().out
    assert "SIGABRT" in said, said
    assert "softmax-steps  1 of 1 right" in said, said
    assert "library        1 of 1 right" in said
    assert main(["show", "k=v", "--json"]) == 0
    assert '"kernel softmax-steps"' in (home / "runs").glob("*/run.json").__next__().read_text(encoding="utf-8")


@pytest.mark.parametrize(("body", "said"), [
    ("raise ValueError('no such tile')", "launch of the kernel raises ValueError: no such tile"),
    ("return inputs['y']", "launch of the kernel raises KeyError: 'y'; its inputs: x"),
    ("inputs['x'].mul_(2)", "launch of the kernel returns nothing: return its outputs, a tensor or a list of them"),
    ("return inputs['x']\nwrites = 'x'", "broken.py: 'writes' is a list of the inputs that it changes, as in writes = ['y']"),
    ("return inputs['x']\nwrites = ['z']", "broken.py: 'writes' names 'z', which is no input; valid: x"),
])  # fmt: skip
def test_a_kernel_that_raises_is_an_error_that_names_it(home: Path, tmp_path: Path, body: str, said: str) -> None:
    text = f"name = 'broken'\nworkload = 'rowwise'\nonly = {{'op': 'softmax'}}\ndef launch(inputs, params):\n    {body}\n"
    samples = _measured(kernels.case(_kept(_written(tmp_path / "k", "broken.py", text), home), {}), "torch:cpu")
    assert (samples.status, samples.reason) == ("error", said)


OWN = """name = 'own'
import torch
params = {'n': 200, 'dtype': 'fp32'}
terms = TERMS
def inputs(make, params): return {'x': make.normal(params['n'], 50, dtype='fp32'), 'q': make.whole(100, params['n'], 50, dtype='int8', low=-100)}
def launch(inputs, params): return LAUNCH
def reference(inputs, params): return REFERENCE
"""


@pytest.mark.parametrize(("launch", "reference", "terms", "passed"), [
    ("inputs['x'].log()", "inputs['x'].log()", 1, True),  # half of it is no number
    ("inputs['x'].nan_to_num(0).log().nan_to_num(0)", "inputs['x'].log()", 1, False),
    ("torch.nn.functional.gelu(inputs['x'] * 4)", "torch.nn.functional.gelu(inputs['x'] * 4)", 1, True),  # loses its digits where it is small
    ("torch.nn.functional.gelu(inputs['x'] * 4, approximate='tanh')", "torch.nn.functional.gelu(inputs['x'] * 4)", 1, False),
    ("(inputs['q'].float() * 0.37).sum(1)", "(inputs['q'].double() * 0.37).sum(1)", 50, True),
    ("(inputs['q'].half() * 0.37).sum(1).float()", "(inputs['q'].double() * 0.37).sum(1)", 50, False),
    ("torch.fft.rfft(inputs['x'])", "torch.fft.rfft(inputs['x'])", 50, True),
    ("torch.fft.rfft(inputs['x']).conj().resolve_conj()", "torch.fft.rfft(inputs['x'])", 50, False),
])  # fmt: skip
def test_right_is_told_from_wrong_by_what_arithmetic_can_give(
    home: Path, tmp_path: Path, launch: str, reference: str, terms: int, passed: bool
) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = OWN.replace("TERMS", str(terms)).replace("LAUNCH", launch).replace("REFERENCE", reference)
    samples = _measured(kernels.case(_kept(_written(tmp_path / "k", "own.py", text), home), {}), "torch:cpu")
    assert ran(samples) == passed, samples.reason
    assert passed or samples.reason.startswith("wrong result: "), samples.reason


def test_a_wrong_element_of_little_weight_is_seen_in_what_is_changed_in_place(home: Path, tmp_path: Path) -> None:
    text = """name = 'average'
params = {'n': 300, 'dtype': 'bf16'}
writes = ['m']
def inputs(make, params): return {name: make.normal(params['n'], dtype='bf16') for name in 'mx'}
def launch(inputs, params):
    inputs['m'][:-1].mul_(0.8).add_(inputs['x'][:-1], alpha=0.2)
    return inputs['m']
def reference(inputs, params): return 0.8 * inputs['m'] + 0.2 * inputs['x']
"""
    samples = _measured(kernels.case(_kept(_written(tmp_path / "k", "average.py", text), home), {}), "torch:cpu")
    assert samples.status == "invalid"
    assert "timed loop" not in samples.reason


def test_why_cuda_cannot_run_or_compile_is_said_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise Unavailable("cuda-bindings cannot be imported", "pip install cuda-bindings")

    monkeypatch.setattr(measuring.targets, "find", refuse)
    monkeypatch.setattr(measuring.native, "compiled", refuse)
    (found,) = measuring.checked([kernels.case(_kept(EXAMPLES / "softmax_block.cu", home), {})], "cuda")
    assert found.reason == "cuda-bindings cannot be imported; pip install cuda-bindings; whether it compiles is not known either"
