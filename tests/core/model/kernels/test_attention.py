"""Attention's shared parts: what is refused, exact sums, splits, which kernel runs."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import attention, attention_choice, attention_library, base, decode, prefill
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
    assert attention.seen(c) == pytest.approx(by_hand)


def test_splits_fill_the_last_wave() -> None:
    # 8 tasks on 132 units: 16 parts give 128 tasks, 97 % of a wave; 15 parts 91 %, 14 parts 85 % of it: the fewest within 85 % of the best
    assert attention.splits_by_efficiency(np.array([8.0]), 132, np.array([64.0]), 16)[0] == 14
    assert attention.splits_by_efficiency(np.array([120.0]), 132, np.array([64.0]), 64)[0] == 1  # enough tasks as they are


def test_an_exponential_takes_half_of_the_time_of_its_products_at_head_dimension_128() -> None:
    """FlashAttention-3 (arXiv 2407.08608), section 1: 3.9 T exponentials/s on H100; at head dimension 128, half of the cycles."""
    assert pytest.approx(3.9e12, rel=0.02) == H100.special_per_clock * 132 * 1.83e9
    products = 4 * 128 / attention.matrix_rate(H100, np.zeros(1))[0]
    assert 1 / H100.special_per_clock / products == pytest.approx(0.5)
    b300, b200 = chip("b300"), chip("b200")
    assert b300.special_per_clock == 2 * b200.special_per_clock  # NVIDIA, Blackwell Ultra: 10.7 T exponentials/s
    assert attention.softmax_clocks(b300) < attention.softmax_clocks(b200)


@pytest.mark.parametrize(
    ("implementation", "machine", "change", "phase", "kernel"),
    [
        ("vllm vllm_flash_attn", "a100-sxm-80gb", {}, "prefill", "fa2"), ("vllm vllm_flash_attn", "h200-sxm", {}, "prefill", "fa3"),
        ("vllm vllm_flash_attn", "h200-sxm", {"head_dim": 512}, "decode", "fa4"), ("vllm vllm_flash_attn_fa3", "h100-sxm", {}, "decode", "fa3"),
        ("sglang flash_attention", "a100-sxm-80gb", {}, "decode", "fa3_sm80"), ("trtllm torch_flow", "h100-sxm", {}, "prefill", "fmha"),
        ("trtllm torch_flow", "h100-sxm", {}, "decode", "xqa"), ("trtllm torch_flow", "h100-sxm", {"kv_dtype": "fp8"}, "decode", "xqa_fp8"),
        ("trtllm torch_flow", "a100-sxm-80gb", {"kv_dtype": "fp8"}, "decode", "xqa_mma_fp8"),
        ("trtllm torch_flow", "h100-sxm", {"kv_heads": 8}, "decode", "mmha"), ("trtllm torch_flow", "b200", {}, "decode", "gen"),
        ("trtllm torch_flow", "b200", {"heads": 64, "kv_heads": 1}, "decode", "mmha"), ("sglang trtllm_mha", "b300", {}, "prefill", "gen"),
        ("sglang trtllm_mha", "b200", {"heads": 64, "kv_heads": 1}, "decode", "gen"), ("trtllm torch_flow", "l40s", {}, "prefill", "fmha_mma"),
        ("trtllm torch_flow", "l40s", {"dtype": "fp8"}, "prefill", "fmha_qmma"), ("trtllm torch_flow", "rtx-pro-6000", {}, "prefill", "fmha_mma"),
        ("sglang flashinfer", "b200", {}, "prefill", "cutlass"), ("sglang flashinfer", "b200", {}, "decode", "flashinfer"),
        ("sglang triton", "b200", {}, "prefill", "triton"), ("sglang triton", "b200", {"kv_heads": 8}, "decode", "triton_mha"),
        ("vllm vllm_triton_attn", "l40s", {}, "decode", "triton_vllm"), ("vllm vllm_flashinfer", "b200", {"query": 1}, "prefill", "gen_single"),
        ("vllm 0.24.0/vllm_flashinfer_fiprefill", "l40s", {}, "prefill", "flashinfer"), ("TensorRT-LLM torch_flow", "b200", {}, "prefill", "gen"),
        ("", "b200", {}, "decode", "gen"), ("sglang", "rtx-pro-6000", {}, "prefill", "triton"), ("sglang", "mi300x", {}, "prefill", "fa3"), ("flash", "h100-sxm", {}, "prefill", "fa2"),
    ],
)  # fmt: skip
def test_the_kernel_follows_from_library_machine_and_shape(implementation: str, machine: str, change: dict[str, object], phase: str, kernel: str) -> None:
    call = {**CALL, "query": 1 if phase == "decode" else 512, **change}
    alone, many = (read({**call, "batch": batch}, phase) for batch in (2, np.array([2, 2])))
    assert attention_library.choose(implementation, alone, chip(machine), phase).kernel == kernel
    assert (np.broadcast_to(np.asarray(attention_library.choose(implementation, many, chip(machine), phase).kernel), 2) == kernel).all()


@pytest.mark.parametrize(
    ("name", "machine", "words"),
    [
        ("something else", "h100-sxm", "no implementation 'something else'"), ("vlm", "h100-sxm", "did you mean 'vllm'"),
        ("vllm vllm_flash_atn_fa3", "h100-sxm", "did you mean 'vllm_flash_attn_fa3'"), ("my_trt_thing", "b200", "no implementation"),
        ("vllm vllm_flash_attn_fa3", "b200", "compute capability 9.x only, and this GPU is sm_100"), ("sglang trtllm_mha", "h100-sxm", "10.x only"),
    ],
)  # fmt: skip
def test_names_that_nobody_knows_and_kernels_that_the_gpu_lacks_are_refused(name: str, machine: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        prefill.estimate(CALL, chip(machine), name)


def test_an_unknown_kernel_of_a_known_library_is_the_nearest_with_a_wide_interval_and_said() -> None:
    sure, other = (prefill.estimate(CALL, H100, name) for name in ("vllm vllm_flash_attn_fa3", "vllm vllm_flash_attn_fa5"))
    assert sure.inside.all()
    assert not sure.remarks
    assert not other.inside.any()
    assert "'vllm_flash_attn_fa5' was never measured: taken for the nearest, 'vllm_flash_attn_fa" in other.remarks[0]


def test_every_kernel_of_the_table_has_traits_and_every_trait_leads_to_coefficients() -> None:
    for family in (prefill.FAMILY, decode.FAMILY):
        fitted = base.stored(family.phase, "kernel")
        for kernel in {kernel for runs in attention_choice.TABLE.values() for kernel in runs.values()} - set(attention_choice.DECODE):
            kernel = attention_choice.PREFILL.get(kernel, kernel) if family.phase == "prefill" else kernel
            if kernel in family.kernels:
                assert set(fitted["default"]) == set(attention_library.coefficients_of(family, kernel, "vllm", fitted))
        assert all(traits.like in ("", *family.kernels) and traits.of in ("", *family.kernels) for traits in family.kernels.values())
        assert attention_library.coefficients_of(family, "gen", "", {"default": fitted["default"]}) == fitted["default"]  # nothing but that


def test_flash_attention_2_with_a_window_packs_no_heads() -> None:
    """vLLM flash-attention `flash_api.cpp`: `seqlenq_ngroups_swapped` asks for no window. Eight heads of a group then read keys apart."""
    call = {"batch": 64, "kv": 8192, "heads": 64, "kv_heads": 8, "head_dim": 128}
    whole, window = (decode.estimate({**call, "window": w}, chip("l40s"), "fa2") for w in (0, 8192))
    assert window.choice["tasks"][0] == 8 * whole.choice["tasks"][0]
    assert window.seconds[0] > 1.2 * whole.seconds[0]


def test_tritons_extend_walks_the_whole_triangle_under_a_window() -> None:
    call = {"batch": 4, "query": 8192, "heads": 8, "kv_heads": 1, "head_dim": 192}
    for name, ratio in (("sglang triton", 0.9), ("vllm vllm_triton_attn", 0.0)):
        whole, window = (prefill.estimate({**call, "window": w}, chip("b200"), name).seconds[0] for w in (0, 128))
        assert ratio < window / whole < ratio + 0.3


def test_8_bit_queries_and_an_8_bit_cache_are_two_cases() -> None:
    call = {"batch": 8, "query": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    wide, cache, both = (
        prefill.estimate({**call, "dtype": q, "kv_dtype": kv}, chip("l40s"), "trtllm torch_flow").seconds[0]
        for q, kv in (("bf16", "bf16"), ("bf16", "fp8"), ("fp8", "fp8"))
    )
    assert cache == pytest.approx(wide, rel=0.1)  # Ada's kernels multiply 16 bits whatever the cache holds
    assert both < 0.75 * wide


def test_each_family_has_fewer_than_200_coefficients_and_a_default() -> None:
    for phase in ("prefill", "decode"):
        fitted = base.stored(phase, "kernel")
        assert "default" in fitted
        assert sum(len(values) for values in fitted.values()) < 200


def test_cases_of_several_kernels_come_back_in_their_order() -> None:
    heads = np.array([8, 8, 8, 8])
    kv_heads, names = np.array([8, 2, 8, 2]), np.array(["trtllm", "trtllm", "vllm fa3", "sglang triton"])
    params = {"batch": 4, "kv": 4096, "heads": heads, "kv_heads": kv_heads, "head_dim": 128}
    together = decode.estimate(params, H100, names)
    for i in range(4):
        alone = decode.estimate({**params, "heads": heads[i], "kv_heads": kv_heads[i]}, H100, str(names[i]))
        assert together.seconds[i] == pytest.approx(alone.seconds[0])
        assert together.choice["kernel"][i] == alone.choice["kernel"][0]
