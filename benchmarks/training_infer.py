"""Our MLPerf rules against LoadGen itself: how many queries early stopping asks for, and which short runs are valid.

    python benchmarks/training_infer.py [--most 100] [--runs 40] [--seconds 1.0]

Needs `pip install mlcommons-loadgen`. First: for each percentile and so many queries over the limit, LoadGen runs exactly those queries,
all too late, and says how many it lacks. Then LoadGen runs a system of known service times, with its settings overridden; beside what it
decides stand our rules on the latencies of its own trace, and our own load generator on the same system by the same settings.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from hotlap.training import loadgen_rules, official, scenarios
from hotlap.training.loadgen_rules import RunRules, Scenario
from hotlap.training.scenarios import Answer, ScenarioLoad

PERCENTILES = (0.9, 0.95, 0.97, 0.99, 0.999)
MS = 1e-3


class System(NamedTuple):
    """A scenario on a system that takes `service_s` a sample, a share of them `slow` times as long."""

    scenario: Scenario
    service_s: float
    rules: RunRules
    load: ScenarioLoad
    slow: float = 1.0
    slow_share: float = 0.0


def counts(most: int) -> int:
    """Prints how many of the counts differ."""
    differ, asked, began = 0, 0, time.perf_counter()
    for percentile in PERCENTILES:
        shown = []
        for over in range(most + 1):
            rules = RunRules(scenario="server", min_s=0, min_queries=max(over, 1), percentile=percentile, bound_s=1e-9 if over else 1e3)
            judged = official.run(lambda first, count: None, rules, ScenarioLoad(rate=1e6), max(over, 1))
            ours = loadgen_rules.queries_needed(over, percentile)
            asked, differ = asked + 1, differ + (judged.needed != ours)
            if over in (0, 1, 5, 10, most):
                shown.append(f"{over}: {ours} ({judged.needed})")
        print(f"p{percentile * 100:g}  over: ours (LoadGen's)   {'  '.join(shown)}", flush=True)
    print(f"{asked - differ} of {asked} counts equal, in {time.perf_counter() - began:.0f} s")
    return differ


def systems(seconds: float) -> list[System]:
    """Runs that should be valid, and runs that break each rule."""
    every = []
    for percentile in (0.9, 0.99):
        for share in (0.6, 1.5):  # of the queries that early stopping needs
            needed = loadgen_rules.queries_needed(1, percentile)
            service_s = min(seconds / (needed * share), 20 * MS)
            rules = RunRules(scenario="single", min_s=seconds, percentile=percentile)
            every.append(System("single", service_s, rules, ScenarioLoad(rate=1 / service_s)))
            rules = RunRules(scenario="multi", min_s=seconds, percentile=percentile)
            every.append(System("multi", service_s / 8, rules, ScenarioLoad(rate=8 / service_s)))
    for within, share in ((20 * MS, 0.0), (20 * MS, 0.002), (20 * MS, 0.05), (0.5 * MS, 0.0), (100 * MS, 0.02)):
        for rate in (300.0, 600.0):
            rules = RunRules(scenario="server", min_s=seconds, percentile=0.99, bound_s=within)
            every.append(System("server", 1 * MS, rules, ScenarioLoad(rate=rate), 40.0, share))
    for expected in (0.5, 1.5):  # of the samples that fill the time
        rules = RunRules(scenario="offline", min_s=seconds)
        every.append(System("offline", 1 * MS, rules, ScenarioLoad(rate=1000 * expected)))
    return every


def answering(system: System, seed: int) -> Answer:
    """Sleeps for as long as each sample takes."""
    random = np.random.default_rng(seed)

    def answer(first: int, count: int) -> None:
        times = system.service_s * (1 + (system.slow - 1) * (random.random(count) < system.slow_share))
        until = time.perf_counter() + float(times.sum())
        while (left := until - time.perf_counter()) > 0:
            time.sleep(max(left - 2e-4, 0))

    return answer


def validity(runs: int, seconds: float) -> int:
    """Prints each run; how many of them our rules judge otherwise than LoadGen."""
    differ, apart, valid, every = 0, 0, 0, systems(seconds)
    print("\nscenario  asked                            queries  LoadGen  ours on its latencies  ours by our generator")
    for number in range(runs):
        system = every[number % len(every)]
        load = system.load._replace(seed=number)
        judged = official.run(answering(system, number), system.rules, load)
        ours = loadgen_rules.judge(system.rules, judged.measured.latencies_s, judged.measured.issued_s)
        measured = scenarios.run(answering(system, number), system.rules, load)  # the same queries are slow
        again = loadgen_rules.judge(system.rules, measured.latencies_s, measured.issued_s)
        differ, apart, valid = differ + (ours.valid != judged.valid), apart + (again.valid != judged.valid), valid + judged.valid
        within = f" within {system.rules.bound_s:g} s, {load.rate:g}/s" if system.rules.bound_s else ""
        asked = f"p{system.rules.percentile * 100:g}{within}"
        words = [{True: "VALID", False: "INVALID"}[one] for one in (judged.valid, ours.valid, again.valid)]
        queries = len(judged.measured.latencies_s)
        print(f"{system.scenario:<9} {asked:<32} {queries:>7}  {words[0]:<8} {words[1]:<22} {words[2]}", flush=True)
    print(f"{runs - differ} of {runs} runs judged as LoadGen does ({valid} VALID); runs by our own generator: {runs - apart}")
    return differ


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="queries over the limit")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run, at most 3")
    args = parser.parse_args()
    if not official.version():
        print("not run: LoadGen is not installed; pip install mlcommons-loadgen")
        return 3
    print(f"LoadGen {official.version()}")
    return 1 if counts(args.most) + validity(args.runs, min(args.seconds, 3.0)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
