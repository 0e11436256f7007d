"""Two ranks that sum their gradients, one of which has three times the work. With --fix, both have the same.

    python examples/slow_rank.py --trace ranks && hotlap trace ranks/rank0.json ranks/rank1.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

RANKS, WIDTH, WARM = 2, 256, 4
SHARES = {False: (8, 24), True: (16, 16)}  # products of matrices that each rank has to do in a step: in all the same


def work(rank: int, meeting: str, args: argparse.Namespace) -> None:
    """What one rank does."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    weight, gradient = torch.randn(WIDTH, WIDTH) / WIDTH**0.5, torch.ones(WIDTH, WIDTH)
    recorder = None
    if args.trace:
        window = schedule(wait=0, warmup=WARM, active=args.steps - WARM, repeat=1)
        recorder = profile(activities=[ProfilerActivity.CPU], schedule=window)
        recorder.start()
    times = [time.perf_counter()]
    for _ in range(args.steps):
        for _ in range(SHARES[args.fix][rank]):
            gradient = torch.tanh(weight @ gradient)
        dist.all_reduce(gradient)
        times.append(time.perf_counter())
        if recorder:
            recorder.step()
    if recorder:
        recorder.stop()
        recorder.export_chrome_trace(str(Path(args.trace) / f"rank{rank}.json"))
    if rank == 0:
        print(f"median step {1e3 * statistics.median(b - a for a, b in pairwise(times[WARM:])):.3f} ms", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="share the work evenly")
    parser.add_argument("--trace", metavar="FOLDER", help="record the steps after the first few, a file for each rank")
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    if args.trace:
        os.makedirs(args.trace, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # Forked processes end without taking Python apart, which the Gloo threads that the profiler keeps alive may abort.
        torch.multiprocessing.start_processes(work, (os.path.join(folder, "meeting"), args), nprocs=RANKS, start_method="fork")


if __name__ == "__main__":
    main()
