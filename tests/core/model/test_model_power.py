"""Power and the clock under a cap: what must hold of any chip, published figures, and the stored coefficients on the measurements."""

import dataclasses

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import power
from hotlap.core.model.kernels.base import Demand
from hotlap.core.model.predict import predict

H200 = chips.chip(machines.load("h200-sxm"), "max")


def demand(chip, unit="matrix.bf16", efficiency=0.85, memory=0.2, count=1):
    """A second of a unit at this share of its peak, and memory at that share of its bandwidth."""
    flop = np.full(count, chip.units * chip.flop_per_clock[unit] * chip.clock_max_hz * efficiency)
    reuse = 85 if unit.startswith("matrix") else 32
    return Demand({unit: flop}, np.zeros(count), np.full(count, memory * chip.memory_b_s), flop / reuse)


def test_parts_are_all_of_the_power():
    asked = demand(H200)
    at = power.parts(asked, 1.0, H200, "gemm")
    total = at.idle_w + at.leakage_w + at.busy_w + at.switching_w + at.dram_w
    assert total == pytest.approx(power.power_w(asked, 1.0, H200, "gemm"))


def test_idle_of_h200():
    """138 W between kernels of a few µs, clocks up (aiconfigurator, h200_sxm/gemm)."""
    nothing = Demand({}, np.zeros(1), np.zeros(1), np.zeros(1))
    assert power.power_w(nothing, 1.0, H200, active=0.0)[0] == pytest.approx(138, abs=1)


def test_power_grows_with_work_and_falls_with_time():
    shares = np.linspace(0.01, 1, 50)
    drawn = [power.power_w(demand(H200, efficiency=s, memory=s), 1.0, H200, "gemm")[0] for s in shares]
    assert np.all(np.diff(drawn) > 0)
    assert np.all(np.diff(power.power_w(demand(H200, count=50), np.geomspace(1, 1e6, 50), H200)) < 0)


def test_clock_meets_the_cap():
    held = power.clock(demand(H200), power.PowerDemand(1.0, 0.0), H200, kind="gemm")
    assert held.capped[0]
    assert held.power_w[0] == pytest.approx(H200.power_w * power.MARGIN, rel=1e-3)
    assert held.seconds[0] == pytest.approx(H200.clock_max_hz / held.clock_hz[0])


def test_clock_falls_with_the_cap_and_time_rises():
    held = [power.clock(demand(H200), power.PowerDemand(0.9, 0.1), H200, cap_w=w, kind="gemm") for w in (300.0, 400.0, 500.0, 700.0, 1500.0)]
    assert np.all(np.diff([h.clock_hz[0] for h in held]) > 0)
    assert np.all(np.diff([h.seconds[0] for h in held]) < 0)
    assert held[-1].slowdown[0] == 1
    assert not held[-1].capped[0]


def test_memory_time_does_not_depend_on_the_clock():
    stream = Demand({}, np.zeros(1), np.array([0.9 * H200.memory_b_s]), np.array([0.9 * H200.memory_b_s]))
    held = power.clock(stream, power.PowerDemand(0.0, 1.0), H200, cap_w=560.0)
    assert held.capped[0]
    assert held.seconds[0] == 1


def test_a_cap_below_what_idle_takes_leaves_the_lowest_clock():
    held = power.clock(demand(H200), power.PowerDemand(1.0, 0.0), H200, cap_w=50.0)
    assert held.clock_hz[0] == pytest.approx(0.1 * H200.clock_max_hz)
    assert held.power_w[0] > 50


def test_slower_at_the_cap_than_in_bursts():
    """H200 matrix products at the limit take a median 15 % longer than in H100's short runs, some 800 TFLOP/s (research/models.md 0)."""
    chip = H200
    asked = demand(chip, efficiency=800e12 / (chip.units * 4096 * chip.clock_max_hz), memory=0.15)
    assert 1.10 < power.clock(asked, power.PowerDemand(1.0, 0.0), chip, kind="gemm").slowdown[0] < 1.25


@pytest.mark.parametrize(
    ("slug", "unit", "efficiency", "least", "most"),
    [  # share of the peak at the highest clock that a long product holds
        ("l4", "fma.fp32", 0.9, 0.37, 0.45),  # NeuSight, linear and bmm: at most 38 and 42 %
        ("t4", "fma.fp32", 0.95, 0.58, 0.86),  # NeuSight: 58 and 86 %
        ("a100-sxm-80gb", "matrix.bf16", 0.9, 0.75, 0.93),  # 273 to 290 of 312 TFLOP/s (aiconfigurator, MAMF)
        ("h100-sxm", "matrix.bf16", 0.85, 0.6, 0.8),  # about 795 of 1071 TFLOP/s at 1980 MHz, sustained
        ("b200", "matrix.bf16", 0.85, 0.55, 0.82),  # 1920 of 2382 TFLOP/s at 1965 MHz (aiconfigurator)
        ("rtx-4090", "matrix.bf16", 0.9, 0.8, 0.95),
    ],
)
def test_published_sustained_shares(slug, unit, efficiency, least, most):
    chip = chips.chip(machines.load(slug), "max")
    share = efficiency / power.clock(demand(chip, unit, efficiency), power.PowerDemand(1.0, 0.0), chip, kind="gemm").slowdown[0]
    assert least <= share <= most


def test_arrays_are_single_cases_and_quick():
    count = 100_000
    asked = demand(H200, count=count)
    scaling = np.linspace(0.1, 1, count)
    held = power.clock(asked, power.PowerDemand(scaling, 0.1), H200)
    one = power.clock(demand(H200), power.PowerDemand(scaling[777], 0.1), H200)
    assert held.clock_hz[777] == pytest.approx(one.clock_hz[0], rel=1e-6)


@pytest.mark.parametrize("cap_w", [60.0, 150.0, 300.0, 500.0, 690.0])
def test_a_case_alone_settles_to_the_bit_where_two_alike_do(cap_w):
    for share in np.linspace(0.0, 1.0, 21):
        spent = power.PowerDemand(np.full(2, share), 1.0 - share)
        pair = power.clock(demand(H200, count=2), spent, H200, cap_w=cap_w, kind="gemm")
        alone = power.clock(demand(H200), power.PowerDemand(share, 1.0 - share), H200, cap_w=cap_w, kind="gemm")
        assert alone.capped[0]
        assert (alone.clock_hz[0], alone.power_w[0]) == (pair.clock_hz[1], pair.power_w[1])


def test_bad_input():
    with pytest.raises(InputError, match="no published power limit"):
        power.power_w(demand(H200), 1.0, dataclasses.replace(H200, power_w=None))
    with pytest.raises(InputError, match="must be positive"):
        power.power_w(demand(H200), 0.0, H200)
    with pytest.raises(InputError, match="cap must be positive"):
        power.clock(demand(H200), power.PowerDemand(1.0, 0.0), H200, cap_w=-1)
    unknown = Demand({"matrix.bf17": np.ones(1)}, np.zeros(1), np.zeros(1), np.zeros(1))
    with pytest.raises(InputError, match="bf17"):
        power.power_w(unknown, 1.0, H200)


def test_what_a_board_draws_at_rest_is_its_own_where_it_was_read():
    """B200 reads at least 241 to 245 W between kernels of a few µs (aiconfigurator, b200_sxm); others take H200's share of the limit."""
    nothing = Demand({}, np.zeros(1), np.zeros(1), np.zeros(1))
    at_rest = {name: power.power_w(nothing, 1.0, chips.chip(machines.load(name), "max"), active=0.0)[0] for name in ("b200", "l40s")}
    assert at_rest == pytest.approx({"b200": 245, "l40s": 138 / 700 * 350}, rel=0.01)


def test_busy_units_toggle_by_their_clock_not_by_the_limit():
    """B200 has 1.11 times H200's units × clock and 1.43 times its limit."""
    b200 = chips.chip(machines.load("b200"), "max")
    busy = [power.parts(demand(chip), 1.0, chip, "moe").busy_w for chip in (b200, H200)]
    assert busy[0] / busy[1] == pytest.approx(148 * 1.965 / (132 * 1.98), rel=1e-3)


def test_triton_attention_draws_less_than_others_of_the_same_work():
    drawn = [
        predict("attention", "b200", implementation=name, batch=16, heads=32, kv_heads=8, head_dim=128, query=4096).power_w
        for name in ("vllm vllm_triton_attn", "vllm vllm_flash_attn")
    ]
    assert drawn[0] < drawn[1]
