"""Do the intervals of `--sustain` and `--deadline` hold? Simulated GPUs with a known throttle: how often each interval has the truth.

    python benchmarks/lasting.py [--seeds 200] [--json]

Each seed is two runs of a product that takes about 11 ms, for 2 minutes of the simulated clock in rounds of 2 s; calls scatter by 5 %, and
rounds by 2 % beside:
- throttled: from 60 s on the GPU has 30 % less clock. The ratio sustained ÷ first is 0.7; a deadline of 1.2 times a call's time is missed
  by few calls before and nearly all after
- steady: the deadline is 1.1 times a call's time
How many calls miss it follows from the normal distribution of the logarithms of their times, for the calls that each half of the run had.
`as if independent`: the exact interval of all calls, without a look at rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from hotlap.core.analysis import lasting
from hotlap.core.measure import programs, session
from hotlap.core.plan import measuring
from hotlap.core.record import Plan, Result
from hotlap.core.stats import binomial
from hotlap.core.store import bundle, select
from hotlap.core.work.compute import GEMM

CASE = GEMM.case({"m": 16384, "n": 16384, "k": 16384, "dtype": "fp16"})
NOISE, ROUND_NOISE, SHARE, AT_S = 0.05, 0.02, 0.3, 60.0
TARGET = "simulated:h200-sxm?times=bound&noise={noise}&run_noise={rounds}&seed={seed}"
SPREAD = math.hypot(NOISE, ROUND_NOISE)


class Scene(NamedTuple):
    """`deadline` in times of an undisturbed call."""

    throttled: bool
    deadline: float


SCENES = {"throttled": Scene(True, 1.2), "steady": Scene(False, 1.1)}


def measured(home: Path, target: str, worker: programs.Worker, deadline_s: float, sustain: str = "120 s") -> Result:
    asked = measuring.options({"sustain": sustain, "round_time": "2 s", "readings": 0, **({"deadline": deadline_s} if deadline_s else {})})
    options = session.SessionOptions(target=target, home=home)
    path = session.run(Plan(name="lasting", cases=[CASE], measure=asked), options, lambda *_: None, lasting=worker)
    (result,) = select.results(bundle.load(path))
    return result


def truth(result: Result, scene: Scene) -> float:
    """The share of this run's calls that were to miss the deadline."""
    counts = [0, 0]  # of calls before and after
    for one in result.used:
        length_s = (one.ended_s - one.began_s) / len(one.values)
        for place in range(len(one.values)):
            counts[scene.throttled and one.began_s + place * length_s >= AT_S] += 1
    missing = [1 - NormalDist(0.0, SPREAD).cdf(math.log(scene.deadline * factor)) for factor in (1.0, 1 - SHARE)]
    return (counts[0] * missing[0] + counts[1] * missing[1]) / sum(counts)


def measure(seeds: int) -> dict[str, dict[str, float]]:
    """Of each scene, shares of seeds."""
    held: dict[str, dict[str, float]] = {}
    worker = programs.Worker()
    try:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            quiet = measured(home, TARGET.format(noise=0, rounds=0, seed=1), worker, 0.0, "12 s")
            call_s = quiet.seconds[0]
            for name, scene in SCENES.items():
                counts = {"missed deadlines": 0, "as if independent": 0, **({"sustained ÷ first": 0} if scene.throttled else {})}
                for seed in range(1, seeds + 1):
                    fault = f"&throttle={SHARE}@{AT_S:g}s" if scene.throttled else ""
                    target = TARGET.format(noise=NOISE, rounds=ROUND_NOISE, seed=seed) + fault
                    for what, inside in _inside(measured(home, target, worker, scene.deadline * call_s), scene, call_s).items():
                        counts[what] += inside
                held[name] = {what: count / seeds for what, count in counts.items()}
    finally:
        worker.end()
    return held


def _inside(result: Result, scene: Scene, call_s: float) -> dict[str, bool]:
    found, true = lasting.deadlines(result, scene.deadline * call_s), truth(result, scene)
    assert found.low is not None
    assert found.high is not None
    low, high = binomial.interval(found.missed, found.calls)
    inside = {"missed deadlines": found.low <= true <= found.high, "as if independent": low <= true <= high}
    if scene.throttled:
        rate = lasting.sustained(result)
        assert not isinstance(rate, str)
        inside["sustained ÷ first"] = rate.low is not None and rate.high is not None and rate.low <= 1 - SHARE <= rate.high
    return inside


def main() -> int:
    parser = argparse.ArgumentParser(description="how often intervals of sustained rates and missed deadlines hold")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    held = measure(args.seeds)
    if args.json:
        print(json.dumps(held, indent=2))
        return 0
    print(f"{args.seeds} seeds: 95 % intervals that have the truth")
    for name, shares in held.items():
        for what, share in shares.items():
            print(f"{name:<10} {what:<18} {share:6.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
