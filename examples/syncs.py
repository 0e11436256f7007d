"""A training loop that asks the device for its loss after every layer (.item()). With --fix it asks once, at the end. Needs CUDA.

    python examples/syncs.py --trace syncs.json && hotlap trace syncs.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from itertools import pairwise

import torch
from torch.profiler import ProfilerActivity, profile, schedule

LAYERS, WIDTH, ROWS, WARM = 24, 1024, 512, 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="keep what is watched on the device, and read it once at the end")
    parser.add_argument("--trace", metavar="OUT", help="record the steps after the first few into this file")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("syncs.py: there is no CUDA device here, and on a processor .item() waits for nothing", file=sys.stderr)
        return 2
    layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)).cuda()
    inputs = torch.randn(ROWS, WIDTH, device="cuda")
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    window = schedule(wait=0, warmup=WARM, active=args.steps - WARM, repeat=1)
    recorder = profile(activities=activities, schedule=window) if args.trace else None
    if recorder:
        recorder.start()
    watched: list[float | torch.Tensor] = []
    times = [time.perf_counter()]
    with torch.no_grad():
        for _ in range(args.steps):
            state = inputs
            for layer in layers:
                state = torch.relu(layer(state))
                largest = state.abs().amax()
                watched.append(largest if args.fix else largest.item())
            if len(times) == WARM or len(times) == args.steps:
                torch.cuda.synchronize()
            times.append(time.perf_counter())
            if recorder:
                recorder.step()
    torch.cuda.synchronize()
    if recorder:
        recorder.stop()
        recorder.export_chrome_trace(args.trace)
    last = float(watched[-1])
    print(f"largest value {last:.3g}")
    print(f"mean step {1e3 * (times[-1] - times[WARM]) / (args.steps - WARM):.3f} ms")
    print(f"median step {1e3 * statistics.median(b - a for a, b in pairwise(times[WARM:])):.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
