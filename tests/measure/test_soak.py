"""Drills: each fault of the simulated card, the process and the disk gets the right verdict and cause."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from hotlap.judge import stress as judging
from hotlap.measure import soak
from hotlap.measure.control import SHORT_S, Controller, Limits, Mix
from hotlap.store import bundle as bundles
from hotlap.work import stress
from hotlap.work.stress import FILE, Phase, Profile, Tick

PROFILE = Profile(name="drill", about="", seconds=90.0, phases=[Phase(kind="products", seconds=20.0, dtypes=["fp16"]), Phase(kind="link", seconds=5.0)])
DRILLS = {
    "well": ("", "pass", ""),
    "throttled by the power limit": ("throttle=0.02@0s&reason=software_power_cap", "pass", ""),
    "throttled by heat, hardware": ("throttle=0.3@30s&reason=hardware_thermal", "fail", "throttled: hardware thermal"),
    "throttled by heat, driver": ("throttle=0.3@30s&reason=software_thermal", "fail", "throttled: software thermal"),
    "throttled by slowdown": ("throttle=0.5@30s&reason=hardware_slowdown", "fail", "throttled: hardware slowdown"),
    "throttled by power brake": ("throttle=0.5@30s&reason=hardware_power_brake", "fail", "throttled: hardware power brake"),
    "throttled without a reason": ("stuck=0.4@30s", "fail", "clock stuck low"),
    "throughput drifts": ("drift=0.2", "fail", "throughput falls"),
    "throughput steps": ("step=0.3@40s", "fail", "throughput falls"),
    "power limit too low": ("throttle=0.3@30s&reason=software_power_cap", "fail", "throughput falls"),
    "throttled before the load": ("throttle=0.3@0s&reason=hardware_power_brake", "fail", "throttled: hardware power brake"),
    "fan": ("fan_speed=0@30s", "fail", "fan stopped"),
    "cooling": ("cooling=1.0", "fail", "too hot"),
    "narrow link": ("pcie_width=4@30s", "fail", "link narrowed"),
    "link errors": ("replays=50@30s", "fail", "link errors"),
    "dead power sensor": ("dead=power_w", "inconclusive", "dead sensor: power_w"),
    "power sensor stops sending": ("mute=power_w@30s", "inconclusive", "lost sensor: power_w"),
    "temperature sensor stops sending": ("mute=temperature_c@30s", "inconclusive", "lost sensor: temperature_c"),
    "dead temperature sensor": ("dead=temperature_c", "inconclusive", "dead sensor: temperature_c"),
    "frozen temperature sensor": ("frozen=temperature_c@30s", "inconclusive", "frozen sensor: temperature_c"),
    "temperature sensor shows nonsense": ("jump=temperature_c@30s", "inconclusive", "nonsense from sensor: temperature_c"),
    "power sensor shows nonsense": ("jump=power_w@30s", "inconclusive", "nonsense from sensor: power_w"),
    "uncorrected memory errors": ("ecc=3@30s", "fail", "uncorrected memory errors"),
    "storm of corrected memory errors": ("ecc_corrected=100@30s", "fail", "corrected memory errors"),
    "rows remapped": ("remapped=1@30s", "fail", "memory rows remapped"),
    "a row pends": ("pending=1@30s", "fail", "memory rows wait for a reset"),
    "a row pends from the start": ("pending=1", "inconclusive", "memory rows wait for a reset"),
    "a page pends from the start": ("retiring=1", "inconclusive", "memory pages wait for a reboot"),
    "no spare row is left": ("spent=1", "fail", "memory rows not remapped"),
    "NVLink errors": ("nvlink=50@30s", "fail", "NVLink replays"),
    "NVLink errors within the budget": ("nvlink=1@30s", "pass", ""),
    "throttled by heat between readings": ("bursts=0.3@30s&reason=hardware_thermal", "fail", "throttled: hardware thermal"),
    "throttled by the power limit between readings": ("bursts=0.3@30s&reason=software_power_cap", "pass", ""),
    "Xid 48": ("xid=48@30s", "fail", "Xid 48"),
    "Xid 79": ("xid=79@30s", "fail", "Xid 79"),
    "Xid 74": ("xid=74@30s", "fail", "Xid 74"),
    "Xid not in the catalogue": ("xid=999@30s", "fail", "Xid 999"),
    "Xid that says little": ("xid=45@30s", "pass", ""),
    "one bit in a thousand checks": ("flip=0.02&seed=3", "fail", "wrong results (transient)"),
    "every result wrong": ("flip=1", "fail", "wrong results (permanent)"),
    "device lost": ("lost=30s", "fail", "device lost"),
    "kernel hangs": ("hang=30s", "fail", "hung"),
    "process killed": ("dies=30s", "fail", "process died"),
    "one slow device of four": ("count=4&slow=0.2@2", "fail", "behind its peers"),
}


def verdict(path: Path) -> judging.StressVerdict:
    bundle = bundles.load(path)
    lines, torn = stress.read((path / FILE).read_bytes())
    assert torn == 0
    return judging.judge(bundle.run, lines, bundle.readings)


def drill(faults: str, home: Path, profile: Profile = PROFILE) -> judging.StressVerdict:
    device = "all" if "count=" in faults else ""
    options = soak.Options(target=f"simulated:h200-sxm?{faults}".rstrip("?"), device=device, home=home, hung_s=4.0)
    return verdict(soak.run(profile, options, lambda _device, _line: None))


@pytest.mark.parametrize("name", DRILLS)
def test_drill(name: str, tmp_path: Path) -> None:
    faults, state, cause = DRILLS[name]
    found = drill(faults, tmp_path)
    causes = [cause for one in found.devices for cause in one.causes]
    assert (found.state, cause in causes if cause else causes == []) == (state, True), causes


def test_a_clock_that_is_held_before_the_load_is_said(tmp_path: Path) -> None:
    (one,) = drill("throttle=0.3@0s&reason=hardware_power_brake", tmp_path).devices
    assert "hardware power brake, before any load" in [f.detail for f in one.findings if f.title == "held before the load"]


def test_limit_asked_stops_the_load(tmp_path: Path) -> None:
    profile = Profile(name="x", about="", seconds=600.0, phases=PROFILE.phases, max_temperature_c=50.0)
    one = drill("", tmp_path, profile).devices[0]
    assert one.causes == ["limit asked was reached"]
    assert one.figures["temperature_c.peak"] < 53


def test_power_is_held(tmp_path: Path) -> None:
    profile = Profile(name="x", about="", seconds=120.0, phases=PROFILE.phases[:1], power_w=400.0)
    one = drill("", tmp_path, profile).devices[0]
    assert one.figures["power_w.average"] == pytest.approx(400.0, rel=0.06)


def test_nothing_done_is_no_pass(tmp_path: Path) -> None:
    found = drill("", tmp_path, Profile(name="x", about="", seconds=30.0, phases=[Phase(kind="idle", seconds=5.0)]))
    assert (found.state, found.devices[0].causes) == ("inconclusive", ["no checked work"])


def test_killed_again_and_again_nothing_durable_is_lost(tmp_path: Path) -> None:
    """The session is killed at random moments; every line that was there stays, and the run can go on to its end."""
    environment = {**os.environ, "HOTLAP_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hotlap", "stress", "quick", "--target", "simulated:h200-sxm", "--for", "2 h"]
    chance, before, path = random.Random(7), b"", None
    for _ in range(3):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        waited = time.monotonic()
        while time.monotonic() - waited < 60 and not grown(tmp_path, len(before)):  # a loaded machine takes its time to begin
            time.sleep(0.05)
        time.sleep(0.6 * chance.random())
        process.send_signal(signal.SIGKILL)
        process.wait()
        (path,) = (tmp_path / "runs").iterdir()
        now = (path / FILE).read_bytes()
        whole = before[: before.rfind(b"\n") + 1]
        assert now.startswith(whole)
        before = now
        command = [*command[:4], "--resume", path.name]
    assert path is not None
    done = verdict_lines(path)
    assert len({x.attempt for x in done if isinstance(x, Tick)}) >= 2
    soak.resume(path, tmp_path, lambda _device, _line: None)
    assert verdict(path).state == "pass"
    ticks = [x for x in verdict_lines(path) if isinstance(x, Tick)]
    assert soak.loaded_s(ticks) == pytest.approx(7200.0, abs=30.0)


def grown(home: Path, size: int) -> bool:
    """Whether a tick was written to the log since it had that size."""
    return any(b'"tick"' in path.read_bytes()[size:] for path in (home / "runs").glob(f"*/{FILE}"))


def verdict_lines(path: Path) -> list[stress.Line]:
    return stress.read((path / FILE).read_bytes())[0]


def test_controller_does_not_wind_up() -> None:
    control = Controller(target=500.0)
    for _ in range(100):
        control.step(100.0, 1.0)  # a target out of reach
    assert control.duty == 1.0
    steps = next(n for n in range(20) if control.step(900.0, 1.0) < 0.9)
    assert steps < 5


@pytest.mark.parametrize(("target", "mixed"), [(450.0, 0.5), (590.0, 29 / 30), (200.0, 0.0)])
def test_a_unit_that_draws_more_is_mixed_in_where_duty_alone_is_too_little(target: float, mixed: float) -> None:
    """An artificial plant: 80 W idle, 300 W in memory, 600 W in products, first order with 0.5 s."""
    control, mix, watts = Controller(target), Mix(), 80.0
    for _ in range(400):
        load = (1 - control.mixed) * 300.0 + control.mixed * 600.0
        watts += (80.0 + control.on * (load - 80.0) - watts) * (1 - np.exp(-0.5 / 0.5))
        control.step(watts, 0.5)
        if control.short_s > SHORT_S and control.most == 1.0:
            mix.watts = {"memory": 300.0, "products fp16": 600.0}
            assert mix.more(["memory"]) == "products fp16"
            control.reach(300.0, 600.0, power=True)
    assert watts == pytest.approx(target, rel=0.01)
    assert control.mixed == pytest.approx(mixed, abs=0.05)


def test_what_draws_no_more_is_not_mixed_in() -> None:
    assert Mix({"memory": 595.0, "products fp16": 600.0}).more(["memory"]) == ""
    assert Mix({"memory": 300.0, "products fp16": 600.0}).more(["products fp16"]) == ""
    assert Mix({"products fp64": 400.0, "products fp16": 600.0}).more(["products fp64", "products fp16"]) == "products fp16"
    assert Mix().more(["memory"]) == ""


def test_power_above_what_a_phase_draws_is_held_by_the_mix(tmp_path: Path) -> None:
    """Memory alone draws 594 W on this card, products 700 W."""
    phases = [Phase(kind="memory", seconds=100.0), Phase(kind="products", seconds=0.2, dtypes=["fp16"])]
    (one,) = drill("", tmp_path, Profile(name="x", about="", seconds=100.0, phases=phases, power_w=650.0)).devices
    (said,) = [f.detail for f in one.findings if f.title == "units mixed"]
    assert said.startswith("full duty of memory does not hold 650 W; products fp16 (700 W alone) is mixed in")
    (path,) = (tmp_path / "runs").iterdir()
    late = [x.shown["power_w"] for x in verdict_lines(path) if isinstance(x, Tick) and x.time_s > 50 and "power_w" in x.shown]
    assert np.mean(late) == pytest.approx(650.0, rel=0.02)
    assert {r.kind for r in one.rates} == {"memory", "products fp16"}


def test_pulses_of_several_devices_keep_one_schedule(tmp_path: Path) -> None:
    """A slow device does not fall behind pulse by pulse: what its last unit took too long is taken from its pause."""
    phases = [Phase(kind="products", seconds=0.5, dtypes=["fp16"]), Phase(kind="idle", seconds=0.5)]
    profile = Profile(name="x", about="", seconds=60.0, phases=phases, synchronised=True)
    found = drill("count=3&slow=0.5@2", tmp_path, profile)
    assert found.skew is not None
    assert (found.skew.pulses, found.skew.devices) == (60, 3)
    assert found.skew.median_s <= found.skew.most_s < 0.1
    alone = drill("count=3&slow=0.5@2", tmp_path / "alone", replace(profile, synchronised=False))
    assert alone.skew is None


def test_skew_is_of_pulses_that_two_devices_began() -> None:
    began = {"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 1.25, 1: 2.5}}
    lines = [Tick(device=key, time_s=1.0, phase="products", pulses=pulses) for key, pulses in began.items()]
    assert judging.skew(lines) == judging.Skew(2, 2, 0.375, 0.5)
    assert judging.skew(lines[:1]) is None


def test_limits_do_not_believe_nonsense() -> None:
    limits = Limits(slowdown_c=87.0)
    assert limits.reached({"temperature_c": 6553.5}) == ""
    assert "own slowdown" in limits.reached({"temperature_c": 85.0})
