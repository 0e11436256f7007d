"""Power: what a reading is a mean of, and the stored coefficients on the measurements."""

import importlib.util
import tomllib
from importlib import resources

import numpy as np
import pytest

from hotlap.core.model.kernels import power
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


@pytest.mark.slow("reads the published measurements")
@pytest.mark.skipif(root() is None, reason="no measurements: HOTLAP_SHARED is not set and ../shared is not there")
@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_stored_coefficients_on_the_measurements():
    """Loose: readings depend on what ran before (see the docs); the power state of capped rows is right."""
    text = (resources.files("hotlap.core.model") / "coefficients" / "power.toml").read_text(encoding="utf-8")
    gaps = np.array([tomllib.loads(text)["waits_s"][name] for name in power_cases.GAPS])
    errors, right = [], []
    for one in fit.rows(fit.GPU, root()):
        low, high = fit.long(one) & one.held & (one.power_w < 690), fit.long(one) & one.held & (one.power_w >= 690)
        errors.append(np.abs(fit.reading_w(one, H200, power.stored(), gaps) / one.power_w - 1)[low])
        right.append(power.power_w(one.demand, one.seconds, H200, one.family)[high] >= H200.power_w * power.MARGIN)
    assert np.concatenate(errors).mean() < 0.17
    assert np.concatenate(right).mean() > 0.9
