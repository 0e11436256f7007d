"""Traces read and broken down by Hotlap and by HTA, whole processes in turns: seconds, MB/s and peak memory.

    python benchmarks/traces.py TRACE.json.gz [--megabytes 340] [--rounds 3] [--hta PYTHON] [--large GB] [--json]

TRACE is replicated to the size asked (benchmarks/replicate_trace.py). `--hta` names a Python that has HolisticTraceAnalysis 0.5.0
(`python -m venv hta && hta/bin/pip install HolisticTraceAnalysis==0.5.0`); without it Hotlap's own figures are printed alone.
HTA is given the trace as it wants it, a folder with one file per rank, and asked for its temporal breakdown; its worker
processes are counted in its memory. `--large` does the same for Hotlap alone with a trace of so many gigabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OURS = """
import json, resource, sys, time
from hotlap.traces.timeline import Timeline
path, columns, cache = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
began = time.perf_counter()
timeline = Timeline.open(path, columns, cache)
read = time.perf_counter()
found = timeline.breakdown()
ended = time.perf_counter()
print(json.dumps({"read_s": read - began, "breakdown_s": ended - read, "events": len(timeline), "idle": found.idle_share,
    "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "cpu_s": time.process_time()}))
"""
THEIRS = """
import json, logging, resource, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
began = time.perf_counter()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
read = time.perf_counter()
found = analysis.get_temporal_breakdown(visualize=False)
ended = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"read_s": read - began, "breakdown_s": ended - read, "idle": float(found["idle_time_pctg"].iloc[0]) / 100,
    "peak_MB": peak / 1024}))
"""


def timed(python: str, code: str, arguments: list[str], home: Path) -> dict[str, Any]:
    """One whole process."""
    began = time.perf_counter()
    environment = dict(os.environ, HOTLAP_HOME=str(home))
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr.strip()[-800:]}")
    return json.loads(done.stdout.strip().splitlines()[-1]) | {"process_s": time.perf_counter() - began}


def replicate(trace: Path, out: Path, megabytes: float) -> None:
    subprocess.run([sys.executable, str(HERE / "replicate_trace.py"), str(trace), str(out), "--megabytes", str(megabytes)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--megabytes", type=float, default=340.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hta", default="", metavar="PYTHON")
    parser.add_argument("--large", type=float, default=0.0, metavar="GB")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        plain = folder / "trace.json"
        replicate(options.trace, plain, options.megabytes)
        packed = folder / "trace.json.gz"
        subprocess.run(["gzip", "-1", "-k", str(plain)], check=True)
        size = plain.stat().st_size / 1e6
        cases = {
            "Hotlap, columns of the breakdown": (sys.executable, OURS, [str(plain), "breakdown", "0"]),
            "Hotlap, all columns": (sys.executable, OURS, [str(plain), "all", "0"]),
            "Hotlap, all columns, kept": (sys.executable, OURS, [str(plain), "all", "1"]),
            "Hotlap, columns of the breakdown, .gz": (sys.executable, OURS, [str(packed), "breakdown", "0"]),
            "Hotlap, all columns, .gz": (sys.executable, OURS, [str(packed), "all", "0"]),
        }
        if options.hta:
            cases["HTA 0.5.0"] = (options.hta, THEIRS, [str(plain)])
            cases["HTA 0.5.0, .gz"] = (options.hta, THEIRS, [str(packed)])
        times: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, (python, code, arguments) in cases.items():
                shutil.rmtree(folder / "home", ignore_errors=True)
                times[name].append(timed(python, code, arguments, folder / "home"))
        again = []
        timed(sys.executable, OURS, [str(plain), "all", "1"], folder / "home")
        for _ in range(options.rounds):
            again.append(timed(sys.executable, OURS, [str(plain), "all", "1"], folder / "home"))
        times["Hotlap, opened again"] = again
        if options.large:
            plain.unlink()
            packed.unlink()
            shutil.rmtree(folder / "home", ignore_errors=True)
            large = folder / "large.json"
            replicate(options.trace, large, options.large * 1000)
            name = f"Hotlap, all columns, {large.stat().st_size / 1e9:.1f} GB"
            times[name] = [timed(sys.executable, OURS, [str(large), "all", "1"], folder / "home") | {"MB": large.stat().st_size / 1e6}]
    show(times, size, options.json)


def show(times: dict[str, list[dict[str, Any]]], size: float, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"MB": size, "runs": times}, indent=1))
        return
    theirs = times.get("HTA 0.5.0")
    reference = statistics.median(r["read_s"] + r["breakdown_s"] for r in theirs) if theirs else None
    memory = statistics.median(r["peak_MB"] for r in theirs) if theirs else None
    print(f"{size:.0f} MB of JSON; medians of {max(len(r) for r in times.values())} processes each, in turns")
    print(f"{'':<40}{'read s':>8}{'MB/s':>8}{'breakdown s':>13}{'peak MB':>9}{'× faster':>10}{'memory ÷':>10}")
    for name, runs in times.items():
        read, broken, peak = (statistics.median(r[key] for r in runs) for key in ("read_s", "breakdown_s", "peak_MB"))
        ratio = f"{reference / (read + broken):.1f}" if reference else ""
        less = f"{memory / peak:.1f}" if memory else ""
        print(f"{name:<40}{read:>8.2f}{runs[0].get('MB', size) / read:>8.0f}{broken:>13.3f}{peak:>9.0f}{ratio:>10}{less:>10}")


if __name__ == "__main__":
    main()
