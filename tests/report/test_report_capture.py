"""What a capture cost, in words."""

from __future__ import annotations

from pathlib import Path

from hotlap.report import capture
from hotlap.store.captured import Captured, Overhead, Process, Window


def test_a_difference_that_is_none_is_not_called_one() -> None:
    assert "cannot be told" in capture.overhead(Overhead(inside=0.8, low=0.5, high=1.2))
    assert "steps took 20.0 % longer" in capture.overhead(Overhead(inside=1.2, low=1.1, high=1.3))
    assert "no steps without the profiler" in capture.overhead(Overhead(still_s=0.1))


def test_the_window_is_told_with_its_steps_and_what_went_wrong() -> None:
    window = Window(first=12, began_s=1.0, ended_s=1.2, steps_s=[0.01] * 22)
    one = Process(place="rank0", pid=1, steps=60, trace="trace-rank0.json", trouble="a \x1b[2Jdisk", windows=[window], usual_s=[[0.01]])
    found = Captured(argv=["python", "train.py"], tool="pytorch", exit_code=3, processes=[one], traces=[one.trace])
    text = "\n".join(capture.lines(Path("home"), found, 100))
    assert "python train.py · ended with 3" in text
    assert "process rank0: steps 12 to 31 of 60, 200 ms" in text
    assert "\x1b" not in text


def test_a_window_that_was_cut_short_says_so() -> None:
    window = Window(first=3, began_s=1.0, ended_s=1.2, steps_s=[0.01] * 5, complete=False)
    found = Captured(argv=["x"], tool="pytorch", exit_code=130, processes=[Process(place="7", pid=7, steps=8, windows=[window])])
    assert "cut short" in "\n".join(capture.lines(Path("home"), found, 100))
