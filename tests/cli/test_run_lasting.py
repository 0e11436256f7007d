"""`hotlap run --sustain` and `--deadline`, on a simulated GPU whose throttle is known."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hotlap.cli import main
from hotlap.core.analysis.lasting import SustainedRate
from hotlap.core.show import lasting
from hotlap.core.show.document import Document
from hotlap.core.store import bundle

Printed = pytest.CaptureFixture[str]
TARGET = "simulated:h200-sxm?times=bound&noise=0.02&run_noise=0.005&seed=5"
PLAN = """
name = "one"
[[case]]
workload = "stream"
op = "triad"
size = "64 GiB"
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "one.toml").write_text(PLAN)
    return str(tmp_path / "one.toml")


def test_a_throttle_is_seen_as_a_rate_that_falls(plan: str, tmp_path: Path, capsys: Printed) -> None:
    words = ["run", plan, "--target", f"{TARGET}&throttle=0.3@60s", "--sustain", "3 min", "--round-time", "4 s", "--no-report"]
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    sustained = answer["cases"][0]["more"]["sustained"]
    assert sustained["answer"] == "falls"
    assert sustained["low"] <= 0.7 <= sustained["high"]
    assert 55 <= sustained["steady_s"] <= 66
    (path,) = (tmp_path / "home" / "runs").iterdir()
    kept = bundle.load(path)
    assert kept.run.asked is not None
    assert kept.run.asked.sustain_s == 180.0
    assert [stop.kind for stop in kept.run.stops] == ["budget"]
    assert max(one.ended_s for one in kept.samples) >= 170.0
    assert all(one.warmup_samples == 0 for one in kept.samples)
    assert main(["show", path.name]) == 0
    out = capsys.readouterr().out
    assert "it falls, × 0.7" in out or "it falls, × 0.69" in out
    assert "precision asked" not in out
    assert main(["report", path.name, "--out", str(tmp_path / "page.html")]) == 0
    assert "Does the rate last" in (tmp_path / "page.html").read_text()
    assert "it falls, × 0." in (tmp_path / "page.html").read_text()


def test_cases_with_one_answer_are_a_line(tmp_path: Path, capsys: Printed, plan: str) -> None:
    Path(plan).write_text(PLAN.replace('size = "64 GiB"', 'size = ["4 GiB", "8 GiB", "16 GiB", "32 GiB"]'))
    words = ["run", plan, "--target", f"{TARGET}&throttle=0.3@20s", "--sustain", "1 min", "--round-time", "2 s", "--no-report"]
    assert main(words) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "falls" in line]
    assert line.startswith("sustained all 4 cases: it falls, × 0.")


def test_medians_that_say_something_else_than_the_ratio_are_said() -> None:
    near, far = (SustainedRate(first=899.0, last=last, ratio=1.01) for last in (905.0, 854.0))
    assert lasting._medians_apart(near, "higher") == ""
    assert lasting._medians_apart(far, "higher") == ", of all rounds; the medians say × 0.95"
    assert lasting._medians_apart(far, "lower").endswith("× 1.05")


def test_a_deadline_is_of_single_calls(plan: str, tmp_path: Path, capsys: Printed) -> None:
    words = ["run", plan, "--target", TARGET, "--rounds", "6", "--round-time", "1 s", "--no-report"]
    assert main([*words, "--deadline", "1 s"]) == 0
    assert "0 % (0 % to " in capsys.readouterr().out
    assert main([*words, "--deadline", "1 ms", "--json"]) == 0
    deadline = json.loads(capsys.readouterr().out)["cases"][0]["more"]["deadline"]
    assert deadline["missed"] == deadline["calls"] > 0
    assert (deadline["share"], deadline["high"]) == (1.0, 1.0)
    runs = [bundle.load(path) for path in (tmp_path / "home" / "runs").iterdir()]
    assert {one.calls for run in runs for one in run.samples} == {1}


@pytest.mark.parametrize(("words", "why"), [
    (["--sustain", "1 min", "--rounds", "6"], "--sustain says how long the run is, so that --rounds has no say"),
    (["--sustain", "1 min", "--budget", "6 min"], "--budget has no say"),
    (["--sustain", "soon"], "'sustain' is a time up to 31 days"),
    (["--deadline", "-1 s"], "'deadline' is a time up to an hour"),
])  # fmt: skip
def test_what_cannot_be_asked_is_one_line(plan: str, capsys: Printed, words: list[str], why: str) -> None:
    assert main(["run", plan, "--target", TARGET, *words, "--no-report"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err


def test_nothing_is_said_of_a_precision_or_a_number_of_rounds_that_nobody_asked_for(plan: str, tmp_path: Path, capsys: Printed) -> None:
    assert main(["run", plan, "--target", TARGET, "--sustain", "1 min", "--round-time", "4 s"]) == 0
    out, err = capsys.readouterr()
    (path,) = (tmp_path / "home" / "runs").iterdir()
    assert "± 100 %" not in out + (path / "report.html").read_text().partition("Set-up")[0]
    assert "round 1" in err
    assert " of 15" not in err
