"""hotlap stress: what is refused before any load, what the list of runs says after it, and the live view."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from hotlap.__main__ import main
from hotlap.core.record import Device
from hotlap.stress import show as stress
from hotlap.stress.cli import View
from hotlap.stress.record import Done, Happened, Profile, Tick

H200 = ["--target", "simulated:h200-sxm"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(("given", "said"), [
    (["--judge", "latest", "--for", "3h", "--power", "5W"], "--judge does not go with --for, --power: it measures nothing; leave them out"),
    (["quick", "--resume", "latest"], "--resume does not go with PROFILE: it goes on as the run began; leave it out"),
    (["--judge", "latest", "--resume", "latest"], "give one of them"),
    (["--out", "/nowhere/x.html", *H200], "there is no folder '/nowhere'"),
    (["--for", "-3s", *H200], "a time is above 0, not -3s"),
    (["--label", "x", *H200], "is not a label"),
    (["--device", "9", *H200], "there is no device '9'"),
])  # fmt: skip
def test_what_is_refused_is_refused_in_one_line_before_any_load(
    given: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stress", *given]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1  # no title of a profile before it
    assert not list((home / "home").glob("runs/2*"))


@pytest.mark.slow("hours of load, simulated")
def test_the_list_of_runs_has_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stress", "link", "--for", "20s", *H200]) == 0
    assert main(["stress", "link", "--for", "20s", "--target", "simulated:h200-sxm?flip=1"]) == 1
    capsys.readouterr()
    assert main(["list"]) == 0
    good, bad = capsys.readouterr().out.strip().splitlines()[-2:]
    assert ("PASS" in good, "FAIL" in bad) == (True, True)
    assert main(["stress", "--judge", "latest"]) == 1


@pytest.mark.slow("hours of load, simulated")
def test_those_that_pass_among_many_have_a_line_and_those_that_fail_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stress", "thermal", "--for", "60s", "--device", "all", "--target", "simulated:h200-sxm?count=4&slow=0.2@2"]) == 1
    out = capsys.readouterr().out
    assert out.count("simulated:2 NVIDIA") == 1
    assert len(re.findall(r"^simulated:\d +pass ", out, re.MULTILINE)) == 3
    assert "FAIL  1 of 4 devices: behind its peers (simulated:2)" in out


def test_the_live_view_is_sorted_and_an_ended_device_shows_nothing() -> None:
    view = View(io.StringIO())
    view.begin(Profile(name="x", about="", seconds=60.0, phases=[]))
    for index in (2, 0, 1):
        device = Device(target="simulated", index=index, name="GPU", kind="gpu", uuid=f"G{index}")
        done = {"products fp16": Done(units=1, flop=1e12, busy_s=0.5)}
        view(device, Tick(device=device.key, time_s=1.0, phase="products", shown={"power_w": 482.0}, done=done, unit="products fp16"))
        if index == 0:
            view(device, Happened(device=device.key, time_s=2.0, what="ended", detail="the time is over"))
    lines = stress.rows(view.devices, view.ticks, view.errors, view.states, 80)[1:]
    assert [line.split()[0] for line in lines] == ["simulated:0", "simulated:1", "simulated:2"]
    assert ["482 W" in line for line in lines] == [False, True, True]
