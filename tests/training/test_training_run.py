"""hotlap training run, on programs whose steps are known: what is counted and kept, what is compared, and what is said of programs that
do not do as asked. Times are never asserted on; causes, counts and order are."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.training import session, show_kind
from hotlap.training.launching import Launch
from hotlap.training.record import COLUMNS, TrainingAsked, column
from hotlap.training.show_kind import ShownTraining

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
SLEEPY = """
    import time, hotlap
    def batches():
        for _ in range(12):
            time.sleep(0.004)
            yield [0] * 4
    def main():
        with hotlap.steps() as t:
            for batch in t.loader(batches()):
                time.sleep(0.001)
                t.step(tokens=8)
    if __name__ == "__main__":
        main()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1]), str(tmp_path)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def script(home: Path, text: str, name: str = "train.py") -> str:
    path = home / name
    path.write_text(textwrap.dedent(text))
    return str(path)


def latest(home: Path) -> ShownTraining:
    shown = show_kind.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert shown is not None
    return shown


def codes(shown: ShownTraining) -> list[str]:
    """Without that of a busy machine, which is the machine's."""
    return [notice.code for notice in shown.summary.notices if notice.code not in ("starved", "step_level_changed")]


def run(*words: str) -> int:
    return main(["training", "run", *words])


# ---------------------------------------------------------------- what is measured


def test_steps_of_the_program_s_own_word_in_turns_with_a_frozen_loader(home: Path) -> None:
    assert run(script(home, SLEEPY), "--processes", "2") == 0
    shown = latest(home)
    trained = shown.run.trained
    assert [(one.arm, one.steps, one.source) for one in trained.processes] == [
        ("real", 12, "program"), ("frozen", 12, "program"), ("frozen", 12, "program"), ("real", 12, "program"),
    ]  # fmt: skip
    assert {tuple(one.loaders) for one in trained.processes} == {("t.loader",)}
    real, frozen = shown.summary.arms
    assert real.parts_s["data_wait"] > 0.004 > frozen.parts_s["data_wait"]
    assert real.step_s is not None
    assert sum(real.parts_s.values()) == pytest.approx(real.step_s.value)
    stall = shown.summary.stall
    assert stall is not None
    assert stall.stall_s is not None
    assert stall.stall_s.n == 2
    assert (stall.known and stall.stall_s.value > 0.003) or stall.why == "busy"
    steady = shown.run.launches[0][0]
    assert real.tokens_s is not None
    assert (steady.steady.tokens, steady.steady.samples) == (8.0, 4.0)
    assert len(steady.table) == 12
    assert column(steady.table, "number").tolist() == list(range(1, 13))
    assert "ended_early" in codes(shown)


def test_without_a_loader_the_stall_is_unknown_and_nothing_is_frozen(home: Path) -> None:
    text = "import hotlap, time\nwith hotlap.steps() as t:\n    for _ in range(300):\n        time.sleep(1e-4)\n        t.step()\n"
    assert run(script(home, text), "--steps", "20", "--processes", "2") == 0
    shown = latest(home)
    assert [(one.arm, one.steps, one.ended) for one in shown.run.trained.processes] == [("real", 21, "asked")] * 2  # the first starts the program
    assert shown.summary.stall is not None
    assert (shown.summary.stall.known, shown.summary.stall.why) == (False, "no_loader")
    assert codes(shown) == []
    assert shown.summary.arms[0].tokens_s is None


def test_a_function_of_a_module_and_json_against_the_schema(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(home, SLEEPY)
    assert run("train:main", "--processes", "1", "--data", "frozen", "--json", "--label", "a=b") == 0
    answered = json.loads(capsys.readouterr().out)
    msgspec.convert(answered, Document, strict=True)
    (run_,) = answered["runs"]
    assert run_["training"]["asked"]["program"] == "train:main"
    assert run_["training"]["summary"]["stall"]["why"] == "one_arm"
    assert [case["value"] is not None for case in answered["cases"]] == [True]
    assert main(["show", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**answered, "exit_code": None}
    assert [one.data for one in latest(home).run.trained.processes] == ["frozen"]


def test_arguments_reach_the_program_which_is_itself(home: Path) -> None:
    text = """
        import sys, hotlap
        assert __name__ == "__main__" and sys.argv[1:] == ["--lr", "0.1"], sys.argv
        for _ in range(8):
            hotlap.step()
    """
    assert run(script(home, text), "--processes", "1", "--", "--lr", "0.1") == 0
    assert latest(home).run.trained.processes[0].steps == 8


def test_two_scripts_in_turns_have_cases_that_compare_knows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = SLEEPY.replace("0.001", "0.006")
    assert run(script(home, SLEEPY), "--against", script(home, slow, "slow.py"), "--processes", "4") == 0
    shown = latest(home)
    assert [one.arm for one in shown.run.trained.processes] == list("ABBAABBA")
    compared = shown.summary.comparisons[0]
    assert (compared.first, compared.second) == ("A", "B")
    assert compared.ratio is not None
    assert compared.ratio > 1.2
    assert compared.answer == "larger" or compared.low is not None
    assert all(8 <= len(one.values) <= 11 for one in shown.run.bundle.samples)  # 12 steps, the first is warm; a busy machine has more warm ones
    assert sorted(one.round for one in shown.run.bundle.samples) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_it_is_shown_and_reported_and_refused_by_a_gate(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(script(home, SLEEPY), "--processes", "2")
    capsys.readouterr()
    assert main(["show", "latest"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") < 30  # a screen
    for word in ("real", "frozen", "data wait", "unexplained", "tokens/s", "loader", "energy", "answer"):
        assert word in printed
    assert max(map(len, printed.splitlines())) <= 120
    page = home / "page.html"
    assert main(["report", "latest", "--out", str(page)]) == 0
    text = page.read_text()
    assert text.count("parts of a step") == 1
    assert len(re.findall(r"<rect [^>]*fill:var\(--s", text)) >= 4
    assert "time of a step over steps" in text
    capsys.readouterr()
    assert main(["gate", "latest", "--against", "limit"]) == 2
    assert "run of training" in capsys.readouterr().err


# ---------------------------------------------------------------- programs that do not do as asked


@pytest.mark.parametrize(
    ("text", "code", "kept", "words"),
    [
        ("print('nothing')", 2, 0, r"no step was made: no optimiser's step\(\) after a backward\(\)"),
        ("input('name? ')", 2, 0, r"asked for input at train.py:1, and there is none"),
        ("import hotlap\nfor i in range(9):\n    hotlap.step()\n    if i == 2:\n        raise RuntimeError('boom')", 2, 3,
         r"failed after 3 steps: train.py:5: RuntimeError: boom"),
        ("import sys, hotlap\nhotlap.step()\nsys.exit(7)", 2, 1, r"ended with 7 after 1 step"),
        ("import hotlap\nfor _ in range(30):\n    hotlap.step()", 0, 30, r"ended by itself after 30 of 100 steps"),
        ("import hotlap, getpass\nfor _ in range(8):\n    hotlap.step()\ngetpass.getpass()", 2, 8, r"asked for input at train.py:4, and there is none"),
        ("import nosuchmodule", 2, 0, r"failed after 0 steps: train.py:1: ModuleNotFoundError"),
        ("import os, signal, hotlap\nfor _ in range(9):\n    hotlap.step()\nos.kill(os.getpid(), signal.SIGKILL)", 2, 9,
         r"ended with 137 after 9 steps"),
        ("import hotlap, atexit\natexit.register(print, 'end')\nwith hotlap.steps() as t:\n    for b in t.loader(iter([])):\n        t.step()", 2, 0,
         r"no step was made"),
    ],
)  # fmt: skip
def test_each_gets_one_clear_line_and_keeps_what_was_measured(
    home: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, kept: int, words: str
) -> None:
    assert run(script(home, text), "--processes", "3") == code
    shown = latest(home)
    assert sum(one.steps for one in shown.run.trained.processes if one.number == 0) == kept
    lines = [notice.text for notice in shown.summary.notices if re.search(words, notice.text)]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert re.search(words, re.sub(r"\s+", " ", out + err))
    assert "1 fresh processes" not in out
    assert ("make more: --steps" in out) <= (code == 0)
    if code == 2:
        assert len(shown.run.trained.processes) == 1  # it is not tried again


def test_a_program_that_forks_is_shown_by_one_of_its_processes(home: Path) -> None:
    text = """
        import hotlap, multiprocessing, time
        def work():
            for _ in range(20):
                time.sleep(1e-3)
                hotlap.step()
        if __name__ == "__main__":
            multiprocessing.set_start_method("fork")
            each = [multiprocessing.Process(target=work) for _ in range(2)]
            for one in each: one.start()
            for one in each: one.join()
    """
    assert run(script(home, text), "--processes", "1") == 0
    shown = latest(home)
    assert [one.steps for one in shown.run.trained.processes] == [20, 20]
    assert "several_stepped" in codes(shown)


def test_one_that_never_ends_is_ended(home: Path) -> None:
    text = "import hotlap, time\nfor _ in range(6):\n    hotlap.step()\nwhile True:\n    time.sleep(1)"
    assert run(script(home, text), "--processes", "1", "--limit", "2 s") == 0
    shown = latest(home)
    assert "program_late" in codes(shown)
    assert shown.run.trained.processes[0].steps == 6


def test_ctrl_c_keeps_what_was_measured(home: Path) -> None:
    text = "import hotlap, time\nwhile True:\n    time.sleep(0.01)\n    hotlap.step()"
    command = [sys.executable, "-m", "hotlap", "training", "run", script(home, text), "--steps", "100000", "--processes", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not [f for f in (home / "home").rglob("steps-*.bin") if f.stat().st_size > 8 * len(COLUMNS) * 9]:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    shown = latest(home)
    assert shown.run.bundle.run.stops[0].kind == "interrupted"
    assert shown.run.trained.processes[0].steps >= 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nosuch.py"], "no script 'nosuch.py'"), (["nosuch"], "no script.py, no module:function and no network"),
        (["a:b:c"], "no module:function"), (["llama-3-8b", "depth=2"], "no parameter 'depth'"), (["llama-3-8b", "deep"], "write name=value"),
        (["llama-3-8b", "--data", "real"], "made once"), (["llama-3-8b", "--compile", "fast"], "no mode 'fast'"),
        (["{script}", "--min-effect", "120 %"], "--min-effect is a share from 0"),
        (["{script}", "--steps", "0"], "--steps is a whole number from 1"), (["{script}", "--data", "fresh"], "--data has no 'fresh'"),
        (["{script}", "--data", "synthetic"], "is of a network"), (["{script}", "--compile", "default"], "off (Dynamo switched off) and own"),
        (["{script}", "--compile", "off", "--against", "{script}"], "two comparisons"), (["{script}", "--against", "no.py"], "no script 'no.py'"),
        (["llama-3-8b", "--ranks", "2"], "2 ranks need 2 sequences at least, one each, and batch=1: give batch=2"),
        (["llama-3-8b", "dtype=bf17"], "no parameter 'dtype'"), (["{script}", "--ranks", "0"], "--ranks is a whole number from 1"),
        (["{script}", "--limit", "-1 s"], "above 0"), (["{script}", "--compile", "off,off"], "each mode once"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(home: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    given = script(home, SLEEPY)
    assert main(["training", "run", *(word.format(script=given) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_arms_alternate_and_their_order_turns() -> None:
    asked = TrainingAsked(program="a.py", kind="script", processes=3, data=["real", "frozen"])
    assert [launch.arm for launch in session.turns(asked)] == ["real", "frozen", "frozen", "real", "real", "frozen"]
    assert [launch.number for launch in session.turns(asked)] == list(range(6))
    with pytest.raises(InputError):
        session.check(asked)
    assert Launch(0, "real").data == "real"


# ---------------------------------------------------------------- without a recorder, and beside the capture's


def test_steps_cost_nothing_where_nothing_measures() -> None:
    batches = [1, 2, 3]
    with hotlap.steps() as t:
        assert t.loader(batches) is batches
        assert t.step(tokens=3) is None


@torch
@pytest.mark.slow("imports PyTorch in a program that is captured")
def test_steps_are_also_those_that_a_capture_counts(home: Path) -> None:
    text = """
        import torch, hotlap
        x = torch.ones(8, 8)
        with hotlap.steps() as t:
            for batch in t.loader(range(40)):
                x @ x
                t.step(tokens=2)
    """
    assert main(["trace", "capture", "--warmup", "5", "--steps", "5", "--", sys.executable, script(home, text)]) == 0
    found = json.loads(next((home / "home").rglob("capture.json")).read_text())
    assert (found["processes"][0]["steps"], found["processes"][0]["source"]) == (40, "program")


# ---------------------------------------------------------------- PyTorch


TORCH = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimiser = torch.optim.AdamW(model.parameters())
    seen = []
    try:
        for epoch in range(2):
            for (x,) in DataLoader(TensorDataset(torch.arange(120.0).view(30, 4)), batch_size=3):
                seen.append(float(x[0, 0]))
                optimiser.zero_grad()
                (model(x) ** 2).mean().backward()
                optimiser.step()
    finally:
        print("SEEN", len(seen), len(set(seen)))
"""


@torch
@pytest.mark.slow("imports PyTorch in three programs")
def test_a_data_loader_is_seen_by_itself_and_frozen_to_its_first_batch(home: Path) -> None:
    assert run(script(home, TORCH), "--processes", "1") == 0
    shown = latest(home)
    real, frozen, count = shown.run.trained.processes
    assert [(one.arm, one.steps, one.source, one.loaders) for one in (real, frozen)] == [
        ("real", 20, "optimiser", ["DataLoader, 0 workers"]), ("frozen", 20, "optimiser", ["DataLoader, 0 workers"]),
    ]  # fmt: skip
    folder = shown.run.bundle.path
    assert "SEEN 20 10" in (folder / "output-0.txt").read_text()
    assert "SEEN 20 1" in (folder / "output-1.txt").read_text()
    assert real.shapes == ["3×4"]
    assert real.parameters == {"float32": 49}
    # 3 rows: two products forward; backward both weights' gradients and one input's
    assert count.flop == {"float32": 2.0 * 3 * (4 * 8 + 8) * 2 + 2.0 * 3 * 8}
    parts = shown.summary.arms[0].parts_s
    assert set(parts) - {"before_forward"} == {"data_wait", "forward", "backward", "optimiser", "unexplained"}
    assert min(parts.values()) > 0
    table = shown.run.launches[0][0].table
    assert np.isfinite(column(table, "loss")).all()
    assert column(table, "samples").tolist() == [3.0] * 20
    assert shown.summary.stall is not None
    assert shown.summary.stall.known or shown.summary.stall.why == "busy"


@torch
@pytest.mark.nightly("imports PyTorch")
def test_a_loss_that_is_no_number_and_batches_of_several_shapes(home: Path) -> None:
    text = """
        import torch, hotlap
        model = torch.nn.Linear(4, 1)
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        with hotlap.steps() as t:
            for place, x in enumerate(t.loader([torch.ones(2 + i % 2, 4) for i in range(20)])):
                loss = model(x).sum() * (float("nan") if place >= 9 else 1.0)
                loss.backward()
                optimiser.step()
                t.step(tokens=len(x))
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    shown = latest(home)
    assert {"loss_not_finite", "batches_differ"} <= set(codes(shown))
    assert next(e.step for e in shown.run.trained.processes[0].events if e.kind == "loss") == 10
    assert shown.run.trained.processes[0].shapes == ["2×4", "3×4"]
    assert shown.summary.state == "inconclusive"


@torch
@pytest.mark.slow("compiles with Dynamo")
def test_a_recompile_in_the_window_is_found_with_its_guard(home: Path) -> None:
    text = """
        import torch
        torch._dynamo.reset()  # forgets callbacks that are registered
        model = torch.nn.Linear(4, 4)
        compiled = torch.compile(model, backend="eager")
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        for place in range(60):
            compiled(torch.ones(5 if place >= 40 else 4, 4)).sum().backward()
            optimiser.step()
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    shown = latest(home)
    events = [(event.kind, event.step) for event in shown.run.trained.processes[0].events]
    assert events == [("compile", 1), ("compile", 41), ("recompile", 41)]
    note = next(notice for notice in shown.summary.notices if notice.code == "recompiled")
    assert "recompiled at step 41" in note.seen
    assert "expected 4, actual 5" in note.seen
    assert shown.summary.state == "inconclusive"
    assert shown.summary.arms[0].compile_s["cold"] > 0


@torch
@pytest.mark.slow("two ranks of PyTorch on gloo")
def test_two_ranks_count_as_one_program(home: Path) -> None:
    text = """
        import torch, torch.distributed as dist, hotlap
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        with hotlap.steps() as t:
            for _ in range(12):
                model(torch.ones(2, 4)).sum().backward()
                total = torch.ones(1)
                dist.all_reduce(total)
                optimiser.step()
                t.step(tokens=10)
        dist.destroy_process_group()
    """
    assert run(script(home, text), "--processes", "1", "--ranks", "2", "--data", "real") == 0
    shown = latest(home)
    assert [(one.rank, one.world, one.steps) for one in shown.run.launches[0][0:2] for one in [one.process]] == [(0, 2, 12), (1, 2, 12)]
    arm = shown.summary.arms[0]
    assert arm.tokens_s is not None
    assert arm.step_s is not None
    assert arm.tokens_s.value * arm.step_s.value == pytest.approx(20)  # of both ranks
    assert arm.parts_s["exposed_communication"] > 0
    assert "several_stepped" not in codes(shown)


@torch
@pytest.mark.nightly("trains a small network, compiled and not")
def test_a_network_with_modes_in_turns(home: Path) -> None:
    small = ["layers=1", "hidden=32", "heads=2", "kv_heads=1", "inter=48", "vocabulary=64", "context=16"]
    assert run("llama-3-8b", *small, "--compile", "off,eager", "--processes", "1", "--steps", "12") == 0
    shown = latest(home)
    off, eager = shown.summary.arms
    assert (off.name, eager.name, off.compile_s) == ("off", "eager", {})
    assert eager.compile_s["cold"] > 0
    assert [one.mode for one in shown.summary.break_even] == ["eager"]
    assert off.tokens_s is not None
    conventions = {share.convention for share in shown.summary.shares}
    assert shown.summary.no_share or conventions >= {"palm", "nanogpt", "torchtitan", "megatron", "causal", "counted"}
    counted = next(one for one in shown.run.trained.processes if one.arm == "count").flop
    # 16 tokens, T·T pairs without the mask: products of attention 4·T·width, three times forward
    weights = 32 * (16 * 4 + 32) + 3 * 32 * 48 + 32 * 64
    assert sum(counted.values()) == 6 * 16 * weights + 3 * 4 * 16 * 16 * 32


@torch
@pytest.mark.nightly("imports PyTorch")
def test_of_several_optimisers_the_first_ends_a_step_until_it_steps_no_more(home: Path) -> None:
    text = """
        import torch
        model = torch.nn.Linear(4, 1)
        def step(optimiser):
            model(torch.ones(2, 4)).sum().backward()
            optimiser.step()
        a, b = (torch.optim.SGD(model.parameters(), 0.1) for _ in range(2))
        for _ in range(10):
            step(a)
            step(b)
        for _ in range(10):
            step(b)
    """
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    # ten of the first; of the second alone the fourth since, and all after it
    assert latest(home).run.trained.processes[0].steps == 10 + 8
