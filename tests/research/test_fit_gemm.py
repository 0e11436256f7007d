"""Matrix products: the stored coefficients on the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from research.fit import data
from research.fit import gemm as fitting


@pytest.mark.slow("reads the published measurements")
def test_stored_coefficients_on_the_measurements() -> None:
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set")
    for gpu, dtype, most in (
        ("a100-sxm-80gb", "bf16", 0.09),
        ("h100-sxm", "bf16", 0.065),
        ("h100-sxm", "fp8", 0.065),
        ("h200-sxm", "bf16", 0.085),
    ):
        rows = fitting.rows(gpu, root)
        rows = fitting.sample(rows.where((rows.params["dtype"] == dtype) & rows.held), 8000)
        error = np.abs(fitting.predicted(rows) / rows.seconds - 1).mean()
        assert error < most, (gpu, dtype, error)
