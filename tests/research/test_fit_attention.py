"""Attention: the stored coefficients of both phases on what they were fitted to, and a fit without a fold on that fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hotlap.core.model.kernels import decode as decode_kernels
from hotlap.core.model.kernels import prefill as prefill_kernels
from hotlap.core.model.kernels.attention import read
from research.fit import attention as fitting
from research.fit import decode, prefill
from research.fit.attention import chip
from research.fit.attention_table import Fit
from research.fit.data import Rows, root

STORED = [
    *((decode.FIT, *one) for one in (("a100-sxm-80gb", 0.09), ("h100-sxm", 0.11), ("h200-sxm", 0.1), ("b200", 0.1), ("l40s", 0.11))),
    *((prefill.FIT, *one) for one in (("a100-sxm-80gb", 0.06), ("h100-sxm", 0.09), ("h200-sxm", 0.1), ("b200", 0.12), ("l40s", 0.15))),
]


def measured(own: Fit, gpu: str, most: int) -> Rows:
    """Rows that count in a cell, at most so many, evenly."""
    pytest.importorskip("pyarrow", reason="reading the measurements needs pyarrow")
    place: Path | None = root()
    if place is None:
        pytest.skip("no measurements: HOTLAP_SHARED and ../shared are absent")
    rows = own.rows(gpu, place)
    rows = rows.where((rows.seconds > fitting.SHORT_S) & (own.tags(rows) == ""))
    return rows.where(np.arange(0, len(rows.seconds), -(-len(rows.seconds) // most)))


@pytest.mark.parametrize(("own", "gpu", "limit"), STORED, ids=[f"{own.family.phase}-{gpu}" for own, gpu, _ in STORED])
def test_stored_coefficients_hold(own: Fit, gpu: str, limit: float) -> None:
    """The limits are what was printed when they were stored, and a tenth: all rows of a machine weigh the same here."""
    rows, kernels = measured(own, gpu, 20_000), decode_kernels if own is decode.FIT else prefill_kernels
    off = np.abs(kernels.estimate(rows.params, chip(gpu), rows.implementation).seconds / rows.seconds - 1)
    assert off.mean() < limit
    assert np.mean(rows.seconds > 0.95 * kernels.bound(read(rows.params, own.family.phase), chip(gpu))) > 0.9999


@pytest.mark.slow("fits all kernels of a machine")
@pytest.mark.parametrize("own", [decode.FIT, prefill.FIT], ids=["decode", "prefill"])
def test_a_fold_that_was_not_fitted_is_told_nearly_as_well(own: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "SAMPLE", 80)
    monkeypatch.setattr(fitting, "STEPS", 12)
    rows = measured(own, "l40s", 2000).holding(2)
    off = np.abs(own.predicted(rows, own.fit([rows])) / rows.seconds - 1)
    assert rows.held.any()
    assert off[rows.held].mean() < 0.25
