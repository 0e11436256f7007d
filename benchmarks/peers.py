"""Hotlap on this machine's CPU beside peers that run here, in one run: whole processes, interleaved in random order.

    python benchmarks/peers.py [--replicates 7] [--json]

Prints the median of each contestant with its range over processes, and the ratios that the project promises. A peer that
is not installed is listed as not run, because… Sizes: triad and copy 512 MiB working set; matrix products 2048³.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hotlap.core.measure.supervisor import SPEED_ENVIRONMENT

STREAM_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(void) {
    const size_t n = (512ul << 20) / 3 / sizeof(float);
    float *a = malloc(n * 4), *b = malloc(n * 4), *c = malloc(n * 4);
    #pragma omp parallel for
    for (size_t i = 0; i < n; i++) { a[i] = 0; b[i] = i % 1000; c[i] = i % 777; }
    double best = 1e9;
    for (int r = 0; r < 30; r++) {
        double t = now();
        #pragma omp parallel for
        for (size_t i = 0; i < n; i++) a[i] = b[i] + (3.0f + r) * c[i];
        t = now() - t;
        if (t < best) best = t;
    }
    printf("%g %g\n", 3.0 * n * 4 / best, a[n / 2]);
}
"""

HOTLAP = """
import sys, json
from hotlap.core import work
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.record import Case
from hotlap.core.measure.sensors import cpu_clock
spec = targets.parse(sys.argv[1]); target = targets.open_device(spec, targets.find(spec)[0])
name, given = sys.argv[2], json.loads(sys.argv[3])
params = work.find(name).parse(given)
s = measure(target, Case(workload=name, params=params), CaseBudget(seconds=2.0, seed=1, clock=lambda: cpu_clock.measure(target.clock)))
assert s.status == "measured", s.reason
ordered = sorted(s.seconds)
amount = s.metrics.get("operations")
rate = lambda t: amount / t if amount else work.find(name).value(t, params)
found = {"median": rate(ordered[len(ordered) // 2]), "best": rate(ordered[0]), "clock_hz": max(s.clocks_hz, default=0)}
print(json.dumps(found))
"""

TORCH = """
import sys, time, torch
what, dtype = sys.argv[1], getattr(torch, sys.argv[2])
if what == "triad":
    n = (512 << 20) // 3 // 4
    a, b, c = (torch.ones(n) for _ in range(3)); step = lambda: torch.add(b, c, alpha=3.0, out=a); amount = 3.0 * n * 4
else:
    a, b = (torch.randn(2048, 2048).to(dtype) for _ in range(2)); c = torch.empty(2048, 2048, dtype=dtype)
    step = lambda: torch.matmul(a, b, out=c); amount = 2.0 * 2048 ** 3
for _ in range(3): step()
times, end = [], time.perf_counter() + 2.0
while time.perf_counter() < end or len(times) < 5:
    t = time.perf_counter(); step(); times.append(time.perf_counter() - t)
times.sort()
import json; print(json.dumps({"median": amount / times[len(times) // 2], "best": amount / times[0]}))
"""


class NotHere(Exception):
    """A peer that cannot run on this machine."""


def python(code: str, *arguments: str) -> dict[str, float]:
    environment = {"GOMP_SPINCOUNT": SPEED_ENVIRONMENT["GOMP_SPINCOUNT"], **os.environ}
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise NotHere((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def hotlap(spec: str, name: str, **given: object) -> Callable[[], dict[str, float]]:
    return lambda: python(HOTLAP, spec, name, json.dumps(given))


def torch(what: str, dtype: str = "float32") -> Callable[[], dict[str, float]]:
    return lambda: python(TORCH, what, dtype)


def stream_c(folder: Path) -> Callable[[], dict[str, float]]:
    program = folder / "stream"

    def run() -> dict[str, float]:
        if not program.exists():
            if not shutil.which("cc"):
                raise NotHere("no C compiler: apt-get install gcc")
            (folder / "stream.c").write_text(STREAM_C)
            subprocess.run(["cc", "-O3", "-march=native", "-fopenmp", "-o", str(program), str(folder / "stream.c")], check=True)
        return {"best": float(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()[0])}

    return run


def outside(argv: list[str], pattern: str, scale: float, pick: Callable[[list[float]], float] = max) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        if not shutil.which(argv[0]):
            raise NotHere(f"apt-get install {argv[0]}")
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        found = re.findall(pattern, done.stdout + done.stderr)
        if not found:
            raise NotHere(f"{argv[0]} printed no figure")
        return {"best": pick([float(f) for f in found]) * scale}

    return run


def clpeak(folder: Path) -> Callable[[], dict[str, float]]:
    """clpeak on the same OpenCL driver: the one inside pyopencl's wheel, shown to the system's loader."""

    def run() -> dict[str, float]:
        import pyopencl

        library = next(Path(pyopencl.__file__).parent.glob(".libs/libpocl*.so"), None)
        if library is None:
            raise NotHere("pyopencl was not installed with PoCL inside")
        if not shutil.which("clpeak"):
            raise NotHere("apt-get install clpeak")
        (folder / "pocl.icd").write_text(f"{library}\n")
        with tempfile.TemporaryDirectory() as cache:  # what it leaves in PoCL's cache when it aborts breaks its next run
            environment = {**os.environ, "OCL_ICD_VENDORS": str(folder), "POCL_CACHE_DIR": cache}
            argv = ["stdbuf", "-oL", "clpeak", "--compute-sp", "--global-bandwidth"]
            done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        found = re.findall(r"float\d* *: ([\d.]+)", done.stdout.partition("Single-precision")[2])
        if not found:
            raise NotHere("clpeak printed no figure")
        return {"best": max(map(float, found)) * 1e9}

    return run


def contestants(folder: Path) -> dict[str, Callable[[], dict[str, float]]]:
    size = "512 MiB"
    return {
        "triad hotlap opencl": hotlap("opencl:cpu", "stream", op="triad", size=size),
        "triad hotlap torch": hotlap("torch:cpu", "stream", op="triad", size=size),
        "triad torch, bare loop": torch("triad"),
        "triad compiled STREAM": stream_c(folder),
        "triad stress-ng": outside(
            ["stress-ng", "--stream", str(os.cpu_count()), "--stream-l3-size", "64M", "-t", "8", "--metrics-brief"],
            r"memory rate: ([\d.]+) MB read/sec", 1e6 * (os.cpu_count() or 1) * 1.5, statistics.median,
        ),
        "memory sysbench, 256 MiB writes": outside(
            ["sysbench", "memory", f"--threads={os.cpu_count()}", "--memory-block-size=256M", "--memory-total-size=20G", "run"],
            r"\(([\d.]+) MiB/sec\)", 2**20,
        ),
        "fma fp32 hotlap opencl": hotlap("opencl:cpu", "fma", dtype="fp32", operations=8 * 10**9),
        "fma fp64 hotlap opencl": hotlap("opencl:cpu", "fma", dtype="fp64", operations=4 * 10**9),
        "fma fp32 clpeak, same driver": clpeak(folder),
        "fp32 matrix torch, bare loop": torch("matrix", "float32"),
        "bf16 matrix hotlap torch": hotlap("torch:cpu", "gemm", dtype="bf16", m=2048, n=2048, k=2048),
        "bf16 matrix torch, bare loop": torch("matrix", "bfloat16"),
    }


RATIOS = (  # what is promised: name, figure above, figures below (the best of them counts), at least
    ("triad: hotlap ÷ PyTorch", "triad hotlap opencl", ("triad torch, bare loop",), 0.97),
    (
        "triad: hotlap ÷ best other", "triad hotlap opencl",
        ("triad compiled STREAM", "triad stress-ng", "memory sysbench, 256 MiB writes"), 0.97,
    ),
    ("fp32 FMA ÷ PyTorch fp32 matrix product", "fma fp32 hotlap opencl", ("fp32 matrix torch, bare loop",), 1.1),
    ("fp64 FMA ÷ fp32 FMA", "fma fp64 hotlap opencl", ("fma fp32 hotlap opencl",), 0.45),
    ("bf16 matrix: hotlap ÷ bare loop", "bf16 matrix hotlap torch", ("bf16 matrix torch, bare loop",), 0.98),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--replicates", type=int, default=7)
    parser.add_argument("--only", default="", help="contestants whose name contains this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runners = {name: run for name, run in contestants(Path(folder)).items() if options.only in name}
        values: dict[str, list[dict[str, float]]] = {name: [] for name in runners}
        missing: dict[str, str] = {}
        for _ in range(options.replicates):
            for name in random.sample(list(runners), len(runners)):
                if name in missing:
                    continue
                try:
                    values[name].append(runners[name]())
                except NotHere as reason:
                    missing[name] = str(reason)
                    print(f"{name}: not run, because {reason}", file=sys.stderr)
    report(values, missing, as_json=options.json)


def figure(samples: list[dict[str, float]], key: str) -> list[float]:
    return [s.get(key, s["best"]) for s in samples]


def ratio(values: dict[str, list[dict[str, float]]], above: str, below: tuple[str, ...]) -> float | None:
    """Median over processes of the best sample of each, since STREAM, stress-ng and sysbench give their best."""
    others = [statistics.median(figure(values[name], "best")) for name in below if values.get(name)]
    return statistics.median(figure(values[above], "best")) / max(others) if others and values.get(above) else None


def share_of_units(values: dict[str, list[dict[str, float]]], lanes: int) -> float | None:
    """fp32 FMA against cores × FLOP per clock × the clock measured in the same process."""
    found = [s for s in values.get("fma fp32 hotlap opencl", []) if s.get("clock_hz")]
    shares = [s["median"] / ((os.cpu_count() or 1) * lanes * s["clock_hz"]) for s in found]
    return statistics.median(shares) if shares else None


def flop_per_clock() -> int | None:
    from hotlap.core.measure.machine.machine import fingerprint
    from hotlap.core.model import cpu

    spec = cpu.spec(fingerprint([]).cpu, None)
    rate = spec.flop_per_clock.get("fma.fp32")
    return int(rate) if rate else None


def report(values: dict[str, list[dict[str, float]]], missing: dict[str, str], as_json: bool) -> None:
    ratios = {name: (ratio(values, above, below), least) for name, above, below, least in RATIOS}
    lanes = flop_per_clock()
    share = share_of_units(values, lanes) if lanes else None
    if as_json:
        print(json.dumps({"values": values, "missing": missing, "ratios": ratios, "fp32_share_of_vector_units": share}, indent=1))
        return
    for name, samples in values.items():
        if samples:
            best = figure(samples, "best")
            span = f"{min(best) / 1e9:.1f} … {max(best) / 1e9:.1f} over {len(best)} processes"
            print(f"{name:34} {statistics.median(best) / 1e9:9.1f} G/s   best of a process: {span}")
        else:
            print(f"{name:34} not run, because {missing[name]}")
    for name, (value, least) in ratios.items():
        print(f"{name:42} {'–' if value is None else f'{value:.3f}'}   promised ≥ {least}")
    print(f"{'fp32 FMA ÷ vector units at measured clock':42} {'–' if share is None else f'{share:.3f}'}   promised ≥ 0.90 (median sample)")


if __name__ == "__main__":
    main()
