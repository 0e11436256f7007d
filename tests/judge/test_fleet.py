"""Devices of one model against each other."""

from __future__ import annotations

import numpy as np
from judging import H200, make
from msgspec.structs import replace

from hotlap.judge.fleet import findings
from hotlap.record import Baseline, Case, Finding, Reference
from hotlap.report import judgement
from hotlap.store import baselines

CASE = Case(workload="stream", params={"op": "copy"})


def fleet_of(levels: list[float], seed: int = 3) -> list[Finding]:
    rng = np.random.default_rng(seed)
    runs = [
        make({"copy": (1e-3 * level * np.exp(rng.normal(0, 0.004, 8))).tolist(), "gemm": (1e-3 * np.exp(rng.normal(0, 0.004, 8))).tolist()},
             day=n, device=replace(H200, uuid=f"GPU-{n}"))
        for n, level in enumerate(levels)
    ]
    return findings(baselines.learn("fleet", runs))


def test_the_slow_device_is_named_with_case_and_size() -> None:
    (found,) = fleet_of([1.0] * 29 + [1.05])
    assert found.title == "GPU-29 is off in stream copy fp32 1 GiB"
    assert "worse than 30 devices of its model" in found.detail
    assert "GPU-29" in judgement.fleet([found])


def test_a_healthy_fleet_and_one_too_small_name_nobody() -> None:
    assert fleet_of([1.0] * 30) == []
    assert fleet_of([1.0] * 3 + [2.0]) == []
    assert "nobody is off" in judgement.fleet([])


def test_two_groups_are_said_with_the_name_of_the_case() -> None:
    (found,) = fleet_of([1.0] * 30 + [1.06] * 30)
    assert (found.title, found.detail.startswith("stream copy fp32 1 GiB: two groups of nodes, 30 and 30")) == ("cannot be judged", True)


def test_a_slow_run_or_two_are_no_slow_tail_of_a_device_with_many() -> None:
    """Devices are the same; each run of theirs has a level of its own, and its rounds share it."""
    rng = np.random.default_rng(8)
    named = []
    for _ in range(10):
        runs = {device: {f"{n}": np.exp(rng.normal(0, 0.005) + rng.normal(0, 0.002, 6)).tolist() for n in range(20)} for device in range(60)}
        references = [
            Reference(case=CASE, device=f"GPU-{device}", model="h200-sxm", target="simulated", unit="B/s", runs=values)
            for device, values in runs.items()
        ]
        named += findings(Baseline(name="fleet", saved="", hotlap="", references=references))
    assert named == []
