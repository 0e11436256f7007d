"""What `training run` says of a step: of a loader whose batches differ or that costs much, and of parts that sum to more than the step."""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest
from tests.training.test_training_run import SLEEPY

import hotlap
from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.training import cli, show, show_kind, summary
from hotlap.training.launching import Launch
from hotlap.training.reading import MeasuredProcess, TrainingRun
from hotlap.training.record import TrainingProcess
from hotlap.training.recorder.foreign import ForeignTime
from hotlap.training.show_kind import ShownTraining
from hotlap.training.steady import Level, SteadySteps
from hotlap.training.summary import ArmFigures, BreakEven, LoaderStall, ProcessEstimate, TrainingSummary

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


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1]), str(tmp_path)]))
    return tmp_path


def ran(home: Path, text: str, *words: str) -> ShownTraining:
    path = home / "train.py"
    path.write_text(textwrap.dedent(text))
    assert main(["training", "run", str(path), *words]) == 0
    shown = show_kind.read(bundles.load(max((home / "home" / "runs").iterdir())))
    assert shown is not None
    return shown


def test_processes_of_a_program_say_in_a_log_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, log = [0.0], io.StringIO()
    monkeypatch.setattr(cli.time, "monotonic", lambda: clock[0])
    view = cli.LaunchView(log)
    for number in range(4):
        view(Launch(number, "real"), number, 4)
        clock[0] += 4.0
    view(Launch(4, "count", count=True), 4, 4)
    assert log.getvalue().splitlines() == [
        "hotlap: process 1 of 4, real", "hotlap: process 3 of 4, real; about 8 s left", "hotlap: counting the operations of a step",
    ]  # fmt: skip


def process(step_s: float) -> MeasuredProcess:
    return MeasuredProcess(TrainingProcess(number=0), np.empty((0, 0)), SteadySteps(step_s=step_s))


def test_a_small_change_of_steps_with_the_first_batch_puts_no_loader_in_doubt() -> None:
    """0.1 ms beside a step of 80 ms that the loader costs; 10 ms are one, and so is a change of the program as it is."""
    arms = [ArmFigures(name="real", processes=6, steps=300, warm=1, step_s=ProcessEstimate(value=0.08, low=0.079, high=0.081, n=6))]

    def said(arm: Literal["real", "frozen"], before_s: float, after_s: float) -> list[str]:
        changed = TrainingProcess(number=1, arm=arm, data=arm)
        steady = SteadySteps(levels=[Level(20, before_s, after_s)])
        run = TrainingRun(None, None, [[MeasuredProcess(changed, np.empty((0, 0)), steady)]], None)  # type: ignore[arg-type]
        return [notice.text for notice in summary._levels(run, arms)]

    assert said("frozen", 0.0007, 0.0008) == []
    assert said("frozen", 0.0007, 0.0107)[0].startswith("process 2 (frozen): from step 20 on a step took 10.7 ms in place of 0.7 ms")
    assert said("real", 0.08, 0.09)[0].startswith("process 2 (real): from step 20 on")


@pytest.mark.skipif(sys.platform != "linux", reason="processor time of other programs is read from /proc/stat")
def test_what_other_programs_use_is_seen_but_for_waits_between() -> None:
    burn = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"]
    foreign = ForeignTime()
    assert foreign.so_far() is None
    foreign.begin()
    subprocess.run(burn, check=True)
    assert (foreign.so_far() or 0.0) > 0.3
    foreign.end()
    before = foreign.seconds
    subprocess.run(burn, check=True)
    assert foreign.seconds == before > 0.3


def test_threads_that_take_each_other_s_processor_are_named_and_no_busy_machine_is() -> None:
    arm = ArmFigures(
        name="real", processes=6, steps=354, warm=1, step_s=ProcessEstimate(value=0.08, low=0.079, high=0.081, n=6), mean_s=0.09,
        run_delay=0.15, behind_own=True,
    )  # fmt: skip
    own, mean = show._parts_of(TrainingSummary(state="measured", arms=[arm]))
    assert own.startswith("threads of the program itself kept its main thread from a processor: real 15 % of the time")
    assert "waited for a processor 15 %" not in mean
    assert summary._busy([arm]) == []
    (busy,) = summary._busy([msgspec.structs.replace(arm, behind_own=False)])
    assert (busy.code, "the machine is busy" in busy.text) == ("starved", True)
    (shared,) = summary._busy([msgspec.structs.replace(arm, behind_own=False, has_helpers=True)])
    assert "its own workers or ranks use the processors as well" in shared.text  # an idle machine's two workers took both cores
    assert "busy" not in shared.text


@pytest.mark.parametrize(
    ("apart", "spread", "said"),
    [(0.05, 0.02, "larger"), (0.018, 0.002, "larger"), (-0.018, 0.002, "smaller"), (0.0, 0.012, "same"), (0.008, 0.012, "same"), (0.0, 0.04, "inconclusive")],
)  # fmt: skip
def test_a_difference_beyond_one_percent_is_reported_and_two_within_two_percent_are_the_same(apart: float, spread: float, said: str) -> None:
    noise = [0.7, -1.0, 0.2, 1.0, -0.3, -0.6, 0.4, -0.1]
    both = [(process(0.01), process(0.01 * math.exp(apart + spread * each))) for each in noise]
    assert summary.compared(both, "A", "B", 0.01).answer == said
    if apart > 0.04:
        assert summary.compared(both, "A", "B", 0.06).answer == "same"


def test_one_process_that_is_slow_throughout_does_not_hide_a_difference_over_twelve_pairs() -> None:
    apart = [0.037, 0.030, 0.052, 0.047, 0.047, 0.039, -0.115, 0.069, 0.053, 0.027, 0.073, 0.048]
    found = summary.compared([(process(0.01), process(0.01 * math.exp(one))) for one in apart], "A", "B", 0.01)
    assert found.answer == "larger"
    assert found.low == pytest.approx(math.exp(0.030))


@pytest.mark.parametrize(
    ("rows", "known"), [("8 if place < 20 else 16", False), ("8 + place % 3", False), ("4 if place % 20 == 19 else 8", True)],
)  # fmt: skip
def test_a_frozen_batch_does_not_stand_for_batches_of_other_shapes(home: Path, rows: str, known: bool) -> None:
    """But an epoch's last one may be smaller."""
    shown = ran(home, BATCHES.replace("{rows}", rows), "--processes", "2")
    stall = shown.summary.stall
    assert stall is not None
    assert stall.stall_s is not None
    assert (stall.why == "batches_differ") != known  # that it is seen above the noise, or on a busy machine, is the machine's
    text = show.stall_text(stall)
    assert ("batches differ in shape" in text) != known
    assert "in next()" in text
    assert "batches_differ" in [notice.code for notice in shown.summary.notices]


def test_the_answer_names_a_loader_that_costs_much(home: Path) -> None:
    summary = ran(home, SLEEPY, "--processes", "2").summary
    assert summary.stall is not None
    assert summary.stall.stall_s is not None
    few = msgspec.structs.replace(summary.stall, known=True, why="", hidden=False, share=0.8)
    said = show.answer(msgspec.structs.replace(summary, state="measured", stall=few))
    assert re.search(r"the loader costs about 80 % of it, \d+(\.\d+)? % by waiting in next\(\) \(2 pairs, too few for an interval\): a faster loader first", said)
    sure = msgspec.structs.replace(summary.stall, known=True, why="", hidden=False, share=0.8, stall_s=msgspec.structs.replace(summary.stall.stall_s, low=0.001))
    assert "by waiting in next(): a faster" in show.answer(msgspec.structs.replace(summary, state="measured", stall=sure))
    never = msgspec.structs.replace(sure, stall_s=msgspec.structs.replace(summary.stall.stall_s, low=-0.001))
    assert "the loader" not in show.answer(msgspec.structs.replace(summary, state="measured", stall=never))


@pytest.mark.parametrize(
    ("apart", "hidden", "words"),
    [
        (ProcessEstimate(value=-8e-4, low=-2e-3, high=4e-4, n=6), True, "no stall can be seen above the noise (real − frozen -800 µs [-2 ms, 400 µs] over 6 pairs)"),
        (ProcessEstimate(value=-8e-4, n=2), True, "no stall can be seen above the noise (real − frozen -800 µs over 2 pairs: too few for an interval)"),
        (ProcessEstimate(value=4e-3, low=3e-3, high=5e-3, n=6), False, "costs 4 ms a step (real − frozen 4 ms [3 ms, 5 ms] over 6 pairs)"),
        (ProcessEstimate(value=4e-3, n=3), False, "costs about 4 ms a step (real − frozen 4 ms over 3 pairs: too few for an interval)"),
    ],
)  # fmt: skip
def test_a_stall_is_said_only_above_the_noise(apart: ProcessEstimate, hidden: bool, words: str) -> None:
    text = show.stall_text(LoaderStall(known=True, hidden=hidden, loader="DataLoader, 2 workers", stall_s=apart))
    assert text.replace("2.00", "2").replace("4.00", "4").replace("3.00", "3").replace("5.00", "5") == f"(DataLoader, 2 workers){':' if hidden else ''} {words}"


def test_a_stall_beside_a_busy_machine_is_unknown() -> None:
    text = show.stall_text(LoaderStall(known=False, why="busy", loader="t.loader", stall_s=ProcessEstimate(value=-1e-3, n=2)))
    assert text.startswith("unknown: the machine disturbed the steps with the frozen batch, too (real − frozen")


def test_break_even_has_an_interval_or_is_not_known() -> None:
    paid = BreakEven(mode="default", compile_s=3.0, gain_s=1e-3, gain_low_s=5e-4, gain_high_s=2e-3, steps=3000, low=1500, high=6000)
    noisy = BreakEven(mode="default", compile_s=3.0, gain_s=1e-3, gain_low_s=-5e-4, gain_high_s=2e-3, sure=False)
    lines = [show._compile(TrainingSummary(state="measured", break_even=[one]))[0] for one in (paid, noisy)]
    assert lines[0].startswith("default pays after 3,000 steps [1,500, 6,000]")
    assert lines[1].startswith("default: whether it pays is not known: it gains 1")
    assert "pays after" not in lines[1]


def test_a_program_that_ends_early_is_inconclusive_and_says_how_many_processes_ran(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "seven.py"
    path.write_text("import sys, hotlap\nfor _ in range(30):\n    hotlap.step()\nsys.exit(7)\n")
    assert main(["training", "run", str(path), "--processes", "2", "--data", "real"]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "2 fresh processes of up to 100 steps; 1 ran" in out
    assert re.search(r"answer inconclusive: a step takes .* of 1 process: too few for an interval", out)


def test_a_mean_above_the_step_says_why_and_parts_sum_to_the_step(home: Path) -> None:
    """Two long steps of twenty are in means, and not in what is usual."""
    text = "import hotlap, time\nwith hotlap.steps() as t:\n    for i in range(20):\n        time.sleep(0.1 if i in (9, 15) else 0.002)\n        t.step()\n"
    shown = ran(home, text, "--processes", "1", "--data", "real")
    (arm,) = shown.summary.arms
    assert arm.step_s is not None
    assert sum(arm.parts_s.values()) == pytest.approx(arm.step_s.value)
    assert arm.every_step == 19
    (line,) = (one for one in show.facts(shown.run, shown.summary) if one.startswith("mean "))
    assert re.match(r"mean of all steady steps, with long ones and waits for a processor: real .*ms", line)


def test_two_runs_are_compared_by_what_was_measured_and_the_way_to_measure_in_turns_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program without a loader has no steps with a frozen one, and no case of them."""
    path = home / "plain.py"
    path.write_text("import hotlap, time\nfor _ in range(20):\n    time.sleep(1e-3)\n    hotlap.step()\n")
    for _ in range(2):
        assert main(["training", "run", str(path), "--processes", "1"]) == 0
    capsys.readouterr()
    first, second = sorted(one.name for one in (home / "home" / "runs").iterdir())
    assert main(["compare", first, second]) in (0, 1, 3)
    out = " ".join(capsys.readouterr().out.split())
    assert "hotlap training run A --against B measures in turns" in out
    assert "hotlap ab" not in out
    assert "not comparable" not in out
