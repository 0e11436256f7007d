"""Coverage of many cases: by weight, t-way, regions and directed cases of a plan with 100,000 cases.

    python benchmarks/coverage.py [--cases 100000] [--strength 2] [--json]

The cases are drawn at random from what networks use: products, attention, row-wise and pointwise kernels. Weights are those of all
networks; the time that the model needs for them is told apart, since it depends on the networks and not on the plan.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from hotlap.core import record, work
from hotlap.core.record import Case
from hotlap.kernels.coverage import boundary, measure, usage
from hotlap.kernels.coverage.regions import RegionRoof

ROOF = RegionRoof("h200-sxm", 4.8e12, 50e6, 3e-6, {"matrix.bf16": 989e12, "matrix.fp8": 1979e12, "fma.fp32": 67e12}, 450e9)
SIZES = 2 ** np.arange(4, 15)


def drawn(count: int, seed: int = 1) -> list[Case]:
    """Different cases of five workloads."""
    rng = np.random.default_rng(seed)
    counts: dict[str, Case] = {}
    while len(counts) < count:
        name = str(rng.choice(["gemm", "attention", "rowwise", "pointwise", "conv"], p=[0.6, 0.1, 0.1, 0.1, 0.1]))
        spec = work.find(name)
        given: dict[str, object] = {p.name: str(rng.choice(p.choices)) for p in spec.params if p.choices}
        sizes = {"gemm": "mnk", "attention": ("query", "batch"), "rowwise": ("rows", "columns"), "pointwise": ("elements",)}
        given.update({p: int(rng.choice(SIZES) + rng.integers(0, 64)) for p in sizes.get(name, ("channels", "images"))})
        params = spec.lean(spec.full(given))
        if not spec.fault(params):
            case = Case(workload=name, params={p.name: params[p.name] for p in spec.params if p.name in params})
            counts[case.id] = case
    return list(counts.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--strength", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cases = drawn(args.cases)
    record._IDS.clear()  # ids are part of what is timed
    began = time.perf_counter()
    asked = usage.steps(["all"])
    weighed = usage.weighed(asked, lambda some: [1e-5] * len(some))
    networks_s = time.perf_counter() - began
    began, busy = time.perf_counter(), time.process_time()
    found = measure.coverage(["drawn"], cases, args.strength, weighed, ROOF, lambda some: boundary.boundary_cases(some, 8e9))
    took, busy = time.perf_counter() - began, time.process_time() - busy
    covered, possible = sum(t.covered for t in found.tables), sum(t.possible for t in found.tables)
    answer = {
        "cases": len(cases), "strength": args.strength, "uses": len(weighed.uses), "seconds": took, "cpu_seconds": busy,
        "networks_seconds": networks_s, "covered": covered, "possible": possible, "near": found.near,
    }
    if args.json:
        print(json.dumps(answer))
    else:
        told = f"{took:.2f} s ({busy:.2f} s of the processor), {args.strength}-way {covered} of {possible}"
        print(f"{len(cases)} cases against {len(weighed.uses)} uses of networks: {told}")
        print(f"the uses themselves, without the model's times: {networks_s:.2f} s")


if __name__ == "__main__":
    main()
