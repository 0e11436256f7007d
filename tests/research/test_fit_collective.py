"""Collectives: the stored coefficients on the measurements."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model.kernels import collective
from research.fit import collective as fitting
from research.fit import data, scores


def test_stored_coefficients_hold_on_sizes_never_fitted() -> None:
    pytest.importorskip("pyarrow")
    root = data.root()
    if root is None:
        pytest.skip("no measurements: HOTLAP_SHARED is not set and ../shared is not there")
    for gpu in fitting.GPUS:
        rows = fitting.rows(gpu, root)
        assert 0.1 < rows.held.mean() < 0.3
        found = collective.estimate(rows.params, scores.chip(gpu)).seconds
        assert np.abs(found / rows.seconds - 1)[rows.held].mean() < 0.08
