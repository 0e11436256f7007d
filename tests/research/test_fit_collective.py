"""Collectives: coefficients that never saw an operation on a number of GPUs, on its measurements."""

from __future__ import annotations

import numpy as np
import pytest

from research.fit import collective as fitting
from research.fit import data

LIMITS = {"a100-sxm-80gb": 0.07, "h100-sxm": 0.07, "b200": 0.08, "l40s": 0.15}


def test_a_fit_holds_on_an_operation_and_number_of_gpus_never_fitted() -> None:
    """Fold 2: five of twelve pairs, among them all of the all-reduce but over 8."""
    pytest.importorskip("scipy")
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set and ../shared is not there")
    rows = [fitting.rows(gpu, root).holding(2) for gpu in fitting.GPUS]
    found = fitting.fit(rows)
    for one in rows:
        assert 0.3 < one.held.mean() < 0.5
        held = one.where(one.held)
        assert np.abs(fitting.predicted(held, found) / held.seconds - 1).mean() < LIMITS[one.gpu]
