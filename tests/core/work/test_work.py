"""Bytes, operations and parameters of the workloads, against hand-worked figures."""

from __future__ import annotations

import dataclasses

import pytest

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.record import Case

GIB = 2**30


def _case(name: str, **given: object) -> tuple[work.Workload, dict]:
    spec = work.find(name)
    return spec, spec.parse(given)


@pytest.mark.parametrize(
    ("op", "read", "written"), [("read", 1, 0), ("write", 0, 1), ("copy", 0.5, 0.5), ("scale", 0.5, 0.5), ("add", 2 / 3, 1 / 3), ("triad", 2 / 3, 1 / 3)]
)
def test_stream_bytes(op: str, read: float, written: float) -> None:
    spec, params = _case("stream", op=op, size="1 GiB")
    done = spec.work(params)
    assert done.read_bytes == pytest.approx(read * GIB, rel=1e-6)
    assert done.written_bytes == pytest.approx(written * GIB, rel=1e-6)


def test_stream_operations() -> None:
    """McCalpin's STREAM: scale and add do one operation an element, triad two."""
    for op, operations in (("read", 1), ("write", 0), ("copy", 0), ("scale", 1), ("add", 1), ("triad", 2)):
        spec, params = _case("stream", op=op, size="1 GiB")
        elements = spec.work(params).memory_bytes / {"read": 4, "write": 4, "copy": 8, "scale": 8, "add": 12, "triad": 12}[op]
        assert spec.work(params).total_operations == operations * elements, op


def test_a_residual_is_read_once_for_each_matrix_of_a_batch() -> None:
    """8 matrices of 16 × 32 in bf16 are read beside A and B, and as many written; a bias is one row of 32."""
    for epilogue, read in (("none", 0), ("residual", 8 * 16 * 32 * 2), ("bias", 32 * 2)):
        spec, params = _case("gemm", dtype="bf16", m=16, n=32, k=64, batch=8, epilogue=epilogue)
        done = spec.work(params)
        assert done.read_bytes == 8 * 2 * (16 * 64 + 64 * 32) + read
        assert done.written_bytes == 8 * 16 * 32 * 2
        assert done.working_set_bytes == done.read_bytes + done.written_bytes


def test_gemm_of_the_published_size() -> None:
    """2·8192³ = 1.0995 TFLOP; three bf16 matrices of 128 MiB."""
    spec, params = _case("gemm", dtype="bf16", m=8192, n=8192, k=8192)
    done = spec.work(params)
    assert done.total_operations == 2 * 8192**3
    assert done.memory_bytes == 3 * 8192**2 * 2
    assert spec.value(1.0995e-3, params) == pytest.approx(1e15, rel=1e-3)


def test_int8_products_are_written_as_int32() -> None:
    spec, params = _case("gemm", dtype="int8", m=16, n=32, k=64)
    assert spec.work(params).written_bytes == 16 * 32 * 4


def test_intensity_is_fmas_over_the_element() -> None:
    spec, params = _case("intensity", fmas=64, dtype="fp32")
    done = spec.work(params)
    assert done.total_operations / done.memory_bytes == pytest.approx(2 * 64 / 8)


def test_latencies_are_per_step() -> None:
    spec, params = _case("chase", size="16 KiB", hops=1000)
    assert spec.value(1e-6, params) == pytest.approx(1e-9)


def test_transfers_count_both_ways() -> None:
    spec, params = _case("transfer", direction="both", size="1 MiB")
    assert spec.value(1.0, params) == 2 * 2**20


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("strem", {}, "did you mean 'stream'"),
        ("stream", {"size": "1 GiB", "opp": "copy"}, "did you mean 'op'"),
        ("stream", {}, "needs 'size'"),
        ("stream", {"size": "1 GiB", "op": "tria"}, "did you mean 'triad'"),
        ("stream", {"size": "1 s"}, "'size'"),
        ("stream", {"size": 12}, "at least 4 KiB and at most 64 TiB, not 12 B"),
        ("stream", {"size": 2.0**50}, "not 1024 TiB"),
        ("stream", {"size": "512mib"}, "did you mean '512 MiB'"),
        ("gemm", {"m": 10**8}, r"at least 1 and at most 16777216, not 10\^8"),
        ("fma", {"operations": 3}, r"at least 10\^6 and at most 10\^15, not 3"),
        ("fma", {"dtype": "fp99"}, "valid: bf16, fp16, fp32, fp64, int32, int8"),
        ("stream", {"size": float("nan")}, "finite"),
        ("gemm", {"m": 1.5}, "whole number"),
        ("gemm", {"m": True}, "number"),
        ("gemm", {"m": "8k"}, r"8k may be 8,000 or 8,192; write 8000 or '8 Ki'"),
        ("gemm", {"m": "1 M"}, r"1 M may be 1,000,000 or 1,048,576; write 1000000 or '1 Mi'"),
        ("barrier", {"repeats": 3}, "an even number, as in 4, not 3"),
        ("command", {"argv": 3}, "list of strings"),
        ("command", {"argv": "a 'b"}, "no closing quotation"),
        ("command", {"argv": ["true"], "read": "pattern"}, "needs 'expression'"),
    ],
)
def test_wrong_parameters_are_answered(name: str, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        work.find(name).parse(given)


def test_labels_say_what_matters() -> None:
    spec, params = _case("stream", size="1 GiB")
    assert work.label(Case(workload=spec.name, params=params)) == "stream triad fp32 1 GiB"
    spec, params = _case("stream", size="1 GiB", cache="cold")
    assert work.label(Case(workload=spec.name, params=params)).endswith("cold")


def test_a_callable_is_called_by_its_name() -> None:
    params = work.find("callable").parse({"name": "f", "operations": 1e6, "bytes": 2**20})
    assert work.label(Case(workload="callable", params=params)) == "callable f"


def test_an_implementation_is_one_that_there_is() -> None:
    spec = work.find("sync")
    assert spec.implementation("") == ""
    with pytest.raises(InputError, match="sync has no implementation 'foo'; it has only one"):
        spec.implementation("foo")
    several = dataclasses.replace(spec, implementations=("fast", "plain"))
    assert several.implementation("fast") == "fast"
    with pytest.raises(InputError, match="did you mean 'plain'"):
        several.implementation("plan")


def test_every_workload_is_described() -> None:
    for spec in work.WORKLOADS.values():
        assert spec.about
        assert all(p.about for p in spec.params), spec.name
        assert spec.unit or spec.name in ("command",)


LATENT = {"batch": 2, "query": 1, "kv": 1000, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576}


def test_a_latent_is_read_once_for_keys_and_values() -> None:
    """DeepSeek-V3, decode, 2 sequences of 1000 tokens: the cache is 2·1000·576 elements; 2·(576 + 512) FLOP for each key and head."""
    spec, params = _case("attention", **LATENT)
    done = spec.work(params)
    assert done.read_bytes == 2 * (128 * 576 + 1000 * 576) * 2
    assert done.written_bytes == 2 * 128 * 512 * 2
    assert done.total_operations == 2 * 2 * 128 * 1000 * (576 + 512)


def test_values_may_be_narrower_than_keys() -> None:
    """DeepSeek-V3, prefill of 4 tokens: 10 pairs under the causal mask, 192 wide keys, 128 wide values."""
    spec, params = _case("attention", query=4, heads=128, kv_heads=128, head_dim=192, value_dim=128)
    done = spec.work(params)
    assert done.total_operations == 128 * 10 * 2 * (192 + 128)
    assert done.read_bytes == 4 * 128 * (192 + 192 + 128) * 2
    assert done.written_bytes == 4 * 128 * 128 * 2


def test_a_case_without_the_widths_is_as_it_was() -> None:
    spec, params = _case("attention", query=1, kv=1000)
    same = {**params, "value_dim": 128}
    old = {name: value for name, value in params.items() if name not in ("value_dim", "latent")}
    assert spec.work(params) == spec.work(same) == spec.work(old)
    assert spec.work(params).read_bytes == (32 * 128 + 2 * 1000 * 8 * 128) * 2


@pytest.mark.parametrize(("change", "says"), [({"kv_heads": 128}, "kv_heads is 1 there, not 128"), ({"latent": 500}, "at least 576 is needed")])
def test_a_latent_that_cannot_be_is_said(change: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        _case("attention", **{**LATENT, **change})


def test_rows_of_a_table_that_are_met_again_are_read_once() -> None:
    spec = work.find("embedding")
    few, many = (spec.work(spec.parse({"tokens": 10_000, "columns": 64, "vocabulary": rows, "dtype": "bf16"})) for rows in (100, 10**9))
    assert few.read_bytes == pytest.approx(100 * 64 * 2 + 4 * 10_000)
    assert many.read_bytes == pytest.approx(10_000 * 64 * 2 + 4 * 10_000, rel=1e-4)
    assert few.written_bytes == many.written_bytes == 10_000 * 64 * 2


@pytest.mark.parametrize(("dtype", "size"), [("fp32", 4), ("bf16", 2), ("fp8", 2)])
def test_attention_writes_its_own_type(dtype: str, size: int) -> None:
    spec = work.find("attention")
    done = spec.work(spec.parse({"query": 16, "heads": 2, "kv_heads": 2, "head_dim": 8, "dtype": dtype}))
    assert done.written_bytes == 16 * 2 * 8 * size


@pytest.mark.parametrize(("word", "meant"), [
    ("memcpy", "did you mean stream op=copy (on the device), transfer (from and to the host)?"), ("copy", "did you mean stream op=copy, "),
    ("softmax", "did you mean rowwise op=softmax?"), ("matmul", "did you mean gemm?"), ("histo", "did you mean 'histogram'?"), ("zzzz", "; valid: atomic, "),
])  # fmt: skip
def test_a_workload_by_another_name_is_told_its_own(word: str, meant: str) -> None:
    with pytest.raises(InputError) as refused:
        work.find(word)
    assert meant in str(refused.value)
    assert str(refused.value).endswith("hotlap schema workloads lists all")


def test_names_used_elsewhere_are_no_workloads_and_stand_for_some() -> None:
    for word, meant in work.ELSEWHERE.items():
        assert word not in work.WORKLOADS
        assert all(one.split()[0] in work.WORKLOADS for one in meant)


def test_the_size_of_a_matrix_is_never_left_out_of_a_label() -> None:
    spec, params = _case("rowwise", rows=1024)
    assert work.label(Case(workload=spec.name, params=params)) == "rowwise rmsnorm rows=1024 columns=4096 bf16"
