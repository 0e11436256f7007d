"""Two sides measured in turns: what is kept, when it stops, and what it answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from draws import FULL, draws
from hotlap.cli import main
from hotlap.errors import HotlapError, InputError
from hotlap.record import Device, Plan, Samples
from hotlap.report.comparison import in_turns
from hotlap.store import bundle as bundles
from hotlap.tune import ab, arms
from hotlap.work import find


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


def noisy(level: float, sd: float, seed: int) -> arms.Arm:
    """A side whose numbers are known: lower is better."""
    case = find("command")
    from hotlap.record import Case

    made = Case(workload="command", params=case.parse({"argv": ["x"], "read": "pattern", "expression": "x", "unit": "s"}))
    rng, device = np.random.default_rng(seed), Device(target="host", index=0, name="x", kind="cpu")

    def once(number: int) -> list[Samples]:
        return [Samples(case=made.id, device=device.key, round=number, seconds=[level * float(np.exp(rng.normal(0, sd)))], method="program")]

    return arms.Arm("x", Plan(name="ab", cases=[made]), device, "host", once)


def answer(a: arms.Arm, b: arms.Arm, home: Path, **options: float) -> tuple[str, ab.Outcome]:
    chosen = ab.Options(**options)  # type: ignore[arg-type]
    done = ab.ab(a, b, chosen, home)
    return ab.comparison(done.pairs[0], chosen).answer, done


def test_a_real_difference_is_found_and_sameness_is_proved(home: Path) -> None:
    for level, said in ((1.05, "slower"), (0.95, "faster"), (1.0, "same")):
        found, done = answer(noisy(1.0, 0.01, 1), noisy(level, 0.01, 2), home)
        assert (found, done.stopped) == (said, "precision reached")


def test_every_number_is_kept_as_two_runs(home: Path) -> None:
    _, done = answer(noisy(1.0, 0.01, 1), noisy(1.2, 0.01, 2), home)
    a, b = (bundles.load(path) for path in done.runs)
    assert (a.run.labels, b.run.labels) == ({"side": "A"}, {"side": "B"})
    assert len(a.samples) == len(b.samples) >= ab.PILOT
    assert not a.warnings


@pytest.mark.slow("measures in turns")
def test_the_budget_and_the_most_pairs_end_it_without_an_answer(home: Path) -> None:
    found, done = answer(noisy(1.0, 0.2, 1), noisy(1.01, 0.2, 2), home, most=12)
    assert (found, done.stopped) == ("cannot tell", "rounds_max")
    found, done = answer(noisy(1.0, 0.2, 1), noisy(1.01, 0.2, 2), home, budget_s=0.0)
    assert (found, done.stopped) == ("cannot tell", "budget")


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
    assert document["cases"][0]["answer"] == "same"
    assert document["cases"][0]["n_a"] >= ab.PILOT
    assert main(["ab", "sleep 0.005", "sleep 0.05", "--resolve", "20 %"]) == 1
    assert "slower by" in capsys.readouterr().out


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
        (["true", "true", "--metric", "/x"], "which way"), (["true", "true", "--resolve", "0"], "--resolve"), (["true", "true", "--gate", "9 %"], "--gate"),
        (["true", "true", "--pairs", "3"], "at least 10"), (["true", "true", "--target", "opencl"], "for plans"), (["quick", "quick", "--timeout", "1 s"], "says itself"),
    ],
)
def test_what_was_asked_wrongly_gets_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_a_command_that_fails_is_named(home: Path) -> None:
    with pytest.raises(HotlapError, match=r"side A \('false'\): the program ended with status 1"):
        ab.ab(arms.command("false", {}), arms.command("true", {}), ab.Options(), home)


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
    assert "cannot tell" in captured.out
    assert "it ended with a failure" in " ".join(captured.out.split())
    assert "ended with status 9: out of memory; what was measured until then is kept: hotlap compare" in captured.err
    assert f"side A ('sh {script} a')" in captured.err
    assert main(["ls"]) == 0
    listed = capsys.readouterr().out
    assert "error: side A" in listed
    assert "all rounds done" not in listed


@pytest.mark.parametrize(("metric", "message"), [("/tpx", "did you mean 'tps'? valid: tps, zero"), ("tpx (.*)", "which ends: {")])
def test_a_metric_that_is_not_there_was_asked_wrongly(metric: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = """echo '{"tps": 1, "zero": 0}'"""
    assert main(["ab", program, program, "--metric", metric, "--better", "higher"]) == 2
    assert message in capsys.readouterr().err
    assert not (home / "home" / "runs").exists()


def test_zero_has_no_ratio(home: Path) -> None:
    chosen = ab.Options()
    done = ab.ab(noisy(0.0, 0.01, 1), noisy(0.0, 0.01, 2), chosen, home)
    assert ab.comparison(done.pairs[0], chosen, done.stopped).reason == "20 of 20 values are zero or negative: there is no ratio of them"


@pytest.mark.slow("error rate by simulation")
def test_no_answer_says_how_small_a_change_it_could_not_see_and_what_helps(home: Path) -> None:
    def reason(a: arms.Arm, b: arms.Arm, **options: float) -> str:
        chosen = ab.Options(**options)  # type: ignore[arg-type]
        done = ab.ab(a, b, chosen, home)
        return ab.comparison(done.pairs[0], chosen, done.stopped).reason

    cut = reason(noisy(1.0, 0.05, 1), noisy(1.0, 0.05, 2), most=40)
    assert cut.startswith("below ")
    assert cut.endswith("; no more were allowed: give it more with --pairs")
    told = [reason(noisy(1.0, 0.02, 2 * n), noisy(1.01, 0.02, 2 * n + 1)) for n in range(12)]
    spent = [one for one in told if "no answer" in one]
    assert spent
    assert all(one.startswith("below ") and "--resolve '" in one for one in spent)


def test_the_slower_side_is_named_and_the_pairs_agree(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, done = answer(noisy(1.0, 0.01, 1), noisy(1.3, 0.01, 2), home)
    one = ab.comparison(done.pairs[0], ab.Options(), done.stopped)
    said = in_turns([one], ("left", "right"), 0.02)
    assert found == "slower"
    assert "B is slower" in said
    assert f"of the {one.n_a} pairs measured" in " ".join(said.split())
    assert said.count("left") == 1


def test_sides_of_different_size_are_refused(home: Path) -> None:
    one, two = noisy(1.0, 0.01, 1), noisy(1.0, 0.01, 2)
    both = arms.Arm(two.text, Plan(name="ab", cases=two.plan.cases * 2), two.device, two.target, two.once)
    with pytest.raises(InputError, match="case by case"):
        ab.ab(one, both, ab.Options(), home)
