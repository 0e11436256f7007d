"""Change points: false alarms, steps found, delay, intervals and time, beside Otava and ruptures where they are installed.

    python benchmarks/changes.py [--series 2000] [--peer-series 200] [--seed 20261] [--json]

Series of 200 points about 100, noise scaled to 1.4826·MAD = 1 (1 %). A step of 5 % or 2 % lies at a random place from 30 to
170; it is found when a reported index is within 5 points. Real noise: values over the median of their level, shuffled, from
the public histories in regressions/ (folder HOTLAP_SHARED, or shared/data beside the repository). No effect gate is used.
Otava (p 0.001, its default) and ruptures (kernels "rbf" and "linear", which is least squares, penalty 3·log n) run on the
first --peer-series of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Change
from hotlap.core.stats.changes import changes
from hotlap.core.stats.excursions import excursions
from hotlap.core.stats.levels import RECENT
from hotlap.core.stats.split import EDGE

Floats = NDArray[np.float64]
POINTS, BASE, NEAR = 200, 100.0, 5
PLACES = (30, 171)
STEPS = (5.0, 2.0)
AFTER = (1, 2, 3, 5, 10, 20)
TARGETS = {"ar 0.8": (0.2, 0.95, None)}  # false per 1,000, share of 5 % steps, of 2 % steps; of the others:
TARGET = (0.05, 0.98, 0.80)


def autoregression(random: np.random.Generator, shape: tuple[int, int], phi: float) -> Floats:
    innovations = random.normal(size=(shape[0], shape[1] + 200))
    out = np.empty_like(innovations)
    last = np.zeros(shape[0])
    for i in range(innovations.shape[1]):
        out[:, i] = last = phi * last + innovations[:, i]
    return out[:, 200:]


def spikes(random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return random.normal(size=shape) + (random.random(shape) < 0.02) * random.uniform(5, 30, shape)


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Floats]] = {
    "normal": lambda r, s: r.normal(size=s),
    "Student t3": lambda r, s: r.standard_t(3, size=s),
    "lognormal": lambda r, s: np.exp(0.5 * r.normal(size=s)),
    "2 % spikes": spikes,
    "bimodal": lambda r, s: 0.3 * r.normal(size=s) + np.where(r.random(s) < 0.5, 1.0, -1.0),
    "quantised": lambda r, s: np.round(r.normal(size=s)),
    "ar 0.5": lambda r, s: autoregression(r, s, 0.5),
    "ar 0.8": lambda r, s: autoregression(r, s, 0.8),
}


def noise(name: str, random: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Centred, 1.4826·MAD = 1 over all series together."""
    x = NOISES[name](random, shape)
    x = x - np.median(x)
    return np.asarray(x / (1.4826 * np.median(np.abs(x))))


def shared() -> Path | None:
    places = [os.environ.get("HOTLAP_SHARED"), Path(__file__).parents[2] / "shared"]
    found = [Path(one) / part for one in places if one for part in ("regressions", "data/regressions")]
    return next((one for one in found if one.is_dir()), None)


def real_pool(folder: Path, random: np.random.Generator, most: int) -> list[Floats]:
    """Residuals of real histories, 1.4826·MAD = 1: each value over the median of its level, levels cut generously."""
    with gzip.open(folder / "scipy_bench_series.jsonl.gz", "rt") as file:
        lines = file.readlines()
    pool = []
    for i in random.permutation(len(lines)):
        values = np.array([v for v in json.loads(lines[i])["y"] if v is not None], dtype=float)
        values = values[np.isfinite(values) & (values > 0)]
        cuts = [0, *(one.index for one in changes(values, alpha=0.05) if one.kind == "step"), len(values)]
        parts = [values[a:b] / np.median(values[a:b]) - 1 for a, b in pairwise(cuts) if b - a >= 30]
        residual = np.concatenate(parts) if parts else np.empty(0)
        scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if len(residual) >= POINTS else 0.0
        if scale:
            pool.append((residual - np.median(residual)) / scale)
        if len(pool) == most:
            break
    return pool


def real_noise(pool: list[Floats], random: np.random.Generator, count: int, shuffled: bool) -> Floats:
    rows = []
    while len(rows) < count:
        one = pool[random.integers(len(pool))]
        start = random.integers(len(one) - POINTS + 1)
        row = random.permutation(one)[:POINTS] if shuffled else one[start : start + POINTS]
        scale = 1.4826 * float(np.median(np.abs(row - np.median(row))))
        if scale:
            rows.append(row / scale)
    return np.array(rows)


def wilson(hits: float, n: int) -> tuple[float, float]:
    """95 % interval of a share."""
    z2 = 1.96**2
    middle, half = (hits + z2 / 2) / (n + z2), 1.96 / (n + z2) * math.sqrt(hits * (n - hits) / n + z2 / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def shown(share: list[float]) -> str:
    return f"{share[0]:6.1%} [{share[1]:.1%}, {share[2]:.1%}]"


def stated(hits: int, n: int) -> list[float]:
    return [hits / n, *wilson(hits, n)]


def peers() -> tuple[dict[str, Callable[[Floats], list[int]]], list[str]]:
    """Functions that give indices of changes, and why some are missing."""
    answers: dict[str, Callable[[Floats], list[int]]] = {}
    missing = []
    try:
        analysis = importlib.import_module("otava.analysis")
        answers["otava"] = lambda x: [one.index for one in analysis.compute_change_points(x.tolist(), max_pvalue=0.001)[0]]
    except ImportError as error:
        missing.append(f"otava: not run, because {error}; pip install apache-otava")
    try:
        rpt = importlib.import_module("ruptures")
        penalty = 3 * math.log(POINTS)
        answers["ruptures rbf"] = lambda x: rpt.KernelCPD("rbf", min_size=3).fit(x).predict(pen=penalty)[:-1]
        answers["ruptures l2"] = lambda x: rpt.KernelCPD("linear", min_size=3).fit(x - BASE).predict(pen=penalty)[:-1]
    except ImportError as error:
        missing.append(f"ruptures: not run, because {error}; pip install ruptures")
    return answers, missing


def accuracy(series: Floats, random: np.random.Generator) -> dict[str, Any]:
    """Of Hotlap."""
    at = random.integers(*PLACES, len(series))
    row = _false([[one.index for one in answer] for answer in map(changes, BASE + series)])
    for size in STEPS:
        answers = [changes(one) for one in stepped(series, at, size)]
        row |= _hits([[one.index for one in answer if one.kind == "step"] for answer in answers], at, size)
        row[f"cover{size:g}"] = coverage(answers, at, 1 + size / BASE)
    return row


def peer_accuracy(series: Floats, random: np.random.Generator, find: Callable[[Floats], list[int]]) -> dict[str, Any]:
    """Of a peer; series that it raises an error on are left out and counted."""
    at = random.integers(*PLACES, len(series))
    null = [_tried(find, row) for row in BASE + series]
    row, failed = _false([one for one in null if one is not None]), sum(one is None for one in null)
    for size in STEPS:
        found = [_tried(find, one) for one in stepped(series, at, size)]
        good = [i for i, one in enumerate(found) if one is not None]
        row |= _hits([found[i] or [] for i in good], at[good], size)
        failed += len(found) - len(good)
    return row | {"failed": failed}


def _tried(find: Callable[[Floats], list[int]], x: Floats) -> list[int] | None:
    try:
        return find(x)
    except ValueError:
        return None


def stepped(series: Floats, at: NDArray[np.int64], size: float) -> Floats:
    return BASE + series + size * (np.arange(POINTS) >= at[:, None])


def _false(answers: list[list[int]]) -> dict[str, Any]:
    n = max(len(answers), 1)
    return {"series": n, "false_per_1000": sum(map(len, answers)) / n / POINTS * 1000, "false": stated(sum(map(bool, answers)), n)}


def _hits(answers: list[list[int]], at: NDArray[np.int64], size: float) -> dict[str, Any]:
    near = [[abs(i - k) <= NEAR for i in one] for one, k in zip(answers, at.tolist(), strict=True)]
    n = max(len(answers), 1)
    elsewhere = sum(len(one) - sum(one) for one in near) / n / POINTS * 1000
    return {f"step{size:g}": stated(sum(map(any, near)), n), f"elsewhere{size:g}": elsewhere}


def coverage(answers: list[list[Any]], at: NDArray[np.int64], truth: float) -> list[float]:
    """Share of the intervals of found steps that hold the true ratio."""
    held = [one.low <= truth <= one.high for answer, k in zip(answers, at, strict=True) for one in answer if abs(one.index - k) <= NEAR]
    return stated(sum(held), len(held)) if held else [0.0, 0.0, 1.0]


def delays(series: Floats, size: float) -> dict[str, Any]:
    """Alarms of a growing series with a step at its middle: points after the step until the first, and false ones before."""
    at, n = POINTS // 2, len(series)
    first: dict[bool, list[float]] = {True: [], False: []}
    false = {True: 0, False: 0}
    for row in BASE + series + size * (np.arange(POINTS) >= at):
        seen = {True: math.inf, False: math.inf}
        for i, one in alarms(row[: at + 60]):
            if i < at:
                false[one.provisional] += 1
            elif abs(one.index - at) <= NEAR:
                seen[one.provisional] = min(seen[one.provisional], i - at + 1)
        seen[True] = min(seen.values())  # a confirmed alarm without a provisional one before it asks for no re-run, but is one
        for kind, points in seen.items():
            first[kind].append(points)
    out: dict[str, Any] = {"series": n}
    for kind, name in ((True, "any"), (False, "confirmed")):
        points = np.array(first[kind])
        out[name] = {"median": _known(float(np.median(points))), "share": {str(k): float(np.mean(points <= k)) for k in AFTER}}
    for kind, name in ((True, "provisional"), (False, "confirmed")):
        out[f"false_{name}_per_1000"] = false[kind] / n / at * 1000
    return out


def alarms(x: Floats) -> Iterator[tuple[int, Change]]:
    """What is new at each point of a growing series: a step away from others, a provisional one not just seen, a drift that begins."""
    alarmed: list[int] = []
    asked, drifting = -math.inf, False
    for i in range(len(x)):
        answer, drifted = changes(x[: i + 1], provisional=True), drifting
        drifting = any(one.kind == "drift" for one in answer)
        before = list(alarmed)
        for change in answer:
            if change.kind == "drift":
                new = not drifted
            elif change.provisional:
                new, asked = (True, change.index) if abs(change.index - asked) > RECENT else (False, asked)
            elif new := all(abs(change.index - at) > EDGE for at in before):
                alarmed.append(change.index)
            if new:
                yield i, change


def _known(x: float) -> float | None:
    """JSON has no infinity."""
    return x if math.isfinite(x) else None


def shapes(random: np.random.Generator, count: int) -> dict[str, Any]:
    """What is not one step: stretches up and back, several steps, drifts."""
    out: dict[str, Any] = {}
    for name in ("normal", "2 % spikes", "ar 0.5"):
        for width in (6, 10, 20, 40):
            x = noise(name, random, (count, POINTS))
            x[:, 90 : 90 + width] += 5
            out[f"{name}, up 5 % and back after {width} points"] = _found(x, (90, 90 + width))
        x, places = noise(name, random, (count, 360)), (60, 110, 180, 230, 300)
        for at, size in zip(places, (4, -4, 3, 3, -5), strict=True):
            x[:, at:] += size
        out[f"{name}, five steps of 3 to 5 %"] = _found(x, places)
        for total in (2.0, 5.0):
            x = noise(name, random, (count, POINTS)) + total * np.linspace(0, 1, POINTS)
            out[f"{name}, drift of {total:g} % in all"] = _found(x, ())
    return out


def _found(x: Floats, places: tuple[int, ...]) -> dict[str, float | None]:
    answers = [changes(BASE + row) for row in x]
    steps = [[one.index for one in answer if one.kind == "step"] for answer in answers]
    hits = [any(abs(i - k) <= NEAR for i in one) for one in steps for k in places]
    other = [sum(all(abs(i - k) > NEAR for k in places) for i in one) for one in steps]
    drift = [any(one.kind == "drift" for one in answer) for answer in answers]
    return {"found": float(np.mean(hits)) if hits else None, "other_steps": float(np.mean(other)), "drift": float(np.mean(drift))}


def timed(action: Callable[[], object], repeats: int = 5) -> float:
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def times(random: np.random.Generator) -> dict[str, float]:
    out = {}
    calm = BASE + random.normal(size=100_000)
    steps = calm + 5.0 * (np.arange(len(calm)) // (len(calm) // 6) % 2)
    out["100,000 points, no change, s"] = timed(lambda: changes(calm))
    out["100,000 points, 5 steps, s"] = timed(lambda: changes(steps))
    often = calm + 5.0 * (np.arange(len(calm)) // 1000 % 2)
    out["100,000 points, a step every 1,000, s"] = timed(lambda: changes(often), 2)
    dependent = BASE + autoregression(random, (1, 100_000), 0.5)[0]
    out["100,000 points of ar 0.5, no change, s"] = timed(lambda: changes(dependent), 1)
    return out


def samples(folder: Path) -> Iterator[tuple[str, Floats]]:
    """Public histories of others, unlabelled."""
    history = json.loads((folder / "tigerbeetle.json").read_text())
    names = list(dict.fromkeys(metric["name"] for point in history for metric in point["metrics"]))
    for name in names:
        values = [metric["value"] for point in history for metric in point["metrics"] if metric["name"] == name]
        yield f"tigerbeetle {name}", np.array(values, dtype=float)
    with (folder / "otava" / "local_sample.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in ("metric1", "metric2"):
        yield f"otava sample {name}", np.array([float(row[name]) for row in rows])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    methods, missing = peers()
    folder = shared()
    random = np.random.default_rng(options.seed)
    sets = {name: noise(name, random, (options.series, POINTS)) for name in NOISES}
    if folder:
        pool = real_pool(folder, random, options.pool)
        sets["real, shuffled"] = real_noise(pool, random, options.series, True)
        sets["real, in order"] = real_noise(pool, random, options.series, False)
    else:
        missing.append("real noise: not run, because the folder regressions/ is not there; set HOTLAP_SHARED to the folder that holds it")
    out: dict[str, Any] = {"seed": options.seed, "missing": missing, "machine": f"{platform.machine()}, {os.cpu_count()} CPUs"}
    out["accuracy"] = {name: {"hotlap": accuracy(x, random)} for name, x in sets.items()}
    for name, x in sets.items():
        for peer, find in methods.items():
            out["accuracy"][name][peer] = peer_accuracy(x[: options.peer_series], random, find)
    count = max(20, options.series // 10)
    out["delay"] = {name: {f"{size:g} %": delays(x[:count], size) for size in STEPS} for name, x in sets.items()}
    out["apart"] = {name: {str(n): _apart(noise(name, random, (5 * options.series, n))) for n in (20, 60, POINTS)} for name in NOISES}
    out["shapes"] = shapes(random, count)
    out["times"] = times(random)
    if folder:
        out["samples"] = {name: _compared(x, methods) for name, x in samples(folder)}
    return out


def _apart(series: Floats) -> list[float]:
    """Share of series of noise in which a group of points is said to lie apart."""
    return stated(sum(bool(excursions(row)) for row in BASE + series), len(series))


def _compared(x: Floats, methods: dict[str, Callable[[Floats], list[int]]]) -> dict[str, Any]:
    row: dict[str, Any] = {"points": len(x), "hotlap": [f"{one.index}{'d' * (one.kind == 'drift')}" for one in changes(x)]}
    if "otava" in methods:
        found = _tried(methods["otava"], x)
        row["otava"] = ["failed"] if found is None else [str(i) for i in found]
    return row


def show(out: dict[str, Any]) -> None:
    print(f"seed {out['seed']}, {out['machine']}", *out["missing"], sep="\n")
    print("\nFalse alarms on noise alone and steps found within 5 points (shares with 95 % intervals)")
    print("'beside': steps reported elsewhere per 1,000 points of the series with a 5 % and a 2 % step")
    heads = f"{'series with a false alarm':>26} {'5 % step found':>24} {'2 % step found':>24}"
    print(f"{'noise':15} {'method':14}{'per 1,000':>10} {heads}      beside")
    for name, rows in out["accuracy"].items():
        for method, row in rows.items():
            beside = f"{row['elsewhere5']:5.2f} {row['elsewhere2']:5.2f}" + (f"  failed on {row['failed']}" if row.get("failed") else "")
            shares = f"{shown(row['false']):>26} {shown(row['step5']):>24} {shown(row['step2']):>24}"
            print(f"{name:15} {method:14}{row['false_per_1000']:10.3f} {shares}  {beside}{_verdict(name, method, row)}")
    print("\nPoints after the step until an alarm (step in the middle, points come one by one); false alarms are before it")
    print(f"{'noise':15} {'step':5} {'alarm':10}{'median':>7}  " + "".join(f"{f'after {k}':>9}" for k in AFTER) + "   false per 1,000")
    for name, rows in out["delay"].items():
        for size, row in rows.items():
            for kind, false in (("any", "provisional"), ("confirmed", "confirmed")):
                shares = "".join(f"{row[kind]['share'][str(k)]:9.0%}" for k in AFTER)
                middle = "never" if row[kind]["median"] is None else f"{row[kind]['median']:.0f}"
                print(f"{name:15} {size:5} {kind:10}{middle:>7}  {shares}   {row[f'false_{false}_per_1000']:.2f} ({false})")
    print("\n95 % intervals of the ratio that hold the true one (steps that were found)")
    for name, rows in out["accuracy"].items():
        print(f"{name:15} 5 %: {shown(rows['hotlap']['cover5'])}   2 %: {shown(rows['hotlap']['cover2'])}")
    print("\nSeries of noise alone in which points are said to lie apart, of 20, 60 and 200 points (no change is counted)")
    for name, by_length in out["apart"].items():
        print(f"{name:15} " + "   ".join(f"{share[0]:7.3%} [{share[1]:.3%}, {share[2]:.3%}]" for share in by_length.values()))
    print("\nOther shapes (Hotlap): share of the changes found, other steps per series, series said to drift")
    for name, row in out["shapes"].items():
        hits = "      -" if row["found"] is None else f"{row['found']:7.1%}"
        print(f"{name:44} {hits} {row['other_steps']:7.2f} {row['drift']:7.1%}")
    print("\nTimes (best of a few runs)")
    for name, value in out["times"].items():
        print(f"{name:52} {value:9.3f}")
    for name, row in out.get("samples", {}).items():
        hits = "   ".join(f"{method}: {' '.join(row[method]) or '-'}" for method in ("hotlap", "otava") if method in row)
        print(f"{name:30} {row['points']:4} points   {hits}")


def _verdict(name: str, method: str, row: dict[str, Any]) -> str:
    """Whether Hotlap reached what was asked of it; nothing was asked of noise in order."""
    if method != "hotlap" or name == "real, in order":
        return ""
    false, five, two = TARGETS.get(name, TARGET)
    missed = [f"{what} {limit}" for what, ok, limit in (
        ("false per 1,000 ≤", row["false_per_1000"] <= false, false),
        ("5 % steps ≥", row["step5"][0] >= five, five),
        ("2 % steps ≥", two is None or row["step2"][0] >= two, two),
    ) if not ok]  # fmt: skip
    return "  target missed: " + ", ".join(missed) if missed else "  targets reached"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=2000, help="per noise")
    parser.add_argument("--peer-series", type=int, default=200, help="of them given to Otava and ruptures too")
    parser.add_argument("--pool", type=int, default=800, help="real histories that give their residuals")
    parser.add_argument("--seed", type=int, default=20261)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    out = measure(options)
    if options.json:
        print(json.dumps(out, indent=1))
    else:
        show(out)


if __name__ == "__main__":
    main()
