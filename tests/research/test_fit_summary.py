"""The table of targets: what is missed is marked, what has no rows is said, and the numbers of a fit are counted."""

from __future__ import annotations

import numpy as np
import pytest

from research.fit import attention, summary
from research.fit.scores import Score


def scored(cell: str, part: str, mape: float, method: str = "model") -> Score:
    return Score(cell, part, method, 10, mape, mape, mape, 0.01)


def test_a_cell_is_missed_beyond_its_target_and_no_data_without_rows() -> None:
    found = {"gemm": [scored("H100, held-out shapes", "bf16", 0.0599), scored("H200 by A100 + H100", "bf16", 0.081)]}
    line = next(one for one in summary.show(found).splitlines() if one.startswith("GEMM bf16"))
    assert line.split("GEMM bf16")[1].split() == ["6.0", "[6]", "MISS", "8.1", "[8]", "no", "data", "no", "data"]


def test_attention_has_a_line_for_each_implementation() -> None:
    found = {"decode": [scored("H100 held-out", f"{name} > 20 µs", 0.1) for name in ("one", "two")]}
    assert [row.name for row in summary.rows(found)] == ["decode one", "decode two"]


@pytest.mark.parametrize("family", ["gemm", "prefill", "decode", "moe", "collective", "power"])
def test_every_family_has_fewer_than_200_fitted_numbers(family: str) -> None:
    assert 0 < summary.fitted_numbers(family) < summary.MOST_FITTED
    assert "MISS" not in summary.numbers([family])


def test_who_writes_the_cache_follows_library_version_and_collector() -> None:
    named = [
        ("VLLM", "vllm_flash_attn", "0.14.0"), ("VLLM", "vllm_flash_attn", "0.22.0"), ("VLLM", "vllm_flash_attn_fa3", "0.24.0"),
        ("TRTLLM", "torch_flow", "1.3.0rc20"), ("SGLang", "flash_attention", "0.5.10"),
    ]  # fmt: skip
    framework, source, version = (np.array(column) for column in zip(*named, strict=True))
    assert attention.writes(framework, source, version).tolist() == [1, 0, 1, 1, 1]
