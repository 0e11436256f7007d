"""Pixels that Mesa's software adapter draws for a second of processor time granted, with a CPU quota and without one, in turns.

    python benchmarks/lavapipe_rate.py [--turns 8] [--seconds 3] [--quota 0.5] [--json]

One process draws through the target webgpu all the time; between turns it is put into a control group with a quota, or out of it (needs
root: a group of cgroup version 1 or 2 is made, and removed at the end). Said are the rate for a processor second of each side, the ratio of
their medians with its 95 % interval over turns, and the share of the processors that the process had: a quota that is not seen there makes
the run worthless. Exit code 0 within 10 %, 1 beyond, 3 where it cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hotlap.core.stats.order import interval

WITHIN, PERIOD_US = 0.10, 100_000
ROOT = Path("/sys/fs/cgroup")
CASE = "fillrate side=512 layers=16"


def child() -> None:
    """For each line of standard input, seconds: draws so long, and says pixels, processor seconds and wall seconds."""
    from hotlap.core.measure import targets, workloads
    from hotlap.core.work import case_of, find

    spec = targets.parse("webgpu:cpu")
    target = targets.open_device(spec, targets.find(spec)[0])
    case = case_of(CASE)
    pixels, prepared = find(case.workload).work(case.params).steps, workloads.prepare(target, case, 1)
    target.time(prepared.enqueue, 2)
    print("ready", flush=True)
    for line in sys.stdin:
        calls, began_s, cpu_s = 0, time.monotonic(), time.process_time()
        while time.monotonic() - began_s < float(line):
            target.time(prepared.enqueue, 4)
            calls += 4
        took = {"pixels": pixels * calls, "cpu_s": time.process_time() - cpu_s, "wall_s": time.monotonic() - began_s}
        print(json.dumps(took | {"right": bool(prepared.check().passed)}), flush=True)


class Group:
    """A control group with a quota. Raises OSError where none can be made."""

    def __init__(self, share: float) -> None:
        second = (ROOT / "cgroup.controllers").exists()
        self.outer = ROOT if second else ROOT / "cpu"
        self.path = self.outer / f"hotlap-rate-{os.getpid()}"
        if second:
            (ROOT / "cgroup.subtree_control").write_text("+cpu")
        self.path.mkdir()
        quota = int(share * PERIOD_US)
        if second:
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self.path / "cpu.cfs_quota_us").write_text(str(quota))

    def put(self, pid: int, inside: bool) -> None:
        (self.path if inside else self.outer).joinpath("cgroup.procs").write_text(str(pid))


def turns(count: int, seconds: float, group: Group) -> dict[str, list[dict[str, Any]]]:
    """The numbers of each turn by side, free and quota, which take turns; which of them is first alternates."""
    measured: dict[str, list[dict[str, Any]]] = {"free": [], "quota": []}
    command = [sys.executable, __file__, "--child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the target webgpu has no software adapter here")
        for number in range(count):
            for side in ("free", "quota") if number % 2 == 0 else ("quota", "free"):
                group.put(process.pid, side == "quota")
                process.stdin.write(f"{seconds}\n")
                process.stdin.flush()
                measured[side].append(json.loads(process.stdout.readline()))
        group.put(process.pid, False)
        process.stdin.close()
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description="lavapipe's rate for a second of processor time, with and without a quota")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quota", type=float, default=0.5, help="processors")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child()
        return 0
    try:
        group = Group(args.quota)
    except OSError as error:
        print(f"not run, because no control group can be made here: {error}")
        return 3
    try:
        measured = turns(args.turns, args.seconds, group)
    except RuntimeError as error:
        print(f"not run, because {error}")
        return 3
    finally:
        group.path.rmdir()
    rates = {side: [one["pixels"] / one["cpu_s"] for one in many] for side, many in measured.items()}
    ratios = [b / a for a, b in zip(rates["free"], rates["quota"], strict=True)]
    medians = {side: statistics.median(many) for side, many in rates.items()}
    row = {
        "free_pixels_per_cpu_s": medians["free"], "quota_pixels_per_cpu_s": medians["quota"], "ratio": medians["quota"] / medians["free"],
        "interval": list(interval(ratios) or ()), "right": all(one["right"] for many in measured.values() for one in many),
        **{f"{side}_processors": statistics.median(one["cpu_s"] / one["wall_s"] for one in many) for side, many in measured.items()},
    }  # fmt: skip
    if args.json:
        print(json.dumps(row))
    else:
        for side in ("free", "quota"):
            print(f"{side:<6} {medians[side] / 1e6:7.1f} Mpixel per processor second, on {row[f'{side}_processors']:.2f} processors")
        low, high, level = row["interval"] or (float("nan"),) * 3
        print(f"ratio  {row['ratio']:.3f}, turn by turn {low:.3f} to {high:.3f} ({level:.0%}); pictures right: {row['right']}")
    return 0 if abs(row["ratio"] - 1) <= WITHIN and row["right"] else 1


if __name__ == "__main__":
    sys.exit(main())
