"""Times of the operators' harness beside those of torch.utils.benchmark, and on CUDA of triton.testing.do_bench, in turns in the same run.

    python benchmarks/harness.py [--processes 24] [--place cpu] [--sample-ms 20] [--cache warm] [--json]

A matrix product of about 100 µs, its size found once and then the same in all processes, is timed in fresh processes, the ways of timing in
turns in short blocks. Said are: the ratio of the times, with its 95 % interval over processes; and how far an answer lies from the next one
of the same way for the same time spent: Hotlap's is the median over 6 processes that take a sixth of the time each, theirs is one process
that takes all of it. Like is compared with like: inputs that stay in the cache (`--cache rotated`: Hotlap's default, more of them than the
cache holds), and samples as long as theirs (`--sample-ms 2`: as short as the loop takes them unless `sample_time` says more).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hotlap.core import work
from hotlap.core.measure import targets
from hotlap.core.measure.workloads.operators.base import Exact, Operator
from hotlap.core.measure.workloads.operators.harness import prepared
from hotlap.core.record import Case
from hotlap.core.stats.order import interval

BLOCKS_S, PROCESSES_OF_ONE = 0.96, 6  # seconds of all samples of a way in a process
TRIES = 8  # to find a size: the least time of these counts, for other programs only add to it
ASKED_S = 100e-6
WITHIN = 0.01  # agreement asked


def child(place: str, side: int, sample_s: float, cache: str) -> None:
    """Median seconds per call of each block, by way of timing: one line of JSON. Without a side it only says which one to take."""
    spec = targets.parse(f"torch:{place}")
    target = targets.open_device(spec, targets.find(spec)[0])
    if not side:
        print(json.dumps({"side": _side(target)}))
        return
    case = Case(workload="gemm", params=work.find("gemm").parse({"m": side, "n": side, "k": side, "dtype": "fp32", "cache": cache}))
    run = prepared(target, case, _product(target.library, side), np.random.default_rng(1))
    calls = max(1, round(sample_s / _once(target, run.enqueue, 20)))
    ways = {"hotlap": lambda: _hotlap(target, run, calls), **_others(target, side, calls)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(round(BLOCKS_S / sample_s)):
        for name in random.sample(list(ways), len(ways)):
            found[name].append(ways[name]())
    print(json.dumps({"side": side, "calls": calls, "found": found, "check": run.check().passed}))


def _product(torch: Any, side: int) -> Operator:
    return Operator(
        inputs=lambda make: {"a": make.normal(side, side, dtype="fp32"), "b": make.normal(side, side, dtype="fp32")},
        launch=lambda i: torch.mm(i["a"], i["b"]),
        reference=lambda i: [Exact(i["a"] @ i["b"], i["a"].abs() @ i["b"].abs(), terms=side)],
    )


def _side(target: Any) -> int:
    """Of a square product that takes about 100 µs; a multiple of 16."""
    torch, place = target.library, target.device.facts["place"]
    for side in range(64, 4097, 16):
        a = torch.randn(side, side, device=place)
        if min(_once(target, lambda calls, a=a: [torch.mm(a, a) for _ in range(calls)], 5) for _ in range(TRIES)) > ASKED_S:
            return side
    return 4096


def _once(target: Any, enqueue: Callable[[int], Any], calls: int) -> float:
    return min(_timed(target, enqueue, calls) for _ in range(5))


def _timed(target: Any, enqueue: Callable[[int], Any], calls: int) -> float:
    timing = target.time(enqueue, calls)
    return (timing.wall_s if timing.device_s is None else timing.device_s) / calls


def _hotlap(target: Any, run: Any, calls: int) -> float:
    """One sample as the loop takes it: inputs change before, outside the timed region."""
    run.before()
    found = _timed(target, run.enqueue, calls)
    run.after()
    return found


def _others(target: Any, side: int, calls: int) -> dict[str, Callable[[], float]]:
    from torch.utils.benchmark import Timer

    torch, place = target.library, target.device.facts["place"]
    a, b = (torch.randn(side, side, device=place) for _ in range(2))
    timer = Timer("mm(a, b)", globals={"mm": torch.mm, "a": a, "b": b}, num_threads=torch.get_num_threads())
    ways: dict[str, Callable[[], float]] = {"torch.utils.benchmark": lambda: timer.timeit(calls).mean}
    if place.startswith("cuda"):
        from triton.testing import do_bench

        ways["triton do_bench"] = lambda: do_bench(lambda: torch.mm(a, b), warmup=1, rep=1e3 * ASKED_S * calls, return_mode="median") * 1e-3
    return ways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--place", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sample-ms", type=float, default=20.0)
    parser.add_argument("--cache", default="warm", choices=("warm", "rotated"))
    parser.add_argument("--side", type=int, default=0, help="of the product; without it found, one of about 100 µs")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.place, args.side, args.sample_ms / 1e3, args.cache)
        return 0
    args.side = args.side or _run(args)["side"]
    taken = [_run(args) for _ in range(max(args.processes, PROCESSES_OF_ONE))]
    medians = [one["found"] for one in taken]
    answer = {
        "side": args.side, "sample_ms": args.sample_ms, "cache": args.cache,
        "time_s": statistics.median(_middle(one["hotlap"]) for one in medians),
        "right": all(one["check"] for one in taken), "ratios": {}, "apart": {"hotlap": _apart(_medians_of_six(medians))},
    }
    for name in medians[0]:
        if name != "hotlap":
            ratios = [statistics.median(a / b for a, b in zip(one["hotlap"], one[name], strict=True)) for one in medians]
            low, high, _ = interval(ratios) or (min(ratios), max(ratios), 0.0)
            answer["ratios"][name] = {"ratio": statistics.median(ratios), "low": low, "high": high}
            answer["apart"][name] = _apart([_middle(one[name]) for one in medians])
    print(json.dumps(answer, indent=1) if args.json else _said(answer, len(medians)))
    agree = all(abs(one["ratio"] - 1) <= WITHIN for one in answer["ratios"].values())
    return 0 if agree and all(answer["apart"]["hotlap"] <= one for one in answer["apart"].values()) else 1


def _run(args: argparse.Namespace) -> dict[str, Any]:
    """What a fresh process says."""
    told = {"--place": args.place, "--side": args.side, "--sample-ms": args.sample_ms, "--cache": args.cache}
    command = [sys.executable, __file__, "--child", *(str(word) for pair in told.items() for word in pair)]
    said: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return said


def _middle(values: list[float]) -> float:
    return statistics.median(values)


def _medians_of_six(rounds: list[dict[str, list[float]]]) -> list[float]:
    """Answers of Hotlap: six processes drawn at random, a sixth of each one's blocks, the median of their medians."""
    blocks = len(rounds[0]["hotlap"])
    draw, part = random.Random(1), max(1, blocks // PROCESSES_OF_ONE)
    answers = []
    for _ in range(1000):
        chosen = draw.sample(rounds, PROCESSES_OF_ONE)
        first = draw.randrange(blocks - part + 1)
        answers.append(statistics.median(_middle(one["hotlap"][first : first + part]) for one in chosen))
    return answers


def _apart(answers: list[float]) -> float:
    """Half of what 95 % of the answers span, as a share of the middle one."""
    low, middle, high = np.quantile(answers, (0.025, 0.5, 0.975))
    return float((high - low) / 2 / middle)


def _said(answer: dict[str, Any], processes: int) -> str:
    head = f"a product of {answer['side']}³ in fp32, {answer['time_s'] * 1e6:.0f} µs"
    how = f"{answer['cache']}, samples of {answer['sample_ms']:g} ms"
    lines = [f"{head}, {how}, {processes} processes, right: {answer['right']}"]
    for name, one in answer["ratios"].items():
        lines.append(f"hotlap ÷ {name:<22} {one['ratio']:.4f}   95 % interval {one['low']:.4f} to {one['high']:.4f}")
    lines += [f"answers apart by ± (95 %)  {name:<22} {100 * one:.2f} %" for name, one in answer["apart"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
