"""A loop in Python over the elements of a tensor: each operator does next to nothing. With --fix, one operator does them all.

    python examples/tiny_operators.py --trace tiny.json && hotlap trace tiny.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import torch
from torch.profiler import ProfilerActivity, profile, schedule

ITEMS, WIDTH, WARM = 500, 64, 4


def one_by_one(signal: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A weighted sum of every row."""
    sums = []
    for row in signal:
        sums.append((row * weight).sum())
    return torch.stack(sums)


def at_once(signal: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The same."""
    return signal @ weight


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="one product of a matrix and a vector")
    parser.add_argument("--trace", metavar="OUT", help="record the steps after the first few into this file")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    weighted = at_once if args.fix else one_by_one
    signal = torch.randn(ITEMS, WIDTH, device=args.device)
    weight = torch.randn(WIDTH, device=args.device)
    mixing = torch.randn(192, 192, device=args.device)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (args.device == "cuda")
    window = schedule(wait=0, warmup=WARM, active=args.steps - WARM, repeat=1)
    recorder = profile(activities=activities, schedule=window) if args.trace else None
    if recorder:
        recorder.start()
    times = [time.perf_counter()]
    for _ in range(args.steps):
        mixed = torch.tanh(mixing @ mixing)  # what the step is really for
        weighted(signal, weight).add_(mixed.mean())
        times.append(time.perf_counter())
        if recorder:
            recorder.step()
    if args.device == "cuda":
        torch.cuda.synchronize()
    if recorder:
        recorder.stop()
        recorder.export_chrome_trace(args.trace)
    steps = [b - a for a, b in pairwise(times[WARM:])]
    print(f"median step {1e3 * statistics.median(steps):.3f} ms")


if __name__ == "__main__":
    main()
