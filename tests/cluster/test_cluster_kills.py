"""The kill matrix, each kind once, and that it notices what is wrong. `python benchmarks/cluster_kills.py` runs it 200 times."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.cluster_kills import KINDS, KillRun


@pytest.mark.slow("a campaign, a fault, and a campaign that goes on")
@pytest.mark.parametrize("kind", KINDS)
def test_after_each_fault_the_states_are_true_and_nothing_is_lost_or_left(tmp_path: Path, kind: str) -> None:
    if kind == "disk" and (os.getuid() or not shutil.which("unshare")):
        pytest.skip("a small disk needs root and unshare")
    run = KillRun(kind, 1, tmp_path)
    run.run()
    assert run.wrong == []


@pytest.mark.slow("two campaigns")
def test_the_matrix_notices_a_state_that_is_not_true(tmp_path: Path) -> None:
    run = KillRun("in", 1, tmp_path)
    (tmp_path / f"fault-{run.victim}-{run.at}").unlink()
    run.run()
    assert f"{run.victim} in step {run.at} is measured (), not died (killed by signal 9)" in run.wrong
