"""hotlap training run, on programs whose steps are known: what is counted and kept, what is compared, and what is said of programs that
do not do as asked. Times are never asserted on; causes, counts and order are."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.training.programs_of_training import latest, script

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.show.document import Document
from hotlap.training import session, show
from hotlap.training.launching import Launch
from hotlap.training.record import COLUMNS, TrainingAsked, column
from hotlap.training.show_kind import ShownTraining

pytestmark = pytest.mark.usefixtures("home")
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
    assert sum(real.parts_s.values()) == pytest.approx(real.mean_s)
    stall = shown.summary.stall
    assert stall is not None
    assert stall.stall_s is not None
    assert (stall.known, stall.stall_s.n) == (True, 2)
    assert stall.stall_s.value > 0.003
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
    assert [(one.arm, one.steps, one.ended) for one in shown.run.trained.processes] == [("real", 20, "asked")] * 2
    assert shown.summary.stall is not None
    assert (shown.summary.stall.known, shown.summary.stall.why) == (False, "no_loader")
    assert codes(shown) == []
    assert shown.summary.arms[0].tokens_s is None


BATCHES = """
import hotlap, time, types
def batches():
    for place in range(40):
        yield types.SimpleNamespace(shape=({rows}, 4))
with hotlap.steps() as t:
    for batch in t.loader(batches()):
        time.sleep(1e-4 * batch.shape[0])
        t.step(samples=batch.shape[0])
"""


@pytest.mark.parametrize(
    ("rows", "known"), [("8 if place < 20 else 16", False), ("8 + place % 3", False), ("4 if place % 20 == 19 else 8", True)],
)  # fmt: skip
def test_a_frozen_batch_does_not_stand_for_batches_of_other_shapes(home: Path, rows: str, known: bool) -> None:
    """But an epoch's last one may be smaller."""
    assert run(script(home, BATCHES.replace("{rows}", rows)), "--processes", "2") == 0
    shown = latest(home)
    stall = shown.summary.stall
    assert stall is not None
    assert stall.stall_s is not None
    assert (stall.known, stall.why) == (known, "" if known else "batches_differ")
    text = show.stall_text(stall)
    assert ("batches differ in shape" in text) != known
    assert "in next()" in text
    assert "batches_differ" in codes(shown)


def test_the_answer_names_a_loader_that_costs_much(home: Path) -> None:
    assert run(script(home, SLEEPY), "--processes", "2") == 0
    summary = latest(home).summary
    assert summary.stall is not None
    assert summary.stall.stall_s is not None
    said = show.answer(msgspec.structs.replace(summary, state="measured"))
    assert "of it waits for the loader (2 pairs, too few for an interval): a faster loader first" in said
    sure = msgspec.structs.replace(summary.stall, stall_s=msgspec.structs.replace(summary.stall.stall_s, low=0.001))
    assert "% of it waits for the loader: a faster" in show.answer(msgspec.structs.replace(summary, state="measured", stall=sure))
    never = msgspec.structs.replace(sure, stall_s=msgspec.structs.replace(summary.stall.stall_s, low=-0.001))
    assert "loader" not in show.answer(msgspec.structs.replace(summary, state="measured", stall=never))


def test_parts_that_sum_to_more_than_the_step_say_why(home: Path) -> None:
    """Two long steps of twenty are in means, and not in what is usual."""
    text = "import hotlap, time\nwith hotlap.steps() as t:\n    for i in range(20):\n        time.sleep(0.1 if i in (9, 15) else 0.002)\n        t.step()\n"
    assert run(script(home, text), "--processes", "1", "--data", "real") == 0
    shown = latest(home)
    (arm,) = shown.summary.arms
    assert arm.mean_s is not None
    assert sum(arm.parts_s.values()) == pytest.approx(arm.mean_s)
    (line,) = (one for one in show.facts(shown.run, shown.summary) if one.startswith("parts "))
    assert re.match(r"parts of real are means, with rare long steps.* and sum to .*ms; the step is of the usual ones", line)


def test_a_function_of_a_module_and_json_against_the_schema(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(home, SLEEPY)
    assert run("train:main", "--processes", "1", "--data", "frozen", "--json", "--label", "a=b") == 0
    answered = json.loads(capsys.readouterr().out)
    msgspec.convert(answered, Document, strict=True)
    assert answered["training"]["asked"]["program"] == "train:main"
    assert answered["training"]["summary"]["stall"]["why"] == "one_arm"
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
