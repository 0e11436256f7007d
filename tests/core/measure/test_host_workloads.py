"""The host's own disk and network: real reads, writes and connections, and nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotlap
from hotlap import cli
from hotlap.cli import progress
from hotlap.core import work
from hotlap.core.errors import HotlapError, InputError, NotSupported
from hotlap.core.measure import session, targets, workloads
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.measure.workloads import disk, loopback
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.loopback import LoopbackPeer
from hotlap.core.model.ceilings import Ceilings, ceiling_s, ceilings
from hotlap.core.plan.read import read
from hotlap.core.record import Case, MeasureOptions, Plan, Samples
from hotlap.core.work.host import DISK, LOOPBACK, ROUNDTRIP

SHORT = MeasureOptions(rounds=2, rounds_max=2, round_s=0.05, budget_s=30.0, readings_hz=0.0)
SMALL = {"size": "1 MiB", "block": "4 KiB"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files go; the home is elsewhere."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "files"))
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def measured(case: Case) -> Samples:
    """A short round of the loop; skipped where the disk of the tests cannot be read past the page cache."""
    samples = measure(HostTarget(), case, CaseBudget(seconds=0.05, seed=1))
    if samples.status == "not_run" and "O_DIRECT" in samples.reason:
        pytest.skip(samples.reason)
    return samples


def prepared(case: Case) -> Prepared:
    return workloads.prepare(HostTarget(), case, 1)


def gone(pid: int) -> bool:
    """Whether a process ends within a few seconds; nobody may ask how it ended."""
    for _ in range(200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


# ---------------------------------------------------------------- disk


@pytest.mark.parametrize(
    "given",
    [
        {"op": "read"}, {"op": "read", "pattern": "random"}, {"op": "write"}, {"op": "write", "pattern": "random", "sync": True},
        {"op": "read", "direct": False, "block": "1000 B"}, {"op": "write", "direct": False}, {"op": "write", "block": "1 MiB"},
    ],
)  # fmt: skip
def test_blocks_are_read_and_written_and_checked_and_no_file_is_left(given: dict[str, Any], folder: Path) -> None:
    case = DISK.case({**SMALL, **given})
    samples = measured(case)
    assert (samples.status, samples.reason) == ("measured", "")
    assert samples.check is not None
    assert samples.check.passed
    assert samples.method.startswith("wall-")
    assert all(DISK.value(seconds, case.params) > 1e3 for seconds in samples.values)
    assert samples.variant.startswith("page cache" if given.get("direct") is False else "direct")
    assert list(folder.iterdir()) == []


def test_the_file_has_no_name_while_it_is_measured(folder: Path) -> None:
    case = prepared(DISK.case({**SMALL, "direct": False, "op": "write"}))
    case.enqueue(300)
    assert list(folder.iterdir()) == []
    assert case.check().passed
    assert case.close is not None
    case.close()
    with pytest.raises(ValueError, match="closed file"):
        case.check()


def test_a_block_that_is_wrong_or_elsewhere_is_seen(folder: Path) -> None:
    rng = np.random.default_rng(1)
    file = disk.BlockFile(str(folder), 2**20, 4096, rng)
    file.fill()
    handle = file.file.fileno()
    assert file.wrong_on_disk(rng) == (0, 256)
    file.writes(iter([7, 8, 7]), sync=False)(3)
    assert file.wrong_on_disk(rng) == (0, 256)
    os.pwrite(handle, b"\0\0", 5 * 4096 + 100)
    assert file.wrong_on_disk(rng) == (1, 256)
    os.pwrite(handle, os.pread(handle, 4096, 7 * 4096), 9 * 4096)  # right but for its place
    assert file.wrong_on_disk(rng) == (2, 256)
    read = file.reads(iter([5, 6]))
    read(1)
    assert file.wrong_as_read() == 1
    read(1)
    assert file.wrong_as_read() == 0
    file.close()


def test_a_write_that_is_lost_is_seen(folder: Path) -> None:
    """The last write of a block is what counts, not one before."""
    rng = np.random.default_rng(1)
    file = disk.BlockFile(str(folder), 2**16, 512, rng)
    file.fill()
    write = file.writes(iter([3, 3]), sync=True)
    write(1)
    before = os.pread(file.file.fileno(), 512, 3 * 512)
    write(1)
    assert file.wrong_on_disk(rng)[0] == 0
    os.pwrite(file.file.fileno(), before, 3 * 512)
    assert file.wrong_on_disk(rng)[0] == 1
    file.close()


def test_of_a_large_file_a_part_is_read_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LOOKED_AT", 2**21)
    rng = np.random.default_rng(1)
    file = disk.BlockFile(str(folder), 4 * 2**20, 4096, rng)
    file.fill()
    assert file.wrong_on_disk(rng) == (0, 512)
    file.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": "1 KiB"}, r"'size' \(1 KiB\) is smaller than 'block' \(4 KiB\)"),
        ({"block": 1000}, "past the page cache 'block' is a multiple of 512 B, as in 1024, not 1000; or give direct=false"),
        ({"sync": True}, "'sync' waits for writes"), ({"op": "erase"}, "valid: read, write"), ({"size": "1 TiB"}, "at most 16 GiB"),
    ],
)  # fmt: skip
def test_what_no_disk_can_do_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        DISK.case(given)
    assert "\n" not in str(refused.value)


def test_room_for_others_is_left(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(disk, "SPARE", 2**70)
    with pytest.raises(NotSupported, match=r"free, and a file of 1 MiB needs .*; set TMPDIR to a folder on another disk"):
        prepared(DISK.case(SMALL))
    assert list(folder.iterdir()) == []


def test_memory_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux 6.6 and later take O_DIRECT on tmpfs, without effect."""
    if disk.mounted("/dev/shm").kind != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    before = set(os.listdir("/dev/shm"))
    monkeypatch.setenv("TMPDIR", "/dev/shm")
    with pytest.raises(NotSupported, match=r"tmpfs lies in memory.*direct=false"):
        prepared(DISK.case(SMALL))
    assert set(os.listdir("/dev/shm")) <= before
    assert measured(DISK.case({**SMALL, "direct": False})).status == "measured"


def test_a_folder_that_is_not_there_is_no_other_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(folder / "nowhere"))
    with pytest.raises(NotSupported, match=r"nowhere.*No such file or directory"):
        prepared(DISK.case(SMALL))


def test_the_mount_is_the_longest_that_holds_the_folder(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /a rw shared:1 - tmpfs tmpfs rw\n3 1 8:2 / /a\\040b rw - xfs /dev/sdb rw\n"
    )
    found = [disk.mounted(one, table) for one in ("/a/x", "/ab", "/a b/c", "/")]
    assert found == [("tmpfs", ""), ("ext4", "/dev/sda1"), ("xfs", "/dev/sdb"), ("ext4", "/dev/sda1")]
    assert disk.mounted("/a", tmp_path / "nothing") == ("", "")


# ---------------------------------------------------------------- network


@pytest.mark.parametrize(
    ("kind", "given"), [(LOOPBACK, {}), (LOOPBACK, {"message": 100}), (LOOPBACK, {"message": "3 MiB"}), (ROUNDTRIP, {}), (ROUNDTRIP, {"message": "1 MiB"})]
)
def test_bytes_arrive_and_the_other_process_ends(kind: work.Workload, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[int]()

    class Noted(LoopbackPeer):
        def __init__(self, message: int) -> None:
            super().__init__(message)
            started.append(self.pid)

    monkeypatch.setattr(loopback, "LoopbackPeer", Noted)
    case = kind.case(given)
    samples = measure(HostTarget(), case, CaseBudget(seconds=0.05, seed=1))
    assert (samples.status, samples.reason) == ("measured", "")
    assert samples.check is not None
    assert samples.check.passed
    assert all(0 < kind.value(seconds, case.params) < 1e12 for seconds in samples.values)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_bytes_that_do_not_arrive_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = LoopbackPeer(1000)
    peer.take(b"x" * 1000, 3)
    assert (peer.sent, peer.received) == (3000, 3000)
    assert bytes(peer.echo(b"y" * 1000, 2)) == b"y" * 1000
    assert peer.sum([b"z" * 1000])
    assert (peer.sent, peer.received) == (6000, 6000)
    case = loopback._streamed(peer, 1000, np.random.default_rng(1))
    assert case.check().passed
    peer.sent += 1
    assert not case.check().passed
    peer.sent -= 1
    monkeypatch.setattr(loopback.zlib, "crc32", lambda data, crc: 0)  # the other process has its own
    assert not case.check().passed
    assert not loopback._echoed(peer, 1000, np.random.default_rng(1)).check().passed
    peer.close()


def test_another_process_that_dies_is_an_error_of_the_case() -> None:
    for kind in (LOOPBACK, ROUNDTRIP):
        case = prepared(kind.case({}))
        os.kill(case.helpers[0], signal.SIGKILL)
        with pytest.raises(HotlapError, match="the process at the other end of the connection does not answer"):
            case.enqueue(10_000)
        assert case.close is not None
        case.close()


def test_the_other_process_ends_with_a_killed_one() -> None:
    script = (
        "import time; from hotlap.core.measure import workloads; from hotlap.core.measure.targets.host import HostTarget\n"
        "from hotlap.core.work.host import LOOPBACK\n"
        "case = workloads.prepare(HostTarget(), LOOPBACK.case({}), 1); case.enqueue(4); print(case.helpers[0], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert not Path(f"/proc/{pid}").exists() or "receiver.py" in Path(f"/proc/{pid}/cmdline").read_text()
        process.kill()
    assert gone(pid)


# ---------------------------------------------------------------- plans and targets


def test_a_plan_of_them_chooses_the_host_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "default", lambda: targets.TargetSpec("opencl"))
    plan = read('[[case]]\nworkload = "disk"\nop = ["read", "write"]\nblock = "64 KiB"\n[[case]]\nworkload = "roundtrip"\n', "p.toml", "p", "p.toml")
    assert [work.label(case) for case in plan.cases] == [
        "disk read sequential 64 KiB of 64 MiB", "disk write sequential 64 KiB of 64 MiB", "roundtrip 1 B"
    ]  # fmt: skip
    program, stream = Case(workload="command", params={"argv": ["true"]}), Case(workload="stream", params={})
    assert targets.chosen("", plan.cases).name == "host"
    assert targets.chosen("", [*plan.cases, program]).name == "host"
    assert targets.chosen("", [*plan.cases, stream]).name == "opencl"
    assert targets.chosen("opencl", plan.cases).name == "opencl"


def test_other_targets_do_not_run_them() -> None:
    spec = targets.parse("simulated:h100-sxm")
    simulated = targets.open_device(spec, targets.find(spec)[0])
    for kind in (DISK, LOOPBACK, ROUNDTRIP):
        with pytest.raises(NotSupported, match="give --target host"):
            workloads.prepare(simulated, kind.case({}), 1)

    class Other(HostTarget):
        dialect = "c"  # type: ignore[assignment]

    with pytest.raises(NotSupported, match="'disk' measures the host, no device of host; give --target host"):
        workloads.prepare(Other(), DISK.case({}), 1)


def test_nothing_is_expected_of_them() -> None:
    for kind in (DISK, LOOPBACK, ROUNDTRIP):
        found = hotlap.predict(kind.name, machine="h100-sxm")
        assert (found.kind, found.bound_s, found.expected_s) == ("unknown", None, None)
        assert "depends on the host" in found.reason


def test_one_is_no_measure_of_another() -> None:
    """A disk is not slow because the loopback is quick."""
    cases = [DISK.case({**SMALL, "direct": False}), LOOPBACK.case({}), LOOPBACK.case({"message": "1 KiB"})]
    results = hotlap.run(Plan(name="host", cases=cases, measure=SHORT)).results
    assert [one.status for one in results] == ["measured"] * 3
    assert ceilings(results).best == {}
    assert [ceiling_s(one, Ceilings({"link": {"another": 1e12}}), None) for one in cases] == [None] * 3


def test_each_round_is_a_fresh_process_and_is_expected_to_take_its_time(tmp_path: Path) -> None:
    started = list[int]()

    def start(job: Any, limit_s: float, stop: Any) -> Any:
        started.append(job.round)
        return session.process(job, limit_s, stop)

    plan = Plan(name="host", cases=[ROUNDTRIP.case({})], measure=SHORT)
    path = session.run(plan, session.SessionOptions(home=tmp_path / "home"), lambda *_: None, start)
    result = hotlap.load(str(path)).results[0]
    assert sorted(set(started)) == list(range(len(started)))
    assert len(started) >= 2
    assert (result.metric, result.unit, result.better, result.target) == ("latency", "s", "lower", "host")
    assert all(0 < value < 1 for value in result.values)
    assert result.values
    took = progress.expected(plan, "host")
    assert took is not None
    assert took.low_s > 0
    programs = Plan(name="p", cases=[Case(workload="command", params={"argv": ["true"]})], measure=SHORT)
    least = progress.expected(programs, "host")
    assert least is not None
    assert least.low_s == 0


@pytest.mark.slow("measures by the command line")
def test_the_command_line_measures_the_disk_without_a_target(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code = cli.main(["bench", "disk", "size=8MiB", "block=4KiB", "direct=false", "--runs", "2"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "host:0" in printed
    assert "disk read sequential 4 KiB of 8 MiB cached" in printed
    assert "B/s" in printed
    assert list(folder.iterdir()) == []


def test_the_command_line_refuses_what_no_disk_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "disk", "size=1KiB"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
