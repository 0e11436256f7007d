"""Matrix products: the stored coefficients on the measurements, and what a fit looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hotlap.core.model.kernels import base, gemm_kernels
from research.fit import data
from research.fit import gemm as fitting
from research.fit.data import Rows

MOST = {  # mean absolute error over all rows that are not the host's, of every kernel together
    ("a100-sxm-80gb", "bf16"): 0.08, ("h100-sxm", "bf16"): 0.065, ("h100-sxm", "fp8"): 0.07, ("h200-sxm", "bf16"): 0.065,
    ("b200", "bf16"): 0.085, ("b200", "fp8"): 0.12, ("b200", "fp8_block"): 0.12, ("b200", "nvfp4"): 0.13, ("l40s", "bf16"): 0.13,
    ("l40s", "fp8"): 0.12,
}  # fmt: skip


def measured(gpu: str) -> Rows:
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set")
    return fitting.rows(gpu, Path(root))


@pytest.mark.slow("reads the published measurements")
@pytest.mark.parametrize("gpu", sorted({gpu for gpu, _ in MOST}))
def test_stored_coefficients_on_the_measurements(gpu: str) -> None:
    rows = measured(gpu)
    rows = rows.where(fitting.tags(rows) == "")
    for dtype in (dtype for one, dtype in MOST if one == gpu):
        some = fitting.sample(rows.where(rows.params["dtype"] == dtype), 6000)
        error = np.abs(fitting.predicted(some) / some.seconds - 1).mean()
        assert error < MOST[gpu, dtype], (gpu, dtype, error)


@pytest.mark.slow("reads the published measurements")
def test_every_kernel_that_was_measured_is_in_the_table_and_has_coefficients() -> None:
    known = base.stored("gemm")
    for gpu in ("b200", "l40s"):
        rows = measured(gpu)
        where = {"b200": "sm_100", "l40s": "sm_89"}[gpu]
        for name in {f"{gemm_kernels.plain(i)}.{d}" for i, d in zip(rows.implementation, rows.params["dtype"], strict=True)}:
            assert name in gemm_kernels.KERNELS
            assert f"{name}@{where}" in known


@pytest.mark.slow("reads the published measurements")
def test_a_fit_never_sees_the_rows_that_are_held_out() -> None:
    """The same coefficients where the times of the held-out fold are others."""
    pytest.importorskip("scipy")
    rows = fitting.sample(measured("l40s"), 3000)
    rows = rows.where((rows.params["dtype"] == "bf16") & (rows.params["m"] <= 64)).holding(2)
    other = rows._replace(seconds=np.where(rows.held, 10 * rows.seconds, rows.seconds))
    assert rows.held.any()
    assert fitting.fit([rows]) == fitting.fit([other])


@pytest.mark.slow("reads the published measurements")
def test_rows_that_show_the_host_are_tagged() -> None:
    """vLLM's blocks of fp8 were timed without a graph: short ones take the same time, whatever they multiply."""
    rows = measured("b200")
    tags, host = fitting.tags(rows), np.char.find(rows.implementation, "DeepGemmFp8BlockScaledMMKernel") >= 0
    assert set(tags[~host].tolist()) == {""}
    small = host & (rows.params["n"] * rows.params["k"] < 2**24) & (rows.params["m"] <= 256)
    assert np.all(tags[small] != "")
    assert np.mean(tags[host & (rows.seconds > 1e-3)] == "") == 1.0
