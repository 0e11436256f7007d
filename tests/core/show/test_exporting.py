"""Runs leave as files of other tools and come back with name, parameters, unit and value to the last bit."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hotlap.cli import main
from hotlap.core.record import Result
from hotlap.core.store import select

CSV = "time,case,value,unit,host\n2026-11-01,decode,12.345678901234567,ms,n1\n2026-11-01,decode,0.1,ms,n1\n2026-11-01,copy,4.3100000000000005,TB/s,n1\n2026-11-01,hot,71.3,W,n1\n"
Facts = dict[tuple[str, tuple[str, ...]], tuple[str, str, list[float]]]


def facts(home: Path) -> Facts:
    results: list[Result] = [result for run in select.every(home) for result in select.results(run)]
    return {(str(r.case.params["name"]), tuple(map(str, r.case.params.get("parameters", [])))): (r.unit, r.better, r.values) for r in results}  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(CSV)
    assert main(["import", "x.csv"]) == 0
    return tmp_path / "home"


@pytest.mark.parametrize("name", ["google-benchmark", "pytest-benchmark", "conbench", "csv", "parquet"])
def test_what_leaves_comes_back_to_the_last_bit(tmp_path: Path, home: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "parquet":
        pytest.importorskip("pyarrow")
    before = facts(home)
    capsys.readouterr()
    assert main(["export", "latest", "--as", name, "--out", "out.bin"]) == 0
    left_out = capsys.readouterr().err
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", "out.bin"]) == 0
    after = facts(tmp_path / "other")
    times_only = name in ("google-benchmark", "pytest-benchmark")
    assert after == {key: value for key, value in before.items() if not times_only or value[0] == "s"}
    assert ("left out: copy and hot" in left_out) is times_only


def test_processor_time_that_was_not_measured_is_said_to_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The format must have one: a program's own where `bench` counted it, else the time itself, which does not come back as one."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "sleep 0.02", "--runs", "2"]) == 0
    capsys.readouterr()
    assert main(["export", "latest", "--as", "google-benchmark", "--out", "bench.json"]) == 0
    assert "cpu_time" not in capsys.readouterr().err
    rows = json.loads(Path("bench.json").read_text())["benchmarks"]
    metrics = [one.metrics for one in select.results(next(select.every(tmp_path / "home")))[0].used]
    assert [row["cpu_time"] for row in rows] == [one["user_s"] + one["system_s"] for one in metrics]
    Path("h.json").write_text(json.dumps({"results": [{"command": "true", "times": [0.5, 0.6], "exit_codes": [0, 0]}]}))
    assert main(["import", "h.json"]) == 0
    imported = next(run.run.id for run in select.every(tmp_path / "home") if run.run.kind == "imported")
    assert main(["export", imported, "--as", "google-benchmark", "--out", "h2.json"]) == 0
    assert "must have a cpu_time; none was measured, and real_time stands there: true" in capsys.readouterr().err
    context = json.loads(Path("h2.json").read_text())["context"]
    assert not {"num_cpus", "library_build_type"} & context.keys()  # neither is known of a file of hyperfine
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", "h2.json"]) == 0
    assert [one.metrics for run in select.every(tmp_path / "other") for found in select.results(run) for one in found.rounds] == [{}, {}]


@pytest.mark.parametrize("name", ["google-benchmark", "pytest-benchmark", "conbench", "csv"])
def test_rates_of_our_own_runs_keep_their_unit_and_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text('name = "p"\n[[case]]\nworkload = "stream"\nop = "triad"\nsize = "1 GiB"\n')
    assert main(["run", "p.toml", "--target", "simulated:h200-sxm?noise=0.01", "--rounds", "6"]) == 0
    (run,) = select.every(tmp_path / "home")
    (result,) = select.results(run)
    assert main(["export", "latest", "--as", name, "--out", "out"]) == 0
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", "out"]) == 0
    ((key, (unit, better, values)),) = facts(tmp_path / "other").items()
    assert (key[0], unit, better, values) == ("stream", "B/s", "higher", result.values)
    assert {"op=triad", "dtype=fp32", f"size={2**30}"} <= set(key[1])


@pytest.mark.parametrize("name", ["google-benchmark", "pytest-benchmark", "conbench", "csv"])
def test_samples_of_one_process_leave_and_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """40 samples left as one round with a deviation of zero, and nothing said so."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    times = [1.2e-3 + 1e-5 * (n % 7) for n in range(40)]
    item = {"name": "a", "fullname": "a", "stats": {"data": times, "median": 1.0}}
    (tmp_path / "p.json").write_text(json.dumps({"machine_info": {"node": "n1"}, "commit_info": {}, "benchmarks": [item], "datetime": "2026-11-01T10:00:00"}))
    assert main(["import", str(tmp_path / "p.json")]) == 0
    capsys.readouterr()
    out = tmp_path / "out"
    assert main(["export", "latest", "--as", name, "--out", str(out)]) == 0
    assert ("only the median of their samples: a" in capsys.readouterr().err) is (name == "csv")
    if name == "pytest-benchmark":
        stats = json.loads(out.read_text())["benchmarks"][0]["stats"]
        assert (stats["rounds"], stats["min"], stats["max"], stats["stddev"] > 0) == (40, min(times), max(times), True)
        beyond = sum(abs(one - statistics.fmean(times)) > statistics.stdev(times) for one in times)
        assert (stats["outliers"], stats["ld15iqr"], stats["hd15iqr"]) == (f"{beyond};0", min(times), max(times))  # its compare reads them
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "other"))
    assert main(["import", str(out)]) == 0
    (result,) = [result for run in select.every(tmp_path / "other") for result in select.results(run)]
    assert [one.values for one in result.rounds] == ([times] if name != "csv" else [[sorted(times)[19] / 2 + sorted(times)[20] / 2]])


def test_junit_and_files_that_are_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "latest", "--as", "junit", "--out", "out.xml"]) == 0
    assert {case.get("name") for case in ElementTree.parse("out.xml").iter("testcase")} >= {"decode", "copy", "hot"}
    assert main(["export", "latest", "--as", "csv", "--out", "out.xml"]) == 2
    assert "--replace overwrites it" in capsys.readouterr().err
    assert main(["export", "latest", "--as", "csv", "--out", "out.xml", "--replace", "--json"]) == 0
    head = {"schema": 3, "verdict": None, "exit_code": None}
    assert json.loads(capsys.readouterr().out) == {**head, "path": "out.xml", "format": "csv", "left_out": []}
    assert main(["export", "latest", "--as", "xlsx"]) == 2
