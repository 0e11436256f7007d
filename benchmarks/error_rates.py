"""How often equal builds are called different, and how often the interval holds the true ratio.

    python benchmarks/error_rates.py [--series 10000] [--seed 2026] [--json]

Simulated experiments of n runs of A and n of B, interleaved A B, B A, A B …, under seven noises of 1 %, analysed by
`hotlap.core.stats.ratio` as pairs, nominal 5 %, no practical gate. Beside it: sides that are not interleaved, and what other
tools do with the same numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.ratio import FEWEST, estimate, ratio, verdict
from hotlap.core.stats.student import two_sided

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Floats]

SD = 0.01
SAMPLES = 20  # in a run, where the noise has two levels
RUNS = (4, 5, 6, 7, 8, 9, 10, 15, 20, 30)
TRUE = 1.03


def normal(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return rng.normal(size=(series, runs))


def samples(rng: np.random.Generator, series: int, runs: int) -> Floats:
    """Samples of runs that differ by 1 % among each other and by 0.5 % within: series × runs × samples."""
    return rng.normal(size=(series, runs, 1)) + 0.5 * rng.normal(size=(series, runs, SAMPLES))


def levels(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return np.asarray(np.median(samples(rng, series, runs), axis=2))


def drift(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return rng.normal(size=(series, runs)) + np.linspace(0, 1, runs)


def autoregressive(rng: np.random.Generator, series: int, runs: int) -> Floats:
    x = rng.normal(size=(series, runs))
    for i in range(1, runs):
        x[:, i] = 0.5 * x[:, i - 1] + math.sqrt(0.75) * x[:, i]
    return x


def heavy(rng: np.random.Generator, series: int, runs: int) -> Floats:
    return rng.standard_t(3, (series, runs)) / math.sqrt(3)


def bimodal(rng: np.random.Generator, series: int, runs: int) -> Floats:
    x = 0.3 * rng.normal(size=(series, runs)) + 2 * (rng.random((series, runs)) < 0.3)
    return x / math.sqrt(0.3**2 + 4 * 0.3 * 0.7)


NOISES: dict[str, Noise] = {
    "normal": normal,
    "run-level effects": levels,
    "1 % linear drift": drift,
    "AR(0.5) of runs": autoregressive,
    "heavy tails (t3)": heavy,
    "bimodal 70:30": bimodal,
    "quantised, tick 1 %": normal,
}


def interleaved(rng: np.random.Generator, noise: str, shape: tuple[int, int], true: float) -> tuple[Floats, Floats]:
    """Logarithms of A and B, each series × pairs, run in the order A B, B A, A B …"""
    series, pairs = shape
    runs = np.exp(SD * NOISES[noise](rng, series, 2 * pairs))
    swapped = np.arange(pairs) % 2 == 1
    a = np.where(swapped, runs[:, 1::2], runs[:, 0::2])
    b = np.where(swapped, runs[:, 0::2], runs[:, 1::2]) * true
    if noise.startswith("quantised"):
        a, b = (np.round(side / SD) * SD for side in (a, b))
    return np.log(a), np.log(b)


def wilson(hits: int, of: int) -> tuple[float, float, float]:
    """A rate and its 95 % interval (Wilson, J. Am. Stat. Assoc. 22, 1927)."""
    rate, z = hits / of, 1.959964
    centre, reach = (rate + z**2 / (2 * of)), z * math.sqrt(rate * (1 - rate) / of + z**2 / (4 * of**2))
    return rate, (centre - reach) / (1 + z**2 / of), (centre + reach) / (1 + z**2 / of)


def cell(rng: np.random.Generator, noise: str, series: int, pairs: int) -> dict[str, Any]:
    """False alarms at a true ratio of 1; coverage there and at 1.03."""
    x, y = interleaved(rng, noise, (series, pairs), 1.0)
    equal = estimate(x, y, paired=True)
    alarms = (equal.p <= 0.05) & ((equal.low > 0) | (equal.high < 0))
    x, y = interleaved(rng, noise, (series, pairs), TRUE)
    shifted = estimate(x, y, paired=True)
    covered = (shifted.low <= math.log(TRUE)) & (math.log(TRUE) <= shifted.high)
    none = ~np.isfinite(shifted.low)  # no interval: counts as holding nothing
    return {
        "noise": noise,
        "runs": pairs,
        "false_alarms": wilson(int(alarms.sum()), series),
        "covered_1": wilson(int(((equal.low <= 0) & (equal.high >= 0)).sum()), series),
        "covered_1.03": wilson(int(covered.sum()), series),
        "no_interval": int(none.sum()) / series,
        "half_width": float(np.nanmedian(shifted.high - shifted.low)) / 2,
    }


def unpaired(rng: np.random.Generator, series: int, runs: int, assume: str) -> dict[str, Any]:
    x, y = (SD * rng.normal(size=(series, runs)) for _ in "AB")
    equal = estimate(x, y, paired=False, assume=assume)  # type: ignore[arg-type]
    shifted = estimate(x, y + math.log(TRUE), paired=False, assume=assume)  # type: ignore[arg-type]
    covered = (shifted.low <= math.log(TRUE)) & (math.log(TRUE) <= shifted.high)
    return {
        "runs": runs,
        "assume": assume,
        "false_alarms": wilson(int((equal.p <= 0.05).sum()), series),
        "covered_1.03": wilson(int(covered.sum()), series),
    }


# ---------------------------------------------------------------- as other tools do it


def welch(a: Floats, b: Floats) -> Floats:
    """p of each series."""
    n, m = a.shape[1], b.shape[1]
    first, second = a.var(axis=1, ddof=1) / n, b.var(axis=1, ddof=1) / m
    df = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (m - 1))
    t = (a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(first + second)
    return np.array([two_sided(one, freedom) for one, freedom in zip(t, df, strict=True)])


def mann_whitney(a: Floats, b: Floats) -> Floats:
    """p of each series, normal approximation: samples are many and have no ties."""
    n, m = a.shape[1], b.shape[1]
    ranks = np.concatenate([a, b], axis=1).argsort(axis=1).argsort(axis=1) + 1
    u = ranks[:, :n].sum(axis=1) - n * (n + 1) / 2
    z = (np.abs(u - n * m / 2) - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)
    return np.array([math.erfc(max(v, 0.0) / math.sqrt(2)) for v in z])


def peers(rng: np.random.Generator, series: int, pairs: int) -> list[dict[str, Any]]:
    """The same equal builds, analysed by the ways in use: samples pooled over runs, or A first and then B."""
    x = samples(rng, series, 2 * pairs)
    a, b = x[:, 0::2].reshape(series, -1), x[:, 1::2].reshape(series, -1)
    slow = drift(rng, series, 2 * pairs)
    ways = {
        "all samples pooled, t test": welch(a, b),
        "all samples pooled, Mann–Whitney": mann_whitney(a, b),
        "run means, Welch": welch(x[:, 0::2].mean(axis=2), x[:, 1::2].mean(axis=2)),
        "run means, Welch, all of A and then all of B, 1 % drift": welch(slow[:, :pairs], slow[:, pairs:]),
    }
    return [{"way": way, "runs": pairs, "false_alarms": wilson(int((p <= 0.05).sum()), series)} for way, p in ways.items()]


# ---------------------------------------------------------------- the tables


def too_few() -> list[str]:
    """What fewer than 4 runs a side get, however clear the difference."""
    return [verdict(ratio([1.0] * n, [2.0] * n, paired=True)) for n in range(FEWEST)]


def show(rate: tuple[float, float, float]) -> str:
    return f"{100 * rate[0]:5.2f} [{100 * rate[1]:5.2f}, {100 * rate[2]:5.2f}]"


def kept(row: dict[str, Any]) -> bool:
    """Whether a row reaches the figures promised."""
    alarms, cover = row["false_alarms"][0], (row["covered_1"][0], row["covered_1.03"][0])
    if row["runs"] >= 10:
        return bool(0.04 <= alarms <= 0.06 and all(0.93 <= c <= 0.97 for c in cover))
    return bool(alarms <= 0.06 and min(cover) >= 0.93)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=10_000, help="simulated experiments per noise, number of runs and true ratio")
    parser.add_argument("--runs", type=int, nargs="+", default=list(RUNS))
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng, began = np.random.default_rng(options.seed), time.perf_counter()
    rows = [cell(rng, noise, options.series, n) for noise in NOISES for n in options.runs]
    apart = [unpaired(rng, options.series, n, assume) for assume in ("nothing", "normal") for n in options.runs]
    others = [way for n in (10, 30) for way in peers(rng, min(options.series, 2000), n)]
    if options.json:
        print(json.dumps({"seed": options.seed, "series": options.series, "paired": rows, "unpaired": apart, "peers": others}, indent=1))
        return
    print(f"{options.series} experiments each, seed {options.seed}; rates in % with their 95 % interval; promised: 4–6 and 93–97 from")
    print("10 runs a side, at most 6 and at least 93 with 4 to 9")
    print(f"\n{'interleaved, as pairs':22} {'runs':>4}  {'false alarms':22} {'holds 1':22} {'holds 1.03':22} {'± log':>6}")
    for row in rows:
        rates = " ".join(f"{show(row[key]):22}" for key in ("false_alarms", "covered_1", "covered_1.03"))
        print(f"{row['noise']:22} {row['runs']:4}  {rates} {row['half_width']:6.2%}  {'kept' if kept(row) else 'MISSED'}")
    print(f"\n{'not interleaved, normal':22} {'runs':>4}  {'false alarms':22} {'holds 1.03':22}")
    for row in apart:
        print(f"assume {row['assume']:15} {row['runs']:4}  {show(row['false_alarms']):22} {show(row['covered_1.03']):22}")
    print(f"\nequal builds under run-level effects ({SAMPLES} samples a run), as others analyse them; nominal 5 %")
    for row in others:
        print(f"{row['runs']:4} runs  {show(row['false_alarms']):22} {row['way']}")
    print(f"\n0 to {FEWEST - 1} runs a side, however far apart: {', '.join(too_few())}")
    print(f"{sum(map(kept, rows))} of {len(rows)} rows keep what is promised; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
