"""Columns in memory and in files, and what opening a file says."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import trace_samples as samples

from hotlap.core.errors import InputError
from hotlap.traces import opening
from hotlap.traces.building import Builder
from hotlap.traces.events import COLUMNS, KernelLaunch
from hotlap.traces.timeline import Timeline


@pytest.mark.parametrize("to_files", [False, True])
def test_blocks_become_columns(tmp_path: Path, to_files: bool) -> None:
    into = Builder(folder=tmp_path / "columns" if to_files else None)
    into.add(start=np.array([1, 2]), duration=np.array([3.0, 4.0]), kind=2)
    into.add(start=np.array([5]), duration=7, kind=0, device=np.array([1]))
    found = into.arrays()
    assert found["start"].tolist() == [1, 2, 5]
    assert found["duration"].tolist() == [3, 4, 7]
    assert found["device"].tolist() == [-1, -1, 1]
    assert {name: one.dtype.type for name, one in found.items()} == COLUMNS
    assert into.count == 3
    with pytest.raises(ValueError, match="column duration has 1 values where start has 2"):
        Builder().add(start=np.array([1, 2]), duration=np.array([1]))


def test_no_events_become_empty_columns(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "c"):
        assert {len(one) for one in Builder(folder=folder).arrays().values()} == {0}


def test_tables_keep_the_order_of_first_appearance_and_read_raw_json() -> None:
    into = Builder()
    assert [into.names[one] for one in ("a", "b", "a")] == [0, 1, 0]
    into.stacks[b'"a\\u00e9;b"'], into.stacks["plain"], into.stacks[b'"broken']
    into.launches[b"[2, 3]", b"no json", 1, 2, 0.5], into.launches[(1, 2, 3), b"[]", -1, -1, -1.0]
    tables = into.tables()
    assert tables.names == ["a", "b"]
    assert tables.stacks == ["aé;b", "plain", '"broken']
    assert tables.launches == [KernelLaunch((2, 3, 1), (0, 0, 0), 1, 2, 0.5), KernelLaunch((1, 2, 3), (0, 0, 0), -1, -1, -1.0)]


@pytest.mark.parametrize("reader", samples.FORMATS)
def test_large_files_are_kept_and_the_second_opening_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    monkeypatch.setattr(opening, "LARGE", 1)
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    name, make = samples.FORMATS[reader]
    (tmp_path / name).write_bytes(make())
    plain = Timeline.open(tmp_path / name, cache=False)
    for _ in range(2):
        kept = Timeline.open(tmp_path / name)
        assert kept.head == plain.head
        assert tuple(kept.tables) == tuple(plain.tables)
        assert all((kept.columns[one] == plain.columns[one]).all() for one in COLUMNS)
        assert isinstance(kept.start, np.memmap)
        monkeypatch.setattr(opening.readers, "find", lambda *_: pytest.fail("the file was read a second time"))
    assert not list((tmp_path / "home").glob("traces/*/.making-*"))
    assert not list((tmp_path / "home").glob("traces/.making-*"))


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGE", 1)
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "x.json").write_bytes(b'{"traceEvents": [{"ph": "M"}]}')
    with pytest.raises(InputError, match="no events"):
        Timeline.open(tmp_path / "x.json")
    assert not [one for one in (tmp_path / "home").rglob("*") if one.is_file()]


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"", "is empty"), (b"hello", "no trace that Hotlap knows; it reads"), (b"\xff\xfe{\x00}\x00", "no trace that Hotlap knows"),
        (gzip.compress(b"", mtime=0), "no trace"), (b'{"a": 1}', "no trace"), (b'{"traceEvents": []}', "no events"), (b'{"traceEvents": 5}', "no array"),
        (b"PK\x03\x04", "no trace"), (b"SQLite format 3\0" + b"\1" * 200, "cannot be read as a SQLite database"),
        (b"Kind,Start_Timestamp,End_Timestamp\n", "no events"), (b'"Start_Timestamp","End_Timestamp","Domain\n', "no "),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_said_in_one_line(tmp_path: Path, contents: bytes, says: str) -> None:
    (tmp_path / "x").write_bytes(contents)
    with pytest.raises(InputError, match=says) as caught:
        Timeline.open(tmp_path / "x")
    assert "\n" not in str(caught.value)


def test_folders_and_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        Timeline.open(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        Timeline.open(tmp_path / "x")
    with pytest.raises(InputError, match="columns 'few' are not known"):
        Timeline.open(tmp_path, columns="few")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(opening, "LARGE", 1)
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    name, make = samples.FORMATS["kineto"]
    (tmp_path / name).write_bytes(make())
    return tmp_path / name


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "tables"])
def test_kept_columns_that_are_damaged_are_made_again(trace: Path, damage: str) -> None:
    plain = Timeline.open(trace)
    place = next((trace.parent / "home" / "traces").glob("*/all"))
    broken = place / ("tables.json" if damage == "tables" else "duration.bin")
    contents = broken.read_bytes()
    broken.unlink()
    if damage != "gone":
        broken.write_bytes(contents[:8] if damage == "cut" else b"")
    assert Timeline.open(trace).duration.tolist() == plain.duration.tolist()
    assert broken.read_bytes() == contents


def test_another_process_that_was_faster_is_no_error(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = opening.os.replace

    def late(source: Path, target: Path) -> None:
        if Path(target).name == "all" and not Path(target).exists():
            shutil.copytree(source, target)
        replace(source, target)

    monkeypatch.setattr(opening.os, "replace", late)
    assert len(Timeline.open(trace)) == len(Timeline.open(trace, cache=False))


def test_a_disk_that_is_full_costs_only_the_cache(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opening.tempfile, "mkdtemp", full)
    found = Timeline.open(trace)
    assert len(found) == len(Timeline.open(trace, cache=False))
    assert found.head.notices[-1].seen.endswith("kept on disk: No space left on device")


def test_what_killed_processes_left_is_removed_after_a_while(trace: Path) -> None:
    traces = trace.parent / "home" / "traces"
    for name in ("old", "new"):
        (traces / f".making-{name}").mkdir(parents=True)
    os.utime(traces / ".making-old", (1, 1))
    Timeline.open(trace)
    assert [one.name for one in traces.glob(".making-*")] == [".making-new"]


def test_what_a_reader_refuses_names_the_file_and_a_profile_of_kernels_is_said_to_be_one(tmp_path: Path) -> None:
    for name, contents, says in (
        ("a.json", b'{"traceEvents": 5}', "a.json': there is no array"),
        ("b.txt", b"hello", r"\.ncu-rep.*pmc_perf"),
        ("c.ncu-rep", b"NVR\0" + bytes(8), r"c.ncu-rep' is a profile of kernels .*'hotlap trace .*c.ncu-rep' alone"),
    ):
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(InputError, match=says):
            Timeline.open(tmp_path / name)
