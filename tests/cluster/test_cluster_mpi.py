"""Ranks that somebody else started: by hand with the names of torchrun, and by OpenMPI in a network namespace of the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.cluster import folder
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch import dialled, mpi
from hotlap.core.errors import InputError

TOKEN = "a secret of the test"
root_and_mpi = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mpirun") or not shutil.which("unshare"), reason="needs root and OpenMPI: apt install openmpi-bin"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "HOTLAP_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def outputs(home: Path, attempt: int = 1) -> list[str]:
    kept = newest(home)
    return [(kept.attempt(1, member.name, attempt) / "stdout").read_text() for member in kept.members()]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def ranks(words: list[str], world: int, **environment: str) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "hotlap", "cluster", *words]
    return [
        subprocess.Popen(command, env=os.environ | {"RANK": str(rank), "WORLD_SIZE": str(world)} | environment, stdout=-1, stderr=-1, text=True)
        for rank in range(world)
    ]


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    spoken = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, *each) for process, each in zip(processes, spoken, strict=True)]


@pytest.mark.slow("three processes of Hotlap")
def test_ranks_of_torchrun_s_names_meet_on_one_machine(home: Path) -> None:
    words = ["run", "--mpi", "--queue", "60 s", "--", "sh", "-c", "echo {member} {index} of {members}"]
    results = ended(ranks(words, 3, LOCAL_WORLD_SIZE="3", TORCHELASTIC_RUN_ID=f"test-{os.getpid()}"))
    assert [code for code, _, _ in results] == [0, 0, 0], results
    assert "3 members (slots of one machine) by mpi: 3 measured" in results[0][1]
    assert results[1][1] == results[2][1] == ""
    assert outputs(home) == ["rank00 0 of 3\n", "rank01 1 of 3\n", "rank02 2 of 3\n"]


@pytest.mark.slow("six processes of Hotlap")
def test_ranks_meet_by_an_address_and_resume_begins_the_same_way(home: Path, tmp_path: Path) -> None:
    """As on several machines: the machine's file is not used."""
    meet = f"127.0.0.1:{free_port()}"
    words = ["run", "--mpi", "--meet", meet, "--queue", "60 s", "--", "sh", "-c", f"test {{index}} = 0 || test -e {tmp_path}/again"]
    results = ended(ranks(words, 3, HOTLAP_TOKEN=TOKEN))
    assert results[0][0] == 3, results
    assert "died" in results[0][1]
    (tmp_path / "again").touch()
    again = ended(ranks(["resume", "--mpi", "--meet", meet], 3, HOTLAP_TOKEN=TOKEN))
    assert again[0][0] == 0, again
    assert {(state.state, state.attempt) for state in newest(home).states(time.time())} == {("measured", 1), ("measured", 2)}


@root_and_mpi
@pytest.mark.slow("OpenMPI, four processes of Hotlap")
def test_mpirun_starts_the_agents(home: Path) -> None:
    command = [sys.executable, "-m", "hotlap", "cluster", "run", "--mpi", "--gang", "4", "--", "sh", "-c", "echo $RANK $WORLD_SIZE $PMIX_RANK"]
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", *command]
    done = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *mpirun],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert outputs(home) == [f"{rank} 4 {rank}\n" for rank in range(4)]


def test_without_ranks_or_a_secret_nothing_listens(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert main(["cluster", "run", "--mpi", "--", "true"]) == 2
    assert "nobody started this as a rank" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["cluster", "run", "--mpi", "--", "true"]) == 2
    assert "--meet HOST:PORT says where rank 0 listens, as the 2 ranks are on several machines" in capsys.readouterr().err
    assert main(["cluster", "run", "--mpi", "--meet", "127.0.0.1:29400", "--", "true"]) == 2
    assert "need a secret of 16 characters or more in HOTLAP_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("HOTLAP_TOKEN", TOKEN)
    assert main(["cluster", "run", "--mpi", "--meet", f"127.0.0.1:{free_port()}", "--queue", "0.6 s", "--", "true"]) == 3
    assert "of 2 ranks 1 did not come within 0.6 s: 1" in capsys.readouterr().err
    assert not (home / "runs").exists()


def test_neither_side_goes_on_with_a_stranger() -> None:
    listener = dialled.AgentListener("127.0.0.1", 0, b"one token")
    taken: list[object] = []
    taking = threading.Thread(target=lambda: taken.extend(listener.take(10.0) for _ in range(3)))
    taking.start()
    with pytest.raises(ValueError, match="does not know the token"):
        dialled.dial(*listener.address, b"another", {}, 5.0)
    with socket.create_connection(listener.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: nobody in particular\r\n\r\n")
        with suppress(ConnectionResetError):
            assert stranger.recv(64) == b""
    connection = dialled.dial(*listener.address, b"one token", {"rank": 1}, 5.0)
    taking.join(30)
    listener.close()
    assert taken[:2] == [None, None]
    about, process = taken[2]  # type: ignore[misc]
    assert about == {"rank": 1}
    process.kill()
    assert connection.recv(1) == b""
    connection.close()


def test_no_rank_is_a_clear_error() -> None:
    with pytest.raises(InputError):
        mpi.own({})
    assert mpi.own({"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})[:3] == (1, 4, 2)
    assert mpi.own({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "RANK": "0", "WORLD_SIZE": "1"})[:2] == (3, 8)
