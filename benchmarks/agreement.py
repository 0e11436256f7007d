"""The same kernel timed by device events, by the wall clock over a long batch, and (CUDA) by replaying a graph.

    python benchmarks/agreement.py [--target opencl] [--json]

The kernel is the FMA chain at several lengths. For each length: seconds per call by each method, and their largest
difference. Then the cost per command: the intercept of batch time against kernel length.
"""

from __future__ import annotations

import argparse
import json
import statistics

import numpy as np

from hotlap.core import work
from hotlap.core.errors import NotSupported
from hotlap.core.measure import targets, workloads
from hotlap.core.record import Case

LENGTHS_S = (20e-6, 100e-6, 1e-3, 10e-3, 30e-3)


def measure(target: targets.Target, operations: float) -> dict[str, float]:
    case = Case(workload="fma", params=work.find("fma").parse({"operations": int(operations)}))
    prepared = workloads.prepare(target, case, 1)
    target.time(prepared.enqueue, 1)
    one = target.time(prepared.enqueue, 1)
    calls = max(1, int(0.1 / max(one.device_s or one.wall_s, 1e-7)))
    rates: dict[str, list[float]] = {"event": [], "wall": [], "graph": []}
    empty = statistics.median(target.time(lambda _: None, 0).wall_s for _ in range(21))
    for _ in range(15):
        timing = target.time(prepared.enqueue, calls)
        rates["wall"].append((timing.wall_s - empty) / calls)
        if timing.device_s is not None:
            rates["event"].append(timing.device_s / calls)
        try:
            graph = target.time(prepared.enqueue, calls, graph=True)
            rates["graph"].append((graph.device_s if graph.device_s is not None else graph.wall_s) / calls)
        except NotSupported:
            pass
    return {name: statistics.median(values) for name, values in rates.items() if values}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spec = targets.parse(options.target)
    target = targets.open_device(spec, targets.find(spec)[0])
    rate = 1e9 / measure(target, 1e9)["wall"]
    rows = []
    for length in LENGTHS_S:
        seconds = measure(target, max(rate * length, 1e6))
        spread = max(seconds.values()) / min(seconds.values()) - 1
        rows.append({"asked_s": length, **seconds, "difference": spread})
    _, intercept = np.polyfit([r["asked_s"] for r in rows[:3]], [r["wall"] for r in rows[:3]], 1)
    if options.json:
        print(json.dumps({"target": spec.text, "device": target.device.name, "rows": rows, "per_command_s": intercept}, indent=1))
        return
    print(f"{target.device.name} through {spec.text}")
    for row in rows:
        methods = "  ".join(f"{name} {row[name] * 1e6:10.2f} µs" for name in ("event", "wall", "graph") if name in row)
        print(f"kernel of {row['asked_s'] * 1e6:8.0f} µs:  {methods}   differ by {row['difference']:.2%}")
    print(f"cost per command (intercept of wall time): {intercept * 1e6:.2f} µs")


if __name__ == "__main__":
    main()
