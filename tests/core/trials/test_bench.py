"""`hotlap bench`: what runs when, what is counted, what is kept, and what is refused before anything runs."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hotlap
from hotlap.cli import bench as bench_cli
from hotlap.cli import bench_commands, main, parser_of
from hotlap.core import plan as plans
from hotlap.core.analysis import commands as analysis
from hotlap.core.record import Comparison, Machine, Plan, Result, RunRecord, Samples, Stop
from hotlap.core.show import commands as showing
from hotlap.core.show import report
from hotlap.core.store import bundle
from hotlap.core.store.fold import fold
from hotlap.core.trials.bench import BenchLeft
from hotlap.core.work.program import COMMAND

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def marks(path: Path) -> str:
    """What commands wrote, a letter each, in order."""
    return path.read_text().replace("\n", "") if path.exists() else ""


def mark(letter: str) -> str:
    return f"sh -c 'echo {letter} >> log'"


def kept(home: Path) -> list[Path]:
    return sorted((home / "runs").glob("[!.]*")) if (home / "runs").exists() else []


def test_commands_run_in_turns_and_each_process_is_a_round(tmp_path: Path) -> None:
    assert main(["bench", mark("a"), mark("b"), "--runs", "4"]) == 0
    assert marks(tmp_path / "log") == "abbaabba"
    run = hotlap.load("latest")
    assert [(len(one.values), one.rounds[0].method) for one in run.results] == [(4, "program"), (4, "program")]
    assert [one.round for one in run.results[0].rounds] == [0, 1, 2, 3]
    assert all(len(one.values) == 1 and one.metrics["user_s"] >= 0 for one in run.samples)
    assert run.bundle.run.stops == [Stop("rounds_max")]


def test_what_prepares_and_concludes_stands_around_each_run_and_warm_up(tmp_path: Path) -> None:
    words = ["--setup", "echo s >> log", "--prepare", "echo p >> log", "--conclude", "echo c >> log", "--cleanup", "echo e >> log"]
    assert main(["bench", mark("x"), "--runs", "2", "--warmup", "1", *words]) == 0
    assert marks(tmp_path / "log") == "spxcpxcpxce"
    assert [one.warmup_samples for one in hotlap.load("latest").samples] == [1, 0]


def test_each_command_can_have_what_prepares_it(tmp_path: Path) -> None:
    words = ["--prepare", "echo 1 >> log", "--prepare", "echo 2 >> log"]
    assert main(["bench", mark("a"), mark("b"), "--runs", "1", *words]) == 0
    assert marks(tmp_path / "log") == "1a2b"


def test_a_command_given_again_is_a_row_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    assert main(["bench", mark("a"), mark("a"), mark("a"), "--runs", "2", "--json", "--save-plan", "plan.toml"]) == 0
    found = json.loads(capsys.readouterr().out)["cases"]
    assert [one["name"] for one in found] == [mark("a"), f"{mark('a')} #2", f"{mark('a')} #3"]
    assert [len(one["rounds"]) for one in found] == [2, 2, 2]
    assert marks(tmp_path / "log") == "a" * 6
    saved = plans.load(str(tmp_path / "plan.toml")).cases
    assert len({one.id for one in saved}) == 3
    assert saved[0].id == COMMAND.case({"argv": mark("a"), "output": "null"}).id


def test_what_is_given_again_by_a_setup_that_differs_is_named_apart(tmp_path: Path, capsys: Capture) -> None:
    words = ["bench", "sh -c 'cat which >> log'", "-L", "v", "a,b", "--setup", "echo {v} > which", "--runs", "2", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["cases"]
    assert [(one["name"][-2:], one["params"]["v"]) for one in found] == [("g'", "a"), ("#2", "b")]
    assert marks(tmp_path / "log") == "aabb"


def test_show_prints_again_what_bench_printed(capsys: Capture) -> None:
    assert main(["bench", "true", "sh -c :", "--runs", "6", "--warmup", "1"]) == 0
    printed, _, rest = capsys.readouterr().out.partition("\n\n")
    body = rest.partition("\n\nrun     ")[0]
    assert "B " in body
    assert "vs A" in body or "than A" in body or "as long as A" in body
    assert main(["show", "latest"]) == 0
    heading, _, shown = capsys.readouterr().out.partition("\n\n")
    assert shown.strip() == body
    assert "precision" not in heading
    assert printed.split(" · ")[0] in heading


def test_the_page_of_a_run_of_commands_says_how_they_compare(capsys: Capture) -> None:
    assert main(["bench", "sleep 0.2", "true", "--runs", "10"]) == 0
    assert "B is faster than A" in capsys.readouterr().out
    page = report.page([hotlap.load("latest").bundle])
    assert "<b>B is faster than A</b>" in page
    assert "A: sleep 0.2, B: true" in page
    assert "precision asked" not in page.partition("<script")[0].lower()


def test_setups_that_differ_put_the_commands_one_after_another(tmp_path: Path, capsys: Capture) -> None:
    words = ["-L", "v", "a,b", "--setup", "echo {v} > which", "--runs", "2"]
    assert main(["bench", "sh -c 'cat which >> log; : {v}'", *words]) == 0
    assert marks(tmp_path / "log") == "aabb"
    assert "one after another" in capsys.readouterr().out


def test_short_commands_run_more_often_and_are_spread_over_the_turns(tmp_path: Path) -> None:
    assert main(["bench", mark("a"), "sh -c 'sleep 0.3; echo b >> log'", "--min-runs", "2", "--max-runs", "30"]) == 0
    log = marks(tmp_path / "log")
    assert log.count("a") > log.count("b") >= 2
    assert log.endswith(("b", "ba"))  # the slower one runs to the end too


def test_parameters_are_multiplied_and_named(tmp_path: Path, capsys: Capture) -> None:
    words = ["-P", "n", "1", "2", "-D", "0.5", "-L", "k", "x,y", "--runs", "1", "--command-name", "{n} of {k}", "--json"]
    assert main(["bench", "sh -c 'echo {n}{k} >> log'", *words]) == 0
    found = json.loads(capsys.readouterr().out)["cases"]
    assert [one["name"] for one in found] == [f"{n} of {k}" for n in ("1.0", "1.5", "2.0") for k in "xy"]
    assert found[2]["params"] == {"n": "1.5", "k": "x"}
    assert (tmp_path / "log").read_text().split() == ["1.0x", "1.0y", "1.5x", "1.5y", "2.0x", "2.0y"]


def test_a_command_that_fails_at_once_leaves_no_run(home: Path, capsys: Capture) -> None:
    assert main(["bench", "true", "sh -c 'exit 4'", "--runs", "3"]) == 2
    error = capsys.readouterr().err
    assert "'sh -c 'exit 4'': the program ended with status 4" in error
    assert "--ignore-failure" in error
    assert len(error.splitlines()) == 1
    assert not kept(home)


def test_a_command_that_fails_later_keeps_what_there_is(tmp_path: Path, capsys: Capture) -> None:
    assert main(["bench", "sh -c 'test ! -e two || exit 1; test ! -e one || touch two; touch one'", "--runs", "5"]) == 3
    shown = capsys.readouterr()
    assert "status 1" in shown.err
    assert "what was measured until then is kept" in shown.err
    assert len(hotlap.load("latest").results[0].values) == 2


def test_failures_can_be_ignored_and_are_counted(capsys: Capture) -> None:
    assert main(["bench", "sh -c 'exit 4'", "--runs", "3", "--ignore-failure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cases"][0]["more"]["exit_codes"] == [4, 4, 4]
    assert main(["bench", "sh -c 'exit 4'", "--runs", "3", "--ignore-failure"]) == 0
    assert "3 of 3 runs ended with another status than 0" in capsys.readouterr().out


def test_a_command_that_hangs_is_ended(home: Path, capsys: Capture) -> None:
    assert main(["bench", "sleep 60", "--timeout", "200 ms"]) == 2
    assert "ran longer than its limit of 200 ms" in capsys.readouterr().err
    assert not kept(home)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_or_sigterm_ends_the_command_and_keeps_its_runs(number: int, tmp_path: Path, home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", "bench", "sh -c 'echo $$ > pid; test -e slow && sleep 60; touch slow'", "--runs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ), start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not ((tmp_path / "slow").exists() and kept(home)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)  # the second one is asleep by then, or not begun: both must end well
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "everything measured is kept" in err
    assert " 1\n" in out
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_one_that_was_killed_does_not_go_on_as_another_run(home: Path, capsys: Capture) -> None:
    """`run --resume` would measure by rounds of a plan, out of turn."""
    assert main(["bench", "true", "--runs", "3"]) == 0
    (run,) = kept(home)
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({name: value for name, value in record.items() if name not in ("ended", "stops")}))
    capsys.readouterr()
    assert main(["run", "--resume", run.name]) == 2
    assert "begin anew: the same command" in capsys.readouterr().err
    assert main(["show", run.name]) == 0
    out = capsys.readouterr().out
    assert "not finished: begin anew by the same command" in out
    assert "--resume" not in out


def test_in_a_log_it_says_how_long_it_takes(home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.cli.bench.LOG_S", 0.02)
    assert main(["bench", "sleep 0.03", "sleep 0.031", "--runs", "4"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(re.fullmatch(r"4 runs of each, which takes about \S+ \S+", line) for line in lines), lines
    assert any(re.fullmatch(r"[AB]  run \d of 4, the last took \S+ ms; about \S+ \S+ left", line) for line in lines), lines
    left = BenchLeft({0: 242, 1: 58}, 5.9, most=False)  # commands that take different times run as often as fits
    bench_cli._Progress([("A", "sleep 0.01"), ("B", "sleep 0.05")])(1, 1, 0.05, left)
    assert capsys.readouterr().err == "runs: A 242, B 58, which takes about 5.9 s\n"
    bench_cli._Progress([("A", "sleep 0.01")])(0, 1, 0.05, BenchLeft({0: 242}, 5.9, most=False))
    assert capsys.readouterr().err == "242 runs, which takes about 5.9 s\n"


def test_ctrl_c_while_the_run_is_created_keeps_it(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    create = bundle.Writer.create

    def interrupted(*args: Any, **named: Any) -> bundle.Writer:
        writer = create(*args, **named)
        os.kill(os.getpid(), signal.SIGINT)
        return writer

    monkeypatch.setattr(bundle.Writer, "create", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["bench", "true", "--runs", "5"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert [len(result.values) for result in hotlap.load("latest").results] == [1]


def test_until_sure_stops_once_the_answer_is_known(capsys: Capture) -> None:
    assert main(["bench", "true", "sleep 0.2", "--until-sure"]) == 1
    out = capsys.readouterr().out
    assert "B is slower than A" in out
    words = "faster or slower: the whole interval is beyond the threshold of 0.50 % (--min-effect); same: the 90 % interval is within ± 2.0 %, the change that the pairs"
    assert words in " ".join(out.split())
    run = hotlap.load("latest")
    assert run.bundle.run.stops == [Stop("precision")]
    assert [one.warmup_samples for one in run.samples if one.round == 0] == [1, 1]
    assert 10 <= len(run.results[0].values) < 60
    assert main(["bench", "sleep 0.2", "true", "--until-sure"]) == 0


def test_what_is_exported(tmp_path: Path, capsys: Capture) -> None:
    files = ["--export-json", "a.json", "--export-markdown", "a.md", "--export-csv", "a.csv", "--save-plan", "a.toml"]
    words = ["bench", "true", "sh -c :", "--runs", "6", *files]
    assert main(words) == 0
    found = json.loads((tmp_path / "a.json").read_text())["results"]
    as_hyperfine = {"command", "mean", "stddev", "median", "user", "system", "min", "max", "times", "exit_codes"}
    assert as_hyperfine <= set(found[0])
    assert found[0]["min"] == min(found[0]["times"])
    assert found[0]["mean"] == pytest.approx(sum(found[0]["times"]) / 6)
    assert (tmp_path / "a.md").read_text().splitlines()[2].startswith("| `true` | ")
    assert re.search(r"%, .*%\\\]", (tmp_path / "a.md").read_text().splitlines()[3])  # the change has its interval
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == "command,mean,stddev,median,user,system,min,max"
    assert [one.id for one in plans.load(str(tmp_path / "a.toml")).cases] == [one.case.id for one in hotlap.load("latest").results]
    capsys.readouterr()
    assert main(words) == 2
    assert capsys.readouterr().err == "hotlap: 'a.json' exists; --replace overwrites it\n"
    assert main([*words, "--replace"]) == 0


@pytest.mark.parametrize(("words", "message"), [
    ([], "no command is given"), ([""], "an empty command measures nothing"), (["no-such-program x"], "there is no program 'no-such-program'"),
    (["python3", "no.py"], "a command and its arguments stand in quotes"), (["echo 'x"], "no closing quotation"),
    (["true && true"], "'&&' in 'true && true' is for a shell"), (["A=1 true"], "'env A=1 true'"), (["true", "-n", "a", "-n", "b"], "--command-name is given 2 times for 1 commands"),
    (["true", "--runs", "0"], "--runs is a whole number from 1 on, not 0"), (["true", "--runs", "3", "--max-runs", "4"], "leave out --min-runs"),
    (["true", "--min-runs", "5", "--max-runs", "4"], "is above --max-runs"), (["true", "--until-sure"], "two or more"),
    (["true", "false", "--until-sure", "--max-runs", "5"], "at least 10"), (["true", "--resolve", "5 %"], "--resolve is of --until-sure"),
    (["true", "-p", "a", "-p", "b"], "--prepare is given 2 times for 1 commands"), (["true", "-L", "x", "1,2"], "no command has '{x}'"),
    (["echo {x}", "-P", "x", "3", "1"], "--parameter-scan x 3 1 is no range"), (["echo {x}", "-P", "x", "1", "9e9"], "more than 1000"),
    (["true", "--target", "cuda"], "--target is for workloads"), (["true", "--setup", "exit 3"], "setup 'exit 3' ended with status 3"),
    (["true", "--show-output", "--output", "pipe"], "leave out --output"), (["true", "--export-json", "no/such/file"], "there is no folder"),
    (["true", "--timeout", "soon"], "'timeout'"), (["stream", "sze=1MiB"], "stream has no parameter 'sze'; did you mean 'size'?"),
    (["stream", "triad"], "write name=value"), (["stream", "size=1MiB", "--prepare", "true"], "--prepare is for commands"),
    (["stream", "op=sum", "size=1MiB"], "'op' cannot be 'sum'"), (["--", "stream"], "there is no program 'stream'"),
])  # fmt: skip
def test_a_usage_error_is_one_line_and_measures_nothing(words: list[str], message: str, home: Path, capsys: Capture) -> None:
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not kept(home)


def test_a_file_that_is_no_program_says_what_would_run_it(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.py").write_text("")
    assert main(["bench", "./a.py"]) == 2
    assert "'python ./a.py', or chmod +x" in capsys.readouterr().err


def test_a_workload_has_its_axes_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    words = ["bench", "stream", "op=triad,copy", "size=1GiB,2GiB", "--target", "simulated:h200-sxm?noise=0.01", "--runs", "6"]
    assert main([*words, "--save-plan", "s.toml", "--export-markdown", "s.md"]) == 0
    run = hotlap.load("latest")
    assert [(one.case.params["op"], one.case.params["size"]) for one in run.results] == [(op, n << 30) for op in ("triad", "copy") for n in (1, 2)]
    assert [one.id for one in plans.load(str(tmp_path / "s.toml")).cases] == [one.case.id for one in run.results]
    assert "| stream triad fp32 1 GiB |" in (tmp_path / "s.md").read_text()
    assert "next    hotlap explain" in capsys.readouterr().out


def test_a_dry_run_of_a_workload_writes_its_plan_and_measures_nothing(tmp_path: Path, capsys: Capture) -> None:
    words = ["bench", "stream", "op=copy", "size=2GiB", "--dry-run"]
    assert main(words) == 2
    assert "give --save-plan FILE with it" in capsys.readouterr().err
    assert main(["bench", "true", "--dry-run"]) == 2
    assert "--dry-run is for workloads" in capsys.readouterr().err
    target = "simulated:h200-sxm?count=2&nodes=2"
    assert main([*words, "--save-plan", "large.toml", "--target", target, "--device", "all"]) == 0
    assert f"next    hotlap run large.toml --target '{target}' --device all\n" in capsys.readouterr().out
    assert [case.params["size"] for case in plans.load(str(tmp_path / "large.toml")).cases] == [2 << 30]
    assert not kept(Path(os.environ["HOTLAP_HOME"]))


def test_what_was_measured_is_a_run_like_any_other(capsys: Capture) -> None:
    for _ in range(2):
        assert main(["bench", "true", "--runs", "8", "--label", "x=1"]) == 0
    ids = [one.name for one in kept(Path(os.environ["HOTLAP_HOME"]))]
    for words in (["show", "latest"], ["explain", "latest"], ["list", "x=1"], ["history", "x=1"]):
        assert main(words) == 0
    assert main(["compare", *ids, "--assume-stable"]) in (0, 1, 3)
    assert "command true" in capsys.readouterr().out


# ---------------------------------------------------------------- what is said of numbers that are known


def result(text: str, values: list[float]) -> Result:
    case = COMMAND.case({"argv": text.split(), "output": "null"})
    return fold(case, [
        Samples(case=case.id, device="d", round=place, values=[value], method="program", metrics={"user_s": value / 2, "system_s": 0.0})
        for place, value in enumerate(values)
    ], "host")  # fmt: skip


def compared(a: list[float], b: list[float]) -> Comparison:
    return analysis.compared([result("a", a), result("b", b)], None, Stop("rounds_max"))[0]


JITTER = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0, 1.0]


def test_pairs_of_a_fixed_number_are_looked_at_once() -> None:
    slower = compared(JITTER, [1.1 * value for value in reversed(JITTER)])
    assert slower.answer == "slower"
    change, low, high = slower.change
    assert change == pytest.approx(0.1, abs=0.01)
    assert low is not None
    assert high is not None
    assert 0.07 < low < 0.1 < high < 0.13
    assert compared([1.1 * value for value in JITTER], JITTER).answer == "faster"
    assert compared(JITTER, list(reversed(JITTER))).answer == "same"
    few = compared(JITTER[:5], JITTER[:5])
    assert (few.answer, few.reason) == ("inconclusive", "6 pairs are needed, there are 5")
    loud = compared([1.0, 2.0, 1.5, 1.2, 1.8, 1.1], [1.9, 1.2, 1.6, 1.1, 1.7, 1.3])
    assert loud.answer == "inconclusive"
    assert loud.change[2] == pytest.approx(0.52, abs=0.005)
    assert loud.reason == "a change of up to 52 % may be there; no answer from 6 pairs"
    assert " (the medians " in printed([1.0, 1.0, 1.2, 1.2, 1.01, 1.2, 1.0], [1.1, 1.1, 1.1, 1.1, 0.8, 0.8, 1.12])


def printed(a: list[float], b: list[float]) -> str:
    rows = [row for name, values in (("A", a), ("B", b)) if (row := analysis.row(name, name, result(name, values)))]
    plan = Plan(name="bench", cases=[])
    run = RunRecord(id="r", began="", hotlap="", plan=plan, machine=Machine(host="h"), target="host", devices=[])
    return " ".join(showing.body(analysis.MeasuredCommands(run, rows, [compared(a, b)])).split())


def test_medians_beside_the_change_are_those_of_the_table_where_runs_are_more_than_pairs() -> None:
    """A ran 15 times and B 7: the change is that of 7 pairs, the medians are of all runs, as the table has them."""
    a, b = [1.0, 1.0, 1.2, 1.2, 1.01, 1.2, 1.0], [1.1, 1.1, 1.1, 1.1, 0.8, 0.8, 1.12]
    text = printed([*a, *[2.0] * 8], b)
    assert f"(the medians {(1.1 / 2.0 - 1) * 100:+.1f} %)" in text
    assert "+8.9 %" not in text
    assert "the change is estimated from the 7 pairs of runs in the same turn" in text
    assert "pairs of runs in the same turn" not in printed(a, b)


def measured(a: list[float], b: list[float]) -> analysis.MeasuredCommands:
    rows = [row for name, values in (("A", a), ("B", b)) if (row := analysis.row(name, name, result(name, values)))]
    run = RunRecord(id="r", began="", hotlap="", plan=Plan(name="bench", cases=[]), machine=Machine(host="h"), target="host", devices=[])
    return analysis.MeasuredCommands(run, rows, [compared(a, b)])


def test_the_runs_that_are_advised_are_at_least_those_that_were_made_and_grow_with_the_noise() -> None:
    numbers = random.Random(4)
    def noisy(share: float, count: int) -> list[float]:
        return [numbers.lognormvariate(0.0, share) for _ in range(count)]
    few, many = measured(noisy(0.2, 100), noisy(0.2, 100)), measured(noisy(0.6, 300), noisy(0.6, 300))
    assert few.comparisons[0].answer == many.comparisons[0].answer == "inconclusive"
    wanted = [analysis.runs_wanted(one) for one in (few, many)]
    assert wanted[0] is not None
    assert wanted[1] is not None
    assert 100 < wanted[0] < wanted[1]
    args = argparse.Namespace(until_sure=False)
    assert bench_cli._next(few, args).startswith(f"--until-sure --max-runs {wanted[0]} measures anew until the answer is sure; {wanted[0]} runs of each (")
    assert bench_cli._next(measured([1.0, 1e3] * 6, [1e3, 1.0] * 6), args).startswith("no number of runs answers")


def test_until_sure_has_the_room_of_a_budget_and_60_runs_without_one() -> None:
    def most(*more: str) -> int:
        args = parser_of("bench").parse_args(["true", "false", "--until-sure", *more])
        sure = bench_commands.options(args).until_sure
        assert sure is not None
        return sure.most
    assert (most(), most("--budget", "40 s"), most("--budget", "40 s", "--max-runs", "70")) == (60, 100_000, 70)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_what_decides_is_never_cut(width: int) -> None:
    found = measured([1.0, 1.0, 1.2, 1.2, 1.01, 1.2, 1.0, *[2.0] * 8], [1.1, 1.1, 1.1, 1.1, 0.8, 0.8, 1.12])
    text = showing.body(found, width)
    assert "…" not in text.partition("median ± 95 %")[2]
    assert " ".join(text.split()).endswith("same: the 90 % interval is within ± 2.0 %.")


def test_the_first_run_that_is_slow_is_said_unless_there_was_a_warm_up() -> None:
    values = [3.0, *JITTER]
    row = analysis.row("A", "a", result("a", values))
    assert row is not None
    assert [notice.code for notice in row.notices] == ["slow_first_run"]
    warm = analysis.row("A", "a", result("a", values), warmup=1)
    assert warm is not None
    assert [notice.code for notice in warm.notices] == ["outliers"]


def test_the_table_has_the_statistics_of_other_tools() -> None:
    a, b = result("a", JITTER), result("b", [1.1 * value for value in JITTER])
    rows = [row for row in (analysis.row("A", "a", a), analysis.row("B", "b", b)) if row]
    run = RunRecord(
        id="20260101T000000-aaaaaa", began="", hotlap="0", plan=Plan(name="bench"), machine=Machine(host="h"), target="host",
        devices=["d"], ended="x", stops=[Stop("rounds_max")],
    )
    found = analysis.MeasuredCommands(run, rows, analysis.compared([a, b], None, Stop("rounds_max")), 1.5)
    lines = showing.text(found, 110).splitlines()
    assert lines[0] == "20260101T000000-aaaaaa · 2 commands · in turns · all rounds done"
    assert " ".join(lines[3].split()) == "A a 1.00 s ± 1.0 % 1.00 ± 0.012 s 0.980 … 1.02 s 500 ms 0 s 10"
    assert "B is slower than A: time +10.0 %" in "\n".join(lines)
    assert "notice  other programs used 1.5 processors meanwhile: times are upper limits" in lines
