"""Power: what a reading is a mean of, which readings are the host's time, and a fit of one fold on the measurements."""

import importlib.util

import numpy as np
import pytest

from hotlap.core.model.kernels import power
from research import accuracy
from research.fit import power as fit
from research.fit import power_cases, power_readings
from research.fit.data import root

H200 = fit.chip("h200-sxm")


def test_a_reading_is_the_mean_of_the_second_before():
    """A kernel of 690 W after a pause at 138 W reads some 400 W, after itself 690 W."""
    one = np.ones(1)
    cold = power_readings.timeline(1e-3 * one, one, 7 * one, 4 * one)
    warm = power_readings.timeline(1e-3 * one, one, 7 * one, 0 * one)
    assert power_readings.expected_w(690 * one, 690 * one, 138.0, cold)[0] == pytest.approx(400, abs=20)
    assert power_readings.expected_w(690 * one, 690 * one, 138.0, warm)[0] == pytest.approx(690)


def test_how_many_readings_a_mean_holds():
    exact = np.array([412.345, (400.001 * 3 + 401.123) / 4, np.mean([400.001] * 10 + [400.002])])
    assert power_readings.whole(exact).tolist() == [False, False, True]
    assert power_readings.once(exact).tolist() == [True, False, False]


def test_the_first_case_of_each_worker_at_a_new_shape_was_read_after_a_wait():
    count = 3 * power_cases.WORKERS
    case = {name: np.full(count, 8) for name in ("num_heads", "num_key_value_heads", "head_dim", "window_size")}
    case["head_dim"][power_cases.WORKERS + 3 :] = 64
    begun = power_cases._begun(case)
    assert np.flatnonzero(begun).tolist() == [*range(8), *range(11, 19)]


def test_types_of_numbers_have_units_of_their_own():
    operations, item = power_cases._operations(np.array(["bfloat16", "nvfp4", "fp8_block"]), np.array([1.0, 2.0, 3.0]))
    assert {unit: count.tolist() for unit, count in operations.items()} == {
        "matrix.bf16": [1, 0, 0], "matrix.fp8": [0, 0, 3], "matrix.fp4": [0, 2, 0],
    }  # fmt: skip
    assert item.tolist() == [2.0, 0.5625, 1.0]


@pytest.mark.slow("reads the published measurements")
@pytest.mark.skipif(root() is None, reason="no measurements: HOTLAP_SHARED is not set and ../shared is not there")
@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_one_fold_and_a_machine_never_read_beat_the_best_constant(monkeypatch):
    """Asked: at most two thirds of the constant's error on shapes never fitted, less than the constant's on a machine never read."""
    pytest.importorskip("scipy")
    monkeypatch.setattr(fit, "MOST_ROWS", 400)
    data = [fit.rows(gpu, root()) for gpu in fit.GPUS]
    known = fit.fit([one.holding(0) for one in data])
    for one, other in zip(data, reversed(data), strict=True):
        kept = one.where(fit.tags(one) == "")
        held, away = kept.where(kept.fold == 0), fit.predicted(kept, fit.fit([other.holding(None)]))
        error, apart, flat = (
            np.abs(values / rows.power_w - 1).mean()
            for values, rows in ((fit.predicted(held, known), held), (away, kept), (fit.constant(kept), kept))
        )
        assert error < 2 / 3 * flat
        assert apart < flat
        assert error < 0.13
    scored = accuracy.Scored("power", data[1], {"held out": fit.predicted(data[1], known)})
    assert np.array_equal(scored.measured, data[1].power_w)
    assert scored.counted.all()


@pytest.mark.slow("reads the published measurements")
@pytest.mark.skipif(root() is None, reason="no measurements: HOTLAP_SHARED is not set and ../shared is not there")
@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_what_was_read_at_the_cap_is_expected_there():
    right = []
    for one in fit.series(fit.GPU, root()):
        high = fit.long(one) & one.held & (one.power_w >= fit.CAPPED_W)
        right.append(power.power_w(one.demand, one.seconds, H200, one.family)[high] >= H200.power_w * power.MARGIN)
    assert np.concatenate(right).mean() > 0.9
