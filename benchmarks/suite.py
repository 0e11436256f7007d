"""CPU time of the test suite: user and system of `make` and of everything it starts, and the dearest tests.

    python benchmarks/suite.py [test-quick] [test] [--top 20] [--json]

Installation is done before and not counted. Exit 1 where a suite fails or takes more than it may.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ALLOWED_S = {"test-quick": 100.0, "test": 800.0}  # user + system
ADOPT = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl: children whose parent has ended are ours, and counted


def spent_s() -> tuple[float, float]:
    """User and system seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime, used.ru_stime


def measured(target: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        costs = Path(folder) / "costs.jsonl"
        before, began = spent_s(), time.perf_counter()
        environment = {**os.environ, "HOTLAP_TEST_COST": str(costs)}
        done = subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, env=environment, check=False)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        after, wall_s = spent_s(), time.perf_counter() - began
        tests: dict[str, float] = defaultdict(float)
        for line in costs.read_text(encoding="utf-8").splitlines() if costs.is_file() else ():
            one = json.loads(line)
            tests[one["test"]] += one["cpu_s"]
    user_s, system_s = after[0] - before[0], after[1] - before[1]
    return {
        "suite": target,
        "exit": done.returncode,
        "user_s": user_s,
        "system_s": system_s,
        "cpu_s": user_s + system_s,
        "allowed_s": ALLOWED_S.get(target),
        "wall_s": wall_s,
        "load": os.getloadavg()[0],
        "tests": dict(sorted(tests.items(), key=lambda item: -item[1])),
    }


def shown(figures: dict[str, Any], top: int) -> None:
    allowed = f", {figures['allowed_s']:.0f} s are allowed" if figures["allowed_s"] else ""
    print(f"\nmake {figures['suite']}: {len(figures['tests'])} tests, exit {figures['exit']}")
    print(f"{figures['cpu_s']:.1f} s of CPU time ({figures['user_s']:.1f} user, {figures['system_s']:.1f} system){allowed}")
    print(f"{figures['wall_s']:.0f} s of wall time on {os.cpu_count()} cores, load {figures['load']:.1f} at the end")
    own = sum(figures["tests"].values())
    print(f"{own:.1f} s in tests, {figures['cpu_s'] - own:.1f} s in starting, imports and collection")
    for test, cpu_s in list(figures["tests"].items())[:top]:
        print(f"{cpu_s:8.2f} s  {test}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", default=["test-quick", "test"], help="targets of make: test-quick, test, test-all, nightly")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT, 1)
    subprocess.run([ROOT / "scripts" / "setup.sh", "test"], check=True)
    found = [measured(one) for one in asked.suites]
    if asked.json:
        print(json.dumps(found, indent=1))
    for one in () if asked.json else found:
        shown(one, asked.top)
    return int(any(one["exit"] or (one["allowed_s"] or 1e9) < one["cpu_s"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
