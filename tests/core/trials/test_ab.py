"""Two sides measured in turns: what is kept, when it stops, and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as replace_record

from draws import FULL, draws
from hotlap.cli import main
from hotlap.core.analysis import compare, turns
from hotlap.core.errors import Busy, HotlapError, InputError
from hotlap.core.record import Comparison, Device, Plan, Samples, Stop
from hotlap.core.show.comparison import in_turns
from hotlap.core.stats.sequential import FEWEST, PILOT
from hotlap.core.store import bundle as bundles
from hotlap.core.store import locks
from hotlap.core.trials import ab, arms
from hotlap.core.units import percent
from hotlap.core.work import find


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


def noisy(level: float, sd: float, seed: int) -> arms.Arm:
    """A side whose numbers are known: lower is better."""
    case = find("command")
    from hotlap.core.record import Case

    made = Case(workload="command", params=case.parse({"argv": ["x"], "read": "pattern", "expression": "x", "unit": "s"}))
    rng, device = np.random.default_rng(seed), Device(target="host", index=0, name="x", kind="cpu")

    def once(number: int) -> list[Samples]:
        return [Samples(case=made.id, device=device.key, round=number, values=[level * float(np.exp(rng.normal(0, sd)))], method="program")]

    return arms.Arm("x", Plan(name="ab", cases=[made]), device, "host", once)


def answer(a: arms.Arm, b: arms.Arm, home: Path, **options: float) -> tuple[str, ab.AbOutcome]:
    chosen = ab.AbOptions(**options)  # type: ignore[arg-type]
    done = ab.ab(a, b, chosen, home)
    return comparison(done).answer, done


def comparison(done: ab.AbOutcome) -> Comparison:
    return turns.comparison(done.pairs[0].a, done.pairs[0].b, done.turns, done.stop)


def test_a_real_difference_is_found_and_sameness_is_proved(home: Path) -> None:
    for level, said in ((1.05, "slower"), (0.95, "faster"), (1.0, "same")):
        found, done = answer(noisy(1.0, 0.01, 1), noisy(level, 0.01, 2), home)
        assert (found, done.stop) == (said, Stop("precision"))


def test_the_device_of_a_plan_is_held_and_that_of_programs_is_nobody_s(home: Path) -> None:
    device = Device(target="opencl", index=0, name="n", kind="gpu", uuid="GPU-1")
    plan, programs = replace(noisy(1.0, 0.01, 1), device=device, target="opencl"), replace(noisy(1.0, 0.01, 1), device=device)
    with locks.hold([device]):
        with pytest.raises(Busy, match="GPU-1"):
            ab.ab(plan, plan, ab.AbOptions(), home)
        assert answer(programs, programs, home)[0] == "same"
    assert answer(plan, plan, home)[0] == "same"


def test_every_number_is_kept_as_two_runs(home: Path) -> None:
    _, done = answer(noisy(1.0, 0.01, 1), noisy(1.2, 0.01, 2), home)
    a, b = (bundles.load(path) for path in done.runs)
    assert (a.run.labels, b.run.labels) == ({"side": "A"}, {"side": "B"})
    assert len(a.samples) == len(b.samples) >= PILOT
    assert not a.notices


@pytest.mark.slow("measures in turns")
def test_the_budget_and_the_most_pairs_end_it_without_an_answer(home: Path) -> None:
    found, done = answer(noisy(1.0, 0.2, 1), noisy(1.01, 0.2, 2), home, most=12)
    assert (found, done.stop) == ("inconclusive", Stop("rounds_max"))
    found, done = answer(noisy(1.0, 0.2, 1), noisy(1.01, 0.2, 2), home, budget_s=0.0)
    assert (found, done.stop) == ("inconclusive", Stop("budget"))


@pytest.mark.slow("error rate by simulation")
def test_false_alarms_are_rare_though_it_looks_often(home: Path) -> None:
    answers = [answer(noisy(1.0, 0.01, 2 * n), noisy(1.0, 0.01, 2 * n + 1), home)[0] for n in range(draws(60))]
    assert answers.count("faster") + answers.count("slower") <= (8 if FULL else 2)  # 3 are expected of 60, 0.3 of 6


@pytest.mark.slow("measures in turns")
def test_commands_and_their_numbers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = home / "count"
    script = home / "number.sh"  # 100.0, 100.1, 100.2 … in turn, times the argument
    script.write_text(f'n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; echo "{{\\"rate\\": $((1000 + n % 3))e-1, \\"x\\": $1}}"\n')
    words = ["ab", f"sh {script} 1", f"sh {script} 2", "--metric", "/rate", "--better", "higher", "--unit", "GB/s", "--resolve", "5 %"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cases"][0]["state"] == "same"
    assert document["cases"][0]["a"]["rounds"] >= PILOT
    assert (document["stop"]["kind"], document["exit_code"]) == ("precision", 0)
    assert main(["ab", "sleep 0.005", "sleep 0.05", "--resolve", "20 %"]) == 1
    assert "B is slower" in capsys.readouterr().out


@pytest.mark.slow("a process of its own")
@pytest.mark.parametrize("number", ["INT", "TERM"])
def test_ctrl_c_or_sigterm_has_its_exit_code_in_json(number: str, home: Path) -> None:
    """B ends the command itself, in its third execution."""
    b = f"sh -c 'echo x >> {home}/n; test $(wc -l < {home}/n) -lt 3 || kill -{number} $(cat {home}/pid); sleep 0.1'"
    words = [sys.executable, "-m", "hotlap", "ab", "sleep 0.01", b, "--json"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOTLAP_HOME": str(home)},
    )
    (home / "pid").write_text(str(process.pid))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    answer = json.loads(out)
    assert (answer["exit_code"], answer["verdict"], answer["stop"]["kind"]) == (130, "inconclusive", "interrupted")
    assert len(answer["runs"]) == 2


@pytest.mark.slow("measures in turns")
def test_plans_are_measured_round_by_round(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = home / "p.toml"
    plan.write_text('schema = 1\n[measure]\nround_time = "1 s"\n[[case]]\nworkload = "gemm"\nm = 4096\n')
    assert main(["ab", str(plan), str(plan), "--target", "simulated:h200-sxm?noise=0.002&seed=1", "--resolve", "3 %", "--pairs", "12"]) == 0
    assert "same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["", "true"], "empty command"), (["echo 'x", "true"], "no command line"), (["true", "true", "--better", "lower"], "of --metric"),
        (["true", "true", "--metric", "/x"], "which way"), (["true", "true", "--resolve", "0"], "--resolve"), (["true", "true", "--resolve", "5 %", "--min-effect", "9 %"], "--min-effect"),
        (["true", "true", "--pairs", "3"], "at least 10"), (["true", "true", "--target", "opencl"], "for plans"), (["quick", "quick", "--timeout", "1 s"], "says itself"),
    ],
)
def test_a_usage_error_gets_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_command_that_fails_is_named(home: Path) -> None:
    with pytest.raises(HotlapError, match=r"side A \('false'\): the program ended with status 1"):
        ab.ab(arms.command("false", {}), arms.command("true", {}), ab.AbOptions(), home)


@pytest.mark.slow("measures in turns")
def test_a_failure_on_the_way_keeps_the_interim_answer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count, script = home / "count", home / "number.sh"
    script.write_text(
        f'n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}\n'
        f'[ $n -lt 30 ] || {{ echo "out of memory" >&2; exit 9; }}\necho "rate $((1 + n % 3))"\n'
    )
    words = ["ab", f"sh {script} a", f"sh {script} b", "--metric", "rate (.*)", "--better", "higher"]
    assert main(words) == 3
    captured = capsys.readouterr()
    assert "inconclusive" in captured.out
    assert "it ended with a failure" in " ".join(captured.out.split())
    assert "ended with status 9: out of memory; what was measured until then is saved: hotlap compare" in captured.err
    assert f"side A ('sh {script} a')" in captured.err
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert "error: side A" in listed
    assert "all rounds done" not in listed


@pytest.mark.parametrize(("metric", "message"), [("/tpx", "did you mean 'tps'? valid: tps, zero"), ("tpx (.*)", "which ends: {")])
def test_a_metric_that_is_not_there_is_a_usage_error(metric: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = """echo '{"tps": 1, "zero": 0}'"""
    assert main(["ab", program, program, "--metric", metric, "--better", "higher"]) == 2
    assert message in capsys.readouterr().err
    assert not (home / "home" / "runs").exists()


def test_zero_has_no_ratio(home: Path) -> None:
    chosen = ab.AbOptions()
    done = ab.ab(noisy(0.0, 0.01, 1), noisy(0.0, 0.01, 2), chosen, home)
    assert comparison(done).reason == "20 of 20 values are zero or negative: there is no ratio of them"


@pytest.mark.slow("error rate by simulation")
def test_no_answer_says_how_small_a_change_it_could_not_see_and_what_helps(home: Path) -> None:
    def reason(a: arms.Arm, b: arms.Arm, **options: float) -> str:
        chosen = ab.AbOptions(**options)  # type: ignore[arg-type]
        done = ab.ab(a, b, chosen, home)
        return comparison(done).reason

    cut = reason(noisy(1.0, 0.05, 1), noisy(1.0, 0.05, 2), most=16)
    assert cut.startswith("a change of up to ")
    assert "; the limit of 16 pairs (--pairs) allowed no more: a larger one, " in cut
    told = [reason(noisy(1.0, 0.02, 2 * n), noisy(1.01, 0.02, 2 * n + 1)) for n in range(12)]
    spent = [one for one in told if "no answer" in one]
    assert spent
    assert all("--resolve, as in '" in one for one in spent)


def test_the_slower_side_is_named_and_the_pairs_agree(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, done = answer(noisy(1.0, 0.01, 1), noisy(1.3, 0.01, 2), home)
    one = comparison(done)
    said = in_turns([one], ("left", "right"), 0.02)
    assert found == "slower"
    assert "B is slower" in said
    words = " ".join(said.split())
    assert f"the whole interval is beyond the threshold of 0.50 %; decided after {done.pairs[0].decision.pairs} pairs" in words  # type: ignore[union-attr]
    assert "faster or slower: the whole interval is beyond the threshold of 0.50 % (--min-effect); same: the 90 % interval is within ± 2.0 %, the change that the" in words
    assert said.count("left") == 1


def test_sides_of_different_size_are_refused(home: Path) -> None:
    one, two = noisy(1.0, 0.01, 1), noisy(1.0, 0.01, 2)
    both = arms.Arm(two.text, Plan(name="ab", cases=two.plan.cases * 2), two.device, two.target, two.once)
    with pytest.raises(InputError, match="case by case"):
        ab.ab(one, both, ab.AbOptions(), home)


# ---------------------------------------------------------------- the rule of the threshold, the budget, and what is read later


def test_slower_needs_the_whole_interval_beyond_the_threshold(home: Path) -> None:
    """A true 3 % and a threshold of 2 %: the ratio lies beyond it long before its interval does."""
    for seed in range(6):
        done = ab.ab(noisy(1.0, 0.02, 2 * seed), noisy(1.03, 0.02, 2 * seed + 1), ab.AbOptions(difference=0.04, min_effect=0.02), home)
        one = comparison(done)
        assert one.low is not None
        assert one.high is not None
        assert (one.answer == "slower") == (one.high <= 1 / 1.02)
        if one.answer == "inconclusive" and one.high < 1:
            assert one.reason.startswith("differs, by at least ")
            assert "; the threshold is 2.0 %" in one.reason


def test_the_plan_has_the_power_to_clear_the_threshold(home: Path) -> None:
    answers = [answer(noisy(1.0, 0.01, 2 * n), noisy(1.02, 0.01, 2 * n + 1), home, difference=0.02, min_effect=0.005)[0] for n in range(40)]
    assert answers.count("slower") >= 26  # 80 % planned; 26 of 40 or more happen in 99 %
    assert answers.count("faster") == 0


class Clock:
    """Of a scripted side: each turn takes so long."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at


@pytest.mark.parametrize(("turn_s", "pairs", "answers"), [(1.0, 14, "slower"), (2.0, 7, "slower"), (5.0, 3, "inconclusive")])
def test_the_budget_holds_the_plan(turn_s: float, pairs: int, answers: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 30 s of turns: a plan for the pairs that fit, a single test where the pilot does not, and no answer from fewer than 6 pairs."""
    clock = Clock()
    monkeypatch.setattr(ab, "SystemClock", lambda: clock)

    def timed(arm: arms.Arm) -> arms.Arm:
        def once(number: int) -> list[Samples]:
            clock.at += turn_s
            return arm.once(number)

        return arms.Arm(arm.text, arm.plan, arm.device, arm.target, once)

    options = ab.AbOptions(difference=0.1, min_effect=0.05, budget_s=30.0)
    done = ab.ab(timed(noisy(1.0, 0.06, 1)), timed(noisy(1.2, 0.06, 2)), options, home)
    one = comparison(done)
    assert clock.at <= 30.0
    assert one.n_a <= pairs
    assert one.answer == answers
    if one.n_a < FEWEST:
        assert one.reason.startswith(f"{FEWEST} pairs are needed, there are {one.n_a}")


def test_a_turn_without_a_value_costs_its_pair_and_no_answer(home: Path) -> None:
    """Ten pairs are wanted before a look; three of them give none, so that thirteen are measured."""
    steady = noisy(1.0, 0.001, 1)

    def once(number: int) -> list[Samples]:
        (samples,) = noisy(1.5, 0.001, number).once(number)
        return [replace_record(samples, values=[], status="not_run", reason="disturbed") if number in (0, 4, 9) else samples]

    done = ab.ab(steady, arms.Arm("y", steady.plan, steady.device, "host", once), ab.AbOptions(difference=0.1), home)
    assert comparison(done).answer == "slower"
    assert (comparison(done).n_a, len(bundles.load(done.runs[0]).samples)) == (PILOT, PILOT + 3)


def test_compare_says_what_ab_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that `ab` prints answers, though the two command lines differ."""
    script = home / "number.sh"
    script.write_text(f'n=$(cat {home}/n 2>/dev/null || echo 0); echo $((n + 1)) > {home}/n; echo "rate $(($1 * 100 + n % 3))"\n')
    assert main(["ab", f"sh {script} 10", f"sh {script} 13", "--metric", "rate (.*)", "--better", "higher", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["compare", *first["runs"], "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["cases"] == first["cases"]
    assert again["cases"][0]["state"] == "faster"
    assert main(["compare", *reversed(first["runs"])]) == 1  # A against B is slower
    assert "one after the other" not in capsys.readouterr().out
    assert main(["compare", *first["runs"], "--min-effect", "50 %"]) == 3


def test_a_row_of_ab_has_both_medians_and_the_change_of_pairs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drift that moves the medians of the sides apart does not move the change."""
    case = noisy(1.0, 0.0, 1).plan.cases[0]
    device = Device(target="host", index=0, name="x", kind="cpu")

    def arm(factor: float, seed: int) -> arms.Arm:
        rng = np.random.default_rng(seed)

        def once(number: int) -> list[Samples]:
            level = 0.26 * (1.3 if number > 6 else 1.0) * float(np.exp(rng.normal(0, 0.01)))
            return [Samples(case=case.id, device=device.key, round=number, values=[factor * level], method="program")]

        return arms.Arm("x", Plan(name="ab", cases=[case]), device, "host", once)

    done = ab.ab(arm(1.0, 1), arm(1.1, 2), ab.AbOptions(), home)
    found = comparison(done)
    assert found.ratio == pytest.approx(1 / 1.1, rel=0.02)
    assert found.ratio is not None
    row = next(line for line in in_turns([found], ("left", "right"), 0.02).splitlines() if " ms " in line)
    a, b, change = float(row.split()[0]), float(row.split()[2]), float(row.split()[4])
    assert a == pytest.approx(found.a.median * 1e3, rel=1e-3)  # type: ignore[operator]
    assert b == pytest.approx(found.b.median * 1e3, rel=1e-3)  # type: ignore[operator]
    assert change == pytest.approx((1 / found.ratio - 1) * 100, abs=0.06)
    assert compare.compare([bundles.load(done.runs[0])], [bundles.load(done.runs[1])]) == [found]

def ended_without_an_answer(home: Path, seed: int, **options: float) -> tuple[Comparison, ab.AbOutcome]:
    """Of sides 4.5 % apart in noise of 12 %, asked for 8 %."""
    done = ab.ab(noisy(1.0, 0.12, seed), noisy(1.045, 0.12, seed + 1), ab.AbOptions(difference=0.08, min_effect=0.02, **options), home)  # type: ignore[arg-type]
    found = comparison(done)
    assert found.answer == "inconclusive"
    return found, done


@pytest.mark.parametrize("kind", ["planned_pairs", "budget"])
def test_pairs_that_were_planned_and_used_up_are_no_matter_of_the_budget(home: Path, kind: str) -> None:
    found, done = ended_without_an_answer(home, 0)
    assert done.stop == Stop("planned_pairs")
    found = turns.comparison(done.pairs[0].a, done.pairs[0].b, done.turns, Stop(kind))  # type: ignore[arg-type]  # as 0.2 kept some
    assert f"no answer after {found.n_a} pairs; these are all that were planned" in found.reason
    assert "beside a quieter machine, or with a smaller --resolve, as in '5.7 %'" in found.reason
    assert "--budget" not in found.reason
    assert found.low is not None
    assert found.high is not None
    assert "low_power" not in {notice.code for notice in found.notices}


def test_pairs_that_were_cut_name_the_option_that_cut_them(home: Path) -> None:
    found, done = ended_without_an_answer(home, 1, most=16)
    assert done.stop == Stop("rounds_max")
    assert "the limit of 16 pairs (--pairs) allowed no more: a larger one, " in found.reason
    assert "--budget" not in found.reason
    (notice,) = (notice for notice in found.notices if notice.code == "low_power")
    assert notice.text.startswith("the limit of runs and of time allows 16 pairs: at this noise they would find a true change of 8.0 % in ")
    of_bench = turns.comparison(done.pairs[0].a, done.pairs[0].b, done.turns, done.stop, option="--max-runs")
    assert "the limit of 16 pairs (--max-runs) allowed no more" in of_bench.reason
    of_budget = turns.comparison(done.pairs[0].a, done.pairs[0].b, done.turns, Stop("budget"))
    assert "--budget allowed no more" in of_budget.reason


def test_the_largest_change_that_may_be_there_is_the_further_end_of_the_interval(home: Path) -> None:
    found, _ = ended_without_an_answer(home, 1, most=16)
    _, low, high = found.change
    assert low is not None
    assert high is not None
    assert low < 0 < high
    assert f"a change of up to {percent(max(-low, high))} may be there" in found.reason
