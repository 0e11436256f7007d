"""hotlap training memory: fake tensors and the formula against the allocator's own count; scripts, functions and networks; what is asked wrongly."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import pickle
import types
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.show.document import Document
from hotlap.core.work.networks import shape
from hotlap.training import memory, memory_formula, memory_kind, memory_show, memory_snapshot, memory_step
from hotlap.training.memory import MemoryAsked
from hotlap.training.memory_record import MemoryAccount, MemoryReport, TrainingVariant

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
SMALL = ("layers=2", "hidden=64", "heads=4", "inter=128", "vocabulary=200")
PRINTED = Path(__file__).parents[2] / "benchmarks" / "printed" / "training_memory.txt"
SCRIPT = """import torch
from torch import nn
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
data = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=8)):
    {inside}
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert loss.item() == loss.item()
"""


@pytest.fixture(autouse=True)
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))


def script(folder: Path, inside: str = "pass", optimizer: str = "AdamW") -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT.format(inside=inside, optimizer=optimizer))
    return path


def by(report: MemoryReport, how: str) -> MemoryAccount:
    return next(account for account in report.accounts if account.how == how)


def test_parameters_are_those_that_are_published() -> None:
    for name in ("llama-3-8b", "gpt-2", "mistral-7b"):
        network = shape.load(name)
        layer, rest, _ = memory_formula.parameters(network)
        places = 0 if network.rotary else network.positions * network.hidden
        assert network.layers * layer + rest + places == pytest.approx(network.parameters, rel=0.01)


def test_the_formula_knows_where_the_peak_is() -> None:
    """Of a wide vocabulary at the loss, of few tokens in the optimizer: there the state and the square roots of the largest tensor count."""
    network = dataclasses.replace(shape.load("llama-3-8b"), layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, inter=128, vocabulary=5000)
    loss = memory_formula.account(network, TrainingVariant(batch=16, context=64))
    assert (loss.phase, loss.parts["temporaries"]) == ("backward", 2 * 16 * 64 * 5000 * 4)
    update = memory_formula.account(network, TrainingVariant(batch=1, context=8))
    assert (update.phase, update.parts["temporaries"]) == ("update", 2 * 5000 * 64 * 4)
    assert update.parts["moments"] == 2 * update.parts["parameters"] == 2 * update.parts["gradients"]
    every = memory_formula.account(network, TrainingVariant(batch=1, context=8, foreach=True))
    assert every.parts["temporaries"] == every.parts["parameters"]
    assert memory_formula.account(network, TrainingVariant(optimizer="sgd", batch=1, context=8)).parts["moments"] == 0


def job(variant: TrainingVariant, *sizes: str) -> tuple[memory_step.MemoryJob, MemoryAccount]:
    """A network's fake steps, and its account by formula."""
    asked = MemoryAsked("llama-3-8b", sizes, variant)
    network = memory._network(asked)
    return memory._job(asked, network, variant), memory_formula.account(network, variant)


@torch
@pytest.mark.slow("two steps of PyTorch, on fake tensors and on real ones")
@pytest.mark.parametrize("way", ["adamw", "sgd", "checkpointing", "autocast", "foreach"])
def test_fake_tensors_are_the_allocator_s_count(way: str) -> None:
    variant = TrainingVariant(
        optimizer="sgd" if way == "sgd" else "adamw", checkpointing=way == "checkpointing", autocast=way == "autocast",
        batch=1 if way == "foreach" else 4, context=8 if way == "foreach" else 64, foreach=way == "foreach",
    )  # fmt: skip
    asked, formula = job(variant, *SMALL)
    fake, real = memory_step._fake(asked), memory_step._real(asked)
    assert real.steps == fake.steps == 2
    assert fake.peak_bytes == pytest.approx(real.peak_bytes, rel=0.01)
    assert formula.peak_bytes == pytest.approx(real.peak_bytes, rel=0.05)
    assert fake.phase == formula.phase == ("update" if way == "foreach" else "backward")
    assert sum(fake.parts.values()) == fake.peak_bytes
    for kind in ("parameters", "moments", "activations"):
        assert fake.parts.get(kind, 0) == pytest.approx(formula.parts[kind], rel=0.05, abs=8192)


@torch
@pytest.mark.slow("two steps of PyTorch, on fake tensors and on real ones")
@pytest.mark.parametrize("name", ["perceptron", "residual", "convolutions", "convolutions autocast", "mixer autocast"])
def test_other_networks_are_functions_of_the_batch(name: str) -> None:
    """What oneDNN's convolutions and products hold inside, which their results do not show, is counted."""
    name, _, autocast = name.partition(" ")
    modules = Path(__file__).parents[2] / "benchmarks" / "training_modules.py"
    variant = TrainingVariant(batch=16, autocast=bool(autocast))
    asked = memory_step.MemoryJob(mode="fake", function=f"{modules}:{name}", variant=variant)
    assert memory_step._fake(asked).peak_bytes == pytest.approx(memory_step._real(asked).peak_bytes, rel=0.01)


def test_what_an_operator_holds_inside_at_the_peak_is_named() -> None:
    """A product that takes 40 bytes of its own, and 10 for its result, on top of 100."""
    def event(name: str, start: int, took: int = 0, size: int = 0) -> Any:
        return types.SimpleNamespace(
            name=lambda: name, start_ns=lambda: start, duration_ns=lambda: took, nbytes=lambda: size, device_type=lambda: "DeviceType.CPU"
        )

    events = [
        event("[memory]", 1, size=100), event("aten::linear", 2, 10), event("aten::mm", 3, 6), event("[memory]", 4, size=10),
        event("[memory]", 5, size=40), event("[memory]", 6, size=-40), event("aten::t", 7, 1), event("[memory]", 20, size=-110),
    ]  # fmt: skip
    assert memory_step._recorded(events) == (150, "aten::mm", 40)
    fake = MemoryAccount(how="fake tensors", peak_bytes=110, parts={"activations": 110}, phase="backward", steps=2)
    real = MemoryAccount(how="allocator", peak_bytes=150, steps=2, operator="aten::mm", inside_bytes=40)
    (doubt,) = memory_show.doubts(MemoryReport(target="x.py", accounts=[fake, real]))
    assert doubt.startswith("fake tensors are 27 % off the allocator's count: at its peak aten::mm held 40 B inside")
    close = MemoryAccount(how="allocator", peak_bytes=111, steps=2)
    assert memory_show.doubts(MemoryReport(target="x.py", accounts=[fake, close])) == []


def test_what_to_switch_is_ordered_by_what_it_saves() -> None:
    variant = TrainingVariant(batch=8, context=128)
    asked = MemoryAsked("llama-3-8b", SMALL, variant, machine="a10")
    network = memory._network(asked)
    now = memory_formula.account(network, variant)
    fit = memory._fit(machines.load("a10"), now.peak_bytes)
    switches = memory._switches(asked, network, variant, [now], fit, lambda _: None)
    assert {one.what for one in switches} == {"checkpointing of each layer", "bf16 autocast", "SGD instead of AdamW", "batch 4"}
    assert [one.saved_bytes for one in switches] == sorted((one.saved_bytes for one in switches), reverse=True)
    assert all(one.peak_bytes + one.saved_bytes == now.peak_bytes and one.fits == "fits" for one in switches)


def test_nearly_full_is_too_close_to_say() -> None:
    card = machines.load("a10")
    assert card.memory_bytes
    states = [memory._fit(card, int(card.memory_bytes * share)).state for share in (0.89, 0.91, 1.0, 1.01)]
    assert states == ["fits", "too close", "too close", "does not fit"]


@torch
@pytest.mark.slow("starts PyTorch twice")
def test_a_script_runs_as_given_and_its_lines_own_the_peak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a loader, and a loss that is read as a number."""
    path = script(tmp_path)
    report = memory.report(MemoryAsked(str(path)))
    fake = by(report, "fake tensors")
    assert fake.peak_bytes == pytest.approx(by(report, "allocator").peak_bytes, rel=0.01)
    weights = (16 * 64 + 64 + 64 * 4 + 4) * 4
    assert fake.parts["parameters"] == weights
    assert fake.parts["moments"] == 2 * weights + 4 * 4  # moments, and a step count of each tensor
    places = {line.kind: line.where for line in fake.lines}
    assert places["parameters"] == f"{path}:3 <module>"
    assert places["moments"] == f"{path}:11 <module>"
    assert "train.py:3 <module>" in "\n".join(memory_show.lines(report, 160, False))


@torch
@pytest.mark.slow("starts PyTorch for each")
@pytest.mark.parametrize(
    ("inside", "code", "words"),
    [("input('go on? ')", 2, "train.py:7: EOFError"), ("1 / (step - 1)", 3, "it failed in step 2: ZeroDivisionError"),
     ("break", 2, "no optimizer took a step"), ("__import__('os').fork()", 0, "by fake tensors")],
)  # fmt: skip
def test_a_script_that_goes_wrong_is_said_in_a_line(inside: str, code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", "memory", str(script(tmp_path, inside)), "--predict"]) == code
    out, err = capsys.readouterr()
    assert words in (err if code == 2 else out)
    assert code != 2 or (out == "" and err.count("\n") == 1)


@torch
def test_a_network_without_a_backward_pass(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x).detach().sum()\n"
        "def make(batch):\n    return Net(3, 2), (torch.ones(batch, 3),)\n"
    )
    with pytest.raises(ValueError, match="its loss has no gradient"):
        memory_step._fake(memory_step.MemoryJob(mode="fake", function=f"{tmp_path / 'net.py'}:make"))


@pytest.mark.parametrize(
    ("words", "why"),
    [(["lama-3-8b"], "did you mean 'llama-3-8b'"), (["llama-3-8b", "layer=2"], "did you mean 'layers'"), (["llama-3-8b", "layers=two"], "whole number"),
     (["mixtral-8x7b"], "has experts"), (["nothing.py"], "is no file"), (["nothing.py:make"], "is no file"), (["llama-3-8b", "--batch", "0"], "--batch"),
     (["gpt-2", "--context", "4096"], "at most 1024 tokens"), (["gpt-2", "context=4096"], "at most 1024 tokens"),
     (["gpt-2", "batch=2", "--batch", "2"], "give one of them"), (["gpt-2", "batch=two"], "--batch is a whole number"), (["s.pickle", "batch=2"], "no sizes"), (["llama-3-8b", "--machine", "h1000"], "h1000"), (["gpt-2", "--limit", "0s"], "--limit")],
)  # fmt: skip
def test_what_is_asked_wrongly_is_one_line(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", "memory", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert why in error


@torch
@pytest.mark.slow("starts PyTorch")
def test_what_does_not_fit_is_predicted_and_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """10 · 10⁹ parameters on a card of 80 GiB."""
    sizes = ["layers=4", "vocabulary=1000000"]
    assert main(["training", "memory", "llama-3-8b", *sizes, "--batch", "1", "--machine", "h100-sxm", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    report = msgspec.convert(answer["runs"][0]["memory"], MemoryReport)
    assert report.fit is not None
    assert report.fit.state == "does not fit"
    assert report.failed["allocator"].startswith("it needs ")
    assert [account.how for account in report.accounts] == ["fake tensors", "formula"]
    assert report.accounts[0].peak_bytes == pytest.approx(report.accounts[1].peak_bytes, rel=0.01)


def test_a_network_that_is_no_transformer_of_ours_is_refused() -> None:
    with pytest.raises(InputError, match=r"latent attention|experts"):
        memory_formula.account(shape.load("deepseek-v3"), TrainingVariant())


def test_the_printed_figures_are_those_of_the_manual() -> None:
    text = PRINTED.read_text()
    assert "peaks within 1 %" in text
    off = float(text.partition("by formula:")[2].partition("mean ")[2].partition("%")[0])
    assert off <= 5


GPT2 = shape.load("gpt-2")


@pytest.mark.parametrize(
    ("batch", "machine", "switched"),
    [
        (16, "h100-sxm", None),  # fits
        (80, "h100-sxm", None),  # autocast alone fits
        (256, "h100-sxm", ["bf16 autocast", "batch 64"]),
        (400, "b200", ["checkpointing of each layer", "batch 200"]),
    ],
)  # fmt: skip
def test_where_no_switch_fits_alone_those_that_do_together_are_named(batch: int, machine: str, switched: list[str] | None) -> None:
    """Each is needed: without any of them it does not fit."""
    variant = TrainingVariant(batch=batch, context=1024, foreach=True)
    now, asked = memory_formula.account(GPT2, variant), MemoryAsked("gpt-2", variant=variant)
    fit = memory._fit(machines.load(machine), now.peak_bytes)
    together = memory._needed_together(asked, GPT2, variant, memory._switches(asked, GPT2, variant, [now], fit, lambda _: None), fit, lambda _: None)
    if switched is None:
        assert together is None
        return
    assert together is not None
    assert (together.switches, together.fits, len(together.costs)) == (switched, "fits", len(switched))
    changed = replace(
        variant, autocast="bf16 autocast" in switched, checkpointing="checkpointing of each layer" in switched,
        batch=next((int(one.split()[1]) for one in switched if one.startswith("batch")), batch),
    )  # fmt: skip
    assert together.peak_bytes == memory_formula.account(GPT2, changed).peak_bytes
    for less in (replace(changed, autocast=False), replace(changed, checkpointing=False), replace(changed, batch=min(2 * changed.batch, batch))):
        peak = memory_formula.account(GPT2, less).peak_bytes
        assert less == changed or memory._fit(machines.load(machine), peak).state != "fits"


def test_where_all_switches_together_do_not_fit_that_is_what_is_printed() -> None:
    variant = TrainingVariant(batch=2, context=1024, foreach=True)
    network = shape.load("llama-3-70b")
    now = memory_formula.account(network, variant)
    fit, asked = memory._fit(machines.load("h100-sxm"), now.peak_bytes), MemoryAsked("llama-3-70b", variant=variant)
    switches = memory._switches(asked, network, variant, [now], fit, lambda _: None)
    together = memory._needed_together(asked, network, variant, switches, fit, lambda _: None)
    assert together is not None
    assert together.fits == "does not fit"
    report = MemoryReport(target="llama-3-70b", variant=variant, accounts=[now], fit=fit, switches=switches, together=together)
    printed = " ".join(" ".join(memory_show.lines(report, 120, False)).split())
    assert "together no switches fit: with" in printed
    assert "does not fit; take a larger GPU" in printed
    assert "no switches fit" in memory_kind.section(report)


# ---------------------------------------------------------------- kept, and of snapshots


MIB = 2**20
SNAPSHOT = Path(__file__).parent / "samples" / "snapshot.json"


def pickled(folder: Path, protocol: int = 4) -> Path:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(json.loads(SNAPSHOT.read_text()), protocol))
    return path


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_snapshot_says_which_lines_own_the_peak(protocol: int, tmp_path: Path) -> None:
    """Both forms of a file, by all protocols of pickles."""
    report = memory.report(MemoryAsked(str(pickled(tmp_path, protocol))))
    (account,) = report.accounts
    assert account == memory.report(MemoryAsked(str(SNAPSHOT))).accounts[0]
    assert account.peak_bytes == 27 * MIB - 512
    assert sum(account.parts.values()) == account.peak_bytes
    assert {kind: bytes_ // MIB for kind, bytes_ in account.parts.items()} == {
        "held": 5, "gradients": 4, "moments": 8, "activations": 7, "temporaries": 2,
    }  # fmt: skip
    lines = {(line.kind, line.bytes): (line.where, line.op) for line in account.lines}
    assert lines["activations", 8 * MIB - 512] == ("/home/u/net.py:12 forward", "relu")  # its own line, not PyTorch's
    assert lines["moments", 8 * MIB] == ("/home/u/train.py:14 <module>", "_init_group")
    assert lines["held", 4 * MIB] == ("/home/u/train.py:3 <module>", "__init__")
    assert lines["held", MIB][0] == memory_snapshot.UNKNOWN
    assert lines["gradients", 4 * MIB][0] == memory_snapshot.NO_LINE
    assert (account.reserved_bytes, account.refused_bytes, account.free_bytes, account.wanted_bytes) == (40 * MIB, 60 * MIB, 3 * MIB, 77 * MIB)
    assert [(switch.saved_bytes, switch.at_most) for switch in report.switches] == [
        (8 * MIB, True), (8 * MIB - 512, True), (5 * MIB - 256, True), (4 * MIB - 256, True),
    ]  # fmt: skip


def test_a_history_that_is_cut_off_at_its_begin_has_the_same_peak(tmp_path: Path) -> None:
    """As a long one is: who made a block is then not known."""
    whole = json.loads(SNAPSHOT.read_text())
    whole["device_traces"][0] = whole["device_traces"][0][8:]
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(whole))
    (account,) = memory.report(MemoryAsked(str(path))).accounts
    assert account.peak_bytes == 27 * MIB - 512
    assert account.parts["held"] == 5 * MIB  # frames of the blocks themselves


def test_a_history_without_stacks_names_no_line(tmp_path: Path) -> None:
    whole = json.loads(SNAPSHOT.read_text())
    for entry in [*whole["device_traces"][0], *(block for segment in whole["segments"] for block in segment["blocks"])]:
        entry["frames"] = []
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(whole))
    (account,) = memory.report(MemoryAsked(str(path))).accounts
    assert set(account.parts) == {"held", "unknown"}
    assert {line.where for line in account.lines} == {memory_snapshot.NO_STACKS}


@torch
@pytest.mark.slow("imports PyTorch")
def test_the_sample_is_one_that_pytorch_s_own_viewer_reads() -> None:
    viewer = importlib.import_module("torch.cuda._memory_viz")
    whole = json.loads(SNAPSHOT.read_text())
    assert "17.0" in viewer.segsum(whole)
    assert "alloc" in viewer.trace(whole)


class _Runs:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("open('ran', 'w')",)


@pytest.mark.parametrize(
    ("data", "why"),
    [(pickle.dumps({"segments": [], "device_traces": [_Runs()]}), "it could run code"), (pickle.dumps({"segments": {1, 2}}), "it could run code"),
     (pickle.dumps(_Runs(), 0), "it could run code"), (pickle.dumps({"segments": []})[:-3], "is cut off"), (b"", "is cut off"),
     (b"\x80\x04q\xff.", "is cut off"), (pickle.dumps([1]), "has no 'segments'"), (pickle.dumps({"segments": []}), "has no allocation"),
     (pickle.dumps({"segments": [{"address": 1}]}), "no memory snapshot: Object missing required field")],
)  # fmt: skip
def test_a_file_that_is_no_snapshot_is_refused_in_a_line(
    data: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pickle").write_bytes(data)
    assert main(["training", "memory", "s.pickle"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert why in err
    assert not (tmp_path / "ran").exists()


def test_few_bytes_that_stand_for_many_entries_are_refused(tmp_path: Path) -> None:
    entry = {"action": "alloc", "addr": 1, "size": 1}
    path = tmp_path / "many.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[entry] * 1000] * 20_001}))
    assert path.stat().st_size < 200_000
    with pytest.raises(InputError, match="more than 20,000,000 entries"):
        memory.report(MemoryAsked(str(path)))


def test_an_answer_is_kept_shown_listed_and_a_part_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training", "memory", str(pickled(tmp_path)), "--machine", "h100-sxm", "--label", "net=mine"]) == 0
    printed = capsys.readouterr().out
    assert main(["show", "net=mine"]) == 0
    assert capsys.readouterr().out.strip() in printed
    assert main(["show", "net=mine", "--json"]) == 0
    kept = msgspec.convert(json.loads(capsys.readouterr().out)["runs"][0]["memory"], MemoryReport)
    assert len(kept.sha256) == 64
    assert kept.fit is not None
    assert main(["list"]) == 0
    assert "net=mine" in capsys.readouterr().out
    assert main(["report", "net=mine", "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Memory of a step" in page
    assert "net.py:12 forward" in page
    capsys.readouterr()
    assert main(["gate", "net=mine", "--against", "limit"]) == 2
    assert "nothing was timed" in capsys.readouterr().err
