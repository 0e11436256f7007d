"""hotlap gate --against fleet in a home of other runs: only those of the same product are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotlap.cli import main, read_progress
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths, select


def imported(home: Path, name: str, model: str, nodes: int, days: int = 1) -> None:
    rows = [
        f"2026-10-{day:02},{name}{node},{model},triad,{4000 + 7 * node + day},GB/s"
        for day in range(1, days + 1) for node in range(nodes) for _ in range(2)
    ]  # fmt: skip
    (home / f"{name}.csv").write_text("time,node,sku,case,value,unit\n" + "\n".join(rows) + "\n")
    assert main(["import", str(home / f"{name}.csv")]) == 0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    imported(tmp_path, "a", "H200", 3, days=4)
    imported(tmp_path, "n", "H200", 8)
    imported(tmp_path, "b", "B200", 10)
    return tmp_path


def test_runs_of_other_products_are_not_opened_and_each_other_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    load = bundles.load

    def counted(path: Path, readings: bool = True) -> bundles.Bundle:
        opened.append(path.name)
        return load(path, readings)

    monkeypatch.setattr(bundles, "load", counted)
    capsys.readouterr()
    main(["gate", "host=a1", "--against", "fleet", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert len(document["cases"]) == 4
    assert all("10 other devices" in json.dumps(one) for one in document["cases"])
    hosts = {entry.path.name: entry.listed.host for entry in select.entries([], paths.home()) if entry.listed}
    assert len(opened) == len(set(opened)) == 3 * 4 + 8
    assert {hosts[name][0] for name in opened} == {"a", "n"}


def test_several_runs_of_a_host_are_named_by_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    main(["gate", "host=a0", "host=a1", "host=a2", "--against", "fleet"])
    printed = capsys.readouterr().out
    table = printed[printed.index("  device") :]
    runs = [(entry.listed.host, entry.id) for entry in select.entries(["host=a0", "host=a1", "host=a2"], paths.home()) if entry.listed]
    assert sum(f" {host} {run} " in table for host, run in runs) == 8
    assert "imported:0" not in table


def test_a_gate_that_takes_long_says_how_far_it_is_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with read_progress.ReadProgress() as progress:
        progress.count(1, 9)
        assert capsys.readouterr().err == ""
        progress.said_s -= read_progress.QUIET_S
        progress.count(2, 9)
    assert capsys.readouterr().err == "\r\x1b[K2 of 9 runs read\r\x1b[K"


def test_a_gate_that_takes_long_says_how_far_it_is_in_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    with read_progress.ReadProgress() as progress:
        progress.count(1, 9)
        progress.said_s -= read_progress.LOG_S
        progress.count(2, 9)
        progress.count(3, 9)
    assert capsys.readouterr().err == "hotlap: 2 of 9 runs read\n"
