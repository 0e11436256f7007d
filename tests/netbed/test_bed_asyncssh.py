"""Members by asyncssh in OpenSSH's place: the same configuration and known hosts, the same refusals, and every host key checked."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from tests.netbed import bed as beds
from tests.netbed import warden
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

from hotlap.cluster import folder
from hotlap.cluster.launch import ssh

WHY = beds.missing() or ("" if beds.sshd() else "HOTLAP_SSHD names no sshd, and none is installed; scripts/sshd.sh prints one")
NAMES = "n01,jumped,loud,changed,stranger,unchecked,nokey,unasked,nowhere.invalid,closed"
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
Host unasked
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


@pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made")
@pytest.mark.slow("a bed of three nodes, and a campaign")
def test_a_campaign_by_asyncssh_checks_every_key_and_says_why_a_host_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("asyncssh")
    environment = {"HOTLAP_HOME": str(tmp_path), "PYTHONPATH": f"{beds.ROOT}/src", "COLUMNS": "140"}
    hotlap = [sys.executable, "-m", "hotlap", "cluster"]
    with Bed(Spec(nodes=3, leaves=2)) as bed:
        own = bed.run(["cat", bed.ssh_config]).stdout
        (tmp_path / "config").write_text(OF + own.replace(f"  IdentityFile {warden.PRIVATE}/key\n", ""))
        assert bed.run(["sh", "-c", f"echo '({LOUD}); ({LOUD}) >&2' > ~/.bashrc"], "n03").returncode == 0
        options = ["--hosts", NAMES, "--ssh", "asyncssh", "--ssh-config", str(tmp_path / "config"), "--python", sys.executable]
        done = bed.run([*hotlap, "run", *options, "--", "sh", "-c", "hostname; seq 100000"], env=environment)
        assert done.returncode == 3, done.stdout + done.stderr
        shown = bed.run([*hotlap, "logs", "--all"], env=environment).stdout
        lost = bed.run([sys.executable, "-P", "-m", "hotlap.cluster.launch.ssh_bridge", "n02", "", "kill -9 $PPID"], env=environment)
    kept = folder.load(next((tmp_path / "runs").iterdir()))
    assert {state.member: (state.state, state.why) for state in kept.states(time.time()) if state.state != "measured"} == {
        "changed": ("refused", "its host key has changed: compare it with the machine's, then ssh-keygen -R its name"),
        "stranger": ("refused", "its host key is not known: compare it with the machine's, and log in once by hand"),
        "unchecked": ("refused", "its host key is not known: compare it with the machine's, and log in once by hand"),
        "unasked": ("refused", "its host key is not known: compare it with the machine's, and log in once by hand"),
        "nokey": ("refused", "it takes none of the keys: log in once by hand, or name a configuration by --ssh-config"),
        "nowhere.invalid": ("never started", "its name cannot be resolved"),
        "closed": ("never started", "nothing listens there: connection refused"),
    }
    assert shown.count("100000") == 3
    assert (lost.returncode, ssh.bridged(lost.stderr)) == (255, ("no way", "the connection was lost"))
