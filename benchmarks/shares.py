"""Shares of published traces by Hotlap and by HTA: who says what of the same file, and over which window.

    python benchmarks/shares.py TRACE… --hta PYTHON

`--hta` names a Python that has HolisticTraceAnalysis 0.5.0, as in benchmarks/traces.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from hotlap.traces.timeline import Timeline

AGREE = 0.1  # percentage points of idle time
THEIRS = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
row = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="").get_temporal_breakdown(visualize=False).iloc[0]
print(json.dumps({key: float(row[key]) for key in ("idle_time_pctg", "compute_time_pctg", "kernel_time(us)")}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--hta", required=True, metavar="PYTHON")
    options = parser.parse_args()
    print(f"{'':<44}{'idle %':>10}{'':>9}{'compute %':>11}{'':>9}{'window ms':>12}{'':>10}")
    print(f"{'':<44}{'Hotlap':>10}{'HTA':>9}{'Hotlap':>11}{'HTA':>9}{'Hotlap':>12}{'HTA':>10}")
    apart = 0
    for trace in options.traces:
        ours = Timeline.open(trace, "breakdown").breakdown()
        done = subprocess.run([options.hta, "-c", THEIRS, str(trace)], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{trace.name:<44}HTA fails: {done.stderr.strip().splitlines()[-1][:80]}")
            continue
        theirs = json.loads(done.stdout.splitlines()[-1])
        idle, compute = 100 * (ours.idle_share or 0.0), 100 * (ours.compute_share or 0.0)
        apart += abs(idle - theirs["idle_time_pctg"]) > AGREE
        print(f"{trace.name[:43]:<44}{idle:>10.2f}{theirs['idle_time_pctg']:>9.2f}{compute:>11.2f}{theirs['compute_time_pctg']:>9.2f}"
              f"{1e3 * ours.window_s:>12.2f}{theirs['kernel_time(us)'] / 1e3:>10.2f}")
    print(f"idle time differs by more than {AGREE} percentage points in {apart} of {len(options.traces)}")


if __name__ == "__main__":
    sys.exit(main())
