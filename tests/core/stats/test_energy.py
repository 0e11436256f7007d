"""Energy of a window, against powers whose integral is known."""

import math

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.stats import energy


def ramp(rate, count, base=100.0, slope=10.0):
    times = np.arange(count) / rate
    return times.tolist(), (base + slope * times).tolist(), (base * times + slope * times**2 / 2).tolist()


def test_counter_and_integral_agree_with_the_truth():
    times, watts, joules = ramp(10, 101)
    stepped = [float(np.interp(math.floor(t / 0.1) * 0.1, times, joules)) for t in times]
    found = energy.window(0.0, 10.0, (times, watts), (times, stepped))
    assert found.source == "counter"
    assert abs(found.joules - 1500.0) <= found.error_j < 0.05 * 1500
    assert found.difference == pytest.approx(0, abs=0.03)
    assert found.sampled == pytest.approx(1.0)
    assert not found.notices


def test_a_counter_that_disagrees_is_said():
    times, watts, joules = ramp(10, 101)
    found = energy.window(0.0, 10.0, (times, watts), (times, [j * 1.5 for j in joules]))
    assert "one of them is wrong" in found.notices[0].text


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_the_integral_holds_across_gaps(seed):
    random = np.random.default_rng(seed)
    fine = np.linspace(0, 20, 20001)
    watts = 300 + 100 * np.sin(fine * random.uniform(0.2, 1.0))
    truth = float(np.sum((watts[1:] + watts[:-1]) / 2 * np.diff(fine)))
    kept = np.unique(random.choice(200, 150, replace=False)) * 100
    found = energy.window(0.0, 20.0, (fine[kept].tolist(), watts[kept].tolist()))
    assert found.source == "integral"
    assert abs(found.joules - truth) <= found.error_j


def test_failed_readings_and_counters_that_go_back():
    times, watts, joules = ramp(10, 101)
    watts[50:80] = [None] * 30
    joules[60] = 0.0
    found = energy.window(0.0, 10.0, (times, watts), (times, joules))
    assert found.source == "integral"
    assert "went back" in found.notices[0].text
    assert found.sampled < 0.75
    assert abs(found.joules - 1500) <= found.error_j


def test_nothing_is_none_and_not_zero():
    found = energy.window(0.0, 1.0)
    assert (found.joules, found.error_j, found.source, found.sampled) == (None, None, "none", 0.0)
    with pytest.raises(InputError, match="empty"):
        energy.window(1.0, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_counter_holds_however_it_steps(seed):
    random = np.random.default_rng(seed)
    every = float(random.uniform(0.02, 0.4))
    fine = np.linspace(-1, 31, 320_001)
    watts = 300 + 150 * np.sin(fine * random.uniform(0.2, 2.0))
    joules = np.concatenate([[0.0], np.cumsum((watts[1:] + watts[:-1]) / 2 * np.diff(fine))])
    phase = random.uniform(0, every)

    def counter(t):
        return np.interp(np.floor((t - phase) / every) * every + phase, fine, joules)

    close = np.arange(0, 0.25, 0.005)
    times = np.unique(np.concatenate([close, np.arange(0, 30.01, random.uniform(0.3, 2.0))]))
    begin, end = random.uniform(0, 3), random.uniform(25, times[-1])
    truth = float(np.interp(end, fine, joules) - np.interp(begin, fine, joules))
    at = np.linspace(0, 30, 301)
    found = energy.window(begin, end, (at.tolist(), np.interp(at, fine, watts).tolist()), (times.tolist(), counter(times).tolist()))
    assert found.source == "counter"
    assert abs(found.joules - truth) <= found.error_j


def test_a_counter_that_was_read_closely_for_a_moment_has_a_small_bound():
    times = np.concatenate([np.arange(50) * 0.005, np.arange(1, 61)])
    joules = np.floor(times / 0.02 + 1e-9) * 0.02 * 100.0
    found = energy.window(0.0, 60.0, (np.arange(61.0).tolist(), [100.0] * 61), (times.tolist(), joules.tolist()))
    assert found.joules == pytest.approx(6000.0)
    assert 100 * 0.02 <= found.error_j <= 100 * 0.03


def test_a_counter_read_once_a_second_may_lag_by_a_second():
    times, joules = np.arange(3.0), np.arange(3.0) * 84
    found = energy.window(0.0, 2.0, (times.tolist(), [84.0] * 3), (times.tolist(), joules.tolist()))
    assert (found.joules, found.error_j) == (168.0, 84.0)
