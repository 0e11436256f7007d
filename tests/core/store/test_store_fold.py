"""From raw samples to a result: the metric of each round, what became of the case, and its doubts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from keeping import CASES, DEVICE, make_samples

from hotlap.core import plan
from hotlap.core.record import Case, Check, Notice, Result, Samples
from hotlap.core.stats import series
from hotlap.core.store.fold import FALSE_RATE, bad, fold, least_by_chance

COPY, GEMM = CASES


def folded(case: Case, *rounds: dict[str, Any]) -> Result:
    return fold(case, [make_samples(n, case, **given) for n, given in enumerate(rounds)], "simulated")


def test_bandwidth_is_bytes_over_the_median_of_each_round() -> None:
    result = folded(COPY, {"values": [1e-3, 9.0, 2e-3]}, {"values": [4e-3, 4e-3]})
    assert result.values == pytest.approx([2**20 / 2e-3, 2**20 / 4e-3])  # half is read, half is written
    assert result.seconds == [2e-3, 4e-3]
    assert (result.metric, result.unit, result.better, result.status, result.reason) == ("bandwidth", "B/s", "higher", "measured", "")
    assert (result.case, result.device, result.target) == (COPY, DEVICE.key, "simulated")


def test_a_bad_round_is_left_out_of_more_good_ones_than_the_fewest() -> None:
    result = folded(COPY, *[{"values": [1e-3]}] * 8, {"values": [1e-3], "disturbed": 0.9})
    assert (len(result.values), result.left_out) == (8, [8])


def test_shares_of_a_flag_are_averaged_over_all_rounds() -> None:
    first = {"values": [1e-3], "notices": [Notice(code="throttled", seen="heat", shares={"heat": 0.75})]}
    second = {"values": [1e-3], "notices": [Notice(code="throttled", seen="heat", shares={"heat": 0.5})]}
    result = folded(COPY, first, second, {"values": [1e-3]}, {"values": [1e-3]})
    assert [notice.shares for notice in result.notices if notice.code == "throttled"] == [{"heat": 1.25 / 4}]


def test_compute_counts_what_was_really_done() -> None:
    result = folded(GEMM, {"values": [1e-3]}, {"values": [1e-3], "metrics": {"operations": 3e9}})
    assert result.values == pytest.approx([2 * 512**3 / 1e-3, 3e12])
    assert (result.metric, result.unit) == ("compute", "FLOP/s")


def test_integers_are_not_floating_point() -> None:
    assert folded(plan.case("gemm", {"dtype": "int8"}), {}).unit == "OP/s"
    assert folded(plan.case("fma", {"dtype": "int32"}), {}).unit == "OP/s"
    assert folded(plan.case("fma", {"dtype": "fp64"}), {}).unit == "FLOP/s"


def test_latency_is_time_per_step_and_operations_do_not_touch_it() -> None:
    result = folded(plan.case("barrier", {"repeats": 100}), {"values": [1e-3], "metrics": {"operations": 7.0}})
    assert result.values == pytest.approx([1e-5])
    assert (result.unit, result.better) == ("s", "lower")


def test_a_program_speaks_for_itself() -> None:
    given = {"argv": ["x"], "read": "pattern", "expression": "(.*)", "unit": "tokens/s", "better": "higher", "scale": 1000.0}
    result = folded(plan.case("command", given), {"values": [5.0, 7.0, 6.0]}, {"values": [-1.0, 0.0]})
    assert result.values == [6.0, -0.5]  # as kept: scaled already, and of any sign
    assert result.seconds == []
    assert (result.metric, result.unit, result.better, result.status) == ("own", "tokens/s", "higher", "measured")


def test_a_programs_wall_time_is_scaled_here() -> None:
    plain = folded(plan.case("command", {"argv": ["x"]}), {"values": [2.0]})
    assert (plain.values, plain.seconds, plain.metric, plain.unit, plain.better) == ([2.0], [2.0], "time", "s", "lower")
    scaled = folded(plan.case("command", {"argv": ["x"], "unit": "ms per item", "scale": 10.0}), {"values": [2.0]})
    assert (scaled.values, scaled.seconds, scaled.metric) == ([20.0], [2.0], "own")


@pytest.mark.parametrize(
    ("statuses", "status", "reason"),
    [
        (["measured", "measured"], "measured", ""),
        (["measured", "invalid", "error"], "invalid", "1 of 3 rounds is invalid: because invalid"),
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
    assert len(result.values) == statuses.count("measured") + (statuses.count("invalid") if status == "invalid" else 0)
    assert len(result.rounds) == len(statuses)


def test_nothing_measured_is_never_measured() -> None:
    assert fold(COPY, [], "simulated", "GPU-1111").status == "not_run"
    assert fold(COPY, [], "simulated", "GPU-1111").reason == "no round of it was measured"
    assert fold(COPY, [], "simulated", "GPU-1111").device == "GPU-1111"
    assert folded(COPY, {"values": []}).status == "error"
    assert folded(COPY, {"values": []}).reason == "no sample was kept"


def test_a_wrong_answer_in_any_round_disproves_the_case_and_the_number_stays() -> None:
    wrong = {"status": "invalid", "cause": "wrong_result", "reason": "error 2"}
    result = folded(COPY, {}, {}, {}, {}, {}, wrong)
    assert (result.status, result.reason, len(result.values), result.left_out) == ("invalid", "1 of 6 rounds is invalid: error 2", 6, [])


@pytest.mark.parametrize(("bad", "status"), [(1, "measured"), (3, "measured"), (4, "invalid"), (6, "invalid")])
def test_timers_disprove_a_case_where_they_disagree_in_most_rounds(bad: int, status: str) -> None:
    apart = {"status": "invalid", "cause": "timers", "reason": "apart"}
    result = folded(COPY, *[apart] * bad, *[{}] * (6 - bad))
    assert result.status == status
    if status == "measured":
        assert (len(result.values), result.left_out) == (6 - bad, list(range(bad)))
        assert result.reason == f"{bad} of 6 rounds {'is' if bad == 1 else 'are'} left out: the timers disagreed"
    else:
        assert (len(result.values), result.left_out) == (6, [])
        assert result.reason == ("apart" if bad == 6 else f"{bad} of 6 rounds are invalid: apart")


def test_rounds_that_gave_nothing_do_not_count_against_the_timers() -> None:
    apart = {"status": "invalid", "cause": "timers", "reason": "apart"}
    assert folded(COPY, apart, {}, {"status": "error", "values": []}).status == "measured"
    assert folded(COPY, apart, apart, {}, {"status": "error", "values": []}).status == "invalid"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, ""), ({"disturbed": 0.25}, ""), ({"disturbed": 0.26}, "others ran meanwhile"), ({"steal": 0.125}, ""),
        ({"steal": 0.13}, "the hypervisor took the processors"), ({"status": "error"}, "it failed"), ({"status": "not_run"}, ""),
        ({"status": "invalid", "cause": "timers"}, "the timers disagreed"), ({"status": "invalid", "cause": "wrong_result", "disturbed": 1.0}, ""),
    ],
)
def test_which_rounds_are_bad(given: dict[str, Any], why: str) -> None:
    assert bad(make_samples(0, COPY, **given)) == why


def test_disturbed_rounds_are_left_out_where_three_good_ones_are_there() -> None:
    disturbed, fast = {"disturbed": 0.5, "values": [8e-3]}, {"values": [1e-3]}
    result = folded(COPY, fast, disturbed, fast, {"steal": 0.2, "values": [9e-3]}, fast)
    assert (result.seconds, result.left_out) == ([1e-3] * 3, [1, 3])
    assert result.reason == "2 of 5 rounds are left out: others ran meanwhile, the hypervisor took the processors"
    few = folded(COPY, fast, disturbed, fast, disturbed)
    assert (few.seconds, few.left_out, few.reason) == ([1e-3, 8e-3, 1e-3, 8e-3], [], "")
    two = folded(COPY, fast, fast)
    assert (two.seconds, two.left_out) == ([1e-3] * 2, [])


def test_a_call_that_takes_less_than_timing_it_is_at_most_so_long() -> None:
    """10 calls in a sample; the longest sample took 3 ms after 1 ms for timing was subtracted, and the timer's step is 0.5 ms."""
    short = {"values": [0.0, 0.0, 3e-4], "calls": 10, "overhead_s": 1e-3, "resolution_s": 5e-4}
    result = folded(COPY, {}, short)
    assert (result.too_short, result.status) == (True, "measured")
    assert result.seconds == pytest.approx([2e-3, 4.5e-4])
    assert result.values == pytest.approx([2**20 / 2e-3, 2**20 / 4.5e-4])
    assert not folded(COPY, {}, {"values": [0.0, 1e-3, 1e-3]}).too_short
    own = plan.case("command", {"argv": ["x"], "read": "pattern", "expression": "(.*)", "unit": "tokens/s"})
    assert not folded(own, {"values": [-1.0]}).too_short


def test_work_bound_by_the_clock_is_given_in_cycles() -> None:
    fma = plan.case("fma", {"dtype": "fp32"})
    result = folded(fma, {"values": [1e-3], "clocks_hz": [1e9, 3e9]}, {"values": [2e-3], "clocks_hz": [1e9]})
    assert (result.cycles, result.bound_by_clock) == ([pytest.approx(2e6), pytest.approx(2e6)], True)
    assert folded(fma, {"clocks_hz": [1e9]}, {}).cycles == []
    assert folded(fma, {}).cycles == []
    assert not folded(COPY, {}).bound_by_clock


@pytest.mark.parametrize(("clocks", "varied"), [([1e9, 1.05e9, 1e9], False), ([1e9, 1.06e9, 1e9], True), ([1e9], False), ([], False)])
def test_a_clock_that_varies_is_a_notice_with_its_range(clocks: list[float], varied: bool) -> None:
    result = folded(COPY, {"clocks_hz": clocks[:1]}, {"clocks_hz": clocks[1:]})
    assert result.notices == ([Notice(code="clock_varied", seen="1.00 to 1.06 GHz")] if varied else [])
    assert result.status == "measured"


def test_notices_are_merged_by_name_and_counted() -> None:
    drift = Notice(code="drift", seen="+2 %")
    result = folded(COPY, {"notices": [drift, Notice(code="bimodal")]}, {"notices": [drift, drift]}, {})
    assert result.notices == [Notice(code="drift", seen="in 2 of 3 rounds: +2 %")]  # one of two groups comes by chance in 6 % of such cases
    assert folded(COPY, {"notices": [drift]}).notices == [drift]
    own = [Notice(code="throttled", seen="at 300 W"), Notice(code="steal")]
    assert folded(COPY, {"notices": own[:1]}, {}, {"notices": own}, {}, {}, {}).notices == [
        Notice(code="throttled", seen="in 2 of 6 rounds: at 300 W"), Notice(code="steal", seen="in 1 of 6 rounds"),
    ]


@pytest.mark.parametrize(("rate", "least"), [(0.01, {1: 1, 2: 2, 6: 2, 12: 2, 15: 2, 16: 3, 30: 3}), (0.02, {2: 2, 6: 2, 7: 2, 8: 3, 12: 3, 30: 4}), (0.0, {6: 1})])
def test_a_flag_that_chance_gives_is_shown_where_chance_gives_it_in_less_than_1_percent(rate: float, least: dict[int, int]) -> None:
    for rounds, hits in least.items():
        assert least_by_chance(rate, rounds) == hits
        if rounds > 1 and rate:
            more = sum(math.comb(rounds, k) * rate**k * (1 - rate) ** (rounds - k) for k in range(hits, rounds + 1))
            assert more <= 0.01


@pytest.mark.parametrize("rounds", [6, 12, 30])
@pytest.mark.parametrize("name", FALSE_RATE)
def test_chance_shows_a_flag_in_1_percent_of_cases_at_most(rounds: int, name: str) -> None:
    rng = np.random.default_rng(rounds)
    cases, shown = 1500, 0
    for raised in rng.random((cases, rounds)) < 0.01:
        if raised.sum() >= 2:  # fewer are never shown, as the test above holds
            samples = [make_samples(n, COPY, notices=[Notice(code=name)] if one else []) for n, one in enumerate(raised)]
            shown += bool(fold(COPY, samples, "simulated").notices)
    assert shown <= 0.01 * cases


def test_a_drift_between_rounds_is_shown_in_place_of_those_within() -> None:
    rising = [{"values": [(1 + n / 10) * 1e-3], "notices": [Notice(code="drift", seen="x")]} for n in range(8)]
    flags = folded(plan.case("barrier", {"repeats": 100}), *rising).notices
    assert flags == [Notice(code="drift", seen="+68.6 % from the first round to the last")]


def test_notices_are_of_the_rounds_that_are_used() -> None:
    noisy = {"disturbed": 0.5, "notices": [Notice(code="shared_device", seen="x")]}
    assert folded(COPY, {}, {}, {}, noisy).notices == []
    assert folded(COPY, {"status": "error", "values": [], "notices": [Notice(code="own")]}).notices == [Notice(code="own")]


def test_checks_are_collected_in_order_of_rounds() -> None:
    checks = [Check(passed=True, what=str(n)) for n in range(3)]
    rounds: list[Samples] = [make_samples(n, COPY, check=checks[n]) for n in (2, 0, 1)]
    result = fold(COPY, rounds, "simulated")
    assert result.checks == checks
    assert [s.round for s in result.rounds] == [0, 1, 2]


def test_a_workload_of_a_later_version_is_shown_by_its_time() -> None:
    for case in (Case(workload="transmogrify"), Case(workload="stream", params={"op": "quadruple"})):
        result = folded(case, {"values": [2.0]})
        assert (result.status, result.values, result.metric, result.unit) == ("measured", [2.0], "time", "s")
        assert "does not know the workload" in result.reason


def test_a_drift_is_never_a_fall_below_nothing() -> None:
    """A reader's rounds: 43.2 to 12.7 GFLOP/s, which a line of their own scale calls -107 %."""
    speed = (43.2, 62.2, 59.8, 50.4, 38.4, 36.4, 32.3, 12.7)
    assert series.drift(speed) < -0.9
    assert -0.8 < series.first_to_last(speed) < -0.6
    assert series.first_to_last([2.0, 2.0 * 1.1, 2.0 * 1.21]) == pytest.approx(0.21)


def test_what_rounds_say_differently_is_what_most_of_them_say() -> None:
    texts = ["power cap", "thermal", "thermal", "thermal", "thermal", "power cap"]
    seen = folded(COPY, *({"notices": [Notice(code="throttled", seen=text)]} for text in texts)).notices
    assert seen == [Notice(code="throttled", seen="in 6 of 6 rounds (most often: thermal)")]
    seen = folded(COPY, *({"notices": [Notice(code="throttled", seen=str(number))]} for number in range(6))).notices
    assert seen == [Notice(code="throttled", seen="in 6 of 6 rounds (the first: 0)")]


def test_reasons_of_a_lowered_clock_are_counted_each_by_its_own_rounds() -> None:
    """Heat that begins in the third round was not there in the first two, which only the power cap held."""
    cap, heat = {"software power cap": 1.0}, {"hardware thermal": 1.0}
    seen = folded(COPY, *({"notices": [_throttled(shares)]} for shares in (cap, cap, heat, heat, heat, heat))).notices
    said = "hardware thermal in 4 of 6 rounds (100 % of the readings), software power cap in 2 of 6 rounds (100 % of the readings)"
    assert [notice.seen for notice in seen] == [said]
    parts = ({"software power cap": 0.5}, {"software power cap": 0.25}, cap, cap, cap)
    seen = folded(COPY, *({"notices": [_throttled(shares)]} for shares in parts), {}).notices
    assert [notice.seen for notice in seen] == ["software power cap in 5 of 6 rounds (25 to 100 % of the readings)"]
    seen = folded(COPY, *({"notices": [_throttled(heat)]} for _ in range(6))).notices
    assert [notice.seen for notice in seen] == ["in 6 of 6 rounds: hardware thermal in 100 % of the readings"]


def _throttled(shares: dict[str, float]) -> Notice:
    said = ", ".join(f"{name} in {100 * share:g} % of the readings" for name, share in shares.items())
    return Notice(code="throttled", seen=said, shares=shares)
