"""Of stutter injected into a simulated GPU that draws, the share of cases that say so, and false alarms beside.

    python benchmarks/frames_stutter.py [--seconds 0.05 0.3] [--seeds 3] [--json]

Every case of the plan `graphics` is measured for some seconds in one round, with 1 or 3 calls that take longer, and with none. A stutter
that no sample holds (it fell into warming up) is seen in the column beside. Exit code 1 where under 95 % of those cases have
the notice, or a clean one has it.
"""

from __future__ import annotations

import argparse
import json
import sys

from hotlap.core import plan
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.record import Case
from hotlap.core.store.fold import HITCH_S, fold

COUNTS, LONGER_S = (1, 3), (0.012, 0.02, 0.05, 0.2)
NOISE, ENOUGH = 0.005, 0.95


def noticed(case: Case, fault: str, seconds: float, seed: int) -> tuple[bool, bool]:
    """Whether the case has the notice, and whether a stutter fell into its samples."""
    spec = targets.parse(f"simulated:rtx-4090?{fault}noise={NOISE}&seed={seed}")
    target = targets.open_device(spec, targets.find(spec)[0])
    samples = measure(target, case, CaseBudget(seconds=seconds, round=0, seed=seed))
    usual = min(samples.values)
    held = any((value - usual) * samples.calls > HITCH_S / 2 for value in samples.values)
    return any(one.code == "stutter" for one in fold(case, [samples], "simulated").notices), held


def main() -> int:
    parser = argparse.ArgumentParser(description="stutter that is noticed, and false alarms")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.05, 0.3])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cases, rows = plan.load("graphics").cases, []
    for seconds in args.seconds:
        for count, longer_s in [(0, 0.0), *((count, longer_s) for count in COUNTS for longer_s in LONGER_S)]:
            fault = f"stutter={count}@{longer_s}s&" if count else ""
            seen = [noticed(case, fault, seconds, seed) for case in cases for seed in range(1, args.seeds + 1)]
            rows.append({
                "seconds": seconds, "calls": count, "longer_s": longer_s, "cases": len(seen), "noticed": sum(one for one, _ in seen),
                "held": sum(held for _, held in seen),
            })  # fmt: skip
    if args.json:
        print(json.dumps(rows))
    else:
        print(" seconds  injected      cases  in samples  noticed")
        for row in rows:
            what = f"{row['calls']} of {row['longer_s'] * 1e3:.0f} ms" if row["calls"] else "none"
            print(f"{row['seconds']:8.2f}  {what:<12}{row['cases']:7}{row['held']:12}{row['noticed']:9}")
    wrong = [row for row in rows if (row["noticed"] < ENOUGH * row["cases"] if row["calls"] else row["noticed"])]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
