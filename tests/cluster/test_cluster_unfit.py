"""Members that are poor places to run: an old Python, a disk that is full, a /tmp without programs, a home that cannot be written. The last
three are mounts in a namespace of the agent's own, which needs root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

import hotlap
from hotlap.cluster import agent, cli_check, folder, member_zips, session
from hotlap.cluster.launch.base import popen
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.record import Campaign, Member, MemberState, StepRecord

root = pytest.mark.skipif(bool(os.getuid()) or not shutil.which("unshare"), reason="mounts of its own need root and unshare")


@dataclass(frozen=True)
class PoorLauncher(LocalLauncher):
    """Its one member has this before the agent's code, or these mounts before its Python."""

    before: str = ""
    mounts: str = ""

    def start(self, member: Member) -> subprocess.Popen[bytes]:
        words = [self.python, "-I", "-S", "-c", self.before + agent.BOOTSTRAP]
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{self.mounts} && exec "$@"', "sh"]
        return popen([*inside, *words] if self.mounts else words)


def state(tmp_path: Path, script: str = "true", before: str = "", mounts: str = "") -> tuple[MemberState, Member]:
    named, began = folder.new_id()
    step = StepRecord(number=1, name="sh", gather="command", argv=["sh", "-c", script], label="sh")
    campaign = Campaign(id=named, hotlap="0", began=began, launcher="local", options={"count": 1}, python=sys.executable, steps=[step])
    launcher = PoorLauncher(1, os.path.realpath(sys.executable), before=before, mounts=mounts)
    kept = folder.create(tmp_path / "home", campaign, launcher.members(), {}, "local")
    session.measure(kept, lambda event: None, 1, launcher=launcher)
    (only,), (member,) = kept.states(time.time()), kept.members()
    return only, member


def test_python_3_6_is_refused_in_a_line(tmp_path: Path) -> None:
    only, _ = state(tmp_path, before="import sys\nsys.version_info=(3,6,8,'final',0)\n")
    assert (only.state, only.why) == ("refused", "Python 3.6 is there, 3.9 or later is needed: name another by --python")


def test_what_python_2_says_is_refused_in_a_line(tmp_path: Path) -> None:
    said = "Unknown option: -I\nusage: python [option] ...\nTry `python -h' for more information.\n"
    state = LocalLauncher(1, sys.executable).failure(2, said)
    assert state == ("refused", "Python 2 is there, 3.9 or later is needed: name another by --python")


def test_check_says_what_may_go_wrong() -> None:
    facts = {"clock_off_s": -3600.0, "free_bytes": 5e6, "folder": "/tmp/x", "python": "3.9.2"}
    assert cli_check.doubts(facts, "") == [
        "its clock is 3600 s behind", "5 MB are free in /tmp", "no Hotlap is there: commands run, plans need Python 3.11",
    ]  # fmt: skip
    fine = {"clock_off_s": 0.1, "free_bytes": 5e9, "folder": "/tmp/x", "python": "3.12.1"}
    assert cli_check.doubts(fine, "0.1") == [f"Hotlap 0.1 is there: {hotlap.__version__} is sent for plans"]
    assert cli_check.doubts(fine, hotlap.__version__) == []
    why = "no wheel of numpy that is sent fits Python 3.12, x86_64, glibc 2.36: put one into a folder for --wheels"
    assert cli_check.doubts(fine, "", why) == [f"no Hotlap is there: plans would be refused: {why}"]
    moved = fine | {"skipped": "/tmp: No space left on device", "folder": "/var/tmp/x"}
    assert cli_check.doubts(moved, hotlap.__version__) == ["/tmp: No space left on device: /var/tmp is used instead"]


def test_a_place_without_room_is_named_with_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent; where the home lacks room and the agent's own folder has it, that is taken."""
    free = {tmp_path / "cache" / "hotlap-agent": 30_000_000, tmp_path: 90_000_000}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=free[Path(place)]))
    wheel = {"digest": "d", "size": 20_000_000, "unpacked": 60_000_000}
    assert Path(member_zips.place([wheel], str(tmp_path))).parent == tmp_path
    free[tmp_path] = 70_000_000
    with pytest.raises(member_zips.UnfitError, match=r"hotlap-agent has 30 MB free and needs 88 MB; \S+ has 70 MB free and needs 88 MB"):
        member_zips.place([wheel], str(tmp_path))
    Path(member_zips.cache([wheel], "")).mkdir()
    assert Path(member_zips.place([wheel], str(tmp_path))).parent.name == "hotlap-agent"  # it is there already


@root
def test_check_names_a_full_tmp_and_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    small = f"mount -t tmpfs -o size=30m small {tmp_path}/own && mount -t tmpfs -o size=30m small /var/tmp"
    full = "mount -t tmpfs -o size=64k small /tmp && head -c 64k /dev/zero > /tmp/full; cd /; true"
    python = os.path.realpath(sys.executable)
    named, began = folder.new_id()
    campaign = Campaign(id=named, hotlap="0.0", began=began, launcher="local", options={"count": 1}, python=python, steps=[])
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (row,) = cli_check._looked(campaign, PoorLauncher(1, python, mounts=f"{small} && {full}"))
    assert row["doubts"][0] == "/tmp: No space left on device: /var/tmp is used instead"
    assert row["works_in"] == "/var/tmp"
    assert "plans would be refused: no room to unpack Hotlap: " in row["doubts"][-1]
    assert re.search(r"/own/.cache/hotlap-agent has \d+ MB free and needs \d+ MB", row["doubts"][-1])


PLACES = "for place in /tmp /var/tmp /dev/shm"


@root
def test_a_full_tmp_is_passed_over_and_nowhere_to_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setenv("HOME", "/var/tmp")
    full = "mount -t tmpfs -o size=64k small $place && head -c 64k /dev/zero > $place/full"
    only, member = state(tmp_path, mounts=f"place=/dev/shm; {full}; place=/tmp; {full}; cd /; true")
    assert only.state == "measured"
    assert str(member.facts["folder"]).startswith("/var/tmp/hotlap-agent-")
    only, _ = state(tmp_path, mounts=f"{PLACES}; do {full}; done; cd /; true")
    assert only.state == "refused"
    assert only.why.startswith("no folder can be written (/tmp: No space left on device; ")


@root
def test_a_tmp_without_programs_and_a_home_that_cannot_be_written_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "own"))
    mounts = f"mount -t tmpfs -o ro none {tmp_path}/own && mount -t tmpfs -o noexec small /tmp && cd /"
    only, member = state(tmp_path, mounts=mounts)
    assert only.state == "measured"
    assert str(member.facts["folder"]).startswith("/tmp/hotlap-agent-")
