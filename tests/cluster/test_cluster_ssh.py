"""Members by the system's OpenSSH: what it refuses, and a campaign over an sshd of this test's own on 127.0.0.1."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.cluster import folder
from hotlap.core.store import bundle as bundles

SSHD = shutil.which("sshd") or next((path for path in ("/usr/sbin/sshd",) if Path(path).exists()), None)
client = pytest.mark.skipif(not shutil.which("ssh"), reason="there is no ssh here: apt install openssh-client")
server = pytest.mark.skipif(not SSHD or not shutil.which("ssh-keygen"), reason="there is no sshd here: apt install openssh-server")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def states(home: Path) -> dict[str, tuple[str, str]]:
    kept = folder.load(max((home / "runs").iterdir()))
    return {state.member: (state.state, state.why) for state in kept.states(time.time())}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@client
@pytest.mark.slow("two processes of ssh")
def test_hosts_that_are_not_there_are_named_with_the_reason(home: Path, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"Host closed\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    assert main(["cluster", "run", "--hosts", "closed,nowhere.invalid", "--ssh-config", str(tmp_path / "config"), "--", "true"]) == 3
    assert states(home) == {
        "closed": ("never started", "nothing listens there: connection refused"),
        "nowhere.invalid": ("never started", "its name cannot be resolved"),
    }


def test_without_asyncssh_the_extra_is_named_and_no_campaign_begun(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    assert main(["cluster", "run", "--hosts", "n1", "--ssh", "asyncssh", "--", "true"]) == 3
    assert "--ssh asyncssh needs the package asyncssh" in capsys.readouterr().err
    assert not (home / "runs").exists()


@client
@pytest.mark.slow("a campaign that is interrupted while ssh connects")
@pytest.mark.parametrize("way", ["openssh", "asyncssh"])
def test_ctrl_c_while_a_host_does_not_answer_keeps_the_campaign(home: Path, tmp_path: Path, way: str) -> None:
    if way == "asyncssh":
        pytest.importorskip("asyncssh")
    (tmp_path / "config").write_text(f"Host mute\n  ProxyCommand sh -c 'touch {tmp_path}/begun; cat > /dev/null'\n")
    argv = [sys.executable, "-m", "hotlap", "cluster", "run", "--hosts", "mute", "--ssh", way, "--ssh-config", str(tmp_path / "config"), "--", "true"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "hotlap cluster resume" in err
    assert states(home)["mute"] == ("never started", "")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Path]:
    """An sshd on 127.0.0.1 with keys of its own; the configuration that leads there, with the hosts n1, n2, changed and stranger."""
    port, keys = free_port(), tmp_path / "keys"
    keys.mkdir(mode=0o700)
    for name in ("host", "user", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)], check=True)
    shutil.copy(keys / "user.pub", keys / "authorized")
    (keys / "authorized").chmod(0o600)
    (keys / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\nPidFile none\nUsePAM no\n"
        "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    own, other = ((keys / f"{name}.pub").read_text().split()[1] for name in ("host", "other"))
    hosts = {"n1": own, "n2": own, "changed": other, "nokey": own}
    (keys / "known_hosts").write_text("".join(f"{name} ssh-ed25519 {key}\n" for name, key in hosts.items()))
    (keys / "config").write_text(
        f"Host nokey\n  IdentityFile {keys}/other\nHost * !nokey\n  IdentityFile {keys}/user\nHost *\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n"
        f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {keys}/known_hosts\n"
        "  GlobalKnownHostsFile /dev/null\n" + "".join(f"Host {name}\n  HostKeyAlias {name}\n" for name in (*hosts, "stranger"))
    )
    Path("/run/sshd").mkdir(exist_ok=True) if os.getuid() == 0 else None
    process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(keys / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield keys / "config"
    finally:
        process.terminate()
        process.wait()


@client
@server
@pytest.mark.slow("an sshd, and a dozen connections")
def test_a_campaign_by_ssh(home: Path, daemon: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--ssh-config", str(daemon), "--python", sys.executable]
    assert main(["cluster", "run", "--hosts", "n1,changed,stranger,nokey", *options, "--", "echo", "hello", "{member}"]) == 3
    assert {name: state for name, (state, _) in states(home).items()} == {
        "n1": "measured", "changed": "refused", "stranger": "refused", "nokey": "refused",
    }  # fmt: skip
    assert "has changed" in states(home)["changed"][1]
    assert "is not known" in states(home)["stranger"][1]
    assert "none of the keys" in states(home)["nokey"][1]
    capsys.readouterr()
    assert main(["cluster", "logs", "n1"]) == 0
    assert "hello n1" in capsys.readouterr().out


@client
@server
@pytest.mark.slow("an sshd, and connections")
def test_one_machine_under_two_names_and_no_python(home: Path, daemon: Path) -> None:
    assert main(["cluster", "run", "--hosts", "n1,n2", "--ssh-config", str(daemon), "--python", sys.executable, "--", "true"]) in (0, 3)
    taken = [state for state, _ in states(home).values()]
    identified = folder.load(max((home / "runs").iterdir())).members()[0].identity
    assert taken.count("measured") == (1 if identified and identified.key else 2)
    assert main(["cluster", "run", "--hosts", "n1", "--ssh-config", str(daemon), "--python", "/no/python", "--", "true"]) == 3
    state, reason = states(home)["n1"]
    assert state == "refused"
    assert "name another by --python" in reason


PLAN = """schema = 1
name = "small"
[measure]
rounds = 2
seed = 7
rounds_max = 2
round_time = "0.1 s"
[[case]]
workload = "chase"
size = "1 MiB"
"""


@client
@server
@pytest.mark.slow("an sshd, connections, and two campaigns")
def test_the_same_campaign_locally_and_by_ssh(home: Path, daemon: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two members whose index is the seed: what is kept is equal byte for byte, but for times and the members' names. Each has a machine-id
    of its own, through the agent's seam."""
    (tmp_path / "small.toml").write_text(PLAN)
    for name in ("n1", "n2"):
        (tmp_path / "root" / name / "etc").mkdir(parents=True)
        (tmp_path / "root" / name / "etc" / "machine-id").write_text(f"id-of-{name}\n")
    monkeypatch.setenv("HOTLAP_AGENT_ROOT", f"{tmp_path}/root/{{member}}")
    for name in [name for name in os.environ if name.startswith("OPENBLAS_")]:  # ssh passes none on, and a sum's last digit hangs on them
        monkeypatch.delenv(name)
    plan = [str(tmp_path / "small.toml"), "--target", "simulated:h200-sxm?noise=0.01&seed={index}"]
    kept = []
    for members in (["--local", "2"], ["--hosts", "n[1-2]", "--ssh-config", str(daemon), "--python", sys.executable]):
        assert main(["cluster", "run", *plan, *members]) == 0
        kept.append(bundles.load(max((home / "runs").iterdir())))
    local, ssh = (re.sub(rb'"(began|ended)_s":[^,}]+', b"", (bundle.path / "samples.jsonl").read_bytes()) for bundle in kept)
    assert re.sub(rb'"device":"slot0(.)"', lambda match: b'"device":"n%d"' % (int(match[1]) + 1), local) == ssh
    values = [sample.values for sample in kept[0].samples]
    assert len(values) == 4
    assert values[0] != values[2]
