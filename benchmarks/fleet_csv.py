"""A fleet from a CSV: processor time from the file to the verdict, how often slow nodes are named, and healthy ones.

    python benchmarks/fleet_csv.py [--nodes 500] [--cases 20] [--seeds 100]

Nodes differ by 1 % (drawn for each case) and rounds by 1 %. Three nodes are slower by 5 % in all cases; then none is.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis import fleets
from hotlap.core.record import Device, Machine, Plan, RunRecord, Samples
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import program

ROUNDS, NOISE, LOSS, SLOW = 3, 0.01, 0.05, 3


def drawn(seed: int, nodes: int, cases: int, slow: bool) -> tuple[NDArray[np.float64], set[str]]:
    """Nodes × cases × rounds, and the names of the slow ones."""
    source = np.random.default_rng(seed)
    values = 100 * np.exp(source.normal(0, NOISE, (nodes, cases, 1)) + source.normal(0, NOISE, (nodes, cases, ROUNDS)))
    chosen = source.choice(nodes, SLOW, replace=False) if slow else np.array([], dtype=int)
    values[chosen] *= 1 - LOSS
    return values, {f"node{node:04}" for node in chosen}


def bundles(values: NDArray[np.float64]) -> list[Bundle]:
    """As the import makes them, in memory."""
    cases = [program.IMPORTED.case({"name": f"case{c:02}", "unit": "B/s", "better": "higher"}) for c in range(values.shape[1])]
    device = Device(target="imported", index=0, name="H200", kind="other")
    kept = []
    for node, own in enumerate(values):
        run = RunRecord(
            id=f"run{node}", began="2026-11-01T00:00:00", kind="imported", hotlap="", plan=Plan(name="fleet", cases=cases),
            target="imported", machine=Machine(host=f"node{node:04}", devices=[device]), devices=[device.key],
        )  # fmt: skip
        samples = [
            Samples(case=case.id, device=device.key, round=number, values=[float(value)])
            for case, rounds in zip(cases, own, strict=True) for number, value in enumerate(rounds)
        ]  # fmt: skip
        kept.append(Bundle(run, Path(run.id), samples))
    return kept


def processor_time(values: NDArray[np.float64]) -> tuple[float, str]:
    """Seconds of user and system time of `import` and `gate`, and the verdict's last line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fleet.csv"
        rows = [
            f"2026-11-01,node{node:04},H200,case{case:02},{value:.6f},GB/s"
            for node, own in enumerate(values) for case, rounds in enumerate(own) for value in rounds
        ]  # fmt: skip
        path.write_text("\n".join(["time,host,gpu,case,value,unit", *rows]) + "\n", encoding="utf-8")
        environment = {**os.environ, "HOTLAP_HOME": f"{folder}/home"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "hotlap", "import", str(path)], env=environment, check=True, capture_output=True)
        gate = [sys.executable, "-m", "hotlap", "gate", "2026-11-01", "--against", "fleet"]
        answer = subprocess.run(gate, env=environment, check=False, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return seconds, f"{answer.stdout.splitlines()[-1]} (exit {answer.returncode})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 500), ("cases", 20), ("seeds", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    seconds, verdict = processor_time(drawn(0, args.nodes, args.cases, True)[0])
    print(f"{args.nodes} nodes × {args.cases} cases × {ROUNDS} rounds from CSV to verdict: {seconds:.1f} s of processor time")
    print(f"  {verdict}")
    all_named = false = healthy = 0
    for seed in range(args.seeds):
        values, slow = drawn(seed, args.nodes, args.cases, True)
        named = {device.host for device in fleets.judge(bundles(values)).devices if device.state == "fail"}
        all_named += slow <= named
        false += bool(named - slow)
        healthy += bool(fleets.judge(bundles(drawn(10_000 + seed, args.nodes, args.cases, False)[0])).named)
    print(f"{SLOW} nodes slower by {LOSS:.0%}: all named as failing in {all_named} of {args.seeds} seeds, a healthy one too in {false}")
    print(f"no node slower: any device named in {healthy} of {args.seeds} seeds (stated: {fleets.RATE:.0%})")


if __name__ == "__main__":
    main()
