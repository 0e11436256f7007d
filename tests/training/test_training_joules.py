"""Energy per token: from readings whose integral is known, over steady windows alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.training.test_training_steady import table

from hotlap.core.record import Machine, Plan, Readings, RunRecord
from hotlap.core.store.bundle import Bundle
from hotlap.training import joules
from hotlap.training.reading import MeasuredProcess
from hotlap.training.record import TrainingProcess
from hotlap.training.steady import of_process


def bundle(*readings: Readings) -> Bundle:
    run = RunRecord(
        id="r", kind="training", began="2026-11-01T00:00:00Z", hotlap="0.2.0", plan=Plan(name="p", cases=[]), machine=Machine(host="h"),
        target="host", devices=["d"],
    )  # fmt: skip
    return Bundle(run, Path(), [], list(readings))


def launch() -> list[MeasuredProcess]:
    """100 steps of 0.1 s of 64 tokens, the first of them warm."""
    steps = table([0.1] * 100)
    process = TrainingProcess(number=0)
    return [MeasuredProcess(process, steps, of_process(process, steps))]


def power(watts: float, device: str = "d") -> Readings:
    times = np.linspace(-1, 12, 131).tolist()
    return Readings(device=device, sensor="power_w", times_s=times, values=[watts] * len(times))


def test_joules_per_token_are_those_of_the_window() -> None:
    per_token = 200 * 0.1 / 64  # W × s of a step ÷ tokens of a step
    assert joules.per_token(bundle(power(200)), [launch()]) == pytest.approx(per_token, rel=0.01)
    assert joules.per_token(bundle(power(200)), [launch(), launch()]) == pytest.approx(per_token, rel=0.01)


def test_ranks_bring_tokens_each() -> None:
    one = launch()[0]
    ranks = [one._replace(process=replace(one.process, rank=rank, world=2)) for rank in range(2)]
    assert joules.per_token(bundle(power(200)), [ranks]) == pytest.approx(200 * 0.1 / 128, rel=0.01)


def test_without_a_sensor_or_tokens_it_is_unknown() -> None:
    assert joules.per_token(bundle(), [launch()]) is None
    assert joules.per_token(bundle(power(200, "other")), [launch()]) is None
    one = launch()[0]
    without = one._replace(steady=one.steady._replace(tokens=None))
    assert joules.per_token(bundle(power(200)), [[without]]) is None
