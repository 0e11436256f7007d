"""The group-sequential test against published boundaries and powers, and how often it errs; seeds are fixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import ANSWERS, SequentialDesign, boundary, crossings, decide, design, fixed_power, follow, needed, noise

PLAN = design(0.01, 0.01)


def pairs(seed: int, series: int, n: int, true: float = 1.0, sd: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms, normal noise."""
    rng = np.random.default_rng(seed)
    return sd * rng.normal(size=(series, n)), math.log(true) + sd * rng.normal(size=(series, n))


# ---------------------------------------------------------------- published numbers


@pytest.mark.parametrize(
    ("looks", "shape", "c"),
    [
        # Jennison and Turnbull, Group Sequential Methods, 2000, tables 2.1 (Pocock) and 2.3 (O'Brien and Fleming), 5 %
        (2, 0.5, 2.178), (5, 0.5, 2.413), (10, 0.5, 2.555), (2, 0.0, 1.977), (5, 0.0, 2.040), (10, 0.0, 2.087),
    ],
)  # fmt: skip
def test_boundaries_are_the_published_ones(looks: int, shape: float, c: float) -> None:
    bounds = boundary(tuple(range(10, 10 * looks + 1, 10)), shape, 0.05)
    assert bounds[-1] == pytest.approx(c, abs=0.001)
    assert bounds[0] == pytest.approx(c * looks ** (0.5 - shape), abs=0.004)


def test_pairs_of_a_fixed_size_test() -> None:
    """A mean of half a standard deviation takes 34 pairs for 80 % and 44 for 90 % at 5 %, two-sided (Cohen, Statistical
    Power Analysis, 2nd ed. 1988, 2.4; any power calculator)."""
    sd = math.log1p(0.01) / 0.5 / math.sqrt(2)
    assert needed(sd, 0.01) == 34
    assert needed(sd, 0.01, power=0.9) == 44
    assert fixed_power(34, 0.5, 0.05) == pytest.approx(0.8078, abs=0.0005)


def test_power_of_t_against_simulation() -> None:
    rng = np.random.default_rng(1)
    for n, step in ((4, 1.5), (6, 1.0), (12, 0.8)):
        d = step + rng.normal(size=(100_000, n))
        t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / math.sqrt(n))
        assert fixed_power(n, step, 0.05) == pytest.approx(np.mean(np.abs(t) > sequential.quantile(0.975, n - 1)), abs=0.005)


def test_crossings_sum_to_the_level_and_to_the_power_of_one_look() -> None:
    assert sum(crossings(PLAN.looks, PLAN.bounds, 0.0)) == pytest.approx(sequential.CAREFUL * 0.05, abs=1e-6)
    assert crossings((16,), (1.959964,), 0.5)[0] == pytest.approx(0.5160, abs=0.0005)


# ---------------------------------------------------------------- the plan


@pytest.mark.slow("designs of many looks")
@pytest.mark.parametrize(("sd", "difference"), [(0.01, 0.01), (0.02, 0.01), (0.01, 0.003), (0.05, 0.05)])
def test_a_plan_stays_within_105_percent_and_saves_on_average(sd: float, difference: float) -> None:
    plan = design(sd, difference)
    assert plan.pairs <= 1.05 * plan.fixed
    assert plan.average <= 0.9 * plan.fixed
    assert plan.attained >= 0.8
    assert plan.looks[-1] == plan.pairs
    assert list(plan.bounds) == sorted(plan.bounds, reverse=True)
    assert plan.min_effect == difference / 4
    assert plan.notices == ()


def test_a_quiet_case_takes_the_fewest_pairs_in_one_look() -> None:
    plan = design(1e-4, 0.05)
    assert (plan.pairs, plan.looks) == (sequential.FEWEST, (sequential.FEWEST,))


@pytest.mark.slow("error rate by simulation")
def test_pilot_pairs_that_stay_in_the_test_are_paid_for() -> None:
    assert design(0.02, 0.01, pilot=6).bounds[-1] > design(0.02, 0.01).bounds[-1]
    assert design(0.001, 0.05, pilot=20).pairs >= 20


def test_too_much_to_ask_is_refused_or_said() -> None:
    with pytest.raises(ValueError, match="ask for a larger difference"):
        design(0.5, 1e-4)
    with pytest.raises(ValueError, match="min_effect"):
        design(0.01, 0.01, min_effect=0.01)


@pytest.mark.parametrize(("sd", "difference", "power"), [(0.0, 0.01, 0.8), (-1, 0.01, 0.8), (math.nan, 0.01, 0.8), (0.01, 0.0, 0.8), (0.01, math.inf, 0.8), (0.01, 0.01, 1.0), (0.01, 0.01, 0.01)])
def test_numbers_out_of_range(sd: float, difference: float, power: float) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        needed(sd, difference, power)


def test_noise_of_a_pilot() -> None:
    x, y = pairs(2, 300, 5)
    found = [noise(np.exp(a), np.exp(b)) for a, b in zip(x, y, strict=True)]
    assert math.sqrt(np.mean(np.square(found))) == pytest.approx(0.01, rel=0.05)
    slow = np.exp(np.linspace(0, 0.02, 10))  # a drift that pairs take off
    assert noise(slow[[0, 3, 4, 7, 8]], slow[[1, 2, 5, 6, 9]]) < 0.003
    with pytest.raises(ValueError, match="3 pairs"):
        noise([1.0, 1.0], [1.0, 1.0])


# ---------------------------------------------------------------- deciding


@pytest.mark.slow("error rate by simulation")
def test_error_rates_while_peeking_at_every_look() -> None:
    """Rates with room of three standard errors; `benchmarks/ab.py` measures them closely."""
    answers, used, low, high = follow(PLAN, *pairs(3, 6000, PLAN.pairs))
    assert np.mean((answers == 1) | (answers == 2)) <= 0.058
    assert np.mean((low <= 0) & (high >= 0)) >= 0.94
    assert set(used) <= set(PLAN.looks)
    answers, used, low, high = follow(PLAN, *pairs(4, 6000, PLAN.pairs, 1.01))
    assert np.mean(answers == 1) >= 0.785
    assert np.mean(answers == 2) < 0.001
    assert np.mean(answers == 3) <= 0.06
    assert used.mean() <= 0.9 * PLAN.fixed
    assert np.mean((low <= math.log(1.01)) & (high >= math.log(1.01))) >= 0.95


@pytest.mark.slow("error rate by simulation")
def test_deciding_one_by_one_gives_what_following_many_gives() -> None:
    x, y = pairs(5, 40, PLAN.pairs, 1.007)
    answers, used, low, high = follow(PLAN, x, y)
    for i in range(40):
        found = decide(PLAN, np.exp(x[i]), np.exp(y[i]))
        assert (found.answer, found.pairs) == (ANSWERS[answers[i]], used[i])
        assert found.low == pytest.approx(math.exp(low[i]))
        assert found.high == pytest.approx(math.exp(high[i]))
        before = decide(PLAN, np.exp(x[i, : used[i] - 1]), np.exp(y[i, : used[i] - 1]))
        assert before.answer == "continue"


def test_between_looks_there_is_no_test_and_an_answer_stands() -> None:
    x, y = (np.exp(side[0]) for side in pairs(6, 1, PLAN.pairs, 1.05))
    first = PLAN.looks[0]
    early = decide(PLAN, x[: first - 1], y[: first - 1])
    assert (early.answer, early.look, early.ratio) == ("continue", 0, None)
    assert str(first) in early.reason
    found = decide(PLAN, x[:first], y[:first])
    assert (found.answer, found.look) == ("larger", 1)
    assert decide(PLAN, x[: first + 1], y[: first + 1]) == found
    assert decide(PLAN, [*x, 1.0], [*y, 100.0]) == found
    assert decide(PLAN, y, x).answer == "smaller"


def test_after_the_last_look_there_is_an_answer_and_what_could_be_seen() -> None:
    x, y = pairs(7, 300, PLAN.pairs, 1.005)
    open_ = np.flatnonzero(follow(PLAN, x, y).answers == 4)[0]
    found = decide(PLAN, np.exp(x[open_]), np.exp(y[open_]))
    assert (found.answer, found.pairs, found.look) == ("inconclusive", PLAN.pairs, len(PLAN.looks))
    assert found.mde == pytest.approx(0.0075, rel=0.6)


def test_the_gate_keeps_small_differences_back() -> None:
    x, y = pairs(8, 200, 18, 1.003, sd=0.0005)
    strict, open_ = (follow(design(0.01, 0.01, min_effect=min_effect), x, y).answers for min_effect in (0.005, 0.0))
    assert set(strict) == {3}  # significant, but below the gate and within the margin: the same
    assert 1 in set(open_)


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_values_without_noise(factor: float) -> None:
    found = decide(PLAN, [2.0] * 18, [2.0 * factor] * 18)
    assert found.answer == ("same" if factor == 1 else "larger")
    assert found.ratio == pytest.approx(factor)
    assert decide(design(0.001, 0.05, min_effect=0.0), [2.0] * 6, [2.2] * 6).answer == "larger"


@pytest.mark.slow("error rate by simulation")
def test_a_wild_run_and_ticks_are_borne() -> None:
    x, y = pairs(9, 400, PLAN.pairs, 1.02)
    x[:, 5] += 3
    assert np.mean(follow(PLAN, x, y).answers == 1) > 0.9
    ticks = [np.log(np.round(np.exp(side) * 100) / 100) for side in pairs(10, 6000, PLAN.pairs)]
    answers = follow(PLAN, *ticks).answers
    assert np.mean((answers == 1) | (answers == 2)) <= 0.06


@pytest.mark.parametrize(("a", "b"), [([1.0] * 9, [1.0] * 8), ([1.0] * 8 + [0.0], [1.0] * 9), ([1.0] * 8 + [math.nan], [1.0] * 9), ([-1.0] * 9, [1.0] * 9)])
def test_bad_input_is_one_line(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        decide(PLAN, a, b)


def test_a_plan_is_a_frozen_record() -> None:
    assert isinstance(PLAN, SequentialDesign)
    with pytest.raises(AttributeError):
        PLAN.pairs = 3  # type: ignore[misc]

def test_a_power_that_is_as_good_as_asked_is_no_notice() -> None:
    """Whatever number of pairs there is room for, no power is said not to be what it is."""
    plans = [design(0.1, 0.08, pilot=10, most=most) for most in range(20, 120)]
    short = [plan for plan in plans if plan.notices]
    assert 0 < len(short) < len(plans)
    assert any(sequential.POWER - sequential.GAINED <= plan.attained < sequential.POWER for plan in plans)
    for plan in plans:
        assert bool(plan.notices) == (not plan.enough)
    assert not any(" in 80 % of cases" in plan.notices[0].text for plan in short)
    assert all(plan.notices[0].text.endswith(" % of cases, not in 80 %") for plan in short)


def test_pairs_that_would_answer_are_those_of_a_plan_for_the_change_seen() -> None:
    rng = np.random.default_rng(4)
    asked = sequential.SequentialOptions(0.05, 0.0125)
    noise_a, noise_b = rng.normal(0, 0.05, (2, 40))
    noise_a, noise_b = noise_a - noise_a.mean(), noise_b - noise_b.mean()
    counts = [sequential.wanted(np.exp(noise_a), np.exp(noise_b) * factor, asked) for factor in (1.0, 1.02, 1.035, 1.06, 1.2)]
    assert None not in counts
    known = [count for count in counts if count is not None]
    assert known[0] < known[1]  # nearer to the margin sameness takes more
    assert known[2] > known[3] >= known[4] == sequential.PILOT  # a larger change takes fewer
    louder = sequential.wanted(np.exp(3 * noise_a), np.exp(3 * noise_b) * 1.06, asked)
    assert louder is not None
    assert 6 * known[3] < louder < 12 * known[3]  # as the square of the noise
    assert sequential.change(np.exp(noise_a), np.exp(noise_b) * 1.06) == pytest.approx(0.06, abs=0.01)


def test_as_many_pairs_as_wanted_answer_in_about_80_percent() -> None:
    rng, asked = np.random.default_rng(5), sequential.SequentialOptions(0.05, 0.0125)
    logs_a, logs_b = rng.normal(0, 0.03, (2, 18))
    a, b = np.exp(logs_a - logs_a.mean()), np.exp(logs_b - logs_b.mean()) * 1.045
    count = sequential.wanted(a, b, asked)
    assert count is not None
    sd = noise(a, b)
    answers = []
    for _ in range(40):
        x, y = np.exp(rng.normal(0, sd, (2, count)))
        _, decision = sequential.trial(x, y * (1 + sequential.change(a, b)), asked._replace(most=count), ended=True)
        assert decision is not None
        answers.append(decision.answer in ("larger", "same"))
    assert sum(answers) >= 26  # of 40 at 80 %: fewer come by chance once in 100


def test_where_no_number_of_pairs_answers_none_is_named() -> None:
    rng = np.random.default_rng(6)
    a, b = np.exp(rng.normal(0, 3.0, (2, 5)))
    level = np.exp(rng.normal(0, 5.0, 12))
    assert sequential.wanted(level, level[::-1], sequential.SequentialOptions(0.0002, 0.00005)) is None  # more than 100,000
    assert sequential.wanted(a, b, sequential.SequentialOptions(0.05, 0.0125)) is None
