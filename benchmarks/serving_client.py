"""The load generator of `hotlap serving bench`, measured: how late it hands requests to the socket, and whether it says so when starved.

    python benchmarks/serving_client.py            both, two minutes on two cores
    python benchmarks/serving_client.py --only lag

`lag`: 500 requests a second, constant, to a server on another core. Asked: p50 < 0.3 ms and p90 < 1 ms, on a core whose run delay is < 1 %;
where others are busy on it it says so and judges nothing. `starved`: 20 runs whose client may run 5 of every 25 ms, as by a quota of
processor time; each must end `inconclusive: the client`. Programs that spin on its core do not starve it: Linux lets who sleeps go first.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
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


def bench(url: str, core: int, home: str, *more: str, held: bool = False) -> dict:
    """One run with the client on one core: what it says of itself. `held`: it may run a fifth of the time."""
    command = [sys.executable, "-m", "hotlap", "serving", "bench", url, *more, "--output", "2", "--input", "16", "--json"]
    environment = {**os.environ, "HOTLAP_HOME": home, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    ) as process:
        while held and process.poll() is None:
            hold(process.pid)
        out, err = process.communicate()
    if not out:
        sys.exit(f"serving_client: {err}")
    return json.loads(out)["serving"]


def hold(pid: int, stopped_s: float = 0.02, running_s: float = 0.005) -> None:
    """Stops the load generator of a bench for a while, then lets it run for a shorter one."""
    try:
        held = generators(pid)
        for number, seconds in ((signal.SIGSTOP, stopped_s), (signal.SIGCONT, running_s)):
            for generator in held:
                os.kill(generator, number)
            time.sleep(seconds)
    except (FileNotFoundError, ProcessLookupError):  # it ended
        time.sleep(0.005)


def generators(pid: int) -> list[int]:
    """Load generators that a bench started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"hotlap.serving.generator" in Path(f"/proc/{child}/cmdline").read_bytes()]


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
    asked = ("--arrivals", "poisson:50", "--requests", "100")
    answers = [bench(url, core, home, *asked, "--seed", str(seed), held=True) for seed in range(20)]
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
    print(f"load     {', '.join(f'{load:.1f}' for load in os.getloadavg())} (1, 5, 15 min), {len(cores)} cores", flush=True)
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
