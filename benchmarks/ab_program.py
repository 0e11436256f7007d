"""`hotlap ab` on a Python script of about 0.9 s and one that does a fifth more, on this machine; hyperfine beside it.

    python benchmarks/ab_program.py [--times 20] [--budget '30 s'] [--min-effect '5 %'] [--seconds 0.9]

Promised: the slower script is called slower in 19 of 20, and the same script twice different in at most 1 of 20. In turns: one of each
kind, then hyperfine with both scripts in the same time. hyperfine gives no verdict: its ratio is called slower where it lies more than its
own standard deviation beyond the threshold. Without hyperfine (apt-get install hyperfine) its columns are left out. 20 times take 30 min.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPT = "total = 0\nfor n in range({turns}):\n    total += n & 7\n"
SLOWER = 1.2
TRIAL = 2_000_000  # turns from which the speed of this machine is taken


def turns_for(folder: Path, seconds: float) -> int:
    """Of the loop, for so long beyond the start of Python; the fastest of five."""
    empty, full = folder / "empty.py", folder / "trial.py"
    empty.write_text(SCRIPT.format(turns=1))
    full.write_text(SCRIPT.format(turns=TRIAL))
    start, end = (min(_took(one) for _ in range(5)) for one in (empty, full))
    return max(int(TRIAL * (seconds - start) / max(end - start, 1e-3)), 1000)


def _took(script: Path) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, script], check=True)
    return time.perf_counter() - began


def by_ab(a: Path, b: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The case of one `hotlap ab`."""
    commands = [shlex.join([sys.executable, str(one)]) for one in (a, b)]
    argv = [sys.executable, "-m", "hotlap", "ab", *commands, "--min-effect", options.min_effect, "--budget", options.budget, "--json"]
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stderr)
    (case,) = json.loads(done.stdout)["cases"]
    return case | {"took": took}


def by_hyperfine(a: Path, b: Path, options: argparse.Namespace) -> float | None:
    """Time of B ÷ time of A less one standard deviation, as hyperfine's summary gives it; None without hyperfine."""
    if not shutil.which("hyperfine"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        commands = [shlex.join([sys.executable, str(one)]) for one in (a, b)]
        subprocess.run(["hyperfine", "--warmup", "1", "--runs", "13", "--export-json", out, *commands], check=True, capture_output=True)
        first, second = json.loads(out.read_text())["results"]
    ratio = second["mean"] / first["mean"]
    return float(ratio * (1 - math.hypot(first["stddev"] / first["mean"], second["stddev"] / second["mean"])))


def line(name: str, case: dict[str, Any], beside: float | None) -> str:
    low, high = (1 / case[end] - 1 if case[end] else math.nan for end in ("high", "low"))
    said = f"{name:8} {case['state']:13} [{low:+7.1%}, {high:+7.1%}] {case['a']['rounds']:3} pairs {case['took']:5.1f} s"
    return said if beside is None else f"{said}   hyperfine: at least {beside - 1:+.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--budget", default="30 s")
    parser.add_argument("--min-effect", default="5 %")
    parser.add_argument("--seconds", type=float, default=0.9)
    options = parser.parse_args()
    min_effect = float(options.min_effect.rstrip(" %")) / 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HOTLAP_HOME"] = str(folder / "home")
        turns = turns_for(folder, options.seconds)
        scripts = {"fast": turns, "same": turns, "slow": int(turns * SLOWER)}
        for kind, count in scripts.items():
            (folder / f"{kind}.py").write_text(SCRIPT.format(turns=count))
        print(f"{turns} turns for {options.seconds:g} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        if not shutil.which("hyperfine"):
            print("hyperfine: skipped, it is not installed")
        counts = dict.fromkeys(("slow", "same", "hyperfine slow", "hyperfine same"), 0)
        for _ in range(options.times):
            for kind in ("slow", "same"):
                pair = folder / "fast.py", folder / f"{kind}.py"
                case, beside = by_ab(*pair, options), by_hyperfine(*pair, options)
                counts[kind] += case["answer"] == "slower" if kind == "slow" else case["answer"] in ("slower", "faster")
                counts[f"hyperfine {kind}"] += beside is not None and beside > 1 + min_effect
                print(line(kind, case, beside), flush=True)
    slow, same = counts["slow"], counts["same"]
    right = slow >= math.floor(0.95 * options.times) and same <= options.times / 20
    print(f"\n20 % slower called slower: {slow} of {options.times}; the same called different: {same} of {options.times}; ", end="")
    print("kept" if right else "MISSED")
    if shutil.which("hyperfine"):
        print(f"hyperfine: slower in {counts['hyperfine slow']}, the same slower in {counts['hyperfine same']}")


if __name__ == "__main__":
    main()
