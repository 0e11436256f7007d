"""Runs and samples as the store sees them, with small, real cases."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from hotlap.core import plan
from hotlap.core.record import Case, Device, Machine, Plan, RunRecord, Samples

DEVICE = Device(target="simulated", index=0, name="Model GPU", kind="gpu", uuid="GPU-1111", machine="h200-sxm")
CASES = [
    plan.case("stream", {"op": "copy", "size": "1 MiB"}),
    plan.case("gemm", {"dtype": "bf16", "m": 512, "n": 512, "k": 512}),
]


def pack(path: Path, out: Path) -> Path:
    """A zip of a bundle's files in a folder named by its run, as users make it."""
    with zipfile.ZipFile(out / f"{path.name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path.iterdir()):
            archive.write(file, f"{path.name}/{file.name}")
    return out / f"{path.name}.zip"


def make_run(id: str = "20261121T101500-aaaaaa", **changes: Any) -> RunRecord:
    given = {
        "began": "2026-11-21T10:15:00+00:00", "hotlap": "0.1.0", "plan": Plan(name="two", cases=CASES),
        "machine": Machine(host="node7", devices=[DEVICE]), "target": "simulated:h200-sxm?seed=1", "devices": [DEVICE.key],
    }
    return RunRecord(id=id, **{**given, **changes})


def make_samples(round: int = 0, case: Case = CASES[0], **changes: Any) -> Samples:
    return Samples(**{"case": case.id, "device": DEVICE.key, "round": round, "values": [1e-3, 2e-3, 3e-3], **changes})
