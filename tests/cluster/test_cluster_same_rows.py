"""One campaign of two members by several launchers: what is kept is equal byte for byte, but for times and the members' names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import slurm_bed

from hotlap.cli import main
from hotlap.cluster import folder as folders
from hotlap.cluster.launch import kubernetes

PLAN = """schema = 1
name = "small"
[measure]
rounds = 2
seed = 7
rounds_max = 2
round_time = "0.05 s"
[[case]]
workload = "gemm"
m = 512
n = 512
k = 512
dtype = "fp16"
"""
LOCAL: list[bytes] = []  # rows of the local campaign, measured once
Way = Callable[[Path, list[str]], None]


def by_slurm(place: Path, words: list[str]) -> None:
    if reason := slurm_bed.lacking():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="sl", dir="/tmp") as short, slurm_bed.slurm(Path(short)) as bed:
        done = bed.run([sys.executable, "-m", "hotlap", "cluster", "run", *words, "--slurm", "-N 2", "--python", sys.executable])
    assert done.returncode == 0, done.stderr


def by_ranks(place: Path, words: list[str]) -> None:
    argv = [sys.executable, "-m", "hotlap", "cluster", "run", *words, "--mpi", "--queue", "60 s"]
    given = os.environ | {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": place.name}
    ranks = [subprocess.Popen(argv, env=given | {"RANK": str(rank)}, stdout=subprocess.DEVNULL) for rank in range(2)]
    assert [rank.wait(120) for rank in ranks] == [0, 0]


def by_pods(place: Path, words: list[str]) -> None:
    out, volume, sources = place / "job.yaml", place / "volume", place / "sources"
    given = ["--kubernetes", str(out), "--pods", "2", "--image", "x", "--results", "claim", "--python", sys.executable]
    assert main(["cluster", "run", *words, *given]) == 0
    for folder in (volume, sources):
        folder.mkdir()
    campaign = folders.load(max((place / "home" / "runs").iterdir())).campaign
    for name, text in kubernetes.files(campaign, kubernetes.PodOptions(**campaign.options)).items():
        (sources / name).write_text(text)
    for index in range(2):
        surroundings = os.environ | {"JOB_COMPLETION_INDEX": str(index), "HOTLAP_POD": f"p{index}", "HOTLAP_RESULTS": str(volume)}
        subprocess.run([sys.executable, "-I", "-S", str(sources / "member_pod.py")], env=surroundings | {"HOTLAP_NODE": f"k{index}"}, check=True)
    assert main(["cluster", "collect", "--from", str(volume)]) == 0


@pytest.mark.slow("two campaigns of two members with Hotlap")
@pytest.mark.parametrize("way", [by_slurm, by_ranks, by_pods])
def test_rows_are_those_of_local_members(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOTLAP_AGENT_ROOT", f"{tmp_path}/none/{{member}}")  # Slurm's two nodes are this machine
    (tmp_path / "small.toml").write_text(PLAN)
    words = [str(tmp_path / "small.toml"), "--target", "simulated:h200-sxm?noise=0.01&seed={index}"]
    if not LOCAL:
        assert main(["cluster", "run", *words, "--local", "2"]) == 0
        LOCAL.extend(rows(tmp_path, "slot0"))
    local = list(LOCAL)
    way(tmp_path, words)
    assert rows(tmp_path, "n|rank0|pod0", 1 if way is by_slurm else 0) == local
    assert len(local) == 4
    assert local[0] != local[2]


def rows(place: Path, names: str, first: int = 0) -> list[bytes]:
    """Lines of the newest campaign's samples without times, members by their index."""
    data = (max((place / "home" / "runs").iterdir()) / "samples.jsonl").read_bytes()
    data = re.sub(rb'"(began|ended)_s":[^,}]+', b"", data)
    return re.sub(rb'"device":"(?:%s)(\d)"' % names.encode(), lambda match: b'"device":%d' % (int(match[1]) - first), data).splitlines()
