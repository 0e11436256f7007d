"""Is B as good as A: the numbers by hand, the answers, files and functions and ONNX classifiers, what is kept, and bad input."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from hotlap import cli
from hotlap.core.errors import InputError, SchemaError
from hotlap.core.show.document import Document
from hotlap.core.stats import paired
from hotlap.core.store import bundle as bundles
from hotlap.core.store import select
from hotlap.training import onnx_graph
from hotlap.tuning import quality, quality_session, quality_show, quality_sides
from hotlap.tuning.quality_record import AnswersAsked, Quality, QualityKept, QualityMeasure, UnitAnswers

RNG = np.random.default_rng(5)
MODEL = """
import msgspec
import numpy as np
rng = np.random.default_rng(0)
E, W = rng.normal(size=(50, 16)), rng.normal(size=(16, 50))
noise = rng.normal(size=W.shape)
def full(w): return E[w] @ W
def near(w): return E[w] @ (W + 0.01 * noise)
def far(w): return E[w] @ (W + 0.5 * noise)
def wide(w): return np.concatenate([E[w] @ W, E[w]], 1)
def flat(w): return (E[w] @ W).ravel()
def broken(w):
    x = E[w] @ W
    x[3] = np.nan
    return x
def raising(w): raise RuntimeError("no room")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    np.savez(tmp_path / "tokens.npz", tokens=np.random.default_rng(1).integers(0, 50, 20 * 64 + 5))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["tuning", "quality", *argv, "--json"])
    out = capsys.readouterr().out
    assert msgspec.convert(json.loads(out), Document).exit_code == code
    return code, json.loads(out)["quality"]


def measures(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in found["measures"]}


# ---------------------------------------------------------------- the numbers


def test_divergence_flips_and_losses_by_hand() -> None:
    p, q = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), np.array([[0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])
    labels = np.array([0, -1])
    a, b = (UnitAnswers("u", np.log(each).astype(np.float32), labels, None) for each in (p, q))
    seen = quality.difference(a, b)
    assert seen is not None
    assert seen.kl is not None
    assert seen.kl.tolist() == pytest.approx([0.5 * math.log(2) + 0.3 * math.log(0.6) + 0.2 * math.log(0.8), 0.0], abs=1e-6)
    assert seen.flipped is not None
    assert seen.flipped.tolist() == [True, False]
    assert seen.loss_a is not None
    assert seen.loss_b is not None
    assert (seen.loss_a.tolist(), seen.loss_b.tolist()) == (pytest.approx([math.log(2)]), pytest.approx([math.log(4)]))
    assert (seen.right_a is not None and seen.right_a.tolist(), seen.right_b is not None and seen.right_b.tolist()) == ([True], [False])


def test_a_class_that_a_excludes_is_no_loss_and_one_that_b_excludes_is_infinite() -> None:
    with np.errstate(divide="ignore"):
        some, all_ = (np.log(np.array([[0.5, 0.5, 0.0]], np.float32)), np.log(np.array([[0.4, 0.4, 0.2]], np.float32)))
    seen = quality.difference(UnitAnswers("u", some, None, None), UnitAnswers("u", all_, None, None))
    assert seen is not None
    assert seen.kl is not None
    assert seen.kl.tolist() == pytest.approx([math.log(1.25)], abs=1e-6)
    seen = quality.difference(UnitAnswers("u", all_, None, None), UnitAnswers("u", some, None, None))
    assert seen is not None
    assert seen.kl is not None
    assert seen.kl.tolist() == [math.inf]


def test_outputs_are_logits_or_probabilities() -> None:
    logits = RNG.normal(size=(4, 7)).astype(np.float32)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert np.allclose(quality_sides.logarithms(logits, "x"), np.log(p), atol=1e-5)
    assert np.allclose(quality_sides.logarithms(p, "x"), np.log(p), atol=1e-5)
    assert np.allclose(np.exp(quality_sides.logarithms(np.array([[0.25]]), "x")), [[0.75, 0.25]])
    with pytest.raises(InputError, match="no probability"):
        quality_sides.logarithms(np.array([[2.0]]), "x")
    with pytest.raises(InputError, match="of type"):
        quality_sides.logarithms(np.array(["a"]), "x")


def held(name: str, value: float, low: float, high: float, margin: float) -> QualityMeasure:
    return quality._held(QualityMeasure(name=name, value=value, low=low, high=high, visible=0.001), margin, 100)


def test_the_interval_decides() -> None:
    assert held("kl", 0.01, 0.005, 0.019, 0.02).answer == "as good"
    assert held("kl", 0.03, 0.021, 0.04, 0.02).answer == "worse"
    assert held("kl", 0.015, 0.005, 0.025, 0.02).answer == "cannot tell"  # a distance above 0 is no loss by itself
    assert held("accuracy", 0.003, 0.001, 0.006, 0.005).answer == "worse"  # a loss is sure
    assert held("accuracy", 0.001, -0.001, 0.006, 0.005).answer == "cannot tell"
    assert held("accuracy", 0.002, 0.001, 0.004, 0.005).answer == "as good"  # sure, and within the margin
    assert held("kl", 0.015, 0.005, 0.025, 0.02).needed == 400
    assert held("kl", 0.021, 0.005, 0.025, 0.02).needed is None  # more of them do not make it less


# ---------------------------------------------------------------- models that run here


@pytest.mark.parametrize(("b", "code", "answer"), [("near", 0, "as good"), ("far", 1, "worse"), ("broken", 1, "worse")])
def test_functions_are_compared_by_windows(place: Path, capsys: pytest.CaptureFixture[str], b: str, code: int, answer: str) -> None:
    seen, found = run(capsys, "net.py:full", f"net.py:{b}", "--data", "tokens.npz", "--window", "64")
    assert (seen, found["answer"], found["unit"]) == (code, answer, "window")
    assert found["units"] + found["broken"] == found["planned"] == 20
    assert "tokens_left_out" in [notice["code"] for notice in found["notices"]]
    if b == "broken":
        assert "not_a_number" in [notice["code"] for notice in found["notices"]]
        return
    rows = measures(found)
    assert set(rows) == {"kl", "kl_p99", "kl_p999", "flips", "perplexity", "accuracy"}
    assert found["positions"] == 20 * 63
    assert rows["kl"]["margin"] == 0.02
    assert rows["kl"]["low"] < rows["kl"]["value"] < rows["kl"]["high"]
    assert rows["kl_p99"]["value"] > rows["kl"]["value"]
    tokens = np.load(place / "tokens.npz")["tokens"]
    spec = importlib.util.spec_from_file_location("net_by_hand", place / "net.py")
    assert spec is not None
    assert spec.loader is not None
    net = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(net)
    p, q = (np.log(np.exp(x := f(tokens[:1280])) / np.exp(x).sum(-1, keepdims=True)) for f in (net.full, getattr(net, b)))
    keep = np.arange(1280) % 64 != 63
    assert rows["kl"]["value"] == pytest.approx(float((np.exp(p) * (p - q)).sum(-1)[keep].mean()), rel=1e-4)
    labels = np.roll(tokens[:1280], -1)
    ratio = (p - q)[np.arange(1280), labels][keep].mean()
    assert rows["perplexity"]["value"] == pytest.approx(math.expm1(ratio), rel=1e-3, abs=1e-6)
    assert rows["flips"]["value"] == pytest.approx(float((p.argmax(-1) != q.argmax(-1))[keep].mean()))


def test_the_same_outputs_are_said(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tuning", "quality", "net.py:full", "net.py:full", "--data", "tokens.npz", "--window", "64"]) == 0
    out = capsys.readouterr().out
    assert "no output of B differs from A's" in out
    assert "proves" in out
    code, found = run(capsys, "net:full", "net:near", "--data", "tokens.npz", "--most", "3")  # as a module; few windows
    assert found["units"] == 3
    assert [notice["code"] for notice in found["notices"]] == ["tokens_left_out", "few_units"]
    assert code in (0, 3)


def test_several_margins_all_have_to_be_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["net.py:full", "net.py:near", "--data", "tokens.npz", "--window", "64"]
    code, found = run(capsys, *argv, "--margin", "kl=0.02", "--margin", "flips=0.1%")
    assert code == 1
    assert {name: row["answer"] for name, row in measures(found).items() if row["answer"]} == {"kl": "as good", "flips": "worse"}
    code, found = run(capsys, *argv, "--margin", "perplexity=1%", "--margin", "flips=5%")
    assert (code, found["answer"]) == (0, "as good")


# ---------------------------------------------------------------- answers that are there


def items(lost: int, gained: int, count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(count) < count * 4 // 5
    b = a.copy()
    b[:lost] = False
    b[count - gained :] = True if gained else b[count - gained :]
    return a, b


@pytest.mark.parametrize(("lost", "gained", "count"), [(80, 20, 1000), (210, 78, 5000), (457, 206, 9000)])
def test_a_p_below_its_floor_is_shown_as_a_bound(lost: int, gained: int, count: int) -> None:
    found = paired.above(lost, gained, count)
    row = QualityMeasure(name="accuracy", value=0.1, p=found, lost=lost, gained=gained, method="exact test of pairs")
    done = Quality(
        asked=AnswersAsked(a="a.npz", b="b.npz"), kinds={}, answer="worse", unit="item", units=count, planned=count, positions=0, broken=0,
        measures=[replace(row, margin=0.01, low=0.05, high=0.15, answer="worse")],
    )  # fmt: skip
    assert "p < 0.001 against no loss" in dict(quality_show.facts(done))["pairs"]


def test_a_loss_of_half_a_point_is_found_by_pairs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = items(11, 1)
    np.savez("a.npz", right=a)
    Path("b.jsonl").write_text("".join(f'{{"doc_id": {place}, "acc": {float(right)}}}\n' for place, right in enumerate(b)))
    code, found = run(capsys, "a.npz", "b.jsonl")
    row = measures(found)["accuracy"]
    assert (code, found["answer"], row["lost"], row["gained"], row["value"]) == (1, "worse", 11, 1, 0.005)
    assert row["low"] > 0
    assert row["p"] < 0.01
    assert cli.main(["show", "latest"]) == 0
    assert "right by A alone 11, by B alone 1" in capsys.readouterr().out
    code, found = run(capsys, "a.npz", "b.jsonl", "--margin", "accuracy=2%")
    assert (code, found["answer"]) == (0, "as good")
    code, _ = run(capsys, "b.jsonl", "a.npz", "--margin", "accuracy=0.05%")  # a gain is no loss
    assert code == 0


def test_what_cannot_be_told_says_what_could_be_seen(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = items(3, 2, 200)
    np.savez("a.npz", right=a)
    np.savez("b.npz", right=b)
    assert cli.main(["tuning", "quality", "a.npz", "b.npz"]) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "cannot tell: accuracy -0.5 points" in out
    assert "the smallest loss seen in 80 % of such comparisons is" in out
    a, b = items(2, 2, 200)
    np.savez("b.npz", right=b)
    assert cli.main(["tuning", "quality", "a.npz", "b.npz"]) == 3
    assert "items would tell" in " ".join(capsys.readouterr().out.split())


def test_logits_of_items_have_both_measures(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logits, labels = RNG.normal(size=(300, 5)) * 3, RNG.integers(0, 5, 300)
    np.savez("a.npz", logits=logits, labels=labels)
    np.savez("b.npz", logits=logits + RNG.normal(size=logits.shape) * 0.01)
    code, found = run(capsys, "a.npz", "b.npz", "--margin", "kl=0.02", "--margin", "accuracy=5%")
    rows = measures(found)
    assert (code, found["unit"], found["units"]) == (0, "item", 300)
    assert rows["accuracy"]["a"] == pytest.approx((logits.argmax(-1) == labels).mean())
    assert rows["kl"]["answer"] == rows["accuracy"]["answer"] == "as good"
    assert "perplexity" not in rows
    np.savez("c.npz", logits=logits.reshape(10, 30, 5), labels=labels.reshape(10, 30))  # the same as windows
    code, found = run(capsys, "c.npz", "c.npz")
    assert (found["unit"], found["units"], found["positions"]) == ("window", 10, 300)


def test_kept_answers_are_read_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["tuning", "quality", "net.py:full", "net.py:near", "--data", "tokens.npz", "--window", "64"])
    capsys.readouterr()
    (kept,) = select.runs("latest", place / "home")
    shown = quality_show.read(kept)
    assert shown is not None
    folder = shutil.make_archive(str(place / "kept"), "zip", kept.path)
    assert quality_show.read(bundles.load(Path(folder))) == shown
    assert cli.main(["report", "latest", "--out", "page.html"]) == 0
    page = (place / "page.html").read_text()
    assert "Is B as good as A" in page
    assert "B is as good as A within the margin" in page
    assert cli.main(["explain", "latest"]) in (0, 2)
    capsys.readouterr()
    (kept.path / "quality-units.npz").write_bytes(b"torn")
    with pytest.raises(SchemaError):
        quality_session.read(bundles.load(kept.path))
    (kept.path / "quality.json").unlink()
    assert quality_session.read(bundles.load(kept.path)) is None


def test_ctrl_c_keeps_what_was_compared(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import signal

    from hotlap.tuning import cli_quality

    def after_five(count: int, _planned: int) -> None:
        if count == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cli_quality, "_progress", after_five)
    assert cli.main(["tuning", "quality", "net.py:full", "net.py:near", "--data", "tokens.npz", "--window", "64"]) == 130
    out = capsys.readouterr().out
    assert "5 of 20 windows were compared" in out
    assert "5 windows" in out


# ---------------------------------------------------------------- bad input

WRITE: dict[str, Callable[[], object]] = {
    "a.npz": lambda: np.savez("a.npz", right=np.ones(5)),
    "six.npz": lambda: np.savez("six.npz", right=np.ones(6)),
    "odd.npz": lambda: np.savez("odd.npz", other=np.ones(6)),
    "half.npz": lambda: np.savez("half.npz", right=np.full(5, 0.5)),
    "torn.npz": lambda: Path("torn.npz").write_bytes(b"PK\x03\x04torn"),
    "empty.jsonl": lambda: Path("empty.jsonl").write_text("\n"),
    "twice.jsonl": lambda: Path("twice.jsonl").write_text('{"id": 1, "right": true}\n{"id": 1, "right": true}\n'),
    "list.jsonl": lambda: Path("list.jsonl").write_text("[1]\n"),
    "text.jsonl": lambda: Path("text.jsonl").write_text('{"id": 1, "right": true}\nno json\n'),
    "few.npz": lambda: np.savez("few.npz", tokens=np.arange(10)),
    "high.npz": lambda: np.savez("high.npz", tokens=np.full(300, 99)),
    "unlike.npz": lambda: np.savez("unlike.npz", x=np.ones((5, 2)), labels=np.zeros(4, int)),
    "net.onnx": lambda: Path("net.onnx").write_bytes(b"no model"),
}


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ("a.npz nowhere.npz", "no file 'nowhere.npz'"), ("a.npz what", "'what' is no side"), ("a.npz odd.npz", "neither logits nor right"),
        ("a.npz half.npz", "valid: true, false"), ("a.npz torn.npz", "can be read"), ("a.npz six.npz", "1 items that"), ("a.npz empty.jsonl", "no answers"),
        ("twice.jsonl twice.jsonl", "an item twice"), ("list.jsonl a.npz", "list.jsonl:1: not an object"), ("text.jsonl a.npz", "text.jsonl:2: no JSON"),
        ("net.py:full net.py:near", "needs --data"), ("net.py:full net.py:neer --data tokens.npz", "did you mean 'near'"),
        ("gone.py:full net.py:near --data tokens.npz", "no file 'gone.py'"), ("gone_module:full net.py:near --data tokens.npz", "cannot be imported"),
        ("net.py:full net.py:raising --data tokens.npz", "RuntimeError: no room"), ("net.py:full net.py:wide --data tokens.npz", "must be alike"),
        ("net.py:broken net.py:full --data tokens.npz", "A gives no number"), ("net.py:full net.py:flat --data tokens.npz", "valid: tokens × classes"),
        ("net.py:full net.py:near --data few.npz", "10 tokens, less than a window"), ("net.py:full net.py:near --data unlike.npz", "unlike lengths"),
        ("net.py:full net.py:near --data high.npz", "failed at window 0"), ("net.py:full net.py:near --data tokens.npz --window 1", "--window"),
        ("a.npz a.npz --margin acuracy=1%", "did you mean 'accuracy'"), ("a.npz a.npz --margin accuracy=0", "above 0"), ("a.npz a.npz --margin kl=1", "does not have"),
        ("a.npz a.npz --margin accuracy", "write name=value"), ("a.npz net.onnx --data tokens.npz", "a classifier of items"), ("a.npz a.npz --most 0", "--most"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(place: Path, capsys: pytest.CaptureFixture[str], argv: str, text: str) -> None:
    for name, write in WRITE.items():
        if name in argv:
            write()
    assert cli.main(["tuning", "quality", *argv.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert text in err.replace("do not have", "does not have")
    assert not (place / "home" / "runs").exists()


def test_a_comparison_without_a_unit_is_inconclusive() -> None:
    kept = QualityKept(asked=AnswersAsked(a="a", b="b"), kinds={"A": "recorded", "B": "recorded"}, planned=5)
    judged = quality.judge(kept, [])
    assert (judged.answer, judged.measures) == ("cannot tell", [])
    assert not quality_show.measured(judged)


# ---------------------------------------------------------------- classifiers


def rounded(path: Path, out: Path, bits: int) -> None:
    """An ONNX file whose float matrices are rounded to so many bits, symmetric, a scale per row: the file's bytes are replaced in place."""
    data = path.read_bytes()
    most = 2 ** (bits - 1) - 1
    for array in onnx_graph.read(data).constants.values():
        if array.dtype == np.float32 and array.ndim >= 2 and array.size >= 1024:
            rows = array.reshape(len(array), -1)
            scale = np.maximum(np.abs(rows).max(-1, keepdims=True), 1e-12) / most
            raw = array.tobytes()
            assert data.count(raw) == 1
            data = data.replace(raw, (np.round(rows / scale) * scale).astype(np.float32).tobytes())
    out.write_bytes(data)


@pytest.mark.slow("runs a trained classifier of files on a hundred of them, three times")
def test_a_trained_classifier_rounded_to_8_and_2_bits(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file classifier that the package magika ships, on Python's own sources and headers."""
    magika = importlib.util.find_spec("magika")
    if magika is None or not magika.origin or importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("magika or ONNX Runtime is not installed")
    folder = sorted((Path(magika.origin).parent / "models").glob("*/model.onnx"))[-1].parent
    labels = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    sources = {"python": Path(sysconfig.get_paths()["stdlib"]).glob("*.py"), "c": Path(sysconfig.get_paths()["include"]).glob("*.h")}
    inputs, wanted = [], []
    for name, paths in sources.items():
        for path in sorted(paths)[:60]:
            content = path.read_bytes().strip()
            if len(content) >= 2048:
                inputs.append([*content[:1024], *content[-1024:]])
                wanted.append(labels.index(name))
    assert len(set(wanted)) >= 1
    (given,) = onnx_graph.read((folder / "model.onnx").read_bytes()).inputs
    np.savez("files.npz", **{given.name: np.array(inputs, np.int32), "labels": np.array(wanted)})  # type: ignore[arg-type]
    shutil.copy(folder / "model.onnx", "full.onnx")
    for bits in (8, 2):
        rounded(Path("full.onnx"), Path(f"int{bits}.onnx"), bits)
    code, found = run(capsys, "full.onnx", "int8.onnx", "--data", "files.npz", "--margin", "accuracy=6%", "--margin", "kl=0.02")
    assert (code, found["answer"], found["unit"], found["kinds"]) == (0, "as good", "item", {"A": "onnx", "B": "onnx"})
    assert measures(found)["accuracy"]["a"] > 0.9
    code, found = run(capsys, "full.onnx", "int2.onnx", "--data", "files.npz", "--margin", "accuracy=6%")
    assert (code, found["answer"]) == (1, "worse")
    assert cli.main(["tuning", "quality", "full.onnx", "int8.onnx", "--data", "tokens.npz"]) == 2
    assert "a classifier of items" in capsys.readouterr().err


@pytest.mark.slow("imports PyTorch")
def test_answers_of_pytorch_are_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    (place / "torched.py").write_text(
        "import torch, numpy as np\ntorch.manual_seed(0)\nW = torch.randn(6, 4)\n"
        "def full(x): return torch.from_numpy(x).float() @ W\ndef half(x): return (torch.from_numpy(x).bfloat16() @ W.bfloat16())\n"
    )
    np.savez("items.npz", x=RNG.normal(size=(200, 6)))
    code, found = run(capsys, "torched.py:full", "torched.py:half", "--data", "items.npz")
    assert (code, found["answer"], found["unit"]) == (0, "as good", "item")
