"""Attention's shared parts: what is refused, exact sums, splits, which kernel runs."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import attention, attention_library, base, decode, prefill
from hotlap.core.model.kernels.attention import read


def chip(slug: str) -> base.Chip:
    """At its highest clock."""
    return chips.chip(machines.load(slug), "max")


H100, A100 = chip("h100-sxm"), chip("a100-sxm-80gb")
CALL = {"batch": 2, "query": 512, "heads": 8, "kv_heads": 2, "head_dim": 128}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kv_heads": 3}, "multiple of 'kv_heads'"), ({"batch": 0}, "'batch' is a whole number"), ({"batch": 1.5}, "'batch' is a whole number"),
        ({"batch": -4}, "not -4"), ({"batch": float("nan")}, "not nan"), ({"heads": 1e30}, r"to 2\^40"), ({"dtype": "int3"}, "no dtype 'int3'"),
        ({"haed_dim": 64}, "head_dim"), ({"kv": 256}, "at least as many keys"), ({"batch": "many"}, "is a number"),
        ({"batch": [1, 2], "heads": [8, 8, 8]}, "one length"), ({"batch": []}, "at least one case"), ({"batch": [[1]]}, "one dimension"),
    ],
)
def test_impossible_cases_are_refused_in_one_line(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        prefill.estimate({**CALL, **change}, H100)


def test_a_missing_size_is_named() -> None:
    with pytest.raises(InputError, match="needs 'heads'"):
        prefill.estimate({"batch": 1, "query": 16, "head_dim": 64}, H100)


def test_a_machine_without_16_bit_products_is_refused() -> None:
    with pytest.raises(InputError, match="no rate of 16-bit products"):
        prefill.estimate(CALL, H100.__class__(**{**H100.__dict__, "flop_per_clock": {}}))


@pytest.mark.parametrize(("query", "kv", "window"), [(1, 1, 0), (7, 7, 0), (7, 20, 0), (50, 50, 8), (20, 50, 8), (50, 50, 64), (5, 9, 6)])
def test_keys_seen_are_counted_exactly(query: int, kv: int, window: int) -> None:
    c = read({"batch": 1, "query": query, "kv": kv, "heads": 1, "head_dim": 64, "window": window}, "prefill")
    by_hand = np.mean([min(kv - query + i + 1, window or kv) for i in range(query)])
    assert attention.seen(c)[0] == pytest.approx(by_hand)


def test_splits_fill_the_last_wave() -> None:
    # 8 tasks on 132 units: 16 parts give 128 tasks, 97 % of a wave; 15 parts 91 %, 14 parts 85 % of it: the fewest within 85 % of the best
    assert attention.splits_by_efficiency(np.array([8.0]), 132, np.array([64.0]), 16)[0] == 14
    assert attention.splits_by_efficiency(np.array([120.0]), 132, np.array([64.0]), 64)[0] == 1  # enough tasks as they are


def test_an_exponential_takes_half_of_the_time_of_its_products_at_head_dimension_128() -> None:
    """FlashAttention-3 (arXiv 2407.08608), section 1: 3.9 T exponentials/s on H100; at head dimension 128, half of the cycles."""
    assert pytest.approx(3.9e12, rel=0.02) == attention.SPECIAL_PER_CLOCK * 132 * 1.83e9
    products = 4 * 128 / attention.matrix_rate(H100, np.zeros(1))[0]
    assert 1 / attention.SPECIAL_PER_CLOCK / products == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("implementation", "machine", "change", "phase", "kernel"),
    [
        ("vllm vllm_flash_attn", "a100-sxm-80gb", {}, "prefill", "fa2"), ("vllm vllm_flash_attn", "h200-sxm", {}, "prefill", "fa3"),
        ("vllm vllm_flash_attn", "h200-sxm", {"head_dim": 512}, "decode", "fa4"), ("vllm vllm_flash_attn_fa3", "h100-sxm", {}, "decode", "fa3"),
        ("sglang flash_attention", "a100-sxm-80gb", {}, "decode", "fa3_sm80"), ("trtllm torch_flow", "h100-sxm", {}, "prefill", "fmha"),
        ("trtllm torch_flow", "h100-sxm", {}, "decode", "xqa"), ("trtllm torch_flow", "h100-sxm", {"kv_dtype": "fp8"}, "decode", "xqa_fp8"),
        ("trtllm torch_flow", "a100-sxm-80gb", {"kv_dtype": "fp8"}, "decode", "xqa"), ("trtllm torch_flow", "h100-sxm", {"kv_heads": 8}, "decode", "mmha"),
        ("", "b200", {}, "decode", "default"), ("something else", "mi300x", {}, "prefill", "default"),
    ],
)
def test_the_kernel_follows_from_library_machine_and_shape(implementation: str, machine: str, change: dict[str, object], phase: str, kernel: str) -> None:
    c = read({**CALL, "query": 1 if phase == "decode" else 512, **change}, phase)
    assert attention_library.choose(implementation, c, chip(machine), phase)[0] == kernel


def test_each_family_has_fewer_than_200_coefficients_and_a_default() -> None:
    for phase in ("prefill", "decode"):
        fitted = base.stored(phase, "kernel")
        assert "default" in fitted
        assert sum(len(values) for values in fitted.values()) < 200


def test_cases_of_several_kernels_come_back_in_their_order() -> None:
    heads = np.array([8, 8, 8, 8])
    kv_heads, names = np.array([8, 2, 8, 2]), np.array(["trtllm", "trtllm", "vllm fa3", "unknown"])
    params = {"batch": 4, "kv": 4096, "heads": heads, "kv_heads": kv_heads, "head_dim": 128}
    together = decode.estimate(params, H100, names)
    for i in range(4):
        alone = decode.estimate({**params, "heads": heads[i], "kv_heads": kv_heads[i]}, H100, str(names[i]))
        assert together.seconds[i] == pytest.approx(alone.seconds[0])
        assert together.choice["kernel"][i] == alone.choice["kernel"][0]
