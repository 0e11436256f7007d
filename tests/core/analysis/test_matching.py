"""What counts as a replicate where sides have several devices."""

from __future__ import annotations

from judging import H200, make
from msgspec.structs import replace

from hotlap.core.analysis import matching
from hotlap.core.analysis.compare import compare
from hotlap.core.show import comparison
from hotlap.core.store.bundle import Bundle

LEVELS = [1e-3, 1.001e-3, 0.999e-3, 1.002e-3, 0.998e-3, 1.0e-3]


def _one_run(name: str, day: float) -> Bundle:
    """Six devices in one run."""
    devices = [replace(H200, uuid=f"GPU-{name}{n}", index=n) for n in range(6)]
    parts = [make({"copy": [s * level / 1e-3 for s in LEVELS]}, day=day, device=d) for d, level in zip(devices, LEVELS, strict=True)]
    run = replace(parts[0].run, devices=[d.key for d in devices], machine=replace(parts[0].run.machine, devices=devices))
    return Bundle(run, parts[0].path, [line for part in parts for line in part.samples])


def test_other_devices_of_one_run_are_no_runs() -> None:
    """One run a side, of devices that the other side has not: what a run does to all of them alike is not in the interval, and is said."""
    (found,) = compare([_one_run("a", 0)], [_one_run("b", 1)])
    assert (found.replicates, found.n_a, found.n_b) == (matching.OF_RUNS, 6, 6)
    said = " ".join(comparison.comparison([found], width=200).split())
    assert "replicates are the devices of each run: what a run does to all of them alike is not in the intervals" in said
    assert "estimated from each device of each run" in said
    assert "whole runs" not in said


def test_runs_of_one_device_each_are_runs() -> None:
    sides = [{(f"run {side}{n}", f"GPU-{side}{n}"): (1.0, 1.1) for n in range(4)} for side in "ab"]
    assert matching.replicates(*sides).kind == "runs"
    assert matching.replicates({("run a", device): values for (_, device), values in sides[0].items()}, sides[1]).kind == matching.OF_RUNS
