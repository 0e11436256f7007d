"""The GPUs' own energy against the BMC's, with errors that are known."""

import numpy as np
import pytest

from hotlap.core.record import Reading
from hotlap.nodes.sensors import crosscheck
from hotlap.nodes.sensors.tally import SensorStats


def tally(**watts):
    """10 s at 10 Hz; devices by name, `__` for /: a constant power as a counter and as readings of power."""
    made = SensorStats(0.1)
    for time_s in np.arange(101) / 10:
        for name, power in watts.items():
            device = name.replace("__", "/")
            made.add([Reading(sensor="power_w", device=device, time_s=float(time_s), value=power), Reading(sensor="energy_j", device=device, time_s=float(time_s), value=power * float(time_s))])
    return made


@pytest.mark.parametrize("factor", [1.0, 1.03, 0.5])
def test_the_difference_and_what_errors_explain(factor):
    (found,) = crosscheck.compare(tally(a=300.0, b=400.0, n__HGX_GPU_0=300.0 * factor, n__HGX_GPU_1=400.0 * factor, n__HGX_CPU_0=80.0), ["a", "b"])
    assert (found.bmc, found.own, found.seen, found.seconds) == ("n", 2, 2, pytest.approx(10.0))
    assert found.own_j == pytest.approx(7000.0, rel=0.01)
    assert found.bmc_j == pytest.approx(7000.0 * factor, rel=0.01)
    assert found.difference == pytest.approx(factor - 1, abs=0.01)
    assert found.bound == pytest.approx((0.01 * 7000 + 0.01 * 7000 * factor) / 7000, rel=0.05), "a step of 0.1 s in 10 s, on both sides"
    assert (abs(found.difference) > found.bound) == (factor != 1.0)


def test_unequal_numbers_are_not_compared():
    (found,) = crosscheck.compare(tally(a=300.0, n__GPU_SXM_1=300.0, n__GPU_SXM_2=300.0), ["a"])
    assert (found.difference, found.bound, found.own_j) == (None, None, None)
    assert found.reason == "1 GPUs are read here and 2 by the BMC"


def test_one_side_alone_is_nothing():
    assert crosscheck.compare(tally(a=300.0), ["a"]) == []
    assert crosscheck.compare(tally(n__GPU_0=300.0), []) == []
    assert crosscheck.compare(tally(a=300.0, n__GPU_0_DRAM_0=30.0, n__Chassis_0=900.0), ["a"]) == [], "memory and chassis are no GPUs"


def test_windows_that_do_not_meet():
    made = tally(a=300.0)
    made.add([Reading(sensor="power_w", device="n/GPU_0", time_s=20.0 + n, value=300.0) for n in range(5)])
    (found,) = crosscheck.compare(made, ["a"])
    assert (found.difference, found.reason) == (None, "too few readings of both at one time")
