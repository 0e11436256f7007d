"""The load generator of `hotlap serving bench`, measured: how late it hands requests to the socket, and whether it says so when starved.

    python benchmarks/serving_client.py            both, two minutes on two cores
    python benchmarks/serving_client.py --only lag

`lag`: 500 requests a second, constant, to a server on another core. Asked: p50 < 0.3 ms and p90 < 1 ms, on a core whose run delay is < 1 %;
where others are busy on it the figure says so and judges nothing. `starved`: 20 runs with four spinning programs on the client's core; each
must end `inconclusive: the client`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = """
import os, sys
sys.path.insert(0, {root!r})
os.sched_setaffinity(0, {{{core}}})
from tests.serving.sse_server import serving
with serving(service_s={service_s}, workers=4) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


def bench(url: str, core: int, home: str, *more: str) -> dict:
    """One run with the client on one core: what it says of itself."""
    command = [sys.executable, "-m", "hotlap", "serving", "bench", url, *more, "--output", "2", "--input", "16", "--json"]
    environment = {**os.environ, "HOTLAP_HOME": home, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    if not done.stdout:
        sys.exit(f"serving_client: {done.stderr}")
    return json.loads(done.stdout)["serving"]


def lag(url: str, core: int, home: str) -> bool:
    client = bench(url, core, home, "--arrivals", "constant:500", "--requests", "5000", "--api", "embeddings")["client"]
    p50, p90, p99, most = (1e3 * value for value in client["lag_s"])
    delay = client["run_delay_share"]
    print(f"lag      500 requests/s: p50 {p50:.3f} ms, p90 {p90:.3f} ms, p99 {p99:.3f} ms, largest {most:.3f} ms")
    print(f"         {client['cpu_share']:.1%} of a core")
    if delay is None or delay >= 0.01:
        print(f"         others were busy: run delay {delay:.1%} of the time, not judged")
        return True
    print(f"         run delay {delay:.1%}: {'holds' if p50 < 0.3 and p90 < 1 else 'does not hold'}")
    return p50 < 0.3 and p90 < 1


def starved(url: str, core: int, home: str) -> bool:
    spinning = [
        subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]) for _ in range(4)
    ]
    try:
        answers = [bench(url, core, home, "--arrivals", "poisson:50", "--requests", "100", "--seed", str(seed)) for seed in range(20)]
    finally:
        for process in spinning:
            process.kill()
    named = sum(bool(answer["client"]["flaws"]) for answer in answers)
    print(f"starved  inconclusive: the client in {named} of {len(answers)}")
    return named == len(answers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("lag", "starved"), help="one of the figures")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("serving_client: two cores are needed, one for the server and one for the client")
    held = []
    with tempfile.TemporaryDirectory() as home:
        for name, figure, service_s in (("lag", lag, 0.001), ("starved", starved, 0.02)):
            if args.only in (None, name):
                code = SERVER.format(root=str(ROOT), core=cores[1], service_s=service_s)
                with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                    held.append(figure(server.stdout.readline().strip(), cores[0], home))
                    server.stdin.close()
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
