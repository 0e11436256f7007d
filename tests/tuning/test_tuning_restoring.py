"""Files are put back as they were found, however a search ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotlap.core.errors import MachineError
from hotlap.core.store import locks
from hotlap.tuning import benches, restoring, session

BUSY = """
import sys, time
from pathlib import Path
from hotlap.tuning import restoring
note = Path(sys.argv[1])
with restoring.guarded(note):
    for number in range(10_000):
        with restoring.written(note, {"a.conf": f"written {number}", "new.conf": "new"}):
            print(number, flush=True)
            time.sleep(0.01)
"""


def test_files_are_as_found_after_each_run(tmp_path: Path) -> None:
    old, new = tmp_path / "a.conf", tmp_path / "new.conf"
    old.write_text("as it was")
    old.chmod(0o640)
    with restoring.written(tmp_path / "note", {str(old): "other", str(new): "new"}):
        assert (old.read_text(), new.read_text()) == ("other", "new")
        assert old.stat().st_mode & 0o777 == 0o640
    assert old.read_text() == "as it was"
    assert old.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.conf"]


def test_a_write_that_fails_puts_back_the_others(tmp_path: Path) -> None:
    old = tmp_path / "a.conf"
    old.write_text("as it was")
    with pytest.raises(MachineError, match="cannot be written"), restoring.written(tmp_path / "note", {str(old): "x", str(tmp_path / "no" / "b"): "y"}):
        pass
    assert old.read_text() == "as it was"


def test_a_file_of_the_kernel_is_put_back_by_the_choice_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    monkeypatch.setattr(restoring, "KERNEL", (str(tmp_path),))
    before = restoring.as_found(str(file))
    file.write_text("[always] madvise never\n")
    restoring.put_back(before)
    assert file.read_text() == "madvise"  # what the kernel is told; it answers with the list


@pytest.mark.slow("a process that is killed while it writes, a few times")
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_leaves_files_as_found(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("as it was")
    for lines in (1, 3):
        process = subprocess.Popen([sys.executable, "-c", BUSY, "note"], cwd=tmp_path, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(number)
        process.wait()
        process.stdout.close()
        until = time.monotonic() + 60
        while (tmp_path / "note").exists() and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / "a.conf").read_text() == "as it was"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.conf"]


def test_a_note_that_was_left_is_mended(tmp_path: Path) -> None:
    file, note = tmp_path / "a.conf", tmp_path / "note"
    file.write_text("as it was")
    restoring.keep(note, [restoring.as_found(str(file))])
    restoring.write(str(file), "other")
    assert restoring.mend(note) == [str(file)]
    assert (file.read_text(), note.exists()) == ("as it was", False)
    assert restoring.mend(note) == []
    note.write_text("{")
    with pytest.raises(MachineError, match="cannot be read"):
        restoring.mend(note)


def test_variables_are_as_found_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with benches.environment({"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "active"}):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "OMP_WAIT_POLICY" not in os.environ


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_links_stay_links_and_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target, link, hard, new = (tmp_path / name for name in ("target", "link", "hard", "new"))
    target.write_text("as it was")
    link.symlink_to("target")
    hard.hardlink_to(target)
    new.symlink_to("missing")
    inode = target.stat().st_ino
    with restoring.written(tmp_path / "note", {"link": "other", "new": "new"}):
        assert (target.read_text(), hard.read_text(), (tmp_path / "missing").read_text()) == ("other", "other", "new")
    assert (link.is_symlink(), new.is_symlink(), (tmp_path / "missing").exists()) == (True, True, False)
    assert (target.read_text(), hard.read_text()) == ("as it was", "as it was")
    assert target.stat().st_ino == hard.stat().st_ino == inode
    os.mkfifo(tmp_path / "pipe")
    for path in ("pipe", "/dev/null", str(tmp_path)):
        with pytest.raises(MachineError, match="no regular file"), restoring.written(tmp_path / "note", {path: "x"}):
            pass
    assert Path("/dev/null").is_char_device()


def left(folder: Path) -> Path:
    """A note of a file that a search left written."""
    file = folder.parent / "a.conf"
    folder.mkdir(parents=True)
    file.write_text("as it was")
    restoring.keep(folder / "files-before.json", [restoring.as_found(str(file))])
    restoring.write(str(file), "left")
    return file


def test_what_a_search_left_that_was_killed_with_its_guard_is_put_back_first(tmp_path: Path) -> None:
    file = left(tmp_path / "run")
    note = tmp_path / "run" / "files-before.json"
    with restoring.guarded(note):
        assert file.read_text() == "as it was"
        with restoring.written(note, {str(file): "tried"}):
            pass
    assert file.read_text() == "as it was"


def test_a_search_that_runs_keeps_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    file = left(folder)
    with (folder / "samples.jsonl").open("ab") as held:
        assert locks.take(held)
        session.mend(tmp_path)
        assert file.read_text() == "left"
    session.mend(tmp_path)
    assert file.read_text() == "as it was"
