"""What `hotlap tuning quality` finds and how often it is wrong, on simulated answers.

    python benchmarks/quality_power.py [--draws 2000] [--windows 4000]

`pairs`: items right or wrong by A and B. *loss found*: the interval of the loss lies above 0; beside it the unpaired z test of two shares,
at the same one-sided 2.5 %. *as good*: the interval lies below the margin. Rows whose loss is the margin count false alarms: 2.5 % is
nominal. An interval's ends are where its test turns, so each row takes the tests at 0, at the margin, and at the truth.
`windows`: mean KL of few windows whose own means are lognormal, at a margin that is the truth: how often it is called as good or worse.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from hotlap.core.stats import means, paired, student  # noqa: E402

TAIL = 0.025


class Case(NamedTuple):
    items: int
    lost: float  # share of items
    gained: float
    margin: float
    right: float  # share of items that both have right
    wanted: str = ""


CASES = [
    Case(2000, 0.0055, 0.0005, 0.01, 0.8, "loss found ≥ 80 %"),
    Case(2000, 0.025, 0.005, 0.005, 0.8, "loss found ≥ 95 %"),
    Case(2000, 0.003, 0.003, 0.005, 0.8, "no loss: found ≤ 2.5 %"),
    Case(2000, 0.015, 0.015, 0.005, 0.8, "no loss: found ≤ 2.5 %"),
    Case(200, 0.03, 0.03, 0.05, 0.8, "no loss: found ≤ 2.5 %"),
    Case(2000, 0.0055, 0.0005, 0.005, 0.8, "at the margin: as good ≤ 2.5 %"),
    Case(2000, 0.005, 0.0, 0.005, 0.8, "at the margin: as good ≤ 2.5 %"),
    Case(2000, 0.0175, 0.0125, 0.005, 0.8, "at the margin: as good ≤ 2.5 %"),
    Case(2000, 0.025, 0.005, 0.02, 0.8, "at the margin: as good ≤ 2.5 %"),
    Case(500, 0.015, 0.01, 0.005, 0.7, "at the margin: as good ≤ 2.5 %"),
    Case(200, 0.05, 0.0, 0.05, 0.6, "at the margin: as good ≤ 2.5 %"),
    Case(2000, 0.0005, 0.0005, 0.005, 0.8, "no loss, few differ: as good"),
]


def pairs(draws: int, random: np.random.Generator) -> None:
    print(f"pairs: {draws:,} draws a row")
    print("  items   loss  differ  margin  loss found    unpaired     as good  truth held")
    for case in CASES:
        rest = 1 - case.lost - case.gained - case.right
        drawn = random.multinomial(case.items, [case.lost, case.gained, case.right, rest], draws)
        losses = unpaired = good = held = 0
        kept: dict[tuple[int, int], tuple[bool, bool, bool]] = {}
        truth = case.lost - case.gained
        for lost, gained, both, _ in drawn.tolist():
            if (lost, gained) not in kept:
                more, less = paired.above(lost, gained, case.items), paired.below(lost, gained, case.items, case.margin)
                over, under = (test(lost, gained, case.items, truth) for test in (paired.above, paired.below))
                kept[lost, gained] = more <= TAIL, less <= TAIL, over > TAIL and under > TAIL
            more_, less_, inside = kept[lost, gained]
            losses, good, held = losses + more_, good + less_, held + inside
            unpaired += paired.unpaired(both + lost, both + gained, case.items) <= TAIL
        shares = [f"{count / draws:10.1%}" for count in (losses, unpaired, good, held)]
        head = f"  {case.items:5d}  {truth:5.2%}  {case.lost + case.gained:6.2%}  {case.margin:6.2%}"
        print(f"{head}  {'  '.join(shares)}   {case.wanted}", flush=True)


def windows(draws: int, random: np.random.Generator) -> None:
    print(f"windows: {draws:,} draws a row; the margin is the true mean KL")
    print("  windows  spread  as good  worse  truth held  by plain t")
    for count in (16, 32, 64):
        for spread in (0.25, 0.5, 1.0):
            truth = math.exp(spread**2 / 2)
            reach = student.quantile(1 - TAIL, count - 1)
            good = worse = plain = 0
            for values in random.lognormal(0.0, spread, (draws, count)):
                seen = means.mean(values, positive=True)
                assert seen is not None
                good, worse = good + (seen.high < truth), worse + (seen.low > truth)
                plain += abs(seen.mean - truth) <= reach * seen.error
            held = 1 - (good + worse) / draws
            print(f"  {count:7d}  {spread:6.2f} {good / draws:8.1%}  {worse / draws:5.1%} {held:11.1%} {plain / draws:11.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--windows", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    pairs(args.draws, random)
    windows(args.windows, random)


if __name__ == "__main__":
    main()
