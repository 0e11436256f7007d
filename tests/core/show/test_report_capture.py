"""What a capture cost, in words."""

from __future__ import annotations

from pathlib import Path

from hotlap.traces.captured import Captured, CapturedProcess, CaptureOverhead, CaptureWindow
from hotlap.traces.show import capture


def test_a_difference_that_is_none_is_not_called_one() -> None:
    assert "not distinguishable" in capture.overhead(CaptureOverhead(inside=1.1, low=0.5, high=1.2))
    text = capture.overhead(CaptureOverhead(inside=1.1, low=0.5, high=1.2, still_s=0.1, whole=0.006))
    assert text.endswith("0.60 % of the whole run, not counting what the profiler may cost within those steps"), text
    assert "steps took 20.0 % longer" in capture.overhead(CaptureOverhead(inside=1.2, low=1.1, high=1.3))
    assert "no steps without the profiler" in capture.overhead(CaptureOverhead(still_s=0.1))


def test_steps_that_were_shorter_are_noise_and_no_negative_cost() -> None:
    text = capture.overhead(CaptureOverhead(inside=0.812, low=0.75, high=0.9, spread=0.05, still_s=0.1, whole=-0.0083))
    assert text.startswith("the profiler's overhead is below what this run can resolve (steps varied by ± 19 %)")
    assert "shorter" not in text
    assert "of the whole run" not in text
    assert "varied by ± 5.0 %" in capture.overhead(CaptureOverhead(inside=0.99, low=0.98, high=0.995, spread=0.05))


def test_the_window_is_told_with_its_steps_and_what_went_wrong() -> None:
    window = CaptureWindow(first=12, began_s=1.0, ended_s=1.2, steps_s=[0.01] * 22)
    one = CapturedProcess(place="rank0", pid=1, steps=60, trace="trace-rank0.json", trouble="a \x1b[2Jdisk", windows=[window], usual_s=[[0.01]])
    found = Captured(argv=["python", "train.py"], tool="pytorch", exit_code=3, processes=[one], traces=[one.trace])
    text = "\n".join(capture.lines(Path("home"), found, 100))
    assert "python train.py · ended with 3" in text
    assert "process rank0: steps 12 to 31 of 60, the profiler was on for 200 ms" in text
    assert "\x1b" not in text


def test_a_window_that_was_cut_short_says_so() -> None:
    window = CaptureWindow(first=3, began_s=1.0, ended_s=1.2, steps_s=[0.01] * 5, complete=False)
    found = Captured(argv=["x"], tool="pytorch", exit_code=130, processes=[CapturedProcess(place="7", pid=7, steps=8, windows=[window])])
    assert "cut short" in "\n".join(capture.lines(Path("home"), found, 100))


def test_a_window_by_the_clock_counts_all_its_steps_and_says_where_it_missed_them() -> None:
    def told(first: int, steps: int) -> str:
        window = CaptureWindow(first=first, within=0, began_s=1.0, ended_s=2.0, steps_s=[0.01] * steps)
        one = CapturedProcess(place="7", pid=7, steps=400, windows=[window])
        return "\n".join(capture.lines(Path("home"), Captured(argv=["x"], tool="pytorch", exit_code=0, processes=[one]), 200))

    assert "steps 86 to 169 of 400, 1.00 s by the clock" in told(86, 84)
    assert "no step of 400 lies within it: it came before the first was done; give a larger --after" in told(1, 0)
    assert "no step of 400 lies within it; give a larger --seconds" in told(7, 0)


def test_how_long_steps_take_without_the_profiler() -> None:
    one = CapturedProcess(place="7", pid=7, steps=60, usual_s=[[0.010, 0.020], [0.030]])
    text = "\n".join(capture.lines(Path("home"), Captured(argv=["x"], tool="pytorch", exit_code=0, processes=[one]), 100))
    assert "steps   60 in all; median 20.0 ms over 3 without the profiler" in text
    assert "trace   none was recorded" in text


def test_what_the_import_of_pytorch_cost_is_said_apart() -> None:
    text = capture.overhead(CaptureOverhead(still_s=3.5, import_s=3.0, whole=15.9))
    assert "paused the program for 3.50 s, 3.00 s of it to import PyTorch" in text
    assert "16.9 times as long" in text
    assert "7.7 % of the whole run" in capture.overhead(CaptureOverhead(still_s=0.1, whole=0.077))
