"""What `training run` says of a step: of a loader whose batches differ or that costs much, and of parts that sum to more than the step."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import msgspec
import pytest
from tests.training.test_training_run import SLEEPY

import hotlap
from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.training import show, show_kind
from hotlap.training.show_kind import ShownTraining

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


@pytest.mark.parametrize(
    ("rows", "known"), [("8 if place < 20 else 16", False), ("8 + place % 3", False), ("4 if place % 20 == 19 else 8", True)],
)  # fmt: skip
def test_a_frozen_batch_does_not_stand_for_batches_of_other_shapes(home: Path, rows: str, known: bool) -> None:
    """But an epoch's last one may be smaller."""
    shown = ran(home, BATCHES.replace("{rows}", rows), "--processes", "2")
    stall = shown.summary.stall
    assert stall is not None
    assert stall.stall_s is not None
    assert (stall.known, stall.why) == (known, "" if known else "batches_differ")
    text = show.stall_text(stall)
    assert ("batches differ in shape" in text) != known
    assert "in next()" in text
    assert "batches_differ" in [notice.code for notice in shown.summary.notices]


def test_the_answer_names_a_loader_that_costs_much(home: Path) -> None:
    summary = ran(home, SLEEPY, "--processes", "2").summary
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
    shown = ran(home, text, "--processes", "1", "--data", "real")
    (arm,) = shown.summary.arms
    assert arm.mean_s is not None
    assert sum(arm.parts_s.values()) == pytest.approx(arm.mean_s)
    assert arm.every_step == 20
    (line,) = (one for one in show.facts(shown.run, shown.summary) if one.startswith("parts "))
    assert re.match(r"parts of real are means, with rare long steps.* and sum to .*ms; the step is of the usual ones", line)
