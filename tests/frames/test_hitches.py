"""Hitches are found where they were planted, with their cause, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.frames import simulated
from tests.frames.simulated import Floats

from hotlap.frames import keeping, reading
from hotlap.frames.record import FramesAsked, Hitch, StreamFigures

ASKED = FramesAsked()


def judged(path: Path) -> StreamFigures:
    (figures,) = keeping.judge(reading.read(path), ASKED)
    return figures


def hitches(tmp_path: Path, times: Floats, **columns: Floats) -> list[Hitch]:
    return judged(simulated.presentmon(tmp_path / "a.csv", times, **columns)).hitches


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("mean_ms", [4.0, 10.0, 33.3])
def test_a_clean_capture_has_none(seed: int, mean_ms: float, tmp_path: Path) -> None:
    assert hitches(tmp_path, simulated.frames(seed, 3000, mean_ms, spread=0.15)) == []


def test_a_cap_of_30_frames_a_second_has_none_nor_has_the_way_into_it(tmp_path: Path) -> None:
    fast, capped = simulated.frames(1, 1000, 4.0), np.round(33.3 + np.random.default_rng(2).normal(0, 0.4, 1000), 4)
    assert hitches(tmp_path, capped) == []
    assert hitches(tmp_path, np.concatenate([fast, capped, fast])) == []


def test_each_of_49_is_found_and_nothing_else(tmp_path: Path) -> None:
    times = simulated.frames(7, 3000, 5.0)
    planted = np.arange(60, 3000, 60)
    times[planted] = np.round(times[planted] + 80.0, 4)
    found_at = [round(hitch.time_s, 4) for hitch in hitches(tmp_path, times)]
    ends = np.cumsum(times) / 1000
    assert found_at == [round(float(ends[place - 1]), 4) for place in planted]
    assert len(found_at) == 49


def test_slow_frames_close_together_are_one_hitch(tmp_path: Path) -> None:
    times = simulated.frames(7, 600, 5.0)
    times[[100, 104, 400]] = 90.0
    assert [hitch.frames for hitch in hitches(tmp_path, times)] == [2, 1]


@pytest.mark.parametrize(("column", "cause"), [
    ("MsGPUBusy", "gpu"), ("MsInPresentAPI", "present"), ("MsCPUBusy", "host"), ("PSO Compile Time", "compile"), ("", "unknown"),
])
def test_the_cause_is_the_part_that_grew(column: str, cause: str, tmp_path: Path) -> None:
    times = simulated.frames(7, 600, 5.0)
    shares = {"MsGPUBusy": 0.9, "MsInPresentAPI": 0.02, "MsCPUBusy": 0.5, "PSO Compile Time": 0.0}
    columns = {name: np.round(times * share, 4) for name, share in shares.items()}
    times[300] += 80.0
    if column:
        columns[column][300 - (column == "MsInPresentAPI")] += 78.0  # the time to a present begins with the Present before it
    (hitch,) = hitches(tmp_path, times, **columns)
    assert hitch.cause == cause
    assert hitch.seconds == pytest.approx(times[300] / 1000)
    assert [round(value, 3) for value in hitch.evidence.values()] == ([0.078] if column else [])


@pytest.mark.parametrize(("name", "usual", "then", "cause"), [
    ("gpu_core_clock", 2500.0, 900.0, "clock"), ("gpu_vram_used", 6.0, 6.9, "memory"), ("process_rss", 3.0, 3.4, "memory"),
    ("ram_used", 20.0, 26.0, "unknown"), ("gpu_core_clock", 2500.0, 2400.0, "unknown"),
])
def test_what_mangohud_saw_beside_a_hitch(name: str, usual: float, then: float, cause: str, tmp_path: Path) -> None:
    times = np.round(simulated.frames(7, 600, 5.0), 3)
    times[300] = 90.0
    values = np.full(600, usual)
    values[300 : 301 if "clock" in name else 600] = then
    (hitch,) = judged(simulated.mangohud(tmp_path / "log.csv", times, 16, **{name: values.tolist()})).hitches
    assert hitch.cause == cause
    assert bool(hitch.evidence) == (cause != "unknown")


def test_pacing_says_which_display_steps_are_no_whole_refreshes(tmp_path: Path) -> None:
    times = np.full(300, 1000 / 60)
    times[[50, 150]] = 22.0
    path = simulated.presentmon(tmp_path / "a.csv", np.round(times, 4))
    (figures,) = keeping.judge(reading.read(path), FramesAsked(refresh_hz=60))
    assert figures.uneven_share == pytest.approx(2 / 300, abs=1e-4)
    assert judged(path).uneven_share is None


def test_shares_of_the_time_by_hand(tmp_path: Path) -> None:
    """Stutter is 2.5 times the mean of the last 32 frames, 10·√10; frames below 25 fps that are no stutter are the other share."""
    times = np.array([10.0] * 100 + [100.0] + [10.0] * 100)
    figures = judged(simulated.presentmon(tmp_path / "a.csv", times))
    assert figures.stutter_share == pytest.approx(100 / 2100)
    assert figures.low_fps_share == 0
    assert judged(simulated.presentmon(tmp_path / "b.csv", np.full(100, 50.0))).low_fps_share == 1
    assert figures.bound is not None
    assert (figures.bound.gpu, figures.bound.cpu) == (1.0, 0.0)
    assert figures.bound.busy == pytest.approx(0.97)
