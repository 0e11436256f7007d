"""What `hotlap ab` promises of its group-sequential test: power, pairs and false alarms while it peeks at every look.

    python benchmarks/ab.py [--series 100000] [--seed 2027] [--difference 0.01] [--json]

Simulated experiments, run A B, B A, A B …, under the noises of `error_rates.py`; a true difference of 1 % at a noise of 1 %, gate 0, so
that every significant difference counts. First with the noise known, then with a plan made from a pilot whose pairs are part of the test.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np
from error_rates import NOISES, SD, interleaved, show, wilson

from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import ANSWERS, Followed, SequentialDesign
from hotlap.core.stats.student import two_sided

PILOTS = (5, 6, 10)
GRID = 1.03  # designs are made for noises this far apart, not for each pilot anew: rounded up


def rates(followed: Followed, true: float) -> dict[str, Any]:
    """Shares of each answer, pairs, and how often the interval at the stop holds the true ratio."""
    n = len(followed.answers)
    counts = {name: int((followed.answers == k).sum()) for k, name in enumerate(ANSWERS)}
    held = (followed.low <= math.log(true)) & (math.log(true) <= followed.high)
    return {
        "true": true,
        "different": wilson(counts["larger"] + counts["smaller"], n),
        "right_way": wilson(counts["larger"] if true > 1 else counts["smaller"], n),
        "same": wilson(counts["same"], n),
        "cannot_tell": wilson(counts["inconclusive"], n),
        "holds": wilson(int(held.sum()), n),
        "pairs": float(followed.pairs.mean()),
    }


def known(rng: np.random.Generator, plan: SequentialDesign, noise: str, series: int) -> list[dict[str, Any]]:
    """With the noise known: no difference, and the difference both ways."""
    sides = (1.0, 1 + plan.difference, 1 / (1 + plan.difference))
    return [
        {"noise": noise, **rates(sequential.follow(plan, *interleaved(rng, noise, (series, plan.pairs), true)), true)} for true in sides
    ]


def naive(rng: np.random.Generator, plan: SequentialDesign, series: int) -> tuple[float, float, float]:
    """False alarms of a paired t test at 5 % that is repeated at every look."""
    x, y = interleaved(rng, "normal", (series, plan.pairs), 1.0)
    alarmed = np.zeros(series, dtype=bool)
    for n in plan.looks:
        d = (y - x)[:, :n]
        t = d.mean(axis=1) / (d.std(axis=1, ddof=1) / math.sqrt(n))
        alarmed |= np.array([two_sided(one, n - 1) <= 0.05 for one in t])
    return wilson(int(alarmed.sum()), series)


class Plans:
    """Designs by noise, each made once."""

    def __init__(self, difference: float, pilot: int) -> None:
        self.difference, self.pilot = difference, pilot
        self.designs: dict[int, SequentialDesign] = {}

    def of(self, step: int) -> SequentialDesign:
        if step not in self.designs:
            self.designs[step] = sequential.design(GRID**step, self.difference, min_effect=0.0, pilot=self.pilot)
        return self.designs[step]


def piloted(rng: np.random.Generator, plans: Plans, noise: str, series: int, true: float) -> dict[str, Any]:
    """With a plan for each experiment from its own first pairs, which stay in the test. Pilots noisier than 3.5 times the
    true noise, of which there are hardly any, are planned for as 3.5 times."""
    largest = math.floor(math.log(3.5 * SD) / math.log(GRID))
    x, y = interleaved(rng, noise, (series, plans.of(largest).pairs), true)
    first = (slice(None), slice(plans.pilot))
    seen = np.array([sequential.noise(np.exp(a), np.exp(b)) for a, b in zip(x[first], y[first], strict=True)])
    steps = np.minimum(np.ceil(np.log(np.maximum(seen, SD / 20)) / math.log(GRID)), largest).astype(int)
    found = Followed(np.zeros(series, int), np.zeros(series, int), np.empty(series), np.empty(series))
    for step in np.unique(steps):
        mine, plan = np.flatnonzero(steps == step), plans.of(int(step))
        for all_of, part in zip(found, sequential.follow(plan, x[mine, : plan.pairs], y[mine, : plan.pairs]), strict=True):
            all_of[mine] = part
    return {"noise": noise, "pilot": plans.pilot, **rates(found, true)}


def judged(plan: SequentialDesign, row: dict[str, Any]) -> str:
    """Whether a row of the plan with known noise reaches what is promised."""
    if row["true"] == 1.0:
        return "kept" if row["different"][0] <= plan.alpha else "MISSED"
    if row["noise"] != "normal":
        return ""
    enough = row["right_way"][0] >= plan.power and row["pairs"] <= 0.9 * plan.fixed and plan.pairs <= 1.05 * plan.fixed
    return "kept" if enough else "MISSED"


def line(row: dict[str, Any], end: str = "") -> str:
    cells = "  ".join(f"{show(row[key]):20}" for key in ("different", "right_way", "same", "holds"))
    return f"{row['noise']:20} {row['true']:6.4f}  {cells}  {row['pairs']:5.1f}  {end}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--series", type=int, default=100_000, help="simulated experiments per noise and true ratio; a fifth as many with pilots"
    )
    parser.add_argument("--difference", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng, began = np.random.default_rng(options.seed), time.perf_counter()
    plan = sequential.design(SD, options.difference, min_effect=0.0)
    rows = [row for noise in NOISES for row in known(rng, plan, noise, options.series)]
    repeated = naive(rng, plan, options.series)
    plans = [Plans(options.difference, pilot) for pilot in PILOTS]
    after = [
        piloted(rng, one, noise, options.series // 5, true)
        for one in plans
        for noise in ("normal", "AR(0.5) of runs", "heavy tails (t3)", "quantised, tick 1 %")
        for true in (1.0, 1 + options.difference)
    ]
    if options.json:
        shown = {name: getattr(plan, name) for name in plan.__struct_fields__}
        print(json.dumps({"seed": options.seed, "plan": shown, "known": rows, "naive": repeated, "piloted": after}, indent=1))
        return
    bounds = ", ".join(f"{z:.2f}" for z in plan.bounds)
    print(f"difference {plan.difference:.1%}, noise {SD:.0%}, gate {plan.min_effect:.2%}, power {plan.power:.0%}, level {plan.alpha:.0%}")
    print(f"fixed-size paired t test: {plan.fixed} pairs; plan: at most {plan.pairs} ({plan.pairs / plan.fixed:.2f} ×; promised ≤ 1.05)")
    print(f"looks at {plan.looks}, boundaries {bounds}; expected power {plan.attained:.1%}, {plan.average:.1f} pairs; seed {options.seed}")
    print(f"promised: different ≤ 5 % where the ratio is 1; under normal noise right ≥ 80 % and pairs ≤ {0.9 * plan.fixed:.1f}")
    heads = "  ".join(f"{head:20}" for head in ("different", "the right way", "same", "interval holds it"))
    print(f"\n{'noise known':20} {'ratio':6}  {heads}  pairs   ({options.series} experiments, rates in % with 95 % intervals)")
    for row in rows:
        print(line(row, judged(plan, row)))
    print(f"\na t test at 5 % repeated at the same looks: {show(repeated)} % false alarms")
    for one in plans:
        print(f"\n{f'pilot of {one.pilot} pairs':20} {'ratio':6}  {heads}  pairs   ({options.series // 5} experiments)")
        for row in after:
            if row["pilot"] == one.pilot:
                print(line(row, ("kept" if row["different"][0] <= plan.alpha else "MISSED") if row["true"] == 1.0 else ""))
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
