"""Energy of calls: the truth lies within the bounds whatever ran between the calls; the simulated card's own energy is found again."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from hotlap import cli
from hotlap.core.analysis.energy import energies, rails
from hotlap.core.analysis.frontier import FrontierPoint, frontier
from hotlap.core.errors import InputError
from hotlap.core.plan import case
from hotlap.core.record import Case, Device, Gap, Limit, Readings, Result, Row, Samples, Summary, Verdict
from hotlap.core.store import select

DEVICE = Device(target="cuda", index=0, name="Test", kind="gpu", uuid="GPU-1")
PLAN = """
name = "energies"
[measure]
rounds = 2
rounds_max = 2
round_time = "3 s"
[[case]]
workload = "gemm"
m = 4096
n = 4096
k = 4096
dtype = "bf16"
"""


def row(samples: list[Samples], one: Case) -> Row:
    result = Result(case=one, device=DEVICE.key, target="cuda", status="measured", rounds=samples, values=[1.0])
    limit = Limit(kind="bound", energy_j=2.0, power_w=200.0)
    return Row(case=one, device=DEVICE.key, label="gemm", result=result, summary=Summary(rounds=len(samples)), gap=Gap(limit=limit), verdict=Verdict(state="measured"))


def played(seed: int, counter: bool) -> tuple[Row, list[Readings], float]:
    """Rounds of calls of known energy with untimed work of other power between them; sensors at 10 Hz."""
    random = np.random.default_rng(seed)
    one = case("gemm", {"m": 1024, "n": 1024, "k": 1024, "dtype": "bf16"})
    busy_w, rest_w, call_s = random.uniform(200, 700), random.uniform(80, 700), random.uniform(1e-4, 5e-3)
    share = random.uniform(0.6, 0.99)  # of the window in timed calls
    samples, readings = [], []
    for number in range(3):
        begin = 10.0 * number + 1.0
        period, calls, count = 0.02, max(int(share * 0.02 / call_s), 1), 120
        timed = calls * call_s
        period = max(period, timed * 1.01)
        grid = np.arange(0.0, 10.0, 1e-3) + 10.0 * number
        inside = (grid >= begin) & (grid < begin + period * count)
        power = np.where(inside & ((grid - begin) % period < timed), busy_w, np.where(inside, rest_w, 60.0))
        total = np.concatenate([[0.0], np.cumsum(power) * 1e-3])[:-1]
        at = np.arange(0, len(grid), 100)
        smooth = np.array([power[max(i - 50, 0) : i + 50].mean() for i in at])
        readings.append(Readings(sensor="power_w", device=DEVICE.key, times_s=grid[at].tolist(), values=smooth.tolist(), round=number))
        readings.append(Readings(sensor="power_limit_w", device=DEVICE.key, times_s=[grid[0]], values=[700.0], round=number))
        if counter:
            readings.append(Readings(sensor="energy_j", device=DEVICE.key, times_s=grid[at].tolist(), values=total[at].tolist(), round=number))
        samples.append(
            Samples(case=one.id, device=DEVICE.key, round=number, values=[call_s] * count, calls=calls, began_s=begin, ended_s=begin + period * count)
        )
    return row(samples, one), readings, busy_w * call_s


@pytest.mark.slow("hundreds of comparisons")
@pytest.mark.parametrize("counter", [True, False])
def test_the_truth_lies_within_the_bounds(counter: bool) -> None:
    for seed in range(60):
        made, readings, truth = played(seed, counter)
        (found,) = energies([made], readings, [DEVICE])
        assert found.joules is not None
        assert found.low_j is not None
        assert found.high_j is not None
        assert found.low_j <= found.joules <= found.high_j
        assert found.low_j * 0.99 <= truth <= found.high_j * 1.01, seed  # the trace has steps of 1 ms
        assert found.source == ("counter" if counter else "integral")
        assert found.idle_w == pytest.approx(60.0, rel=0.05)
        assert found.operations_per_j == pytest.approx(2 * 1024**3 / found.joules)


def test_what_calls_do_not_draw_more_than_is_no_idle_power() -> None:
    made, readings, _ = played(0, False)
    samples = {one.round: one for one in made.result.rounds}

    def warm(one: Readings) -> Readings:
        window = samples[one.round]
        outside = [not window.began_s <= at <= window.ended_s for at in one.times_s]
        return replace(one, values=[750.0 if out else value for out, value in zip(outside, one.values, strict=True)])

    (found,) = energies([made], [warm(one) if one.sensor == "power_w" else one for one in readings], [DEVICE])
    assert found.power_w is not None
    assert found.idle_w is None


def test_without_a_sensor_the_reason_is_said() -> None:
    made, _, _ = played(0, False)
    told = [Readings(sensor="power_w", device=DEVICE.key, status="not_supported", reason="this card has none")]
    (found,) = energies([made], told, [DEVICE])
    assert found.joules is None
    assert found.reason == "no energy sensor: this card has none"
    assert found.expected_j == 2.0


def test_a_rail_is_the_device_s_power_only_where_the_user_names_it() -> None:
    made, readings, _ = played(0, False)
    (own,) = energies([made], readings, [DEVICE])
    of_board = [replace(one, sensor="power_w.VDD_IN", device="host") for one in readings if one.sensor == "power_w"]
    of_board += [replace(one, sensor="power_w.package0", values=[1.0] * len(one.values)) for one in of_board]
    assert rails(of_board) == ["VDD_IN"]
    (unnamed,) = energies([made], of_board, [DEVICE])
    assert unnamed.joules is None
    assert unnamed.reason == "no energy sensor of its own; name the rail that feeds it with --rail: VDD_IN"
    (named,) = energies([made], of_board, [DEVICE], "VDD_IN")
    assert named.joules == pytest.approx(own.joules)


def test_a_window_without_readings_is_unknown() -> None:
    made, readings, _ = played(0, False)
    sparse = [Readings(sensor="power_w", device=DEVICE.key, times_s=one.times_s[:2], values=one.values[:2], round=one.round) for one in readings]
    (found,) = energies([made], sparse, [DEVICE])
    assert found.joules is None
    assert "no two readings" in found.reason


# ---------------------------------------------------------------- the frontier


def test_the_front_and_the_best_by_hand() -> None:
    points = [FrontierPoint(name=n, seconds=s, joules=j) for n, s, j in (("a", 1.0, 10.0), ("b", 1.04, 9.0), ("c", 1.2, 9.5), ("d", 2.0, 6.0), ("e", 3.0, 7.0))]
    found = frontier(points, 0.05)
    assert [(one.name, one.front) for one in found.points] == [("a", True), ("b", True), ("c", False), ("d", True), ("e", False)]
    assert found.best == {"time": "a", "energy": "d", "EDP": "b", "ED²P": "b", "energy, at most 5.0 % slower": "b"}
    with pytest.raises(InputError, match="no setting"):
        frontier([])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def test_the_simulated_cards_own_energy_is_found_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(home / "plan.toml"), "--target", "simulated:h200-sxm?noise=0.01&seed=3", "--no-report", "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["energy", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["cases"]
    (run,) = select.runs("latest", home / "home")
    truth = statistics.median(samples.counters["energy_j"] for samples in run.samples)
    assert one["more"]["low_j"] <= truth <= one["more"]["high_j"]
    assert (one["value"], one["unit"]) == (pytest.approx(truth, rel=0.03), "J")
    assert one["more"]["source"] == "counter"
    assert one["more"]["rounds"] == 2
