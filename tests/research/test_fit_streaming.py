"""Streaming kernels: the stored coefficients on what was held out."""

from __future__ import annotations

import numpy as np
import pytest

from hotlap.core.model.kernels import streaming
from hotlap.core.model.predict import predict
from research.fit import streaming as fit
from research.fit.data import root


def errors(which) -> tuple[np.ndarray, np.ndarray]:
    groups = fit.grouped(one for one in fit.figures() if one.held == which)
    found = np.concatenate([fit.expected_s(one) / one.seconds - 1 for one in groups])
    simple = np.concatenate([fit.simple(one)["SOL/0.8 + 3 µs"] / one.seconds - 1 for one in groups])
    return np.abs(found), np.abs(simple)


def test_held_out_kernels_are_nearer_than_the_two_constants() -> None:
    found, simple = errors(True)
    assert len(found) >= 12
    assert found.mean() < 0.06
    assert found.mean() < 0.5 * simple.mean()


def test_the_stated_interval_holds_the_held_out_kernels() -> None:
    figures = [one for one in fit.figures() if one.held]
    inside = []
    for one in figures:
        found = predict(one.workload, one.machine, one.implementation, **one.params)
        inside.append(found.low_s <= one.seconds <= found.high_s)
    assert np.mean(inside) >= 0.85


def test_refitting_gives_what_is_stored() -> None:
    pytest.importorskip("scipy")
    pytest.importorskip("pyarrow")
    place = root()
    if place is None:
        pytest.skip("no measurements: HOTLAP_SHARED and ../shared are absent")
    reads = [fit.products(gpu, place) for gpu in ("a100-sxm-80gb", "h100-sxm")]
    found = fit.fit([*fit.grouped(fit.figures()), *reads])
    assert found == pytest.approx({name: streaming.stored()[name] for name in fit.FITTED}, rel=0.01)


@pytest.mark.parametrize(("gpu", "most"), [("a100-sxm-80gb", 0.10), ("h100-sxm", 0.07), ("h200-sxm", 0.08)])
def test_the_quickest_readings_of_products(gpu, most) -> None:
    pytest.importorskip("pyarrow")
    place = root()
    if place is None:
        pytest.skip("no measurements: HOTLAP_SHARED and ../shared are absent")
    one = fit.products(gpu, place)
    take = one.held if gpu != "h200-sxm" else np.ones(len(one.seconds), dtype=bool)
    assert np.abs(fit.expected_s(one) / one.seconds - 1)[take].mean() < most
