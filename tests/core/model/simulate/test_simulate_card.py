"""Power, heat and the launch queue of the simulated card, and published figures it must come near."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hotlap.core import plan
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.simulate import attention, card, cases, chip_of, gemm, hold, sequence, stream
from hotlap.core.model.simulate.chip import node_nm
from hotlap.core.model.simulate.energy import voltage
from hotlap.core.model.simulate.launch import DEPENDENT_S, HOST_S, QUEUE_MOST, REACH_S, timeline
from hotlap.core.model.simulate.thermal import Thermal, for_limit

H100, H200, A100, B200, L4 = (chip_of(machines.load(name)) for name in ("h100-sxm", "h200-sxm", "a100-sxm-80gb", "b200", "l4"))
SHARED = [Path(p) for p in (os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).parents[4] / ".." / "shared")) if p]
DATA = next((p / "data" / "kernels" for p in SHARED if (p / "data" / "kernels").is_dir()), None)


def product(m: int, n: int, k: int, chip=H100, copies: int = 5, dtype: str = "bf16"):
    return card.simulate(gemm.candidates(gemm.GemmProblem(m, n, k, dtype, copies), chip), chip)


# ---------------------------------------------------------------- power and heat


@pytest.mark.parametrize("chip", [H100, A100, B200, L4])
def test_power_stays_under_the_limit_by_slowing_down(chip) -> None:
    large, small = product(8192, 8192, 8192, chip), product(16, 512, 512, chip)
    assert large.power_w <= chip.power_w
    assert large.clock_hz < chip.clock_max_hz
    assert small.clock_hz == chip.clock_max_hz
    assert large.energy_j == pytest.approx(large.power_w * large.seconds)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp64"])
def test_no_product_draws_more_than_the_limit(dtype) -> None:
    for m in (64, 1000, 8192):
        assert product(m, 8192, 8192, H200, dtype=dtype).power_w <= H200.power_w


def test_a_product_on_vector_units_draws_what_its_multiply_adds_do() -> None:
    """H200 has no matrix unit for fp32: the product runs on the units that `fma` measures, and moves operands beside it."""
    spec = machines.load("h200-sxm")
    product_w, fma_w = (cases.call(plan.case(name, params), spec).power_w for name, params in (("gemm", {"dtype": "fp32"}), ("fma", {"dtype": "fp32"})))
    assert product_w == pytest.approx(fma_w, rel=0.05)
    assert fma_w <= spec.power_w


def test_power_is_a_hook() -> None:
    kernel = gemm.build(gemm.GemmProblem(4096, 4096, 4096), gemm.GemmPlan(128, 256), H100)
    free = card.simulate(kernel, H100, power=lambda activity: 100.0)
    assert (free.clock_hz, free.power_w) == (H100.clock_max_hz, 100.0)
    half = card.simulate(kernel, H100, power=lambda activity: 1400.0 * activity.clock_hz / H100.clock_max_hz)
    assert half.clock_hz == pytest.approx(0.5 * H100.clock_max_hz, rel=0.03)
    assert half.seconds == pytest.approx(2 * free.seconds, rel=0.1)


def test_the_clock_under_a_cap_costs_less_than_it_saves() -> None:
    """Where heat leaves 500 W of 700, the same product takes longer and less energy, as power capping is known for."""
    kernel = gemm.build(gemm.GemmProblem(8192, 8192, 8192), gemm.GemmPlan(128, 256), H100)
    hot = Thermal(k_per_w=(87.0 - 30.0) / 500.0, temperature_c=87.0)
    high, low = card.simulate(kernel, H100), card.simulate(kernel, H100, thermal=hot)
    assert low.power_w == pytest.approx(500.0, rel=0.03)
    assert low.seconds > 1.05 * high.seconds
    assert low.energy_j < 0.95 * high.energy_j


def test_heat_settles_where_resistance_says_whatever_the_steps() -> None:
    one, many = Thermal(), Thermal()
    one.after(700.0, 60.0)
    for _ in range(60):
        many.after(700.0, 1.0)
    assert one.temperature_c == pytest.approx(many.temperature_c)
    assert one.after(700.0, 1e5) == pytest.approx(one.steady_c(700.0)) == pytest.approx(85.0)


def test_held_for_minutes_it_warms_and_leaks_then_stands_still() -> None:
    kernel = gemm.build(gemm.GemmProblem(16384, 512, 512), gemm.GemmPlan(128, 256), H100)
    states = hold(kernel, H100, 300.0, for_limit(700.0), step_s=10.0)
    warm = [s.temperature_c for s in states]
    assert warm == sorted(warm)
    assert states[-1].temperature_c - states[-2].temperature_c < 0.1
    assert states[-1].power_w > states[0].power_w
    assert states[-1].energy_j == pytest.approx(sum(s.power_w * 10.0 for s in states))


@pytest.mark.slow("simulates by tiles")
def test_hot_air_throttles() -> None:
    kernel = gemm.build(gemm.GemmProblem(8192, 8192, 8192), gemm.GemmPlan(128, 256), H100)
    cool, hot = (hold(kernel, H100, 400.0, for_limit(700.0, air), step_s=5.0) for air in (25.0, 60.0))
    assert max(s.temperature_c for s in hot) < 95.0
    assert np.mean([s.clock_hz for s in hot[-10:]]) < 0.95 * np.mean([s.clock_hz for s in cool[-10:]])
    with pytest.raises(InputError, match="above 0"):
        hold(kernel, H100, 0.0, for_limit(700.0))


def test_voltage_falls_with_the_clock() -> None:
    assert voltage(2e9, 2e9) == 1.0
    assert voltage(1e9, 2e9) == 0.75
    assert (node_nm("Ada AD102"), node_nm("Ampere GA100"), node_nm("unheard of")) == (4, 7, 5)


# ---------------------------------------------------------------- launch queue


def test_short_kernels_wait_for_the_host_and_long_ones_do_not() -> None:
    short, long = timeline([0.5e-6] * 200), timeline([50e-6] * 200)
    assert np.diff(short.starts) == pytest.approx(HOST_S)
    assert long.seconds == pytest.approx(HOST_S + REACH_S + 200 * 50e-6 + 199 * 1.2e-6)


def test_graphs_and_dependent_launches_are_closer() -> None:
    times = [timeline([1e-6] * 100, mode).seconds for mode in ("stream", "graph", "dependent")]
    assert times[1] <= times[0]
    assert timeline([10e-6] * 100, "dependent").seconds == pytest.approx(HOST_S + REACH_S + 1e-3 + 99 * DEPENDENT_S)
    with pytest.raises(InputError, match="launch mode"):
        timeline([1.0], "sideways")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="kernel"):
        timeline([float("nan")])


def test_a_host_far_ahead_stands_still() -> None:
    many = timeline([100e-6] * (QUEUE_MOST + 500))
    assert many.host_s >= many.starts[500 - 1]
    assert timeline([100e-6] * 10).host_s == pytest.approx(10 * HOST_S)
    assert timeline([]).seconds == 0.0


def test_a_sequence_has_each_kernels_counters() -> None:
    kernels = [stream.build(1e8, 1e8, H100), gemm.build(gemm.GemmProblem(64, 4096, 4096), gemm.GemmPlan(64, 64), H100)]
    line, found = sequence(kernels, H100, "graph")
    assert len(line.starts) == len(found) == 2
    assert line.ends[0] - line.starts[0] == pytest.approx(found[0].seconds - found[0].stalls["launch"])
    assert line.seconds - sum(line.ends) + sum(line.starts) == pytest.approx(HOST_S + REACH_S + found[1].stalls["launch"])


# ---------------------------------------------------------------- published figures


@pytest.mark.parametrize(
    ("chip", "shape", "seconds", "within"),
    [  # aiconfigurator's silicon data (Apache-2.0): H100 SXM, bf16, torch.nn.functional.linear
        (H100, (8192, 8192, 8192), 1500e-6, 0.08),
        (H100, (4096, 4096, 4096), 166e-6, 0.17),  # collected in bursts that the power limit hardly touches; simulated as held for long
        (H100, (64, 4096, 4096), 14.8e-6, 0.08),
        (H100, (8, 32, 32), 2.45e-6, 0.15),
        (H100, (1, 65536, 8192), 362e-6, 0.05),
    ],
)
def test_measured_products(chip, shape, seconds: float, within: float) -> None:
    assert product(*shape, chip).seconds == pytest.approx(seconds, rel=within)


@pytest.mark.slow("simulates by tiles")
def test_measured_rates() -> None:
    copy = card.simulate(stream.build(2.0**31, 2.0**31, H200), H200)
    assert 2.0**32 / copy.seconds == pytest.approx(4203e9, rel=0.01)  # the best streaming of an H200, of 4800 GB/s
    a100, b200 = product(8192, 8192, 8192, A100), product(8192, 8192, 8192, B200)
    assert 200e12 < a100.useful_flop / a100.seconds < 273e12  # A100: at most 273 TFLOP/s measured (aiconfigurator's data)
    assert 1500e12 < b200.useful_flop / b200.seconds < 1920e12  # B200: at most 1920 measured
    flash = card.simulate(attention.prefill(attention.AttentionProblem(1, 16, 1, 128, 16384, 16384), H100), H100)
    assert flash.seconds == pytest.approx(1625.7e-6, rel=0.17)  # aiconfigurator, vLLM 0.24, FlashAttention-3; the cap holds 1.6 GHz here
    decode = card.simulate(attention.decode(attention.AttentionProblem(64, 8, 4, 64, 1, 16384), H100), H100)
    assert decode.seconds == pytest.approx(353.2e-6, rel=0.1)  # the same


@pytest.mark.skipif(DATA is None, reason="no published measurements: set HOTLAP_SHARED")
@pytest.mark.parametrize(
    ("name", "folder", "most"),
    [("h100-sxm", "h100_sxm/gemm/vllm/0.24.0", 0.11), ("a100-sxm-80gb", "a100_sxm/gemm/sglang/0.5.10", 0.16), ("h200-sxm", "h200_sxm/gemm/vllm/0.22.0", 0.15)],
)
def test_error_against_published_products(name: str, folder: str, most: float) -> None:
    """MAPE over 150 random bf16 rows of more than 20 µs."""
    parquet = pytest.importorskip("pyarrow.parquet")
    assert DATA is not None
    rows = parquet.read_table(DATA / folder / "gemm_perf.parquet", columns=["gemm_dtype", "m", "n", "k", "latency"]).to_pydict()
    at = np.flatnonzero((np.array(rows["gemm_dtype"]) == "bfloat16") & (np.array(rows["latency"]) > 0.02))
    chip = chip_of(machines.load(name))
    errors = [
        product(rows["m"][i], rows["n"][i], rows["k"][i], chip).seconds / (rows["latency"][i] * 1e-3) - 1
        for i in np.random.default_rng(1).choice(at, 150, replace=False)
    ]
    assert np.abs(errors).mean() < most
