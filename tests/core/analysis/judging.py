"""Runs of known values, without a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hotlap.core.record import Case, Device, Machine, Plan, RunRecord, Samples, Stop
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import find

COPY = Case(workload="stream", params=find("stream").parse({"op": "copy", "size": "1 GiB"}))
GEMM = Case(workload="gemm", params=find("gemm").parse({"dtype": "bf16"}))
CHASE = Case(workload="chase", params=find("chase").parse({"size": "1 MiB"}))
ATOMIC = Case(workload="atomic", params=find("atomic").parse({"contention": "same"}))
NAMED = {"copy": COPY, "gemm": GEMM, "chase": CHASE, "atomic": ATOMIC}
H200 = Device(
    target="simulated", index=0, name="H200", kind="gpu", uuid="GPU-0", machine="h200-sxm", driver="550.54", pci_address="0000:3b:00.0",
)
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def make(
    cases: Mapping[str, Sequence[float]], day: float = 0, device: Device = H200, labels: Mapping[str, str] = {}, clocks_hz: Sequence[float] = (),
    schema: int = 1, **machine: Any,
) -> Bundle:
    """One run: seconds per call of each round, by the name of a case."""
    began = (BEGAN + timedelta(days=day)).isoformat(timespec="milliseconds")
    samples = [
        Samples(case=NAMED[name].id, device=device.key, round=n, values=[s] * 3, method="event-batch", clocks_hz=list(clocks_hz))
        for name, seconds in cases.items() for n, s in enumerate(seconds)
    ]
    run = RunRecord(
        id=f"{day:08.3f}-{device.key}-{'-'.join(labels.values())}", schema=schema, began=began, ended=began, stops=[Stop("rounds_max")], hotlap="0.1.0",
        plan=Plan(name="test", cases=[NAMED[name] for name in cases]), target=device.target, devices=[device.key], labels=dict(labels),
        machine=Machine(**{"host": "node1", "devices": [device], **machine}),
    )
    return Bundle(run, Path("nowhere"), samples)
