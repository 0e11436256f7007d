"""The bed of real nodes: who its nodes are, what they reach, what faults do and that they are undone, and that nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netbed import bed as beds
from tests.netbed import links
from tests.netbed.bed import Bed, BedError
from tests.netbed.senders import rate_mbps
from tests.netbed.spec import Spec

SPEC = Spec(nodes=3, leaves=2)
WHY = beds.missing()
real = pytest.mark.skipif(bool(WHY), reason=WHY or "a bed can be made")
by_ssh = pytest.mark.skipif(not beds.sshd(), reason="HOTLAP_SSHD names no sshd, and none is installed; scripts/sshd.sh prints one")


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with Bed(SPEC) as made:
        yield made


def text(bed: Bed, node: str, *argv: str) -> str:
    done = bed.run(argv, node)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def listeners() -> set[str]:
    """Who listens in this namespace beyond 127.0.0.1: local addresses and ports."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {line[1] for line in lines if line[3] == "0A" and not line[1].startswith("0100007F:")}


def names_of_links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def with_mark(mark: str) -> list[str]:
    """Processes of this machine whose command names the bed's folder."""
    kept = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes().decode(errors="replace") and int(entry.name) != os.getpid():
                kept.append(entry.name)
        except OSError:
            continue
    return kept


@real
@pytest.mark.slow("a bed of three nodes")
def test_each_node_is_a_machine_of_its_own_and_reaches_only_the_bed(bed: Bed) -> None:
    assert [text(bed, node, "hostname") for node in bed.spec.everyone] == bed.spec.everyone
    assert len({text(bed, node, "cat", "/etc/machine-id") for node in bed.spec.everyone}) == 4
    assert text(bed, "n01", "ls", "/sys/class/net").split() == ["eth0", "lo"]
    assert text(bed, "n01", "ip", "-o", "route").splitlines() == [text(bed, "n01", "ip", "-o", "route", "show", "10.77.0.0/16")]
    text(bed, "n01", "sh", "-c", "echo mine > /tmp/own; echo mine > ~/own")
    assert bed.run(["sh", "-c", "cat /tmp/own ~/own"], "n02").returncode == 1
    assert not Path("/tmp/own").exists()


@real
@by_ssh
@pytest.mark.slow("a bed of three nodes")
def test_the_controller_reaches_nodes_by_ssh_and_checks_their_keys(bed: Bed) -> None:
    assert text(bed, "controller", "ssh", "n03", "hostname") == "n03"
    wrong = bed.run(["ssh", "-o", "HostKeyAlias=n01", "n02", "hostname"])
    assert wrong.returncode == 255
    assert "Host key verification failed" in wrong.stderr
    assert bed.run(["ssh", bed.spec.address("n01"), "true"], "n02").returncode == 255, "nodes have no key of each other"


@real
@by_ssh
@pytest.mark.slow("a campaign over ssh on two nodes")
def test_a_campaign_over_the_bed_has_a_result_of_each_node(bed: Bed, tmp_path: Path) -> None:
    environment = {"HOTLAP_HOME": str(tmp_path), "PYTHONPATH": f"{beds.ROOT}/src", "COLUMNS": "140"}
    hotlap = [sys.executable, "-m", "hotlap", "cluster"]
    done = bed.run([*hotlap, "run", "--hosts", "n01,n02", "--", "sh", "-c", "hostname; cat /etc/machine-id"], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = bed.run([*hotlap, "logs", "--all"], env=environment).stdout
    for node in ("n01", "n02"):
        assert text(bed, node, "cat", "/etc/machine-id") in shown
    with bed.hurt("link-down", "n02"):
        part = bed.run([*hotlap, "run", "--hosts", "n01,n02", "--timeout", "60 s", "--", "true"], env={**environment, "HOTLAP_HOME": str(tmp_path / "part")})
    assert part.returncode == 3
    assert "never started" in part.stdout, part.stdout


@real
@pytest.mark.slow("a bed, and transfers over shaped links")
def test_a_slow_pair_is_slow_one_way_and_only_until_it_is_healed(bed: Bed) -> None:
    with bed.hurt("slow-pair", "n01", "n02", 20):
        slow, back, beside = rate_mbps(bed, "n01", "n02", 1_000_000), rate_mbps(bed, "n02", "n01"), rate_mbps(bed, "n01", "n03")
    assert slow < min(back, beside)
    assert slow < rate_mbps(bed, "n01", "n02")


@real
@pytest.mark.slow("a bed of three nodes")
def test_faults_of_disk_processes_and_cpu_are_seen_and_undone(bed: Bed) -> None:
    write = ["sh", "-c", "head -c 100000 /dev/zero > /tmp/some && rm /tmp/some"]
    with bed.hurt("disk-full", "n02"):
        assert "No space left" in bed.run(write, "n02").stderr
        assert bed.run(write, "n01").returncode == 0
    assert bed.run(write, "n02").returncode == 0
    inside, sleeper = list[int](), bed.popen(["sleep", "600"], "n03")
    try:
        while not (inside := [pid for pid in bed.processes("n03") if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]):
            assert sleeper.poll() is None
            time.sleep(0.01)
        with bed.hurt("stopped", "n03"):
            assert state(inside[0]) == "T"
        assert state(inside[0]) == "S"
    finally:
        for pid in inside:
            os.kill(pid, signal.SIGKILL)
        assert sleeper.wait(60) != 0, "its nsenter goes on too, when the node does"
    if (beds.CPU / "cpu.shares").exists():
        with bed.hurt("cpu", "n03", 0.25):
            assert "hotlap-netbed-" in text(bed, "n03", "cat", "/proc/self/cgroup")
            assert "hotlap-netbed-" not in text(bed, "n01", "cat", "/proc/self/cgroup")
        assert not list(beds.CPU.glob(f"{bed.folder.name}-*"))


def state(pid: int) -> str:
    """As ps has it; a signal takes a moment to arrive."""
    for _ in range(200):
        seen = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if seen in "TS":
            last = seen
        time.sleep(0.001)
    return last


@real
@pytest.mark.slow("a bed")
def test_ctrl_c_reaches_the_command_and_its_exit_code_comes_back(bed: Bed) -> None:
    """As from a terminal: all processes of the group get the signal. The script leaves it to the command (scripts/netbed)."""
    program = "import sys, time\ntry:\n print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt:\n print('ended', flush=True); sys.exit(130)"
    argv = bed.argv([sys.executable, "-c", program])
    script = f"import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execvp({argv[0]!r}, {argv!r})"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "ended\n"
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()


@real
@pytest.mark.slow("a bed, and a maker that is killed")
def test_nothing_is_left_behind_by_a_maker_that_is_killed() -> None:
    before = names_of_links(), listeners()
    program = "import sys, time; from tests.netbed.bed import Bed, Spec; b = Bed(Spec(nodes=2)).__enter__(); print(b.folder, flush=True); time.sleep(600)"
    maker = subprocess.Popen([sys.executable, "-c", program], cwd=beds.ROOT, stdout=subprocess.PIPE, text=True)
    assert maker.stdout
    folder = Path(maker.stdout.readline().strip())
    try:
        assert folder.name.startswith(beds.MARK)
        assert len(with_mark(folder.name)) >= 7, "a warden, three nodes, and one between each"
        assert (names_of_links(), listeners()) == before
    finally:
        maker.kill()
        maker.communicate()
    for _ in range(500):
        if not with_mark(folder.name):
            break
        time.sleep(0.02)
    assert with_mark(folder.name) == []
    assert folder.name not in Path("/proc/self/mountinfo").read_text()
    assert "/run/netbed" not in Path("/proc/self/mountinfo").read_text()
    assert (names_of_links(), listeners()) == before
    assert folder.name in beds.clean()
    assert not folder.exists()


@real
@pytest.mark.slow("a bed of two nodes")
def test_nothing_is_left_behind_when_a_bed_is_taken_down() -> None:
    with Bed(Spec(nodes=2)) as bed:
        bed.fault("slow-node", "n01", 20)
        named = bed.folder
    assert with_mark(named.name) == []
    assert not named.exists()


@real
@by_ssh
@pytest.mark.slow("the commands of docs/testbed.md, with a bed")
def test_the_commands_of_the_manual_run(tmp_path: Path) -> None:
    page = (beds.ROOT / "docs/testbed.md").read_text(encoding="utf-8")
    commands = [line[2:] for line in page.splitlines() if line.startswith("$ scripts/netbed ")]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=beds.ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL)
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    finally:
        subprocess.run(["scripts/netbed", "down"], cwd=beds.ROOT, env=environment, capture_output=True)
    assert {command.split()[1] for command in commands} == {"up", "list", "exec", "fault", "heal", "down", "clean"}
    assert with_mark(str(tmp_path)) == []


@real
def test_clean_leaves_alone_what_does_not_carry_its_mark_or_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beds.tempfile, "gettempdir", lambda: str(tmp_path))
    for name in ("other-folder", f"{beds.MARK}young"):
        (tmp_path / name).mkdir()
    gone = tmp_path / f"{beds.MARK}gone"
    gone.mkdir()
    (gone / "state.json").write_text('{"warden": 1, "began": "of another process", "pids": {}}')
    assert beds.clean() == [gone.name]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{beds.MARK}young", "other-folder"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"nodes": 1}, "a bed has 2 to 32 nodes, not 1"),
        ({"nodes": 2, "leaves": 3}, "2 nodes stand on 1 to 2 leaf switches, not on 3"),
        ({"node_mbps": 0}, "node_mbps is above 0, not 0"),
    ],
)
def test_a_bed_that_cannot_be_is_said(values: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Spec(**values)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (("slow-pai", "n01"), "there is no fault 'slow-pai'; valid: slow-node, slow-send,"),
        (("slow-pair", "n01", "n02"), "slow-pair takes FROM TO MBPS, not n01 n02"),
        (("stopped", "n09"), "there is no node 'n09'; there are n01, n02"),
        (("slow-uplink", "3", "20"), "slow-uplink: LEAF is 1 to 2, not 3"),
        (("cpu", "n01", "2"), "cpu: SHARE is above 0, at most 1"),
    ],
)
def test_a_fault_that_cannot_be_is_said(asked: tuple[str, ...], text: str) -> None:
    bed = Bed(Spec(nodes=2))
    bed.state = {"pids": {"n01": 1, "n02": 2}}
    with pytest.raises(BedError, match=text):
        bed.fault(*asked)


def test_a_slow_pair_gets_a_class_and_a_filter_of_its_own() -> None:
    shaped = links.sending(SPEC, "n01", links.Slowed(pairs={("n01", "n02"): 20.0, ("n02", "n01"): 30.0}))
    assert "classid 1:32 htb rate 20000000bit" in shaped
    assert shaped.count("filter add") == 1
    assert f"match ip dst {SPEC.address('n02')}/32 flowid 1:32" in shaped


def test_a_bed_needs_root_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BedError, match="a bed of nodes needs root"):
        Bed(SPEC).__enter__()
