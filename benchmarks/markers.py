"""What a marker costs: hotlap.marker off and on, beside contextlib.nullcontext and PyTorch's record_function.

    python benchmarks/markers.py [--json]

Nanoseconds per use, the loop itself subtracted: median of 15 batches of 20,000, the ways in turns. With PyTorch installed also
record_function, and markers on, outside a profiler and inside one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import repeat

import hotlap

BATCH, BATCHES = 20_000, 15


def empty(count: int) -> None:
    for _ in repeat(None, count):
        pass


def null(count: int) -> None:
    for _ in repeat(None, count):
        with nullcontext():
            pass


def marked(count: int) -> None:
    for _ in repeat(None, count):
        with hotlap.marker("forward"):
            pass


def held(count: int) -> None:
    one = hotlap.marker("forward")
    for _ in repeat(None, count):
        with one:
            pass


def plain_calls(count: int) -> None:
    for _ in repeat(None, count):
        _nothing()


def decorated(count: int) -> None:
    for _ in repeat(None, count):
        _nothing_marked()


def _nothing() -> None:
    pass


_nothing_marked = hotlap.marker("nothing")(_nothing)


def taken(ways: dict[str, Callable[[int], None]], batch: int = BATCH) -> dict[str, float]:
    """Median ns per use of each, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way(batch // 10)
    for _ in range(BATCHES):
        for name, way in ways.items():
            start = time.perf_counter_ns()
            way(batch)
            times[name].append((time.perf_counter_ns() - start) / batch)
    return {name: statistics.median(found) for name, found in times.items()}


def measure() -> dict[str, float]:
    hotlap.marker.level = "off"
    off = taken({"loop": empty, "null": null, "marked": marked, "held": held, "plain": plain_calls, "decorated": decorated})
    costs = {
        "contextlib.nullcontext": off["null"] - off["loop"], "marker off": off["marked"] - off["loop"],
        "marker off, made once": off["held"] - off["loop"], "decorator off, per call": off["decorated"] - off["plain"],
    }  # fmt: skip
    try:
        import torch
    except ImportError:
        return costs
    record = torch.profiler.record_function

    def recorded(count: int) -> None:
        for _ in repeat(None, count):
            with record("forward"):
                pass

    hotlap.marker.level = "all"
    on = taken({"loop": empty, "record": recorded, "marked": marked}, 2_000)
    costs |= {"record_function": on["record"] - on["loop"], "marker on": on["marked"] - on["loop"]}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        on = taken({"loop": empty, "record": recorded, "marked": marked}, 500)
    hotlap.marker.level = "off"
    return costs | {"record_function, profiled": on["record"] - on["loop"], "marker on, profiled": on["marked"] - on["loop"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    costs = measure()
    if options.json:
        print(json.dumps({f"{name} (ns)": round(value, 1) for name, value in costs.items()}, indent=1))
        return
    for name, value in costs.items():
        print(f"{name:<26} {value:9.1f} ns")
    if "record_function" not in costs:
        print("PyTorch is not installed: record_function and markers that are on were not measured")


if __name__ == "__main__":
    main()
