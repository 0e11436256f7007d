"""Schedules: the times that were asked for, the same from one text and seed, and what is refused."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.serving import arrivals
from hotlap.serving.record import Prompt

PROMPT = Prompt(input_tokens=8, output_tokens=4)


def times(text: str, count: int = 4000, seed: int = 3) -> np.ndarray:
    return np.array(list(islice(arrivals.due_s(arrivals.parse(text), seed), count)))


def test_constant_arrivals_are_a_period_apart() -> None:
    assert times("constant:8", 5).tolist() == [0.0, 0.125, 0.25, 0.375, 0.5]


@pytest.mark.parametrize(("text", "variation"), [("poisson:8", 1.0), ("gamma:8,0.25", 2.0), ("gamma:8,4", 0.5)])
def test_gaps_have_the_rate_and_the_variation_asked_for(text: str, variation: float) -> None:
    gaps = np.diff(times(text, 40_000))
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_a_seed_gives_the_same_times_however_many_are_taken() -> None:
    assert times("poisson:8", 50).tolist() == times("poisson:8", 5000)[:50].tolist()
    assert times("poisson:8", 50).tolist() != times("poisson:8", 50, seed=4).tolist()


@pytest.mark.parametrize(("text", "total"), [("ramp:1-20,10s", 105), ("ramp:20-1,10s", 105), ("ramp:5-5,4s", 20)])
def test_a_ramp_sends_the_area_under_its_rate(text: str, total: int) -> None:
    due = times(text)
    process = arrivals.parse(text)
    assert abs(len(due) - total) <= 1
    area = process.first * due + (process.rate - process.first) * due**2 / (2 * process.seconds)
    assert area == pytest.approx(np.arange(len(due)), abs=1e-6)


def test_a_schedule_ends_by_count_or_by_time() -> None:
    assert [one.due_s for one in arrivals.schedule("constant:2", 0, PROMPT, 3, None).planned] == [0.0, 0.5, 1.0]
    assert [one.due_s for one in arrivals.schedule("constant:2", 0, PROMPT, None, 1.0).planned] == [0.0, 0.5]
    closed = arrivals.schedule("closed:4", 0, PROMPT, 3, None)
    assert (closed.concurrency, [one.due_s for one in closed.planned]) == (4, [None, None, None])
    with pytest.raises(InputError, match="has no end"):
        arrivals.schedule("closed:4", 0, PROMPT, None, 5.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("poison:8", "did you mean 'poisson'"), ("poisson:0", "a rate is above 0"), ("poisson:nan", "not a quantity"), ("poisson:-1", "above 0"),
        ("gamma:8", "write as in gamma:8,0.5"), ("gamma:8,0", "shape of gamma"), ("ramp:1-20", "write as in ramp"), ("ramp:1,5s", "not a quantity"),
        ("closed:0", "whole number"), ("closed:1.5", "whole number"), ("constant:20000", "at most 10000"),
    ],
)  # fmt: skip
def test_what_is_no_process_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        arrivals.parse(text)
