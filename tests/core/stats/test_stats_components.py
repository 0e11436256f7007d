"""Components of variance: known ones are found again, each level alone, and what cannot be determined is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hotlap.core.stats import series
from hotlap.core.stats.components import REACH, Components, _rounds, components
from hotlap.core.stats.series import MAD_TO_SD


def nested(seed: int, sizes: tuple[int, ...], spreads: tuple[float, ...]) -> np.ndarray:
    """Times with effects of these standard deviations, from the outermost level in."""
    rng = np.random.default_rng(seed)
    logs = np.zeros(())
    for level, spread in enumerate(spreads):
        logs = logs[..., None] + spread * rng.normal(size=sizes[: level + 1])
    return np.exp(logs)


@pytest.mark.parametrize(
    ("names", "sizes", "spreads"),
    [
        (("between_runs", "between_rounds", "within_rounds"), (8, 5, 20), (0.02, 0.01, 0.005)),
        (("between_machines", "between_runs", "between_rounds", "within_rounds"), (6, 4, 3, 10), (0.03, 0.02, 0.01, 0.005)),
    ],
)
def test_each_component_is_found_again(names: tuple[str, ...], sizes: tuple[int, ...], spreads: tuple[float, ...]) -> None:
    """The mean variance over 50 experiments, since variances, not standard deviations, are found without bias."""
    found = [components(nested(seed, sizes, spreads).tolist()) for seed in range(50)]
    for name, true in zip(names, spreads, strict=True):
        assert math.sqrt(np.mean([getattr(one, name) ** 2 for one in found])) == pytest.approx(true, rel=0.15), name


def test_a_balanced_design_by_hand() -> None:
    """Means of runs 0 and 2 d apart, rounds ± d about them, two samples ± d about those: mean squares by hand."""
    d = 0.01
    runs = [[[math.exp(run + turn - d), math.exp(run + turn + d)] for turn in (-d, d)] for run in (0.0, 4 * d)]
    found = components(runs)
    within, rounds = 2 * d**2, 2 * d**2 - d**2  # the mean of two samples has half the variance of one
    assert found.within_rounds == pytest.approx(math.sqrt(within))
    assert found.between_rounds == pytest.approx(math.sqrt(rounds))
    assert found.between_runs == pytest.approx(math.sqrt(8 * d**2 - (rounds + d**2) / 2))
    assert (found.machines, found.runs, found.rounds, found.samples) == (1, 2, 4, 8)
    assert found.largest == "between_runs"


def test_samples_that_repeat_themselves_do_not_look_like_rounds_that_differ() -> None:
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(30):
        x = rng.normal(size=(5, 4, 200))
        for i in range(1, 200):
            x[..., i] = 0.9 * x[..., i - 1] + math.sqrt(1 - 0.81) * x[..., i]
        found = components(np.exp(0.01 * x).tolist())
        assert found.between_rounds is not None
        shares.append(found.between_rounds)
    assert float(np.mean(np.square(shares))) < 0.002**2  # uncorrected, 0.003


def test_a_spike_in_the_samples_moves_nothing() -> None:
    x = nested(5, (6, 4, 20), (0.01, 0.005, 0.005))
    before = components(x.tolist())
    x[0, 0, 3] *= 50
    after = components(x.tolist())
    for name in ("between_runs", "between_rounds", "within_rounds"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=0.15)


def test_drift_over_runs_and_over_rounds() -> None:
    x = nested(7, (10, 1, 5), (0.001, 0.0, 0.001))
    assert components((x * np.exp(np.linspace(0, 0.05, 10))[:, None, None]).tolist()).drift == pytest.approx(0.05, abs=0.01)
    x = nested(8, (1, 10, 5), (0.0, 0.001, 0.001))
    assert components((x * np.exp(np.linspace(0, -0.05, 10))[None, :, None]).tolist()).drift == pytest.approx(-0.05, abs=0.01)
    assert components(nested(9, (3, 3, 5), (0.0, 0.001, 0.001)).tolist()).drift is None


def test_what_cannot_be_told_is_none() -> None:
    one = components([[[1.0, 1.01, 0.99]]])
    assert (one.between_machines, one.between_runs, one.between_rounds, one.drift) == (None, None, None, None)
    assert one.within_rounds == pytest.approx(0.01, rel=0.01)
    single = components([[[1.0], [1.1], [0.9]], [[1.0], [1.1], [0.9]]])
    assert single.within_rounds is None
    assert single.between_rounds is not None
    flat = components([[[1.0, 1.1]], [[1.2, 1.0]], [[0.9, 1.0]]])
    assert flat.between_rounds is None
    assert flat.between_runs is not None


def test_constant_values_vary_by_nothing() -> None:
    found = components([[[2.0, 2.0], [2.0, 2.0]], [[2.0, 2.0], [2.0, 2.0]]])
    assert (found.between_runs, found.between_rounds, found.within_rounds, found.largest) == (0.0, 0.0, 0.0, "")


def test_unequal_sizes_and_empty_rounds_are_taken() -> None:
    found = components([[[1.0, 1.1, 1.2], []], [[1.0, 1.3]], []])
    assert isinstance(found, Components)
    assert (found.runs, found.rounds, found.samples) == (2, 2, 5)


@pytest.mark.parametrize("bad", [[], [[[]]], [[1.0, 2.0]], [1.0], [[[1.0, math.nan]]], [[[1.0, math.inf]]], [[[1.0, -1.0]]], [[[1.0, 0.0]]], [[[[[1.0]]]]]])
def test_bad_input_is_one_line(bad: list) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        components(bad)


def test_rounds_of_many_lengths_count_as_each_would_alone() -> None:
    rng = np.random.default_rng(4)
    rounds = [np.exp(0.01 * rng.standard_normal(n)).tolist() for n in (20, 3, 1, 20, 2, 7)]
    rounds.append([1.0, 1.0, 1.0, 1.0, 1.5])  # more than half are equal: nothing is drawn in
    for one, group in zip(rounds, _rounds(rounds), strict=True):
        (alone,) = _rounds([one])
        assert group == alone
        logs = np.log(one)
        reach = REACH * MAD_TO_SD * float(np.median(np.abs(logs - np.median(logs)))) or math.inf
        logs = np.clip(logs, np.median(logs) - reach, np.median(logs) + reach)
        assert group.mean == pytest.approx(logs.mean())
        assert group.freedom == len(one) - 1
        r = min(max(series.lag1(logs) or 0.0, 0.0), 0.98)
        expected = logs.var(ddof=1) / max(len(one) * (1 - r) / (1 + r), 1.0) if len(one) > 1 else None
        assert group.error == (None if expected is None else pytest.approx(expected))
