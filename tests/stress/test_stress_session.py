"""Drills: each fault of the simulated card, the process and the disk gets the right verdict and cause."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from hotlap.core.analysis.catalogue import Findings, catalogue
from hotlap.core.store import bundle as bundles
from hotlap.stress import conduct, session
from hotlap.stress import record as stress
from hotlap.stress import verdict as judging
from hotlap.stress.control import SHORT_S, Controller, Limits, Mix
from hotlap.stress.record import FILE, Phase, Profile, Tick

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
    "frozen power sensor": ("frozen=power_w@30s", "inconclusive", "frozen sensor: power_w"),
    "a lowered power limit": ("power_cap=500W", "inconclusive", "power limit lowered"),
    "a power limit lowered so far that rates fall": ("power_cap=350W", "inconclusive", "power limit lowered"),
    "capped far below the limit": ("throttle=0.3@0s&reason=software_power_cap", "inconclusive", "capped below its limit"),
    "a third of the speed": ("efficiency=0.3", "fail", "far below expectation"),
    "clock stuck low from the start": ("stuck=0.4", "fail", "far below expectation"),
    "half a link": ("slow_link=0.5", "fail", "far below expectation"),
    "narrow link from the start": ("pcie_width=4", "fail", "link narrow"),
    "a row marked": ("xid=63@30s", "fail", "Xid 63"),
    "one slow device of two": ("count=2&slow=0.2@1", "inconclusive", "behind its only peer"),
    "one slow device of four": ("count=4&slow=0.2@2", "fail", "behind its peers"),
}


def verdict(path: Path) -> judging.StressVerdict:
    bundle = bundles.load(path)
    lines, torn = stress.read((path / FILE).read_bytes())
    assert torn == 0
    return judging.judge(bundle.run, lines, bundle.readings, folder=path)


def drill(faults: str, home: Path, profile: Profile = PROFILE) -> judging.StressVerdict:
    device = "all" if "count=" in faults else ""
    options = session.StressOptions(target=f"simulated:h200-sxm?{faults}".rstrip("?"), device=device, home=home, hung_s=4.0)
    return verdict(session.run(profile, options, lambda _device, _line: None))


@pytest.mark.slow("hours of load, simulated")
@pytest.mark.parametrize("name", DRILLS)
def test_drill(name: str, tmp_path: Path) -> None:
    faults, state, cause = DRILLS[name]
    found = drill(faults, tmp_path)
    causes = [cause for one in found.devices for cause in one.causes]
    assert (found.state, cause in causes if cause else causes == []) == (state, True), causes


def test_a_cap_below_the_limit_is_told_with_the_median_power() -> None:
    times, findings = np.arange(10.0), Findings(catalogue())
    shown = {"power_w": (times, np.array([700.0, 300, 300, 400, 420, 427, 430, 500, 510, 515])), "throttle": (times, np.array([0.0] + [4] * 9))}
    assert conduct.capped_below({"software power cap": 0.9}, shown, 700.0, findings)
    assert "drawing 427 W of 700 W in the median" in findings.findings[0][1].detail


@pytest.mark.slow("hours of load, simulated")
def test_a_clock_that_is_held_before_the_load_is_said(tmp_path: Path) -> None:
    (one,) = drill("throttle=0.3@0s&reason=hardware_power_brake", tmp_path).devices
    assert "hardware power brake, before any load" in [f.detail for f in one.findings if f.title == "held before the load"]


@pytest.mark.slow("minutes of load, simulated")
def test_a_wrong_result_is_shown_as_wide_as_it_is(tmp_path: Path) -> None:
    (one,) = drill("flip=1", tmp_path, profile(60.0, ("products",))).devices
    digits = {wrong.unit: len(wrong.expected) - 2 for wrong in one.wrong}
    assert {unit: count * 4 for unit, count in digits.items()} == {
        "products fp64": 64, "products fp32": 32, "products tf32": 32, "products int8": 32,
        **dict.fromkeys(("products fp16", "products bf16", "products fp8"), 16),
    }  # fmt: skip
    for wrong in one.wrong:
        assert [1 << bit for bit in wrong.bits] == [int(wrong.expected, 16) ^ int(wrong.got, 16)]


def test_limit_asked_stops_the_load(tmp_path: Path) -> None:
    profile = Profile(name="x", about="", seconds=600.0, phases=PROFILE.phases, max_temperature_c=50.0)
    one = drill("", tmp_path, profile).devices[0]
    assert one.causes == ["limit asked was reached"]
    assert one.figures["temperature_c.peak"] < 53


@pytest.mark.slow("hours of load, simulated")
def test_power_is_held(tmp_path: Path) -> None:
    profile = Profile(name="x", about="", seconds=120.0, phases=PROFILE.phases[:1], power_w=400.0)
    one = drill("", tmp_path, profile).devices[0]
    assert one.figures["power_w.average"] == pytest.approx(400.0, rel=0.06)


def profile(seconds: float, kinds: tuple[str, ...], **given: float) -> Profile:
    return Profile(name="x", about="", seconds=seconds, phases=[Phase(kind=kind, seconds=10.0) for kind in kinds], **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "held"), [({"power_w": 400.0}, True), ({"power_w": 10.0}, False), ({"power_w": 5000.0}, False),
                                             ({"temperature_c": 45.0}, True), ({"temperature_c": 20.0}, False)])  # fmt: skip
@pytest.mark.slow("hours of load, simulated")
def test_a_set_point_that_is_missed_is_no_pass(given: dict[str, float], held: bool, tmp_path: Path) -> None:
    (one,) = drill("", tmp_path, replace(PROFILE, seconds=240.0, phases=PROFILE.phases[:1], **given)).devices
    assert (one.causes == []) == held, one.causes
    assert ("held within" in one.goal, one.goal.startswith("not held")) == (held, not held)
    assert held or one.causes == ["set point not held"]


@pytest.mark.parametrize(("given", "dead"), [({"max_temperature_c": 80.0}, "temperature_c"), ({"power_w": 400.0}, "power_w"),
                                             ({"max_power_w": 690.0}, "power_w")])  # fmt: skip
def test_what_no_sensor_guards_is_not_loaded(given: dict[str, float], dead: str, tmp_path: Path) -> None:
    (one,) = drill(f"dead={dead}", tmp_path, replace(PROFILE, **given)).devices
    assert (one.state, one.causes[0], one.figures["units"]) == ("inconclusive", "limit without a sensor", 0)


@pytest.mark.slow("hours of load, simulated")
def test_a_sensor_that_falls_silent_under_a_limit_stops_the_load(tmp_path: Path) -> None:
    (one,) = drill("mute=temperature_c@30s", tmp_path, replace(PROFILE, max_temperature_c=85.0)).devices
    assert "limit asked was reached" in one.causes
    assert one.figures["seconds"] < 50
    assert any("no reading of temperature_c" in f.detail for f in one.findings)


def test_the_time_from_a_limit_to_the_stop_is_said(tmp_path: Path) -> None:
    (one,) = drill("", tmp_path, replace(PROFILE, max_power_w=300.0)).devices
    (said,) = [f.detail for f in one.findings if f.title == "limit asked was reached"]
    assert "after the first reading there" in said
    assert one.figures["seconds"] < 2


@pytest.mark.slow("hours of load, simulated")
def test_every_dtype_has_the_same_time(tmp_path: Path) -> None:
    (one,) = drill("", tmp_path, profile(120.0, ("products",))).devices
    busy = [r.busy_s for r in one.rates]
    assert len(busy) == 7
    assert max(busy) < 1.1 * min(busy)


@pytest.mark.slow("hours of load, simulated")
@pytest.mark.parametrize("machine", ["h200-sxm", "l4", "b300", "a10"])
def test_hours_at_the_limit_are_at_the_limit(machine: str, tmp_path: Path) -> None:
    """Most of the time is for what draws the most, and every dtype still has its turn."""
    for name in ("thermal", "burn-in"):
        options = session.StressOptions(target=f"simulated:{machine}", home=tmp_path)
        path = session.run(replace(stress.load(name), seconds=900.0), options, lambda _device, _line: None)
        (one,) = verdict(path).devices
        watts = np.concatenate([np.array(x.values, float) for x in bundles.load(path).readings if x.sensor == "power_w"])
        assert (one.causes, np.mean(watts >= 0.95 * one.figures["power_limit_w"]) > 0.9) == ([], True)
        assert len([r for r in one.rates if r.kind.startswith("products")]) >= 6
        assert 890 < one.figures["seconds"] < 905


@pytest.mark.slow("hours of load, simulated")
@pytest.mark.parametrize("machine", ["mi300x", "arc-b580", "v100-sxm2-32gb", "rtx-4090", "gb200", "t4", "max-1550"])
def test_a_card_that_is_well_passes(machine: str, tmp_path: Path) -> None:
    options = session.StressOptions(target=f"simulated:{machine}", home=tmp_path)
    for name in ("quick", "mixed", "idle-wake", "power-pulse"):
        asked = stress.load(name)
        found = verdict(session.run(replace(asked, seconds=min(asked.seconds, 120.0)), options, lambda _device, _line: None))
        assert (found.state, found.devices[0].causes) == ("pass", []), (name, [f.detail for f in found.devices[0].findings])


@pytest.mark.slow("hours of load, simulated")
def test_a_resumed_run_does_the_phases_that_were_left(tmp_path: Path) -> None:
    """Ended in its first phase, it goes on from there, not from the beginning."""
    asked = profile(40.0, ("products", "memory", "link", "atomics"))
    path = session.run(asked, session.StressOptions(target="simulated:h200-sxm", home=tmp_path), lambda _device, _line: None)
    lines = [x for x in verdict_lines(path) if x.time_s < 8.0]
    (path / FILE).write_bytes(b"".join(msgspec.json.encode(x) + b"\n" for x in lines))
    (path / bundles.READINGS).write_bytes(b"")
    session.resume(path, lambda _device, _line: None)
    (one,) = verdict(path).devices
    later = {x.phase for x in verdict_lines(path) if isinstance(x, Tick) and x.attempt == 1}
    assert {"products", "memory", "link", "atomics"} <= later
    second = [x for x in verdict_lines(path) if isinstance(x, Tick) and x.attempt == 1 and x.phase == "products"]
    assert sum(x.busy_s for x in second) < 4.0
    assert one.state == "pass", one.findings


def test_units_that_never_ran_are_no_pass() -> None:
    could = stress.Happened(device="G0", time_s=0.0, what="units", numbers={"products fp16": 1.0, "memory": 1.0, "link": 1.0})
    done = {"products fp16": stress.Done(units=3, flop=1.0, busy_s=1.0), "memory walking bits": stress.Done(units=1, busy_s=1.0)}
    found = Findings(catalogue())
    conduct.never_ran([Tick(device="G0", time_s=1.0, phase="products", done=done)], [could], found)
    assert found.open == ["never ran"]
    assert found.findings[0][1].detail == "link: not one unit was done"


def test_nothing_done_is_no_pass(tmp_path: Path) -> None:
    found = drill("", tmp_path, Profile(name="x", about="", seconds=30.0, phases=[Phase(kind="idle", seconds=5.0)]))
    assert (found.state, found.devices[0].causes) == ("inconclusive", ["no checked work"])


@pytest.mark.slow("starts, kills and resumes runs of the command")
def test_killed_again_and_again_nothing_durable_is_lost(tmp_path: Path) -> None:
    """The session is killed at random moments; every line that was there stays, and the run can go on to its end."""
    environment = {**os.environ, "HOTLAP_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "hotlap", "stress", "quick", "--target", "simulated:h200-sxm", "--for", "2 h"]
    chance, before, path = random.Random(7), b"", None
    for _ in range(3):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        waited = time.monotonic()
        while time.monotonic() - waited < 300 and not grown(tmp_path, len(before)):  # a loaded machine takes its time to begin
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
    session.resume(path, lambda _device, _line: None)
    found = verdict(path)
    assert found.state == "pass", [one.findings for one in found.devices]
    ticks = [x for x in verdict_lines(path) if isinstance(x, Tick)]
    assert session.loaded_s(ticks) == pytest.approx(7200.0, abs=30.0)


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


@pytest.mark.slow("hours of load, simulated")
def test_power_above_what_a_phase_draws_is_held_by_the_mix(tmp_path: Path) -> None:
    """Memory alone draws 594 W on this card, products 696 W."""
    phases = [Phase(kind="memory", seconds=100.0), Phase(kind="products", seconds=0.2, dtypes=["fp16"])]
    (one,) = drill("", tmp_path, Profile(name="x", about="", seconds=100.0, phases=phases, power_w=650.0)).devices
    (said,) = [f.detail for f in one.findings if f.title == "units mixed"]
    assert said.startswith("full duty of memory does not hold 650 W; products fp16 (696 W alone) is mixed in")
    (path,) = (tmp_path / "runs").iterdir()
    late = [x.shown["power_w"] for x in verdict_lines(path) if isinstance(x, Tick) and x.time_s > 50 and "power_w" in x.shown]
    assert np.mean(late) == pytest.approx(650.0, rel=0.02)
    assert {r.kind for r in one.rates} == {"memory", "products fp16"}


@pytest.mark.slow("hours of load, simulated")
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
