"""What Hotlap itself costs: start-up, imports, bookkeeping between samples.

    python benchmarks/cost.py [--json]

Start-up and imports: best of 7 fresh processes. Bookkeeping: median time from the end of one timed region to the start of
the next, as the loop records it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

IMPORTS = "hotlap.cli.run, hotlap.core.measure.worker, hotlap.core.measure.session"


def fresh(*argv: str) -> float:
    """Best of 7 whole processes, s."""
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run([sys.executable, *argv], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def bookkeeping() -> dict[str, float]:
    from hotlap.core import work
    from hotlap.core.measure import targets
    from hotlap.core.measure.loop import CaseBudget, measure
    from hotlap.core.record import Case

    spec = targets.parse("opencl:cpu")
    target = targets.open_device(spec, targets.find(spec)[0])
    case = Case(workload="launch", params=work.find("launch").parse({"mode": "stream"}))
    samples = measure(target, case, CaseBudget(seconds=1.0))
    assert samples.bookkeeping_s is not None
    return {"bookkeeping_s": samples.bookkeeping_s, "samples": len(samples.values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    bare = fresh("-c", "pass")
    figures = {
        "python_s": bare, "help_s": fresh("-m", "hotlap", "--help"), "run_help_s": fresh("-m", "hotlap", "run", "--help"),
        "import_run_s": fresh("-c", f"import {IMPORTS}") - bare, **bookkeeping(),
    }
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    print(f"bare interpreter                {figures['python_s'] * 1e3:7.1f} ms")
    print(f"hotlap --help                   {figures['help_s'] * 1e3:7.1f} ms   promised < 250")
    print(f"hotlap run --help               {figures['run_help_s'] * 1e3:7.1f} ms   promised < 250")
    print(f"imports of hotlap run           {figures['import_run_s'] * 1e3:7.1f} ms   promised < 300")
    print(f"bookkeeping between samples     {figures['bookkeeping_s'] * 1e6:7.1f} µs   promised < 20, {figures['samples']} samples")


if __name__ == "__main__":
    main()
