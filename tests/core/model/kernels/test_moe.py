"""Mixtures of experts: properties, published shapes, and the stored coefficients on the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import moe

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "l4", "mi300x", "rtx-4090")
MIXTRAL = {"hidden": 4096, "inter": 14336, "topk": 2, "experts": 8}  # mistralai/Mixtral-8x7B-v0.1 config.json
DEEPSEEK = {"hidden": 7168, "inter": 2048, "topk": 8, "experts": 256}  # deepseek-ai/DeepSeek-V3 config.json
SOURCES = ("vllm_fused_moe", "moe_torch_flow_cutlass", "vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "sglang_marlin_moe")
TRITON = ("sglang_fused_moe_triton", "vllm_unquantizedfusedmoe_triton_tritonexperts", "vllm_fp8moe_triton_tritonexperts", "vllm_fused_moe")
TILE_STEP = 0.06  # more tokens may take this much less time where another tile begins to pay


def estimate(machine, implementation="", **params):
    return moe.estimate(params, chips.chip(machines.load(machine)), implementation)


@pytest.mark.slow("every machine and type")
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", [MIXTRAL, DEEPSEEK])
@pytest.mark.parametrize("implementation", SOURCES)
def test_more_work_takes_more_time(machine, shape, implementation) -> None:
    for ep in (1, 8):
        tokens = np.unique((2 ** np.linspace(0, 20, 500)).astype(int))
        over = {"tokens": tokens, "hidden": np.arange(256, 16384, 64), "inter": np.arange(256, 16384, 64)}
        for name, values in over.items():
            expected = estimate(machine, implementation, **{**shape, "tokens": 600, "ep": ep, name: values})
            assert np.all(np.isfinite(expected.seconds))
            fixed = implementation in ("vllm_fused_moe", "sglang_marlin_moe")  # the library's rule may take a better tile for more tokens
            tiles = fixed * (1000 * expected.choice["tile_m"] + expected.choice["tile_n"])
            for tile in np.unique(tiles):
                some = expected.seconds[tiles == tile]
                assert np.all(some >= (1 - TILE_STEP) * np.maximum.accumulate(some))


def test_parts_add_up_and_arrays_are_single_cases() -> None:
    rng = np.random.default_rng(0)
    count = 3000
    params = {
        "tokens": rng.integers(1, 20000, count), "hidden": 64 * rng.integers(8, 128, count), "inter": 64 * rng.integers(8, 256, count),
        "topk": rng.integers(1, 9, count), "experts": rng.choice([64, 128, 256], count), "tp": rng.choice([1, 2, 8], count),
        "ep": rng.choice([1, 4, 64], count), "distribution": rng.choice(["balanced", "power_law_1.01", "power_law_1.2"], count),
        "dtype": rng.choice(["bf16", "fp8", "fp8_block", "int4_wo", "w4a16_mxfp4"], count), "gated": rng.random(count) < 0.8,
    }
    sources = rng.choice([*SOURCES, *TRITON, "sglang_marlin_moe"], count)
    found = estimate("h100-sxm", sources, **params)
    assert np.allclose(np.sum(list(found.parts.values()), axis=0), found.seconds, rtol=1e-12)
    assert set(found.parts) == set(moe.PARTS)
    assert all(np.all(part >= -1e-12) for part in found.parts.values())
    for i in range(0, count, 151):
        alone = estimate("h100-sxm", str(sources[i]), **{name: values[i] for name, values in params.items()})
        assert alone.seconds[0] == pytest.approx(found.seconds[i], rel=1e-12)
        assert alone.choice["tile_m"][0] == found.choice["tile_m"][i]


def test_distinct_texts_and_where_they_are() -> None:
    for many in (1, 3, 40):
        values = np.random.default_rng(many).permutation([f"kernel {i % many}" for i in range(500)])
        names, which = moe.moe_cases.codes(values)
        assert len(names) == len(set(names)) == many
        assert np.array_equal(np.array(names)[which], values)
    assert moe.moe_cases.codes(np.array([], dtype=str))[0] == []


def test_weights_of_deepseek_v3() -> None:
    """256 experts × 3 × 7168 × 2048 weights in each of 58 layers are 654 of its 671 billion (DeepSeek-V3 report, arXiv 2412.19437)."""
    found = estimate("h200-sxm", "vllm_fused_moe", tokens=4096, dtype="fp8_block", **DEEPSEEK)
    assert 58 * found.choice["weights"][0] == pytest.approx(653.9e9, rel=1e-3)


def test_operations_of_mixtral() -> None:
    """6 × 4096 × 14336 × 2 = 0.70 GFLOP a token and layer, × 32 = 22.5; full tiles add nothing at 4096 rows an expert."""
    found = estimate("h100-sxm", "vllm_fused_moe", tokens=16384, **MIXTRAL)
    assert 32 * found.demand.operations["matrix.bf16"][0] / 16384 == pytest.approx(22.5e9, rel=0.01)
    assert found.parts["tile quantisation"][0] == pytest.approx(0, abs=1e-3 * found.seconds[0])


def test_one_token_reads_only_its_experts() -> None:
    found = estimate("h100-sxm", "", tokens=[1, 4, 64], **MIXTRAL)
    assert found.choice["weights"] / (3 * 4096 * 14336 * 2) == pytest.approx([2, 8, 8])


def test_untuned_tiles_of_sglang() -> None:
    """`get_default_config` of SGLang: 16 × 32 up to as many tokens as experts, else 64 × 64."""
    found = estimate("a100-sxm-80gb", "sglang_fused_moe_triton", tokens=[256, 257], **DEEPSEEK)
    assert found.choice["tile_m"].tolist() == [16, 64]
    assert found.choice["tile_n"].tolist() == [32, 64]


def test_fixed_tiles_of_vllm_and_marlin() -> None:
    """`get_default_config` of vLLM by tokens, its blocks of fp8, and the block of fused_marlin_moe.py by rows of an expert."""
    tokens = [32, 33, 96, 97, 512, 513]
    assert estimate("l40s", "vllm_fused_moe", tokens=tokens, **DEEPSEEK).choice["tile_m"].tolist() == [16, 32, 32, 64, 64, 128]
    assert estimate("l40s", "vllm_fused_moe", tokens=[64, 65], dtype="fp8_block", **DEEPSEEK).choice["tile_m"].tolist() == [16, 64]
    tokens = [230, 231, 461, 922, 1383]  # 32 tokens are a row of each expert: 7.2 rows, and more
    assert estimate("h100-sxm", "sglang_marlin_moe", tokens=tokens, dtype="int4_wo", **DEEPSEEK).choice["tile_m"].tolist() == [8, 16, 32, 48, 64]


def test_weights_that_stay_in_l2() -> None:
    """96 MiB in one piece keep Mixtral's two experts of an eighth, 88 MB; H100's 50 MiB, in two copies, do not; nor do five draws."""
    share = {"tokens": 1, "tp": 8, **MIXTRAL}
    ada, hopper = (estimate(machine, "moe_torch_flow_cutlass", **share) for machine in ("l40s", "h100-sxm"))
    assert ada.parts["DRAM"][0] < 0.7 * ada.choice["weights"][0] / 864e9
    assert hopper.demand.dram_bytes[0] > 0.9 * hopper.choice["weights"][0]
    drawn = estimate("l40s", "moe_torch_flow_cutlass", **share, distribution="power_law_1.2")
    assert drawn.demand.dram_bytes[0] > 1.2 * ada.demand.dram_bytes[0]


def test_few_tokens_of_a_power_law_take_an_expert_each() -> None:
    """The collectors round loads to whole rows and give what is left to experts without one: 16 rows touch 16 of 256."""
    drawn = estimate("h100-sxm", "moe_torch_flow_cutlass", tokens=2, distribution="power_law_1.01", **DEEPSEEK)
    even = estimate("h100-sxm", "moe_torch_flow_cutlass", tokens=2, **DEEPSEEK)
    assert drawn.choice["weights"][0] == pytest.approx(even.choice["weights"][0], rel=0.1)


def test_a_gate_of_groups_touches_half_of_the_experts() -> None:
    """DeepSeek-V3's gate keeps 4 of 8 groups; balanced choices, one of each group, tie, so that half of the experts get rows."""
    low, usual = (
        estimate("b200", name, tokens=512, dtype="nvfp4", **DEEPSEEK).choice["weights"][0]
        for name in ("moe_torch_flow_min_latency", "moe_torch_flow_cutlass")
    )
    assert low == pytest.approx(usual / 2, rel=0.1)


def test_remote_rows_are_of_a_version_and_path() -> None:
    even = {"tokens": 4096, "ep": 8, **DEEPSEEK}
    older, newer = (estimate(machine, "sglang_fused_moe_triton", **even) for machine in ("a100-sxm-80gb", "b200"))
    work = [one.demand.operations["matrix.bf16"][0] / (6 * 4096 * 7168 * 2048) for one in (older, newer)]
    assert work[0] > 7.5  # all eight of a token that has one here
    assert 1 < work[1] < 5


def test_skew_costs_more_on_the_heaviest_rank() -> None:
    even, mild, steep = estimate("h100-sxm", "", tokens=16384, ep=16, distribution=["balanced", "power_law_1.01", "power_law_1.2"], **DEEPSEEK).seconds
    assert even < mild < steep
    assert steep < 16 * even


def test_sharding_divides_the_work() -> None:
    alone, by_inter, by_experts = (estimate("h100-sxm", "moe_torch_flow_cutlass", tokens=16384, **MIXTRAL, **ways).seconds[0] for ways in ({}, {"tp": 4}, {"ep": 4}))
    assert by_inter == pytest.approx(alone / 4, rel=0.35)
    assert by_experts == pytest.approx(alone / 4, rel=0.15)


def test_domain() -> None:
    assert estimate("h100-sxm", "vllm_fused_moe", tokens=64, **MIXTRAL).inside[0]
    assert estimate("b200", "vllm_fused_moe", tokens=64, **MIXTRAL).inside[0]
    assert not estimate("l4", "vllm_fused_moe", tokens=64, **MIXTRAL).inside[0]
    assert not estimate("h100-sxm", "vllm_fused_moe", tokens=2**20, **MIXTRAL).inside[0]
    assert not estimate("h100-sxm", "vllm_fused_moe", tokens=64, dtype="int4_wo", **MIXTRAL).inside[0]  # no such rows: Marlin stands in


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": 0}, "'tokens' must be a whole number"), ({"tokens": 1.5}, "whole number"), ({"hidden": -4}, "'hidden'"),
        ({"inter": float("nan")}, "'inter'"), ({"topk": 9}, "'topk' cannot exceed"), ({"ep": 3}, "multiple of 'ep'"),
        ({"dtype": "fp9"}, "no dtype 'fp9'"), ({"distribution": "skewed"}, "'distribution' is balanced or power_law_"),
        ({"distribution": "power_law_99"}, "exponent"), ({"token": 1}, "did you mean 'tokens'"), ({"hidden": 1e12}, "from 1 to 1e9"),
    ],
)
def test_bad_input(change, says) -> None:
    with pytest.raises(InputError, match=says):
        estimate("h100-sxm", **{"tokens": 64, **MIXTRAL, **change})


def test_what_a_machine_lacks() -> None:
    with pytest.raises(InputError, match=r"no matrix.fp8 for dtype 'fp8'"):
        estimate("a100-sxm-80gb", tokens=64, dtype="fp8", **MIXTRAL)
    with pytest.raises(InputError, match=r"no matrix.fp4 for dtype 'nvfp4'"):
        estimate("h100-sxm", tokens=64, dtype="nvfp4", **MIXTRAL)
    with pytest.raises(InputError, match="needs 'experts'"):
        estimate("h100-sxm", tokens=64, hidden=64, inter=64, topk=1)
