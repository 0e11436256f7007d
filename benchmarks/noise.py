"""`hotlap run quick` again and again: as the machine is, and beside programs that come and go. What is shown, and how far it is off.

    python benchmarks/noise.py [--times 10] [--seed 1] [--before FOLDER] [--before-times N]
                               [--plan quick] [--keep FILE] [--json]

The runs take turns: quiet, loaded, quiet … Load is two processes that spin on and off, each for exponential times of mean 2 s. Each run
is a fresh process with a home of its own. `--before`: the `src` folder of another version, whose runs take turns with these, in the
first `--before-times` turns. `--keep`: a file of JSON lines, one per run, written as they end; runs that stand there already are not
run again.

A case is compared with itself: the median of its loaded runs with that of its quiet ones, in clock cycles where its time is a number
of cycles (fma, gemm, chase in a core's own caches) and the clock was read, else in its own unit. It may differ by 5 %, or by half the
range of the quiet runs where that is more. Wall times say how long a run takes and nothing else. Exit code 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core.measure import targets
from hotlap.core.measure.sensors import cpu_clock

MEAN_S, SPINNERS = 2.0, 2
WITHIN, RANGE_SHARE = 0.05, 0.5
MOST_INVALID, MEASURED_AIM = 1, 12
CALM_STEAL, CALM_DELAY, CALM_CLOCK = 0.01, 0.01, 0.05  # shares of the time, and range of an idle core's clock, of a host that allows more

SPIN = """
import random, sys, time
draw = random.Random(int(sys.argv[1]))
while True:
    until = time.perf_counter() + draw.expovariate(1 / float(sys.argv[2]))
    while time.perf_counter() < until:
        pass
    time.sleep(draw.expovariate(1 / float(sys.argv[2])))
"""


@dataclass
class Shown:
    """What one run shows."""

    wall_s: float
    load: float
    steal: float
    results: list[dict[str, Any]] = field(default_factory=list)
    at: str = ""  # turn, condition and version
    delay: float = 0.0  # share of its time that a thread alone on the machine waited for a processor, just before
    clock: float = 0.0  # range of the clock of a core over half a second, of its median, just before

    @property
    def calm(self) -> bool:
        return self.steal < CALM_STEAL and self.delay < CALM_DELAY and self.clock < CALM_CLOCK

    def count(self, state: str) -> int:
        return sum(one["state"] == state for one in self.results)

    @property
    def without(self) -> list[str]:
        """Cases that can run here and have no number."""
        return [one["name"] for one in self.results if one["state"] != "not_run" and one["value"] is None]


@contextmanager
def load(seed: int) -> Iterator[None]:
    """Two processes that come and go."""
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN, str(seed * SPINNERS + n), str(MEAN_S)]) for n in range(SPINNERS)]
    try:
        yield
    finally:
        for one in spinners:
            one.kill()
            one.wait()


def ticks() -> tuple[float, float]:
    """Stolen and all time of the processors so far."""
    fields = [float(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return fields[7], sum(fields)


def idle() -> tuple[float, float]:
    """Of the machine as it is: what a thread waits for a processor, and by how much the clock of its core varies."""
    clocks, target = [], targets.open_device(spec := targets.parse("host"), targets.find(spec)[0])
    waited, began = int(Path("/proc/self/schedstat").read_text().split()[1]), time.perf_counter()
    while time.perf_counter() - began < 0.5:
        clocks += [hz for hz in [cpu_clock.of_cores(target.clock, [0])] if hz]
    delay = (int(Path("/proc/self/schedstat").read_text().split()[1]) - waited) * 1e-9 / (time.perf_counter() - began)
    tens = statistics.quantiles(clocks, n=20) if len(clocks) > 1 else [1.0, 1.0]  # a reading that was interrupted is no clock
    return delay, (tens[-1] - tens[0]) / statistics.median(tens)


def once(plan: str, source: str) -> Shown:
    """One run of the version whose `src` folder is `source` ("" for the installed one)."""
    (stolen, total), (delay, clock) = ticks(), idle()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOTLAP_HOME": home, **({"PYTHONPATH": source} if source else {})}
        command = [sys.executable, "-m", "hotlap", "run", plan, "--json", "--no-report"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall_s, (stolen_now, total_now) = time.perf_counter() - began, ticks()
    if not done.stdout.strip():
        sys.exit(f"the run gave nothing: {done.stderr[-500:]}")
    document = json.loads(done.stdout)
    results = document["cases"] if "cases" in document else [_of_before(row) for row in document["results"]]
    return Shown(wall_s, os.getloadavg()[0], (stolen_now - stolen) / max(total_now - total, 1e-9), results, "", delay, clock)


def _of_before(row: dict[str, Any]) -> dict[str, Any]:
    """A case as version 0.1 prints it, in today's shape."""
    same = {key: row[key] for key in ("state", "value", "unit")}
    codes = [row["notice"]] if row.get("notice") else []
    return {**same, "name": row["label"], "codes": codes, "more": {"cycles": row.get("cycles") or []}}


def earlier(keep: Path | None) -> list[Shown]:
    """The runs that a file of `--keep` holds."""
    lines = keep.read_text(encoding="utf-8").splitlines() if keep and keep.exists() else []
    return [Shown(**json.loads(line)) for line in lines]


def number(result: dict[str, Any]) -> tuple[float, str] | None:
    """What is compared: cycles of a call where they mean something, else the value."""
    if cycles := result.get("more", {}).get("cycles"):
        return statistics.median(cycles), "cycles"
    return (float(result["value"]), str(result.get("unit", ""))) if result["value"] is not None else None


def compared(quiet: list[Shown], loaded: list[Shown]) -> list[tuple[str, str, float, float, float, bool]]:
    """Label, unit, quiet median, loaded ÷ quiet, what it may differ by, whether it does not differ by more."""
    rows = []
    for place, first in enumerate(quiet[0].results):
        sides = [[found for run in runs if (found := number(run.results[place]))] for runs in (quiet, loaded)]
        if not all(sides) or len({unit for side in sides for _, unit in side}) > 1:
            continue
        a, b = ([value for value, _ in side] for side in sides)
        middle = statistics.median(a)
        allowed = max(WITHIN, RANGE_SHARE * (max(a) - min(a)) / middle)
        ratio = statistics.median(b) / middle
        rows.append((first["name"], sides[0][0][1], middle, ratio, allowed, abs(ratio - 1) <= allowed))
    return rows


def summary_line(name: str, runs: list[Shown]) -> str:
    usual = {state: statistics.median(run.count(state) for run in runs) for state in ("measured", "inconclusive", "invalid")}
    states = ", ".join(f"{count:g} {state}" for state, count in usual.items())
    walls = [run.wall_s for run in runs]
    steal, delay, clock = (statistics.median(one) for one in zip(*((run.steal, run.delay, run.clock) for run in runs), strict=True))
    invalid = sum(run.count("invalid") for run in runs)
    missing = sorted({label for run in runs for label in run.without})
    return (
        f"{name:<16}{len(runs):>3} runs: median {states}; {invalid} invalid in all; {min(walls):.0f} to {max(walls):.0f} s; "
        f"load {statistics.median(run.load for run in runs):.1f}, steal {steal:.1%}, before it run delay {delay:.1%}, "
        f"range of the clock {clock:.1%}; without a number: {', '.join(missing) or 'none'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before", default="", help="src folder of another version")
    parser.add_argument("--before-times", type=int, help="turns in which it takes part; all of them")
    parser.add_argument("--plan", default="quick")
    parser.add_argument("--keep", type=Path, help="file of JSON lines, one per run")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    versions = {"this version": "", **({"before": args.before} if args.before else {})}
    times: dict[tuple[str, str], list[Shown]] = {(name, how): [] for name in versions for how in ("quiet", "loaded")}
    kept = {one.at: one for one in earlier(args.keep)}
    before_times = args.times if args.before_times is None else args.before_times
    for turn in range(args.times):
        taking = versions if turn < before_times else {"this version": ""}
        order = random.Random(args.seed + turn).sample(list(taking.items()), len(taking))
        for how in ("quiet", "loaded"):
            for name, source in order:
                at = f"{turn} {how} {name}"
                if at not in kept:
                    with load(args.seed + turn) if how == "loaded" else nullcontext():
                        kept[at] = once(args.plan, source)
                    kept[at].at = at
                    if args.keep:
                        with args.keep.open("a", encoding="utf-8") as out:
                            print(json.dumps(kept[at].__dict__), file=out)
                times[name, how].append(kept[at])
                print(f"{turn + 1}/{args.times} {how} {name}: {times[name, how][-1].wall_s:.0f} s", file=sys.stderr)
    if args.json:
        print(json.dumps({f"{name}, {how}": [run.__dict__ for run in runs] for (name, how), runs in times.items()}))
        return 0
    print(f"{args.times} runs each, seed {args.seed}, {os.cpu_count()} processors\n")
    for (name, how), runs in times.items():
        print(summary_line(f"{name}, {how}", runs))
    quiet, loaded = times["this version", "quiet"], times["this version", "loaded"]
    rows = compared(quiet, loaded)
    print(f"\n{'case':<34}{'quiet':>12} {'unit':<9}{'loaded ÷ quiet':>15}{'allowed':>10}")
    for label, unit, middle, ratio, allowed, good in rows:
        print(f"{label:<34}{middle:>12.4g} {unit:<9}{ratio:>15.3f}{f'± {allowed:.0%}':>10}{'' if good else '  missed'}")
    print("\nas it is, in how many of the runs a case is not `measured`, and which notices")
    for place, first in enumerate(quiet[0].results):
        doubted = [one for run in quiet if (one := run.results[place])["state"] not in ("measured", "not_run")]
        if notices := Counter(next(iter(one["codes"]), "") for one in doubted):
            print(f"{first['name']:<34}{notices.total():>3}  {', '.join(f'{code} {count}' for code, count in notices.most_common())}")
    invalid = sum(run.count("invalid") for run in quiet + loaded)
    calm = [run for run in quiet if run.calm]
    usual = statistics.median(run.count("measured") for run in calm) if calm else 0
    aims = [
        (not any(run.without for run in quiet + loaded), "a number for every case that can run, in every run"),
        (invalid <= MOST_INVALID, f"at most {MOST_INVALID} invalid in all: {invalid}"),
        (all(row[-1] for row in rows), f"loaded within the allowance of quiet: {sum(row[-1] for row in rows)} of {len(rows)} cases"),
        (not calm or usual >= MEASURED_AIM, f"at least {MEASURED_AIM} measured, in the {len(calm)} runs where the host allows it"),
        (max(run.wall_s for run in quiet + loaded) < 180, "every run under 3 minutes"),
        (min(run.wall_s for run in quiet) < 100, "under 100 s where nothing disturbs it"),
    ]
    print()
    for good, text in aims:
        print(f"{'met   ' if good else 'missed'}  {text}")
    return 0 if all(good for good, _ in aims) else 1


if __name__ == "__main__":
    sys.exit(main())
