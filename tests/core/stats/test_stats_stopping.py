"""How many rounds a precision takes: by hand, from Blom's scores."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from hotlap.core.stats import stopping
from hotlap.core.stats.stopping import Need, half_width, need, noise, widening

SPREAD = [0.96, 0.98, 1.0, 1.0, 1.02, 1.04]


def score(i: int, n: int) -> float:
    return NormalDist().inv_cdf((i - 0.375) / (n + 0.25))


@pytest.mark.parametrize(("n", "place"), [(2, 2), (5, 5), (6, 6), (8, 8), (9, 8), (12, 10), (30, 21), (1000, 532)])
def test_the_expected_half_width_is_a_normal_score_of_the_interval_s_rank(n: int, place: int) -> None:
    assert half_width(n) == pytest.approx(score(place, n))
    assert half_width(1) == math.inf


def test_half_widths_by_number() -> None:
    assert half_width(6) == pytest.approx(1.2815515655)  # (6 − 0.375) ÷ 6.25 = 0.9
    assert half_width(5) == pytest.approx(1.1797611176)
    assert half_width(30) == pytest.approx(score(21, 30))
    assert half_width(6, 0.5) == pytest.approx(score(5, 6))


def test_noise_is_the_distance_of_outer_quantiles_in_standard_deviations() -> None:
    """Of six values the quantiles at 10 % and 90 % lie half way between the outer two."""
    distance = score(6, 6) + score(5, 6)
    assert noise(SPREAD) == pytest.approx((1.03 - 0.97) / distance)
    assert noise([2 * x for x in SPREAD]) == pytest.approx(noise(SPREAD))
    assert noise([-x for x in SPREAD]) == pytest.approx(noise(SPREAD))
    assert noise(SPREAD[::-1]) == noise(SPREAD)
    assert noise([1.0, 1.1]) == pytest.approx(0.8 * 0.1 / (0.8 * 2 * score(2, 2)) / 1.05)
    assert noise([1.0] * 6) == 0.0


def test_nothing_is_known_of_one_value_or_about_zero() -> None:
    assert noise([]) == noise([1.0]) == noise([0.0] * 6) == math.inf
    assert need([], 0.01) == Need(math.inf, False, 6, None)
    assert need([0.0] * 6, 0.01) == Need(math.inf, False, 30, None)
    with pytest.raises(ValueError, match="not finite"):
        noise([1.0, math.nan])


def test_quantiles_are_linear_between_values() -> None:
    assert [stopping._quantile([1.0, 2.0, 4.0], share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1.0, 1.5, 2.0, 3.0, 4.0]


def test_six_rounds_are_the_fewest_however_quiet() -> None:
    assert need([1.0] * 5, 0.01) == Need(0.0, False, 6, 6)
    assert need([1.0] * 6, 0.01) == Need(0.0, True, 6, None)
    assert need([1.0] * 6, 0.01, fewest=9) == Need(0.0, True, 9, None)
    assert need([1.0] * 12, 0.01) == Need(0.0, True, 12, None)
    assert need([1.0] * 5, 0.01, most=5).rounds == 5
    assert need([1.0] * 2, 0.01, fewest=8, most=7).rounds == 7
    assert need([1.0] * 4, 0.01, fewest=3).rounds == 4


EXPECTED = (1.03 - 0.97) / (score(6, 6) + score(5, 6)) * score(6, 6)


def test_a_run_stops_early_only_with_room_to_spare() -> None:
    assert need(SPREAD, EXPECTED / 0.799).rounds == 6
    assert need(SPREAD, EXPECTED / 0.801).rounds == 12
    assert need(SPREAD, EXPECTED / 0.801).expected == pytest.approx(EXPECTED)


def test_more_rounds_are_asked_for_than_there_are() -> None:
    """Seven have a wider interval than six: the look at six rounds is over."""
    seven = [0.96, 0.98, 1.0, 1.0, 1.0, 1.02, 1.04]
    scale = noise(seven)
    between = scale * (half_width(6) + half_width(7)) / 2 / stopping.EARLY
    assert half_width(7) > half_width(6)
    assert need(seven, between).rounds == 12


def test_reached_needs_less_room_and_six_rounds() -> None:
    share = stopping.REACHED
    assert 0.9 < share < 1
    assert need(SPREAD, EXPECTED / (share - 1e-3)).reached
    assert not need(SPREAD, EXPECTED / (share + 1e-3)).reached
    assert need(SPREAD, EXPECTED / (share - 1e-3)).needed is None
    assert need(SPREAD, EXPECTED / (share + 1e-3)).needed == 12
    assert not need(SPREAD[:5], 1.0).reached
    assert need(SPREAD[:5], 1.0).needed == 6


@pytest.mark.parametrize("look", stopping.LOOKS[1:])
def test_the_next_look_is_the_first_at_which_the_precision_is_expected(look: int) -> None:
    scale = noise(SPREAD)
    asked = scale * half_width(look) / 0.8 * 1.0001
    assert need(SPREAD, asked, most=2000).rounds == look
    assert need(SPREAD, asked, most=look - 1).rounds == look - 1
    reached = scale * half_width(look) / stopping.REACHED * 1.0001
    assert need(SPREAD, reached).needed == look


def test_beyond_a_thousand_rounds_nothing_is_promised() -> None:
    assert need(SPREAD, 1e-5) == Need(pytest.approx(EXPECTED), False, 30, None)  # type: ignore[arg-type]
    assert need(SPREAD, 1e-5, most=6).rounds == 6
    assert need(SPREAD * 5, 1e-5).rounds == 30
    assert need(SPREAD * 2, 0.005, most=1000).rounds > 12


def test_looks_are_few_and_in_order() -> None:
    assert stopping.LOOKS == (6, 12, 20, 30, 45, 70, 100, 150, 220, 320, 460, 680, 1000)
    assert (stopping.FEWEST, stopping.EARLY, stopping.TAIL) == (6, 0.8, 0.1)


def test_what_was_reached_by_luck_is_widened() -> None:
    most = stopping.WIDEST
    assert most == 1.4
    assert [widening(share * 0.01, 0.01, True) for share in (0.0, 0.4, 0.6, 0.8, 0.93)] == pytest.approx([1, 1, 1.2, 1.4, 1.4])
    assert widening(0.008, 0.01, False) == widening(0.008, 0.01, None) == widening(None, 0.01, True) == widening(0.008, None, True) == 1.0
