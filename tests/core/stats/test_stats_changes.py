"""Change points: what is found, what is not, and that what is settled stays."""

from __future__ import annotations

import math
import warnings

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import FULL, draws
from hotlap.core.stats import levels, split
from hotlap.core.stats.changes import SHORTEST, SPAN, STEP, Change, changes


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(("points", "seen"), [(SHORTEST - 1, 0), (SHORTEST, 1)])
def test_the_shortest_series_in_which_the_clearest_step_is_a_change(points: int, seen: int) -> None:
    values = 100 * np.random.default_rng(1).normal(1, 0.002, points)
    values[points // 2 :] /= 2
    assert len(changes(values)) == seen


def noise(kind: str, series: int, points: int = 200, seed: int = 1) -> np.ndarray:
    """About 100, standard deviation about 1 % (robust)."""
    r = np.random.default_rng(seed)
    shape = (series, points)
    if kind == "t3":
        x = 0.88 * r.standard_t(3, size=shape)
    elif kind == "spikes":
        x = r.normal(size=shape) + 20 * (r.random(shape) < 0.02)
    elif kind == "quantised":
        x = np.round(r.normal(size=shape))
    elif kind.startswith("ar"):
        phi = float(kind[2:])
        e = r.normal(size=(series, points + 100)) * math.sqrt(1 - phi * phi)
        for i in range(1, points + 100):
            e[:, i] += phi * e[:, i - 1]
        x = e[:, 100:]
    else:
        x = r.normal(size=shape)
    return 100 + x


def steps(found: list[Change]) -> list[int]:
    return [one.index for one in found if one.kind == "step"]


def test_a_step_has_its_place_size_interval_and_time():
    x = noise("normal", 1)[0]
    x[120:] *= 1.05
    (found,) = changes(x, np.arange(200) * 10.0)
    assert abs(found.index - 120) <= 1
    assert found.time == found.index * 10.0
    assert found.before == pytest.approx(np.median(x[: found.index]))
    assert found.after == pytest.approx(np.median(x[found.index :]))
    assert found.ratio == pytest.approx(found.after / found.before)
    assert 1.04 < found.low <= found.ratio <= found.high < 1.06
    assert found.low < 1.05 < found.high
    assert found.p < 1e-10
    assert (found.kind, found.provisional) == ("step", False)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Change) == found


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, math.nan, 2.0], "value 1 is not finite"),
        ([1.0, 2.0, math.inf], "value 2 is not finite"),
        ([[1.0, 2.0]], "one dimension"),
    ],
)
def test_values_that_are_none(values, message):
    with pytest.raises(ValueError, match=message):
        changes(values)


def test_bad_times_and_options():
    for kwargs, message in [
        ({"times": [0, 2, 1]}, "times must not fall: time 2 is 1.0 after 2.0"),
        ({"times": [0, 1]}, "3 values need as many times, not 2"),
        ({"times": [0, math.nan, 1]}, "time 1 is not finite"),
        ({"alpha": 0.0}, "alpha"),
        ({"min_effect": -0.1}, "min_effect"),
        ({"min_effect": math.nan}, "min_effect"),
        ({"boundaries": [4]}, "boundary"),
        ({"boundaries": [1.5]}, "boundary"),
    ]:
        with pytest.raises(ValueError, match=message):
            changes([1.0, 2.0, 3.0], **kwargs)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 500, [0.0] * 50, [1.0, 2.0, 3.0]])
def test_nothing_to_tell(values):
    assert changes(values, provisional=True) == []


def test_two_constants_need_seven_points_each():
    """2 ÷ C(14, 7) = 0.06 % of all orders part them as clearly, 2 ÷ C(12, 6) = 0.2 %: the test claims no more."""
    assert changes([50.0] * 6 + [51.0] * 6) == []
    (found,) = changes([50.0] * 7 + [51.0] * 7)
    assert (found.index, found.ratio, found.p) == (7, 1.02, pytest.approx(2 / math.comb(14, 7)))


@pytest.mark.parametrize("sign", [-1.0, 0.0])
def test_levels_that_are_not_positive_have_no_ratio(sign):
    x = noise("normal", 1)[0] - 100 + 50 * sign
    x[100:] -= 8
    (found,) = changes(x, min_effect=0.5)
    assert abs(found.index - 100) <= 2
    assert math.isnan(found.ratio)
    assert math.isnan(found.low)
    assert found.after - found.before == pytest.approx(-8, abs=0.6)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 5e-324, 1e-12, -1e298])
def test_extremes_give_an_answer(scale):
    x = noise("normal", 1)[0] / 200
    x[100:] *= 1.2
    found = changes(x * scale)
    assert all(isinstance(one, Change) for one in found)
    if abs(scale) >= 1e-300:
        assert steps(found) == steps(changes(x))


def test_values_over_many_magnitudes_give_an_answer():
    r = np.random.default_rng(5)
    x = np.exp(r.normal(size=300) * 100)
    x[150:] = 1e-300
    assert all(isinstance(one, Change) for one in changes(x, provisional=True))


def test_one_value_far_off_hides_nothing():
    x = noise("normal", 1, 300, seed=19)[0]
    for at, size in ((60, 5), (110, -4), (180, 4), (240, -5)):
        x[at:] += size
    x[30] = 1e9
    assert [abs(i - at) <= 2 for i, at in zip(steps(changes(x)), (60, 110, 180, 240), strict=True)] == [True] * 4


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize(("kind", "most"), [("normal", 4), ("t3", 4), ("spikes", 4), ("quantised", 4), ("ar0.5", 5), ("ar0.8", 12)])
def test_noise_is_no_change(kind, most):
    """Of 400 series, at 0.1 % each: more than 4 false alarms are as unlikely as 1 in 10,000; of 40, more than 1 are as 1 in 1,000."""
    assert sum(map(len, map(changes, noise(kind, draws(400))))) <= (most if FULL else most // 4)


def test_ties_are_no_change():
    """A timer that shows one value, and now and then another: two of those next to each other are no level."""
    r = np.random.default_rng(2)
    for share in (0.005, 0.02, 0.1):
        assert sum(map(len, map(changes, 100 + 10.0 * (r.random((300, 300)) < share)))) <= 4


@pytest.mark.slow("error rate by simulation")
@pytest.mark.parametrize("kind", ["normal", "t3", "spikes", "quantised", "ar0.5", "ar0.8"])
def test_steps_of_five_percent_are_found(kind):
    x = noise(kind, 60, seed=3)
    at = np.random.default_rng(4).integers(30, 171, len(x))
    found = [changes(row) for row in x + 5 * (np.arange(200) >= at[:, None])]
    hit = sum(any(abs(i - k) <= 5 for i in steps(one)) for one, k in zip(found, at, strict=True))
    assert hit >= 57
    held = [c.low <= 1.05 <= c.high for one, k in zip(found, at, strict=True) for c in one if abs(c.index - k) <= 5]
    assert np.mean(held) >= 0.85


@pytest.mark.slow("error rate by simulation")
def test_the_chance_of_a_maximum_is_that_of_simulation():
    """Siegmund's approximation against 40,000 permutations: 1 % is attained, and never exceeded by more than chance."""
    r = np.random.default_rng(6)
    for n in (20, 100):
        z = split.statistics(r.random((40_000, n)))
        largest = np.abs(z[:, split.EDGE - 1 : n - split.EDGE]).max(axis=1)
        assert 0.006 < np.mean(largest >= split.limit(n, 0.01)) < 0.0115
        assert split.chance(split.limit(n, 0.01), n, split._apart(n)) == pytest.approx(0.01, rel=1e-6)


def test_scores_of_ranks():
    row = np.array([[3.0, 1.0, 2.0, 2.0, 9.0]])
    score = split.scores(row)[0]
    assert score.sum() == pytest.approx(0)
    assert score[2] == score[3]
    assert score[1] < score[2] < score[0] < score[4]
    assert np.array_equal(score, split.scores(row**3)[0])


def test_a_stretch_up_and_back_is_two_changes_and_a_spike_is_none():
    x = noise("normal", 20, seed=7)
    x[:, 90:110] += 5
    found = [steps(changes(one)) for one in x]
    assert sum(len(one) == 2 and abs(one[0] - 90) <= 2 and abs(one[1] - 110) <= 2 for one in found) >= 19
    x = noise("normal", 20, seed=8)
    x[:, 90:92] += 15
    assert sum(map(len, map(changes, x))) == 0


@pytest.mark.slow("error rate by simulation")
def test_a_drift_is_a_drift():
    x = noise("normal", 30, seed=9) + np.linspace(0, 10, 200)
    found = [changes(one) for one in x]
    drifts = [[one for one in answer if one.kind == "drift"] for answer in found]
    assert sum(map(bool, drifts)) >= 27
    sizes = [one.after - one.before for answer in drifts for one in answer]
    assert np.median(sizes) == pytest.approx(10, rel=0.1)
    assert all(one.low <= one.ratio <= one.high for answer in drifts for one in answer)


@pytest.mark.slow("error rate by simulation")
def test_a_long_drift_is_one_drift():
    x = noise("normal", 1, 2000, seed=10)[0] + np.linspace(0, 60, 2000)
    found = [one for one in changes(x) if one.kind == "drift"]
    assert found
    assert found[0].index == 0
    assert sum(one.after - one.before for one in found) == pytest.approx(60, rel=0.15)
    assert len(found) <= 4


def test_nothing_is_tested_across_a_boundary():
    x = noise("normal", 1, seed=11)[0]
    x[100:] += 20
    assert changes(x, boundaries=[100]) == []
    assert steps(changes(x, boundaries=[50])) == steps(changes(x))
    x[150:] += 5
    assert [abs(i - 150) <= 1 for i in steps(changes(x, boundaries=[100, 100, 0, 200]))] == [True]


def test_the_gate_leaves_out_small_changes():
    x = noise("normal", 1, 300, seed=12)[0]
    x[100:] *= 1.02
    x[200:] *= 0.9
    assert len(changes(x)) == 2
    assert [round(one.ratio, 2) for one in changes(x, min_effect=0.05)] == [0.9]


def test_a_fresh_step_is_provisional_then_confirmed():
    x = noise("normal", 1, seed=15)[0]
    x[150:] += 6
    assert changes(x[:153]) == []
    (first,) = changes(x[:153], provisional=True)
    (second,) = changes(x[:160], provisional=True)
    assert first.provisional
    assert not second.provisional
    assert abs(second.index - 150) <= 1


SERIES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "points": st.integers(SPAN, 1100),
        "kind": st.sampled_from(["normal", "t3", "quantised", "ar0.6"]),
        "steps": st.lists(st.tuples(st.floats(0, 1), st.floats(-8, 8)), max_size=6),
    }
)


@settings(max_examples=20 if FULL else 5, derandomize=True)
@given(SERIES)
def test_what_is_settled_stays(given_):
    """A step with a whole window and what it keeps after it is the same for any number of further points."""
    n = given_["points"]
    x = noise(given_["kind"], 1, n, given_["seed"])[0]
    for place, size in given_["steps"]:
        x[int(place * n) :] += size
    whole = steps(changes(x))
    for k in np.random.default_rng(given_["seed"]).integers(SPAN, n + 1, 8).tolist():
        settled = k - SPAN - STEP
        assert [at for at in steps(changes(x[:k])) if at < settled] == [at for at in whole if at < settled]


def test_what_is_found_does_not_depend_on_unit_or_sign():
    x = noise("spikes", 1, 700, seed=17)[0]
    x[300:] += 5
    x[420:] -= 3
    place = steps(changes(x))
    assert len(place) == 2
    assert steps(changes(x * 1e-6)) == place
    assert steps(changes(-x)) == place


def test_a_change_anywhere_in_a_long_series():
    x = noise("normal", 1, 6000, seed=18)[0]
    for at in (700, 1500, 1530, 4000):
        x[at:] += 5 if at != 1530 else -9
    found = steps(changes(x))
    assert all(any(abs(i - at) <= 2 for i in found) for at in (700, 1500, 1530, 4000))
    assert len(found) <= 5


def test_a_slope_within_levels():
    x = np.repeat([0.0, 50.0], 60) + np.arange(120) * 0.5
    line = levels.line(x, [60], split.Noise())
    assert (line.slope, line.low, line.high) == (0.5, 0.5, 0.5)
    assert line.p < 1e-10
    flat = levels.line(np.repeat([0.0, 50.0], 60), [60], split.Noise())
    assert (flat.slope, flat.p) == (0.0, 1.0)


@pytest.mark.slow("error rate by simulation")
def test_a_large_step_is_dated_to_the_point():
    """8 % at 0.4 % noise, anywhere; up for 8 days and back."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        x, at = random.normal(10, 0.04, 60), int(random.integers(12, 48))
        x[at:] *= 1.08
        assert [one.index for one in changes(x)] == [at]
    x = np.random.default_rng(3).normal(10, 0.04, 60)
    x[26:36] *= 1.08
    assert [one.index for one in changes(x)] == [26, 36]
