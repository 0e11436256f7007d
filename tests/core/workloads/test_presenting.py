"""Frames presented to a window: what the window shows is what was drawn, and what cannot be presented is not run, with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import NotSupported
from hotlap.core.measure import targets, window, workloads
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.workloads import presenting
from hotlap.core.work import case_of

PRESENT = "present side=64 layers=4"
needs_display = pytest.mark.skipif(not shutil.which("Xvfb"), reason="not run, because Xvfb is not installed")


@pytest.fixture(name="target", scope="module")
def opened(webgpu_target: Any) -> Any:
    return webgpu_target


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An X server of the tests' own."""
    read, write = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "320x200x24", "-nolisten", "tcp"], pass_fds=[write],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        os.close(write)
        with os.fdopen(read) as file:
            number = file.readline().strip()
        yield f":{number}"
        process.terminate()


@pytest.fixture
def display(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", server)


@needs_display
@pytest.mark.usefixtures("display")
@pytest.mark.parametrize("mode", ["fifo", "immediate"])
def test_frames_are_shown_and_their_pace_is_kept(target: Any, mode: str) -> None:
    samples = measure(target, case_of(f"{PRESENT} mode={mode}"), CaseBudget(seconds=0.05, round=0, seed=3))
    assert samples.status == "measured", samples.reason
    assert samples.check is not None
    assert samples.check.passed
    assert samples.check.what == "all pixels that the window shows, exact"
    (pace,) = [one for one in samples.notices if one.code == "pacing"]
    assert "frames over 1.5 × the median" in pace.seen


@needs_display
@pytest.mark.usefixtures("display")
def test_what_does_not_reach_the_window_is_wrong(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = workloads.prepare(target, case_of(PRESENT), 5)
    assert prepared.close is not None
    target.time(prepared.enqueue, 2)
    monkeypatch.setattr(presenting, "ARRIVES_S", 0.1)
    with monkeypatch.context() as lost:
        lost.setattr(presenting.Screen, "present", lambda *_: None)
        check = prepared.check()
    assert not check.passed
    assert "tiles differ" in check.what
    assert prepared.check().passed
    prepared.close()


@needs_display
@pytest.mark.usefixtures("display")
def test_a_picture_larger_than_the_screen_is_not_run(target: Any) -> None:
    samples = measure(target, case_of("present side=256"), CaseBudget(seconds=0.05, round=0))
    assert samples.status == "not_run"
    assert "more than the screen has, 320 × 200" in samples.reason


@pytest.mark.parametrize(("value", "words"), [("", "DISPLAY is not set"), (":4711", "the X11 display ':4711' cannot be opened")])
def test_without_a_display_it_is_not_run(target: Any, value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", value)
    samples = measure(target, case_of(PRESENT), CaseBudget(seconds=0.05, round=0))
    assert (samples.status, words in samples.reason) == ("not_run", True), samples.reason


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(window.ctypes, "CDLL", gone)
    monkeypatch.setenv("DISPLAY", ":0")
    window._xlib.cache_clear()
    with pytest.raises(NotSupported, match=r"libX11.so.6, which is not here"):
        window.XWindow(64)


def test_only_what_draws_presents() -> None:
    spec = targets.parse("host")
    target = targets.open_device(spec, targets.find(spec)[0])
    with pytest.raises(NotSupported, match="does not draw"):
        presenting.prepare(target, case_of(PRESENT), np.random.default_rng(1))


def test_frames_that_come_late_are_counted() -> None:
    (notice,) = presenting.paced([0.016] * 99 + [0.033])
    assert notice.seen == "present to present: median 16.0 ms, p99 16.2 ms, longest 33.0 ms; 1 of 100 frames over 1.5 × the median"
    assert presenting.paced([]) == []
