"""Our MLPerf rules against LoadGen itself: how many queries early stopping asks for, and which short runs are valid.

    python benchmarks/training_infer.py [--most 100] [--runs 40] [--boundary 12] [--seconds 1.0]

Needs `pip install mlcommons-loadgen`. First: for each percentile and so many queries over the limit, LoadGen runs exactly those queries,
all too late, and says how many it lacks. Then LoadGen runs systems of known service times, with its settings overridden. Three agreements:

- same run: our rules on the latencies of LoadGen's own trace. Two judges of one record; only here must all be equal.
- LoadGen twice: a second run of LoadGen by the same settings, of another seed, as ours is. Where chance decides, it differs from itself.
- our generator: our own run on the same system by the same settings.

In `--runs` the settings are far from where the verdict turns; in `--boundary` they are at it, and each says why.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import NamedTuple

import numpy as np

from hotlap.training import loadgen_rules, official, scenarios
from hotlap.training.loadgen_rules import RunRules, Scenario
from hotlap.training.scenarios import Answer, ScenarioLoad

PERCENTILES = (0.9, 0.95, 0.97, 0.99, 0.999)
MS = 1e-3
SINGLE: Scenario = "single"
MULTI: Scenario = "multi"


class System(NamedTuple):
    """A scenario on a system that takes `service_s` a sample, a share of them `slow` times as long."""

    scenario: Scenario
    service_s: float
    rules: RunRules
    load: ScenarioLoad
    slow: float = 1.0
    slow_share: float = 0.0
    why: str = ""  # the verdict turns


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


def _one_by_one(scenario: Scenario, percentile: float, share: float, seconds: float, why: str = "") -> System:
    """`share`: of the queries that early stopping needs."""
    service_s = min(seconds / (loadgen_rules.queries_needed(1, percentile) * share), 20 * MS)
    size = loadgen_rules.PER_QUERY if scenario == "multi" else 1
    rules = RunRules(scenario=scenario, min_s=seconds, percentile=percentile)
    return System(scenario, service_s / size, rules, ScenarioLoad(rate=size / service_s), why=why)


def _server(within: float, queries: float, seconds: float, slow_share: float = 0.0, why: str = "") -> System:
    """`queries`: expected in all; a share of them takes 20 ms in place of 0.5 ms."""
    rules = RunRules(scenario="server", min_s=seconds, percentile=0.99, bound_s=within)
    return System("server", 0.5 * MS, rules, ScenarioLoad(rate=queries / seconds), 40.0, slow_share, why)


def systems(seconds: float) -> list[System]:
    """Runs that should be valid, and runs that break each rule, all by far."""
    every = [
        _one_by_one(scenario, percentile, share, seconds)
        for percentile in (0.9, 0.99) for share in (0.6, 3.0) for scenario in (SINGLE, MULTI)
    ]  # fmt: skip
    valid = ((200 * MS, 850), (200 * MS, 950), (300 * MS, 1050), (300 * MS, 1150))
    few = ((200 * MS, 200), (200 * MS, 300))  # of 459
    late = ((0.3 * MS, 400), (0.3 * MS, 700))
    every += [_server(within, queries, seconds) for within, queries in (*valid, *few, *late)]
    every += [_server(5 * MS, queries, seconds, 0.2) for queries in (300, 600)]
    for expected in (0.5, 1.5):  # of the samples that fill the time
        rules = RunRules(scenario="offline", min_s=seconds)
        every.append(System("offline", 1 * MS, rules, ScenarioLoad(rate=1000 * expected)))
    return every


def boundary(seconds: float) -> list[System]:
    """Runs whose verdict turns by chance."""
    return [
        _one_by_one(SINGLE, 0.99, 1.02, seconds, "as many queries as are needed, or one fewer"),
        _server(10 * MS, 600, seconds, 0.002, "one slow query in 500, and those that wait for it"),
        _server(200 * MS, 459, seconds, why="Poisson arrivals: 459 are expected and 459 needed"),
        _server(2 * MS, 700, seconds, why="a bound of four services, which a wait of another reaches"),
    ]


def answering(system: System, seed: int) -> Answer:
    """Sleeps for as long as each sample takes."""
    random = np.random.default_rng(seed)

    def answer(first: int, count: int) -> None:
        times = system.service_s * (1 + (system.slow - 1) * (random.random(count) < system.slow_share))
        until = time.perf_counter() + float(times.sum())
        while (left := until - time.perf_counter()) > 0:
            time.sleep(max(left - 2e-4, 0))

    return answer


def validity(name: str, every: list[System], runs: int) -> int:
    """Prints each run; how many of them our rules judge otherwise than LoadGen."""
    same = twice = own = valid = 0
    print(f"\n{name}\nscenario  asked                            queries  LoadGen  same run  LoadGen twice  our generator")
    for number in range(runs):
        system = every[number % len(every)]
        load = system.load._replace(seed=number)
        judged = official.run(answering(system, number), system.rules, load)
        again = official.run(answering(system, number), system.rules, load._replace(seed=1000 + number))
        measured = scenarios.run(answering(system, number), system.rules, load)  # the same queries are slow
        ours, theirs = (loadgen_rules.judge(system.rules, one.latencies_s, one.issued_s).valid for one in (measured, judged.measured))
        same, twice, own = same + (theirs == judged.valid), twice + (again.valid == judged.valid), own + (ours == judged.valid)
        valid += judged.valid
        within = f" within {system.rules.bound_s:g} s, {system.load.rate:.0f}/s" if system.rules.bound_s else ""
        asked = f"p{system.rules.percentile * 100:g}{within}"
        first, *words = [{True: "VALID", False: "INVALID"}[one] for one in (judged.valid, theirs, again.valid, ours)]
        line = f"{system.scenario:<9} {asked:<32} {len(judged.measured.latencies_s):>7}  {first:<8} {words[0]:<9} {words[1]:<14}"
        print(f"{line} {words[2]:<8} {system.why}".rstrip(), flush=True)
    agree = f"same run {same} of {runs}; LoadGen twice {twice} of {runs}; our generator {own} of {runs}"
    print(f"agree with LoadGen ({valid} of {runs} VALID): {agree}")
    return runs - same


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100, help="queries over the limit")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--boundary", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run, at most 3")
    args = parser.parse_args()
    if not official.version():
        print("not run: LoadGen is not installed; pip install mlcommons-loadgen")
        return 3
    print(f"LoadGen {official.version()}")
    print(f"load (1 min) {os.getloadavg()[0]:.1f}")
    seconds = min(args.seconds, 3.0)
    differ = counts(args.most) + validity("far from where the verdict turns", systems(seconds), args.runs)
    differ += validity("where it turns", boundary(seconds), args.boundary)
    print(f"load (1 min) {os.getloadavg()[0]:.1f}")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
