"""hotlap training converge: logs read, MLPerf's means and convergence check, programs in turns, and what is refused. Programs of which one
sleeps three times as long; how long is never asserted on."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from pathlib import Path

import msgspec
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.training import cli_converge, converge, converge_show, mllog
from hotlap.training.converge_record import ConvergeAsked, Converged, ConvergeKept, ConvergeRun
from hotlap.training.mllog import QualityAsked

# The example of training_rules.adoc (mlcommons/training_policies): five runs are submitted. The second reference has the mean and the
# deviation of the rules' second batch, 20.75 and 0.661.
FIRST, SECOND = [16, 14, 16, 17, 16, 16, 15, 16, 15, 16], [19, 20, 20, 20, 21, 21, 21, 21, 22, 22]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(progress: float, batch: int = 128, seconds: float | None = None, unit: str = "epochs") -> ConvergeRun:
    reached = math.isfinite(progress)
    return ConvergeRun(
        source="made", batch=batch, unit=unit, reached=reached, progress=progress if reached else None,
        seconds=(progress if seconds is None else seconds) if reached else None, why="" if reached else "never",
    )  # fmt: skip


def judged(a: list[ConvergeRun], b: list[ConvergeRun]) -> Converged:
    return converge.judge(ConvergeKept(asked=ConvergeAsked(a="a", b="b"), a=a, b=b))


# ---------------------------------------------------------------- the rules


@pytest.mark.parametrize(
    ("epochs", "mean", "sd", "least", "speedup"), [(FIRST, 15.75, 0.433, 15.21, 3.53), (SECOND, 20.75, 0.661, 19.93, 4.12)]
)
def test_the_example_of_the_rules(epochs: list[float], mean: float, sd: float, least: float, speedup: float) -> None:
    known = converge.reference(128, epochs)
    assert known is not None
    assert (known.mean, round(known.sd, 3), known.kept) == (mean, sd, 8)
    bound = converge.least(known, 5)
    assert round(bound, 2) == least
    assert round((known.mean / bound - 1) * 100, 2) == speedup


def test_the_three_submissions_of_the_example() -> None:
    reference = [run(value, 128) for value in FIRST] + [run(value, 256) for value in SECOND]
    passing = converge.check(converge.side("A", reference), converge.side("B", [run(value, 128) for value in (15, 15, 15, 16, 16)]))
    assert passing.measured == pytest.approx(15.333, abs=1e-3)
    assert (passing.state, passing.interpolated) == ("passes", [])
    assert passing.scale == pytest.approx(15.75 / (46 / 3))
    failing = converge.check(converge.side("A", reference), converge.side("B", [run(value, 256) for value in (19, 19, 19, 20, 20)]))
    assert failing.measured == pytest.approx(19.333, abs=1e-3)
    assert (failing.state, failing.scale) == ("too fast", 1.0)
    between = converge.check(converge.side("A", reference), converge.side("B", [run(18.0, 192) for _ in range(5)]))
    assert between.interpolated == [128, 256]
    assert between.mean == pytest.approx((15.75 + 20.75) / 2)
    assert between.sd == pytest.approx((0.43301 + 0.66144) / 2, abs=1e-4)
    assert between.state == "passes"


def test_a_batch_beyond_the_reference_is_unknown_and_below_it_needs_no_less() -> None:
    reference = converge.side("A", [run(value, 128) for value in FIRST])
    beyond = converge.check(reference, converge.side("B", [run(16.0, 512) for _ in range(5)]))
    assert (beyond.state, "of a batch of 512 or more" in beyond.why) == ("unknown", True)
    below = converge.check(reference, converge.side("B", [run(16.0, 64) for _ in range(5)]))
    assert (below.state, below.scale, "smallest batch is 128" in below.why) == ("passes", 1.0, True)


def test_the_least_mean_is_that_of_a_one_sided_t_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    known = converge.BatchReference(1, 100.0, 3.0, 18)
    low = converge.least(known, 10)
    pooled = math.sqrt((17 * 3.0**2 + 7 * 3.0**2) / 24)
    t = (low - 100.0) / (pooled * math.sqrt(1 / 18 + 1 / 8))
    assert stats.t.cdf(t, 24) == pytest.approx(0.05, abs=1e-9)


def test_an_olympic_mean_drops_the_ends_and_one_that_did_not_converge() -> None:
    assert converge.olympic([5.0, 1.0, 3.0, 4.0]) == 3.5
    assert converge.olympic([5.0, 1.0, 3.0, math.inf]) == 4.0
    assert converge.olympic([5.0, 1.0, math.inf, math.inf]) is None
    assert converge.olympic([1.0, 2.0]) is None


def test_a_median_counts_what_did_not_converge_as_the_largest() -> None:
    estimate = converge.estimate([1.0, 2.0, 3.0, 4.0, 5.0, math.inf])
    assert (estimate.median, estimate.low, estimate.high, estimate.olympic) == (3.5, 1.0, None, 3.5)
    assert converge.estimate([1.0, math.inf, math.inf]).median is None


# ---------------------------------------------------------------- the verdict


def test_a_run_without_its_target_leaves_the_verdict_open() -> None:
    done = judged([run(10.0 + 0.1 * n) for n in range(6)], [*(run(5.0 + 0.1 * n) for n in range(5)), run(math.inf)])
    assert (done.answer, done.reason.startswith("1 of 6 runs of B did not")) == ("inconclusive", True)
    assert done.b.seconds.olympic is not None
    assert converge_show.lost(done) == ["B made: never"]


def test_what_converged_in_too_few_samples_is_not_faster() -> None:
    reference = [run(value) for value in FIRST]
    done = judged(reference, [run(value, seconds=value / 3) for value in (10, 10.1, 10.2, 10.3, 10.4)])
    assert (done.answer, done.check.state) == ("inconclusive", "too fast")
    assert "fewer samples than chance allows" in done.reason
    honest = judged(reference, [run(value, seconds=value / 3) for value in (15, 16, 16, 16, 17)])
    assert (honest.answer, honest.check.state) == ("faster", "passes")


def test_equal_sides_are_the_same_and_unlike_units_are_not_checked() -> None:
    values = [100 + 0.01 * (7 * n % 10) for n in range(10)]  # in no order
    same = [run(value) for value in values]
    assert judged(same, same).answer == "same"
    assert judged(same, [run(value, unit="samples") for value in values]).check.why == "progress is counted in epochs and samples"


# ---------------------------------------------------------------- logs


def line(key: str, time_ms: float, value: object = None, **metadata: object) -> str:
    entry = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(entry)}\n"


def log(values: list[float], *more: str, status: str = "success", benchmark: str = "bert", batch: int = 64, every: int = 100) -> str:
    lines = [line("submission_benchmark", 1000, benchmark), line("global_batch_size", 1000, batch), line("run_start", 1000), *more]
    lines += [line("eval_accuracy", 1000 + 500 * n, value, samples_count=every * n) for n, value in enumerate(values, 1)]
    return "".join([*lines, *([line("run_stop", 1100 + 500 * len(values), status=status)] if status else [])])


def test_a_log_without_a_target_goes_by_its_run_stop() -> None:
    text = "0: rank said\n" + log([0.3, 0.6, 0.72]).replace(":::MLLOG", "0: :::MLLOG")
    done = mllog.parsed(text, "x", QualityAsked())
    assert (done.reached, done.progress, done.seconds, done.unit, done.batch, done.benchmark) == (True, 300.0, 1.6, "samples", 64, "bert")
    aborted = mllog.parsed(log([0.3], status="aborted"), "x", QualityAsked())
    assert (aborted.reached, aborted.why) == (False, "its run_stop says aborted")


def test_a_target_is_reached_at_an_evaluation_or_between_two() -> None:
    text = log([0.3, 0.6, 0.8], status="")
    at = mllog.parsed(text, "x", QualityAsked(target=0.7))
    assert (at.progress, at.seconds) == (300.0, 1.5)
    between = mllog.parsed(text, "x", QualityAsked(target=0.7, interpolate=True))
    assert (between.progress, between.seconds) == pytest.approx((250.0, 1.25))
    loss = mllog.parsed(log([5.0, 4.0, 3.2], status=""), "x", QualityAsked(target=3.3, better="lower"))
    assert (loss.reached, loss.progress) == (True, 300.0)
    never = mllog.parsed(text, "x", QualityAsked(target=0.9))
    assert never.why == "its best is 0.8, the target 0.9; the log is cut"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (log([0.3], status=""), "the log is cut: it has no run_stop"), (log([]), "the log has no evaluation"),
        (line("eval_accuracy", 1, 0.5, epoch_num=1), "the log has no run_start"), (log([0.5, math.nan]), "its quality is nan after 200 samples"),
        (log([0.3], status="") + ':::MLLOG {"key": "run_st', "the log is cut"),
    ],
)  # fmt: skip
def test_a_log_that_does_not_converge_says_why(text: str, why: str) -> None:
    done = mllog.parsed(text, "x", QualityAsked())
    assert not done.reached
    assert why in done.why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (log([0.3]) + ":::MLLOG {\n", "x:6: no line of MLLOG"), (log([0.3]) + ":::MLLOG []\n", "x:6: no line of MLLOG: it has no key"),
        (line("run_start", 1) + line("eval_accuracy", 2, 0.5), "does not say after how much: samples_count, epoch_num, step_num"),
        (line("run_start", 1) + line("eval_accuracy", 2, "high", epoch_num=1), "has no number"),
        (log([0.3], line("eval_accuracy", 1200, 0.2, epoch_num=1)), "counts samples, and earlier epochs"),
        (line("run_start", 9) + line("eval_accuracy", 2, 0.5, epoch_num=1), "is before run_start"),
        (log([0.3], line("eval_accuracy", 1200, 9.0, samples_count=5, metric="FID")), "say by --metric which"),
    ],
)  # fmt: skip
def test_a_log_that_is_wrong_is_one_line_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        mllog.parsed(text, "x", QualityAsked(target=0.9))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_folders_of_logs_are_compared(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, scale in (("a", 1.0), ("b", 0.5)):
        (home / side).mkdir()
        (home / side / "notes.txt").write_text("no log\n")
        for number in range(6):
            text = log([0.3, 0.6, 0.72 + 0.01 * number]).replace("1000", "0")
            lines = [part for part in text.splitlines() if part]
            scaled = []
            for part in lines:
                entry = json.loads(part[len(":::MLLOG ") :])
                entry["time_ms"] *= scale * (1 + 0.01 * number)
                scaled.append(f":::MLLOG {json.dumps(entry)}")
            (home / side / f"result_{number}.txt").write_text("\n".join(scaled) + "\n")
    assert main(["training", "converge", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert "B is faster" in out
    assert "6 of 6" in out
    assert main(["show", "latest"]) == 0
    assert "B is faster" in capsys.readouterr().out
    assert main(["report", "latest", "--out", "page.html"]) == 0
    assert "Time to quality" in (home / "page.html").read_text()
    kept = max((home / "home" / "runs").iterdir())
    assert len(list(kept.glob("log-*.txt"))) == 12


# ---------------------------------------------------------------- programs

PROGRAM = """
    import os, time
    import hotlap
    assert os.environ["HOTLAP_SEED"]
    with hotlap.steps() as t:
        t.mllog("global_batch_size", 8)
        for count in range(1, 9):
            time.sleep({seconds})
            t.step(samples=8)
            if t.quality(count / 10, target=0.5, samples=8 * count):
                break
"""


def program(name: str, text: str) -> str:
    Path(name).write_text(textwrap.dedent(text))
    return name


def test_programs_are_run_in_turns_each_with_its_seed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = program("a.py", PROGRAM.format(seconds=0.05)), program("b.py", PROGRAM.format(seconds=0.4))
    assert main(["training", "converge", a, b, "--runs", "2", "--json"]) in (1, 3)  # two runs a side see little
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    done = msgspec.convert(answer["runs"][0]["converge"], Converged)
    assert [len(side.reached) for side in (done.a, done.b)] == [2, 2]
    assert {run.progress for side in (done.a, done.b) for run in side.runs} == {40.0}
    assert {run.batch for side in (done.a, done.b) for run in side.runs} == {8}
    assert len({run.seed for side in (done.a, done.b) for run in side.runs}) == 4
    assert done.ratio is not None
    assert done.ratio > 1
    assert done.check.why == "B has 2 runs, and 3 are needed to drop the fastest and the slowest"
    bundle = bundles.load(max((home / "home" / "runs").iterdir()))
    assert (bundle.run.kind, [stop.kind for stop in bundle.run.stops]) == ("converge", ["program_ended"])


def test_by_default_there_are_runs_enough_for_an_interval() -> None:
    parser = argparse.ArgumentParser()
    cli_converge.add(parser)
    asked, _ = cli_converge._asked(parser.parse_args(["a.py", "b.py"]))
    assert converge.estimate([float(number) for number in range(asked.runs)]).low is not None
    assert converge.estimate([float(number) for number in range(asked.runs - 1)]).low is None


def test_a_program_may_print_mllog_itself_or_fail(capsys: pytest.CaptureFixture[str]) -> None:
    prints = "import time\n" + "".join(f"print({part!r}, flush=True)\n" for part in log([0.3, 0.9]).splitlines())
    a, b = program("a.py", prints), program("b.py", "import hotlap\nwith hotlap.steps() as t:\n    t.quality(0.1, 0.9)\n    raise ValueError('no')\n")
    assert main(["training", "converge", a, b, "--runs", "2"]) == 2
    out, err = capsys.readouterr()
    assert "2 of 2" in out
    assert "no run of B reached its target: the program failed: ValueError: no" in err


def test_a_program_that_says_nothing_is_told_how(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = program("quiet.py", "print('done')\n")
    assert main(["training", "converge", quiet, quiet, "--runs", "2"]) == 2
    assert "`t.quality(value, target)`" in capsys.readouterr().err


def test_without_converge_quality_only_says_whether_the_target_is_reached(home: Path) -> None:
    with hotlap.steps() as t:
        assert t.quality(0.9, 0.8)
        assert not t.quality(0.7, 0.8)
        assert t.quality(0.7, 0.8, better="lower")
        assert not t.quality(0.7)
        t.mllog("seed", 1)
    assert not list(home.glob("*.txt"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "nowhere"], "'nowhere' is no log and no folder of logs"), (["empty", "empty"], "holds no log"),
        (["a.py", "empty"], "give logs on both sides, or programs on both"), (["gone.py", "gone.py"], "there is no script 'gone.py'"),
        (["a.py", "a.py", "--runs", "1"], "--runs is a whole number from 2"), (["one", "one", "--runs", "3"], "--runs is of programs"),
        (["one", "one", "--target", "high"], "--target is a number"), (["one", "one", "--min-effect", "2"], "without a sign would be 200 %"),
        (["one", "other"], "is a log of bert, and other/l.txt of dlrm"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said_in_a_line(home: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    program("a.py", "pass\n")
    for name, text in (("empty", "no log\n"), ("one", log([0.9])), ("other", log([0.9], benchmark="dlrm"))):
        (home / name).mkdir()
        (home / name / "l.txt").write_text(text)
    assert main(["training", "converge", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1]
    assert not (home / "home" / "runs").exists()
