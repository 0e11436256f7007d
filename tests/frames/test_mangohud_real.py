"""MangoHud over a program that draws, run by the test: its own summary is reproduced from its log to the last digit."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.store import bundle
from hotlap.frames import judged, keeping, likes, reading, streams
from hotlap.frames.record import FramesAsked

NEEDED = ("Xvfb", "mangohud", "vkcube")
COLUMNS = ("0.1% Min FPS", "1% Min FPS", "97% Percentile FPS", "Average FPS")
OVER = ["mangohud", "vkcube", "--present_mode", "0"]


@pytest.fixture
def display() -> Iterator[str]:
    """An X server of the test's own."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"], pass_fds=[write],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as file:
        number = file.readline().strip()
    yield f":{number}"
    server.terminate()
    server.wait()


@pytest.mark.slow("runs MangoHud over vkcube for two seconds")
@pytest.mark.skipif(any(not shutil.which(program) for program in NEEDED), reason="not run, because Xvfb, mangohud and vkcube are not all installed")
def test_mangohud_s_own_summary_is_reproduced_from_its_log(display: str, tmp_path: Path) -> None:
    config = f"autostart_log=1,log_duration=2,log_interval=0,output_folder={tmp_path},no_display"
    environment = {**os.environ, "DISPLAY": display, "XDG_RUNTIME_DIR": str(tmp_path), "MANGOHUD_CONFIG": config}
    subprocess.run(["timeout", "10", *OVER], env=environment, capture_output=True, check=False)
    summaries = sorted(tmp_path.glob("*_summary.csv"))
    if not summaries:
        pytest.skip("not run, because vkcube drew nothing within 10 s")
    log = tmp_path / summaries[0].name.replace("_summary", "")
    (capture,) = reading.read(log)
    if "mangohud_version" in capture.kept.facts or capture.kept.columns["frame"].unit != "us":
        pytest.skip("not run, because this MangoHud is later than 0.6.8, whose summary has another form")
    (stream,) = streams.of([capture], FramesAsked())
    with summaries[0].open() as file:
        theirs = next(csv.DictReader(file))
    assert likes.numbers("mangohud-0.6", stream) == {name: theirs[name] for name in COLUMNS}
    (figures,) = keeping.judge([capture], FramesAsked())
    assert figures.average_fps < float(theirs["Average FPS"])  # theirs is a mean of rates


@pytest.mark.slow("captures vkcube and glxgears for a second each")
@pytest.mark.skipif(any(not shutil.which(program) for program in NEEDED), reason="not run, because Xvfb, mangohud and vkcube are not all installed")
@pytest.mark.parametrize("program", ["vkcube --present_mode 2 --width 64 --height 64", "glxgears -geometry 64x64"])
def test_programs_are_captured_live(display: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Vulkan's layer, and by the preloaded library of OpenGL."""
    if not shutil.which(program.split()[0]):
        pytest.skip(f"not run, because {program.split()[0]} is not installed")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    assert main(["frames", "capture", "--captures", "1", "--seconds", "1 s", "--start", "3 s", "--", *program.split()]) == 0
    content = judged.read(bundle.load(next((tmp_path / "home" / "runs").iterdir())))
    assert content is not None
    (figures,) = content.figures
    assert program.split()[0] in figures.key
    assert figures.frames >= 2
