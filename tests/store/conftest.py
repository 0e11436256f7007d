"""Runs and samples as the store sees them, with small, real cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotlap import plan
from hotlap.record import Case, Device, Machine, Plan, Readings, Run, Samples
from hotlap.store.bundle import Bundle, Writer, load

DEVICE = Device(target="simulated", index=0, name="Model GPU", kind="gpu", uuid="GPU-1111", machine="h200-sxm")
CASES = [
    plan.case("stream", {"op": "triad", "size": "1 MiB"}),
    plan.case("gemm", {"dtype": "bf16", "m": 512, "n": 512, "k": 512}),
]


def make_run(id: str = "20261121T101500-aaaaaa", **changes: Any) -> Run:
    given = {
        "began": "2026-11-21T10:15:00+00:00", "hotlap": "0.1.0", "plan": Plan(name="two", cases=CASES),
        "machine": Machine(host="node7", devices=[DEVICE]), "target": "simulated:h200-sxm?seed=1", "devices": [DEVICE.key],
    }
    return Run(id=id, **{**given, **changes})


def make_samples(round: int = 0, case: Case = CASES[0], **changes: Any) -> Samples:
    return Samples(**{"case": case.id, "device": DEVICE.key, "round": round, "seconds": [1e-3, 2e-3, 3e-3], **changes})


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., Bundle]:
    """Keeps a run of two cases and one or more rounds in the test's home, and reads it back."""

    def keep(id: str = "20261121T101500-aaaaaa", rounds: int = 1, **changes: Any) -> Bundle:
        run = make_run(id, **changes)
        writer = Writer.create(run, tmp_path)
        for number in range(rounds):
            for case in CASES:
                writer.append(make_samples(number, case))
            writer.readings([Readings(sensor="power_w", device=DEVICE.key, times_s=[1.0], values=[300.0], round=number)])
        writer.finish(run)
        return load(writer.path)

    return keep
