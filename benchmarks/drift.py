"""How far the level of unchanged code moves from one time to another: the source of `judge/drift.toml`.

    python benchmarks/drift.py [--here MINUTES]

From public histories (folder `regressions`, see `benchmarks/changes.py`; skipped with its reason where it is not there): the median
of five points against the five before, in each series, on logarithms. A history holds real changes of the code too, so the scale is
robust (1.4826 × the median of absolute steps), and 1.96 × that is the reach of 95 % of steps. `--here` measures three small programs
on this machine for so many minutes, a value about every 5 seconds, and prints the same of their wall time and of their processor time,
in which waiting for a processor does not count.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from changes import shared

GROUP = 5  # points of a level
FEWEST = 60  # points of a series
EVERY_S = 5.0
REPEATS = 5  # of which the median is a value


def reach(values: Sequence[float], group: int = GROUP) -> float | None:
    """Of 95 % of the steps between neighbouring levels, as a share; None with too few values."""
    logs = np.log([v for v in values if v and v > 0])
    if len(logs) < 3 * group:
        return None
    levels = np.array([np.median(logs[n : n + group]) for n in range(0, len(logs) - group + 1, group)])
    return float(1.96 * 1.4826 * np.median(np.abs(np.diff(levels))))


def published(folder: Path) -> dict[str, list[float]]:
    """The reach of each series, by machine."""
    reaches: dict[str, list[float]] = defaultdict(list)
    with gzip.open(folder / "scipy_bench_series.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            values = [v for v in row["y"] if v and v > 0]
            if len(values) >= FEWEST and (seen := reach(values)) is not None:
                reaches[f"scipy-bench on {row['machine']}"].append(seen)
    series: dict[str, list[float]] = defaultdict(list)
    for point in sorted(json.loads((folder / "tigerbeetle.json").read_text()), key=lambda one: one["timestamp"]):
        for metric in point["metrics"]:
            series[metric["name"]].append(metric["value"])
    reaches["tigerbeetle's nightly metrics"] = [seen for values in series.values() if (seen := reach(values)) is not None]
    return reaches


def _loop() -> None:
    total = 0
    for n in range(400_000):
        total += n & 7


def _triad() -> None:
    b = np.ones(4_000_000)
    for _ in range(3):
        b = b + 0.5 * b


def _matmul() -> None:
    a = np.ones((256, 256))
    for _ in range(20):
        a @ a


def _value(program: Callable[[], None]) -> tuple[float, float]:
    """Wall and processor time."""
    wall, processor = [], []
    for _ in range(REPEATS):
        began, used = time.perf_counter(), time.process_time()
        program()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return statistics.median(wall), statistics.median(processor)


def here(minutes: float) -> dict[str, list[float]]:
    """Values of each program, in turns."""
    programs = {"Python loop": _loop, "triad of numpy": _triad, "matmul of numpy": _matmul}
    series: dict[str, list[float]] = defaultdict(list)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        for name, program in programs.items():
            wall, processor = _value(program)
            series[f"{name}, wall time"].append(wall)
            series[f"{name}, processor time"].append(processor)
        time.sleep(EVERY_S)
    return series


def _show(series: Mapping[str, Sequence[float]]) -> None:
    print(f"{'of 95 % of steps between levels':40} {'series':>6}  {'median':>8}  {'upper quartile':>14}")
    for name, seen in series.items():
        print(f"{name:40} {len(seen):>6}  {np.median(seen):>8.1%}  {np.quantile(seen, 0.75):>14.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--here", type=float, default=0.0, metavar="MINUTES", help="measure on this machine too")
    options = parser.parse_args()
    folder = shared()
    if folder is None:
        print("published histories: skipped, because the folder regressions/ is not there; set HOTLAP_SHARED to the folder that holds it")
    else:
        _show(published(folder))
    if options.here:
        measured = here(options.here)
        print(f"\nthis machine, {options.here:g} minutes, {len(next(iter(measured.values())))} values of each program")
        _show({name: [seen] for name, values in measured.items() if (seen := reach(values)) is not None})


if __name__ == "__main__":
    main()
