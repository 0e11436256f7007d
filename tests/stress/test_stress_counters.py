"""Counters and budgets of a stress run's verdict: what rose, what stands, for how much of the time the clock was held."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core.analysis import symptoms
from hotlap.core.analysis.catalogue import Budgets, Findings, catalogue
from hotlap.core.errors import InputError
from hotlap.stress import record as work
from hotlap.stress import verdict as stress
from hotlap.stress.show import named

SECONDS = np.arange(0.0, 100.0, 0.5)


def shown(**sensors: np.ndarray) -> symptoms.Columns:
    return {name.replace("__", "."): (SECONDS, values) for name, values in sensors.items()}


def causes(columns: symptoms.Columns, **budgets: float) -> tuple[list[str], list[str]]:
    found = Findings(catalogue())
    symptoms.counters(columns, found, Budgets(**budgets))
    symptoms.throttled(symptoms.throttling(columns), found, Budgets(**budgets))
    return found.failed, found.open


def test_bursts_between_readings_are_seen_by_the_counter() -> None:
    """The mask is sampled and shows nothing; the counter of seconds moved for a fifth of the time."""
    columns = shown(throttle=np.zeros(200), throttle_s__hardware_thermal=0.2 * SECONDS)
    assert symptoms.throttling(columns) == {"hardware thermal": pytest.approx(0.2)}
    assert causes(columns) == (["throttled: hardware thermal"], [])
    assert causes(columns, throttle=0.25) == ([], [])


def test_a_counter_stands_before_the_mask_and_every_bit_of_a_mask_counts() -> None:
    """0x44: two reasons at once, of which one has a counter."""
    columns = shown(throttle=np.where(SECONDS < 50, 0x44, 0.0), throttle_s__hardware_thermal=0.3 * SECONDS)
    found = symptoms.throttling(columns)
    assert found == {"software power cap": pytest.approx(0.5), "hardware thermal": pytest.approx(0.3)}


@pytest.mark.parametrize("bit", range(9))
def test_each_bit_of_the_mask_alone_and_with_all_others(bit: int) -> None:
    name = symptoms.REASONS[1 << bit]
    assert symptoms.throttling(shown(throttle=np.full(200, float(1 << bit)))) == {name: 1.0}
    everything = symptoms.throttling(shown(throttle=np.full(200, float(0x1FF))))
    assert everything == dict.fromkeys(symptoms.REASONS.values(), 1.0)
    assert name not in symptoms.throttling(shown(throttle=np.full(200, float(0x1FF & ~(1 << bit)))))


def test_a_counter_that_stands_still_leaves_it_to_the_mask() -> None:
    columns = shown(throttle=np.full(200, 64.0), throttle_s__hardware_thermal=np.full(200, 7.0))
    assert symptoms.throttling(columns) == {"hardware thermal": 1.0}


def test_a_counter_that_counts_faster_than_time_is_no_counter_of_seconds() -> None:
    assert symptoms.throttling(shown(throttle_s__hardware_thermal=1000 * SECONDS)) == {}


def test_the_sum_over_heat_is_not_told_twice() -> None:
    columns = shown(throttle_s__thermal=0.3 * SECONDS, throttle_s__software_thermal=0.3 * SECONDS)
    assert list(symptoms.throttling(columns)) == ["software thermal"]
    assert list(symptoms.throttling(shown(throttle_s__thermal=0.3 * SECONDS))) == ["thermal"]


def test_only_the_end_of_a_counter() -> None:
    late = np.maximum(SECONDS - 75, 0.0)
    assert symptoms.throttling(shown(throttle_s__software_thermal=late), 0.25)["software thermal"] == pytest.approx(1.0, abs=0.02)
    early = np.minimum(SECONDS, 25.0)
    assert symptoms.throttling(shown(throttle_s__software_thermal=early), 1 / 3) == {}


@pytest.mark.parametrize(
    ("sensor", "budget", "cause"),
    [
        ("ecc_corrected", "ecc_corrected", "corrected memory errors"),
        ("ecc_uncorrected", "ecc_uncorrected", "uncorrected memory errors"),
        ("remapped_rows", "remapped_rows", "memory rows remapped"),
        ("retired_pages", "remapped_rows", "memory pages retired"),
        ("pcie_replays", "pcie_errors", "link errors"),
        ("pcie_errors.correctable", "pcie_errors", "link errors corrected"),
        ("nvlink_errors.crc", "nvlink_errors", "NVLink errors"),
        ("nvlink_errors.replay", "nvlink_errors", "NVLink replays"),
        ("nvlink_errors.receive", "nvlink_errors", "NVLink errors at the receiver"),
        ("nvlink_errors.effective", "nvlink_errors", "NVLink errors behind its error correction"),
    ],
)
def test_a_counter_is_judged_by_its_rise_and_its_budget(sensor: str, budget: str, cause: str) -> None:
    rising = {sensor: (SECONDS, 5000 + np.floor(SECONDS / 10))}  # by 9; what stood before the run is not the run's
    assert causes(rising, **{budget: 8}) == ([cause], [])
    assert causes(rising, **{budget: 9}) == ([], [])
    reset = {sensor: (SECONDS, np.where(SECONDS < 50, 5000 + np.floor(SECONDS / 10), np.floor(SECONDS / 10) - 5))}
    assert causes(reset, **{budget: 7}) == ([cause], [])  # 4 before it was reset, 4 after
    assert causes(reset, **{budget: 8}) == ([], [])


@pytest.mark.parametrize("sensor", ["pcie_errors.fatal", "pcie_errors.nonfatal", "nvlink_errors.recovery", "nvlink_errors.recovery_failed"])
def test_one_of_these_is_one_too_many(sensor: str) -> None:
    assert len(causes({sensor: (SECONDS, np.where(SECONDS < 50, 3.0, 4.0))})[0]) == 1
    assert causes({sensor: (SECONDS, np.full(200, 3.0))}) == ([], [])


def test_what_waits_for_a_reset() -> None:
    for sensor in ("remapped_rows.pending", "retired_pages.pending"):
        assert [len(some) for some in causes({sensor: (SECONDS, np.ones(200))})] == [0, 1]
        assert [len(some) for some in causes({sensor: (SECONDS, (SECONDS > 50) * 1.0)})] == [1, 0]
        assert causes({sensor: (SECONDS, np.zeros(200))}) == ([], [])
    assert causes({"remapped_rows.failure": (SECONDS, np.ones(200))}) == (["memory rows not remapped"], [])


@pytest.mark.parametrize(
    ("name", "text", "value"), [("throttle", "5%", 0.05), ("throttle", "0.05", 0.05), ("slope", "0 %", 0.0), ("ecc_corrected", "10", 10.0)]
)
def test_budgets_as_written(name: str, text: str, value: float) -> None:
    assert work.allowed(name, text, "--allow") == pytest.approx(value)
    assert getattr(Budgets(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("throttel", "5%", "there is no budget 'throttel'; did you mean 'throttle'"),
        ("throttle", "120%", "is a share from 0 to 100%"),
        ("throttle", "much", "is a share from 0 to 100%"),
        ("throttle", "nan", "is a share from 0 to 100%"),
        ("ecc_corrected", "5%", "is a whole number from 0 on"),
        ("ecc_corrected", "-1", "is a whole number from 0 on"),
        ("errors", "1.5", "is a whole number from 0 on"),
        ("errors", "inf", "is a whole number from 0 on"),
    ],
)
def test_budgets_that_are_none(name: str, text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        work.allowed(name, text, "--allow")
    assert says in str(error.value)


def test_every_budget_that_can_be_written_is_judged_by() -> None:
    assert list(stress.Budgets().__dict__) == list(work.ALLOWED)


def test_a_brake_of_the_hardware_claims_no_size_that_was_not_measured() -> None:
    """NVML's text names half the clock or more; what was measured stands beside it and may be a fall of 20 %."""
    brakes = {code: entry["meaning"] for code, entry in catalogue()["throttle"].items() if code.startswith("hardware")}
    assert len(brakes) == 3
    assert not [meaning for meaning in brakes.values() if "hal" in meaning]


def test_what_is_within_its_budget_is_said_by_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    faults = "flip=0.01&ecc_corrected=1@10s&throttle=0.2@1min&reason=hardware_thermal"
    assert main(["stress", "quick", "--for", "3 min", "--target", f"simulated:h200-sxm?{faults}&noise=0.005&seed=3", "--label", "s=all"]) == 1
    capsys.readouterr()
    words = ["stress", "--judge", "s=all", *(f"--allow={one}" for one in ("errors=30", "throttle=100%", "slope=60%", "ecc_corrected=1000"))]
    assert main([*words, "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    within = [each["detail"] for each in device["findings"] if each["title"] == "allowed"]
    wrong = sum(device["errors"].values())
    assert wrong > 0
    assert [text.split(":")[0].split(",")[0] for text in within] == ["wrong results", "corrected memory errors", "throttled", "throughput falls"]
    assert within[0].startswith(f"wrong results: {wrong} (")
    assert main(words) == 0
    last = " ".join(capsys.readouterr().out.split("PASS  ")[-1].split())
    assert "without an error" not in last
    assert named("; ".join(within)) in last


def test_a_run_in_which_nothing_happened_is_without_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    assert main(["stress", "quick", "--for", "1 min", "--target", "simulated:h200-sxm"]) == 0
    assert "did checked work for 1 min without an error" in capsys.readouterr().out
