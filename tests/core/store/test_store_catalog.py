"""The catalog: an index that several processes use at once, and that may be lost or wrong without anything being lost."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from keeping import make_run, make_samples

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.store import catalog
from hotlap.core.store.bundle import Bundle, RunHeader, Writer, load
from hotlap.core.store.catalog import Catalog

Keep = Callable[..., Bundle]
HERE = Path(__file__).parent


def ids(home: Path, **filters: object) -> list[str]:
    with closing(Catalog(home)) as opened:
        return [entry.id[-6:] for entry in opened.find(**filters)]  # type: ignore[arg-type]


@pytest.fixture
def three(kept: Keep, tmp_path: Path) -> Path:
    """A home with three runs, on three days."""
    kept("20261119T101500-aaaaaa", began="2026-11-19T10:15:00+00:00", labels={"cluster": "A"})
    kept("20261120T101500-bbbbbb", began="2026-11-20T10:15:00+00:00", labels={"cluster": "B", "node": "7"})
    kept("20261121T101500-cccccc", began="2026-11-21T10:15:00+00:00", labels={"cluster": "B"})
    return tmp_path


def test_find_by_each_filter(three: Path) -> None:
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert ids(three, newest=2) == ["bbbbbb", "cccccc"]
    assert ids(three, newest=9) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert ids(three, prefix="20261120t") == ["bbbbbb"]
    assert ids(three, prefix="2026112") == ["bbbbbb", "cccccc"]
    assert ids(three, prefix="%") == []
    assert ids(three, tags={"cluster": "B"}) == ["bbbbbb", "cccccc"]
    assert ids(three, tags={"cluster": "B", "node": "7"}) == ["bbbbbb"]
    assert ids(three, tags={"cluster": "B"}, newest=1) == ["cccccc"]
    assert ids(three, tags={"workload": "gemm", "cluster": "A"}) == ["aaaaaa"]
    for name, value in {"host": "node7", "device": "GPU-1111", "machine": "h200-sxm", "target": "simulated", "plan": "two"}.items():
        assert ids(three, tags={name: value}) == ["aaaaaa", "bbbbbb", "cccccc"]
        assert ids(three, tags={name: "other"}) == []
    assert ids(three, since_s=1795169700.0) == ["bbbbbb", "cccccc"]
    assert ids(three, until_s=1795169700.0) == ["aaaaaa"]


def test_runs_that_come_change_and_go_are_noticed(three: Path, kept: Keep) -> None:
    assert ids(three, tags={"cluster": "C"}) == []
    fourth = kept("20261122T101500-dddddd", began="2026-11-22T10:15:00+00:00", labels={"cluster": "C"})
    assert ids(three, tags={"cluster": "C"}) == ["dddddd"]
    Writer.resume(fourth.path).finish(msgspec.structs.replace(fourth.run, labels={"cluster": "D"}))
    assert ids(three, tags={"cluster": "C"}) == []
    assert ids(three, tags={"cluster": "D"}) == ["dddddd"]
    shutil.rmtree(fourth.path)
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    with closing(Catalog(three)) as opened:
        assert "D" not in opened.tags()["cluster"]


def test_what_is_no_run_is_passed_over_and_what_is_broken_is_said(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    (three / "runs" / "empty").mkdir()
    (three / "runs" / "note.txt").write_text("mine")
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert caplog.text == ""
    (three / "runs" / "20261120T101500-bbbbbb" / "run.json").write_text('{"schema": 99, "hotlap": "9.0"}')
    assert ids(three) == ["aaaaaa", "cccccc"]
    assert "written by Hotlap 9.0" in caplog.text


def test_copies_of_a_run_are_one(three: Path) -> None:
    shutil.copytree(three / "runs" / "20261120T101500-bbbbbb", three / "runs" / "a copy")
    with closing(Catalog(three)) as opened:
        assert [e.path.name for e in opened.find(prefix="20261120")] == ["20261120T101500-bbbbbb"]


def test_add_and_remove(three: Path, kept: Keep, tmp_path: Path) -> None:
    with closing(Catalog(three)) as opened:
        assert len(opened.find()) == 3
        extra = kept("20261123T101500-eeeeee")
        opened.add(extra)
        assert rows(three, "SELECT count(*) FROM runs") == [(4,)]
        opened.remove(extra.run.id)
        assert rows(three, "SELECT count(*) FROM runs") == [(3,)]
        assert rows(three, "SELECT count(*) FROM tags WHERE folder LIKE '%eeeeee'") == [(0,)]
        assert len(opened.find()) == 4
        with pytest.raises(InputError, match="copy it there"):
            opened.add(Bundle(make_run(), tmp_path / "elsewhere"))


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(home / catalog.NAME)) as db:
        return db.execute(query).fetchall()


def test_an_empty_home_and_one_that_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ids(tmp_path) == []
    assert caplog.text == ""


# ---------------------------------------------------------------- a catalog that is none


@pytest.mark.parametrize("content", [b"hello, I am no database" * 100, b"SQLite format 3\0" + b"\xff" * 4080, b"a note"])
def test_a_file_that_is_no_database_is_moved_aside(three: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (three / catalog.NAME).write_bytes(content)
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert len(caplog.records) == 1
    assert "moved to" in caplog.text
    (aside,) = three.glob("catalog.sqlite.*.aside")
    assert aside.read_bytes() == content
    assert rows(three, "SELECT count(*) FROM runs") == [(3,)]
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert len(caplog.records) == 1


def test_somebody_elses_database_is_moved_aside_whole(three: Path) -> None:
    with closing(sqlite3.connect(three / catalog.NAME)) as db:
        db.execute("CREATE TABLE precious (x)")
        db.execute("INSERT INTO precious VALUES (42)")
        db.commit()
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    (aside,) = three.glob("catalog.sqlite.*.aside")
    with closing(sqlite3.connect(aside)) as db:
        assert db.execute("SELECT x FROM precious").fetchall() == [(42,)]


def test_a_catalog_damaged_in_the_middle_is_made_anew(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ids(three)) == 3
    with closing(sqlite3.connect(three / catalog.NAME)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = three / catalog.NAME
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert "moved to" in caplog.text


def test_a_newer_catalog_is_left_alone_and_every_run_is_found(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ids(three)) == 3
    with closing(sqlite3.connect(three / catalog.NAME)) as db:
        db.execute(f"PRAGMA user_version = {catalog.VERSION + 1}")
        db.execute("DELETE FROM runs")
        db.commit()
    assert ids(three, tags={"cluster": "B"}) == ["bbbbbb", "cccccc"]
    assert f"of version {catalog.VERSION + 1}, made by a newer Hotlap" in caplog.text
    assert rows(three, "SELECT count(*) FROM runs") == [(0,)]
    assert not list(three.glob("*.aside"))


def test_an_older_catalog_is_made_anew_in_place(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ids(three)) == 3
    with closing(sqlite3.connect(three / catalog.NAME)) as db:
        db.execute("DROP TABLE tags")
        db.execute("ALTER TABLE runs DROP COLUMN stamp")
        db.execute("PRAGMA user_version = 0")
        db.commit()
    assert ids(three, tags={"cluster": "B"}) == ["bbbbbb", "cccccc"]
    assert caplog.text == ""


def test_a_catalog_that_another_process_keeps_locked(three: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert len(ids(three)) == 3
    monkeypatch.setattr(catalog, "BUSY_S", 0.05)
    with closing(sqlite3.connect(three / catalog.NAME, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert len(ids(three)) == 3  # nothing to write: readers do not wait
        assert caplog.text == ""
        shutil.rmtree(three / "runs" / "20261119T101500-aaaaaa")
        assert ids(three) == ["bbbbbb", "cccccc"]
        assert "database is locked" in caplog.text


def test_a_folder_in_its_place(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    (three / catalog.NAME).mkdir()
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert "looked up without it: unable to open database file" in caplog.text


# ---------------------------------------------------------------- several at once

WRITE = """
import sys
from contextlib import closing
from pathlib import Path
from keeping import make_run, make_samples
from hotlap.core.store import catalog
from hotlap.core.store.bundle import Writer, load
home, who = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(8):
    run = make_run(f"20261121T1015{number:02d}-{who}", labels={"who": who})
    writer = Writer.create(run, home)
    writer.append(make_samples())
    writer.finish(run)
    with closing(catalog.Catalog(home)) as opened:
        opened.add(load(writer.path))
        assert [e.id for e in opened.find(tags={"who": who}, newest=1)] == [run.id]
"""


@pytest.mark.slow("several processes at one catalog")
@pytest.mark.parametrize("before", [None, b"no database at all"])
def test_several_writers_at_once(tmp_path: Path, before: bytes | None) -> None:
    if before:
        (tmp_path / catalog.NAME).write_bytes(before)
    script = f"import sys; sys.path.insert(0, {str(HERE)!r})\n{WRITE}"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), f"{n:06d}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(4)
    ]
    for process in writers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in writers:  # all begin at once
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    talk = [process.communicate(timeout=300)[1] for process in writers]
    assert [process.returncode for process in writers] == [0] * 4, talk
    assert len(rows(tmp_path, "SELECT DISTINCT id FROM runs")) == 32
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    asides = list(tmp_path.glob("*.aside"))
    assert [p.read_bytes() for p in asides] == ([before] if before else [])
    assert "looked up without it" not in "".join(talk)


def test_tables_that_come_between_two_questions_are_ours(tmp_path: Path) -> None:
    """Another process makes the catalog while this one asks whether it is one: it was once taken for a foreign file and set aside."""
    path = tmp_path / catalog.NAME
    for question in range(3):
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as asking, closing(sqlite3.connect(path, isolation_level=None)) as making:
            catalog._ready(_Interrupted(asking, question, lambda other=making: catalog._make(other)))  # type: ignore[arg-type]
            assert catalog._ready(asking)


class _Interrupted:
    """A connection that lets something happen before its n-th question."""

    def __init__(self, db: sqlite3.Connection, question: int, what: Callable[[], None]) -> None:
        self.db, self.left, self.what = db, question, what

    def execute(self, text: str) -> sqlite3.Cursor:
        if self.left == 0:
            self.what()
        self.left -= 1
        return self.db.execute(text)


# ---------------------------------------------------------------- what a list shows


def listed(home: Path) -> list[RunHeader | None]:
    with closing(Catalog(home)) as opened:
        return [entry.listed for entry in opened.find()]


def test_what_a_list_shows_is_what_the_bundles_say(three: Path) -> None:
    wanted = [load(path).listed for path in sorted((three / "runs").iterdir())]
    assert listed(three) == wanted
    assert listed(three) == wanted  # the second time without a look at a bundle
    assert [one.rounds for one in wanted] == [1, 1, 1]


def test_rounds_that_come_while_a_run_goes_on_are_counted(tmp_path: Path) -> None:
    writer = Writer.create(make_run(), tmp_path)
    for number in range(3):
        writer.append(make_samples(number))
        (one,) = listed(tmp_path)
        assert one is not None
        assert (one.rounds, one.ended) == (number + 1, "")
    writer.finish(make_run(ended="2026-11-21T10:16:00+00:00"))
    (one,) = listed(tmp_path)
    assert one is not None
    assert one.ended == "2026-11-21T10:16:00+00:00"


def test_a_run_with_samples_that_cannot_be_read_is_listed_without_rounds(three: Path, caplog: pytest.LogCaptureFixture) -> None:
    (three / "runs" / "20261120T101500-bbbbbb" / "samples.jsonl").write_text("x\ny\n")
    assert [one and one.rounds for one in listed(three)] == [1, None, 1]
    (three / "runs" / "20261120T101500-bbbbbb" / "samples.jsonl").unlink()
    assert [one and one.rounds for one in listed(three)] == [1, 0, 1]
    assert caplog.text == ""


BORN = """
import os, signal, sys
from pathlib import Path
from keeping import make_run
from hotlap.core.store import bundle, files

if sys.argv[2] == "staged":
    real = files.write_whole
    files.write_whole = lambda path, data: (real(path, data), os.kill(os.getpid(), signal.SIGKILL))
else:
    bundle.Writer.__init__ = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
bundle.Writer.create(make_run("20261122T101500-dddddd"), Path(sys.argv[1]))
"""


def born(home: Path, where: str) -> None:
    """A process that is killed while it makes a run."""
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}){BORN}"
    assert subprocess.run([sys.executable, "-c", code, str(home), where], capture_output=True, check=False).returncode == -9


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_run_that_died_in_birth_matters_to_nobody(
    three: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    born(three, "staged")
    ghost = three / "runs" / ".20261122T101500-dddddd"
    assert load(ghost).run.id == "20261122T101500-dddddd"  # run.json is there: only its name says that it is none
    (three / "runs" / ".20261122T101500-eeeeee").mkdir()  # killed before there was one
    assert ids(three) == ["aaaaaa", "bbbbbb", "cccccc"]
    assert ids(three, newest=1) == ["cccccc"]
    monkeypatch.setenv("HOTLAP_HOME", str(three))
    for words in (["list"], ["show", "latest"], ["export", "latest"], ["history"], ["baseline", "save", "latest", "--name", "b"], ["run", "--resume", "latest", "--no-report"]):
        main(words)
        said = capsys.readouterr()
        assert "dddddd" not in said.out + said.err, words
        assert "eeeeee" not in said.out + said.err, words
    assert main(["show", "20261122"]) == 2
    assert caplog.text == ""
    assert ghost.is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_run_that_is_in_the_list_has_all_its_files(three: Path) -> None:
    born(three, "named")
    assert ids(three, newest=1) == ["dddddd"]
    read = load(three / "runs" / "20261122T101500-dddddd")
    assert (read.samples, read.notices) == ([], [])
