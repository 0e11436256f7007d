"""Members by OpenSSH, and by asyncssh in its place: the same configuration and known hosts, the same refusals in the same words."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.netbed import bed as beds
from tests.netbed import warden
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

from hotlap.cluster import folder
from hotlap.cluster.launch import ssh

WHY = beds.missing() or ("" if beds.sshd() else "HOTLAP_SSHD names no sshd, and none is installed; scripts/sshd.sh prints one")
real = pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made")
HOTLAP = [sys.executable, "-m", "hotlap", "cluster"]
OF = f"""Host changed
  HostName n01
  HostKeyAlias n03
Host stranger
  HostName n01
  HostKeyAlias stranger
Host unchecked
  HostName n02
  HostKeyAlias unchecked
  UserKnownHostsFile none
  StrictHostKeyChecking no
Host behind
  HostName n02
  ProxyJump unchecked
Host nokey
  HostName n02
  IdentityFile {warden.PRIVATE}/home/none
Host jumped
  HostName n02
  ProxyJump n01
Host loud
  HostName n03
Host closed
  HostName n01
  Port 23
Host * !nokey
  IdentityFile {warden.PRIVATE}/key
"""
LOUD = "for n in $(seq 20000); do echo a line of fifty letters, as a login shell may write it; done"
UNKNOWN = ("refused", "its host key is not known: compare it with the machine's, and log in once by hand")
ENDS = {
    "changed": ("refused", "its host key has changed: compare it with the machine's, then ssh-keygen -R its name"),
    "stranger": UNKNOWN, "unchecked": UNKNOWN,
    "nokey": ("refused", "it takes none of the keys: log in once by hand, or name a configuration by --ssh-config"),
    "nowhere.invalid": ("never started", "its name cannot be resolved"),
    "closed": ("never started", "nothing listens there: connection refused"),
    **dict.fromkeys(("n01", "jumped", "loud"), ("measured", "")),
}  # fmt: skip


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    """Its third node writes a megabyte to both streams whenever a shell begins there."""
    with Bed(Spec(nodes=3, leaves=2)) as made:
        assert made.run(["sh", "-c", f"echo '({LOUD}); ({LOUD}) >&2' > ~/.bashrc"], "n03").returncode == 0
        yield made


@pytest.fixture(params=ssh.CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    if request.param == "asyncssh":
        pytest.importorskip("asyncssh")
    return str(request.param)


def environment(home: Path) -> dict[str, Any]:
    return {"HOTLAP_HOME": str(home), "PYTHONPATH": f"{beds.ROOT}/src", "COLUMNS": "140"}


def ends(home: Path) -> dict[str, tuple[str, str]]:
    kept = folder.load(next((home / "runs").iterdir()))
    return {state.member: (state.state, state.why) for state in kept.states(time.time())}


@real
@pytest.mark.slow("a bed of three nodes, and a campaign")
def test_a_campaign_goes_by_every_way_and_says_why_a_host_is_refused(bed: Bed, client: str, tmp_path: Path) -> None:
    own = bed.run(["cat", bed.ssh_config]).stdout.replace("LogLevel ERROR", "LogLevel INFO")
    (tmp_path / "config").write_text(OF + own.replace(f"  IdentityFile {warden.PRIVATE}/key\n", ""))
    ways = ["--ssh", client, "--ssh-config", str(tmp_path / "config"), "--python", sys.executable]
    done = bed.run([*HOTLAP, "run", "--hosts", ",".join(ENDS), *ways, "--", "seq", "100000"], env=environment(tmp_path))
    assert done.returncode == 3, done.stdout + done.stderr
    assert ends(tmp_path) == ENDS
    assert bed.run([*HOTLAP, "logs", "--all"], env=environment(tmp_path)).stdout.count("100000") == 3


@real
@pytest.mark.slow("a bed of three nodes")
def test_a_python_that_is_not_there_is_refused_by_its_name(bed: Bed, client: str, tmp_path: Path) -> None:
    done = bed.run([*HOTLAP, "run", "--hosts", "n01", "--ssh", client, "--python", "/no/python", "--", "true"], env=environment(tmp_path))
    assert done.returncode == 3, done.stdout + done.stderr
    state, why = ends(tmp_path)["n01"]
    assert state == "refused"
    assert "'/no/python' cannot be run there: name another by --python" in why


@real
@pytest.mark.slow("a bed of three nodes")
def test_asyncssh_checks_jump_hosts_and_says_that_a_way_was_lost(bed: Bed, tmp_path: Path) -> None:
    pytest.importorskip("asyncssh")
    (tmp_path / "config").write_text(OF + bed.run(["cat", bed.ssh_config]).stdout)
    bridge = [sys.executable, "-P", "-m", "hotlap.cluster.launch.ssh_bridge"]
    behind = bed.run([*bridge, "behind", str(tmp_path / "config"), "hostname"], env=environment(tmp_path))
    assert (behind.returncode, behind.stdout, ssh.bridged(behind.stderr)) == (255, "", ("unknown key", "unknown key"))
    lost = bed.run([*bridge, "n02", "", "kill -9 $PPID"], env=environment(tmp_path))
    assert (lost.returncode, ssh.bridged(lost.stderr)) == (255, ("no way", "the connection was lost"))
    ended = bed.run([*bridge, "n02", "", "cat >&2; exit 7"], env=environment(tmp_path), input="x" * 1_000_000)
    assert (ended.returncode, len(ended.stderr)) == (7, 1_000_000)
