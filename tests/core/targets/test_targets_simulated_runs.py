"""Runs on the simulated GPU with tile-level times: counters kept and shown, causes that add up, simulations compared with each other."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.measure import targets
from hotlap.core.plan import case
from hotlap.core.record import MeasureOptions, Plan
from hotlap.core.show.explain import explain
from hotlap.core.store.readers import counted

pytestmark = pytest.mark.slow("whole runs of the simulated GPU with counters")

CASES = [
    case("gemm", {"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192}), case("stream", {"op": "copy", "size": "1 GiB"}), case("attention", {}),
    case("chase", {"size": "1 MiB"}),
]  # fmt: skip
PLAN = Plan(name="tiles", cases=CASES, measure=MeasureOptions(rounds=6, rounds_max=6, round_s=2.0, seed=5))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")


def test_counters_are_kept_beside_the_times_and_add_up() -> None:
    run = hotlap.run(PLAN, target="simulated:h200-sxm")
    product, copy, attention, chase = run.rows
    for row in (product, copy, attention):
        seen, seconds = counted.counters(row.result), row.result.seconds[0]
        assert math.fsum(counted.stalls(row.result).values()) == pytest.approx(seconds, rel=1e-3)
        assert seen["energy_j"] == pytest.approx(seen["power_w"] * seconds, rel=1e-3)
    assert counted.counters(chase.result) == {}
    assert {notice.code for notice in product.result.notices} >= {"throttled", "low_clock"}  # the power limit holds its clock
    clock = counted.counters(product.result)["clock_hz"]
    assert clock < 0.97 * 1.98e9
    assert {hz for one in product.result.rounds for hz in one.clocks_hz} == {clock}
    assert product.gap.cause == "power"
    assert sum(product.gap.split.values()) == pytest.approx(product.result.seconds[0] - product.gap.limit.bound_s, rel=1e-6)


def test_sensors_follow_the_kernel() -> None:
    run = hotlap.run(PLAN, target="simulated:h200-sxm", rounds=1, rounds_max=1)
    watts = [v for r in run.bundle.readings if r.sensor == "power_w" for v in r.values if v is not None]
    energy = [v for r in run.bundle.readings if r.sensor == "energy_j" for v in r.values if v is not None]
    heat = [v for r in run.bundle.readings if r.sensor == "temperature_c" for v in r.values if v is not None]
    assert max(watts) == pytest.approx(700.0, rel=0.03)
    assert energy == sorted(energy)
    assert 30.0 <= min(heat) < max(heat) < 87.0


def test_energy_is_power_times_time_at_idle_too() -> None:
    """12 % of 700 W for 10 s, then a load, seen in the middle of it: the counter never stands still."""
    target = targets.open_device(spec := targets.parse("simulated:h200-sxm"), targets.find(spec)[0])
    gpu, clock = target.gpu, target.clock
    assert gpu.readings(0.0)["energy_j"] == 0.0
    clock.sleep(10.0)
    assert gpu.readings(10.0)["energy_j"] == pytest.approx(0.12 * 700 * 10)
    warm = gpu.readings(10.0)["temperature_c"]
    assert 30.0 < warm < 30.0 + 0.12 * 55
    seen: list[tuple[float, float]] = []
    clock.every(0.02, lambda: seen.append((gpu.readings(clock.now())["power_w"], gpu.readings(clock.now())["energy_j"])))
    before = gpu.energy_j
    gpu.advance(1.0, busy=True)
    watts = gpu.watts(busy=True)
    assert gpu.energy_j - before == pytest.approx(watts * 1.0)
    assert {w for w, _ in seen[1:]} == {watts}
    assert [b[1] - a[1] for a, b in itertools.pairwise(seen[1:])] == pytest.approx([0.02 * watts] * (len(seen) - 2))


def test_efficiency_means_the_bound_unless_tiles_are_asked_for() -> None:
    def seconds(options: str) -> float:
        spec = targets.parse(f"simulated:h200-sxm{options}")
        target = targets.open_device(spec, targets.find(spec)[0])
        return target.time(target.library.prepare(CASES[0]).enqueue, 1).device_s

    bound, tiles = seconds("?times=bound"), seconds("")
    assert seconds("?efficiency=0.5") == pytest.approx(2 * bound)
    assert seconds("?efficiency=0.5&times=tiles") == pytest.approx(2 * tiles)
    assert tiles > 1.2 * bound


def test_show_and_explain_say_what_was_counted(capsys: pytest.CaptureFixture[str]) -> None:
    hotlap.run(PLAN, target="simulated:h200-sxm")
    assert main(["show", "latest"]) == 0
    shown = capsys.readouterr().out
    assert "counters of one call" in shown
    assert "plain times, no counters: chase: kernels of this workload are not simulated tile by tile" in shown
    assert main(["explain", "latest"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"count SMs busy \d+ %, their arithmetic \d+ %, .* from memory, .* of reads hit L2", said)
    assert re.search(r"time matrix unit \d+ %", said)


def test_counters_of_several_devices_are_a_line_a_case_from_the_least_to_the_most(capsys: pytest.CaptureFixture[str]) -> None:
    """One of three is 20 % slower: its share of time is the least."""
    hotlap.run(PLAN, target="simulated:h200-sxm?count=3&slow=0.2@1&noise=0&spread=0", device="all", rounds=1, rounds_max=1)
    assert main(["show", "latest"]) == 0
    shown = capsys.readouterr().out.partition("counters of one call on 3 devices")[2]
    products = [line for line in shown.splitlines() if line.startswith("  gemm")]
    assert len(products) == sum(case.workload == "gemm" for case in hotlap.load("latest").bundle.run.plan.cases)
    least, most = (int(one) for one in re.search(r"(\d+) – (\d+) % ", products[0]).groups())  # type: ignore[union-attr]
    assert least / most == pytest.approx(1 / 1.2, abs=0.02)
    assert "of one device: hotlap explain RUN --device simulated-h200-sxm-0" in shown


def test_a_run_at_the_bound_has_no_shares_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    hotlap.run(PLAN, target="simulated:h200-sxm?times=bound", rounds=1, rounds_max=1)
    assert main(["explain", "latest"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "set by arithmetic unit; reached 100 %; not slower than the model expects" in said
    assert "split" not in said
    assert not re.search(r"\d{4,} %", said)


def test_simulations_are_held_against_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for side, options in (("tiles", "h200-sxm"), ("bound", "h200-sxm?times=bound"), ("other", "a100-sxm-80gb")):
        hotlap.run(PLAN, target=f"simulated:{options}", labels={"side": side}, rounds=1, rounds_max=1)
    page = tmp_path / "scatter.html"
    assert main(["model", "correlate", "side=tiles", "side=bound", "--out", str(page)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "worst cases of different regimes, simulated ÷ reference − 1" in said
    assert "simulated: matrix unit" in said
    assert "chase 1 MiB" not in said.partition("worst cases")[2]  # both agree on it
    assert "<svg" in page.read_text(encoding="utf-8")
    assert main(["model", "correlate", "side=other", "side=tiles"]) == 0
    assert "differ by" in capsys.readouterr().out


def test_runs_without_a_common_case_get_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for side, one in (("a", CASES[0]), ("b", CASES[1])):
        plan = Plan(name=side, cases=[one], measure=PLAN.measure)
        hotlap.run(plan, target="simulated:h200-sxm", labels={"side": side}, rounds=1, rounds_max=1)
    assert main(["model", "correlate", "side=a", "side=b"]) == 2
    assert "no case has a time on both sides" in capsys.readouterr().err


def test_what_heat_takes_is_called_heat_and_is_as_much_as_the_run_lacks_beside_a_cool_one() -> None:
    """A card at its power cap, then held 20 % lower by temperature: not the power cap's part, and no large rest."""
    plan = Plan(name="hot", cases=CASES[:1], measure=MeasureOptions(rounds=6, rounds_max=6, round_s=2.0, seed=5))
    (cool,) = hotlap.run(plan, target="simulated:h200-sxm?noise=0.005").rows
    (hot,) = hotlap.run(plan, target="simulated:h200-sxm?noise=0.005&throttle=0.2@0s&reason=hardware_thermal").rows
    lost_s = hot.result.seconds[0] - cool.result.seconds[0]
    assert hot.gap.cause == "heat"
    assert hot.gap.split["heat, which lowered the clock"] == pytest.approx(lost_s, rel=0.25)  # what the expectation leaves
    assert abs(hot.gap.split["unexplained"]) < 0.05 * lost_s
    assert "heat, which lowered the clock" not in cool.gap.split
    shown = re.sub(r"\s+", " ", explain([hot]))
    assert re.search(r"over the bound: heat, which lowered the clock \d+ µs", shown)
    assert counted.counters(hot.result)["clock_hz"] == pytest.approx(0.8 * counted.counters(cool.result)["clock_hz"], rel=0.01)
