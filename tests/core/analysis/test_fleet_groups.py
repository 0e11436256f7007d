"""A node whose devices are bad is one line; pages say when, with what and which device; several runs fold to one screen."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from hotlap.cli.show import _many
from hotlap.core.analysis import fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.fleet_groups import groups
from hotlap.core.record import Baseline, Case, Device, Machine, Plan, Reference, RunRecord, Samples
from hotlap.core.show import fleet as shown
from hotlap.core.show import fleet_page, listing, text
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import program

CASES: list[Case] = [program.IMPORTED.case({"name": name, "unit": "B/s", "better": "higher"}) for name in ("one", "two", "three")]


def nodes(slow: dict[str, int], hosts: int = 12, each: int = 8) -> list[Bundle]:
    """Runs of `each` devices; of a host in `slow` so many are 5 % slower."""
    source, runs = np.random.default_rng(4), list[Bundle]()
    for host in (f"node{n:03}" for n in range(hosts)):
        devices = [Device(target="t", index=n, name="H200", kind="gpu", uuid=f"GPU-{host}-{n}", serial=f"SN-{host}-{n}", driver="550.54") for n in range(each)]
        samples = [
            Samples(case=case.id, device=device.key, round=k, values=[float(v)])
            for device in devices for case in CASES
            for k, v in enumerate(100 * np.exp(source.normal(0, 0.001, 6)) * (0.95 if device.index < slow.get(host, 0) else 1))
        ]  # fmt: skip
        run = RunRecord(
            id=f"run-{host}", began="2026-11-01T10:20:30.000", ended="2026-11-01T10:25:30.000", kind="imported", hotlap="0.2.0", target="t",
            plan=Plan(name="p", cases=CASES), machine=Machine(host=host, devices=devices), devices=[device.key for device in devices],
        )
        runs.append(Bundle(run, Path(run.id), samples))
    return runs


def test_devices_of_a_host_that_is_mostly_bad_are_one_line() -> None:
    judged = fleets.judge(nodes({"node003": 8, "node005": 5, "node007": 3}))
    found = groups(judged)
    assert sorted((group.first.host, len(group.devices), group.of) for group in found) == [
        ("node003", 8, 8), ("node005", 5, 8), ("node007", 1, 1), ("node007", 1, 1), ("node007", 1, 1),
    ]  # fmt: skip
    assert len(judged.named) == 16  # of JSON
    printed = shown.verdict(judged, 120)
    assert sum("node003: all 8 devices" in line and "-5.0 %" in line for line in printed.splitlines()) == 1
    assert "node005: 5 of 8 devices" in printed
    assert "more; --json" not in printed
    assert shown.called(judged)["node003", "GPU-node003-0"].startswith("node003 ")


def test_one_host_does_not_stand_for_its_own_devices() -> None:
    (run,) = nodes({"node000": 2}, hosts=1, each=16)
    assert [group.of for group in groups(fleets.judge([run]))] == [1, 1]


def test_the_page_says_when_with_what_and_which() -> None:
    first, *rest = nodes({"node003": 1})
    later = structs.replace(first.run, began="2026-11-02T01:00:00.000", hotlap="0.3.0")
    page = fleet_page.page_of(fleets.judge([Bundle(later, first.path, first.samples), *rest]))
    assert "measured 2026-11-01 10:20 to 2026-11-02 01:00 UTC; driver 550.54; Hotlap 0.2.0 and 0.3.0" in page
    above = page.split('id="ranking"')[0]
    assert "SN-node003-0" in above
    assert "SN-node004-0" not in above


def test_both_ends_of_what_is_named_are_one_figure_where_they_round_alike() -> None:
    judged = fleets.judge(nodes({}))
    ends = iter([0.009996, 0.0100004, 0.010])
    cases = [fleets.FleetCase(**{**vars(case), "reach": next(ends)}) for case in judged.cases]
    (first, *_) = shown.sure(fleets.FleetVerdict(**{**vars(judged), "cases": cases}))
    assert "or 1.0 % slower in one" in first


def test_many_runs_are_one_screen() -> None:
    pairs = [(run, tables.rows(run)) for run in nodes({"node003": 8})]
    printed = text.fleet_of_runs(pairs, 100)
    assert len(printed.splitlines()) <= 24
    assert printed.startswith("96 devices (H200), 3 cases, 6 rounds each; 12 runs")
    for word in ("node003: all 8 devices", "min", "median", "max", "3 cases on 96 devices, each number by itself: 288 measured"):
        assert word in printed


def test_a_name_has_room_before_what_matters_less() -> None:
    pairs = [(run, tables.rows(run)) for run in nodes({"node003": 8})]
    judged = fleets.of_runs(pairs)
    assert ("95 %" in "".join(shown.folded(judged, 100, False)[:3]), "noise" in "".join(shown.folded(judged, 100, False))) == (True, True)
    long = fleets.FleetVerdict(**{**vars(judged), "cases": [fleets.FleetCase(**{**vars(one), "label": "a long name of a case " * 2}) for one in judged.cases]})
    (head,) = [line for line in shown.folded(long, 100, False) if line.startswith("case")]
    assert "noise" not in head
    assert "outliers" in head


def test_a_baseline_of_many_devices_is_a_line_per_case() -> None:
    case = Case(workload="stream", params={"op": "triad", "size": 2**20})
    refs = [Reference(case=case, device=f"d{n}", target="cuda", model="h200-sxm", unit="B/s", runs={"r": [1e12 + n * 1e10]}) for n in range(12)]
    printed = listing.baseline(Baseline(name="b", saved="2026-11-25T01:00:00", hotlap="0.2.0", references=refs))
    assert re.search(r"stream triad .* cuda h200-sxm +12 +1\.00 TB/s +1\.11 TB/s +1 ", printed)
    assert printed.count("stream triad") == 1
    few = listing.baseline(Baseline(name="b", saved="2026-11-25T01:00:00", hotlap="0.2.0", references=refs[:3]))
    assert few.count("stream triad") == 3
    assert "3 of 3 have fewer than 4 runs, which say little of how runs differ; add runs with --add" in " ".join(few.split())
    single = listing.baseline(Baseline(name="b", saved="2026-11-25T01:00:00", hotlap="0.2.0", references=refs[:1]))
    assert "it has fewer than 4 runs, which say little" in single


def test_the_commands_of_the_hints_name_what_was_asked_for() -> None:
    pairs = [(run, tables.rows(run)) for run in nodes({"node003": 8})]
    printed = text.explained_fleet(pairs, 100, asked="rack=a rack=b")
    assert re.search(r"more numbers: hotlap explain rack=a rack=b --device \S+\neach of them: hotlap explain rack=a rack=b --all$", printed)
    assert "explain RUN" not in printed


@pytest.mark.parametrize(("hosts", "many"), [(1, False), (12, True)])
def test_show_of_runs_folds_above_eight_devices(hosts: int, many: bool) -> None:
    assert _many([(run, tables.rows(run)) for run in nodes({}, hosts)]) == many
