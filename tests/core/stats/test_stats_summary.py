"""Intervals against published ranks and by counting, summaries of every odd input, warnings that say what to do."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.record import Summary, encode
from hotlap.core.stats import stopping, summary
from hotlap.core.stats.order import interval, ranks, whole_range
from hotlap.core.stats.summary import autocorrelation, effective, outliers, summarize

# Two-sided 5 % points of the sign test: Dixon and Mood, J. Am. Stat. Assoc. 41 (1946) 557, table 1; the rank of the
# interval is one more (Conover 1999, 3.2). Up to 25 the same as Triola, Elementary Statistics, table A-7.
SIGN_TEST_5 = {
    6: 0, 7: 0, 8: 0, 9: 1, 10: 1, 11: 1, 12: 2, 13: 2, 14: 2, 15: 3, 16: 3, 17: 4, 18: 4, 19: 4, 20: 5, 25: 7, 30: 9, 35: 11, 40: 13,
    45: 15, 50: 17, 60: 21, 70: 26, 80: 30, 90: 35, 100: 39,
}


class TestInterval:
    @pytest.mark.parametrize(("n", "critical"), SIGN_TEST_5.items())
    def test_published_ranks(self, n: int, critical: int) -> None:
        assert ranks(n)[0] == critical + 1

    def test_six_rounds_are_the_fewest(self) -> None:
        assert interval([1, 2, 3, 4, 5]) is None
        assert interval([6, 1, 5, 2, 4, 3]) == (1.0, 6.0, 0.96875)
        assert interval([]) is None

    @pytest.mark.parametrize(
        ("n", "attained"), [(8, 0.9921875), (9, 0.9609375), (10, 0.978515625), (12, 0.96142578125), (20, 0.958610534668)],
    )
    def test_attained_confidence(self, n: int, attained: float) -> None:
        """1 − 2·P(Binomial(n, ½) < rank), in fractions of 2^n; for n = 10: ranks 2 and 9, 97.85 %."""
        assert ranks(n)[1] == pytest.approx(attained, abs=1e-12)

    @pytest.mark.parametrize("n", range(6, 13))
    def test_coverage_by_counting_every_case(self, n: int) -> None:
        """All 2^n ways in which n values can lie below or above a median of 0 are equally likely."""
        held = 0
        for signs in itertools.product((-1, 1), repeat=n):
            found = interval([sign * (i + 1) for i, sign in enumerate(signs)])
            assert found
            held += found[0] <= 0 <= found[1]
        rank, attained = ranks(n)
        assert held / 2**n == attained >= 0.95
        assert 1 - 2 * sum(math.comb(n, k) for k in range(rank + 1)) / 2**n < 0.95  # one rank further in is too narrow

    @pytest.mark.parametrize("n", [6, 15, 40])
    def test_coverage_by_simulation_of_skewed_data(self, n: int) -> None:
        rng, runs = np.random.default_rng(n), 3000
        found = [interval(rng.lognormal(0, 1, n).tolist()) for _ in range(runs)]
        held = sum(one is not None and one[0] <= 1.0 <= one[1] for one in found) / runs
        assert held == pytest.approx(ranks(n)[1], abs=4 * math.sqrt(0.05 * 0.95 / runs))

    def test_large_n_agrees_with_the_normal_approximation(self) -> None:
        for n in (1001, 10_000, 1_000_000):
            rank, attained = ranks(n)
            assert rank == pytest.approx(n / 2 - 1.96 * math.sqrt(n) / 2, abs=2)
            assert 0.95 <= attained < 0.9525

    def test_both_ways_of_counting_agree(self) -> None:
        n = 1001
        exact = 1 - 2 * sum(math.comb(n, k) for k in range(ranks(n)[0])) / 2**n
        assert ranks(n)[1] == pytest.approx(exact, abs=1e-9)

    def test_other_confidences(self) -> None:
        assert interval([1, 2], 0.5) == (1.0, 2.0, 0.5)
        assert interval(range(1, 9), 0.99) == (1.0, 8.0, 0.9921875)
        for bad in (0, 1, 95):
            with pytest.raises(ValueError, match="between 0 and 1"):
                interval([1, 2, 3], bad)

    def test_of_few_values_the_whole_range(self) -> None:
        assert whole_range([5, 1, 2, 4, 3]) == (1.0, 5.0, 0.9375)
        assert whole_range([2, 1]) == (1.0, 2.0, 0.5)
        assert whole_range([1]) is None
        assert whole_range([]) is None

    def test_what_is_not_finite_is_refused(self) -> None:
        with pytest.raises(ValueError, match="1 of 7 values are not finite"):
            interval([1, 2, 3, 4, 5, 6, math.nan])


class TestAutocorrelation:
    def test_by_hand(self) -> None:
        assert autocorrelation([1, 2, 3, 4, 5]) == pytest.approx(0.4)  # (2 + 0 + 0 + 2) ÷ 10
        assert autocorrelation([1, -1] * 50) == pytest.approx(-0.99)

    def test_unknown(self) -> None:
        assert autocorrelation([]) is None
        assert autocorrelation([1, 2]) is None
        assert autocorrelation([3.3] * 10) is None

    @pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
    def test_of_an_autoregressive_series_with_and_without_spikes(self, phi: float) -> None:
        rng = np.random.default_rng(5)
        x = np.zeros(5000)
        for i in range(1, len(x)):
            x[i] = phi * x[i - 1] + rng.normal() * math.sqrt(1 - phi**2)
        assert autocorrelation(10 + x) == pytest.approx(phi, abs=0.05)
        x[rng.random(len(x)) < 0.01] += 50
        assert autocorrelation(10 + x) == pytest.approx(phi, abs=0.1)  # the plain estimate would be under 0.05

    def test_effective(self) -> None:
        assert effective(100, 0.0) == 100
        assert effective(100, 0.5) == pytest.approx(100 / 3)
        assert effective(100, -0.5) == 100
        assert effective(100, 1.0) == 1
        assert effective(1, 0.5) == 1
        assert effective(0, 0.5) == 0


class TestOutliers:
    def test_tukey(self) -> None:
        x = [*range(1, 12), 30]  # quartiles 3.75 and 9.25: far out is beyond 9.25 + 3 · 5.5 = 25.75
        assert np.flatnonzero(outliers(x)).tolist() == [11]
        assert not outliers([*range(1, 12), 25]).any()
        assert outliers([*range(1, 12), 20], fence=1.5).any()  # beyond 17.5

    def test_ticks_of_a_timer_are_not_outliers_of_each_other(self) -> None:
        assert not outliers([10.0] * 90 + [10.01] * 10).any()
        assert outliers([10.0] * 99 + [11.0]).sum() == 1

    def test_few_values_have_none(self) -> None:
        assert outliers([]).tolist() == []
        assert outliers([1, 1, 1, 100]).tolist() == [False] * 4


def names(summary: Summary, *words: str) -> bool:
    return any(all(word in notice.text for word in words) for notice in summary.notices)


class TestSummarize:
    def test_by_hand(self) -> None:
        got = summarize([10.0, 11.0, 12.0, 13.0, 14.0, 15.0], [[10.0] * 5, [11.0] * 5])
        assert (got.rounds, got.median, got.low, got.high, got.confidence) == (6, 12.5, 10.0, 15.0, 0.96875)
        assert got.half_width == pytest.approx(0.2)
        assert got.mad_between_rounds == pytest.approx(1.4826 * 1.5 / 12.5)
        assert got.mad_within_rounds == 0.0
        assert (got.samples, got.effective, got.outliers) == (10, 2.0, 0)
        assert got.quantiles == {"p1": 10.0, "p5": 10.0, "p25": 10.0, "p50": 10.5, "p75": 11.0, "p95": 11.0, "p99": 11.0}

    def test_quantiles_are_of_type_7(self) -> None:
        """Hyndman and Fan (1996), definition 7: the p-quantile of 1 … 5 is 1 + 4p."""
        got = summarize([3], [[5, 3, 1, 2, 4]]).quantiles
        assert got == pytest.approx({"p1": 1.04, "p5": 1.2, "p25": 2, "p50": 3, "p75": 4, "p95": 4.8, "p99": 4.96})

    def test_nothing(self) -> None:
        got = summarize([])
        assert got == Summary(rounds=0, notices=got.notices)
        assert names(got, "nothing was measured", "run again")

    def test_one_value(self) -> None:
        got = summarize([5.0])
        assert (got.rounds, got.median, got.low, got.half_width, got.mad_between_rounds, got.effective) == (1, 5.0, None, None, None, None)
        assert names(got, "6 rounds needed for a 95 % interval", "there is 1", "--rounds 6")

    @pytest.mark.parametrize(("n", "confidence"), [(2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)])
    def test_fewer_than_six_rounds_have_the_confidence_of_their_range(self, n: int, confidence: float) -> None:
        got = summarize(list(range(1, n + 1)), precision=0.5)
        assert (got.low, got.high, got.confidence) == (1.0, n, confidence)
        assert got.half_width == pytest.approx((n - 1) / 2 / ((n + 1) / 2))
        assert got.reached is False
        assert names(got, "6 rounds needed", f"there are {n}", "--rounds 6")

    def test_the_best_round_is_the_one_that_foreign_programs_disturbed_least(self) -> None:
        values = [3.0, 1.0, 2.0]
        assert [summarize(values, better=better).best for better in ("higher", "lower", "")] == [3.0, 1.0, None]

    def test_a_precision_says_what_it_takes(self) -> None:
        assert (summarize([1.0] * 6).expected, summarize([1.0] * 6).reached, summarize([1.0] * 6).needed) == (None, None, None)
        got = summarize([1.0] * 6, precision=0.01)
        assert (got.expected, got.reached, got.needed, got.low, got.high) == (0.0, True, None, 1.0, 1.0)
        one = summarize([1.0], precision=0.01)
        assert (one.expected, one.reached, one.needed, one.low) == (None, False, None, None)

    def test_an_interval_that_was_reached_by_luck_is_widened_about_its_median(self) -> None:
        """Expected half-width: the noise × the expected largest of six normal values (Blom: 1.2815); 0.8 of the precision widens most."""
        values = [99.0, 99.4, 100.0, 100.2, 100.6, 101.2]
        need = stopping.need(values, 1.0)
        precise = need.expected / 0.8
        got = summarize(values, precision=precise)
        assert got.reached
        assert (got.low, got.high) == (pytest.approx(100.1 - stopping.WIDEST * 1.1), pytest.approx(100.1 + stopping.WIDEST * 1.1))
        assert got.half_width == pytest.approx(stopping.WIDEST * 1.1 / 100.1)
        plain = summarize(values, precision=need.expected / 0.4)
        assert (plain.low, plain.high) == (99.0, 101.2)
        short = summarize(values, precision=need.expected / 0.95)
        assert (short.low, short.high, short.reached) == (99.0, 101.2, False)

    def test_constant(self) -> None:
        got = summarize([2.0] * 6, [[2.0] * 10] * 6)
        assert (got.median, got.low, got.high, got.half_width, got.mad_between_rounds, got.mad_within_rounds) == (2.0, 2.0, 2.0, 0.0, 0.0, 0.0)
        assert got.effective == 6  # nothing is known of the samples inside a round
        assert got.notices == []

    def test_zero(self) -> None:
        got = summarize([0.0] * 6, [[0.0] * 6] * 6)
        assert (got.median, got.half_width, got.mad_between_rounds, got.mad_within_rounds) == (0.0, None, None, None)
        assert names(got, "median is zero", "takes longer")

    def test_not_finite(self) -> None:
        got = summarize([1, 2, 3, 4, 5, 6, math.nan, math.inf], [[1, 2, 3, 4, 5, -math.inf]])
        assert (got.rounds, got.median, got.confidence, got.samples) == (6, 3.5, 0.96875, 5)
        assert names(got, "2 of 8 rounds", "left out", "hotlap show")
        assert names(got, "1 of 6 samples", "left out")
        only = summarize([math.nan] * 6)
        assert (only.rounds, only.median) == (0, None)

    def test_dependent_samples(self) -> None:
        wave = np.sin(np.arange(200) / 20) + 10
        got = summarize([10.0] * 6, [wave.tolist()] * 6)
        assert got.effective is not None
        assert got.effective < 60
        assert names(got, "1200 samples are worth", "more rounds")

    def test_outliers_are_marked_and_kept(self) -> None:
        rng = np.random.default_rng(2)
        samples = [[*(10 + rng.normal(size=45) * 0.1), *[20.0] * 5] for _ in range(6)]
        got = summarize([10.0] * 6, samples)
        assert (got.outliers, got.samples) == (30, 300)
        assert got.quantiles["p99"] == 20.0
        assert names(got, "30 of 300 samples lie far", "other programs")

    def test_processes_that_differ(self) -> None:
        rng = np.random.default_rng(3)
        centres = [10.0, 10.5, 11.0, 10.1, 10.9, 10.3]
        got = summarize(centres, [(c + rng.normal(size=50) * 0.01).tolist() for c in centres])
        assert got.mad_between_rounds is not None
        assert got.mad_within_rounds is not None
        assert got.mad_within_rounds == pytest.approx(0.001, rel=0.3)
        assert got.mad_between_rounds > 10 * got.mad_within_rounds
        assert names(got, "rounds differ by", "raise --rounds")

    def test_one_outlier_in_twenty_is_not_many(self) -> None:
        rng = np.random.default_rng(2)
        samples = [[*(10 + rng.normal(size=95) * 0.1), *[20.0] * 5]]
        assert not names(summarize([10.0] * 6, samples), "lie far")
        assert names(summarize([10.0] * 6, [[*samples[0], 20.0]]), "6 of 101 samples lie far")

    def test_more_than_six_rounds_may_differ_as_well(self) -> None:
        centres = [10.0, 10.5, 11.0, 10.1, 10.9, 10.3, 10.6]
        assert names(summarize(centres, [[c] * 5 for c in centres]), "rounds differ by")
        assert not names(summarize(centres[:5], [[c] * 5 for c in centres[:5]]), "rounds differ by")

    def test_rounds_that_drift(self) -> None:
        assert names(summarize([10.0, 10.2, 10.4, 10.6, 10.8, 11.0]), "drift", "temperature")

    def test_rounds_in_two_groups(self) -> None:
        rng = np.random.default_rng(4)
        values = 10 + rng.normal(size=40) * 0.01 + rng.permutation([0.0] * 25 + [1.0] * 15)
        assert names(summarize(values.tolist()), "two groups", "hotlap show")

    def test_few_samples(self) -> None:
        assert names(summarize([1.0] * 6, [[1.0, 1.0]] * 6), "6 of 6 rounds have fewer than 5 samples", "--round-time")

    def test_a_clean_run_has_no_warnings(self) -> None:
        rng = np.random.default_rng(6)
        samples = [(10 + rng.normal(size=100) * 0.05).tolist() for _ in range(6)]
        got = summarize([float(np.median(one)) for one in samples], samples)
        assert got.notices == []
        assert got.mad_within_rounds == pytest.approx(0.005, rel=0.2)
        assert got.half_width is not None
        assert got.half_width < 0.005


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
PLAIN = st.floats(1e-6, 1e6)


@settings(max_examples=examples(200))
@given(st.lists(NUMBERS, max_size=12), st.lists(st.lists(NUMBERS, max_size=8), max_size=4))
def test_every_input_gives_a_summary_of_finite_numbers_in_order(values: list[float], samples: list[list[float]]) -> None:
    got = summarize(values, samples)
    flat = [got.median, got.low, got.high, got.confidence, got.half_width, got.mad_between_rounds, got.mad_within_rounds, got.effective, *got.quantiles.values()]
    assert all(number is None or math.isfinite(number) for number in flat)
    if got.low is not None and got.median is not None and got.high is not None:
        assert got.low <= got.median <= got.high
        assert got.confidence is not None
        assert (got.confidence >= 0.95) == (got.rounds >= 6)
    quantiles = list(got.quantiles.values())
    assert all(a <= b or math.isclose(a, b) for a, b in itertools.pairwise(quantiles))
    assert got.effective is None or got.effective <= got.samples
    assert msgspec.json.decode(encode(got), type=Summary) == got


@settings(max_examples=examples(100))
@given(st.lists(PLAIN, min_size=6, max_size=30), st.floats(1e-3, 1e3), st.randoms())
def test_the_unit_and_the_order_do_not_matter(values: list[float], scale: float, random: object) -> None:
    a, b = summarize(values), summarize([value * scale for value in sorted(values)])
    assert a.median is not None
    assert b.median == pytest.approx(a.median * scale)
    assert b.half_width == pytest.approx(a.half_width)
    assert b.mad_between_rounds == pytest.approx(a.mad_between_rounds, abs=1e-9)
    assert b.confidence == a.confidence


def test_quantiles_are_numpy_s_to_the_last_bit() -> None:
    rng = np.random.default_rng(5)
    for count in (*range(1, 40), 170, 1000):
        values = np.sort(rng.lognormal(size=count))
        shares = [q / 100 for q in summary.QUANTILES] + [0.25, 0.75]
        assert summary._quantiles(values, shares) == np.quantile(values, shares).tolist()
