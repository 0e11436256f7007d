"""Which nodes of a fleet are off: shifts, tails, whole racks, and answers that cannot be had."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hotlap.core.record import Notice
from hotlap.core.stats.fleet import odd, together

Floats = NDArray[np.float64]


def fleet(nodes: int, metrics: int = 3, samples: int = 10, seed: int = 1, noise: float = 0.01) -> Floats:
    """Higher is better; healthy nodes lie 0.2 % apart."""
    rng = np.random.default_rng(seed)
    return 100 * np.exp(rng.normal(0, 0.002, (nodes, metrics, 1)) + rng.normal(0, noise, (nodes, metrics, samples)))


def test_a_slow_node_is_named_with_metric_and_size() -> None:
    x = fleet(200)
    x[17, 1] *= 0.97
    (one,) = odd(x).odd
    assert (one.node, one.metric, one.kind) == (17, 1, "shift")
    assert one.low < -0.03 < one.high < 0
    assert one.p < 1e-6


def test_one_sample_a_node_says_nothing_of_its_noise() -> None:
    assert odd(fleet(200, samples=1)).noise == [None] * 3
    assert odd(fleet(200)).noise == pytest.approx([0.01] * 3, rel=0.2)


def test_lower_is_better_turns_the_sign() -> None:
    x = 1 / fleet(200)
    x[17, 1] *= 1.04
    (one,) = odd(x, ["lower"] * 3).odd
    assert (one.node, one.metric) == (17, 1)
    assert one.size == pytest.approx(-0.04, abs=0.012)


def test_healthy_nodes_are_left_alone() -> None:
    assert sum(len(odd(fleet(1000, 10, seed=seed)).nodes) for seed in range(3)) <= 3


def test_a_fifth_of_the_nodes_may_be_bad_in_one_way() -> None:
    x = fleet(500)
    x[:100, 0] *= 0.96
    found = odd(x)
    assert set(range(100)) <= set(found.nodes)
    assert len(found.nodes) <= 102


def test_a_slow_tail_is_found_though_the_median_is_usual() -> None:
    x = fleet(300, samples=40)
    x[5, 2, ::4] *= 0.9
    (one,) = odd(x).odd
    assert (one.node, one.metric, one.kind) == (5, 2, "tail")
    assert one.tail == pytest.approx(0.25, abs=0.05)


def test_many_levels_on_ticks_are_no_two_groups() -> None:
    """In bytes a second a tick of 0.1 GB/s is a millionth of the logarithm: 2,000 nodes were taken for one lump and two groups."""
    for seed in range(6):
        levels = np.round(4200 * (1 + 0.004 * np.random.default_rng(seed).standard_normal(2000)), 1)
        assert not odd(1e9 * levels[:, None, None]).notices, seed


def test_two_groups_need_a_limit() -> None:
    x = fleet(200)
    x[:100, 0] *= 0.95
    found = odd(x)
    assert (found.odd, found.spread[0]) == ([], None)
    assert "two groups of nodes, 100 and 100, 5.0 % apart" in found.notices[0].text
    assert set(odd(x, limit=[101.0, None, None]).nodes) == set(range(100))
    assert set(odd(x, limit=[94.0, None, None]).nodes) == set(range(100, 200))


def test_spread_and_noise_are_learnt() -> None:
    found = odd(fleet(2000, 1, seed=3))
    assert found.spread[0] == pytest.approx(0.002, rel=0.25)
    assert found.noise[0] == pytest.approx(0.01, rel=0.1)


def test_missing_samples_and_nodes_are_borne() -> None:
    x = fleet(100)
    x[3] = np.nan
    x[:, 1, 4:] = np.nan
    x[8, 1] *= 0.9
    x[:97, 2] = np.nan
    found = odd(x)
    assert found.nodes == [8]
    assert found.notices == [Notice("small_fleet", "3 nodes have samples, 5 are needed", index=2)]
    x[96:, 2], x[0, 2] = np.nan, 1.0
    x[1:97, 2] = np.nan
    assert odd(x).notices == [Notice("small_fleet", "1 node has samples, 5 are needed", index=2)]


def test_few_nodes_are_no_fleet_and_a_small_one_needs_a_large_difference() -> None:
    assert "no fleet" in odd(fleet(4)).notices[0].text
    x = fleet(8, 1)
    x[2] *= 0.5
    assert odd(x).nodes == [2]
    assert odd(fleet(8, 1)).nodes == []


@pytest.mark.parametrize(("nodes", "slow"), [(10, [3]), (10, [3, 4]), (40, [3, 7, 11]), (500, [3, 7, 11])])
def test_slow_nodes_are_named_where_all_others_have_the_same_level(nodes: int, slow: list[int]) -> None:
    x = np.full((nodes, 1, 3), 2.945)
    x[slow] *= 0.95
    assert odd(x).nodes == slow
    assert odd(x).spread == [0.0]


@pytest.mark.parametrize("nodes", [5, 10, 40, 500])
@pytest.mark.parametrize("every", [2, 3, 5, 10])
def test_a_last_digit_names_nobody(nodes: int, every: int) -> None:
    """Numbers of three digits, as a table has them: 2.94 and 2.93."""
    x = np.full((nodes, 1, 1), 2.94)
    x[::every] = 2.93
    assert odd(x).odd == []


def test_numbers_of_few_digits_do_not_hide_slow_nodes_over_all_metrics() -> None:
    """Most levels of a metric are the same, so those over all metrics have a narrow middle; two nodes of 60 are 10 % slower in each."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        levels = np.array([41.2, 2.94, 3.70]) * np.exp(rng.normal(0, 0.002, (60, 3)))
        levels[[7, 33]] *= 0.9
        x = np.round(levels, 2)[:, :, None]
        known = odd(x)
        level, found = together(x, ["higher"] * 3, known)
        assert {7, 33} <= set(known.nodes)
        assert {7, 33} <= set(found.nodes)
        assert found.reach is not None
        assert found.reach[0] is not None
        assert found.reach[0] < 0.1
        assert all(abs(level[node]) < 0.02 for node in found.nodes if node not in (7, 33))


def test_constant_values_name_only_what_differs() -> None:
    x = np.full((50, 2, 5), 7.0)
    assert odd(x).odd == []
    x[9, 1] = 6.0
    assert odd(x).nodes == [9]


@pytest.mark.parametrize("wrong", [np.ones((3, 4)), np.zeros((9, 2, 3)), -np.ones((9, 2, 3))])
def test_other_shapes_and_values_are_refused(wrong: Floats) -> None:
    with pytest.raises(ValueError, match=r"needed|above zero"):
        odd(wrong)
    with pytest.raises(ValueError, match="one entry"):
        odd(fleet(9), ["lower"])
