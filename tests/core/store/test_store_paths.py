"""Where things are kept, by environment and platform."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotlap.core.errors import MachineError
from hotlap.core.store import paths


def test_hotlap_home_is_used_and_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "a" / "b"))
    assert paths.home() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    assert paths.runs(paths.home()) == tmp_path / "a" / "b" / "runs"


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", "~/.local/share/hotlap"),
        ({"HOTLAP_HOME": ""}, "linux", "~/.local/share/hotlap"),
        ({"XDG_DATA_HOME": "/data"}, "linux", "/data/hotlap"),
        ({"XDG_DATA_HOME": "data"}, "linux", "~/.local/share/hotlap"),
        ({"XDG_DATA_HOME": "/data", "HOTLAP_HOME": "~/runs"}, "linux", "~/runs"),
        ({}, "darwin", "~/Library/Application Support/hotlap"),
        ({"LOCALAPPDATA": "/local"}, "win32", "/local/hotlap"),
        ({}, "win32", "~/AppData/Local/hotlap"),
    ],
)
def test_place_by_platform(environment: dict[str, str], platform: str, expected: str) -> None:
    assert paths.place(environment, platform) == Path(expected).expanduser()


def test_a_relative_home_does_not_move_with_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.place({"HOTLAP_HOME": "here"}, "linux") == tmp_path / "here"


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_file_in_the_way_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOTLAP_HOME", os.path.join(tmp_path, "file", inside))
    with pytest.raises(MachineError, match=r"cannot be made: .*; set HOTLAP_HOME"):
        paths.home()


def test_an_unknown_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", "~no-such-user-here/runs")
    with pytest.raises(MachineError, match="set HOTLAP_HOME"):
        paths.home()
