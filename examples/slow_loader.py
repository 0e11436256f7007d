"""Training that waits for its data: every batch is read in the process itself. With --fix, workers read ahead.

    python examples/slow_loader.py --trace slow.json && hotlap trace slow.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

BATCH, READ_S = 8, 1e-3  # a sample takes this long to come from storage
WIDTH, WARM = 512, 4


class Stored(Dataset):
    """Samples behind a slow storage."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(READ_S)
        return torch.full((WIDTH,), index / self.samples), torch.tensor(index % 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="read ahead in two worker processes")
    parser.add_argument("--trace", metavar="OUT", help="record the steps after the first few into this file")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    workers = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4} if args.fix else {}
    data = DataLoader(Stored(BATCH * args.steps), BATCH, **workers)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 10))
    model.to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (args.device == "cuda")
    window = schedule(wait=0, warmup=WARM, active=args.steps - WARM, repeat=1)
    recorder = profile(activities=activities, schedule=window) if args.trace else None
    if recorder:
        recorder.start()
    times = [time.perf_counter()]
    for inputs, labels in data:
        loss = torch.nn.functional.cross_entropy(model(inputs.to(args.device)), labels.to(args.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter())
        if recorder:
            recorder.step()
    if recorder:
        recorder.stop()
        recorder.export_chrome_trace(args.trace)
    steps = [b - a for a, b in pairwise(times[WARM:])]
    print(f"median step {1e3 * statistics.median(steps):.3f} ms")


if __name__ == "__main__":
    main()
