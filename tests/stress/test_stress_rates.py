"""Rates of a stress run: like is compared with like, and what stood in the way of the limit is named."""

from __future__ import annotations

import re

import numpy as np
import pytest
from msgspec.structs import replace

from draws import draws
from hotlap.core.model import machines
from hotlap.core.record import Device, Machine, MeasureOptions, Plan, Readings, RunRecord
from hotlap.stress import power_limit, throughput
from hotlap.stress import verdict as stress
from hotlap.stress.record import Done, Happened, Line, Tick

H200 = machines.load("h200-sxm")
SLOW, FAST = 50e12, 500e12  # of two dtypes


def device(index: int, machine: str = "h200-sxm") -> Device:
    return Device(target="simulated", index=index, name="NVIDIA H200", kind="gpu", machine=machine, uuid=f"G{index}")


def run(*devices: Device) -> RunRecord:
    return RunRecord(
        id="r", began="2026-01-01T00:00:00", ended="2026-01-01T01:00:00", hotlap="0", plan=Plan(name="stress-x", measure=MeasureOptions()),
        machine=Machine(host="h", devices=list(devices)), target="simulated:h200-sxm", devices=[d.key for d in devices],
    )  # fmt: skip


def ticks(key: str, rates: dict[str, list[float]]) -> list[Line]:
    """A tick a second, in which each kind ran for half a second; then the end."""
    length = max(map(len, rates.values()))
    found: list[Line] = []
    for n in range(length):
        done = {kind: Done(units=5, flop=0.5 * some[n], busy_s=0.5) for kind, some in rates.items() if n < len(some)}
        flop, busy_s = sum(d.flop for d in done.values()), 0.5 * len(done)
        found.append(
            Tick(
                device=key,
                time_s=float(n),
                phase="products",
                units=5,
                checked=5,
                flop=flop,
                busy_s=busy_s,
                done=done,
                unit=next(reversed(done)),
            )
        )
    return [*found, Happened(device=key, time_s=float(length), what="ended")]


def power(key: str, *values: float) -> Readings:
    return Readings(sensor="power_w", device=key, times_s=[float(n) for n in range(len(values))], values=list(values))


def test_a_change_of_dtype_is_no_slope() -> None:
    """Slow products first and fast ones later: blended, throughput would rise tenfold; turned round, it would fall."""
    lines = ticks("G0", {"products fp64": [SLOW] * 40, "products fp16": [FAST] * 20})
    (one,) = stress.judge(run(device(0)), lines, []).devices
    assert (one.state, [r.kind for r in one.rates]) == ("pass", ["products fp64", "products fp16"])
    assert [(r.peak, r.sustained, r.slope) for r in one.rates] == [(SLOW, SLOW, 0.0), (FAST, FAST, 0.0)]


def test_one_kind_that_falls_is_found_among_steady_ones() -> None:
    falling = np.linspace(FAST, 0.8 * FAST, 60).tolist()
    lines = ticks("G0", {"products fp64": [SLOW] * 60, "products fp16": falling})
    (one,) = stress.judge(run(device(0)), lines, []).devices
    assert one.causes == ["throughput falls"]
    assert "products fp16" in one.findings[0].detail
    assert [r.falls for r in one.rates] == [False, True]


@pytest.mark.slow("hundreds of comparisons")
def test_scatter_alone_does_not_fall() -> None:
    for seed in range(draws(200)):
        noise = np.random.default_rng(seed).normal(1.0, 0.15, 40)
        (one,) = stress.judge(run(device(0)), ticks("G0", {"products fp32": (SLOW * noise).tolist()}), []).devices
        assert one.state == "pass", seed


def test_peers_are_held_against_the_same_kind_and_model() -> None:
    devices = [device(n) for n in range(4)] + [device(4, "a100-sxm-80gb")]
    lines: list[Line] = []
    for one in devices[:3]:
        lines += ticks(one.key, {"products fp16": [FAST] * 20, "products fp64": [SLOW] * 20})
    lines += ticks("G3", {"products fp16": [FAST] * 20, "products fp64": [0.9 * SLOW] * 20})  # behind in one kind only
    lines += ticks("G4", {"products fp16": [0.4 * FAST] * 20})  # another model: no peer
    found = stress.judge(run(*devices), lines, [])
    assert [one.causes for one in found.devices] == [[], [], [], ["behind its peers"], []]
    assert found.devices[3].findings[-1].detail.startswith("products fp64 is 10.0 % under")


def test_a_reference_run_decides() -> None:
    good = stress.judge(run(device(7)), ticks("G7", {"products fp16": [FAST] * 20}), [])
    bad = stress.judge(run(device(0)), ticks("G0", {"products fp16": [0.9 * FAST] * 20}), [])
    found = stress.hold(bad, run(device(0)), stress.good_run(good, run(device(7))))
    assert (found.state, found.devices[0].causes) == ("fail", ["behind the reference"])
    assert found.devices[0].rates[0].reference == FAST
    other = run(device(7, "a100-sxm-80gb"))
    assert stress.hold(bad, run(device(0)), stress.good_run(good, other)).state == "inconclusive"


def test_the_bound_is_that_of_the_product_made() -> None:
    sides = {"m": 8192.0, "n": 8192.0, "k": 8192.0}
    bound, expected, why, *_ = throughput.limit("products fp16", sides, H200)
    assert why == ""
    assert expected is not None

    assert bound is not None
    assert 0.5 * bound < expected < bound
    assert throughput.limit("products fp16", sides, None)[2] == "the device is not in the machine table"
    assert "more than moved bytes" in throughput.limit("memory", {}, H200)[2]


REASONS = {
    "asked for less power": ({"goal.power_w": 400.0}, {}, "400 W were asked for"),
    "asked for a temperature": ({"goal.temperature_c": 70.0}, {}, "held at 70 °C"),
    "throttled": ({}, {"hardware thermal": 0.4}, "held back by hardware thermal for 40 %"),
    "nothing": ({}, {}, "nothing held it back"),
}


@pytest.mark.parametrize("name", REASONS)
def test_why_the_limit_was_not_reached(name: str) -> None:
    numbers, throttling, said = REASONS[name]
    lines = ticks("G0", {"products fp16": [FAST] * 20})
    events = [Happened(device="G0", time_s=0.0, what="began", numbers=numbers)]
    some = [replace(x, busy_s=1.0) for x in lines if isinstance(x, Tick)]
    seen = power_limit.PowerLimitSeen(
        stress.symptoms.columns("G0", [power("G0", 300.0, 310.0)]), some, events, throughput.rates(some, events, H200), throttling
    )
    found = power_limit.reached(device(0), H200, seen)
    assert found.yes is False
    assert said in found.text
    real = replace_target(device(0))
    assert power_limit.reached(real, H200, seen).yes is None  # the table's figure is no fact of a real card


def replace_target(one: Device) -> Device:
    return Device(target="torch", index=one.index, name=one.name, kind="gpu", machine=one.machine, uuid=one.uuid)


def test_the_limit_in_force_comes_before_the_table() -> None:
    shown = stress.symptoms.columns(
        "G0", [power("G0", 100.0, 395.0, 399.0), Readings(sensor="power_limit_w", device="G0", times_s=[0.0], values=[400.0])]
    )
    found = power_limit.reached(device(0), H200, power_limit.PowerLimitSeen(shown, [], [], [], {}))
    assert found.yes
    assert found.text.startswith("reached: 399 of 400 W (in force by the driver), first after 1 s; 67 % of readings")


def test_old_ticks_without_parts_count_by_phase() -> None:
    old = Tick(device="G0", time_s=0.0, phase="products", units=3, checked=3, flop=6.0, busy_s=2.0)
    assert old.parts() == {"products": Done(units=3, flop=6.0, busy_s=2.0)}


def test_rounding_is_no_fall() -> None:
    """Clocks of simulated cards have no scatter, so that each late tick may be slower than each early one by the last bit."""
    lines = ticks("G0", {"products fp16": [FAST] * 30 + [FAST * (1 - 1e-12)] * 30})
    (one,) = stress.judge(run(device(0)), lines, []).devices
    assert (one.state, [r.falls for r in one.rates]) == ("pass", [False])


def test_ticks_too_short_to_time_are_taken_together() -> None:
    """A fast kind has 20 ms of each second, and once 200 ms: its first minute must not vanish behind the one long tick."""
    rows = [(0.02, 800e12)] * 60 + [(0.2, 550e12)] + [(0.02, 550e12)] * 60
    some = [
        Tick(device="G0", time_s=float(n), phase="products", done={"products fp16": Done(units=1, flop=rate * busy_s, busy_s=busy_s)})
        for n, (busy_s, rate) in enumerate(rows)
    ]
    (one,) = throughput.rates(some, [], None)
    assert one.peak == pytest.approx(800e12)
    assert one.change == pytest.approx(550 / 800 - 1)
    assert one.falls
    assert one.busy_s == pytest.approx(2.6)


def test_a_line_through_a_step_is_no_steeper_than_the_step() -> None:
    lines = ticks("G0", {"products fp16": [FAST] * 30 + [0.7 * FAST] * 30})
    (one,) = throughput.rates([x for x in lines if isinstance(x, Tick)], [], None)
    assert one.slope == pytest.approx(-0.3)
    assert one.change == pytest.approx(-0.3)


def test_a_rate_far_below_the_model_fails_and_one_above_the_bound_is_doubted() -> None:
    sides = {"m": 8192.0, "n": 8192.0, "k": 8192.0, "library": 1.0}
    known = throughput.limit("products fp16", sides, H200)
    assert known.floor is not None
    assert known.bound is not None
    said = Happened(device="G0", time_s=0.0, what="coverage", unit="products fp16", numbers=sides)
    for rate, cause in ((0.99 * known.floor, "far below expectation"), (1.01 * known.floor, ""), (1.03 * known.bound, "faster than possible")):
        (one,) = stress.judge(run(device(0)), [said, *ticks("G0", {"products fp16": [rate] * 20})], []).devices
        assert one.causes == ([cause] if cause else [])
    assert throughput.limit("products fp16", {**sides, "library": 0.0}, H200).floor is None  # simple kernels are not judged so
    assert throughput.limit("link", {}, H200).bound is None


def test_two_devices_that_differ_are_no_pass_and_the_slower_one_is_named() -> None:
    lines = [*ticks("G0", {"products fp16": [FAST] * 20}), *ticks("G1", {"products fp16": [0.7 * FAST] * 20})]
    found = stress.judge(run(device(0), device(1)), lines, [])
    assert (found.state, found.reason) == ("inconclusive", "behind its only peer (simulated:1)")


def test_a_reference_with_nothing_in_common_is_no_pass() -> None:
    good = stress.judge(run(device(7)), ticks("G7", {"products fp64": [SLOW] * 20}), [])
    bad = stress.judge(run(device(0)), ticks("G0", {"products fp16": [FAST] * 20}), [])
    found = stress.hold(bad, run(device(0)), stress.good_run(good, run(device(7))))
    assert (found.state, found.devices[0].causes) == ("inconclusive", ["nothing to compare"])


def test_a_fall_on_a_busy_host_is_not_the_devices() -> None:
    host = Device(target="opencl", index=0, name="cpu", kind="cpu", uuid="G0")
    falling = ticks("G0", {"products fp32": np.linspace(SLOW, 0.5 * SLOW, 60).tolist()})
    for pressure, state in ((0.6, "inconclusive"), (0.05, "fail")):
        shown = Readings(sensor="pressure", device="host", times_s=[float(n) for n in range(60)], values=[pressure] * 60)
        (one,) = stress.judge(run(host), falling, [shown]).devices
        assert (one.state, "busy host" in one.causes) == (state, pressure > 0.5)


def constant(key: str, sensor: str, early: np.ndarray, late: float) -> Readings:
    values = [*early.tolist(), *[late] * 1000]
    return Readings(sensor=sensor, device=key, times_s=[0.1 * n for n in range(len(values))], values=values)


def test_a_constant_reading_is_only_frozen_where_something_else_moved() -> None:
    early = np.linspace(100.1, 593.0, 50)
    lines = ticks("G0", {"memory": [FAST] * 105})
    still = constant("G0", "power_w", early, 593.571)
    (one,) = stress.judge(run(device(0)), lines, [still]).devices
    assert not any("frozen" in cause for cause in one.causes)
    counter = np.concatenate([np.linspace(0.0, 2000.0, 50), 2000.0 + 30.0 * np.arange(1000)])  # 300 W
    energy = Readings(sensor="energy_j", device="G0", times_s=still.times_s, values=counter.tolist())
    (one,) = stress.judge(run(device(0)), lines, [still, energy]).devices
    assert one.causes == ["frozen sensor: power_w"]
    assert "energy counter rose by 300 W" in one.findings[0].detail


def test_figures_leave_out_what_cannot_be_and_tell_energy_by_its_counter() -> None:
    times = [float(n) for n in range(4)]
    heat = Readings(sensor="temperature_c", device="G0", times_s=times, values=[40.0, 50.0, 6553.5, 6553.5])
    watts = Readings(sensor="power_w", device="G0", times_s=times, values=[100.0] * 4)
    figures = stress.conduct.figures(stress.symptoms.columns("G0", [heat, watts]))
    assert (figures["temperature_c.peak"], figures["energy_j"]) == (50.0, 300.0)
    joules = Readings(sensor="energy_j", device="G0", times_s=times, values=[5.0, 125.0, 245.0, 365.0])
    assert stress.conduct.figures(stress.symptoms.columns("G0", [watts, joules]))["energy_j"] == 360.0


def test_findings_alike_are_told_once() -> None:
    lines = ticks("G0", {"products fp16": [FAST] * 20})
    died = [Happened(device="G0", time_s=float(n), what="died", detail="its process was ended by SIGKILL") for n in range(3)]
    (one,) = stress.judge(run(device(0)), [*died, *lines], []).devices
    assert [f.detail for f in one.findings if f.title == "process died"] == ["3 times: its process was ended by SIGKILL; it was started again"]


def test_a_span_is_told_in_its_two_largest_units() -> None:
    assert [stress.span(s) for s in (0.2, 45, 3600, 3660, 86400 + 7200, 140)] == ["0 s", "45 s", "1 h", "1 h 1 min", "1 d 2 h", "2 min 20 s"]


@pytest.mark.parametrize(("lost", "state"), [(0.17, "fail"), (0.07, "pass")])
@pytest.mark.parametrize("share", [0.15, 0.08])
def test_a_loss_soon_after_the_start_is_a_loss(lost: float, state: str, share: float) -> None:
    """A quarter of the run holds more slow ticks than fast ones then; a card that warms up loses a few percent there."""
    noise = np.exp(np.random.default_rng(3).normal(0, 0.005, 100))
    level = np.where(np.arange(100) < 100 * share, FAST, (1 - lost) * FAST)
    (one,) = stress.judge(run(device(0)), ticks("G0", {"products fp16": (level * noise).tolist()}), []).devices
    assert one.state == state
    if state == "fail":
        assert one.causes == ["throughput falls"]
        said = next(finding.detail for finding in one.findings if finding.title == "throughput falls")
        assert re.search(r"-1[67]\.\d % from the first (eighth|sixteenth) of the run to the last quarter", said)


def test_a_steady_rate_does_not_fall_from_any_part() -> None:
    random = np.random.default_rng(4)
    for _ in range(draws(500)):
        noise = np.exp(random.normal(0, 0.08, int(random.integers(12, 200))))
        (one,) = stress.judge(run(device(0)), ticks("G0", {"products fp16": (FAST * noise).tolist()}), []).devices
        assert "throughput falls" not in one.causes
