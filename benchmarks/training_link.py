"""Whether `training run` sees the communication that a shaped link leaves exposed: two ranks of DDP on gloo, each on a node of its own.

    python benchmarks/training_link.py [--mbps 200,100] [--megabytes 2,4,8] [--hides 0,100] [--steps 20]   # needs PyTorch, root, iproute2

The nodes are network namespaces whose links carry so many Mbit/s each way (docs/testbed.md). Each rank sends and receives the gradients'
bytes once: half of them to be added up, half as sums. Of two equal buckets the first is sent `hides` ms before the backward pass ends:
expected is the link's time for the bytes, from when each bucket is ready, less what the pass covers. Nothing is fitted. A link passes its
first 64 kB after a pause at once, so short transfers are up to so much faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.netbed import bed as beds
from tests.netbed.senders import shaped_mbps
from tests.netbed.spec import Spec

from hotlap.core.store import bundle as bundles
from hotlap.training import show_kind
from hotlap.training.record import column

RANK = """
import sys, time, torch, torch.distributed as dist, hotlap

torch.set_num_threads(1)
megabytes, hides, steps = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
rows = round(megabytes * 1e6 / 2 / 4 / 250)  # of each of two buckets
dist.init_process_group("gloo")

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Parameter(torch.ones(rows, 250)), torch.nn.Parameter(torch.ones(rows, 250))
    def forward(self, x):
        between = (self.first * x).sum()
        between.register_hook(lambda gradient: time.sleep(hides))
        return (self.second * between).sum()

model = torch.nn.parallel.DistributedDataParallel(Two(), bucket_cap_mb=0.001)
with hotlap.steps() as t:
    for _ in range(steps):
        model(torch.ones(())).backward()
        t.step(tokens=1)
dist.destroy_process_group()
"""
WARM, WITHIN = 5, 0.10  # steps that are left out; what is called reached


def expected_s(bucket_s: float, hides_s: float) -> float:
    """The second bucket is ready `hides_s` after the first, when the pass ends; a link carries one after the other."""
    return max(bucket_s, hides_s) + bucket_s - hides_s


def exposed_s(bed: beds.Bed, folder: Path, arguments: list[str]) -> list[float]:
    """Of each rank, the median step. Each node runs `hotlap training run` by itself, told its rank as torchrun does."""
    script = folder / "rank.py"
    script.write_text(RANK)
    running = []
    for rank, node in enumerate(bed.spec.names):
        home = folder / f"home-{rank}"
        shutil.rmtree(home, ignore_errors=True)
        environment = {
            "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": bed.spec.address("n01"), "MASTER_PORT": "29511",
            "GLOO_SOCKET_IFNAME": "eth0", "HOTLAP_HOME": str(home), "PYTHONPATH": str(beds.ROOT / "src"), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        asked = ["training", "run", str(script), "--processes", "1", "--data", "real", "--steps", "all", "--limit", "300", "--", *arguments]
        argv = [sys.executable, "-m", "hotlap", *asked]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        running.append((home, bed.popen(argv, node, env=environment, **streams)))
    texts = [process.communicate()[0] for _, process in running]
    medians = []
    for (home, process), text in zip(running, texts, strict=True):
        if process.returncode:
            raise SystemExit(f"a rank ended with {process.returncode}:\n{text}")
        shown = show_kind.read(bundles.load(max((home / "runs").iterdir())))
        assert shown is not None
        medians.append(float(np.median(column(shown.run.launches[0][0].table, "exposed_communication")[WARM:])))
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("mbps", "200,100"), ("megabytes", "2,4,8"), ("hides", "0,100")):
        parser.add_argument(f"--{name}", type=lambda text: [float(one) for one in text.split(",")], default=default)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    if why := beds.missing():
        raise SystemExit(why)
    print(f"load (1 min) {os.getloadavg()[0]:.1f}; medians of {asked.steps - WARM} steps, of both ranks")
    print("link         gradients  covered   expected   exposed                       off")
    reached = count = 0
    with tempfile.TemporaryDirectory(prefix="hotlap-link-", dir="/var/tmp") as name:
        for mbps in asked.mbps:
            with beds.Bed(Spec(nodes=2, leaves=1, node_mbps=mbps)) as bed:
                for megabytes in asked.megabytes:
                    for hides in asked.hides:
                        each = exposed_s(bed, Path(name), [str(megabytes), str(hides / 1e3), str(asked.steps)])
                        wanted = expected_s(megabytes * 1e6 / 2 * 8 / (shaped_mbps(mbps) * 1e6), hides / 1e3)
                        off = float(np.mean(each)) / wanted - 1
                        count, reached = count + 1, reached + (abs(off) <= WITHIN)
                        case = f"{mbps:4g} Mbit/s  {megabytes:6g} MB  {hides:4g} ms  {wanted * 1e3:6.1f} ms  {np.mean(each) * 1e3:6.1f} ms"
                        print(f"{case} [{min(each) * 1e3:6.1f}, {max(each) * 1e3:6.1f}]  {off:+7.1%}", flush=True)
    print(f"{reached} of {count} within {WITHIN:.0%} of bytes ÷ rate; load (1 min) {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
