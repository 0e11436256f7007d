"""Pixels that Mesa's software adapter draws for a second of processor time granted, with a CPU quota and without one, in turns.

    python benchmarks/lavapipe_rate.py [--turns 40] [--seconds 0.75] [--quota 0.5] [--json]

One process draws through the target webgpu all the time; between turns it is put into a control group with a quota, or out of it (needs
root: a group of cgroup version 1 or 2 is made, and removed at the end). A turn is free, quota, quota, free, or the other way round, so that
what drifts on the machine cancels within it. Said are the rate for a processor second of each side, the median of the turns' ratios and its
95 % interval, and the share of the processors that the process had: a quota that is not seen there makes the run worthless. Exit code 0
where the whole interval lies within 10 %, 1 where the median lies beyond or a picture is wrong, 3 where that is not decided or cannot run.
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


SIDES = ("free", "quota")


def turns(count: int, seconds: float, group: Group) -> list[dict[str, list[dict[str, Any]]]]:
    """The numbers of each turn by side, twice each; which of them is outside alternates."""
    measured: list[dict[str, list[dict[str, Any]]]] = []
    command = [sys.executable, __file__, "--child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the target webgpu has no software adapter here")
        for number in range(count):
            outside, inside = SIDES if number % 2 == 0 else SIDES[::-1]
            measured.append({side: [] for side in SIDES})
            for side in (outside, inside, inside, outside):
                group.put(process.pid, side == "quota")
                process.stdin.write(f"{seconds}\n")
                process.stdin.flush()
                measured[-1][side].append(json.loads(process.stdout.readline()))
        group.put(process.pid, False)
        process.stdin.close()
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description="lavapipe's rate for a second of processor time, with and without a quota")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.75, help="of each of a turn's four parts")
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
    row = judged(measured)
    if args.json:
        print(json.dumps(row))
    else:
        for side in SIDES:
            rate, had = row[f"{side}_pixels_per_cpu_s"] / 1e6, row[f"{side}_processors"]
            print(f"{side:<6} {rate:7.1f} Mpixel per processor second, on {had:.2f} processors")
        low, high, level = row["interval"] or (float("nan"),) * 3
        print(f"ratio  {row['ratio']:.3f}, {low:.3f} to {high:.3f} ({level:.0%} interval of the median of {args.turns} turns)")
        print(f"pictures right: {row['right']}")
    if abs(row["ratio"] - 1) > WITHIN or not row["right"]:
        return 1
    return 0 if row["interval"] and all(abs(bound - 1) <= WITHIN for bound in row["interval"][:2]) else 3


def _sum(parts: list[dict[str, Any]], name: str) -> float:
    return float(sum(one[name] for one in parts))


def judged(measured: list[dict[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """Rates by side, and the ratio within each turn: pixels and processor seconds of both parts of a side together."""
    rates = {side: [_sum(turn[side], "pixels") / _sum(turn[side], "cpu_s") for turn in measured] for side in SIDES}
    ratios = [quota / free for free, quota in zip(rates["free"], rates["quota"], strict=True)]
    parts = {side: [one for turn in measured for one in turn[side]] for side in SIDES}
    return {
        "ratio": statistics.median(ratios), "interval": list(interval(ratios) or ()), "ratios": ratios,
        "right": all(one["right"] for many in parts.values() for one in many),
        **{f"{side}_pixels_per_cpu_s": statistics.median(rates[side]) for side in SIDES},
        **{f"{side}_processors": statistics.median(one["cpu_s"] / one["wall_s"] for one in parts[side]) for side in SIDES},
    }


if __name__ == "__main__":
    sys.exit(main())
