"""The eight definitions of 1 % low against a second implementation; other tools' own numbers."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.frames import simulated

from benchmarks import frames_captures, frames_definitions
from hotlap.frames import keeping, likes, lows, metrics, reading
from hotlap.frames.record import FramesAsked


@pytest.mark.slow("200 captures by two implementations")
def test_definitions_equal_a_second_implementation_to_the_last_printed_digit() -> None:
    assert list(frames_captures.second(0.01)) == list(lows.DEFINITIONS)
    compared, differ = frames_captures.definitions(200)
    assert differ == []
    assert compared > 2500


def test_a_definition_that_is_off_by_one_frame_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_captures, "second", lambda share: {"slowest frames": lambda t: 1000 / np.mean(sorted(t)[-math.ceil(len(t) * share) - 1 :])})
    compared, differ = frames_captures.definitions(10)
    assert len(differ) == compared > 0


def test_a_single_hitch_of_a_thousand_frames_divides_the_definitions() -> None:
    """Of 999 frames of 8 ms and one of 200 ms: from 5 to 125 fps."""
    slowest = np.array([200.0, *[8.0] * 999])
    rates = {name: one.rate(slowest, 0.01) for name, one in lows.DEFINITIONS.items()}
    assert {name: round(rate or 0.0, 1) for name, rate in rates.items()} == {
        "percentile of times": 125.0, "percentile of rates": 125.0, "median-unbiased": 125.0, "beyond percentile": 122.1,
        "slowest frames": 36.8, "lowest rates": 113.0, "place in order": 125.0, "slowest time": 5.0,
    }  # fmt: skip


def test_each_tool_prints_the_numbers_of_its_own_definitions() -> None:
    times = simulated.frames(1, 5000)
    times[77] = 180.0
    slowest = np.sort(times)[::-1]
    assert likes.rtss(times)["1% low"] == f"{lows.integral(slowest, 0.01):.1f}"
    assert likes.capframex(times)["1% Low Average"] == f"{lows.beyond_percentile(slowest, 0.01):.1f}"
    assert likes.capframex(times)["P1"] == f"{np.quantile(1000 / times, 0.01, method='median_unbiased'):.1f}"
    assert likes.presentmon(times)["FPS 1%"] == f"{1000 / np.quantile(times, 0.99):.2f}"
    assert likes.mangohud(times)["1% Min FPS"] == f"{1000 / slowest[49]:.1f}"
    assert float(likes.mangohud_old(times)["Average FPS"]) > float(likes.mangohud(times)["Average FPS"])  # a mean of rates is too high


def test_a_tool_that_has_no_number_of_so_few_frames_prints_none() -> None:
    assert likes.mangohud(simulated.frames(1, 50))["1% Min FPS"] == likes.NONE


def test_a_low_of_fewer_than_ten_slow_frames_is_not_given() -> None:
    times = np.sort(simulated.frames(3, 1500))[::-1] / 1000
    known = {(low.definition, low.share): low.rate for low in metrics.low_rates(times)}
    assert known["slowest frames", 0.01] is not None
    assert known["slowest frames", 0.001] is None
    assert metrics.percentile(times[::-1], 0.99) is not None
    assert metrics.percentile(times[::-1], 0.999) is None


@pytest.mark.parametrize("name", frames_definitions.PICTURES)
def test_the_pictures_of_the_manual_are_those_of_the_definitions(name: str) -> None:
    """`python benchmarks/frames_definitions.py` draws them anew."""
    assert (frames_definitions.OUT / name).read_text(encoding="utf-8") == frames_definitions.PICTURES[name]()


def test_energy_of_frames_is_power_by_time_of_each_rail(tmp_path: Path) -> None:
    times = np.array([10.0, 10.0, 20.0] * 40)
    watts = [100.0, 100.0, 200.0] * 40
    path = simulated.mangohud(tmp_path / "game_2026-11-25_10-00-00.csv", times, gpu_power=watts)
    (figures,) = keeping.judge(reading.read(path), FramesAsked())
    (used,) = figures.energy  # the 12 columns have no power of the processor
    assert (used.rail, used.watts) == ("gpu_power", pytest.approx(150.0))
    assert used.joules == pytest.approx(0.15 * 40 / 3)
    assert used.frames_per_j == pytest.approx(1 / used.joules)
    (unread,) = keeping.judge(reading.read(simulated.mangohud(path, times)), FramesAsked())
    assert unread.energy == []
