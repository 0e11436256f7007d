"""`hotlap bench` of two commands, the second 10 % slower, in turns with hyperfine; and what it adds to a run.

    python benchmarks/bench.py [--repetitions 20] [--seconds 0.9] [--slower '10 %'] [--blocks 20] [--runs 200]
                               [--only cost|fixed|sure] [--json]

The commands are Python scripts whose loops take `--seconds` of processor time here. *fixed*: as many runs as hyperfine takes by itself.
*sure*: `--until-sure`, at most 60 runs of each. *cost*: `true`, from one start to the next, beside a bare loop of posix_spawn and wait,
blocks in turns. The asked figures stand beside each line; a noise of one run above 12 % is printed, and *sure* is then not held.
Exit code 1 where a figure is missed. hyperfine: apt-get install hyperfine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import SCRIPT, sized

from hotlap.core.store import bundle, select
from hotlap.core.trials import bench
from hotlap.core.units import parse, percent
from hotlap.core.work.program import COMMAND

TOO_NOISY = 0.12


def commands(folder: Path, seconds: float, slower: float) -> list[str]:
    """Two command lines; the second turns its loop so many times more often."""
    script, _ = sized(folder, seconds)
    turns = int(script.read_text().split("range(")[1].split(")")[0])
    other = folder / "slower.py"
    other.write_text(SCRIPT.format(turns=round(turns * (1 + slower))))
    return [shlex.join([sys.executable, str(path)]) for path in (script, other)]


def by_hotlap(texts: list[str], home: Path, *more: str) -> dict[str, Any]:
    began = time.monotonic()
    words = [sys.executable, "-m", "hotlap", "bench", *texts, "--json", *more]
    done = subprocess.run(words, env={**os.environ, "HOTLAP_HOME": str(home)}, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3) or not done.stdout:
        sys.exit(f"hotlap bench: {done.stderr}")
    measured = json.loads(done.stdout)
    compared = measured["cases"][1]["more"]
    ends = [1 / compared[end] if compared[end] else math.nan for end in ("ratio_high", "ratio_low")]  # of the time, B ÷ A
    return {
        "wall_s": time.monotonic() - began, "answer": compared["answer"], "low": ends[0], "high": ends[1],
        "times": [entry["rounds"] for entry in measured["cases"]],
    }


def by_hyperfine(texts: list[str], folder: Path) -> dict[str, Any]:
    out = folder / "hyperfine.json"
    began = time.monotonic()
    subprocess.run(["hyperfine", "--export-json", str(out), *texts], check=True, capture_output=True)
    return {"wall_s": time.monotonic() - began, "times": [entry["times"] for entry in json.loads(out.read_text())["results"]]}


def pooled(rows: list[dict[str, Any]], side: int) -> list[float]:
    return [value for row in rows for value in row["times"][side]]


def noise(rows: list[dict[str, Any]]) -> float:
    """Standard deviation of one run about the mean of its benchmark, as a share."""
    apart = [value / statistics.fmean(times) - 1 for row in rows for times in row["times"] for value in times]
    return math.sqrt(statistics.fmean(value * value for value in apart))


def fixed(args: argparse.Namespace, texts: list[str], folder: Path) -> dict[str, Any]:
    ours, theirs = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(args.repetitions):
        ways = [lambda: ours.append(by_hotlap(texts, folder / "home")), lambda: theirs.append(by_hyperfine(texts, folder))]
        for way in ways if number % 2 == 0 else reversed(ways):
            way()
        last = ours[-1]
        text = f"hotlap {last['answer']:<12} [{last['low']:.3f}, {last['high']:.3f}] in {last['wall_s']:.1f} s"
        show(args, number, f"{text}, hyperfine {theirs[-1]['wall_s']:.1f} s")
    ratio = statistics.fmean(pooled(ours, 1)) / statistics.fmean(pooled(ours, 0))
    holds = sum(row["low"] <= ratio <= row["high"] for row in ours)
    wall = statistics.median(a["wall_s"] / b["wall_s"] for a, b in zip(ours, theirs, strict=True))
    means = []
    for side in (0, 1):
        a, b = pooled(ours, side), pooled(theirs, side)
        error = math.sqrt(sum(statistics.variance(x) / len(x) for x in (a, b))) / statistics.fmean(b) if len(b) > 1 else math.nan
        means.append({"ratio": statistics.fmean(a) / statistics.fmean(b), "allowed": max(0.02, 2 * error)})
    wrong = sum(row["answer"] == "faster" for row in ours)
    same = all(len(x) == len(y) for a, b in zip(ours, theirs, strict=True) for x, y in zip(a["times"], b["times"], strict=True))
    return {
        "faster": wrong, "answers": [row["answer"] for row in ours], "ratio": ratio, "holds": holds, "of": len(ours), "wall": wall,
        "means": means, "noise": noise(ours), "same_runs": same,
        "passed": not wrong and holds >= 0.85 * len(ours) and wall <= 1.3 and same
        and all(abs(mean["ratio"] - 1) <= mean["allowed"] for mean in means),
    }


def sure(args: argparse.Namespace, texts: list[str], folder: Path) -> dict[str, Any]:
    rows = []
    for number in range(args.repetitions):
        rows.append(by_hotlap(texts, folder / "home", "--until-sure"))
        show(args, number, f"{rows[-1]['answer']:<12} after {len(rows[-1]['times'][0])} runs of each")
    slower = sum(row["answer"] == "slower" for row in rows)
    return {
        "slower": slower, "of": len(rows), "runs": [len(row["times"][0]) for row in rows], "noise": noise(rows),
        "passed": slower >= 0.95 * len(rows) or noise(rows) > TOO_NOISY,
    }


def cost(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Seconds from one start to the next, and of the run itself, medians over all blocks."""
    path, environment = shutil.which("true") or "true", dict(os.environ)
    command = bench.BenchCommand("A", "true", "true", COMMAND.case({"argv": ["true"], "output": "null"}))
    bare, ours, timed = list[float](), list[float](), list[float]()

    def loop() -> None:
        before = time.perf_counter()
        for _ in range(args.runs):
            os.wait4(os.posix_spawn(path, ["true"], environment), 0)
            now = time.perf_counter()
            bare.append(now - before)
            before = now

    def measured() -> None:
        starts: list[float] = []
        done = bench.bench([command], bench.BenchOptions(runs=args.runs), folder / "home", lambda *_: starts.append(time.perf_counter()))
        ours.extend(b - a for a, b in itertools.pairwise(starts))
        timed.extend(next(iter(select.results(bundle.load(done.path)))).values)

    for number in range(args.blocks):
        for way in (loop, measured) if number % 2 == 0 else (measured, loop):
            way()
    middle = {"bare_s": statistics.median(bare), "bench_s": statistics.median(ours), "timed_s": statistics.median(timed)}
    return {**middle, "added_s": middle["bench_s"] - middle["bare_s"], "passed": middle["bench_s"] - middle["bare_s"] < 1e-3}


def show(args: argparse.Namespace, number: int, text: str) -> None:
    if not args.json:
        print(f"{number + 1:3d}  load {os.getloadavg()[0]:4.1f}  {text}", flush=True)


def summary(name: str, row: dict[str, Any]) -> str:
    verdict = "met" if row["passed"] else "missed"
    if name == "sure" and row["noise"] > TOO_NOISY:
        verdict = f"printed, not held: the noise is above {percent(TOO_NOISY)}"
    if name == "cost":
        numbers = ", ".join(f"{key.removesuffix('_s')} {row[key] * 1e3:.3f} ms" for key in ("bare_s", "bench_s", "timed_s", "added_s"))
        return f"cost   {numbers} (under 1 ms): {verdict}"
    if name == "sure":
        counts = f"slower in {row['slower']} of {row['of']} (asked 95 %), {min(row['runs'])} to {max(row['runs'])} runs of each"
        return f"sure   {counts}, noise of a run {percent(row['noise'])}: {verdict}"
    means = " and ".join(f"{mean['ratio'] - 1:+.2%} (± {percent(mean['allowed'])})" for mean in row["means"])
    return (
        f"fixed  faster in {row['faster']} (asked 0), the interval holds {row['ratio']:.3f} in {row['holds']} of {row['of']} (asked 85 %), "
        f"{row['wall']:.2f} of hyperfine's wall time (asked 1.3), means {means}, noise of a run {percent(row['noise'])}: {verdict}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.9)
    parser.add_argument("--slower", default="10 %")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", choices=("cost", "fixed", "sure"))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    wanted = [args.only] if args.only else ["cost", "fixed", "sure"]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = commands(folder, args.seconds, parse(args.slower, "%")) if wanted != ["cost"] else []
        for which in wanted:
            if which == "fixed" and not shutil.which("hyperfine"):
                sys.exit("hyperfine is not installed: apt-get install hyperfine, or --only sure")
            results[which] = cost(args, folder) if which == "cost" else {"fixed": fixed, "sure": sure}[which](args, texts, folder)
    print(json.dumps(results) if args.json else "\n".join(summary(*item) for item in results.items()))
    return 0 if all(row["passed"] for row in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
