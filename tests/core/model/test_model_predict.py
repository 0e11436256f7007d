"""Predictions: single values and arrays, expectations with published errors, and the public measurements they come from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.chips import chip
from hotlap.core.model.kernels import decode, versions
from hotlap.core.model.predict import OUTSIDE, predict
from hotlap.core.record import Case
from hotlap.core.show import listing

DATA = Path(os.environ.get("HOTLAP_SHARED") or Path(__file__).resolve().parents[3].parent / "shared") / "data" / "kernels"
FLOOR = 0.05  # mean difference of two public collections of the same products on the same GPU


def test_a_single_prediction_has_bound_expectation_and_interval() -> None:
    found = predict("gemm", "h100-sxm", dtype="bf16")
    assert found.kind == "bound"
    assert found.bound_s == pytest.approx(2 * 4096**3 / (132 * 4096 * 1.98e9))
    assert found.bound_s < found.low_s < found.expected_s < found.high_s
    assert sum(found.parts.values()) == pytest.approx(found.expected_s)
    assert found.choice["tile_m"] * found.choice["tile_n"] >= 128 * 128
    assert found.calibration_level == "fitted to measurements on NVIDIA H100 SXM5 80 GB"


def test_it_holds_a_published_measurement() -> None:
    """4096³ bf16 on H100: 166.0 µs measured by aiconfigurator through cuBLAS."""
    found = predict("gemm", "h100-sxm", dtype="bf16", m=4096, n=4096, k=4096)
    assert found.bound_s < 166.0e-6
    assert found.low_s < 166.0e-6 < found.high_s


def test_it_says_how_sure_it_is() -> None:
    """The less is known of a machine, the wider the interval."""
    found = [predict("gemm", name, dtype="bf16") for name in ("h100-sxm", "h100-pcie", "rtx-pro-6000")]
    assert [one.calibration_level.partition(":")[0] for one in found] == [
        "fitted to measurements on NVIDIA H100 SXM5 80 GB", "fitted to measurements on other machines of its architecture", "published figures of the machine only",
    ]
    widths = [one.high_s / one.low_s for one in found]
    assert widths[2] > max(widths[:2])
    assert "outside of what was measured" in " ".join(predict("gemm", "h100-sxm", dtype="tf32").causes)


def test_nothing_is_expected_where_no_family_knows_it() -> None:
    assert predict("chase", "h100-sxm", size="1 GiB").expected_s is None
    assert predict("gemm", "b100", dtype="bf16").kind == "unknown"
    assert "lacks" in " ".join(predict("gemm", "b100", dtype="bf16").causes)


def test_arrays_give_arrays_that_agree_with_single_values() -> None:
    m, n = np.array([128, 4096]), np.array([[4096], [8192]])
    found = predict("gemm", "h200-sxm", dtype="bf16", m=m, n=n)
    assert found.bound_s.shape == found.expected_s.shape == (2, 2)
    for i in range(2):
        for j in range(2):
            single = predict("gemm", "h200-sxm", dtype="bf16", m=int(m[j]), n=int(n[i, 0]))
            assert found.bound_s[i, j] == pytest.approx(single.bound_s)
            assert found.high_s[i, j] == pytest.approx(single.high_s)
            assert found.parts["DRAM"][i, j] == pytest.approx(single.parts["DRAM"])


def test_lists_of_strings_are_values_too_and_unknown_ones_are_nan() -> None:
    found = predict("stream", "h200-sxm", size=["8 MiB", "1 GiB"])
    assert found.kind == "expected"  # of one there is no bound, of both an expectation
    assert np.isnan(found.bound_s[0])
    assert np.all(found.expected_s > 0)
    assert found.bound_s[1] == predict("stream", "h200-sxm", size="1 GiB").bound_s
    assert "stay in" in found.reason
    types = predict("fma", "h100-sxm", dtype=["fp64", "fp32"])
    assert types.bound_s[0] == pytest.approx(2 * types.bound_s[1])


def test_a_case_that_is_impossible_is_unknown_and_the_others_are_answered() -> None:
    found = predict("gemm", "h100-sxm", m=[128, 0, 4096, 64], n=4096, k=4096, dtype=["bf16", "bf16", "fp4", "fp8"])
    assert np.array_equal(np.isnan(found.expected_s), [False, True, True, False])
    assert found.inside.tolist() == [True, False, False, True]
    assert found.limiter.tolist() == ["arithmetic unit", "", "", "arithmetic unit"]
    assert found.known.tolist()[1:3] == ["", ""]
    assert found.known[0] == "fitted to measurements on NVIDIA H100 SXM5 80 GB"
    assert "2 of 4 cases are unknown: 'm' must be at least 1" in " ".join(found.causes)
    sizes = predict("stream", "h200-sxm", size=["8 MiB", "0 B"])
    assert np.array_equal(np.isnan(sizes.expected_s), [False, True])
    lacking = predict("gemm", "h200-sxm", m=[1, 2], dtype="fp4")
    assert (lacking.kind, "no matrix unit for fp4" in " ".join(lacking.causes)) == ("unknown", True)


def test_texts_in_arrays_agree_with_single_values() -> None:
    """Types and implementations, mixed; each row as when it is asked for alone."""
    names = ["", "trtllm/torch_flow", "vllm/CutlassFP8ScaledMMLinearKernel", ""]
    types, m = ["bf16", "fp8", "fp8", "fp8_block"], np.array([64, 4096, 300, 8192])
    found = predict("gemm", "h100-sxm", names, m=m, n=4096, k=1024, dtype=types)
    for i in range(4):
        one = predict("gemm", "h100-sxm", names[i], m=int(m[i]), n=4096, k=1024, dtype=types[i])
        assert found.expected_s[i] == pytest.approx(one.expected_s, rel=1e-6)
        assert found.parts["quantisation pass"][i] == pytest.approx(one.parts.get("quantisation pass", 0.0), rel=1e-6)
        assert (found.inside[i], found.known[i], found.limiter[i]) == (one.inside, one.known, one.limiter)


def test_decode_and_prefill_may_be_mixed() -> None:
    query = np.array([1, 2048, 1])
    found = predict("attention", "h100-sxm", query=query, kv=[4096, 2048, 8192], batch=4)
    for i in range(3):
        one = predict("attention", "h100-sxm", query=int(query[i]), kv=[4096, 2048, 8192][i], batch=4)
        assert found.expected_s[i] == pytest.approx(one.expected_s)


def test_a_kernel_that_nobody_measured_is_taken_for_the_nearest_and_it_is_said() -> None:
    known, new = (predict("gemm", "h100-sxm", name, dtype="fp8") for name in ("vllm/CutlassFP8ScaledMMLinearKernel", "vllm/Marlin"))
    assert new.expected_s == known.expected_s
    assert (known.inside, new.inside) == (True, False)
    assert new.high_s / new.low_s > known.high_s / known.low_s
    assert "taken for vllm/CutlassFP8ScaledMMLinearKernel.fp8" in " ".join(new.causes)


ANOTHER = [
    ("gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "fp8"}, "vllm {}/CutlassFP8ScaledMMLinearKernel", "9.9", "0.24.0"),
    ("attention", {"batch": 4, "query": 4096}, "vllm {}/vllm_flash_attn_fa3", "9.9", "0.24.0"),
    ("attention", {"batch": 4, "query": 1, "kv": 4096}, "tensorrt-llm {}", "2.0.0", "1.3.0rc20"),
    ("moe", {"dtype": "bf16"}, "vllm {}/vllm_fused_moe", "9.9", "0.22.0"),
]


@pytest.mark.parametrize(("workload", "params", "name", "other", "measured"), ANOTHER)
def test_another_version_of_a_library_widens_the_interval_and_it_is_said(
    workload: str, params: dict[str, Any], name: str, other: str, measured: str
) -> None:
    newer, known = (predict(workload, "h100-sxm", name.format(version), **params) for version in (other, measured))
    assert newer.inside
    assert newer.expected_s == known.expected_s
    assert newer.high_s / newer.low_s > known.high_s / known.low_s
    assert (newer.low_s, newer.high_s) != (0.4 * newer.expected_s, 2.5 * newer.expected_s)
    texts = [note.seen for note in newer.notes]
    assert any(f"{other} was n" in text for text in texts)
    assert versions.WIDER in texts
    assert versions.WIDER not in [note.seen for note in known.notes]


def test_all_unknown_stays_unknown() -> None:
    found = predict("launch", "h200-sxm", mode=["single", "graph"])
    assert (found.kind, found.bound_s) == ("unknown", None)


def test_latent_attention_is_expected_and_said_to_be_outside() -> None:
    """The workload gives the kernel its widths: as it says when asked itself. The bound is the latent cache, read once for all heads,
    with queries and output, less what L2 may hold."""
    call = {"batch": 128, "kv": 8192, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576}
    found = predict("attention", "h100-sxm", query=1, **call)
    own = decode.estimate(call, chip(machines.load("h100-sxm"), "max"), "vllm")
    assert found.expected_s == pytest.approx(own.seconds[0])
    assert found.bound_s == pytest.approx((2 * 128 * (8192 * 576 + 128 * (576 + 512)) - 50 * 2**20) / 3352e9)
    assert OUTSIDE in found.notes
    assert (found.low_s, found.high_s) == pytest.approx((max(0.4 * found.expected_s, found.bound_s), 2.5 * found.expected_s), rel=0.01)
    many = predict("attention", "h100-sxm", query=1, **{**call, "kv": np.array([8192, 4096])})
    assert many.expected_s[0] == pytest.approx(found.expected_s)


def test_rows_of_decode_and_prefill_may_be_mixed() -> None:
    call = {"batch": np.array([4, 8, 2]), "kv": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    mixed = predict("attention", "b200", query=np.array([1, 512, 1]), **call)
    decoded = predict("attention", "b200", query=1, **{**call, "batch": np.array([4, 2])})
    alone = predict("attention", "b200", query=512, **{**call, "batch": 8})
    assert mixed.expected_s == pytest.approx([decoded.expected_s[0], alone.expected_s, decoded.expected_s[1]])
    assert mixed.low_s == pytest.approx([decoded.low_s[0], alone.low_s, decoded.low_s[1]])
    assert sum(part for part in mixed.parts.values()) == pytest.approx(mixed.expected_s)
    assert mixed.choice["kernel"].tolist() == ["gen"] * 3


def test_a_call_that_writes_no_cache_is_asked_for() -> None:
    call = {"batch": 8, "query": 2048, "heads": 32, "kv_heads": 8, "head_dim": 128}
    written, usual, bare = (predict("attention", "h100-sxm", **call, **more) for more in ({"cache_write": 1}, {}, {"cache_write": 0}))
    assert written.expected_s == usual.expected_s > bare.expected_s
    assert bare.parts.get("cache write", 0.0) == 0


def test_the_bound_of_an_8_bit_cache_allows_for_8_bit_products() -> None:
    """vLLM and TensorRT-LLM turn the queries to 8 bits there. On A100, which has no such products, the bound is that of 16 bits."""
    call = {"batch": 4, "query": 8192, "heads": 32, "kv_heads": 8, "head_dim": 128}
    for machine, ratio in (("h100-sxm", 0.5), ("a100-sxm-80gb", 1.0)):
        wide, narrow = (predict("attention", machine, **call, kv_dtype=kv).bound_s for kv in ("bf16", "fp8"))
        assert narrow == pytest.approx(ratio * wide)
        assert predict("attention", machine, **{**call, "batch": [4, 2]}, kv_dtype="fp8").bound_s[0] == pytest.approx(narrow)


def test_a_kernel_that_was_never_measured_is_said_and_one_that_the_gpu_lacks_is_refused() -> None:
    call = {"batch": 8, "query": 1, "kv": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    other = predict("attention", "h100-sxm", "vllm vllm_flash_attn_fa5", **call)
    assert OUTSIDE in other.notes
    assert any(note.code == "nearest_kernel" for note in other.notes)
    with pytest.raises(InputError, match=r"10\.x only, and this GPU is sm_90"):
        predict("attention", "h100-sxm", "sglang trtllm_mha", **call)
    with pytest.raises(InputError, match="did you mean 'vllm'"):
        predict("attention", "h100-sxm", "vlm", **call)


def test_numpy_numbers_are_numbers() -> None:
    assert predict("gemm", "h100", dtype="bf16", m=np.int64(64)).bound_s == predict("gemm", "h100", dtype="bf16", m=64).bound_s


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gem", "h100-sxm", {}), "there is no workload 'gem'; did you mean 'gemm'"),
        (("gemm", "h101-sxm", {}), "there is no machine 'h101-sxm'; did you mean"),
        (("gemm", "h100-sxm", {"mm": 3}), "gemm has no parameter 'mm'"),
        (("gemm", "h100-sxm", {"m": [1, 2], "n": [1, 2, 3]}), "these arrays do not go together: m (2,), n (3,)"),
        (("gemm", "h100-sxm", {"m": [0, 0]}), "'m' must be at least 1"),
        (("gemm", "h100-sxm", {"m": [1, 2], "implementation": "vlm/torch.nn.functional.linear"}), "did you mean 'vllm/torch.nn.functional.linear'"),
        (("gemm", "h100-sxm", {"implementation": "vllm/torch.nn.functional.liner"}), "did you mean 'vllm/torch.nn.functional.linear'"),
        (("gemm", "l40s", {"implementation": "vllm/DeepGemmFp8BlockScaledMMKernel"}), "a kernel for sm_90 and later; the machine is sm_89"),
    ],
)
def test_bad_input_is_named(arguments: tuple[str, str, dict[str, Any]], message: str) -> None:
    workload, machine, params = arguments
    with pytest.raises(InputError) as error:
        predict(workload, machine, **params)
    assert message in str(error.value)


# ---------------------------------------------------------------- public measurements


def products(folder: str, framework: str, dtype: str) -> tuple[dict[str, Any], Any]:
    """Shapes and measured seconds of aiconfigurator's matrix products."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    files = sorted((DATA / folder / "gemm" / framework).glob("**/*.parquet"))
    if not files:
        pytest.skip(f"no public measurements in {DATA / folder}; set HOTLAP_SHARED to the folder that has data/kernels")
    table = parquet.read_table(files[0], columns=["gemm_dtype", "m", "n", "k", "latency"])
    chosen = np.array(table["gemm_dtype"].to_pylist()) == dtype
    columns = {name: table[name].to_numpy()[chosen] for name in ("m", "n", "k", "latency")}
    return {name: columns[name].astype(int) for name in ("m", "n", "k")}, columns["latency"] * 1e-3


@pytest.mark.slow("reads the published measurements")
@pytest.mark.parametrize(
    ("folder", "framework", "machine", "dtype", "ours"),
    [
        ("h100_sxm", "vllm", "h100-sxm", "bfloat16", "bf16"), ("h200_sxm", "vllm", "h200-sxm", "bfloat16", "bf16"),
        ("a100_sxm", "sglang", "a100-sxm-80gb", "bfloat16", "bf16"), ("h100_sxm", "vllm", "h100-sxm", "fp8", "fp8"),
    ],
)
def test_no_measured_product_beats_its_bound(folder: str, framework: str, machine: str, dtype: str, ours: str) -> None:
    shapes, seconds = products(folder, framework, dtype)
    bound = predict("gemm", machine, dtype=ours, **shapes).bound_s
    assert len(seconds) > 30_000
    assert np.count_nonzero(bound > seconds * (1 + FLOOR)) == 0
    assert np.max(bound / seconds) > 0.7  # and it is no idle bound


@pytest.mark.slow("reads the published measurements")
@pytest.mark.parametrize(
    ("folder", "framework", "machine", "most"),
    [("h100_sxm", "vllm", "h100-sxm", 0.085), ("h200_sxm", "vllm", "h200-sxm", 0.08), ("a100_sxm", "sglang", "a100-sxm-80gb", 0.095)],
)
def test_the_stored_coefficients_keep_their_error(folder: str, framework: str, machine: str, most: float) -> None:
    shapes, seconds = products(folder, framework, "bfloat16")
    found = predict("gemm", machine, dtype="bf16", **shapes)
    assert np.mean(np.abs(found.expected_s / seconds - 1)) < most
    assert 0.8 < np.mean((found.low_s <= seconds) & (seconds <= found.high_s)) < 0.97  # 90 % is stated


@pytest.mark.parametrize(("dtype", "unit"), [("fp32", "vector unit"), ("fp64", "matrix unit"), ("bf16", "matrix unit")])
def test_parts_name_the_unit_that_the_bound_counts_with(dtype: str, unit: str) -> None:
    """H200 multiplies fp32 on its vector units, and the shown parts add up to the whole."""
    found = predict("gemm", "h200-sxm", dtype=dtype, m=8192, n=8192, k=8192)
    assert {"matrix unit", "vector unit"} & set(found.parts) == {unit}
    case = Case(workload="gemm", params={**work.find("gemm").parse({"dtype": dtype}), "m": 8192, "n": 8192, "k": 8192})
    made_of = listing.prediction(case, "h200-sxm", found, 1000).partition("made of")[2].partition("\n")[0]
    shares = [float(text) for text in re.findall(r"\(([\d.]+) %\)", made_of)]
    assert sum(shares) == pytest.approx(100, abs=0.6)


@pytest.mark.parametrize("more", [[], ["--machine", "h100-sxm"]])
def test_a_machine_given_as_a_parameter_is_named(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "gemm", "m=8192", "machine=h200-sxm", *more]) == 2
    assert capsys.readouterr().err == "hotlap: machine=h200-sxm: a machine is no parameter; give --machine h200-sxm\n"
