"""Which round comes next: cases, time and patience, from what the rounds so far gave."""

from __future__ import annotations

from typing import Any

import pytest
from scripting import CASE, OTHER

from hotlap.core.measure.rounds import Next, Rounds
from hotlap.core.record import Case, MeasureOptions, Samples, Stop

SPREAD = [1.0, 1.02, 0.98, 1.04, 0.96, 1.0]  # ± 2 % between rounds


def rounds(*cases: Case, **options: Any) -> Rounds:
    return Rounds(cases or (CASE,), MeasureOptions(**{"rounds": 6, "rounds_max": 30, "round_s": 8.0, "budget_s": 600.0, "precision": 0.01, **options}))


def give(to: Rounds, values: list[float], seconds: float = 8.0, case: Case = CASE, **samples: Any) -> Rounds:
    """A round of one case for each value, `seconds` each."""
    for value in values:
        to.add(made(case, value, to.number, **samples))
        to.ended(seconds)
    return to


def made(case: Case, value: float, number: int, **samples: Any) -> Samples:
    return Samples(**{"case": case.id, "device": "d", "round": number, "values": [value], **samples})


def test_the_first_round_has_every_case_and_the_time_asked() -> None:
    assert rounds(CASE, OTHER).next() == Next([CASE, OTHER], 8.0, 16.0)


def test_no_next_round_has_nothing() -> None:
    assert Next() == ([], 0.0, 0.0, None, "")


def test_patience_is_shared_by_the_rounds_to_come() -> None:
    """80 % of 30 s in six rounds are 4 s each; never more than two rounds' time, never less than none."""
    assert rounds(budget_s=30.0).next().patience_s == pytest.approx(4.0)
    waited = give(rounds(budget_s=60.0), [1.0], waited_s=8.0)
    assert waited.next().patience_s == pytest.approx((48.0 - 8.0) / 5)
    assert give(rounds(budget_s=60.0), [1.0], waited_s=50.0, seconds=1.0).next().patience_s == 0.0
    assert give(rounds(), SPREAD).next().patience_s == 16.0
    assert give(rounds(budget_s=100.0), SPREAD, waited_s=12.0).next().patience_s == pytest.approx(8.0)  # past the fewest: all that is left


def test_fewer_rounds_than_asked_are_never_enough() -> None:
    assert give(rounds(), [1.0] * 5).next().cases == [CASE]
    assert give(rounds(), [1.0] * 6).next() == Next(stop=Stop("precision"))
    assert give(rounds(rounds=8), [1.0] * 7).next().cases == [CASE]


def test_rounds_go_on_until_the_noise_between_them_allows_the_precision() -> None:
    assert give(rounds(precision=0.1), SPREAD).next().stop == Stop("precision")
    assert give(rounds(precision=0.01), SPREAD).next().cases == [CASE]
    assert give(rounds(precision=0.001, rounds_max=6), SPREAD).next().stop == Stop("rounds_max")
    assert give(rounds(precision=0.001, rounds_max=7), SPREAD).next().cases == [CASE]


def test_only_what_wants_more_is_measured_again_and_takes_its_share_of_the_time() -> None:
    both = rounds(CASE, OTHER)
    for n, value in enumerate(SPREAD):
        both.add(made(CASE, 1.0, n))
        both.add(made(OTHER, value, n))
        both.ended(8.0)
    assert both.next() == Next([OTHER], 4.0, 8.0)


def test_nothing_that_gave_a_number_stops_the_run() -> None:
    assert give(rounds(), [1.0], seconds=1.0).next().cases
    none = rounds()
    none.add(Samples(case=CASE.id, device="d", round=0, status="error"))
    none.ended(1.0)
    assert none.next() == Next(stop=Stop("no_number"))


@pytest.mark.parametrize("given", [{"status": "not_run", "values": []}, {"status": "invalid", "cause": "wrong_result"}, {"status": "invalid"}])
def test_what_cannot_get_better_is_not_measured_again(given: dict[str, Any]) -> None:
    both = rounds(CASE, OTHER)
    both.add(made(CASE, 1.0, 0, **given))
    both.add(made(OTHER, 1.0, 0))
    both.ended(8.0)
    assert both.next().cases == [OTHER]


@pytest.mark.parametrize("given", [{"disturbed": 0.5}, {"steal": 0.2}, {"status": "invalid", "cause": "timers"}, {"status": "error"}])
def test_a_bad_round_is_measured_again(given: dict[str, Any]) -> None:
    one = give(give(rounds(), [1.0] * 5), [1.0], **given)
    assert one.good(CASE) == [1.0] * 5
    assert one.next().cases == [CASE]
    assert give(one, [1.0]).next().stop == Stop("precision")


def test_bad_rounds_are_replaced_as_often_as_a_case_may_have_rounds() -> None:
    """And four times as often, while half of the budget is left."""
    some = give(give(rounds(rounds_max=8, budget_s=200.0), [1.0] * 5), [1.0] * 8, disturbed=0.5)  # 104 s
    assert some.next().cases == [CASE]
    assert give(some, [1.0], disturbed=0.5).next().stop == Stop("rounds_max")
    cheap = give(give(rounds(rounds_max=8, budget_s=6000.0), [1.0] * 5), [1.0] * 32, disturbed=0.5)
    assert cheap.next().cases == [CASE]
    assert give(cheap, [1.0], disturbed=0.5).next().stop == Stop("rounds_max")
    assert give(rounds(), [1.0] * 5).good(OTHER) == []


def test_a_case_that_goes_on_failing_is_not_tried_for_ever() -> None:
    one = give(give(rounds(), [1.0]), [1.0] * 5, status="error")
    assert one.next().cases == [CASE]
    assert give(one, [1.0], status="error").next() == Next(stop=Stop("rounds_max"))
    many = give(give(rounds(rounds=2, precision=0.001), SPREAD + SPREAD), [1.0] * 11, status="error")
    assert many.next().cases == [CASE]
    assert give(many, [1.0], status="error").next().stop == Stop("rounds_max")


def test_the_budget_ends_the_run_once_every_case_has_its_fewest_rounds() -> None:
    """Rounds of 10 s; a seventh would end at 70 s."""
    assert give(rounds(budget_s=70.0), SPREAD, 10.0).next().cases == [CASE]
    assert give(rounds(budget_s=69.9), SPREAD, 10.0).next() == Next(stop=Stop("budget"))
    waited = give(rounds(budget_s=69.9), SPREAD, 10.0, waited_s=0.1)
    assert waited.next().cases == [CASE]  # what others cost has a time of its own


def test_too_few_rounds_are_measured_until_the_patience_is_over() -> None:
    """Budget 40 s and 80 % on top: 72 s. Five rounds of 12 s, and a sixth."""
    assert give(rounds(budget_s=40.0), SPREAD[:5], 12.0).next().cases == [CASE]
    assert give(rounds(budget_s=39.9), SPREAD[:5], 12.0).next().stop == Stop("budget")


def test_a_round_of_fewer_cases_is_shorter_but_for_opening_the_device() -> None:
    """Rounds of 10 s with four cases; one of them takes 0.2 + 0.8 ÷ 4 of that, 4 s."""
    cases = [CASE, OTHER, Case(workload="launch", params={"mode": "stream"}), Case(workload="launch", params={"mode": "graph"})]

    def after(budget_s: float, noisy: int = 1) -> Next:
        four = rounds(*cases, budget_s=budget_s)
        for n, value in enumerate(SPREAD):
            for case in cases:
                four.add(made(case, value if case in cases[:noisy] else 1.0, n))
            four.ended(10.0)
        return four.next()

    assert after(64.0).cases == [CASE]
    assert after(64.0).round_s == 2.0
    assert after(63.9).stop == Stop("budget")
    assert after(66.0, 2).cases == cases[:2]
    assert after(65.9, 2).stop == Stop("budget")


def test_two_of_three_cases_have_two_thirds_of_the_time() -> None:
    """Of rounds of 9.5 s on average; the patience, 16 s at most, is shared out too."""
    three = rounds(CASE, OTHER, Case(workload="launch", params={"mode": "stream"}), budget_s=68.7)
    for n, value in enumerate(SPREAD):
        for case in three.cases:
            three.add(made(case, 1.0 if case is CASE else value, n))
        three.ended(9.0 if n % 2 else 10.0)
    after = three.next()
    assert after.cases == list(three.cases[1:])
    assert (after.round_s, after.patience_s) == (pytest.approx(16 / 3), pytest.approx(32 / 3))
    three.options = MeasureOptions(rounds=6, rounds_max=30, round_s=8.0, budget_s=57.0 + 9.5 * (0.2 + 1.6 / 3) - 0.01, precision=0.01)
    assert three.next().stop == Stop("budget")


def test_past_the_fewest_rounds_none_is_shortened() -> None:
    """Seven rounds of 10 s, of which 6 s were waiting each; six of them would not fit the budget."""
    late = give(rounds(budget_s=40.0), [*SPREAD[:5], 1.0, 1.02], 10.0, waited_s=6.0)
    assert late.next().round_s == 8.0


def test_whether_waiting_was_of_use_is_seen_of_the_last_round() -> None:
    """Both rounds waited 7.3 of 8 s; in the first nothing was disturbed, in the second everything."""
    two = give(give(rounds(), [1.0], waited_s=7.3, disturbed=0.0), [1.0], waited_s=7.3, disturbed=0.9)
    assert two.next().news.startswith("the machine stays busy: 1 of 1 cases")


def test_rounds_are_shortened_where_six_would_not_fit_the_budget() -> None:
    """Rounds of 8 s take 10: of 95 % of 45 s, 32.75 s are left for five, 6.55 s each, 2 of them beside the samples."""
    assert give(rounds(budget_s=45.0), [1.0], 10.0).next().round_s == pytest.approx(4.55)
    assert give(rounds(budget_s=60.0), [1.0], 10.0).next().round_s == 8.0
    assert give(rounds(budget_s=45.0), [1.0], 12.0, waited_s=2.0).next().round_s == pytest.approx(4.55)
    assert give(rounds(budget_s=5.0), [1.0], 4.0).next().round_s == pytest.approx(0.15)
    assert give(rounds(budget_s=4.7), [1.0], 4.0).next().round_s == 0.1  # the shortest time of a case


def test_the_last_of_the_fewest_rounds_is_shortened_too() -> None:
    """Five of 8 s in a budget of 45: 95 % of it leave 2.75 s."""
    assert give(rounds(budget_s=45.0), SPREAD[:5]).next().round_s == pytest.approx(2.75)


def test_waiting_counts_against_all_rounds_so_far() -> None:
    assert give(rounds(), [1.0] * 2, waited_s=4.0, disturbed=0.9).next().news == ""
    assert give(rounds(), [1.0] * 2, waited_s=7.3, disturbed=0.9).next().news.startswith("the machine stays busy")


def test_waiting_that_was_of_no_use_ends() -> None:
    """One round of 8 s waited 7.2 s, and two of three cases were disturbed all the same."""
    third = Case(workload="launch", params={"mode": "stream"})

    def after(waited_s: float, disturbed: int) -> Rounds:
        three = rounds(CASE, OTHER, third)
        for n, case in enumerate((CASE, OTHER, third)):
            three.add(made(case, 1.0, 0, disturbed=0.9 if n < disturbed else 0.0, waited_s=waited_s / 3))
        three.ended(16.0)
        return three

    lost = after(7.3, 2)
    assert lost.next().news == "the machine stays busy: 2 of 3 cases were disturbed all the time; from here on rounds do not wait, a case that stays disturbed ends after 30 rounds, and a case with fewer than 3 undisturbed rounds uses its disturbed ones too"
    assert lost.hopeless
    assert (lost.next().news, lost.next().patience_s) == ("", 0.0)
    assert [after(7.1, 2).next().news, after(7.3, 1).next().news] == ["", ""]
    assert after(7.3, 1).next().patience_s > 0


@pytest.mark.parametrize(("waited_s", "measured"), [(7.3, 8), (0.0, 33)])
def test_where_the_machine_stays_busy_there_is_no_round_above_the_most(waited_s: float, measured: int) -> None:
    """Of at most 8 good rounds: where waiting is of use 33 bad ones, all but the last of which are replaced; else 8 in all."""
    busy = rounds()
    busy.options = MeasureOptions(rounds=6, rounds_max=8, round_s=8.0, budget_s=6000.0, precision=0.01)
    while busy.next().cases:
        give(busy, [1.0], waited_s=waited_s, disturbed=0.9)
        assert busy.number < 40
    assert (busy.number, busy.hopeless) == (measured, waited_s > 0)
    half = rounds(CASE, OTHER)
    half.add(made(CASE, 1.0, 0, disturbed=0.9, waited_s=8.0))
    half.add(made(OTHER, 1.0, 0, disturbed=0.0))
    half.ended(16.0)
    assert half.next().news == ""  # half of the cases are not most of them


def test_a_sustained_run_goes_on_until_its_time_is_over_and_waits_for_nothing() -> None:
    lasting = rounds(sustain_s=60.0, rounds=8, rounds_max=8, budget_s=60.0, precision=1.0)
    assert give(lasting, [1.0] * 6).next() == Next([CASE], 8.0, 0.0)
    assert give(lasting, [1.0]).next().cases == [CASE]
    assert give(lasting, [1.0]).next() == Next(stop=Stop("budget"))


def test_a_sustained_run_leaves_out_what_cannot_be_measured() -> None:
    lasting = rounds(CASE, OTHER, sustain_s=60.0)
    lasting.add(made(CASE, 1.0, 0))
    lasting.add(Samples(case=OTHER.id, device="d", round=0, status="not_run", reason="no"))
    lasting.ended(8.0)
    assert lasting.next() == Next([CASE], 4.0)
