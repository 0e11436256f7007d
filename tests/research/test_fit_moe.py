"""Mixtures of experts: never below the roofline that the fit scores beside, and the stored coefficients on the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model.kernels import moe
from research.fit import data, scores
from research.fit import moe as fitting

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "l4", "mi300x", "rtx-4090")
MIXTRAL = {"hidden": 4096, "inter": 14336, "topk": 2, "experts": 8}  # mistralai/Mixtral-8x7B-v0.1 config.json
DEEPSEEK = {"hidden": 7168, "inter": 2048, "topk": 8, "experts": 256}  # deepseek-ai/DeepSeek-V3 config.json
SOURCES = ("vllm_fused_moe", "moe_torch_flow_cutlass", "vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "unheard of")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("distribution", ["balanced", "power_law_1.2"])
def test_never_below_the_roofline(machine, distribution) -> None:
    for shape in (MIXTRAL, DEEPSEEK):
        for implementation in SOURCES:
            params = {**shape, "tokens": 2 ** np.arange(21), "ep": 4, "distribution": distribution, "dtype": "bf16"}
            bound = fitting.bound(params, scores.chip(machine), np.array(implementation))
            assert np.all(moe.estimate(params, scores.chip(machine), implementation).seconds > bound)


def test_stored_coefficients_hold_on_a_gpu_never_fitted() -> None:
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set and ../shared is not there")
    rows = fitting.rows("h200-sxm", root)
    mask = np.isin(rows.implementation, fitting.TRITON) & (rows.seconds > fitting.SHORT_S)
    params = {name: values[mask] for name, values in rows.params.items()}
    found = moe.estimate(params, scores.chip("h200-sxm"), rows.implementation[mask]).seconds
    assert np.abs(found / rows.seconds[mask] - 1).mean() < 0.17
