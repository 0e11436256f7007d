"""`sustain` and `deadline` of a plan: what they make of its rounds, and that a plan with them is written and read back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hotlap.core import plan as plans
from hotlap.core.plan import listing, measuring, write
from hotlap.core.record import MeasureOptions, Plan
from hotlap.core.work.memory import STREAM


def test_the_time_says_how_many_rounds_there_are() -> None:
    asked = measuring.options({"sustain": "30 min"})
    assert (asked.sustain_s, asked.round_s, asked.rounds, asked.rounds_max, asked.budget_s) == (1800.0, 8.0, 225, 225, 1800.0)
    assert asked.sample_s == pytest.approx(0.08)
    short = measuring.options({"sustain": "1 min"})
    assert (short.round_s, short.rounds) == (1.5, 40)
    assert measuring.options({"sustain": "1 min", "round_time": "5 s"}).rounds == 12
    assert measuring.options({"sustain": "31 d"}).rounds <= 10_000
    assert measuring.options({"sustain": "0 s"}) == MeasureOptions()


def test_with_a_deadline_samples_are_as_short_as_calls() -> None:
    asked = measuring.options({"sustain": "30 min", "deadline": "33.3 ms"})
    assert (asked.deadline_s, asked.sample_s) == (pytest.approx(0.0333), 0.0)
    assert measuring.options({"deadline": "33.3 ms"}).rounds == MeasureOptions().rounds


def test_a_plan_with_them_is_read_as_it_was_written(tmp_path: Path) -> None:
    asked = measuring.options({"sustain": "10 min", "deadline": "5 ms", "round_time": "4 s"})
    plan = Plan(name="kept", cases=[STREAM.case({"op": "copy", "size": "4 MiB"})], measure=asked)
    file = tmp_path / "kept.toml"
    file.write_text(write.text(plan))
    assert plans.load(str(file)).measure == asked
    assert "until 10 min have passed" in listing._measure(asked)
    assert "a deadline of 5.00 ms" in listing._measure(asked)
    other = measuring.options({"seed": 7}, asked)
    assert other == msgspec.structs.replace(asked, seed=7)  # another key leaves them as they are
