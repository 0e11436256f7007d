"""What `hotlap run` makes of one program within 20 s: a number with its interval, or not. hyperfine beside it, in turns.

    python benchmarks/command.py [--repetitions 20] [--budget '20 s'] [--seconds 0.9] [--json]

The program is a Python script whose loop takes `--seconds` of processor time here. hyperfine is left out, and why is said, where it is
not installed (apt-get install hyperfine).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hotlap.core import units

SCRIPT = "x = 0\nfor i in range({turns}):\n    x += i * i\n"
PLAN = '[[case]]\nworkload = "command"\nargv = ["{python}", "{script}"]\n'


def sized(folder: Path, seconds: float) -> tuple[Path, float]:
    """A script of so much processor time, and what it took: sized twice from its own time."""
    script, turns, took_s = folder / "script.py", 1_000_000, 0.0
    for _ in range(3):
        turns = turns if not took_s else round(turns * seconds / took_s)
        script.write_text(SCRIPT.format(turns=turns))
        before = os.times()
        subprocess.run([sys.executable, str(script)], check=True)
        after = os.times()
        took_s = after.children_user + after.children_system - before.children_user - before.children_system
    return script, took_s


def by_hotlap(plan: Path, home: Path, budget: str) -> dict[str, Any]:
    """One run: its value and interval where there are any."""
    began = time.monotonic()
    words = ["run", str(plan), "--budget", budget, "--no-report", "--json"]
    environment = {**os.environ, "HOTLAP_HOME": str(home)}
    done = subprocess.run([sys.executable, "-m", "hotlap", *words], env=environment, capture_output=True, text=True, check=False)
    wall_s = time.monotonic() - began
    if done.returncode:
        return {"wall_s": wall_s, "value": None, "said": (done.stderr.strip().splitlines() or [""])[-1]}
    kept = json.loads(max(home.glob("runs/*/run.json"), key=lambda path: path.stat().st_mtime).read_text())
    import hotlap

    os.environ["HOTLAP_HOME"] = str(home)
    row = hotlap.load(kept["id"]).rows[0]
    found = row.summary
    return {
        "wall_s": wall_s, "value": found.median, "low": found.low, "high": found.high, "rounds": found.rounds, "state": row.verdict.state,
        "stops": [stop["kind"] for stop in kept["stops"]],
    }


def by_hyperfine(script: Path, folder: Path) -> dict[str, Any]:
    out = folder / "hyperfine.json"
    began = time.monotonic()
    subprocess.run(["hyperfine", "--warmup", "1", "--export-json", str(out), f"{sys.executable} {script}"], check=True, capture_output=True)
    found = json.loads(out.read_text())["results"][0]
    return {"wall_s": time.monotonic() - began, "mean": found["mean"], "stddev": found["stddev"], "runs": len(found["times"])}


def line(number: int, entry: dict[str, Any], other: dict[str, Any] | None) -> str:
    if entry["value"] is None or entry["low"] is None:
        said = f"no interval: {entry.get('said') or ', '.join(entry.get('stops', []))} after {entry.get('rounds', 0)} rounds"
    else:
        said = f"{entry['value']:.3f} s [{entry['low']:.3f} to {entry['high']:.3f}] {entry['rounds']:3d} rounds {entry['state']}"
    beside = f"   hyperfine {other['mean']:.3f} s ± {other['stddev']:.3f}, {other['runs']} runs in {other['wall_s']:.1f} s" if other else ""
    return f"{number:3d}  load {os.getloadavg()[0]:4.1f}  hotlap {said} in {entry['wall_s']:.1f} s{beside}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--budget", default="20 s")
    parser.add_argument("--seconds", type=float, default=0.9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script, took_s = sized(folder, args.seconds)
        plan = folder / "perf.toml"
        plan.write_text(PLAN.format(python=sys.executable, script=script))
        peer = shutil.which("hyperfine") is not None
        if not args.json:
            without = "" if peer else "; hyperfine is not installed, so it is left out"
            print(f"a script of {took_s:.2f} s of processor time, budget {args.budget}{without}")
        for number in range(args.repetitions):
            first = by_hyperfine(script, folder) if peer and number % 2 else None
            one = by_hotlap(plan, folder / "home", args.budget)
            other = first or (by_hyperfine(script, folder) if peer else None)
            rows.append({"hotlap": one, "hyperfine": other})
            if not args.json:
                print(line(number + 1, one, other), flush=True)
    answered = sum(one["hotlap"]["value"] is not None and one["hotlap"]["low"] is not None for one in rows)
    late = sum(one["hotlap"]["wall_s"] > 1.25 * units.parse(args.budget, "s") for one in rows)
    if args.json:
        print(json.dumps({"seconds": took_s, "answered": answered, "late": late, "of": len(rows), "runs": rows}))
    else:
        print(f"a number with its interval in {answered} of {len(rows)}; more than a quarter over the budget in {late}")


if __name__ == "__main__":
    main()
