"""Cache levels: those a machine states and those a sweep shows."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import examples
from hotlap.core.model import machines
from hotlap.core.model.levels import cache_levels, hierarchy, place

KIB, MIB = 2**10, 2**20
SIZES = [float(2**e) for e in range(14, 31)]  # 16 KiB to 1 GiB


def stairs(size: float, steps: list[tuple[float, float]]) -> float:
    return next(value for capacity, value in steps if size <= capacity)


CPU = [(32 * KIB, 400e9), (1 * MIB, 200e9), (32 * MIB, 90e9), (math.inf, 28e9)]


def test_the_plateaus_of_a_sweep_are_found_with_their_values_and_capacities() -> None:
    levels = cache_levels([(s, stairs(s, CPU)) for s in SIZES])
    assert [level.value for level in levels] == [400e9, 200e9, 90e9, 28e9]
    assert [level.capacity_bytes for level in levels[:-1]] == pytest.approx([math.sqrt(2) * 32 * KIB, math.sqrt(2) * MIB, math.sqrt(2) * 32 * MIB])
    assert levels[-1].capacity_bytes is None


@pytest.mark.parametrize("seed", range(20))
def test_a_few_percent_of_noise_make_no_levels(seed: int) -> None:
    rng = random.Random(seed)
    levels = cache_levels([(s, stairs(s, CPU) * math.exp(rng.gauss(0, 0.03))) for s in SIZES])
    assert len(levels) == 4
    assert [level.value for level in levels] == pytest.approx([400e9, 200e9, 90e9, 28e9], rel=0.1)


def test_a_transition_between_two_levels_is_not_a_level() -> None:
    points = [(s, 55e9 if s == 64 * MIB else stairs(s, CPU)) for s in SIZES]
    assert [level.value for level in cache_levels(points)] == [400e9, 200e9, 90e9, 28e9]


def test_the_rise_that_launches_cause_is_not_a_level() -> None:
    points = [(s, s / (s / stairs(s, [(40 * MIB, 6e12), (math.inf, 3e12)]) + 3e-6)) for s in SIZES]
    levels = cache_levels(points)
    assert levels[0].first_bytes >= 4 * MIB
    assert levels[-1].value == pytest.approx(3e12, rel=0.1)
    assert len(levels) <= 2


def test_latency_rises_from_level_to_level() -> None:
    steps = [(32 * KIB, 1.1e-9), (1 * MIB, 4e-9), (32 * MIB, 14e-9), (math.inf, 110e-9)]
    levels = cache_levels([(s, stairs(s, steps)) for s in SIZES], "latency")
    assert [level.value for level in levels] == [1.1e-9, 4e-9, 14e-9, 110e-9]


def test_a_flat_sweep_is_one_level_and_too_few_points_are_none() -> None:
    assert len(cache_levels([(s, 5e9) for s in SIZES])) == 1
    assert cache_levels([(1024, 5e9), (2048, 5e9)]) == []
    assert cache_levels([]) == []
    assert cache_levels([(1024, float("nan")), (0, 5e9), (2048, -1)]) == []


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.floats(1, 1e12), st.floats(1e-9, 1e15)), max_size=25), st.sampled_from(["bandwidth", "latency"]))
def test_levels_are_ordered_and_do_not_overlap(points: list[tuple[float, float]], what: str) -> None:
    levels = cache_levels(points, what)  # type: ignore[arg-type]
    for level in levels:
        assert level.first_bytes <= level.last_bytes
    for a, b in pairwise(levels):
        assert a.last_bytes < b.first_bytes
        assert a.capacity_bytes is not None
        assert a.last_bytes <= a.capacity_bytes * (1 + 1e-9) <= b.first_bytes * (1 + 2e-9)
        assert (a.value > b.value) is (what == "bandwidth")


def test_a_working_set_sees_the_level_that_holds_it_and_mixtures_are_named_neither() -> None:
    mi300x = machines.load("mi300x")
    assert [name for name, _ in hierarchy(mi300x)] == ["L2", "last-level cache"]
    assert [place(s * MIB, mi300x) for s in (16, 40, 200, 500, 2000)] == ["L2", "", "last-level cache", "", "memory"]
    assert place(1e9, None) == ""
    assert place(1e9, machines.load("b100")) == ""
