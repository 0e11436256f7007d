"""Sizes for the stand-in: what is a few milliseconds of a GPU is minutes of this processor."""

from __future__ import annotations

import pytest

OPERATIONS = 2e6  # of a trial of the arithmetic
PASS_BYTES = 1 << 18  # of a launch, per compute unit


def use(patch: pytest.MonkeyPatch) -> None:
    from hotlap.core.measure.workloads import arithmetic, stream

    patch.setitem(arithmetic.TRIAL_OPERATIONS, "gpu", OPERATIONS)
    patch.setitem(stream.PASS_BYTES, "gpu", PASS_BYTES)
