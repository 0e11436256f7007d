"""Names of kernels of experts: known, of another version, unknown, misspelt, of no library, and not built for the machine."""

from __future__ import annotations

import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines, predict
from hotlap.core.model.kernels import moe, moe_coefficients, moe_kernels
from hotlap.core.model.kernels.base import stored

SHAPE = {"tokens": 512, "hidden": 4096, "inter": 14336, "topk": 2, "experts": 8}


def test_every_row_of_the_table_answers_for_its_name() -> None:
    for (library, name, place), (versions, kernel) in moe_kernels.TABLE.items():
        target = {"": "sm_80", "blackwell": "sm_100", "hopper": "sm_90"}[place]
        answer = moe_kernels.find(f"{library} {versions.split(', ')[0]}/{name}", target)
        assert (answer.kernel, answer.known, answer.note) == (kernel, True, kernel.defect)


def test_architecture_chooses_the_kernel() -> None:
    assert moe_kernels.find("moe_torch_flow", "sm_90").kernel.family == "matmul_ogs_trtllm"
    assert moe_kernels.find("moe_torch_flow", "sm_103").kernel.family == "gen"
    assert moe_kernels.find("sglang_fused_moe_triton", "sm_80").kernel.remote == 1.0
    assert moe_kernels.find("sglang_fused_moe_triton", "sm_100").kernel.remote == 0.4


def test_another_version_is_answered_and_said() -> None:
    answer = moe_kernels.find("vllm 0.25.1/vllm_fused_moe", "sm_90")
    assert answer.kernel == moe_kernels.VLLM
    assert answer.known
    assert answer.other
    assert answer.note == "vllm 0.25.1 was not measured: taken for 0.22.0"


def test_an_unknown_kernel_of_a_known_library_is_the_nearest_and_said() -> None:
    answer = moe_kernels.find("vllm_nvfp4moe_flashinfer_cutlass_flashinferexperts", "sm_100")
    assert answer.kernel == moe_kernels.FLASHINFER  # and never the build with a defect
    assert "taken for the nearest known kernel of vllm, vllm_fp8moe_flashinfer_cutlass_flashinferexperts" in answer.note
    expected = moe.estimate({**SHAPE, "dtype": "fp8"}, chips.chip(machines.load("h100-sxm")), "vllm_mxfp8moe_triton_tritonexperts")
    assert not expected.inside[0]
    assert expected.remarks[0].endswith("was not measured on hopper: taken for the nearest known kernel of vllm, vllm_fp8moe_triton_tritonexperts")


def test_a_library_alone_is_its_kernel_for_the_machine() -> None:
    assert moe_kernels.find("vllm", "sm_89").kernel == moe_kernels.VLLM
    assert moe_kernels.find("sglang", "sm_100").kernel == moe_kernels.SGLANG_NEWER


@pytest.mark.parametrize("name", ["vllm_fused_mo", "vllm_fusd_moe", "vllm_fused_mooe", "vllm_fuesd_moe", "vllm_fused_mae", "unheard of", "trt/abc"])
def test_misspelt_and_foreign_names_are_refused_with_the_nearest(name) -> None:
    with pytest.raises(InputError, match=f"moe has no implementation '{name}'") as refused:
        moe_kernels.find(name, "sm_90")
    assert "valid: " in str(refused.value)
    if name.startswith("vllm_fu"):
        assert "did you mean 'vllm_fused_moe'" in str(refused.value)


def test_a_kernel_that_is_not_built_for_the_machine_is_refused() -> None:
    with pytest.raises(InputError, match="sglang_flashinfer_trtllm_moe is built for sm_100, sm_103, not for sm_90"):
        predict.predict("moe", "h100-sxm", "sglang_flashinfer_trtllm_moe", **SHAPE)


def test_none_named_is_a_kernel_that_has_the_type() -> None:
    blackwell = chips.chip(machines.load("b200"))
    for dtype, name in moe_kernels.USUAL.items():
        usual, named = (moe.estimate({**SHAPE, "dtype": dtype}, blackwell, one).seconds[0] for one in ("", name))
        assert usual == named
    assert predict.predict("moe", "b200", dtype="fp4", **SHAPE).expected_s == moe.estimate({**SHAPE, "dtype": "nvfp4"}, blackwell).seconds[0]


def test_the_bound_of_experts_is_the_least_that_any_choice_reads() -> None:
    """Tokens may all choose the same experts: two of eight are read, not the mean of even draws."""
    bound = predict.predict("moe", "h200-sxm", dtype="bf16", **{**SHAPE, "tokens": 8}).bound_s
    assert bound == pytest.approx((2 * 3 * 4096 * 14336 * 2 + 8 * 4096 * 2 - machines.load("h200-sxm").resident_bytes) / 4.8e12, rel=0.02)


def test_predict_refuses_a_misspelt_name() -> None:
    with pytest.raises(InputError, match="did you mean 'sglang_marlin_moe'"):
        predict.predict("moe", "h100-sxm", "sglang_marlin_mo", **SHAPE)


def test_a_defect_of_a_build_is_said_and_slower_than_its_siblings() -> None:
    chip, case = chips.chip(machines.load("h100-sxm")), {**SHAPE, "tokens": 4096, "dtype": "fp8"}
    slow = moe.estimate(case, chip, "vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts")
    usual = moe.estimate(case, chip, "moe_torch_flow_cutlass")
    assert slow.seconds[0] == pytest.approx(3.4 * usual.seconds[0])
    assert "a defect of that build" in slow.remarks[0]
    assert not usual.remarks


def test_each_family_and_type_has_coefficients_of_its_own_or_of_the_nearest() -> None:
    known = stored("moe")
    assert moe_coefficients.group("triton", "bf16", "blackwell", known) == "triton_bf16_blackwell"
    assert moe_coefficients.group("gen", "bf16", "hopper", known) == "gen_bf16_blackwell"
    assert moe_coefficients.group("cutlass", "nvfp4", "ada", known) == "cutlass_fp8_ada"
    hopper = {name: values for name, values in known.items() if "blackwell" not in name}
    assert moe_coefficients.group("gen", "nvfp4", "blackwell", hopper) == "cutlass_fp8_hopper"
    assert len({name for values in known.values() for name in values}) == 6
    assert sum(len(values) for values in known.values()) < 200
