"""Do intervals over captures hold? Simulated captures of a scene whose truth is known: how often each kind of interval covers it, how wide.

    python benchmarks/frames_intervals.py [--scenes 1000] [--runs 6] [--seed 1] [--json]

Frame times are log-normal around an AR(1) (0.9); runs differ by 2 % in all frame times, and by half in how often they hitch. At 1 frame in
1000 a hitch begins, whose frames take 2.5 to 5 times their length. Two scenes:
- a minute at 100 fps, a hitch of 3 frames in a row (`hotlap frames` counts slow frames under 100 ms apart as one hitch)
- 15 s, a hitch of a single frame: slow frames are independent of each other, and so few (1.5 a capture) that how runs differ is lost in
  their number. It is the best case for intervals over frames.
Intervals:
- over runs: Hotlap's own interval, of the median over captures (`hotlap.core.stats.summary`)
- bootstrap of runs: percentiles of means of captures drawn again, 1000 times
- over frames: the usual one, of all frames as if they were independent: of the average by its standard error, of p99 by
  order statistics, of a low by the standard error of a tail's mean
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.stats.summary import summarize
from hotlap.frames import lows

Floats = NDArray[np.float64]
CORRELATION, SPREAD, BETWEEN, HITCH = 0.9, 0.15, 0.02, 1 / 1000
TRUTH_RUNS, RESAMPLES, Z = 6000, 1000, 1.959964
SHARE = 0.01
TOGETHER = 600  # captures that are drawn at once


class Scene(NamedTuple):
    """`frames` of a capture, `slow` of a hitch, one after another."""

    frames: int
    slow: int


SCENES = {"a minute, hitches of 3 frames": Scene(6000, 3), "15 s, hitches of single frames": Scene(1500, 1)}


def captures(random: np.random.Generator, runs: int, scene: Scene) -> Floats:
    """Frame times in ms, a row for each run."""
    frames, slow_frames = scene
    steps = random.normal(0.0, SPREAD * math.sqrt(1 - CORRELATION**2), (frames, runs))
    level = np.empty((frames, runs))
    level[0] = random.normal(0.0, SPREAD, runs)
    for place in range(1, frames):
        level[place] = CORRELATION * level[place - 1] + steps[place]
    times = 10.0 * np.exp(level + random.normal(0.0, BETWEEN, runs))
    begins = random.random((frames, runs)) < HITCH * np.exp(random.normal(0.0, 0.5, runs))
    slow = begins.copy()
    for later in range(1, slow_frames):
        slow[later:] |= begins[:-later]
    times[slow] *= random.uniform(2.5, 5, int(slow.sum()))
    return times.T


def average(times: Floats) -> float:
    return 1000 / float(times.mean())


def low(times: Floats) -> float:
    rate = lows.slowest_times(np.sort(times)[::-1], SHARE)
    assert rate is not None
    return rate


def average_over_frames(times: Floats) -> tuple[float, float]:
    half = Z * float(times.std(ddof=1)) / math.sqrt(len(times))
    return 1000 / (float(times.mean()) + half), 1000 / (float(times.mean()) - half)


def p99(times: Floats) -> float:
    return lows.quantile(np.sort(times), 0.99)


def p99_over_frames(times: Floats) -> tuple[float, float]:
    ordered, half = np.sort(times), Z * math.sqrt(0.99 * 0.01 * len(times))
    return float(ordered[math.floor(0.99 * len(times) - half)]), float(ordered[min(math.ceil(0.99 * len(times) + half), len(times) - 1)])


def low_over_frames(times: Floats) -> tuple[float, float]:
    slowest = np.sort(times)[::-1]
    tail = slowest[: math.ceil(SHARE * len(times))]
    variance = (float(tail.var()) + (1 - SHARE) * (float(tail.mean()) - float(tail[-1])) ** 2) / (SHARE * len(times))
    half = Z * math.sqrt(variance)
    return 1000 / (float(tail.mean()) + half), 1000 / (float(tail.mean()) - half)


METRICS: dict[str, tuple[Callable[[Floats], float], Callable[[Floats], tuple[float, float]]]] = {
    "average": (average, average_over_frames), "p99": (p99, p99_over_frames), "1 % low": (low, low_over_frames),
}  # fmt: skip


class Coverage(NamedTuple):
    """Share of scenes whose interval holds the truth, and the median width of intervals, as a share of it."""

    metric: str
    kind: str
    held: float
    width: float


def measure(scenes: int, runs: int, scene: Scene, seed: int) -> list[Coverage]:
    random = np.random.default_rng(seed)
    intervals: dict[tuple[str, str], list[tuple[float, float]]] = {}
    truths = _truths(random, scene)
    for times in _drawn(random, scenes, runs, scene):
        for name, (metric, by_frames) in METRICS.items():
            values = np.array([metric(one) for one in times])
            summary = summarize(values.tolist())
            assert summary.low is not None
            assert summary.high is not None
            again = random.choice(values, (RESAMPLES, runs)).mean(axis=1)
            low_end, high_end = np.quantile(again, (0.025, 0.975))
            intervals.setdefault((name, "over runs"), []).append((summary.low, summary.high))
            intervals.setdefault((name, "bootstrap of runs"), []).append((float(low_end), float(high_end)))
            intervals.setdefault((name, "over frames"), []).append(by_frames(times.ravel()))
    rows = []
    for (name, kind), pairs in intervals.items():
        truth, ends = truths[name, kind], np.array(pairs)
        held = float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
        rows.append(Coverage(name, kind, held, float(np.median(ends[:, 1] - ends[:, 0])) / truth))
    return rows


def _drawn(random: np.random.Generator, scenes: int, runs: int, scene: Scene) -> Iterator[Floats]:
    """Each scene's captures."""
    at_once = max(TOGETHER // runs, 1)
    for first in range(0, scenes, at_once):
        count = min(at_once, scenes - first)
        yield from captures(random, count * runs, scene).reshape(count, runs, scene.frames)


def _truths(random: np.random.Generator, scene: Scene) -> dict[tuple[str, str], float]:
    """What each kind of interval is of: the median or mean of the captures' own numbers, or that of all frames."""
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    some = []
    for _ in range(TRUTH_RUNS // TOGETHER):
        times = captures(random, TOGETHER, scene)
        some.append(times[: TOGETHER // 3])
        for name, (metric, _over_frames) in METRICS.items():
            values[name] += [metric(one) for one in times]
    frames = np.concatenate(some).ravel()
    truths = {(name, "over frames"): metric(frames) for name, (metric, _over_frames) in METRICS.items()}
    truths |= {(name, "over runs"): float(np.median(of_runs)) for name, of_runs in values.items()}
    return truths | {(name, "bootstrap of runs"): float(np.mean(of_runs)) for name, of_runs in values.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="how often intervals of frames hold")
    for option, usual in (("scenes", 1000), ("runs", 6), ("seed", 1)):
        parser.add_argument(f"--{option}", type=int, default=usual)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    tables = {name: measure(args.scenes, args.runs, scene, args.seed) for name, scene in SCENES.items()}
    if args.json:
        print(json.dumps({name: [row._asdict() for row in rows] for name, rows in tables.items()}, indent=2))
        return 0
    for name, rows in tables.items():
        print(f"{args.scenes} scenes of {args.runs} captures ({name}): 95 % intervals")
        for row in rows:
            print(f"{row.metric:<9} {row.kind:<18} hold {row.held:6.1%}   width {row.width:6.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
