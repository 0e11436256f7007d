"""A log's lines: synced in time, whole or not there, and put right after a kill."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hotlap.core.errors import SchemaError
from hotlap.core.record import Record
from hotlap.core.store.log import Log


class Number(Record, frozen=True, kw_only=True):
    n: int


def text(*numbers: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % n for n in numbers)


def test_a_log_is_synced_once_a_second_and_when_that_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, synced = [5.0], list[float]()
    log = Log(tmp_path / "log", clock=lambda: now[0])
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(now[0]))
    for now[0], asked in ((5.0, False), (5.5, False), (5.75, True), (6.0, False), (6.5, False), (6.75, False), (7.0, False)):
        log.append(text(1), asked)
    assert synced == [5.0, 5.75, 6.75]


def test_the_system_refuses_a_line_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append(text(1))

    class Full:
        """Takes 3 octets of a write, then none."""

        def __init__(self) -> None:
            self.file, self.writes = log.file, 0

        def __getattr__(self, name: str) -> object:
            return getattr(self.file, name)

        def write(self, data: bytes) -> int:
            self.writes += 1
            if self.writes > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(data[:3])

    real, log.file = log.file, Full()  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        log.append(text(2))
    log.file = real
    assert (tmp_path / "log").read_bytes() == text(1)
    log.append(text(3))
    assert (tmp_path / "log").read_bytes() == text(1, 3)
    assert log.size == len(text(1, 3))


def test_a_short_write_is_gone_on_with(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    file = log.file

    class Slow:
        """Takes two octets at a time."""

        def __getattr__(self, name: str) -> object:
            return getattr(file, name)

        def write(self, data: bytes) -> int:
            return file.write(data[:2])

    log.file = Slow()  # type: ignore[assignment]
    log.append(text(12345))
    assert (tmp_path / "log").read_bytes() == text(12345)


@pytest.mark.parametrize(
    ("data", "numbers", "torn", "after"),
    [
        (b"", [], b"", b""), (text(1, 2), [1, 2], b"", text(1, 2)), (text(1) + b'{"n":', [1], b'{"n":', text(1)),
        (text(1, 2)[:-1], [1, 2], b"", text(1, 2)), (b'{"n', [], b'{"n', b""), (text(1) + b"\0\0\0\n", [1], b"\0\0\0\n", text(1)),
    ],
    ids=["empty", "whole", "torn", "no newline", "nothing but torn", "holes"],
)  # fmt: skip
def test_a_mended_log_ends_in_a_whole_line(tmp_path: Path, data: bytes, numbers: list[int], torn: bytes, after: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    log = Log(path)
    found = log.mend(Number)
    assert ([one.n for one in found.records], found.torn) == (numbers, torn)
    assert path.read_bytes() == after
    log.append(text(9))
    assert path.read_bytes() == after + text(9)


def test_another_line_than_the_last_is_not_cut_off(tmp_path: Path) -> None:
    data = text(1) + b'{"n"\n' + text(2)
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(SchemaError, match="log:2: "):
        Log(tmp_path / "log").mend(Number)
    assert (tmp_path / "log").read_bytes() == data


def test_what_is_set_aside_is_kept_and_the_log_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log")
    log.append(text(1))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log.set_aside(tmp_path / "aside")
    assert len(synced) == 1
    assert log.size == 0
    log.append(text(2))
    log.close()
    log.close()
    assert [(tmp_path / name).read_bytes() for name in ("aside", "log")] == [text(1), text(2)]
