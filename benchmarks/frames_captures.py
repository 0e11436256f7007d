"""Figures of captures that need neither a GPU nor a display: definitions against a second implementation, hitches where none are, bytes.

    python benchmarks/frames_captures.py [--captures 200] [--json]

- definitions: the eight of 1 % and 0.1 % low of random captures, to four digits behind the point, against formulas written anew by NumPy's
  own quantiles and plain loops (`second`)
- hitches: of clean captures of a log-normal around an AR(1), at 250, 100 and 30 fps, and at a cap of 30 fps with the way into it and out
- bytes: 10 minutes at 240 fps as a run keeps them, PresentMon's 22 columns, with pyarrow and without
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the other benchmark
from benchmarks import frames_speed
from hotlap.frames import deriving, hitches, keeping, lows, reading
from hotlap.frames.record import Stream, StreamName

Floats = NDArray[np.float64]
SHARES = (0.01, 0.001)
CLEAN = 30  # captures at each rate
MINUTES_10 = 10 * 60 * 240


def second(share: float) -> dict[str, Callable[[Floats], float]]:
    """Written anew, from the formulas; frame times in ms."""

    def integral(times: Floats) -> float:
        passed, total = 0.0, math.fsum(times)
        for time in sorted(times, reverse=True):
            passed += time
            if passed >= share * total:
                return float(1000 / time)
        raise AssertionError

    def count(times: Floats) -> int:
        return max(-(-round(len(times) * share * 1000) // 1000), 1)

    return {
        "percentile of times": lambda t: 1000 / np.quantile(t, 1 - share, method="linear"),
        "percentile of rates": lambda t: np.quantile(1000 / t, share, method="linear"),
        "median-unbiased": lambda t: np.quantile(1000 / t, share, method="median_unbiased"),
        "beyond percentile": lambda t: 1000 / np.mean(t[t >= np.quantile(t, 1 - share, method="median_unbiased")]),
        "slowest frames": lambda t: 1000 / np.mean(sorted(t)[-count(t):]),
        "lowest rates": lambda t: np.mean(sorted(1000 / t)[: count(t)]),
        "place in order": lambda t: 1000 / sorted(t, reverse=True)[int(len(t) * share - 1)],
        "slowest time": integral,
    }  # fmt: skip


def clean(random: np.random.Generator, count: int, mean_ms: float, spread: float) -> Floats:
    """Frame times without a hitch, in ms, whole 0.1 µs."""
    level, steps = np.zeros(count), random.normal(0.0, spread * math.sqrt(1 - 0.81), count)
    for place in range(1, count):
        level[place] = 0.9 * level[place - 1] + steps[place]
    return np.round(mean_ms * np.exp(level), 4)


def definitions(captures: int) -> tuple[int, list[str]]:
    """How many numbers were compared, and those that differ."""
    random, compared, differ = np.random.default_rng(5), 0, list[str]()
    for number in range(captures):
        times = clean(random, int(random.integers(100, 4000)), float(random.uniform(2, 40)), float(random.uniform(0.01, 0.4)))
        times[random.integers(0, len(times), 5)] *= random.uniform(2, 20)
        for share in SHARES if len(times) >= 1000 else SHARES[:1]:
            for name, other in second(share).items():
                rate = lows.DEFINITIONS[name].rate(np.sort(times)[::-1], share)
                compared += 1
                if rate is None or f"{rate:.4f}" != f"{other(times):.4f}":
                    differ.append(f"{name} of {share:.1%}, capture {number}")
    return compared, differ


def false_hitches() -> dict[str, tuple[int, int]]:
    """Scene → captures, hitches found in them."""
    random = np.random.default_rng(3)
    scenes = {f"{1000 / ms:.0f} fps": [clean(random, 3000, ms, 0.15) for _ in range(CLEAN)] for ms in (4.0, 10.0, 33.3)}
    cap = [np.round(33.3 + random.normal(0, 0.4, 1000), 4) for _ in range(CLEAN)]
    fast = clean(random, 1000, 4.0, 0.08)
    scenes["a cap of 30 fps, into it and out"] = [np.concatenate([fast, one, fast]) for one in cap]
    return {name: (len(some), sum(len(hitches.of(_stream(times))) for times in some)) for name, some in scenes.items()}


def _stream(times_ms: Floats) -> Stream:
    none, times_s = np.zeros(0), times_ms / 1000
    return Stream(0, StreamName(), "", times_s, True, {}, none, none, none, None, None, np.cumsum(times_s) - times_s)


def kept_mb() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "game.csv"
        frames_speed.write(file, MINUTES_10)
        (capture,) = reading.read(file)
    ticks, _ = deriving.without(capture.ticks, capture.kept.columns)
    return {"with pyarrow": len(keeping.parquet(ticks)) / 1e6, "without": len(keeping.zipped(ticks)) / 1e6}


def main() -> int:
    parser = argparse.ArgumentParser(description="figures of captures")
    parser.add_argument("--captures", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    compared, differ = definitions(args.captures)
    none, size = false_hitches(), kept_mb()
    if args.json:
        print(json.dumps({"compared": compared, "differ": differ, "hitches_in_clean": none, "kept_mb": size}, indent=2))
        return 0
    print(f"definitions  {compared - len(differ)} of {compared} numbers of {args.captures} random captures are equal", *differ[:3])
    for name, (captures, found) in none.items():
        print(f"hitches      {found} in {captures} clean captures, {name}")
    print(f"bytes        10 minutes at 240 fps: {', '.join(f'{mb:.2f} MB {how}' for how, mb in size.items())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
