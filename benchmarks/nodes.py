"""A fleet of simulated nodes: CPU time of measuring it, of the whole tree of processes, and whether the slow devices are named.

    python benchmarks/nodes.py [--nodes 200] [--count 8] [--json]

20 cases in 3 rounds of 2 s, noise of 1 % within and 0.3 % between rounds, devices 0.2 % apart; device 3 of one node is 5 % slow. Then
node 0 is measured alone: its samples and readings must be the same, byte for byte. Exit 1 where they are not, or 200 nodes of 8
devices take more than 400 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ALLOWED_S = 400.0 / (200 * 8)  # a device
PLAN = """
schema = 1
name = "fleet"
[measure]
rounds = 3
rounds_max = 3
round_time = "2 s"
seed = 7
[[case]]
workload = "stream"
op = ["read", "write", "copy", "triad"]
size = ["256 MiB", "1 GiB"]
[[case]]
workload = "gemm"
m = [1024, 4096, 8192]
n = 4096
k = 4096
dtype = ["bf16", "fp8"]
[[case]]
workload = "chase"
size = ["1 MiB", "256 MiB"]
[[case]]
workload = "transfer"
direction = ["h2d", "d2h"]
size = "256 MiB"
[[case]]
workload = "rowwise"
op = ["softmax", "rmsnorm"]
rows = 8192
columns = 4096
"""


def spent_s() -> float:
    """User and system seconds of all processes started here that have ended, and of those that they waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def hotlap(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "hotlap", *arguments]
    return subprocess.run(command, env={**os.environ, "HOTLAP_HOME": str(home)}, check=True, stdout=subprocess.PIPE, text=True).stdout


def kept(home: Path, host: str = "") -> bytes:
    """Samples and readings of the one run on this host; "" is any."""
    records = {path: json.loads((path / "run.json").read_bytes()) for path in (home / "runs").iterdir()}
    runs = [path for path, record in records.items() if host in ("", record["machine"]["host"])]
    assert len(runs) == 1
    return (runs[0] / "samples.jsonl").read_bytes() + (runs[0] / "readings.log").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--count", type=int, default=8, help="devices of a node")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    target = f"simulated:h200-sxm?count={args.count}&noise=0.01&run_noise=0.003&spread=0.002&seed=7"
    slow = f"&nodes={args.nodes}&slow=0.05@{args.nodes // 2}.{min(3, args.count - 1)}"
    with tempfile.TemporaryDirectory() as folder:
        many, alone, plan = Path(folder, "many"), Path(folder, "alone"), Path(folder, "plan.toml")
        plan.write_text(PLAN)
        answer = json.loads(hotlap(many, "run", str(plan), "--target", target + slow, "--device", "all", "--json"))
        seconds = spent_s()
        hotlap(alone, "run", str(plan), "--target", target, "--device", "all", "--no-report", "--json")
        same = kept(alone) == kept(many, f"node{0:0{len(str(args.nodes - 1))}}")
    figures = {
        "nodes": args.nodes, "devices": args.nodes * args.count, "runs": len(answer["runs"]), "cpu_s": seconds,
        "allowed_s": ALLOWED_S * args.nodes * args.count, "node 0 as alone": same,
    }
    if args.json:
        print(json.dumps(figures, indent=2))
    else:
        what = f"{figures['runs']} nodes of {args.count} devices, 20 cases, 3 rounds"
        print(f"{what}: {seconds:.0f} CPU s, {figures['allowed_s']:.0f} allowed")
        print(f"node 0 and the same machine alone: {'the same bytes' if same else 'OTHER BYTES'}")
    return 0 if same and len(answer["runs"]) == args.nodes and (args.nodes < 20 or seconds <= figures["allowed_s"]) else 1


if __name__ == "__main__":
    sys.exit(main())
