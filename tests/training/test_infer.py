"""hotlap training infer on a small network: engines that are here, one that is not, one that cannot load; what is compared and what not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.training import onnx_files

from hotlap.cli import main
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.training import infer_reading, infer_show, onnx_graph
from hotlap.training.engines.base import InputSamples
from hotlap.training.infer_record import Budget, EngineState, Inferred, InferRound, ModelInput

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
all_engines = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "onnxruntime", "openvino")),
    reason="engines are not installed: pip install hotlap[engines,torch]",
)
SHORT = ["--for", "50ms", "--rounds", "2", "--threads", "1", "--seed", "7"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def latest(home: Path) -> infer_reading.InferRead:
    judged = infer_show.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert judged is not None
    return judged


def missing(home: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """These packages raise ImportError in every process from here on, as where they are not installed."""
    for name in names:
        (home / "absent" / name).mkdir(parents=True)
        (home / "absent" / name / "__init__.py").write_text(f"raise ImportError('No module named {name}')\n")
    monkeypatch.setenv("PYTHONPATH", f"{home / 'absent'}:{Path(__file__).parents[2] / 'src'}")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    graph = onnx_graph.read(onnx_files.perceptron(tmp_path / "net.onnx").read_bytes())
    assert [node.kind for node in graph.nodes] == ["MatMul", "Add", "Relu", "MatMul"]
    assert graph.inputs == (ModelInput("x", "float32", (None, 8)),)
    assert (graph.outputs, graph.opset) == (("y",), 13)
    assert graph.constants["w"].shape == (8, 16)


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x3a\xff\xff\xff\xff\x0f", b"\x08" * 40])
def test_what_is_no_onnx_file_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match="no ONNX file"):
        onnx_graph.read(data)


def test_samples_are_the_same_for_every_engine() -> None:
    inputs = [ModelInput("x", "float32", (None, 3)), ModelInput("n", "int64", (None, 2))]
    first, second = (InputSamples(inputs, 5, 4, {}, {}, {"n": 6}) for _ in range(2))
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(first.ones, second.ones, strict=True))
    assert all(one["n"].max() < 6 for one in first.ones)
    assert [(size, feed["x"].shape) for feed, size in first.feeds(0, 10)] == [(4, (4, 3)), (4, (4, 3)), (2, (2, 3))]
    fixed = InputSamples([ModelInput("x", "float32", (1, 3))], 5, 4, {}, {}, {})
    assert [size for _, size in fixed.feeds(0, 3)] == [1, 1, 1]  # the model takes no more
    given = InputSamples([ModelInput("sr", "int64", ())], 5, 4, {}, {"sr": 16000}, {})
    assert given.ones[0]["sr"] == 16000


@torch
def test_the_graph_in_pytorch_is_the_function_that_was_written(tmp_path: Path) -> None:
    from hotlap.training.engines import pytorch

    path = onnx_files.perceptron(tmp_path / "net.onnx")
    graph = onnx_graph.read(path.read_bytes())
    model = pytorch.load(str(path), Budget(threads=1))
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    (y,) = model.run({"x": x})
    w, b, v = (graph.constants[name] for name in "wbv")
    np.testing.assert_allclose(y, np.maximum(x @ w + b, 0) @ v, rtol=1e-5, atol=1e-6)
    assert model.budget == Budget(threads=1)


@torch
@pytest.mark.slow("starts PyTorch in two processes")
def test_one_engine_is_measured_others_are_not_run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every scenario by our own load; LoadGen and two engines are not here. Kept, shown, on a page, as JSON."""
    missing(home, monkeypatch, "onnxruntime", "openvino", "mlperf_loadgen")
    path = onnx_files.perceptron(home / "net.onnx")
    more = ["--scenario", "single,multi,offline,server,closed", "--rate", "200", "--within", "1s", "--batch", "4"]
    assert main(["training", "infer", str(path), *more, *SHORT]) == 0
    printed = capsys.readouterr().out
    for name in ("onnxruntime", "openvino"):
        assert f"not run: its package is not installed (No module named {name}); pip install {name}" in printed
    judged = latest(home)
    rows = {row.scenario: row for row in judged.rows if (row.engine, row.generator) == ("torch", "hotlap")}
    assert {name: row.rounds for name, row in rows.items()} == dict.fromkeys(("single", "multi", "offline", "server", "closed"), 2)
    assert len(judged.latencies_s) == sum(done.queries for done in judged.rounds)
    assert all(done.samples == 8 * done.queries for done in judged.rounds if done.scenario == "multi")
    assert main(["show", "latest"]) == 0
    assert capsys.readouterr().out.strip() == printed.rpartition("kept as")[0].strip()
    assert main(["gate", "latest"]) == 2
    assert main(["report", "latest", "--out", str(home / "page.html")]) == 0
    page = (home / "page.html").read_text()
    assert "Inference engines" in page
    assert "share of queries that took no longer" in page
    assert main(["show", "latest", "--json"]) == 0
    capsys.readouterr()


@torch
@pytest.mark.slow("starts PyTorch in a process")
def test_its_json_holds_the_schema(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = onnx_files.perceptron(home / "net.onnx")
    assert main(["training", "infer", str(path), "--engine", "torch", "--by", "hotlap", *SHORT, "--rounds", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    (row,) = answer["runs"][0]["infer"]["rows"]
    assert (row["engine"], row["scenario"], row["status"]) == ("torch", "single", "measured")


@all_engines
@pytest.mark.nightly("starts three engines, twice")
def test_engines_are_compared_where_they_are_one_network_on_one_budget(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = onnx_files.perceptron(home / "net.onnx")
    main(["training", "infer", str(path), "--by", "hotlap", *SHORT])
    judged = latest(home)
    assert [(state.status, state.equal) for state in judged.inferred.engines] == [("measured", None), ("measured", True), ("measured", True)]
    assert [(one.engine, one.against, one.refused) for one in judged.versus] == [("openvino", "onnxruntime", ""), ("torch", "onnxruntime", "")]
    main(["training", "infer", str(path), "--by", "hotlap", *SHORT, "--rounds", "1", "--threads", "onnxruntime=2,openvino=1,torch=1"])
    assert {one.refused for one in latest(home).versus} == {"budget"}
    assert "unlike budgets" in capsys.readouterr().out
    other = onnx_files.perceptron(home / "other.onnx", seed=9)
    main(["training", "infer", str(path), "--by", "hotlap", *SHORT, "--rounds", "1", "--file", f"torch={other}"])
    assert [one.refused for one in latest(home).versus] == ["", "outputs"]
    assert "their answers differ" in capsys.readouterr().out


@all_engines
@pytest.mark.slow("starts three engines and LoadGen")
def test_a_real_network_by_both_generators(home: Path) -> None:
    """The file classifier that the package magika ships."""
    magika = importlib.util.find_spec("magika")
    if magika is None or not magika.origin or importlib.util.find_spec("mlperf_loadgen") is None:
        pytest.skip("magika or LoadGen is not installed")
    models = sorted((Path(magika.origin).parent / "models").glob("*/model.onnx"))
    assert models
    main(["training", "infer", str(models[-1]), "--below", "bytes=257", "--scenario", "single,offline", *SHORT, "--rounds", "1"])
    judged = latest(home)
    assert {(row.engine, row.scenario, row.generator) for row in judged.rows if row.status == "measured"} == {
        (engine, scenario, generator)
        for engine in ("onnxruntime", "openvino", "torch") for scenario in ("single", "offline") for generator in ("hotlap", "loadgen")
    }  # fmt: skip
    assert [state.equal for state in judged.inferred.engines] == [None, True, True]
    assert all(done.validity and done.official == done.validity.valid for done in judged.rounds if done.generator == "loadgen")


@all_engines
@pytest.mark.slow("starts three engines")
def test_an_engine_that_cannot_load_a_model_is_not_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = onnx_files.perceptron(home / "net.onnx", kind="Celu")  # no operator of our PyTorch table
    assert main(["training", "infer", str(path), "--engine", "torch,onnxruntime", "--by", "hotlap", *SHORT, "--rounds", "1"]) == 0
    states = {state.name: state for state in latest(home).inferred.engines}
    assert (states["torch"].status, states["onnxruntime"].status) == ("not_run", "measured")
    assert "the operator Celu is not known here" in capsys.readouterr().out
    (home / "broken.onnx").write_bytes(b"no model")
    assert main(["training", "infer", str(home / "broken.onnx"), "--by", "hotlap", *SHORT]) == 3
    assert {state.status for state in latest(home).inferred.engines} == {"not_run"}
    out = capsys.readouterr().out
    assert "nothing was measured: no engine runs broken.onnx" in out
    assert "samples/s" not in out


@pytest.mark.parametrize(
    ("words", "words_of_it"),
    [(["nowhere.onnx"], "is no file"), (["{net}", "--engine", "onnxrun"], "did you mean 'onnxruntime'"), (["{net}", "--scenario", "singel"], "'single'"),
     (["{net}", "--scenario", "server"], "needs --rate"), (["{net}", "--for", "0 s"], "--for"), (["{net}", "--threads", "0"], "--threads"),
     (["{net}", "--threads", "tensorrt=1"], "not asked for"), (["{net}", "--file", "torch=x.pt", "--engine", "openvino"], "not asked for"),
     (["{net}", "--shape", "x=a,b"], "--shape"), (["{net}", "--precision", "bf17"], "did you mean 'bf16'"), (["{net}", "--rounds", "many"], "--rounds"), (["{net}", "--by", "mine"], "'mine' is not a load generator")],
)  # fmt: skip
def test_what_is_asked_wrongly_is_one_line(words: list[str], words_of_it: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = onnx_files.perceptron(home / "net.onnx")
    assert main(["training", "infer", *(word.format(net=path) for word in words)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words_of_it in error


def _round(engine: str, number: int, place: int, **changes: Any) -> InferRound:
    return InferRound(engine=engine, scenario="single", generator="hotlap", round=number, place=place, queries=3, samples=3, wall_s=1.0, **changes)


def test_a_file_that_was_cut_short_loses_only_its_last_round(home: Path) -> None:
    from hotlap.training.infer_record import InferAsked

    budget = Budget(threads=1)
    asked = InferAsked(
        model="m", files={"a": "m"}, budgets={"a": budget}, scenarios=("single",), generators=("hotlap",), seconds=1.0, rounds=2, seed=0
    )
    inferred = Inferred(asked=asked, engines=(EngineState(name="a", status="measured", budget=budget),))
    latencies = np.array([1, 2, 3, 4, 5], "<f4")
    (row,) = infer_reading._rows(inferred, [_round("a", 0, 0), _round("a", 1, 3)], latencies)
    assert (row.rounds, row.p50_s) == (1, infer_reading.OverRounds(value=2.0))
