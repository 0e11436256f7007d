"""Devices of one model against each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from judging import H200, make
from msgspec.structs import replace

from hotlap.core.analysis import rows as tables
from hotlap.core.analysis import verdicts
from hotlap.core.analysis.fleet import AgainstFleet, Latest, peers, survey
from hotlap.core.record import UNNAMED, Case, Finding, Judgement, Machine, Reference
from hotlap.core.show import judgement
from hotlap.core.store import baselines
from hotlap.core.store.bundle import Bundle


def node(number: int, level: float = 1.0, noise: float = 0.004, day: float = 0.0, seed: int = 3) -> Bundle:
    """A run of one device; `level` is what its copies take, the rest take what they always do."""
    rng = np.random.default_rng([seed, number, int(day)])
    seconds = {name: (1e-3 * off * np.exp(rng.normal(0, noise, 8))).tolist() for name, off in (("copy", level), ("gemm", 1.0))}
    return make(seconds, day=day + number / 1000, device=replace(H200, uuid=f"GPU-{number}", pci_address=""))


def judged(runs: Sequence[Bundle], chosen: Sequence[Bundle], min_effect: float = 0.02) -> tuple[list[Judgement], list[Finding]]:
    """Each of the chosen runs against the latest run of each other device, as the command line does it."""
    known, order = baselines.learn("fleet", runs), [one.run.id for one in sorted(runs, key=lambda one: one.run.began)]
    ids = frozenset(one.run.id for one in chosen)
    found: list[tuple[Judgement, list[Finding]]] = []
    for one in chosen:
        standard = AgainstFleet(Latest(known.references, order).by(one.run.id), one.run.machine, min_effect, ids)
        verdict = verdicts.judge(one.run.id, tables.rows(one), standard)
        found.append((verdict, standard.findings(verdict.rows)))
    return [verdict for verdict, _ in found], [one for _, said in found for one in said]


def levels(*off: float, **fields: float) -> list[Bundle]:
    return [node(number, level, **fields) for number, level in enumerate(off)]


@pytest.mark.slow("hundreds of comparisons")
def test_the_slow_device_is_named_with_case_and_size() -> None:
    runs = levels(*[1.0] * 29, 1.05)
    verdict, (found,) = judged(runs, runs)
    assert found.title == "GPU-29 is an outlier in stream copy fp32 1 GiB"
    assert re.match(r"bandwidth -5\.\d % \[-5\.\d %, -4\.\d %\], worse than the others of its model", found.detail)
    assert "GPU-29" in judgement.fleet([found], verdict)
    assert [one.state for one in verdict] == ["pass"] * 29 + ["fail"]


def test_a_healthy_fleet_and_one_too_small_name_nobody() -> None:
    runs = levels(*[1.0] * 30)
    verdict, found = judged(runs, runs[:5])
    assert found == []
    assert "no outliers" in judgement.fleet(found, verdict)
    few = levels(*[1.0] * 3, 2.0)
    verdict, found = judged(few, few)
    assert found == []
    assert "outliers: not enough data" in judgement.fleet(found, verdict)


@pytest.mark.slow("hundreds of comparisons")
def test_old_runs_of_a_device_do_not_dilute_its_latest() -> None:
    """Three healthy runs of eight devices, then one device 5 % slow: the headline and the table say the same of it."""
    old = [run for day in (1, 2, 3) for run in levels(*[1.0] * 8, day=day)]
    new = levels(*[1.0] * 3, 1.05, *[1.0] * 4, day=9)
    verdict, (found,) = judged([*old, *new], new)
    assert found.title == "GPU-3 is an outlier in stream copy fp32 1 GiB"
    assert verdict[3].rows[0].verdict.ratio == pytest.approx(1 / 1.05, rel=0.005)
    assert found.detail.startswith("bandwidth -4.")
    again, found_before = judged([*old, *new], old[:8])
    assert all(one.state == "pass" for n, one in enumerate(again) if n != 3)
    assert [one.severity for one in found_before] == ["info"] * len(found_before)  # the slow device's latest run is not judged


@pytest.mark.slow("hundreds of comparisons")
@pytest.mark.parametrize(("loss", "state"), [(0.018, "inconclusive"), (0.004, "pass")])
def test_nobody_who_is_named_passes_unless_surely_within_the_gate(loss: float, state: str) -> None:
    runs = levels(*[1.0] * 23, 1 + loss, noise=0.001)
    noisy = [node(number, 1.0 + (0.0015 * (-1) ** number) + (loss if number == 23 else 0.0), noise=0.001) for number in range(24)]
    verdict, found = judged(noisy if state == "inconclusive" else runs, noisy if state == "inconclusive" else runs)
    assert verdict[23].rows[0].verdict.state == state
    titles = [one.title for one in found if one.title.startswith("GPU-23")]
    assert titles == [f"GPU-23 is {'an outlier' if state == 'inconclusive' else 'unlike the others'} in stream copy fp32 1 GiB"]
    assert all(one.state == "pass" for one in verdict[:23])


def test_two_groups_are_said_with_the_name_of_the_case_and_nobody_passes() -> None:
    runs = levels(*[1.0] * 30, *[1.06] * 30)
    (verdict,), found = judged(runs, runs[-1:])
    said = [one for one in found if one.title == "cannot be judged"]
    assert [one.detail.startswith("stream copy fp32 1 GiB: two groups of nodes, 30 and 30") for one in said] == [True]
    assert verdict.rows[0].verdict.state == "inconclusive"


@pytest.mark.slow("hundreds of comparisons")
def test_the_worst_device_stands_first() -> None:
    runs = levels(*[1.0] * 28, 1.05, 1.09)
    known = baselines.learn("fleet", runs)
    rows = [row for one in runs for row in tables.rows(one)]
    standard = AgainstFleet(peers(known.references), Machine(host="node1", devices=[one.run.machine.devices[0] for one in runs]))
    text = judgement.judgement(verdicts.judge("r", rows, standard), 120)
    assert text.index("✗ GPU-29") < text.index("✗ GPU-28") < text.index("✓ ")


def test_a_slow_run_or_two_are_no_slow_tail_of_a_device_with_many() -> None:
    """Devices are the same; each run of theirs has a level of its own, and its rounds share it."""
    rng = np.random.default_rng(8)
    case = Case(workload="stream", params={"op": "copy"})
    for _ in range(10):
        runs = {device: {f"{n}": np.exp(rng.normal(0, 0.005) + rng.normal(0, 0.002, 6)).tolist() for n in range(20)} for device in range(60)}
        references = [
            Reference(case=case, device=f"GPU-{device}", model="h200-sxm", target="simulated", unit="B/s", runs=values)
            for device, values in runs.items()
        ]
        assert survey(peers(references)).odd == {}


@pytest.mark.parametrize(("name", "whose"), [("H200", "of its model"), (UNNAMED, "of unknown model")])
def test_devices_count_that_measured_the_case_and_a_model_nobody_gave_is_said(name: str, whose: str) -> None:
    """Seven devices that measured something else are not among those it is worse than."""
    nodes = [imported(number, name, "copy", 1.06 if number == 5 else 1.0) for number in range(12)]
    others = [imported(number, name, "gemm", 1.0) for number in range(20, 27)]
    (verdict,), (found,) = judged([*nodes, *others], nodes[6:7])
    assert found.detail.endswith(f"than 11 other devices {whose}; its latest run, which is not judged here")
    assert f"median of 11 other devices {whose}" in verdict.rows[0].verdict.reason
    (few,), _ = judged(nodes[:3], nodes[:1])
    assert few.rows[0].verdict.reason == f"2 other devices {whose} measured this case; 4 are needed for a fleet"


def imported(number: int, name: str, case: str, level: float) -> Bundle:
    seconds = (1e-3 * level * np.exp(np.random.default_rng([1, number]).normal(0, 0.001, 8))).tolist()
    return make({case: seconds}, day=number / 1000, device=replace(H200, uuid=f"GPU-{number}", pci_address="", machine="", name=name))


def test_the_judged_cases_alone_are_looked_at_and_said_of_as_among_all() -> None:
    """The rate is shared by all cases of the fleet, judged or not."""
    runs = [node(number, 1.03 if number == 5 else 1.0, noise=0.01) for number in range(12)]
    known = peers(baselines.learn("fleet", runs).references)
    case = runs[0].run.plan.cases[0].id
    whole, part = survey(known), survey(known, {case})
    assert part.odd == {where: odd for where, odd in whole.odd.items() if where[2] == case}
    assert [one.cases for one in part.notices] == [one.cases for one in whole.notices if one.cases == [case]]
    assert survey(known, {"none"}).odd == {}
