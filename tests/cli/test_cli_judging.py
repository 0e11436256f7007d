"""Comparing, judging and remembering on the command line: what is printed, what exits how."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gate_plan import PLAN, TARGET

import hotlap
from hotlap.cli import main


def measure(plan: Path, label: str, faults: str = "", seed: int = 1) -> None:
    assert main(["run", str(plan), "--target", f"{TARGET}{seed}{faults}", "--no-report", "--label", label]) == 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five healthy runs, one slow one, one of another model, and a baseline of the healthy ones."""
    home = tmp_path_factory.mktemp("judging")
    plan = home / "plan.toml"
    plan.write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLAP_HOME", str(home))
        for seed in range(5):
            measure(plan, "state=well", seed=seed)
        measure(plan, "state=slow", "&efficiency=0.9", seed=9)
        assert main(["run", str(plan), "--target", "simulated:b200?noise=0.003&seed=3", "--no-report", "--label", "state=other"]) == 0
        assert main(["baseline", "save", "state=well", "--name", "well"]) == 0
    return home


@pytest.fixture(autouse=True)
def home(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its own for each test."""
    own = tmp_path / "home"
    shutil.copytree(kept, own)
    monkeypatch.setenv("HOTLAP_HOME", str(own))
    monkeypatch.setenv("COLUMNS", "120")
    return own


@pytest.mark.slow("compares groups of many runs")
def test_a_group_is_held_against_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "state=well", "state=slow"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"-(9\.\d+|10\.\d+) %", out)
    assert "slower" in out
    assert "could explain the changed cases: injected" in out
    assert main(["compare", "state=well", "state=well", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in document["cases"]] == ["same", "same"]
    assert document["differences"] == {"state=well": []}


@pytest.mark.slow("compares groups of many runs")
@pytest.mark.parametrize("sides", [["state=well", "state=slow"], ["state=well", "state=slow", "state=<b>"]])
def test_a_comparison_is_a_page(sides: list[str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(home / "plan.toml", "state=<b>", seed=31)
    assert main(["compare", *sides, "--out", str(home / "c.html")]) == 1
    page = (home / "c.html").read_text()
    assert page.count("95 % interval</th>") == len(sides) - 1
    assert all(said in page for said in (">slower</td>", "rate -10", "what differs", '<path class="span"'))
    assert "<b> against" not in page
    capsys.readouterr()
    assert main(["compare", *sides, "--out", str(home / "none" / "c.html")]) == 2


@pytest.mark.slow("compares groups of many runs")
def test_more_than_two_sides_make_a_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "state=well", "state=slow", "state=well"]) == 1
    out = capsys.readouterr().out
    assert "state=slow" in out
    assert "1.000 =" in out


@pytest.mark.slow("compares groups of many runs")
def test_a_matrix_says_its_sides_intervals_and_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "state=well", "state=slow", "state=other", "--force"]) == 1
    out = capsys.readouterr().out
    assert all(said in out for said in ("state=well   5 runs", "what differs between state=well and state=slow", "state=other, forced: A was measured", "[0.8"))
    assert main(["compare", "state=well", "state=slow", "--json=2"]) == 1
    (case, *_) = json.loads(capsys.readouterr().out)["cases"]
    assert case["a"]["samples"] > case["a"]["rounds"]


@pytest.mark.slow("compares groups of many runs")
@pytest.mark.parametrize("columns", ["80", "100"])
def test_nothing_is_wider_than_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for words in (["compare", "state=well", "state=slow"], ["compare", "state=well", "state=slow", "state=well"], ["gate", "state=slow", "--against", "baseline:well"], ["baseline", "show", "well"]):
        main(words)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= int(columns), words


@pytest.mark.slow("compares groups of many runs")
def test_another_model_is_refused_unless_forced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "state=well", "state=other"]) == 2
    captured = capsys.readouterr()
    assert "state=well (A) and state=other (B) are not comparable: A was measured through simulated:h200-sxm" in captured.err
    assert main(["compare", "state=well", "state=other", "--force"]) == 0
    assert "forced: A was measured through" in capsys.readouterr().out


def test_a_baseline_judges_and_its_threshold_says_where_it_comes_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["gate", "state=slow", "--against", "baseline:well", "--junit", str(tmp_path / "v.xml"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (judged,) = document["runs"]
    assert (judged["state"], judged["against"], document["verdict"]) == ("fail", "baseline well", "fail")
    assert all("5 runs of this device" in case["more"]["provenance"] for case in document["cases"])
    suites = ElementTree.parse(tmp_path / "v.xml").getroot()
    suite = suites.find("testsuite")
    assert suite is not None
    assert (suites.get("failures"), suite.get("failures")) == ("2", "2")
    assert suites.get("tests") == suite.get("tests")
    assert main(["gate", "state=other", "--against", "baseline:well"]) == 3
    assert "does not know it" in capsys.readouterr().out


def test_a_promoted_baseline_needs_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "state=slow"]) == 2
    assert "no baseline is promoted" in capsys.readouterr().err
    assert main(["baseline", "promote", "well"]) == 0
    assert main(["gate", "state=slow"]) == 1
    capsys.readouterr()
    assert main(["baseline", "list"]) == 0
    assert "well (promoted)" in capsys.readouterr().out
    assert main(["baseline", "show"]) == 0
    assert "run-to-run CV" in capsys.readouterr().out


def test_a_broken_baseline_hides_no_other(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "baselines" / "broken.json").write_text("{")
    assert main(["baseline", "list"]) == 0
    captured = capsys.readouterr()
    assert ("well" in captured.out, "broken.json" in captured.err) == (True, True)


@pytest.mark.slow("compares groups of many runs")
def test_a_gate_in_one_command_keeps_to_its_budget(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gate", "--measure", str(home / "plan.toml"), "--budget", "30 s", "--against", "baseline:well", "--target"]
    assert main([*words, "simulated:h200-sxm?times=bound&noise=0.003&run_noise=0.002&seed=77"]) == 0
    assert "PASS" in capsys.readouterr().out
    assert main([*words, "simulated:h200-sxm?noise=0.003&efficiency=0.8&seed=78"]) == 1


@pytest.mark.slow("compares groups of many runs")
def test_a_gate_out_of_budget_is_open_and_measures_only_what_it_judges(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "simulated:h200-sxm?times=bound&noise=0.003&seed=77"
    words = ["gate", "--measure", "quick", "--against", "limit", "--share", "50 %", "--target", target]
    assert main([*words, "--budget", "1 s"]) == 3
    assert "not run, because the budget of 1 s was used up" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--where", "workload=fma", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cases"]) == len(hotlap.load("latest").bundle.run.plan.cases) == 3
    assert main([*words, "--where", "size=3"]) == 2


def test_inconclusive_is_read_as_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "state=slow", "--against", "limit"]) == 3
    for read_as, code in (("pass", 0), ("fail", 1)):
        assert main(["gate", "state=slow", "--against", "limit", "--inconclusive-as", read_as]) == code
        assert f"read as {read_as}" in capsys.readouterr().out


@pytest.mark.slow("compares groups of many runs")
def test_the_slow_device_of_a_simulated_fleet_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "simulated:h200-sxm?times=bound&count=8&spread=0.002&noise=0.003&slow=0.05@3&seed=6"
    assert main(["run", str(home / "plan.toml"), "--target", target, "--device", "all", "--no-report", "--label", "fleet=yes"]) == 0
    assert main(["gate", "fleet=yes", "--against", "fleet"]) == 1
    out = capsys.readouterr().out
    assert "✗ simulated-h200-sxm-3" in out
    assert "✓ simulated-h200-sxm-4" in out
    assert "no outliers" not in out


def test_history_of_one_device(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "history.html"
    assert main(["history", "--where", "workload=gemm", "--out", str(out), "--json"]) == 0
    series = json.loads(capsys.readouterr().out)["series"]
    assert sorted(len(one["points"]) for one in series) == [1, 6]  # a simulation of another machine is another place
    assert [one["boundaries"] for one in series] == [{}, {}]
    assert "<svg" in out.read_text()
    assert main(["history", "--metric", "bandwidth", "--confirmed"]) == 0
    assert "stream copy" in capsys.readouterr().out
    assert main(["history", "--where", "workload=gemm", "--changed", "--min-effect", "900 %", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "2 series: none with a change above 900 %" in printed
    assert f"page    {out}" in printed
    for verb in ("history", "track"):
        assert main([verb, "--min-effect=-1 %"]) == 2
        assert "--min-effect is a share from 0 on, as in '2 %', not -1 %" in capsys.readouterr().err


def test_selftest_of_a_run_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--run", "state=slow"]) == 3
    assert "too few comparisons" in capsys.readouterr().out


def test_a_selftest_says_how_long_it_takes_before_it_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = '[[case]]\nworkload = "stream"\nop = "copy"\nsize = "1 MiB"\n'
    (tmp_path / "one.toml").write_text(f'schema = 1\nname = "one"\n[measure]\nround_time = "0.1 s"\n{case}')
    assert main(["doctor", str(tmp_path / "one.toml"), "--rounds", "8", "--target", "host"]) in (0, 1, 3)
    before, _, after = capsys.readouterr().err.partition("round 1")
    assert "rounds of 1 case" in before
    assert "at least" in before or "about" in before
    assert after


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "state=well"], "two runs"), (["compare", "state=well", "state=slow", "--min-effect", "200 %"], "--min-effect"),
        (["gate", "state=well", "--against", "luck"], "nothing can be compared with 'luck'"), (["gate", "state=well", "--against", "state=slow"], "hotlap baseline save state=slow --name NAME"), (["gate", "state=well", "--share", "80 %"], "--against limit"),
        (["gate", "state=well", "--against", "limit", "--share", "300 %"], "at most 100 %"), (["gate", "latest", "--against", "limit", "--share", "800"], "as in '80 %', not 800"), (["gate", "latest", "--min-effect", "2"], "--min-effect"),
        (["gate", "latest", "--budget", "9 s"], "--measure"),
        (["gate", "latest", "--measure", "quick"], "leave out the run"), (["gate", "latest", "--against", "none.toml"], "there is no file"),
        (["gate", "state=well", "--against", "limit", "--where", "workload=fma"], "has workload=fma"), (["baseline", "save", "state=well"], "under which name"),
        (["gate", "latest", "--against", "well"], "is baseline:well"), (["gate", "latest", "--against", "fleet", "--match", "class"], "--match is about"),
        (["baseline", "save", "state=well", "--name", "well"], "--add"), (["baseline", "save", "state=well", "--to", "none/b.json"], "no folder none"),
        (["baseline", "save", "state=well", "--name", "well", "--add", "--replace"], "give one of them"), (["baseline", "promote"], "takes one name"), (["baseline", "show", "wel"], "did you mean 'well'"),
        (["baseline", "list", "--name", "x"], "for save"), (["baseline", "list", "extra"], "takes no name"),
        (["baseline", "save", "state=well", "--name", "wel", "--add"], "did you mean 'well'"), (["history", "bisect", "--resume", "zzz"], "no search is called"), (["history", "bisect", "--good", "v1"], "--bad and --plan are missing"), (["history", "--where", "op=read"], "has op=read"), (["history", "--out", "/nonexistent/x.html"], "no folder"),
        (["doctor", "--rounds", "4"], "at least 8"), (["doctor", "quick", "--run", "latest"], "leave out the plan"), (["doctor", "--run", "state=well"], "names 5 runs"),
    ],
)
def test_a_usage_error_gets_one_line_and_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert message in captured.err


def test_a_terminal_lists_the_newest_runs_and_says_how_to_see_all(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.cli.listing.NEWEST", 3)
    assert main(["list"]) == 0
    assert "older" not in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for words, lines in ((["list"], 5), (["list", "--all"], 8)):
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert len(printed.splitlines()) == lines
        assert ("… 4 older runs: hotlap list --all" in printed) == (lines == 5)


@pytest.mark.slow("measures a fleet")
def test_explain_of_many_devices_is_one_screen_with_the_slow_ones_in_full(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "simulated:h200-sxm?times=bound&count=40&spread=0.002&noise=0.003&slow=0.05@3&seed=6"
    assert main(["run", str(home / "plan.toml"), "--target", target, "--device", "all", "--no-report", "--label", "fleet=many"]) == 0
    capsys.readouterr()
    assert main(["explain", "fleet=many"]) == 0
    folded = capsys.readouterr().out
    assert len(folded.splitlines()) < 60
    assert re.search(r"simulated-h200-sxm-3: \d[\d.]* % slower than the median device", folded)
    assert "    limit " in folded
    assert "--device simulated-h200-sxm-3 each of them: hotlap explain" in " ".join(folded.split())
    assert main(["explain", "fleet=many", "--where", "device=simulated-h200-sxm-3"]) == 0
    single = capsys.readouterr().out
    assert "    rounds " in single
    assert "slower than the median" not in single
    assert main(["explain", "fleet=many", "--device", "3"]) == 0
    assert capsys.readouterr().out == single
    assert main(["explain", "fleet=many", "--all"]) == 0
    assert capsys.readouterr().out.count("    rounds ") == 40 * single.count("    rounds ")
