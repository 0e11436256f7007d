"""Members by Slurm, with its real daemons in namespaces of this test (`slurm_bed`)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_bed
from slurm_bed import SlurmBed

from hotlap.cli import main
from hotlap.cluster import folder
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import slurm

pytestmark = pytest.mark.skipif(bool(slurm_bed.lacking()), reason=slurm_bed.lacking() or "Slurm is here")


@pytest.fixture(scope="module")
def bed() -> Iterator[SlurmBed]:
    with tempfile.TemporaryDirectory(prefix="sl", dir="/tmp") as place, slurm_bed.slurm(Path(place)) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Identity files of two machines: both nodes are this one."""
    for name in ("n1", "n2"):
        (tmp_path / "roots" / name / "etc").mkdir(parents=True)
        (tmp_path / "roots" / name / "etc" / "machine-id").write_text(f"{name}\n")
    return tmp_path / "home"


def hotlap(*words: str) -> list[str]:
    return [sys.executable, "-m", "hotlap", "cluster", *words]


def surroundings(home: Path) -> dict[str, str]:
    return {"HOTLAP_HOME": str(home), "HOTLAP_AGENT_ROOT": str(home.parent / "roots" / "{member}")}


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def states(home: Path) -> dict[str, tuple[str, int]]:
    return {state.member: (state.state, state.attempt) for state in newest(home).states(time.time())}


def jobs(bed: SlurmBed) -> list[str]:
    """Numbers of jobs that wait or run."""
    return bed.run(["squeue", "-h", "-o", "%i", "-t", "PENDING,RUNNING,CONFIGURING"]).stdout.split()


def until(done: object, seconds: float = 60.0) -> None:
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow("Slurm's daemons, two agents")
def test_a_command_on_the_nodes_of_a_job_which_is_given_back(bed: SlurmBed, home: Path) -> None:
    script = "echo node $SLURMD_NODENAME {member}; head -c 3000000 /dev/zero | tr '\\0' x"
    done = bed.run(hotlap("run", "--slurm", "-N 2", "--rounds", "2", "--", "sh", "-c", script), **surroundings(home))
    assert done.returncode == 0, done.stderr
    assert "2 members by slurm: 2 measured" in done.stdout
    kept = newest(home)
    for name in ("n1", "n2"):
        text = (kept.attempt(1, name, 1) / "stdout").read_text()
        assert text == f"node {name} {name}\n{'x' * 3_000_000}" * 2  # binary-clean, and whole
    assert jobs(bed) == []


@pytest.mark.slow("Slurm's daemons, four agents")
def test_a_requeued_job_loses_its_members_and_resume_makes_a_new_attempt(bed: SlurmBed, home: Path, tmp_path: Path) -> None:
    script = f"echo {{member}} >> {tmp_path}/ran; test {{index}} = 0 || test -e {tmp_path}/again || sleep 600"
    asked = hotlap("run", "--slurm", "-N 2 --requeue", "--", "sh", "-c", script)
    running = subprocess.Popen(bed.argv(asked), env=bed.environment(surroundings(home)), stdout=-1, stderr=-1, text=True)
    until(lambda: (tmp_path / "ran").exists() and len((tmp_path / "ran").read_text().split()) == 2)
    until(lambda: states(home)["n1"] == ("measured", 1))
    (job,) = jobs(bed)
    assert json.loads((newest(home).path / "launcher.json").read_text()) == {"job": job}
    assert bed.run(["scontrol", "requeue", job]).returncode == 0
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 3, errors
    assert f"Slurm requeued job {job}" in " ".join(out.split())
    assert states(home) == {"n1": ("measured", 1), "n2": ("died", 1)}
    until(lambda: jobs(bed) == [])
    (tmp_path / "again").touch()
    resumed = bed.run(hotlap("resume"), **surroundings(home))
    assert resumed.returncode == 0, resumed.stderr
    assert states(home) == {"n1": ("measured", 1), "n2": ("measured", 2)}
    assert sorted((tmp_path / "ran").read_text().split()) == ["n1", "n2", "n2"]
    assert jobs(bed) == []


@pytest.mark.slow("Slurm's daemons")
def test_what_slurm_refuses_and_a_queue_that_never_starts(bed: SlurmBed, home: Path, tmp_path: Path) -> None:
    refused = bed.run(hotlap("run", "--slurm", "-p nope", "--", "true"), **surroundings(home))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.strip() == "hotlap: --slurm '-p nope': sbatch refused it: Invalid partition name specified"
    waits = bed.run(hotlap("run", "--slurm", "-p closed", "--queue", "1.5 s", "--", "true"), **surroundings(home))
    assert waits.returncode == 3
    assert "did not start within 1.50 s: PartitionDown; it was cancelled" in waits.stderr
    assert jobs(bed) == []
    asked = bed.argv(["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(tmp_path / "pid"), *hotlap("run", "--slurm", "-p closed", "--", "true")])
    waiting = subprocess.Popen(asked, env=bed.environment(surroundings(home)), stderr=subprocess.PIPE, text=True)
    until(lambda: len(jobs(bed)) == 1)
    time.sleep(0.5)
    bed.run(["kill", "-INT", (tmp_path / "pid").read_text().strip()])
    waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert jobs(bed) == []
    assert not (home / "runs").exists()


@pytest.mark.slow("Slurm's daemons, two agents")
def test_stop_cancels_the_job_of_a_controller_that_was_killed(bed: SlurmBed, home: Path, tmp_path: Path) -> None:
    asked = hotlap("run", "--slurm", "-N 2", "--", "sh", "-c", f"touch {tmp_path}/{{member}}; exec sleep 600")
    running = subprocess.Popen(bed.argv(["sh", "-c", f'echo $$ > {tmp_path}/pid; exec "$@"', "sh", *asked]), env=bed.environment(surroundings(home)))
    until(lambda: (tmp_path / "n1").exists() and (tmp_path / "n2").exists())
    bed.run(["kill", "-9", (tmp_path / "pid").read_text().strip()])
    running.wait(30)
    assert running.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert len(jobs(bed)) == 1
    assert bed.run(hotlap("stop"), **surroundings(home)).returncode == 0
    until(lambda: jobs(bed) == [])
    until(lambda: "sleep 600" not in bed.run(["ps", "-eo", "args"]).stdout)


@pytest.mark.slow("Slurm's daemons, two agents")
def test_a_gang_over_two_nodes(bed: SlurmBed, home: Path) -> None:
    script = "echo $RANK of $WORLD_SIZE $MASTER_ADDR; test -n $MASTER_PORT"
    done = bed.run(hotlap("run", "--slurm", "-N 2", "--gang", "2", "--", "sh", "-c", script), **surroundings(home))
    assert done.returncode == 0, done.stderr
    assert [(newest(home).attempt(1, name, 1) / "stdout").read_text() for name in ("n1", "n2")] == ["0 of 2 bed\n", "1 of 2 bed\n"]


def test_a_machine_without_slurm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster", "run", "--slurm", "-N 2", "--", "true"]) == 3
    assert "there is no sbatch on this machine" in capsys.readouterr().err
    assert main(["cluster", "run", "--slurm", "-N 2", "--dry-run", "--", "true"]) == 0
    assert "members by slurm: sbatch --parsable" in capsys.readouterr().out


@pytest.mark.slow("Slurm's daemons, an array of three tasks for two nodes")
def test_tasks_of_an_array_run_without_one_that_does_not_start(bed: SlurmBed, home: Path) -> None:
    asked = ("run", "--slurm", "--exclusive --array=0-2%8 -N1", "--queue", "12 s", "--", "sh", "-c", "echo {member} of job $SLURM_JOB_ID")
    done = bed.run(hotlap(*asked), **surroundings(home))
    assert done.returncode == 3, done.stderr
    assert states(home) == {"n1": ("measured", 1), "n2": ("measured", 1), "task-2": ("never started", 0)}
    assert "its task did not start: pending, Resources" in done.stdout
    first, second = ((newest(home).attempt(1, name, 1) / "stdout").read_text().split() for name in ("n1", "n2"))
    assert (first[0], second[0]) == ("n1", "n2")
    assert first[3] != second[3]
    assert jobs(bed) == []
    (home.parent / "roots" / "task-2" / "etc").mkdir(parents=True)
    (home.parent / "roots" / "task-2" / "etc" / "machine-id").write_text("third\n")
    resumed = bed.run(hotlap("resume"), **surroundings(home))  # one job for those that lack a result
    assert resumed.returncode == 0, resumed.stderr
    assert states(home)["task-2"] == ("measured", 1)
    assert jobs(bed) == []


def test_numbers_of_tasks_are_read_as_slurm_writes_them() -> None:
    assert slurm._numbers("0-3%8") == [0, 1, 2, 3]
    assert slurm._numbers("1,4-5,10-20:5%2") == [1, 4, 5, 10, 15, 20]
    assert slurm._numbers("N/A") == slurm._numbers("") == []
    assert slurm._alone(["-p", "gpu", "-a", "0-3", "--array=1", "-a0-3", "-N1"]) == ["-p", "gpu", "-N1"]


def test_an_array_has_no_gangs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "run", "--slurm", "--array=0-3 -N1", "--gang", "2", "--", "true"]) == 2
    assert "tasks of an array start one by one" in capsys.readouterr().err
