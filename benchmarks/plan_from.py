"""How long `hotlap plan from` takes, as a user waits for it: a 70B model with every setting of the manual's example, and all networks.

    python benchmarks/plan_from.py [--repeats 5] [--json]

Whole processes, from start to exit, the plan written to a file; the fastest and the slowest of some repeats, and the least processor time,
which does not grow where the machine is busy. Limits: 1 s and 20 s.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hotlap.core import plan as plans

SETTINGS = ["--phase", "prefill,decode,train", "--batch", "1,8,64", "--context", "1k,32k", "--tp", "1,8"]
ASKED = {
    "llama-3-70b, 36 steps": (["llama-3-70b", *SETTINGS], 1.0),
    "all networks, usual settings": (["all"], 20.0),
    "all networks, batch 1, 8, 64 and tp 1, 8": (["all", "--batch", "1,8,64", "--tp", "1,8"], 20.0),
}


def main() -> int:
    """Prints a line for each; exit code 1 where one is slower than its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    timings = {name: timed(words, args.repeats) | {"limit_s": limit} for name, (words, limit) in ASKED.items()}
    if args.json:
        print(json.dumps(timings, indent=2))
    else:
        for name, one in timings.items():
            times = f"{min(one['seconds']):.2f} to {max(one['seconds']):.2f} s, {one['processor_s']:.2f} s of a processor"
            print(f"{name:<42} {one['cases']:>6} cases {one['uses']:>6} uses  {times} (limit {one['limit_s']:g} s)")
    return int(any(min(one["seconds"]) > one["limit_s"] for one in timings.values()))


def timed(words: list[str], repeats: int) -> dict[str, Any]:
    """Seconds of whole processes, and what they made."""
    with tempfile.TemporaryDirectory() as folder:
        out, seconds, busy = Path(folder) / "plan.toml", [], []
        for _ in range(repeats):
            began, used = time.perf_counter(), _used()
            subprocess.run([sys.executable, "-m", "hotlap", "plan", "from", *words, "-o", str(out)], check=True, capture_output=True)
            seconds.append(time.perf_counter() - began)
            busy.append(_used() - used)
        plan = plans.load(str(out))
    return {"seconds": seconds, "processor_s": min(busy), "cases": len(plan.cases), "uses": len(plan.uses)}


def _used() -> float:
    """Processor seconds of all children so far."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


if __name__ == "__main__":
    sys.exit(main())
