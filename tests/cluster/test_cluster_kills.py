"""The kill matrix, each kind once, and that it notices what is wrong. `python benchmarks/cluster_kills.py` runs it 200 times."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import slurm_bed
from tests.netbed import bed as beds

from benchmarks.kill_runs import KINDS, KillRun
from benchmarks.kill_runs_bed import SSH_KINDS, BedRun, SlurmRun, standing

NO_BED = beds.missing() or ("" if beds.sshd() else "there is no sshd here: scripts/sshd.sh prints one")


@pytest.mark.slow("a campaign, a fault, and a campaign that goes on")
@pytest.mark.parametrize("kind", KINDS)
def test_after_each_fault_the_states_are_true_and_nothing_is_lost_or_left(tmp_path: Path, kind: str) -> None:
    if kind == "disk" and (os.getuid() or not shutil.which("unshare")):
        pytest.skip("a small disk needs root and unshare")
    if kind == "stopped" and not NO_BED:
        pytest.skip("waits long, and is tried over the bed below")
    run = KillRun(kind, 1, tmp_path)
    run.run()
    assert run.wrong == []


@pytest.fixture(scope="module")
def sixteen() -> Iterator[beds.Bed]:
    with standing(kinds="in") as here:
        assert here.ssh
        yield here.ssh


@pytest.mark.slow("sixteen nodes, a campaign by ssh, a fault, and a campaign that goes on")
@pytest.mark.skipif(bool(NO_BED), reason=NO_BED or "a bed can be made")
@pytest.mark.parametrize("kind", SSH_KINDS)
def test_so_it_is_by_ssh_over_sixteen_nodes(tmp_path: Path, sixteen: beds.Bed, kind: str) -> None:
    run = BedRun(kind, 1, tmp_path, bed=sixteen)
    run.run()
    run.clean()
    assert run.wrong == []


@pytest.mark.slow("Slurm's daemons, a job that is requeued, and a campaign that goes on")
@pytest.mark.skipif(bool(slurm_bed.lacking()), reason=slurm_bed.lacking() or "Slurm is here")
def test_so_it_is_when_slurm_requeues(tmp_path: Path) -> None:
    with standing(kinds="requeue") as here:
        assert here.slurm
        run = SlurmRun("requeue", 1, tmp_path, bed=here.slurm)
        run.run()
        run.clean()
    assert run.wrong == []


@pytest.mark.slow("two campaigns")
def test_the_matrix_notices_a_state_that_is_not_true(tmp_path: Path) -> None:
    run = KillRun("in", 1, tmp_path)
    (tmp_path / f"fault-{run.victim}-{run.at}").unlink()
    run.run()
    assert f"{run.victim} in step {run.at} is measured (), not died (killed by signal 9)" in run.wrong
