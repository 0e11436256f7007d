"""How often the interval of a case holds the true median, simulated with the product's own stopping and state.

    python benchmarks/intervals.py [--runs 4000] [--seed 1] [--cells]

Rounds are drawn from a law whose median is known: normal, Student's t with 3 degrees of freedom, or two modes 4 σ apart (70:30), each
with a σ of 0.5 to 5 % of the median. `stats.stopping` decides how many are run, `stats.summary.centre` makes the interval, `judge.state`
the state. A cell is a law, a σ, a precision and the most rounds allowed. Prints a line per law and most rounds, every cell that misses
an aim (every cell with --cells), and the aims. Exit code 1 where one is missed.

What so many rounds can reach is the half-width that they give on average over the same draws of the law.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis.state import state
from hotlap.core.record import Case, Gap, Result, Summary
from hotlap.core.stats import order, stopping
from hotlap.core.stats.summary import centre

Floats = NDArray[np.float64]
LAWS = ("normal", "t3", "modes")
NOISES, PRECISIONS, MOST = (0.005, 0.01, 0.02, 0.03, 0.05), (0.01, 0.02, 0.05), (6, 12, 30)
ALL_CELL, ALL_GRID, MEASURED_CELL, MEASURED_GRID = 0.94, 0.948, 0.93, 0.94
A_QUARTER, SPARE, REACHED_AT_LEAST, UNREACHED_AT_MOST = 0.25, 1.5, 0.90, 0.10


@dataclass(frozen=True)
class Cell:
    law: str
    noise: float
    precision: float
    most: int
    covered: float  # of all runs
    measured: float  # share that ended as `measured`
    covered_measured: float  # of those
    rounds: float  # on average
    to_spare: bool  # so many rounds reach the precision with 1.5 × to spare
    beyond: bool  # twice as many do not reach it

    def missed(self) -> list[str]:
        aims = [
            (self.covered >= ALL_CELL, f"covers {self.covered:.2%} of all runs"),
            (self.measured < A_QUARTER or self.covered_measured >= MEASURED_CELL, f"covers {self.covered_measured:.2%} of the measured"),
            (not self.to_spare or self.measured >= REACHED_AT_LEAST, f"{self.measured:.1%} measured, with precision to spare"),
            (not self.beyond or self.measured <= UNREACHED_AT_MOST, f"{self.measured:.1%} measured, out of reach"),
        ]
        return [text for good, text in aims if not good]


def draws(law: str, runs: int, random: np.random.Generator) -> Floats:
    """About a median of 0, in σ; shape (runs, twice the most rounds)."""
    shape = (runs, 2 * max(MOST))
    if law == "t3":
        return random.standard_t(3, shape)
    z = random.standard_normal(shape)
    return z if law == "normal" else z + 4.0 * (random.random(shape) < 0.3) - _median_of_modes()


def _median_of_modes() -> float:
    normal, low, high = NormalDist(), 0.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.7 * normal.cdf(middle) + 0.3 * normal.cdf(middle - 4) < 0.5 else (low, middle)
    return low


def one_run(values: Floats, precision: float, most: int) -> tuple[bool, bool, int]:
    """Whether its interval holds 1, whether it is `measured`, and its rounds."""
    n = min(stopping.FEWEST, most)
    while (wanted := stopping.need(values[:n], precision, most=most).rounds) > n:
        n = wanted
    found = values[:n].tolist()
    summary = Summary(rounds=n, **centre(found, precision))
    result = Result(case=Case(workload="fma"), device="", target="", status="measured", values=found)
    assert summary.low is not None
    assert summary.high is not None
    return summary.low <= 1 <= summary.high, state(result, summary, Gap()).state == "measured", n


def usual_width(x: Floats, rounds: int) -> float:
    """Half-width of the interval that so many rounds of the law give, in σ: the mean over runs."""
    rank, _ = order.ranks(rounds)
    ordered = np.sort(x[:, :rounds], axis=1)
    return float(np.mean(ordered[:, rounds - rank] - ordered[:, rank - 1])) / 2


def cell(x: Floats, law: str, noise: float, precision: float, most: int) -> Cell:
    values = 1 + noise * x
    found = [one_run(run, precision, most) for run in values]
    covered, measured = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    within = float(covered[measured].mean()) if measured.any() else 1.0
    now, later = noise * usual_width(x, most), noise * usual_width(x, 2 * most)
    rounds = float(np.mean([f[2] for f in found]))
    return Cell(
        law, noise, precision, most, float(covered.mean()), float(measured.mean()), within, rounds,
        to_spare=SPARE * now <= precision, beyond=later > precision,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", action="store_true", help="every cell")
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    samples = {law: draws(law, args.runs, random) for law in LAWS}
    cells = [cell(samples[law], law, *rest) for law, *rest in itertools.product(LAWS, NOISES, PRECISIONS, MOST)]
    print(f"{len(cells)} cells of {args.runs} runs, seed {args.seed}\n")
    print("law     most rounds   all: least  mean   measured: least  mean   rounds")
    for law, most in itertools.product(LAWS, MOST):
        own = [c for c in cells if (c.law, c.most) == (law, most)]
        shown = [c for c in own if c.measured >= A_QUARTER]
        print(
            f"{law:<8}{most:>11}   {min(c.covered for c in own):>10.1%}  {np.mean([c.covered for c in own]):.1%}"
            f"  {min(c.covered_measured for c in shown):>15.1%}  {_pooled(shown):.1%}   {np.mean([c.rounds for c in own]):>5.1f}"
        )
    for c in cells:
        if args.cells or c.missed():
            print(f"  {_line(c)}{': ' + '; '.join(c.missed()) if c.missed() else ''}")
    whole, pooled = float(np.mean([c.covered for c in cells])), _pooled(cells)
    print(f"\nover the grid: {whole:.2%} of all runs covered (aim {ALL_GRID:.1%}), {pooled:.2%} of the measured (aim {MEASURED_GRID:.0%})")
    missed = sum(bool(c.missed()) for c in cells)
    print(f"{missed} of {len(cells)} cells miss an aim")
    return 1 if missed or whole < ALL_GRID or pooled < MEASURED_GRID else 0


def _pooled(cells: list[Cell]) -> float:
    weight = [c.measured for c in cells]
    return float(np.average([c.covered_measured for c in cells], weights=weight)) if sum(weight) else 1.0


def _line(c: Cell) -> str:
    return (
        f"{c.law:<7} noise {c.noise:.1%}  precision {c.precision:.0%}  at most {c.most:>2} rounds: {c.covered:.1%} of all, "
        f"{c.measured:.0%} measured, {c.covered_measured:.1%} of them, {c.rounds:.1f} rounds"
    )


if __name__ == "__main__":
    sys.exit(main())
