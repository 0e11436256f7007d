"""Mixtures of experts: never below the roofline that the fit scores beside, and the stored coefficients on the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model.kernels import base, moe
from research.fit import data, scores
from research.fit import moe as fitting

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "l4", "mi300x", "rtx-4090")
MIXTRAL = {"hidden": 4096, "inter": 14336, "topk": 2, "experts": 8}  # mistralai/Mixtral-8x7B-v0.1 config.json
DEEPSEEK = {"hidden": 7168, "inter": 2048, "topk": 8, "experts": 256}  # deepseek-ai/DeepSeek-V3 config.json
SOURCES = ("vllm_fused_moe", "moe_torch_flow_cutlass", "vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "sglang_marlin_moe")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("distribution", ["balanced", "power_law_1.2"])
def test_never_below_the_roofline(machine, distribution) -> None:
    for shape in (MIXTRAL, DEEPSEEK):
        for implementation in SOURCES:
            params = {**shape, "tokens": 2 ** np.arange(21), "ep": 4, "distribution": distribution, "dtype": "bf16"}
            bound = fitting.bound(params, scores.chip(machine), np.array(implementation))
            assert np.all(moe.estimate(params, scores.chip(machine), implementation).seconds > bound)


@pytest.fixture(scope="module")
def measured():
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set and ../shared is not there")
    return {gpu: fitting.rows(gpu, root) for gpu in ("h100-sxm", "l40s", "b200")}


def off(rows, coefficients):
    """Mean absolute error of long rows, those of a build with a defect left out."""
    rows = rows.where((rows.seconds > fitting.SHORT_S) & (fitting.tags(rows) == ""))
    rows = rows.where(np.random.default_rng(1).permutation(len(rows.seconds))[:3000])
    return np.abs(fitting.predicted(rows, coefficients) / rows.seconds - 1).mean()


def test_stored_coefficients_hold_on_the_measurements(measured) -> None:
    errors = {gpu: off(rows, base.stored("moe")) for gpu, rows in measured.items()}
    assert errors["h100-sxm"] < 0.15
    assert errors["l40s"] < 0.16
    assert errors["b200"] < 0.16


def test_a_fold_that_is_not_fitted_is_as_near(measured) -> None:
    pytest.importorskip("scipy")
    rows = measured["l40s"].where(np.char.find(measured["l40s"].implementation, "unquantized") >= 0).holding(2)
    known = fitting.fit([rows])
    assert list(known) == ["triton_bf16_ada"]
    assert off(rows.where(rows.held), known) < 0.2


def test_a_defect_of_a_build_is_tagged_and_never_fitted(measured) -> None:
    rows = measured["h100-sxm"]
    slow = rows.where(np.char.find(rows.implementation, "modeloptfp8moe_flashinfer") >= 0)
    assert set(fitting.tags(slow).tolist()) == {"defect of the build"}
    assert fitting.fit([slow.holding(None)]) == {}
