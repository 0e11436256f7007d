"""A run against the model's expectation: the plan is judged, and only within what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import hotlap
from hotlap.cli import main
from hotlap.core.analysis.expected import AgainstExpected, _fewest, _outside, _version
from hotlap.core.analysis.verdicts import judge
from hotlap.core.model import intervals, machines
from hotlap.core.plan import case
from hotlap.core.record import MeasureOptions, Plan, Row, Verdict
from hotlap.core.show import judgement
from hotlap.core.stats.beyond import Beyond, most

SHAPES = [(m, n) for m in (512, 1024, 4096, 8192) for n in (4096, 8192)]


def plan(count: int = 8, dtype: str = "bf16", rounds: int = 6) -> Plan:
    products = [case("gemm", {"m": m, "n": n, "k": 4096, "dtype": dtype}) for m, n in SHAPES[:count]]
    options = MeasureOptions(rounds=rounds, rounds_max=rounds, round_s=0.8, seed=5)
    return Plan(name="p", cases=[*products, case("chase", {"size": "1 MiB"})], measure=options)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))


def judged(of: Plan, target: str) -> tuple[str, list[Verdict]]:
    run = hotlap.run(of, target=f"simulated:{target}", device="all")
    found = judge(run.id, run.rows, AgainstExpected(run.bundle.run.machine))
    return found.state, [row.verdict for row in found.rows]


def slowed(rows: list[Row], count: int, share: float) -> list[Row]:
    """The first rows as if each call took longer."""
    factor = 1 - share

    def one(row: Row) -> Row:
        summary = replace(row.summary, median=row.summary.median * factor, low=row.summary.low * factor, high=row.summary.high * factor)
        return replace(row, summary=summary)

    return [one(row) if number < count else row for number, row in enumerate(rows)]


def test_few_slow_cases_pass_and_more_fail() -> None:
    run = hotlap.run(plan(), target="simulated:h200-sxm?noise=0.005&seed=3")
    standard = AgainstExpected(run.bundle.run.machine)
    for count, state in ((0, "pass"), (1, "pass"), (3, "pass"), (4, "fail"), (8, "fail")):
        found = judge(run.id, slowed(run.rows, count, 0.5), standard)
        assert found.state == state, count
        slow = [row.verdict for row in found.rows[:count]]
        assert {one.state for one in slow} <= {state}
        assert all("slower than the model's interval" in one.reason and "at most 3 such in 99 of 100 plans" in one.reason for one in slow)
        assert {row.verdict.state for row in found.rows[count:8]} <= {"pass"}
        assert found.rows[8].verdict.state == "measured"
    assert all(0.4 < one.ratio < 0.6 for one in slow)  # of the expected speed, not of the interval's end


def test_noise_and_too_few_rounds_are_no_failure() -> None:
    state, verdicts = judged(plan(rounds=3), "h200-sxm?noise=0.005&seed=3&efficiency=0.4")
    assert (state, {one.state for one in verdicts[:8]}) == ("inconclusive", {"inconclusive"})
    assert all("6 rounds" in one.reason for one in verdicts[:8])
    run = hotlap.run(plan(), target="simulated:h200-sxm?noise=0.005&seed=3")
    wide = [replace(row, summary=replace(row.summary, low=row.summary.low / 3)) if n < 4 else row for n, row in enumerate(run.rows)]
    found = judge(run.id, wide, AgainstExpected(run.bundle.run.machine))
    assert (found.state, [row.verdict.state for row in found.rows[:5]]) == ("inconclusive", ["inconclusive"] * 4 + ["pass"])
    assert judge(run.id, wide[1:], AgainstExpected(run.bundle.run.machine)).state == "pass"  # three may be slow


def test_each_device_is_judged_for_itself() -> None:
    state, verdicts = judged(plan(), "h200-sxm?noise=0.005&seed=3&count=2&slow=0.5@1")
    assert state == "fail"
    assert sorted(one.state for one in verdicts) == ["fail"] * 8 + ["measured"] * 2 + ["pass"] * 8


def test_a_plan_too_small_to_fail_is_left_open() -> None:
    state, verdicts = judged(plan(1), "h200-sxm?noise=0.005&seed=3&efficiency=0.4")
    assert state == "inconclusive"
    assert verdicts[0].reason.endswith("; one case cannot fail this test; measure at least 2 shapes")
    assert judged(plan(1), "h200-sxm?noise=0.005&seed=3")[0] == "pass"


@pytest.mark.parametrize(
    ("target", "dtype", "why"),
    [
        ("gb200", "bf16", "not measured on NVIDIA GB200"), ("h100-pcie", "bf16", "not measured on"), ("h200-sxm", "fp16", "fp16 was not measured"),
        ("h200-sxm+l2_bytes=100MB", "bf16", "not measured on"),
    ],
)
def test_outside_of_the_models_range_nothing_is_decided(target: str, dtype: str, why: str) -> None:
    state, verdicts = judged(plan(2, dtype, rounds=2), f"{target}?seed=3&efficiency=0.2")
    assert state == "inconclusive"
    assert all(one.state == "inconclusive" and why in one.reason for one in verdicts[:2])


@pytest.mark.parametrize(("version", "inside"), [("2.11.0+cu130", True), ("2.12.1", True), ("2.5.1", False), ("", False), ("nightly", False)])
def test_a_library_older_than_what_was_measured_is_outside(version: str, inside: bool) -> None:
    run = hotlap.run(plan(1, rounds=2), target="simulated:h200-sxm?seed=3")
    spec, device = machines.load("h200-sxm"), replace(run.bundle.run.machine.devices[0], target="torch")
    why = _outside(run.rows[0], device, spec, intervals.healthy("gemm", "h200-sxm"), True, version)
    assert ("PyTorch" not in why) == inside
    assert _version("2.9.1") < _version("2.11")


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    hotlap.run(plan(), target="simulated:h200-sxm?noise=0.005&seed=3")
    assert main(["gate", "--against", "expected"]) == 0
    printed = capsys.readouterr().out
    assert "PASS" in printed
    assert "vs expected" in printed
    assert "not judged" in printed
    assert "losses of about 15 %" in printed
    assert "a baseline or the fleet finds smaller losses" in " ".join(printed.split())


def test_the_fewest_cases_that_can_fail_are_those_of_the_rule() -> None:
    for family in ("gemm", "prefill", "moe"):
        healthy = intervals.healthy(family, "h100-sxm")
        assert healthy is not None
        count = _fewest([(family, healthy)])
        assert [most([Beyond(n, healthy.share, healthy.alike)]) < n for n in (count - 1, count)] == [False, True]


def test_what_has_no_reference_data_is_not_judged_and_never_called_measured() -> None:
    copies = Plan(name="p", cases=[case("stream", {"op": "copy", "size": "1 GiB"})], measure=plan().measure)
    run = hotlap.run(copies, target="simulated:h200-sxm?noise=0.005&seed=3&count=2", device="all")
    found = judge(run.id, run.rows, AgainstExpected(run.bundle.run.machine))
    assert {row.verdict.reason for row in found.rows} == {"no reference data on healthy cards for stream; judge it against a baseline or the fleet"}
    printed = judgement.judgement(found)
    assert "not judged" in printed.splitlines()[0]
    assert "measured" not in printed


def test_the_verb_fails(capsys: pytest.CaptureFixture[str]) -> None:
    hotlap.run(plan(), target="simulated:h200-sxm?noise=0.005&seed=3&efficiency=0.4")
    assert main(["gate", "--against", "expected"]) == 1
