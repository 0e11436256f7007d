"""How fast and how right the tile-level simulator is: shapes per second, memory, the model beside it, and published GEMM times.

    python benchmarks/simulator.py [--rows 200] [--seed 7] [--json]

Speed: products about 8192³ on an H100, each with its choice of tile and its clock, on one core. Error: random rows of
kernels/{a100,h100,h200}_sxm/gemm, bf16 through cuBLAS (folder HOTLAP_SHARED, or shared beside the repository; needs pyarrow),
`copies` as the collector rotates weights. Constants were set by hand on random A100 and H100
rows, so these two are not scores on unseen rows; none was set on products of the H200.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import plan, work
from hotlap.core.errors import HotlapError
from hotlap.core.model import machines
from hotlap.core.model.limits import limit
from hotlap.core.model.predict import expected
from hotlap.core.model.simulate import card, cases, chip_of, gemm, stream
from hotlap.core.model.simulate.counters import Counters
from hotlap.core.record import Case

FILES = {
    "a100-sxm-80gb": "a100_sxm/gemm/sglang/0.5.10", "h100-sxm": "h100_sxm/gemm/vllm/0.24.0", "h200-sxm": "h200_sxm/gemm/vllm/0.22.0",
}  # fmt: skip
WORST = 8
COPIES = 5  # of the weights that the collector uses in turn (aiconfigurator's collector)
ANCHORS = (("h100-sxm", 8192, 8192, 8192, 1500e-6), ("h100-sxm", 4096, 4096, 4096, 166e-6), ("h100-sxm", 64, 4096, 4096, 14.8e-6))
STREAM_H200_B_S = 4203e9  # the best measured streaming of an H200


def data() -> Path | None:
    places = [os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).resolve().parents[1] / ".." / "shared")]
    return next((p for p in (Path(one) / "data" / "kernels" for one in places if one) if p.is_dir()), None)


def product(m: int, n: int, k: int, machine: str) -> Counters:
    chip = chip_of(machines.load(machine))
    return card.simulate(gemm.candidates(gemm.GemmProblem(m, n, k, copies=COPIES), chip), chip)


def speed(shapes: int = 60) -> dict[str, float]:
    """Distinct shapes about 8192³."""
    product(8192, 8192, 8192, "h100-sxm")
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for number in range(shapes):
        product(8192 - 64 * (number % 8), 8192 - 128 * (number // 8), 8192, "h100-sxm")
    return {
        "shapes_a_second": shapes / (time.perf_counter() - begin), "shapes_a_cpu_second": shapes / (time.process_time() - begin_cpu),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def anchors() -> list[dict[str, Any]]:
    rows = [
        {"machine": name, "case": f"gemm {m}×{n}×{k}", "measured": seconds, "simulated": product(m, n, k, name).seconds}
        for name, m, n, k, seconds in ANCHORS
    ]
    chip = chip_of(machines.load("h200-sxm"))
    found = card.simulate(stream.build(2.0**31, 2.0**31, chip), chip)
    return [*rows, {"machine": "h200-sxm", "case": "copy 2 GiB, s", "measured": 2.0**32 / STREAM_H200_B_S, "simulated": found.seconds}]


def sample(folder: Path, rows: int, seed: int) -> dict[str, np.ndarray]:
    """Random bf16 rows: m, n, k and seconds."""
    from pyarrow import parquet

    table = parquet.read_table(folder / "gemm_perf.parquet", columns=["gemm_dtype", "m", "n", "k", "latency"]).to_pydict()
    at = np.flatnonzero(np.array(table["gemm_dtype"]) == "bfloat16")
    at = np.random.default_rng(seed).choice(at, min(rows, len(at)), replace=False)
    return {name: np.array(table[name])[at] for name in ("m", "n", "k", "latency")}


def errors(machine: str, results: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """MAPE, median, p90 and bias over all rows and by regime."""
    measured = results["latency"] * 1e-3
    shapes = zip(results["m"], results["n"], results["k"], strict=True)
    simulated = np.array([product(int(m), int(n), int(k), machine).seconds for m, n, k in shapes])
    error, long, m = simulated / measured - 1.0, measured > 20e-6, results["m"]
    regimes = {
        "all": m > 0, "≤ 20 µs": ~long, "> 20 µs": long, "> 20 µs, m ≤ 64": long & (m <= 64),
        "> 20 µs, m 65–1024": long & (m > 64) & (m <= 1024), "> 20 µs, m > 1024": long & (m > 1024),
    }  # fmt: skip
    return [{"machine": machine, "regime": name, **scores(error[here])} for name, here in regimes.items() if here.any()]


def scores(error: np.ndarray) -> dict[str, float]:
    off = abs(error)
    return {
        "rows": len(error), "mape": float(off.mean()), "median": float(np.median(off)), "p90": float(np.quantile(off, 0.9)),
        "bias": float(error.mean()),
    }  # fmt: skip


def compared() -> list[Compared]:
    """Random cases of every family that both know, on three machines. The same shapes on each."""
    results = []
    for slug in FILES:
        spec, rng = machines.load(slug), np.random.default_rng(7)
        for workload, params in drawn(rng):
            try:
                case = plan.case(workload, params)
                model, played = expected(case, spec, limit(case, spec)), cases.call(case, spec)
            except HotlapError:
                continue  # fp8 on A100
            if model.expected_s and not played.plain:
                results.append(Compared(slug, case, float(model.expected_s), model.parts, played))
    return results


def drawn(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    for dtype in ("bf16", "fp8"):
        for _ in range(80):
            # Cold: the model was taught with weights in turn.
            n, k = (int(one) for one in rng.choice([1024, 2048, 4096, 6144, 8192, 12288, 16384], 2))
            yield "gemm", {"m": int(2 ** rng.integers(0, 15)), "n": n, "k": k, "dtype": dtype, "cache": "cold"}
    for _ in range(40):
        shape = {"heads": int(rng.choice([16, 32, 64])), "kv_heads": 8, "batch": int(rng.choice([1, 4, 16]))}
        yield "attention", {**shape, "query": int(2 ** rng.integers(9, 14))}
        yield "attention", {**shape, "query": 1, "kv": int(2 ** rng.integers(10, 17))}
    for power in range(18, 30, 2):
        yield "pointwise", {"elements": 2**power}
        yield "rowwise", {"rows": 2 ** (power - 12) if power > 12 else 1, "columns": 4096}


@dataclass(frozen=True)
class Compared:
    """One case by model and simulator. `alone`: the kernel without launch and what a framework's call adds (writing the cache)."""

    machine: str
    case: Case
    model_s: float
    parts: Mapping[str, Any]
    played: cases.SimulatedCall

    @property
    def alone(self) -> tuple[float, float]:
        model = self.model_s - sum(float(np.ravel(self.parts.get(name, 0.0))[0]) for name in ("launch", "cache write"))
        return model, self.played.seconds - self.played.counters.get("stall_s.launch", 0.0)

    @property
    def error(self) -> float:
        return self.alone[1] / self.alone[0] - 1.0

    @property
    def regime(self) -> str:
        kind = self.case.workload
        if kind == "attention":
            kind += " decode" if self.case.params["query"] == 1 else " prefill"
        if kind == "gemm":
            kind += f" {self.case.params['dtype']}"
        return f"{kind}, {'≤ 20 µs' if self.model_s <= 20e-6 else '≤ 200 µs' if self.model_s <= 200e-6 else '> 200 µs'}"

    @property
    def why(self) -> str:
        """The two largest parts of either."""
        stalls = {name.removeprefix("stall_s."): value for name, value in self.played.counters.items() if name.startswith("stall_s.")}
        sides = [(stalls, self.played.seconds), ({n: float(np.ravel(v)[0]) for n, v in self.parts.items()}, self.model_s)]
        said = [", ".join(f"{n} {v / all_s:.0%}" for n, v in sorted(one.items(), key=lambda p: -p[1])[:2]) for one, all_s in sides]
        return f"simulated: {said[0]}; model: {said[1]}"


def print_compared(results: list[Compared]) -> None:
    print("\nsimulated ÷ model − 1, kernels alone (whole calls in brackets)")
    for machine in FILES:
        for regime in sorted({one.regime for one in results}):
            here = [one for one in results if one.machine == machine and one.regime == regime]
            if here:
                alone, whole = (scores(np.array(e)) for e in ([o.error for o in here], [o.played.seconds / o.model_s - 1 for o in here]))
                print(f"{machine:14} {regime:27} {len(here):3} cases  mean {alone['mape']:6.1%}  bias {alone['bias']:+6.1%}  "
                      f"({whole['mape']:6.1%} {whole['bias']:+6.1%})")
    print("furthest apart, one of each regime")
    seen: set[str] = set()
    for one in sorted(results, key=lambda o: -abs(np.log1p(o.error))):
        if one.regime not in seen and len(seen) < WORST:
            seen.add(one.regime)
            print(f"{one.machine:14} {work.label(one.case)}: {one.alone[1] * 1e6:.1f} for {one.alone[0] * 1e6:.1f} µs; {one.why}")


def measured(rows: int, seed: int) -> tuple[list[dict[str, Any]], str]:
    """Scores, or why there are none."""
    root = data()
    if root is None:
        return [], "skipped: no data; set HOTLAP_SHARED to the folder that holds data/kernels"
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return [], "skipped: pyarrow is not installed"
    found: list[dict[str, Any]] = []
    for machine, folder in FILES.items():
        if (root / folder).is_dir():
            found += errors(machine, sample(root / folder, rows, seed))
    return found, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    fast, near = speed(), anchors()
    results, reason = measured(options.rows, options.seed)
    if options.json:
        print(json.dumps({"speed": fast, "anchors": near, "errors": results, "skipped": reason}, indent=1))
        return
    print(f"{fast['shapes_a_second']:.0f} products about 8192³ a second ({fast['shapes_a_cpu_second']:.0f} a second of one core), "
          f"{fast['memory_mib']:.0f} MiB at most")
    for row in near:
        print(f"{row['machine']:14} {row['case']:22} measured {row['measured'] * 1e6:8.1f} µs, simulated {row['simulated'] * 1e6:8.1f} µs "
              f"({row['simulated'] / row['measured'] - 1:+.1%})")
    if reason:
        print(reason)
    print_compared(compared())
    for row in results:
        print(f"{row['machine']:14} {row['regime']:20} {row['rows']:4} rows  MAPE {row['mape']:6.1%}  median {row['median']:6.1%}  "
              f"p90 {row['p90']:6.1%}  bias {row['bias']:+.1%}")


if __name__ == "__main__":
    main()
