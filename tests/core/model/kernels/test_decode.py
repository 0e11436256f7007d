"""Decode attention: parts, growth, bounds, published figures, accuracy on what was held out."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import base, decode
from hotlap.core.model.kernels.attention import read

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "l4", "rtx-4090", "mi300x")
LIBRARIES = ("", "vllm", "vllm vllm_flash_attn_fa2", "vllm vllm_triton_attn", "trtllm torch_flow", "sglang", "sglang triton")
STEPS = {"trtllm torch_flow": 0.45, "vllm vllm_triton_attn": 0.45}  # where keys are no longer split, a larger call may be this much faster
STEP = 0.5  # and where a window lies over one block less


def chip(slug: str) -> base.Chip:
    """At its highest clock."""
    return chips.chip(machines.load(slug), "max")


def cases(size: int = 500) -> dict[str, np.ndarray]:
    random = np.random.default_rng(4)
    groups = 2 ** random.integers(0, 4, size)
    return {
        "batch": 2 ** random.integers(0, 9, size), "kv": np.ceil(2 ** random.uniform(0, 17, size)), "kv_heads": groups,
        "heads": groups * 2 ** random.integers(0, 5, size), "head_dim": random.choice([64, 128, 192, 256], size),
        "window": random.choice([0, 0, 128, 1024], size), "kv_dtype": random.choice(["bf16", "fp8"], size), "dtype": np.full(size, "bf16"),
    }


def bandwidth_share(machine: str, library: str, **change: object) -> float:
    call = {"batch": 64, "kv": 16384, "heads": 32, "kv_heads": 8, "head_dim": 128, **change}
    seconds = decode.estimate(call, chip(machine), library).seconds[0]
    row = call.get("latent") or 2 * call["head_dim"]
    return float(call["batch"] * call["kv"] * call["kv_heads"] * row * 2 / seconds / chip(machine).memory_b_s)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("library", LIBRARIES)
def test_parts_add_up_and_nothing_beats_the_bound(machine: str, library: str) -> None:
    found = decode.estimate(cases(), chip(machine), library)
    assert np.allclose(sum(found.parts.values()), found.seconds, rtol=1e-12)
    assert min(part.min() for part in found.parts.values()) >= -1e-12
    assert (found.seconds >= decode.bound(read(cases(), "decode"), chip(machine))).all()
    assert (found.seconds < 1e3).all()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["batch", "kv", "kv_heads"])
def test_twice_the_size_takes_longer_up_to_steps(machine: str, name: str) -> None:
    small = cases()
    large = {**small, name: small[name] * 2}
    if name == "kv_heads":
        large["heads"] = small["heads"] * 2
    for library in LIBRARIES:
        ratio = decode.estimate(large, chip(machine), library).seconds / decode.estimate(small, chip(machine), library).seconds
        assert ratio.min() > STEPS.get(library, STEP)
        assert np.quantile(ratio, 0.1) > 0.98
        assert np.median(ratio) >= 1


def test_arrays_are_single_cases() -> None:
    many, machine = cases(40), chip("h100-sxm")
    together = decode.estimate(many, machine, "trtllm torch_flow").seconds
    alone = [decode.estimate({n: v[i] for n, v in many.items()}, machine, "trtllm torch_flow").seconds[0] for i in range(40)]
    assert np.allclose(together, alone)


def test_a_cache_that_stays_in_l2_is_read_from_there() -> None:
    small, large = (decode.estimate({"batch": b, "kv": 2048, "heads": 32, "kv_heads": 8, "head_dim": 128}, chip("h100-sxm"), "fa3") for b in (2, 32))
    assert small.demand.dram_bytes[0] < 0.1 * small.demand.l2_bytes[0]
    assert large.demand.dram_bytes[0] == pytest.approx(large.demand.l2_bytes[0], rel=0.01)


def test_what_was_not_measured_says_so() -> None:
    call = {"batch": 8, "kv": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    h100 = chip("h100-sxm")
    assert decode.estimate(call, h100, "vllm vllm_flash_attn_fa3").inside.all()
    assert not decode.estimate(call, h100, "vllm unheard_of").inside.any()
    assert not decode.estimate({**call, "head_dim": 512}, h100, "vllm vllm_flash_attn").inside.any()
    assert not decode.estimate({**call, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576}, h100, "fa3").inside.any()


# ---------------------------------------------------------------- published figures


def test_long_contexts_reach_the_share_of_bandwidth_that_aiconfigurator_measured() -> None:
    """models.md, section 1.1: decode 90 to 94 % of the HBM peak with FA3 on H100."""
    assert 0.88 < bandwidth_share("h100-sxm", "vllm vllm_flash_attn_fa3") < 0.96


def test_latent_attention_lies_below_the_rates_of_a_kernel_made_for_it() -> None:
    """FlashMLA (deepseek-ai, README): up to 3000 GB/s and 660 TFLOP/s on H800. No latent row was fitted: general tiles, so slower."""
    call = {"batch": 128, "kv": 8192, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576}
    seconds = decode.estimate(call, chip("h100-sxm"), "").seconds[0]
    assert 300e12 < 2 * 128 * 8192 * 128 * (576 + 512) / seconds < 660e12
