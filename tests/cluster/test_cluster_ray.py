"""Members by Ray: three nodes of a real cluster in a network namespace of the test, without dashboard and usage statistics."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_cluster_same_rows import PLAN, rows

from hotlap.cli import main
from hotlap.cluster import folder
from hotlap.cluster.folder import CampaignFolder

NODES = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20})
for _ in range(2):
    cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
"""
LINKS = "ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add 10.0.0.1/32 dev v0 && ip link set v0 up && ip link set v1 up"
here = bool(importlib.util.find_spec("ray")) and os.geteuid() == 0 and bool(shutil.which("unshare")) and bool(shutil.which("nsenter"))
with_ray = pytest.mark.skipif(not here, reason="needs the package ray (the extra ray), root, and util-linux")


@pytest.fixture(scope="module")
def bed() -> Iterator[tuple[int, str]]:
    """A process inside, and the cluster's address. All of it ends with the holder, which ends with the test's process."""
    place = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short: sockets are in it
    spaces = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    quiet = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": place}
    argv = [*spaces, "sh", "-c", f'{LINKS} && "$@"', "sh", sys.executable, "-c", NODES]
    holder = subprocess.Popen(argv, env=quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert holder.stdout is not None
        address = holder.stdout.readline().strip()
        assert address, "Ray did not start"
        yield int(Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0]), address
    finally:
        holder.kill()
        holder.wait()
        shutil.rmtree(place, ignore_errors=True)


def newest(home: Path) -> CampaignFolder:
    return folder.load(max((home / "runs").iterdir()))


def hotlap(pid: int, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = os.environ | {"HOTLAP_HOME": str(home), "HOTLAP_AGENT_ROOT": f"{home}/no/{{member}}"}  # the nodes are one machine
    argv = ["nsenter", "-t", str(pid), "-n", "-p", "-m", sys.executable, "-m", "hotlap", "cluster", *words]
    return subprocess.run(argv, env=given, capture_output=True, text=True, timeout=180)


@with_ray
@pytest.mark.slow("a cluster of three Ray nodes")
def test_an_agent_on_each_of_three_nodes(bed: tuple[int, str], tmp_path: Path) -> None:
    pid, address = bed
    script = f"echo {{member}} {{index}} of {{members}}; test {{index}} != 2 || test -e {tmp_path}/again"
    done = hotlap(pid, tmp_path, "run", "--ray", address, "--python", sys.executable, "--", "sh", "-c", script)
    assert done.returncode == 3, done.stderr
    kept = newest(tmp_path)
    states = {state.member: (state.state, state.attempt) for state in kept.states(time.time())}
    names = [member.name for member in kept.members()]
    assert list(states.values()) == [("measured", 1), ("measured", 1), ("died", 1)]
    assert [(kept.attempt(1, name, 1) / "stdout").read_text() for name in names] == [f"{name} {n} of 3\n" for n, name in enumerate(names)]
    (tmp_path / "again").touch()
    assert hotlap(pid, tmp_path, "resume").returncode == 0
    assert {state.state for state in kept.states(time.time())} == {"measured"}


@with_ray
@pytest.mark.slow("a cluster of three Ray nodes")
def test_a_gang_over_ray(bed: tuple[int, str], tmp_path: Path) -> None:
    words = ["run", "--ray", bed[1], "--python", sys.executable, "--gang", "3", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE; test -n $MASTER_PORT"]
    done = hotlap(bed[0], tmp_path, *words)
    assert done.returncode == 0, done.stderr
    kept = newest(tmp_path)
    assert [(kept.attempt(1, member.name, 1) / "stdout").read_text() for member in kept.members()] == [f"{n} of 3\n" for n in range(3)]


@with_ray
@pytest.mark.slow("a cluster of three Ray nodes, six members with Hotlap")
def test_rows_are_those_of_local_members(bed: tuple[int, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "small.toml").write_text(PLAN)
    words = ["run", str(tmp_path / "small.toml"), "--target", "simulated:h200-sxm?noise=0.01&seed={index}", "--python", sys.executable]
    assert hotlap(bed[0], home, *words, "--local", "3").returncode == 0
    local = rows(tmp_path, "slot0")
    done = hotlap(bed[0], home, *words, "--ray", bed[1])
    assert done.returncode == 0, done.stderr
    assert len(local) == 6
    assert rows(tmp_path, f"{re.escape(os.uname().nodename)}-", 1) == local


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["cluster", "run", "--ray", "127.0.0.1:6379", "--", "true"]) == 3
    assert "--ray needs the package ray; pip install 'ray>=2.9'" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main(["cluster", "run", "--ray", "127.0.0.1:6379", "--dry-run", "--", "true"]) == 0
    assert "members by ray: the alive nodes of Ray at 127.0.0.1:6379" in capsys.readouterr().out
