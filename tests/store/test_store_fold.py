"""From raw samples to a result: the metric of each round, what became of the case, and its doubts."""

from __future__ import annotations

from typing import Any

import pytest
from keeping import CASES, DEVICE, make_samples

from hotlap import plan
from hotlap.record import Case, Check, Flag, Result, Samples
from hotlap.store.fold import fold

COPY, GEMM = CASES


def folded(case: Case, *rounds: dict[str, Any]) -> Result:
    return fold(case, [make_samples(n, case, **given) for n, given in enumerate(rounds)], "simulated")


def test_bandwidth_is_bytes_over_the_median_of_each_round() -> None:
    result = folded(COPY, {"seconds": [1e-3, 9.0, 2e-3]}, {"seconds": [4e-3, 4e-3]})
    assert result.values == pytest.approx([2**20 / 2e-3, 2**20 / 4e-3])  # half is read, half is written
    assert result.seconds == [2e-3, 4e-3]
    assert (result.metric, result.unit, result.better, result.status, result.reason) == ("bandwidth", "B/s", "higher", "measured", "")
    assert (result.case, result.device, result.target) == (COPY, DEVICE.key, "simulated")


def test_compute_counts_what_was_really_done() -> None:
    result = folded(GEMM, {"seconds": [1e-3]}, {"seconds": [1e-3], "metrics": {"operations": 3e9}})
    assert result.values == pytest.approx([2 * 512**3 / 1e-3, 3e12])
    assert (result.metric, result.unit) == ("compute", "FLOP/s")


def test_integers_are_not_floating_point() -> None:
    assert folded(plan.case("gemm", {"dtype": "int8"}), {}).unit == "OP/s"
    assert folded(plan.case("fma", {"dtype": "int32"}), {}).unit == "OP/s"
    assert folded(plan.case("fma", {"dtype": "fp64"}), {}).unit == "FLOP/s"


def test_latency_is_time_per_step_and_operations_do_not_touch_it() -> None:
    result = folded(plan.case("barrier", {"repeats": 100}), {"seconds": [1e-3], "metrics": {"operations": 7.0}})
    assert result.values == pytest.approx([1e-5])
    assert (result.unit, result.better) == ("s", "lower")


def test_a_program_speaks_for_itself() -> None:
    given = {"argv": ["x"], "read": "pattern", "expression": "(.*)", "unit": "tokens/s", "better": "higher", "scale": 1000.0}
    result = folded(plan.case("command", given), {"seconds": [5.0, 7.0, 6.0]}, {"seconds": [-1.0, 0.0]})
    assert result.values == [6.0, -0.5]  # as kept: scaled already, and of any sign
    assert result.seconds == []
    assert (result.metric, result.unit, result.better, result.status) == ("own", "tokens/s", "higher", "measured")


def test_a_programs_wall_time_is_scaled_here() -> None:
    plain = folded(plan.case("command", {"argv": ["x"]}), {"seconds": [2.0]})
    assert (plain.values, plain.seconds, plain.metric, plain.unit, plain.better) == ([2.0], [2.0], "time", "s", "lower")
    scaled = folded(plan.case("command", {"argv": ["x"], "unit": "ms per item", "scale": 10.0}), {"seconds": [2.0]})
    assert (scaled.values, scaled.seconds, scaled.metric) == ([20.0], [2.0], "own")


@pytest.mark.parametrize(
    ("statuses", "status", "reason"),
    [
        (["measured", "measured"], "measured", ""),
        (["measured", "invalid", "error"], "invalid", "1 of 3 rounds are invalid: because invalid"),
        (["invalid", "invalid"], "invalid", "because invalid"),
        (["not_run", "not_run"], "not_run", "because not_run"),
        (["not_run", "error"], "error", "1 of 2 rounds failed: because error"),
        (["error", "measured"], "measured", "1 of 2 rounds failed: because error"),
        (["not_run", "measured", "not_run"], "measured", "2 of 3 rounds were not run: because not_run"),
    ],
)
def test_status(statuses: list[str], status: str, reason: str) -> None:
    rounds = [{"status": s, "reason": "" if s == "measured" else f"because {s}"} for s in statuses]
    result = folded(COPY, *rounds)
    assert (result.status, result.reason) == (status, reason)
    assert len(result.values) == statuses.count("measured")  # a number that cannot stand is not shown
    assert len(result.rounds) == len(statuses)


def test_nothing_measured_is_never_measured() -> None:
    assert fold(COPY, [], "simulated", "GPU-1111").status == "not_run"
    assert fold(COPY, [], "simulated", "GPU-1111").device == "GPU-1111"
    assert folded(COPY, {"seconds": []}).status == "error"
    assert folded(COPY, {"seconds": []}).reason == "no sample was kept"
    none = folded(COPY, {"seconds": [0.0, 0.0, 1.0]}, {})
    assert (none.status, none.reason) == ("invalid", "1 of 2 rounds took no longer than the cost of timing them")


def test_flags_are_merged_by_name_and_counted() -> None:
    drift = Flag(name="drift", detail="+2 %")
    result = folded(COPY, {"flags": [drift, Flag(name="bimodal")]}, {"flags": [drift, drift]}, {})
    assert result.flags == [Flag(name="drift", detail="in 2 of 3 rounds: +2 %"), Flag(name="bimodal", detail="in 1 of 3 rounds")]
    assert folded(COPY, {"flags": [drift]}).flags == [drift]


def test_checks_are_collected_in_order_of_rounds() -> None:
    checks = [Check(passed=True, what=str(n)) for n in range(3)]
    rounds: list[Samples] = [make_samples(n, COPY, check=checks[n]) for n in (2, 0, 1)]
    result = fold(COPY, rounds, "simulated")
    assert result.checks == checks
    assert [s.round for s in result.rounds] == [0, 1, 2]


def test_a_workload_of_a_later_version_is_shown_by_its_time() -> None:
    for case in (Case(workload="transmogrify"), Case(workload="stream", params={"op": "quadruple"})):
        result = folded(case, {"seconds": [2.0]})
        assert (result.status, result.values, result.metric, result.unit) == ("measured", [2.0], "time", "s")
        assert "does not know the workload" in result.reason
