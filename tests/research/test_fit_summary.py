"""The table of accuracy: cells are means over kernels, misses are marked, and the numbers of a fit are counted."""

from __future__ import annotations

import numpy as np
import pytest

from research import accuracy
from research.fit import attention, summary


def line(source: str, error: float, tag: str = "") -> accuracy.Line:
    return accuracy.Line("b200", "prefill", "", source, tag, 10, dict.fromkeys(accuracy.WAYS, float("nan")) | {"held out": error}, error, 0.0)


def test_a_cell_is_the_mean_over_kernels_without_tagged_builds_and_missed_beyond_what_was_asked() -> None:
    good = accuracy.cells([line("vllm 1/a", 8.0), line("sglang 1/b", 14.0), line("vllm 1/c", 90.0, "slow build")]).splitlines()[1]
    assert good.split()[:4] == ["prefill", "b200", "2", "11.0"]
    assert "MISS" not in good
    assert "MISS ≤ 12" in accuracy.cells([line("vllm 1/a", 8.0), line("sglang 1/b", 17.0)])


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
