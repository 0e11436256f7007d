"""Decode attention: the stored coefficients on what was held out."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model.kernels import decode
from hotlap.core.model.kernels.attention import read
from research.fit import attention as fitting
from research.fit.attention import chip
from research.fit.data import root


@pytest.mark.parametrize(("gpu", "limit"), [("h100-sxm", 0.12), ("a100-sxm-80gb", 0.12)])
def test_stored_coefficients_hold_on_shapes_that_were_held_out(gpu: str, limit: float) -> None:
    pytest.importorskip("pyarrow", reason="reading the measurements needs pyarrow")
    place = root()
    if place is None:
        pytest.skip("no measurements: HOTLAP_SHARED and ../shared are absent")
    rows = fitting.rows(gpu, place, "decode")
    rows = rows.where(rows.held & (rows.seconds > fitting.SHORT_S) & fitting.modelled(rows, decode.FAMILY))
    off = np.abs(decode.estimate(rows.params, chip(gpu), rows.implementation).seconds / rows.seconds - 1)
    assert off.mean() < limit
    assert (rows.seconds > 0.95 * decode.bound(read(rows.params, "decode"), chip(gpu))).all()
