"""Products and rows by kernels in WGSL: right in odd shapes, wrong where one element is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import NotSupported
from hotlap.core.measure import workloads
from hotlap.core.measure.workloads.operators import in_wgsl
from hotlap.core.work import case_of

CASES = [
    "gemm m=64 n=64 k=64", "gemm m=1 n=1 k=1", "gemm m=130 n=70 k=33", "gemm m=65 n=257 k=1000 cache=cold",
    "rowwise op=sum rows=5 columns=1000 dtype=fp32", "rowwise op=max rows=3 columns=255 dtype=fp32",
    "rowwise op=softmax rows=33 columns=257 dtype=fp32", "rowwise op=rmsnorm rows=64 columns=1024 dtype=fp32",
]  # fmt: skip


@pytest.fixture(name="target", scope="module")
def opened(webgpu_target: Any) -> Any:
    return webgpu_target


def prepared(target: Any, text: str) -> Any:
    made = workloads.prepare(target, case_of(text), 5)
    target.time(made.enqueue, 2)
    return made


@pytest.mark.parametrize("text", CASES)
def test_results_are_right(target: Any, text: str) -> None:
    made = prepared(target, text)
    for _ in range(2):
        check = made.check()
        assert check.passed, check


def test_a_group_takes_several_rows_where_there_are_many(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_wgsl, "MOST_GROUPS", 7)
    assert prepared(target, "rowwise op=sum rows=40 columns=30 dtype=fp32").check().passed


@pytest.mark.parametrize("text", [CASES[2], CASES[4], CASES[6]])
def test_one_wrong_element_is_seen(target: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = in_wgsl._Run.result

    def spoilt(self: Any) -> Any:
        out = np.array(right(self))
        out[len(out) // 2] += 1
        return out

    made = prepared(target, text)
    monkeypatch.setattr(in_wgsl._Run, "result", spoilt)
    assert not made.check().passed


def test_a_kernel_that_leaves_work_out_is_wrong(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = in_wgsl.source("operators", "wgsl")
    for case, old, new in (
        (CASES[2], "at < k; at += 16u", "at + 16u < k; at += 16u"), (CASES[4], "at < columns; at += GROUP_SIZE) { sum += data",
         "at + GROUP_SIZE < columns; at += GROUP_SIZE) { sum += data"),
    ):  # fmt: skip
        assert old in text
        other = text.replace(old, new)
        monkeypatch.setattr(in_wgsl, "source", lambda *_, other=other: other)
        assert not prepared(target, case).check().passed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gemm dtype=bf16", "of fp32, not bf16"), ("gemm batch=2", "plain, without batch=2"), ("gemm layout=tn", "without layout=tn"),
        ("gemm cache=rotated", "not rotated"), ("gemm m=64 n=64 k=100000", "leaves loops"), ("rowwise op=layernorm dtype=fp32", "no kernel of rowwise"),
        ("transpose dtype=fp32", "no kernel of transpose"),
    ],
)  # fmt: skip
def test_what_there_is_no_kernel_for_is_refused_with_its_reason(target: Any, text: str, words: str) -> None:
    if words == "leaves loops" and "most_turns" not in target.device.facts:
        pytest.skip("this adapter ends no loop early")
    with pytest.raises(NotSupported, match=words):
        workloads.prepare(target, case_of(text), 1)
