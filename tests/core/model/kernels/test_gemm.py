"""Matrix products: properties, published figures, and the stored coefficients on the measurements."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import base, gemm, gemm_kernels, gemm_tiles

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "l4", "mi300x", "rtx-4090")
SOURCES = ("", "vllm/torch.nn.functional.linear", "unheard of")
NARROW = ("trtllm/torch_flow", "vllm/CutlassFP8ScaledMMLinearKernel", "vllm/DeepGemmFp8BlockScaledMMKernel")
TILE_STEP = 0.08  # more work may take this much less time where another tile or split begins to pay
ROUNDING = 1e-6  # of singles
NOTES = "../shared/research/models.md"  # where the published figures below are gathered


def estimate(machine, implementation="", **params):
    return gemm.estimate(params, chips.chip(machines.load(machine), "max"), implementation)


@pytest.mark.slow("every machine and type")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("size", ["m", "n", "k", "batch"])
def test_more_work_takes_more_time(machine, size) -> None:
    rng = np.random.default_rng(0)
    values = np.unique(np.round(2 ** np.linspace(0, 16 if size != "batch" else 10, 300)))
    for _ in range(20):
        shape = dict(zip("mnk", np.round(2 ** rng.uniform(0, 15, 3)), strict=True))
        found = estimate(machine, **{**shape, size: values}).seconds
        assert np.all(found >= (1 - TILE_STEP) * np.maximum.accumulate(found))


@pytest.mark.slow("every machine and type")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8", "fp8_block", "int8", "tf32", "fp32", "fp4", "int4"])
def test_never_below_the_bound_and_finite_everywhere(machine, dtype) -> None:
    chip = chips.chip(machines.load(machine), "max")
    try:
        gemm_tiles.machine(chip, dtype, base.stored("gemm")["base"])
    except InputError:
        pytest.skip(f"{machine} has no unit for {dtype}")
    m, n, k = (one.ravel() for one in np.meshgrid(*[2.0 ** np.arange(0, 31, 3)] * 3))
    for source in (*SOURCES, *NARROW):
        found = gemm.estimate({"m": m, "n": n, "k": k, "dtype": dtype}, chip, source)
        on = gemm_tiles.machine(chip, dtype, base.stored("gemm")["base"])
        moved = np.maximum(on.size * k * (m + n) + on.out * m * n - chip.l2_bytes, 0) / chip.memory_b_s
        assert np.all(found.seconds >= (1 - ROUNDING) * np.maximum(2 * m * n * k / (on.rate * chip.units * chip.clock_max_hz), moved))
        assert np.all(found.seconds < 1e-3 + 100 * (2 * m * n * k / (on.rate * chip.units * chip.clock_hz)) + m * n * 1e-6 + 1e-6 * k * (m + n))
        assert np.all(next(iter(found.demand.operations.values())) >= (1 - ROUNDING) * 2 * m * n * k)


def test_parts_add_up_and_arrays_are_single_cases() -> None:
    rng = np.random.default_rng(0)
    count = 2000
    params = {name: np.round(2 ** rng.uniform(0, 16, count)) for name in "mnk"}
    params |= {"batch": rng.integers(1, 9, count), "dtype": rng.choice(["bf16", "fp8", "fp8_block", "int8"], count), "sustained": rng.random(count) < 0.5}
    sources = rng.choice([*SOURCES, *NARROW], count)
    found = estimate("h100-sxm", sources, **params)
    assert np.allclose(np.sum(list(found.parts.values()), axis=0), found.seconds, rtol=1e-9)
    assert set(found.parts) == set(gemm.PARTS)
    assert all(np.all(part >= -1e-12) for part in found.parts.values())
    for i in range(0, count, 97):
        one = estimate("h100-sxm", sources[i], **{name: values[i] for name, values in params.items()})
        assert one.seconds[0] == pytest.approx(found.seconds[i], rel=ROUNDING)
        assert one.choice["tile_m"][0] == found.choice["tile_m"][i]


@pytest.mark.parametrize(("params", "part"), [
    ({"m": 8192, "n": 8192, "k": 8192}, "matrix unit"),  # far above the ridge
    ({"m": 16, "n": 16384, "k": 16384}, "DRAM"),  # half a GiB of weights for 16 rows
    ({"m": 1, "n": 32, "k": 32}, "latency"),
])  # fmt: skip
def test_the_largest_part_is_what_holds_it(params, part) -> None:
    parts = estimate("h100-sxm", **params).parts
    assert max(parts, key=lambda name: parts[name][0]) == part


def test_tiles_of_an_incomplete_wave_cost_a_whole_one() -> None:
    """CUTLASS as vLLM builds it: 128 × 128 tiles in pairs; 4 × 32 of them fit on 132 SMs at once, 6 × 32 do not (measured 21.8 and 38.0 µs)."""
    source = "vllm/CutlassFP8ScaledMMLinearKernel"
    whole, over = estimate("h100-sxm", source, m=np.array([512, 513]), n=4096, k=4096, dtype="fp8").seconds
    assert 1.4 < over / whole < 2.0
    assert estimate("h100-sxm", source, m=513, n=4096, k=4096, dtype="fp8").choice["tasks"] == 6 * 32


def test_a_long_load_is_slower_where_power_is_short() -> None:
    burst, long = (estimate("h100-sxm", m=16384, n=16384, k=4096, sustained=s) for s in (False, True))
    assert long.seconds > burst.seconds
    assert burst.parts["clock under the power cap"] < long.parts["clock under the power cap"]
    cool = estimate("rtx-4090", m=8192, n=8192, k=8192)
    assert cool.parts["clock under the power cap"][0] == 0  # 450 W for 165 TFLOP/s


def test_the_host_of_this_machine_counts() -> None:
    chip = chips.chip(machines.load("h200-sxm"), "max")
    params, source = {"m": 64, "n": 1024, "k": 1024, "dtype": "fp8_block"}, "vllm/DeepGemmFp8BlockScaledMMKernel"
    usual = gemm.estimate(params, chip, source).seconds[0]
    quick = gemm.estimate(params, replace(chip, facts={"host_share": 0.5}), source).seconds[0]
    assert quick == pytest.approx(usual / 2, rel=0.02)


@pytest.mark.parametrize(("machine", "m", "n", "k", "measured_us", "within"), [  # aiconfigurator, cuBLAS bf16, as quoted in NOTES
    ("h100-sxm", 4096, 4096, 4096, 166.0, 0.08),
    ("h100-sxm", 8192, 8192, 8192, 1542.0, 0.13),
    ("h100-sxm", 64, 4096, 4096, 14.8, 0.12),
])  # fmt: skip
def test_published_times(machine, m, n, k, measured_us, within) -> None:
    found = estimate(machine, "vllm/torch.nn.functional.linear", m=m, n=n, k=k, sustained=False)
    assert found.seconds[0] * 1e6 == pytest.approx(measured_us, rel=within)


@pytest.mark.parametrize(("machine", "tflops"), [  # the most that bf16 reached there: NOTES, section 2; of 35,742 shapes; the last four are not fitted
    ("a100-sxm-80gb", 273), ("l40s", 279), ("h100-sxm", 909), ("h200-sxm", 904), ("b200", 1920), ("gb200", 2002), ("rtx-pro-6000", 451),
    ("b300", 2102), ("gb300", 2238),
])  # fmt: skip
def test_most_that_was_reached(machine, tflops) -> None:
    m, n, k = (one.ravel() for one in np.meshgrid([2048, 4096, 8192, 16384], *[[2048, 4096, 8192, 16384, 65536]] * 2))
    most = np.max(2e-12 * m * n * k / estimate(machine, m=m, n=n, k=k, sustained=False).seconds)
    assert most == pytest.approx(tflops, rel=0.22)


@pytest.mark.parametrize(("params", "says"), [
    ({"m": 1, "n": 1}, "needs 'k'"),
    ({"m": 0, "n": 1, "k": 1}, "'m' is a number from 1"),
    ({"m": 1, "n": -4, "k": 1}, "'n' is a number"),
    ({"m": 1, "n": 1, "k": float("nan")}, "'k' is a number"),
    ({"m": 1e14, "n": 1e14, "k": 1e14}, "m × n × k × batch"),
    ({"m": 1, "n": 1, "k": 1, "colour": 3}, "no parameter 'colour'"),
    ({"m": 1, "n": 1, "k": 1, "dtype": "fp8"}, "no matrix unit for fp8"),
])  # fmt: skip
def test_bad_input(params, says) -> None:
    with pytest.raises(InputError, match=says):
        estimate("a100-sxm-80gb", **params)


@pytest.mark.parametrize(("machine", "low", "high"), [("l4", 0.36, 0.46), ("t4", 0.55, 0.86)])
def test_products_of_fp32_draw_the_power_of_the_vector_units(machine, low, high) -> None:
    """NeuSight measured 38 to 42 % of the peak at boost clock on L4, 58 to 86 % on T4: their limits hold the clock down."""
    found = estimate(machine, m=4096, n=4096, k=4096, dtype="fp32")
    chip = chips.chip(machines.load(machine), "max")
    assert list(found.demand.operations) == ["fma.fp32"]
    assert low < 2 * 4096**3 / found.seconds[0] / (chip.units * chip.flop_per_clock["fma.fp32"] * chip.clock_max_hz) < high


def test_a_library_dispatches_tiles_as_its_source_says() -> None:
    """vLLM's scaled_mm_c2x_sm89_fp8_dispatch.cuh and scaled_mm_sm90_fp8_dispatch.cuh."""
    source, m = "vllm/CutlassFP8ScaledMMLinearKernel", np.array([16, 32, 64, 128, 256, 512])
    ada = estimate("l40s", source, m=m, n=4096, k=4096, dtype="fp8").choice
    assert list(zip(ada["tile_m"], ada["tile_n"], strict=True)) == [(16, 64), (32, 64), (64, 64), (64, 128), (64, 128), (128, 128)]
    hopper = estimate("h100-sxm", source, m=m, n=4096, k=4096, dtype="fp8").choice
    assert list(zip(hopper["tile_m"], hopper["tile_n"], strict=True)) == [(16, 64), (64, 64), (64, 64), (64, 128), (128, 128), (128, 128)]


def test_a_kernel_that_does_not_split_k_walks_it_alone() -> None:
    long, short = estimate("b200", "trtllm/torch_flow", m=64, n=128, k=np.array([65536, 8192]), dtype="nvfp4").seconds
    assert estimate("b200", "trtllm/torch_flow", m=64, n=128, k=65536, dtype="nvfp4").choice["split"] == 1
    assert 100e-6 < long < 150e-6  # 126 µs measured
    assert long > 4 * short


def test_weights_that_return_soon_are_still_in_l2() -> None:
    """16 MiB of weights in 96 MiB of L2: one set stays, twenty do not."""
    stays, leaves = (estimate("l40s", m=1, n=4096, k=2048, copies=copies) for copies in (1, 20))
    assert leaves.demand.dram_bytes[0] > 5 * stays.demand.dram_bytes[0]
    assert leaves.seconds[0] > 1.5 * stays.seconds[0]


def test_the_nearest_kernel_stands_for_one_that_was_not_measured() -> None:
    known = base.stored("gemm")
    assert gemm_kernels.find(known, "vllm 0.24.0/torch.nn.functional.linear", "bf16", "sm_90").near == ""
    assert gemm_kernels.find(known, "trtllm/torch_flow", "bf16", "sm_103").near == ""
    assert gemm_kernels.find(known, "sglang/new", "fp8", "sm_100").near == "sglang/sglang_sgl_kernel_fp8_scaled_mm.fp8@sm_100"
    assert gemm_kernels.find(known, "", "fp8_block", "sm_100").kernel.host is False
    assert not estimate("b200", "sglang/new", m=64, n=4096, k=4096, dtype="fp8").inside[0]
    assert estimate("b200", "", m=64, n=4096, k=4096, dtype="nvfp4").seconds == estimate("b200", m=64, n=4096, k=4096, dtype="fp4").seconds
    older, newer = (gemm_kernels.find(known, f"vllm {v}/DeepGemmFp8BlockScaledMMKernel", "fp8_block", "sm_90") for v in ("0.22.0", "0.24.0"))
    assert older.coefficients["host_us"] < newer.coefficients["host_us"]


def test_no_table_in_disguise() -> None:
    assert sum(len(values) for values in base.stored("gemm").values()) < 200


def calls(cases: int) -> int:
    """Functions called for so many products at once, Python's and NumPy's."""
    rng, found = np.random.default_rng(0), 0
    params = {name: np.round(2 ** rng.uniform(5, 15, cases)) for name in "mnk"}

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        estimate("h100-sxm", **params)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.slow("every machine and type")
def test_cases_are_estimated_all_at_once() -> None:
    """A hundred thousand cases a second are promised: arithmetic is of whole arrays, and at most a look-up is made case by case."""
    calls(20)  # tables are read once
    assert calls(20_000) < 2 * 20_000
