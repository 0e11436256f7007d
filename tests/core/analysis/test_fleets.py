"""Many devices judged at once: the slow ones named, a healthy fleet left alone, what cannot be judged said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from hotlap.cli import main
from hotlap.core.analysis import fleets
from hotlap.core.record import Case, Device, Machine, Plan, RunRecord, Samples, Stop
from hotlap.core.show import fleet as shown
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import program

Capture = pytest.CaptureFixture[str]


def drawn(seed: int, nodes: int = 60, cases: int = 8, rounds: int = 3) -> np.ndarray:
    """Nodes × cases × rounds, 1 % between nodes for each case and 1 % between rounds."""
    source = np.random.default_rng(seed)
    return np.asarray(100 * np.exp(source.normal(0, 0.01, (nodes, cases, 1)) + source.normal(0, 0.01, (nodes, cases, rounds))))


def bundles(values: np.ndarray, missing: dict[int, int] | None = None) -> list[Bundle]:
    """A run per node; `missing`: node → a case that it could not run."""
    cases: list[Case] = [program.IMPORTED.case({"name": f"case{c}", "unit": "B/s", "better": "higher"}) for c in range(values.shape[1])]
    device = Device(target="imported", index=0, name="H200", kind="other")
    made = []
    for node, own in enumerate(values):
        run = RunRecord(
            id=f"run{node}", began=f"2026-11-01T00:00:{node % 60:02}", kind="imported", hotlap="0", plan=Plan(name="p", cases=cases), target="imported",
            machine=Machine(host=f"node{node:03}", devices=[device]), devices=[device.key], labels={"rack": f"r{node // 10}"},
        )  # fmt: skip
        samples = [
            Samples(case=case.id, device=device.key, round=k, status="not_run", reason="no memory") if (missing or {}).get(node) == c
            else Samples(case=case.id, device=device.key, round=k, values=[float(value)])
            for c, case in enumerate(cases) for k, value in enumerate(own[c])
        ]  # fmt: skip
        made.append(Bundle(run, Path(f"run{node}"), samples))
    return made


def test_who_is_slower_in_all_cases_or_in_one_is_named_and_nobody_else() -> None:
    values = drawn(8)
    values[[7, 33]] *= 0.95
    values[41, 3] *= 0.85
    found = fleets.judge(bundles(values))
    assert sorted((one.host, one.state, one.code) for one in found.devices[:3]) == [
        ("node007", "fail", "slow"), ("node033", "fail", "slow"), ("node041", "fail", "slow_case"),
    ]  # fmt: skip
    assert len(found.named) == 3
    assert (found.state, found.exit_code, found.counts["pass"], found.rounds, found.runs) == ("fail", 1, 57, 3, 60)
    assert found.devices[0].level == pytest.approx(-0.05, abs=0.015)
    assert [case.label for case in found.devices[2].off] == ["case3"]
    assert found.devices[2].off[0].size == pytest.approx(-0.15, abs=0.03)
    assert found.devices[2].labels == {"rack": "r4"}


def test_a_healthy_fleet_passes_in_nearly_every_draw() -> None:
    states = [fleets.judge(bundles(drawn(seed, 40, 6))).state for seed in range(100, 120)]
    assert states.count("pass") >= 19


def test_a_loss_below_the_gate_is_named_and_passes() -> None:
    source = np.random.default_rng(5)
    values = 100 * np.exp(source.normal(0, 0.0005, (60, 8, 3)))
    values[5] *= 0.99
    found = fleets.judge(bundles(values))
    assert [(one.host, one.state, one.code) for one in found.named] == [("node005", "pass", "slight")]
    assert found.exit_code == 0


def test_of_a_device_measured_twice_the_last_run_counts_and_the_verdict_says_so() -> None:
    first, second = bundles(drawn(7, 20)), bundles(drawn(8, 20))
    again = [Bundle(structs.replace(one.run, id=f"{one.run.id}-again"), one.path, one.samples) for one in second]
    assert shown.counted_runs(fleets.judge([*first, *again])) == "20 of 40 runs (the last of each device)"
    assert shown.counted_runs(fleets.judge(first)) == "20 runs"


def test_two_groups_of_few_devices_and_missing_cases_are_inconclusive() -> None:
    values = drawn(2)
    values[:30] *= 0.9
    halves = fleets.judge(bundles(values))
    assert (halves.state, halves.exit_code) == ("inconclusive", 3)
    assert {notice.code for case in halves.cases for notice in case.notices} >= {"two_groups"}
    few = fleets.judge(bundles(drawn(3, 4)))
    assert (few.state, few.reach) == ("inconclusive", {"H200": None})
    lacking = fleets.judge(bundles(drawn(4), {9: 2}))
    assert [(one.host, one.state, one.code) for one in lacking.named] == [("node009", "inconclusive", "missing")]


@pytest.fixture
def fleet_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """500 nodes from a CSV, three of them 5 % slower; columns under names of their own."""
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    values = drawn(6, 500, 4)
    values[[11, 222, 333]] *= 0.95
    rows = [f"2026-11-01,n{n:03},H200,SN{n:05},R{n // 32:02},bench{c},{v:.5f},GB/s" for n, own in enumerate(values) for c, case in enumerate(own) for v in case]
    path = tmp_path / "fleet.csv"
    path.write_text("\n".join(["when,box,sku,sn,cabinet,case,value,unit", *rows]) + "\n")
    return path


@pytest.mark.slow("a fleet of 500 nodes through every verb")
def test_a_fleet_from_a_csv_is_judged_on_a_screen_and_a_page(fleet_csv: Path, capsys: Capture) -> None:
    columns = ["--time", "when", "--host", "box", "--model", "sku", "--serial", "sn", "--rack", "cabinet"]
    assert main(["import", str(fleet_csv), *columns]) == 0
    capsys.readouterr()
    page = fleet_csv.with_name("page.html")
    assert main(["gate", "2026-11-01", "--against", "fleet", "--out", str(page)]) == 1
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 30
    assert [name for name in ("n011", "n222", "n333") if f"✗ {name}" in out] == ["n011", "n222", "n333"]
    assert "FAIL  500 runs against fleet: of 500 devices 3 fail, 497 pass" in out
    text = page.read_text()
    assert text.index("3 devices slower than the others") < text.index("Cases over all devices") < text.index("Ranking over all cases")
    assert main(["gate", "2026-11-01", "--against", "fleet", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["exit_code"], len(document["runs"])) == ("fail", 1, 500)
    assert {case["host"] for case in document["cases"] if case["state"] == "fail"} == {"n011", "n222", "n333"}
    assert {device["host"] for device in document["devices"][:3]} == {"n011", "n222", "n333"}
    assert main(["gate", "2026-11-01", "--against", "fleet", "--json=2"]) == 1
    former = json.loads(capsys.readouterr().out)
    assert (former["verdict"], former["runs"], len(former["cases"])) == ("fail", 500, 4)
    assert main(["compare", "rack=R00", "rack=R01", "--force"]) in (0, 1, 3)
    assert main(["history", "rack=R00"]) == 0
    assert main(["baseline", "save", "rack=R00", "--name", "rack0"]) == 0
    assert main(["gate", "rack=R00", "--against", "baseline:rack0"]) in (0, 1, 3)


def test_simulated_devices_have_no_numbers_of_their_own_and_are_counted_apart_from_their_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    plan = tmp_path / "p.toml"
    plan.write_text('[[case]]\nworkload = "stream"\nsize = "1 GiB"\n')
    assert main(["run", str(plan), "--target", "simulated:h200-sxm?count=12&slow=0.05@3", "--device", "all", "--rounds", "3", "--no-report"]) in (0, 3)
    out = capsys.readouterr().out
    assert "\n1 case on 12 devices, each number by itself: 12 inconclusive\n" in out
    assert "all 12 results: 3 of the 6 rounds" in out
    page = tmp_path / "page.html"
    assert main(["report", "latest", "--out", str(page)]) == 0
    text = page.read_text()
    assert "What stands out" in text
    assert "Serial number or UUID" not in text
    assert "-0.00 %" not in text


def test_one_model_for_a_whole_file_and_uuids_only_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hotlap.core.store import select

    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    real = "GPU-3d7e4e10-0a5b-4a4e-9f3c-0123456789ab"
    for number, (name, keys) in enumerate({"GPU-1": "imported:0:H200", "H200": "imported:0:H200", real: real}.items()):
        path = tmp_path / f"{number}.csv"
        path.write_text(f"time,case,value,unit,gpu\n2026-01-0{number + 1},a,1,GB/s,{name}\n")
        assert main(["import", str(path), "--model", "H200"]) == 0
        run = list(select.every(tmp_path / "home"))[-1].run
        assert ([device.key for device in run.machine.devices], run.machine.devices[0].model) == ([keys], "H200")


def test_a_device_slow_in_one_case_of_three_is_not_slower_in_all_and_the_case_is_said() -> None:
    source = np.random.default_rng(3)
    values = 100 * np.exp(source.normal(0, 0.005, (200, 3, 1)) + source.normal(0, 0.001, (200, 3, 3)))
    values[99, 1] *= 0.9
    values[17] *= 0.95
    found = fleets.judge(bundles(values))
    by_host = {one.host: one for one in found.devices}
    lone, whole = by_host["node099"], by_host["node017"]
    assert lone.level is not None
    assert lone.low is not None
    assert lone.high is not None
    assert (lone.code, [case.label for case in lone.off], shown.why(lone)) == ("slow_case", ["case1"], "slower in case1")
    assert (whole.code, shown.why(whole)) == ("slow", "slower in all")
    assert "slower in case1" in shown.verdict(found, 120)


def test_an_interrupted_run_says_how_many_of_its_devices_have_numbers_and_how_it_goes_on() -> None:
    """Devices that were not reached, and one with fewer rounds, are not taken for whole ones."""
    cases = [program.IMPORTED.case({"name": f"case{c}", "unit": "B/s", "better": "higher"}) for c in range(3)]
    devices = [Device(target="t", index=n, name="H200", kind="gpu", uuid=f"GPU-{n:02}") for n in range(12)]
    run = RunRecord(
        id="run1", began="2026-11-01T00:00:00", ended="2026-11-01T00:09:00", kind="imported", hotlap="0", plan=Plan(name="p", cases=cases), target="t",
        machine=Machine(host="one", devices=devices), devices=[one.key for one in devices], stops=[Stop("interrupted")],
    )  # fmt: skip
    source = np.random.default_rng(3)
    samples = [
        Samples(case=case.id, device=one.key, round=k, values=[float(100 * np.exp(source.normal(0, 0.001)))])
        for one in devices[:10] for case in cases for k in range(3 if one.index < 9 else 2)
    ]  # fmt: skip
    judged = fleets.judge([Bundle(run, Path("run1"), samples)])
    printed = shown.verdict(judged, 120)
    assert printed.startswith("10 of 12 devices measured (H200), 3 cases, up to 3 rounds each")
    assert "the run was interrupted; hotlap run --resume run1 measures the rest" in printed
    assert [one.missing for one in judged.devices if one.missing] == [["no case was measured"]] * 2
    assert printed.count("no case was measured") >= 1
    whole = structs.replace(run, stops=[Stop("rounds_max")])
    assert "interrupted" not in shown.verdict(fleets.judge([Bundle(whole, Path("run1"), samples)]), 120)


def test_a_table_with_an_end_far_off_says_what_differ_leaves_out() -> None:
    values = np.full((12, 2, 6), 100.0) * np.exp(np.random.default_rng(5).normal(0, 0.0005, (12, 2, 6)))
    assert "differ: " not in shown.verdict(fleets.judge(bundles(values)), 200)
    values[3] *= 0.95
    assert "differ: by how much healthy devices differ, without the noise of measuring; min and max include noise and outliers" in shown.verdict(fleets.judge(bundles(values)), 200)


def test_a_legend_of_steady_cases_needs_one() -> None:
    values = np.full((12, 2, 6), 100.0) * np.exp(np.random.default_rng(5).normal(0, 0.0005, (12, 2, 6)))
    assert shown.has_steady_cases(fleets.judge(bundles(values)))
    values[3] *= 0.95
    assert not shown.has_steady_cases(fleets.judge(bundles(values)))


def test_of_one_value_a_device_differ_holds_noise_and_says_so() -> None:
    values = np.full((12, 2, 1), 100.0) * np.exp(np.random.default_rng(5).normal(0, 0.002, (12, 2, 1)))
    judged = fleets.judge(bundles(values))
    assert [case.noise for case in judged.cases] == [None, None]
    assert "outliers left out; with one value a device this includes their noise" in shown.verdict(judged, 200)
