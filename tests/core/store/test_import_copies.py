"""One file that is brought in again under other labels: it is said, and is no further run of a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path


def written(path: Path, times: list[float], more: list[dict[str, object]] | None = None) -> str:
    results = [{"command": "sort", "times": times, "exit_codes": [0] * len(times)}, *(more or [])]
    path.write_text(json.dumps({"results": results}))
    return str(path)


def test_numbers_that_are_there_under_other_labels_are_no_further_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(home / "old.json", [0.200, 0.201, 0.202, 0.203, 0.204, 0.206])
    for number in range(1, 5):
        assert main(["import", old, "--label", "side=a", "--label", f"k={number}"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("the same numbers are there already, under other labels" in said) == (number > 1)
    assert main(["import", written(home / "new.json", [0.230, 0.231, 0.229, 0.232, 0.231, 0.230]), "--label", "side=b"]) == 0
    capsys.readouterr()
    assert main(["compare", "side=a", "side=b", "--json", "--assume-stable"]) in (0, 1, 3)
    answer, said = capsys.readouterr()
    assert [len(side["runs"]) for side in json.loads(answer)["sides"]] == [1, 1]
    assert said.count("has the same imported numbers as") == 3


def test_other_numbers_of_the_same_time_are_another_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "one.json"
    for times in ([0.2] * 6, [0.2] * 5 + [0.21]):
        written(path, times)
        assert main(["import", str(path)]) == 0
        assert "under other labels" not in capsys.readouterr().out


def test_a_result_of_hyperfine_without_times_is_named_by_its_place(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(home / "odd.json", [0.2] * 6, [{"command": "ls", "mean": 0.1}])
    assert main(["import", path]) == 2
    assert "result 2, 'ls', has no times" in capsys.readouterr().err
