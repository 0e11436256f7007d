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


NIGHTS = ["time,host,device,copy (GB/s)"] + [f"2026-06-{day:02}T02:00:00Z,n1,card,{4190 + day}" for day in range(1, 29)]


def _table(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _imported(capsys: pytest.CaptureFixture[str], path: str, *more: str) -> tuple[int, str]:
    code = main(["import", path, *more])
    return code, " ".join(capsys.readouterr().out.split())


def test_a_table_under_another_name_adds_the_rows_that_are_new(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A nightly export has the date in its name, and all nights up to then."""
    assert "20 runs added, 0 there already" in _imported(capsys, _table(home / "mon.csv", NIGHTS[:21]))[1]
    code, said = _imported(capsys, _table(home / "tue.csv", NIGHTS))
    assert (code, "8 runs added, 20 there already" in said, "labels" in said, "brought in before" in said) == (0, True, False, False)
    assert "0 runs added, 28 there already" in _imported(capsys, _table(home / "wed.csv", NIGHTS))[1]
    assert "28 runs added, 0 there already" in _imported(capsys, _table(home / "thu.csv", NIGHTS), "--label", "site=b")[1]


def test_changed_numbers_in_a_file_of_another_name_are_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _imported(capsys, _table(home / "fleet.csv", NIGHTS))
    changed = [NIGHTS[0], NIGHTS[1].replace(",4191", ",4000"), *NIGHTS[2:]]
    code, said = _imported(capsys, _table(home / "fleet2.csv", changed))
    assert code == 0
    assert "1 run added, 27 there already" in said
    assert "were brought in before, with other numbers, and hotlap history counts both: 20260601T020000-" in said
    assert _imported(capsys, _table(home / "fleet.csv", changed))[0] == 2  # of the same name it is the same run


def test_other_cases_of_the_same_nights_are_runs_of_their_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _imported(capsys, _table(home / "memory.csv", NIGHTS))
    links = [line.replace("copy (GB/s)", "link (GB/s)") for line in NIGHTS]
    code, said = _imported(capsys, _table(home / "links.csv", links))
    assert (code, "28 runs added, 0 there already" in said, "brought in before" in said) == (0, True, False)


def test_a_copy_of_a_table_whose_time_is_given_adds_no_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["host,copy (GB/s)", *(f"n{number},{4000 + number}" for number in range(5))]
    _imported(capsys, _table(home / "one.csv", lines), "--time", "2026-11-01")
    assert "0 runs added, 5 there already" in _imported(capsys, _table(home / "two.csv", lines), "--time", "2026-11-01")[1]
    assert "5 runs added, 0 there already" in _imported(capsys, _table(home / "two.csv", lines), "--time", "2026-11-02")[1]
