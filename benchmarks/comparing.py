"""How often `hotlap compare` calls equal builds different, and what it finds, in turns and one side after the other.

    python benchmarks/comparing.py [--series 2000] [--seed 2028] [--json]

Simulated runs of 1 % noise, analysed by the product's own functions. In turns: runs of both sides interleaved, plain noise. A *false
answer*: B is called faster or slower than A though nothing changed, at a threshold of 0 % (the interval leaves out no change), the
strictest there is. *Finds*: B, changed by so much, faster or slower by chance, is called so in the right direction; the threshold
stands in brackets, 0 % where there are none. One after the other: all of A before all of B, without an allowance (`--assume-stable`),
with the table's for a dedicated machine, and with that of a history of 20 earlier days, each a session like this one.

    drift    3 % from A's first run to B's last, up or down by chance; each earlier session with its own
    step     B is measured a day after A, and each day lies 1 % above or below the day before
    warm-up  the first three runs of each session are 3, 2 and 1 % slower
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from error_rates import show, wilson
from numpy.typing import NDArray

from hotlap.core.analysis.drift import allowance_of
from hotlap.core.stats.drift import Drift, allowed, learnt
from hotlap.core.stats.ratio import Estimates, estimate, widened

Floats = NDArray[np.float64]

SD = 0.01
RUNS = (4, 6, 10, 20)
DAYS = 20
MIN_EFFECT = 0.02
CHANGES = (0.02, 0.03, 0.04, 0.05)
WARM = np.array([0.03, 0.02, 0.01])


class Cell(NamedTuple):
    """Many experiments of one kind: logarithms of A and B, estimates of equal builds, and which way a change goes."""

    estimates: Estimates
    way: Floats


def cell(rng: np.random.Generator, x: Floats, y: Floats) -> Cell:
    return Cell(estimate(x, y, paired=False), rng.choice([-1.0, 1.0], size=len(x)))


def called(cell: Cell, min_effect: float, change: float = 0.0, drift: Drift | None = None) -> float:
    """Share called different, or, of a change, called so in the right direction. A shift of all of B shifts the interval with it."""
    shift = math.log1p(change) * cell.way
    found = cell.estimates
    ends = {name: getattr(found, name) + shift for name in ("centre", "low", "high", "low_90", "high_90")}
    moved = found._replace(**ends, p=0 * shift)
    if drift is not None:
        moved = widened(moved, drift)
    larger = (moved.low > 0) & (moved.low >= math.log1p(min_effect))
    smaller = (moved.high < 0) & (moved.high <= -math.log1p(min_effect))
    return float(np.mean(np.where(cell.way > 0, larger, smaller) if change else larger | smaller))


def noise(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return SD * rng.normal(size=(series, runs))


# ---------------------------------------------------------------- in turns


def in_turns(rng: np.random.Generator, series: int, runs: int) -> Cell:
    return cell(rng, noise(rng, series, runs), noise(rng, series, runs))


def runs_for(rng: np.random.Generator, series: int, change: float, power: float, min_effect: float = MIN_EFFECT) -> int | None:
    """The fewest runs a side that find a change so often; None above 200."""
    for runs in (*range(4, 21), *range(22, 51, 2), *range(55, 101, 5), *range(110, 201, 10)):
        if called(in_turns(rng, series, runs), min_effect, change) >= power:
            return runs
    return None


# ---------------------------------------------------------------- one after the other


def drifting(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return np.asarray(rng.choice([-1, 1], size=(series, 1)) * np.linspace(0, 0.03, runs))


def warming(rng: np.random.Generator, series: int, runs: int) -> Floats:
    level = np.zeros(runs)
    level[:3] = WARM[:runs]
    return np.broadcast_to(level, (series, runs))


def level(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return np.zeros((series, runs))


def step(rng: np.random.Generator, series: int) -> Floats:
    return np.asarray(0.01 * rng.choice([-1, 1], size=(series, 1)))


KINDS: dict[str, tuple[Callable[[np.random.Generator, int, int], Floats], bool]] = {
    "drift": (drifting, False), "step": (level, True), "warm-up": (warming, False),
}


def apart(rng: np.random.Generator, kind: str, series: int, runs: int) -> tuple[Cell, Drift]:
    """The experiment, and what is learnt from the days before it."""
    within, stepping = KINDS[kind]
    days, at = [], np.zeros((series, 1))
    for _ in range(DAYS):
        days.append(at + within(rng, series, 2 * runs) + noise(rng, series, 2 * runs))
        at = at + (step(rng, series) if stepping else 0.0)
    session = at + within(rng, series, 2 * runs) + noise(rng, series, 2 * runs)
    if stepping:
        session[:, runs:] += step(rng, series)
    history = learnt(np.concatenate(days, axis=1), np.repeat(np.arange(DAYS), 2 * runs), gap=int(stepping))
    assert history is not None
    return cell(rng, session[:, :runs], session[:, runs:]), history


def row(rng: np.random.Generator, kind: str, series: int, runs: int) -> dict[str, Any]:
    entry, history = apart(rng, kind, series, runs)
    _, share, _ = allowance_of("dedicated")
    ways = {"stable": None, "table": allowed(share), "history": history}
    return {"kind": kind, "runs": runs, "allowance": float(np.median(np.expm1(history.reach)))} | {
        name: {
            "false": wilson(round(called(entry, 0.0, drift=drift) * series), series),
            "false_gate": called(entry, MIN_EFFECT, drift=drift), "finds_10": called(entry, MIN_EFFECT, 0.10, drift),
            "finds_5": called(entry, 0.0, 0.05, drift), "finds_5_gate": called(entry, MIN_EFFECT, 0.05, drift),
        }
        for name, drift in ways.items()
    }


# ---------------------------------------------------------------- printing


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """What the figures promise, kept or missed."""
    worst = max(row[way]["false"][0] for row in rows for way in ("table", "history"))
    from_6 = [row for row in rows if row["runs"] >= 6]
    ten = min(row[way]["finds_10"] for row in from_6 for way in ("table", "history"))
    five = min(row["history"]["finds_5"] for row in from_6)
    return [
        f"false answers one after the other at most 6 %: {worst:.1%}, {'kept' if worst <= 0.06 else 'MISSED'}",
        f"a true 10 % from 6 runs a side in 80 % (threshold 2 %): {ten:.1%}, {'kept' if ten >= 0.8 else 'MISSED'}",
        f"a true 5 % with history from 6 runs a side in 80 % (threshold 0 %): {five:.1%}, {'kept' if five >= 0.8 else 'MISSED'}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=2000, help="simulated experiments a cell; ten times as many in turns")
    parser.add_argument("--seed", type=int, default=2028)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    turned = {n: in_turns(rng, 10 * options.series, n) for n in RUNS}
    turns = [
        {
            "runs": n, "false": wilson(round(called(one, 0.0) * len(one.way)), len(one.way)), "false_gate": called(one, MIN_EFFECT),
            "finds": {change: called(one, MIN_EFFECT, change) for change in CHANGES},
        }
        for n, one in turned.items()
    ]
    needed = {change: [runs_for(rng, options.series, change, power) for power in (0.8, 0.95)] for change in CHANGES}
    rows = [row(rng, kind, options.series, n) for kind in KINDS for n in RUNS]
    if options.json:
        print(json.dumps({"seed": options.seed, "in_turns": turns, "runs_for": needed, "apart": rows}, indent=1))
        return
    many = f"{options.series} experiments a cell ({10 * options.series} in turns)"
    print(f"noise {SD:.0%}, {many}, seed {options.seed}; % with 95 % intervals")
    heads = "".join(f"{f'finds {change:.0%} [2 %]':17}" for change in CHANGES)
    print(f"\nin turns             {'false answers':22}{'[2 %]':15}{heads}".rstrip())
    for turn in turns:
        finds = "".join(f"{share:<17.1%}" for share in turn["finds"].values())
        print(f"{turn['runs']:3} runs a side      {show(turn['false']):22}{turn['false_gate']:<15.1%}{finds}".rstrip())
    print("\nruns a side, in turns, that find it at a threshold of 2 % with a power of   80 %     95 %")
    for change, counts in needed.items():
        print(f"  a true {change:.0%}{'':59}" + "".join(f"{count if count else 'over 200':>9}" for count in counts))
    heads = f"{'allowance':11}{'false answers':22}{'[2 %]':8}{'finds 10 % [2 %]':18}{'finds 5 %':11}finds 5 % [2 %]"
    print(f"\none after the other   {heads}")
    for turn in rows:
        for way, said in (("stable", "none"), ("table", "3.0 %"), ("history", f"{turn['allowance']:.1%} *")):
            cells = turn[way]
            rates = f"{show(cells['false']):22}{cells['false_gate']:<8.1%}{cells['finds_10']:<18.1%}"
            print(f"{turn['kind']:8} {turn['runs']:3} runs a side {said:10} {rates}{cells['finds_5']:<11.1%}{cells['finds_5_gate']:.1%}")
    print(f"* of a history of {DAYS} days; the median over the experiments\n")
    five = next(one for one in turns if one["runs"] == 6)["finds"][0.05]
    plain = [one["false"][0] for one in turns]
    right = all(0.03 <= share <= 0.06 for share in plain)
    print(f"false answers in turns 3 to 6 %: {min(plain):.1%} to {max(plain):.1%}, {'kept' if right else 'MISSED'}")
    print(f"a true 5 % in turns from 6 runs a side in 90 % (threshold 2 %): {five:.1%}, {'kept' if five >= 0.9 else 'MISSED'}")
    print("\n".join(judged(rows)))


if __name__ == "__main__":
    main()
