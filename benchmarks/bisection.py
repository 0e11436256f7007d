"""How often `hotlap history bisect` names the right commit, names a wrong one, or says that it cannot tell, and at what cost.

    python benchmarks/bisection.py [--searches 1000] [--commits 64] [--seed 2030] [--json]

The verb's own decisions on simulated measurements: no program is started. Beside it `git bisect run` with a script that compares a
commit's number, or the median of some, with the middle between good's and bad's, measured alike. The culprit is anywhere.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from error_rates import show, wilson

from hotlap.core.trials.commits import Commit
from hotlap.core.trials.halving import BisectOptions, BisectOutcome, Search
from hotlap.core.trials.tape import Tape, TapeSample

DRIFT = 1e-4  # a measurement: 1 % in 100, whoever takes them
RIGHT, WRONG, NONE, UNSURE = ANSWERS = ("right", "wrong", "no difference", "cannot tell")
PEERS = (1, 5, 15)  # measurements of each commit, of which the median counts


@dataclass(frozen=True)
class Scenario:
    """What the commits are like; sizes as shares."""

    step: float  # at one commit
    sd: float  # of a measurement
    noise: Literal["normal", "heavy tails (t3)", "outliers", "skewed"] = "normal"
    layout: float = 0.0  # standard deviation of what each build differs by for no reason
    drift: float = 0.0  # of the level, a measurement
    margin: float = 0.02

    @property
    def name(self) -> str:
        parts = [f"step {self.step:.0%}" if self.step else "no step", f"sd {self.sd:.0%}", self.noise.replace("normal", "")]
        parts += [f"builds {self.layout:.1%} apart" if self.layout else "", "drift 1 % in 100" if self.drift else ""]
        return ", ".join(filter(None, parts))


SCENARIOS = (
    Scenario(0.05, 0.01), Scenario(0.03, 0.02), Scenario(0.02, 0.01, margin=0.01), Scenario(0.0, 0.01), Scenario(0.0, 0.02),
    Scenario(0.03, 0.01, "heavy tails (t3)"), Scenario(0.03, 0.01, "outliers"), Scenario(0.03, 0.01, "skewed"),
    Scenario(0.05, 0.01, layout=0.005), Scenario(0.03, 0.01, layout=0.005), Scenario(0.0, 0.01, layout=0.005),
    Scenario(0.03, 0.01, drift=DRIFT), Scenario(0.0, 0.01, drift=DRIFT),
)  # fmt: skip


class Repository:
    """Commits c0 (good), c1 … of known levels. Each measurement takes the next number of its noise."""

    def __init__(self, rng: np.random.Generator, what: Scenario, commits: int) -> None:
        self.rng, self.what, self.count = rng, what, 0
        self.culprit = int(rng.integers(1, commits + 1))
        self.levels = rng.normal(0, what.layout, commits + 1) + math.log1p(what.step) * (np.arange(commits + 1) >= self.culprit)

    def number(self, index: int) -> float:
        """A logarithm."""
        self.count += 1
        return float(self.levels[index]) + self.what.sd * self._noise() + self.what.drift * self.count

    def _noise(self) -> float:
        if self.what.noise == "heavy tails (t3)":
            return float(self.rng.standard_t(3)) / math.sqrt(3)
        if self.what.noise == "skewed":
            return float(self.rng.exponential()) - 1
        late = self.what.noise == "outliers" and self.rng.random() < 0.05  # one in 20 takes up to twice as long
        return float(self.rng.normal()) + (self.rng.uniform(0, math.log(2)) / self.what.sd if late else 0.0)

    def measure(self, commit: str) -> TapeSample:
        return TapeSample(commit=commit, value=math.exp(self.number(int(commit[1:]))))

    def forget(self, commit: str) -> None: ...

    def describe(self, commit: str) -> Commit:
        return Commit(commit)


def hotlap(repository: Repository) -> tuple[str, int, BisectOutcome]:
    """What the verb answers, and how many measurements it takes."""
    names = [f"c{index}" for index in range(len(repository.levels))]
    asked = BisectOptions(good=names[0], bad=names[-1], commits=names[1:], margin=repository.what.margin)
    found = Search(asked, Tape(repository)).run()
    if found.answer == "found":
        return judged(repository, int(found.candidates[0].commit[1:])), found.measurements, found
    return NONE if found.answer == "no difference" else UNSURE, found.measurements, found


def peer(repository: Repository, each: int) -> tuple[str, int, None]:
    """Halving by a threshold: always names a commit."""

    def level(index: int) -> float:
        return float(np.median([repository.number(index) for _ in range(each)]))

    low, high = 0, len(repository.levels) - 1
    good, bad = level(low), level(high)
    while high - low > 1:
        middle = (low + high) // 2
        if (level(middle) > (good + bad) / 2) == (bad > good):
            high = middle
        else:
            low = middle
    return judged(repository, high), repository.count, None


def judged(repository: Repository, named: int) -> str:
    return RIGHT if repository.what.step and named == repository.culprit else WRONG


Method = Callable[[Repository], tuple[str, int, BisectOutcome | None]]


def row(method: str, search: Method, what: Scenario, options: argparse.Namespace) -> dict[str, Any]:
    """Every method meets the same repositories."""
    answers, why, counts, held = Counter[str](), Counter[str](), list[int](), 0
    for number in range(options.searches):
        repository = Repository(np.random.default_rng((options.seed, number)), what, options.commits)
        answer, count, found = search(repository)
        answers[answer] += 1
        counts.append(count)
        if found and answer == UNSURE:
            why[found.answer] += 1
            held += what.step > 0 and f"c{repository.culprit}" in {each.commit for each in found.candidates}
    rates = {name: wilson(answers[name], options.searches) for name in ANSWERS}
    return {
        "scenario": what.name, "margin": what.margin, "method": method, **rates, "measurements": float(np.mean(counts)),
        "most_of_95": float(np.quantile(counts, 0.95)), "unsure": dict(why), "unsure_but_among_them": held,
    }  # fmt: skip


def line(entry: dict[str, Any]) -> str:
    cells = "  ".join(f"{show(entry[name]):20}" for name in ANSWERS)
    why = ", ".join(f"{count} {name}" for name, count in sorted(entry["unsure"].items(), key=lambda each: -each[1]))
    among = f"; the culprit among what is named: {entry['unsure_but_among_them']}" if entry["unsure_but_among_them"] else ""
    tail = f"\n{'':17}cannot tell: {why}{among}" if why else ""
    return f"  {entry['method']:14} {cells}  {entry['measurements']:5.0f} {entry['most_of_95']:5.0f}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000, help="of each method in each scenario")
    parser.add_argument("--commits", type=int, default=64)
    parser.add_argument("--seed", type=int, default=2030)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    began = time.perf_counter()
    methods: dict[str, Any] = {"hotlap history bisect": hotlap}
    methods |= {f"{'one number' if each == 1 else f'median of {each}'}": (lambda r, each=each: peer(r, each)) for each in PEERS}
    rows = [row(name, one, what, options) for what in SCENARIOS for name, one in methods.items()]
    if options.json:
        print(json.dumps({"seed": options.seed, "searches": options.searches, "commits": options.commits, "rows": rows}, indent=1))
        return
    print(f"{options.commits} commits, {options.searches} searches each, seed {options.seed}; rates in % with 95 % intervals")
    print(f"{'':17}{'names the right one':22}{'names a wrong one':22}{'no difference':22}{'cannot tell':22}measurements: mean, 95 %")
    for number, one in enumerate(rows):
        if number % len(methods) == 0:
            print(f"{one['scenario']} (margin {one['margin']:.0%})")
        print(line(one))
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
