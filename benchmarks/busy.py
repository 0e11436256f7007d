"""What a look at the machine expects of noise, beside what is seen: fixed work on every core, with spinners that are on for a share of
the time.

    python benchmarks/busy.py [--rounds 9] [--work 0.4] [--json]

At each level: one look, with the spinners alone running; then rounds of the same work, one process for each core at once. A round is
how many times its processor time the work took by the wall clock, of the process that took longest. Off is the median over rounds,
less 1; ± is half the 95 % interval of it. Other programs on the machine count too, in both columns.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import time
from typing import Any

from hotlap.core.measure.machine.busy import look
from hotlap.core.measure.targets.host import describe
from hotlap.core.show.busy import warning
from hotlap.core.stats.busy import expected_noise
from hotlap.core.stats.order import interval

LEVELS = ((0, 0.0), (1, 0.2), (1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0), (4, 1.0))  # spinners, each on for this share of the time
SHOWN = ("others", "steal", "expected", "off", "half_width")
PERIOD_S = 0.5  # of on and off together, on average: exponential, each spinner by itself


def spin(share: float, seed: int) -> None:
    """On and off until it is ended."""
    drawn = random.Random(seed)
    while True:
        until = time.monotonic() + drawn.expovariate(1 / (PERIOD_S * share))
        while time.monotonic() < until:
            pass
        if share < 1:
            time.sleep(drawn.expovariate(1 / (PERIOD_S * (1 - share))))


def worked(turns: int, pipe: Any) -> None:
    """The work, once; sends its wall time and its processor time."""
    before, began = time.process_time(), time.monotonic()
    x = 0
    for i in range(turns):
        x += i * i
    pipe.send((time.monotonic() - began, time.process_time() - before))


def round_of(turns: int, cores: int) -> tuple[float, float]:
    """Of the process that took longest: its wall time over its processor time, and the latter in s."""
    pipes = [multiprocessing.Pipe() for _ in range(cores)]
    made = [multiprocessing.Process(target=worked, args=(turns, ours)) for ours, _ in pipes]
    for one in made:
        one.start()
    wall_s, own_s = max(theirs.recv() for _, theirs in pipes)
    for one in made:
        one.join()
    return wall_s / own_s, own_s


def level(spinners: int, share: float, turns: int, rounds: int, cores: int) -> dict[str, Any]:
    processes = [multiprocessing.Process(target=spin, args=(share, 20261122 + number), daemon=True) for number in range(spinners)]
    for process in processes:
        process.start()
    time.sleep(0.3)
    try:
        seen = look([describe()])
        ratios = [round_of(turns, cores)[0] for _ in range(rounds)]
    finally:
        for process in processes:
            process.terminate()
            process.join()
    middle, found = statistics.median(ratios), interval(ratios)
    return {
        "spinners": spinners, "share": share, "others": seen.others_share, "runnable": seen.runnable, "steal": seen.steal_share,
        "expected": expected_noise(seen), "off": middle - 1, "half_width": (found[1] - found[0]) / 2 / middle if found else None,
        "said": warning(seen),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--work", type=float, default=0.4, help="processor time of the work on each core, s")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    turns, (_, once_s) = 1_000_000, round_of(1_000_000, cores)
    turns = round(turns * args.work / once_s)
    rows = []
    for spinners, share in LEVELS:
        rows.append(level(spinners, share, turns, args.rounds, cores))
        if not args.json:
            one = rows[-1]
            shares = "  ".join(f"{one[name]:9.0%}" if one[name] is not None else "        –" for name in SHOWN)
            if len(rows) == 1:
                print(f"{cores} cores, load {os.getloadavg()[0]:.1f}\nspinners × on     others      steal   expected        off          ±")
            print(f"{spinners:8d} × {share:.1f}  {shares}", flush=True)
    if args.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
