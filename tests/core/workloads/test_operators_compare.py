"""Outputs against what they should be, in every view of them."""

from __future__ import annotations

import pytest

from hotlap.core.measure.workloads.operators.base import Exact
from hotlap.core.measure.workloads.operators.compare import farthest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def test_every_view_of_an_output_counts() -> None:
    whole = torch.arange(8, dtype=torch.float64).reshape(2, 4)
    second = Exact(whole[1], tolerance=0.0, part=lambda c: c[1])
    exact = [Exact(whole[0], tolerance=0.0, part=lambda c: c[0], also=(second,))]
    assert farthest([whole.clone()], exact, "fp64") == (0.0, 1e-300, "")
    skipped = whole.clone()
    skipped[1] = 0.0
    error, allowed, _ = farthest([skipped], exact, "fp64")
    assert error > allowed


def test_another_number_of_outputs_is_wrong_by_itself() -> None:
    value = torch.ones(4, dtype=torch.float64)
    error, allowed, said = farthest([value, value], [Exact(value)], "fp64")
    assert error > allowed
    assert said == "2 outputs, where the reference has 1"
