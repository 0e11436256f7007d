"""Decode attention: the stored coefficients on what they were fitted to, and a fit without a fold on that fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hotlap.core.model.kernels import decode
from hotlap.core.model.kernels.attention import read
from research.fit import attention as fitting
from research.fit import decode as family
from research.fit.attention import chip
from research.fit.data import Rows, root


def measured(gpu: str, most: int) -> Rows:
    """Rows that count in a cell, at most so many, evenly."""
    pytest.importorskip("pyarrow", reason="reading the measurements needs pyarrow")
    place: Path | None = root()
    if place is None:
        pytest.skip("no measurements: HOTLAP_SHARED and ../shared are absent")
    rows = family.rows(gpu, place)
    rows = rows.where((rows.seconds > fitting.SHORT_S) & (family.tags(rows) == ""))
    return rows.where(np.arange(0, len(rows.seconds), -(-len(rows.seconds) // most)))


@pytest.mark.parametrize(("gpu", "limit"), [("a100-sxm-80gb", 0.09), ("h100-sxm", 0.11), ("h200-sxm", 0.1), ("b200", 0.1), ("l40s", 0.11)])
def test_stored_coefficients_hold(gpu: str, limit: float) -> None:
    """The limits are what was printed when they were stored, and a tenth: all rows of a machine weigh the same here."""
    rows = measured(gpu, 20_000)
    off = np.abs(decode.estimate(rows.params, chip(gpu), rows.implementation).seconds / rows.seconds - 1)
    assert off.mean() < limit
    assert np.mean(rows.seconds > 0.95 * decode.bound(read(rows.params, "decode"), chip(gpu))) > 0.9999


@pytest.mark.slow("fits all kernels of a machine")
def test_a_fold_that_was_not_fitted_is_told_nearly_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SAMPLE", 80)
    monkeypatch.setattr(fitting, "STEPS", 12)
    rows = measured("l40s", 2000).holding(2)
    off = np.abs(family.predicted(rows, family.fit([rows])) / rows.seconds - 1)
    assert rows.held.any()
    assert off[rows.held].mean() < 0.25
